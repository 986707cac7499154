//! CPU governors, resource limits, and signs of a firewall.

use fulmar_text::percent;

use crate::evidence::Host;
use crate::finding::{Finding, Level, Place};

/// Judges the CPU frequency governor.
pub fn cpu(place: Place, host: &Host) -> Vec<Finding> {
    let evidence = format!(
        "{} CPUs, governor {}",
        host.processors,
        match host.governors.len() {
            0 => "none (hardware or hypervisor controls the frequency)".to_owned(),
            _ => host.governors.join(" "),
        }
    );
    let slow = host.governors.iter().any(|word| word != "performance");
    if !slow {
        return vec![Finding::ok(place, "CPUs run at full frequency", evidence)];
    }
    let what = "CPUs lower their frequency when idle, which adds latency";
    let remedy = "cpupower frequency-set -g performance, or: tuned-adm profile network-throughput";
    vec![Finding::new(Level::Note, place, what, evidence).remedy(remedy)]
}

/// A node has a few connections to each peer, and a server has thousands of peers.
const FILES_LEAST: u64 = 4096;

/// Judges the limit of open files.
pub fn limits(place: Place, host: &Host) -> Vec<Finding> {
    let text = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit| limit.to_string());
    let (soft, hard) = (host.open_files.soft, host.open_files.hard);
    let evidence = format!("open files: soft limit {}, hard limit {}", text(soft), text(hard));
    if soft.is_none_or(|soft| soft >= FILES_LEAST) {
        return vec![Finding::ok(place, "the limit of open files is high enough", evidence)];
    }
    let what = "the limit of open files is too low for a node with many peers";
    let remedy = "ulimit -n 65536; for a service: LimitNOFILE=65536";
    vec![Finding::new(Level::Note, place, what, evidence).remedy(remedy)]
}

/// A connection table fuller than this may soon drop new connections.
const TRACKED_WARNING: f64 = 0.8;

/// Judges signs of a firewall. `reached` is whether port 988 of the remote host accepted a
/// connection, so that its firewall cannot block it.
pub fn firewall(place: Place, host: &Host, reached: bool) -> Vec<Finding> {
    let seen = &host.firewall;
    let mut found = Vec::new();
    let tool = seen.tool.as_deref().unwrap_or("unknown tool");
    if seen.drops_by_default && !seen.names_port && !(place == Place::Remote && reached) {
        let what = "the firewall drops packets by default, and no rule accepts TCP port 988";
        let evidence =
            format!("found by {tool}; a rule may still accept it by address or interface");
        let remedy = "firewall-cmd --permanent --add-port=988/tcp && firewall-cmd --reload; or: \
                      nft add rule inet filter input tcp dport 988 accept";
        found.push(Finding::new(Level::Warning, place, what, evidence).remedy(remedy));
    }
    if let Some((count, max)) = seen.tracked {
        let share = count as f64 / max.max(1) as f64;
        if share >= TRACKED_WARNING {
            let what = "the connection tracking table is nearly full";
            let evidence = format!("{count} of {max} entries ({})", percent(share));
            let remedy =
                format!("sysctl -w net.netfilter.nf_conntrack_max={}", max.saturating_mul(4));
            found.push(Finding::new(Level::Warning, place, what, evidence).remedy(remedy));
        }
    }
    if found.is_empty() {
        let evidence = match &seen.tool {
            Some(tool) => format!("checked with {tool}"),
            None => "neither nft nor iptables could be run".to_owned(),
        };
        found.push(Finding::ok(place, "no sign of a firewall that blocks LNet", evidence));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Firewall, Limit};

    #[test]
    fn governors_and_limits_are_reported() {
        let host = |governor: &str, soft| Host {
            governors: vec![governor.into()],
            open_files: Limit { soft: Some(soft), hard: Some(524_288) },
            ..Host::default()
        };
        assert_eq!(cpu(Place::Local, &host("performance", 1))[0].level, Level::Ok);
        assert_eq!(cpu(Place::Local, &host("powersave", 1))[0].level, Level::Note);
        assert_eq!(limits(Place::Local, &host("", 1024))[0].level, Level::Note);
        assert_eq!(limits(Place::Local, &host("", 65_536))[0].level, Level::Ok);
        assert_eq!(limits(Place::Local, &Host::default())[0].level, Level::Ok, "no limit");
    }

    #[test]
    fn a_firewall_matters_unless_the_port_was_reached() {
        let firewall_of = |tracked| Host {
            firewall: Firewall { drops_by_default: true, tracked, ..Firewall::default() },
            ..Host::default()
        };
        let host = firewall_of(None);
        assert_eq!(firewall(Place::Local, &host, true)[0].level, Level::Warning);
        assert_eq!(firewall(Place::Remote, &host, true)[0].level, Level::Ok);
        assert_eq!(
            firewall(Place::Remote, &firewall_of(Some((90, 100))), true)[0].level,
            Level::Warning
        );
        assert_eq!(firewall(Place::Remote, &firewall_of(Some((1, 0))), true).len(), 1);
    }
}
