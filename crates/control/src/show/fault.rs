//! Injected faults. Spec: lnet-admin §14, §19.4.

use fulmar_lnet::views::{self, ByType};
use serde::{Deserialize, Serialize};

use crate::config::{FaultAction, FaultConf};
use crate::value::{Family, Map, MapExt, Report};

/// An injected fault, and its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its configuration, with its message types filled in.
    pub rule: FaultConf,
    /// Messages that matched, to which a rate or an interval applied.
    pub examined: u64,
    /// Messages that were dropped, failed or delayed.
    pub hits: ByType,
}

impl From<views::Fault> for Fault {
    fn from(view: views::Fault) -> Self {
        Self { rule: view.rule.into(), examined: view.examined, hits: view.hits }
    }
}

/// `fault drop show` or `fault delay show`.
pub fn fault_show(faults: &[Fault]) -> Report {
    Report::one(Family::Listing, super::peer::block("fault", faults.iter().map(fault)))
}

fn fault(fault: &Fault) -> Map {
    let Fault { rule, examined, hits } = fault;
    let mut map = Map::new();
    map.put("rule_type", rule.action.name());
    map.put("fa_src", rule.source.to_string());
    map.put("fa_dst", rule.target.to_string());
    map.put("fa_ptl_mask", rule.portals);
    map.put("fa_msg_mask", rule.types);
    match rule.action {
        FaultAction::Drop => {
            map.put("da_rate", rule.rate);
            map.put("da_interval", rule.interval);
            map.put("ds_dropped", hits.total());
        }
        FaultAction::Delay => {
            map.put("la_rate", rule.rate);
            map.put("la_interval", rule.interval);
            map.put("la_latency", rule.latency);
            map.put("ls_delayed", hits.total());
        }
    }
    map.put("fs_count", *examined);
    map.put("fs_put", hits.put);
    map.put("fs_ack", hits.ack);
    map.put("fs_get", hits.get);
    map.put("fs_reply", hits.reply);
    map
}

/// Returns the output of `lctl net_drop_list` and `net_delay_list` after its title.
///
/// Releases from 2.16 on count one rule too many; this is the count of others.
pub fn fault_lines(faults: &[Fault]) -> String {
    let lines: String = faults.iter().map(line).collect();
    format!("{lines}found total {}\n", faults.len())
}

fn line(fault: &Fault) -> String {
    let Fault { rule, examined, hits } = fault;
    let portals = match rule.portals {
        0 => "0".to_owned(),
        mask => format!("{mask:#x}"),
    };
    let latency = match rule.action {
        FaultAction::Drop => String::new(),
        FaultAction::Delay => format!(", latency {}", rule.latency),
    };
    format!(
        "{}->{} (1/{} | {}) ptl {portals}, msg {:x}, {}/{examined}, \
         PUT {}, ACK {}, GET {}, REP {}{latency}\n",
        rule.source,
        rule.target,
        rule.rate,
        rule.interval,
        rule.types,
        hits.total(),
        hits.put,
        hits.ack,
        hits.get,
        hits.reply,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Dialect;

    fn faults() -> [Fault; 2] {
        let nid = |text: &str| text.parse().unwrap();
        let drop = FaultConf {
            types: 2,
            rate: 100,
            ..FaultConf::new(FaultAction::Drop, nid("10.0.0.1@tcp"), nid("*@tcp"))
        };
        let delay = FaultConf {
            types: 15,
            rate: 10,
            latency: 5,
            ..FaultConf::new(FaultAction::Delay, nid("10.0.0.1@tcp"), nid("*"))
        };
        let hits = |put, get, reply| ByType { put, get, reply, ..ByType::default() };
        [
            Fault { rule: drop, examined: 310, hits: hits(3, 0, 0) },
            Fault { rule: delay, examined: 120, hits: hits(6, 3, 3) },
        ]
    }

    /// The example of lnet-admin §14.
    #[test]
    fn rules_are_listed_with_their_counters() {
        let expected = "fault:\n\
            -     rule_type: drop\n      fa_src: 10.0.0.1@tcp\n      fa_dst: 255.255.255.255@tcp\n\
            \x20     fa_ptl_mask: 0\n      fa_msg_mask: 2\n      da_rate: 100\n      da_interval: 0\n\
            \x20     ds_dropped: 3\n      fs_count: 310\n      fs_put: 3\n      fs_ack: 0\n\
            \x20     fs_get: 0\n      fs_reply: 0\n\
            -     rule_type: delay\n      fa_src: 10.0.0.1@tcp\n      fa_dst: <?>\n\
            \x20     fa_ptl_mask: 0\n      fa_msg_mask: 15\n      la_rate: 10\n      la_interval: 0\n\
            \x20     la_latency: 5\n      ls_delayed: 12\n      fs_count: 120\n      fs_put: 6\n\
            \x20     fs_ack: 0\n      fs_get: 3\n      fs_reply: 3\n";
        assert_eq!(fault_show(&faults()).to_yaml(Dialect::Netlink), expected);
        assert_eq!(fault_show(&[]).to_yaml(Dialect::Netlink), "");
    }

    #[test]
    fn lctl_has_a_line_for_each_rule() {
        let [mut drop, delay] = faults();
        assert_eq!(
            fault_lines(&[drop.clone(), delay]),
            "10.0.0.1@tcp->255.255.255.255@tcp (1/100 | 0) ptl 0, msg 2, 3/310, \
             PUT 3, ACK 0, GET 0, REP 0\n\
             10.0.0.1@tcp-><?> (1/10 | 0) ptl 0, msg f, 12/120, \
             PUT 6, ACK 0, GET 3, REP 3, latency 5\n\
             found total 2\n"
        );
        drop.rule.portals = 1 << 12 | 1 << 3;
        assert!(fault_lines(&[drop]).contains(" ptl 0x1008, msg 2,"));
        assert_eq!(fault_lines(&[]), "found total 0\n");
    }
}
