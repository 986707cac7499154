//! `net show` and the parts that it has in common with `peer show`. Spec: lnet-admin §5.3.

use fulmar_lnet::views::{ByType, Health, PRIORITY_LOWEST, Traffic};
use fulmar_lnet_wire::Nid;

use super::model::{Net, Ni};
use crate::value::{Dialect, Map, MapExt, Value};

/// Returns the block `net`, empty without nets. `level` is 0 to 4, as `-v` gives it.
pub(crate) fn nets(nets: &[Net], level: u8, dialect: Dialect) -> Map {
    let one = |net: &Net| {
        let mut map = Map::new();
        map.put("net type", net.net);
        map.put("local NI(s)", Value::from_iter(net.nis.iter().map(|n| ni(n, level, dialect))));
        map
    };
    let mut block = Map::new();
    if !nets.is_empty() {
        block.put("net", Value::from_iter(nets.iter().map(one)));
    }
    block
}

fn ni(ni: &Ni, level: u8, dialect: Dialect) -> Map {
    let view = &ni.view;
    let mut map = Map::new();
    map.put("nid", view.nid);
    map.put("status", if view.up { "up" } else { "down" });
    if let Some(interface) = &ni.interface {
        map.put("interfaces", numbered(std::slice::from_ref(interface)));
    }
    if level >= 1 {
        if !view.enabled {
            // Kernels have no such switch; it is shown only if it is off.
            map.put("enabled", false);
        }
        map.put("statistics", statistics(&view.traffic, dialect));
    }
    if level >= 4 {
        let rules = Preferences {
            net_priority: view.net_priority,
            nid_priority: view.priority,
            gateways: &[],
            sources: &[],
        };
        map.put("udsp info", rules.shown());
    }
    if level >= 2 {
        by_type(&mut map, &view.traffic);
        map.put("health stats", health(&view.health, view.fatal));
    }
    if level >= 1 {
        let tunables = &view.tunables;
        let mut credits = Map::new();
        credits.put("peer_timeout", tunables.peer_timeout);
        credits.put("peer_credits", tunables.peer_credits);
        credits.put("peer_buffer_credits", tunables.peer_buffer_credits);
        credits.put("credits", tunables.credits);
        map.put("tunables", credits);
        if let Some(lnd) = &ni.lnd {
            let mut settings = Map::new();
            settings.put("conns_per_peer", lnd.conns_per_peer);
            if dialect == Dialect::Netlink {
                settings.put("timeout", lnd.timeout);
                settings.put("tos", lnd.tos);
            }
            map.put("lnd tunables", settings);
        }
        map.put("dev cpt", ni.dev_cpt);
        map.put("CPT", cpts(&ni.cpts));
    }
    map
}

/// Returns `0: eth0`, `1: eth1`, ….
pub(crate) fn numbered(names: &[String]) -> Map {
    let one = |(index, name): (usize, &String)| (index.to_string(), Value::from(name.as_str()));
    names.iter().enumerate().map(one).collect()
}

/// Returns `[0,1]`.
pub(crate) fn cpts(cpts: &[u32]) -> String {
    let numbers: Vec<String> = cpts.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(","))
}

pub(crate) fn statistics(traffic: &Traffic, dialect: Dialect) -> Map {
    let mut map = Map::new();
    map.put("send_count", traffic.sent.total());
    map.put("recv_count", traffic.received.total());
    map.put("drop_count", traffic.dropped.total());
    if dialect == Dialect::Netlink {
        let all = [
            ("put_egress", traffic.put_egress),
            ("get_rtt", traffic.get_rtt),
            ("put_ack", traffic.put_ack),
        ];
        for (name, latency) in all {
            map.put(&format!("{name}_samples"), latency.samples);
            map.put(&format!("{name}_min_nsec"), latency.min_nsec);
            map.put(&format!("{name}_max_nsec"), latency.max_nsec);
            map.put(&format!("{name}_avg_nsec"), latency.avg_nsec());
        }
    }
    map
}

/// The effect of selection policies on an NI or a peer NI.
#[derive(Clone, Copy)]
pub(crate) struct Preferences<'a> {
    pub(crate) net_priority: u32,
    pub(crate) nid_priority: u32,
    pub(crate) gateways: &'a [Nid],
    pub(crate) sources: &'a [Nid],
}

impl Preferences<'_> {
    /// Returns the block `udsp info`; a priority of −1 means that no rule matches.
    pub(crate) fn shown(&self) -> Map {
        let priority = |given| match given {
            PRIORITY_LOWEST => -1,
            given => i64::from(given),
        };
        let mut map = Map::new();
        map.put("net priority", priority(self.net_priority));
        map.put("nid priority", priority(self.nid_priority));
        for (key, nids) in
            [("Preferred gateway NIDs", self.gateways), ("Preferred source NIDs", self.sources)]
        {
            let one = |(n, nid): (usize, &Nid)| (format!("NID-{n}"), Value::from(*nid));
            if !nids.is_empty() {
                map.put(key, nids.iter().enumerate().map(one).collect::<Map>());
            }
        }
        map
    }
}

pub(crate) fn by_type(map: &mut Map, traffic: &Traffic) {
    let counts = |counts: &ByType| -> Map {
        counts.named().iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect()
    };
    map.put("sent_stats", counts(&traffic.sent));
    map.put("received_stats", counts(&traffic.received));
    map.put("dropped_stats", counts(&traffic.dropped));
}

fn health(health: &Health, fatal: bool) -> Map {
    let mut map = Map::new();
    map.put("fatal_error", u32::from(fatal));
    map.put("health value", health.value);
    map.put("interrupts", health.interrupts);
    map.put("dropped", health.dropped);
    map.put("aborted", health.aborted);
    map.put("no route", health.no_route);
    map.put("timeouts", health.timeouts);
    map.put("error", health.error);
    map.put("ping_count", health.ping_count);
    map.put("next_ping", next_ping(health));
    map
}

/// Returns the time of the next recovery ping in seconds of the node's clock, as kernels show it.
pub(crate) fn next_ping(health: &Health) -> u64 {
    health.next_ping.map_or(0, |at| at.as_secs())
}
