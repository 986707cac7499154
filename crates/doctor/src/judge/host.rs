//! Processors, limits of processes, and hints of a firewall.

use fulmar_text::percent;

use crate::evidence::Host;
use crate::finding::{Finding, Level, Place};

/// Judges how the speed of processors is governed.
pub fn cpu(place: Place, host: &Host) -> Vec<Finding> {
    let evidence = format!(
        "{} processors, governor {}",
        host.processors,
        match host.governors.len() {
            0 => "none: hardware or a hypervisor decides".to_owned(),
            _ => host.governors.join(" "),
        }
    );
    let slow = host.governors.iter().any(|word| word != "performance");
    if !slow {
        return vec![Finding::ok(place, "processors run as fast as they may", evidence)];
    }
    let what = "processors wait to be busy before they run fast";
    let mend = "cpupower frequency-set -g performance, or: tuned-adm profile network-throughput";
    vec![Finding::new(Level::Note, place, what, evidence).mend(mend)]
}

/// A node has a few connections to each peer, and a server thousands of peers.
const FILES_LEAST: u64 = 4096;

/// Judges limits of processes.
pub fn limits(place: Place, host: &Host) -> Vec<Finding> {
    let text = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit| limit.to_string());
    let (soft, hard) = (host.open_files.soft, host.open_files.hard);
    let evidence = format!("open files: {}, can be raised to {}", text(soft), text(hard));
    if soft.is_none_or(|soft| soft >= FILES_LEAST) {
        return vec![Finding::ok(place, "processes may open enough files", evidence)];
    }
    let what = "a node with many peers may run out of open files";
    let mend = "ulimit -n 65536; for a service: LimitNOFILE=65536";
    vec![Finding::new(Level::Note, place, what, evidence).mend(mend)]
}

/// A table of connections that is so full soon drops new ones.
const TRACKED_WARNING: f64 = 0.8;

/// Judges hints of a firewall. `reached` says whether the far end's port 988 was reached, which
/// shows that its firewall lets it pass.
pub fn firewall(place: Place, host: &Host, reached: bool) -> Vec<Finding> {
    let seen = &host.firewall;
    let mut found = Vec::new();
    let tool = seen.tool.as_deref().unwrap_or("no tool could be asked");
    if seen.drops_by_default && !seen.names_port && !(place == Place::There && reached) {
        let what = "a firewall drops what it is not told of, and it is not told of TCP port 988";
        let evidence = format!("by {tool}; its rules may let it pass by address or interface");
        let mend = "firewall-cmd --permanent --add-port=988/tcp && firewall-cmd --reload; or: nft add \
                    rule inet filter input tcp dport 988 accept";
        found.push(Finding::new(Level::Warning, place, what, evidence).mend(mend));
    }
    if let Some((count, max)) = seen.tracked {
        let share = count as f64 / max.max(1) as f64;
        if share >= TRACKED_WARNING {
            let what = "the firewall's table of connections is nearly full";
            let evidence = format!("{count} of {max} ({})", percent(share));
            let mend =
                format!("sysctl -w net.netfilter.nf_conntrack_max={}", max.saturating_mul(4));
            found.push(Finding::new(Level::Warning, place, what, evidence).mend(mend));
        }
    }
    if found.is_empty() {
        let evidence = match &seen.tool {
            Some(tool) => format!("by {tool}"),
            None => "neither nft nor iptables could be asked".to_owned(),
        };
        found.push(Finding::ok(place, "no sign of a firewall in the way", evidence));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Firewall, Limit};

    #[test]
    fn governors_and_limits_are_told() {
        let host = |governor: &str, soft| Host {
            governors: vec![governor.into()],
            open_files: Limit { soft: Some(soft), hard: Some(524_288) },
            ..Host::default()
        };
        assert_eq!(cpu(Place::Here, &host("performance", 1))[0].level, Level::Ok);
        assert_eq!(cpu(Place::Here, &host("powersave", 1))[0].level, Level::Note);
        assert_eq!(limits(Place::Here, &host("", 1024))[0].level, Level::Note);
        assert_eq!(limits(Place::Here, &host("", 65_536))[0].level, Level::Ok);
        assert_eq!(limits(Place::Here, &Host::default())[0].level, Level::Ok, "no limit");
    }

    #[test]
    fn a_firewall_matters_unless_the_port_was_reached() {
        let firewall_of = |tracked| Host {
            firewall: Firewall { drops_by_default: true, tracked, ..Firewall::default() },
            ..Host::default()
        };
        let host = firewall_of(None);
        assert_eq!(firewall(Place::Here, &host, true)[0].level, Level::Warning);
        assert_eq!(firewall(Place::There, &host, true)[0].level, Level::Ok);
        assert_eq!(
            firewall(Place::There, &firewall_of(Some((90, 100))), true)[0].level,
            Level::Warning
        );
        assert_eq!(firewall(Place::There, &firewall_of(Some((1, 0))), true).len(), 1);
    }
}
