//! Host names.

use std::net::IpAddr;

use crate::evidence::NamesResult;
use crate::finding::{Finding, Level, Place};

/// Judges how a name resolves.
pub fn names(seen: &NamesResult) -> Vec<Finding> {
    let name = &seen.name;
    let mut found = Vec::new();
    if let Some(error) = &seen.error {
        let level = if seen.own { Level::Note } else { Level::Error };
        let remedy =
            format!("add \"ADDRESS {name}\" to /etc/hosts on every host, or add the name to DNS");
        let what = format!("the name {name} does not resolve to an address");
        return vec![Finding::new(level, Place::Local, what, error.clone()).remedy(remedy)];
    }
    found.extend(loopback(seen));
    found.extend(mismatch(seen));
    found.extend(several(seen));
    found.extend(reverse(seen));
    if seen.took_ms >= SLOW_MS {
        let what = "name resolution is slow";
        let evidence = format!("{} ms for {name}", seen.took_ms);
        let remedy = "check /etc/resolv.conf: the first name server may not answer";
        found.push(Finding::new(Level::Warning, Place::Local, what, evidence).remedy(remedy));
    }
    if found.is_empty() {
        let what = match (seen.own, seen.literal) {
            (true, _) => "the host's own name resolves".to_owned(),
            (_, true) => "the target is an address: no name to resolve".to_owned(),
            _ => format!("{name} resolves, and forward and reverse names agree"),
        };
        found.push(Finding::ok(Place::Local, what, list(&seen.addresses)));
    }
    found
}

/// Slower name resolution delays every mount.
const SLOW_MS: u64 = 1000;

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn loopback(seen: &NamesResult) -> Option<Finding> {
    let is_loopback = !seen.literal && seen.addresses.iter().any(IpAddr::is_loopback);
    (is_loopback && seen.name != "localhost").then(|| {
        let name = &seen.name;
        let what = format!("the name {name} resolves to a loopback address");
        let remedy = format!(
            "in /etc/hosts, give {name} its network address instead of {}",
            list(&seen.addresses)
        );
        // A server that registers such a name registers an address that clients cannot reach.
        let level = if seen.own { Level::Note } else { Level::Warning };
        Finding::new(level, Place::Local, what, list(&seen.addresses)).remedy(remedy)
    })
}

fn mismatch(seen: &NamesResult) -> Option<Finding> {
    let (file, dns) = (&seen.hosts_file, &seen.dns);
    let disagree = !file.is_empty() && !dns.is_empty() && !file.iter().any(|a| dns.contains(a));
    disagree.then(|| {
        let what = "/etc/hosts and DNS do not agree";
        let evidence = format!("/etc/hosts: {}; DNS: {}", list(file), list(dns));
        let remedy = format!("correct {} in /etc/hosts, or remove it there", seen.name);
        Finding::new(Level::Warning, Place::Local, what, evidence).remedy(remedy)
    })
}

fn several(seen: &NamesResult) -> Option<Finding> {
    let families = [IpAddr::is_ipv4, IpAddr::is_ipv6];
    let several = families.iter().any(|is| seen.addresses.iter().filter(|a| is(a)).count() > 1);
    (several && !seen.own).then(|| {
        let what = "the name resolves to several addresses, and LNet uses one of them";
        let remedy = "use addresses instead of names in NIDs, in mount and mkfs.lustre commands";
        Finding::new(Level::Note, Place::Local, what, list(&seen.addresses)).remedy(remedy)
    })
}

fn reverse(seen: &NamesResult) -> Option<Finding> {
    if seen.literal || seen.own {
        return None;
    }
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let mismatch = seen.reverse.iter().find(|(_, names)| {
        !names.is_empty() && !names.iter().any(|name| short(name) == short(&seen.name))
    });
    mismatch.map(|(address, names)| {
        let what = format!("the reverse name of {address} is not {}", seen.name);
        let remedy = "correct the reverse zone or /etc/hosts, unless this is intended";
        Finding::new(Level::Note, Place::Local, what, names.join(" ")).remedy(remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, addresses: &[&str]) -> NamesResult {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        NamesResult { name: name.into(), addresses, ..NamesResult::default() }
    }

    fn worst(seen: &NamesResult) -> (Level, String) {
        let findings = names(seen);
        let worst = findings.into_iter().max_by_key(|finding| finding.level).unwrap();
        (worst.level, worst.what)
    }

    #[test]
    fn a_name_whose_reverse_name_agrees_is_ok() {
        let mut good = seen("oss1", &["10.0.0.5"]);
        good.reverse = vec![(good.addresses[0], vec!["oss1.site".into()])];
        assert_eq!(worst(&good).0, Level::Ok);
    }

    #[test]
    fn problems_of_a_name_are_reported() {
        let mut unknown = seen("oss9", &[]);
        unknown.error = Some("Name or service not known".into());
        assert_eq!(worst(&unknown).0, Level::Error);
        assert_eq!(worst(&seen("oss1", &["127.0.1.1"])).0, Level::Warning);
        assert_eq!(worst(&seen("oss1", &["10.0.0.5", "10.1.0.5"])).0, Level::Note);
        assert_eq!(worst(&seen("oss1", &["10.0.0.5", "fd00::5"])).0, Level::Ok);
        let mut other = seen("oss1", &["10.0.0.5"]);
        other.reverse = vec![(other.addresses[0], vec!["mds7.site".into()])];
        assert_eq!(worst(&other).0, Level::Note);
        let mut both = seen("oss1", &["10.0.0.5"]);
        both.hosts_file = both.addresses.clone();
        both.dns = vec!["10.0.0.6".parse().unwrap()];
        assert!(worst(&both).1.contains("do not agree"));
    }
}
