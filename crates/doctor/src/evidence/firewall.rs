//! Signs of a firewall. Rules are not interpreted: only the default policy and the port are read.

use serde::{Deserialize, Serialize};

use super::command::output;
use super::number;

/// Signs of a firewall on a host. Reading them requires root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// The tool that listed the rules, such as `nft`.
    pub tool: Option<String>,
    /// Whether incoming packets that match no rule are dropped.
    pub drops_by_default: bool,
    /// Whether a rule contains port 988.
    pub names_port: bool,
    /// Tracked connections, and the most that the kernel can track.
    pub tracked: Option<(u64, u64)>,
}

/// Reads the rules with the tools of the host.
pub(super) fn gather() -> Firewall {
    let tracked = || {
        let base = "/proc/sys/net/netfilter/nf_conntrack";
        Some((number(format!("{base}_count"))?, number(format!("{base}_max"))?))
    };
    let seen = nftables().or_else(iptables).unwrap_or_default();
    Firewall { tracked: tracked(), ..seen }
}

fn nftables() -> Option<Firewall> {
    let text = output("nft", &["list", "ruleset"]).filter(|text| !text.trim().is_empty())?;
    Some(Firewall { tool: Some("nft".into()), ..of_nft(&text) })
}

fn of_nft(text: &str) -> Firewall {
    let input = text.lines().filter(|line| line.contains("hook input"));
    Firewall {
        drops_by_default: input.clone().any(|line| line.contains("policy drop"))
            || text.lines().any(|line| line.trim_start().starts_with("reject with icmpx")),
        names_port: names_port(text),
        ..Firewall::default()
    }
}

fn iptables() -> Option<Firewall> {
    let text = output("iptables", &["-S", "INPUT"])?;
    Some(Firewall { tool: Some("iptables".into()), ..of_iptables(&text) })
}

fn of_iptables(text: &str) -> Firewall {
    let last = text.lines().last().unwrap_or_default();
    let everything = last == "-A INPUT -j DROP" || last.starts_with("-A INPUT -j REJECT");
    Firewall {
        drops_by_default: text.lines().any(|line| line == "-P INPUT DROP") || everything,
        names_port: names_port(text),
        ..Firewall::default()
    }
}

fn names_port(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "988")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firewall_that_drops_by_default_is_recognised() {
        let text = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority \
                    filter; policy drop;\n\t\ttcp dport 22 accept\n\t}\n}";
        let seen = of_nft(text);
        assert!(seen.drops_by_default && !seen.names_port);
        assert!(of_nft(&text.replace("dport 22", "dport { 22, 988 }")).names_port);
        let seen = of_iptables("-P INPUT ACCEPT\n-A INPUT -p tcp --dport 988 -j ACCEPT\n");
        assert!(!seen.drops_by_default && seen.names_port);
        assert!(of_iptables("-P INPUT DROP\n").drops_by_default);
        assert!(
            of_iptables("-P INPUT ACCEPT\n-A INPUT -j REJECT --reject-with a").drops_by_default
        );
    }
}
