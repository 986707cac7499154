//! Names.

use std::net::IpAddr;

use crate::evidence::NamesSeen;
use crate::finding::{Finding, Level, Place};

/// Judges what a name stands for.
pub fn names(seen: &NamesSeen) -> Vec<Finding> {
    let name = &seen.name;
    let mut found = Vec::new();
    if let Some(error) = &seen.error {
        let level = if seen.own { Level::Note } else { Level::Error };
        let mend = format!(
            "add \"ADDRESS {name}\" to /etc/hosts on every host, or the name to the name service"
        );
        let what = format!("the name {name} stands for no address");
        return vec![Finding::new(level, Place::Here, what, error.clone()).mend(mend)];
    }
    found.extend(loopback(seen));
    found.extend(mismatch(seen));
    found.extend(several(seen));
    found.extend(reverse(seen));
    if seen.took_ms >= SLOW_MS {
        let what = "looking the name up takes long";
        let evidence = format!("{} ms for {name}", seen.took_ms);
        let mend = "see /etc/resolv.conf: a server that is named first and does not answer?";
        found.push(Finding::new(Level::Warning, Place::Here, what, evidence).mend(mend));
    }
    if found.is_empty() {
        let what = match (seen.own, seen.literal) {
            (true, _) => "this host's name stands for its address".to_owned(),
            (_, true) => "an address was given: no name to look up".to_owned(),
            _ => format!("{name} stands for an address, and both ways agree"),
        };
        found.push(Finding::ok(Place::Here, what, list(&seen.addresses)));
    }
    found
}

/// A name that takes longer delays every mount.
const SLOW_MS: u64 = 1000;

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn loopback(seen: &NamesSeen) -> Option<Finding> {
    let inward = !seen.literal && seen.addresses.iter().any(IpAddr::is_loopback);
    (inward && seen.name != "localhost").then(|| {
        let name = &seen.name;
        let what = format!("the name {name} stands for a loopback address");
        let mend = format!(
            "in /etc/hosts, give {name} its network address instead of {}",
            list(&seen.addresses)
        );
        // Servers that register by such a name register where nobody reaches them.
        let level = if seen.own { Level::Note } else { Level::Warning };
        Finding::new(level, Place::Here, what, list(&seen.addresses)).mend(mend)
    })
}

fn mismatch(seen: &NamesSeen) -> Option<Finding> {
    let (file, dns) = (&seen.hosts_file, &seen.dns);
    let disagree = !file.is_empty() && !dns.is_empty() && !file.iter().any(|a| dns.contains(a));
    disagree.then(|| {
        let what = "/etc/hosts and the name service do not agree";
        let evidence = format!("/etc/hosts: {}; name service: {}", list(file), list(dns));
        let mend = format!("remove {} from /etc/hosts, or correct it", seen.name);
        Finding::new(Level::Warning, Place::Here, what, evidence).mend(mend)
    })
}

fn several(seen: &NamesSeen) -> Option<Finding> {
    let families = [IpAddr::is_ipv4, IpAddr::is_ipv6];
    let several = families.iter().any(|is| seen.addresses.iter().filter(|a| is(a)).count() > 1);
    (several && !seen.own).then(|| {
        let what = "the name stands for several addresses, and LNet takes one";
        let mend = "name NIDs by address: in mount commands, and with --network in formatting";
        Finding::new(Level::Note, Place::Here, what, list(&seen.addresses)).mend(mend)
    })
}

fn reverse(seen: &NamesSeen) -> Option<Finding> {
    if seen.literal || seen.own {
        return None;
    }
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let strange = seen.reverse.iter().find(|(_, names)| {
        !names.is_empty() && !names.iter().any(|name| short(name) == short(&seen.name))
    });
    strange.map(|(address, names)| {
        let what = format!("{address} is called otherwise than {}", seen.name);
        let mend = "correct the reverse zone, or /etc/hosts, if that is not on purpose";
        Finding::new(Level::Note, Place::Here, what, names.join(" ")).mend(mend)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, addresses: &[&str]) -> NamesSeen {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        NamesSeen { name: name.into(), addresses, ..NamesSeen::default() }
    }

    fn worst(seen: &NamesSeen) -> (Level, String) {
        let findings = names(seen);
        let worst = findings.into_iter().max_by_key(|finding| finding.level).unwrap();
        (worst.level, worst.what)
    }

    #[test]
    fn a_name_that_agrees_both_ways_is_fine() {
        let mut good = seen("oss1", &["10.0.0.5"]);
        good.reverse = vec![(good.addresses[0], vec!["oss1.site".into()])];
        assert_eq!(worst(&good).0, Level::Ok);
    }

    #[test]
    fn what_is_wrong_with_a_name_is_told() {
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
