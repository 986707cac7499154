//! `net show` and the parts that it has in common with `peer show`. Spec: lnet-admin §5.3.

use fulmar_lnet_wire::Nid;

use super::model::{ByType, Latency, Net, Ni, NiHealth, Traffic, Udsp};
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
    let mut map = Map::new();
    map.put("nid", ni.nid);
    map.put("status", if ni.up { "up" } else { "down" });
    if let Some(interface) = &ni.interface {
        map.put("interfaces", numbered(std::slice::from_ref(interface)));
    }
    if level >= 1 {
        if !ni.enabled {
            // Kernels have no such switch; it is shown only if it is off.
            map.put("enabled", false);
        }
        map.put("statistics", statistics(&ni.traffic, dialect));
    }
    if level >= 4 {
        map.put("udsp info", udsp_info(&ni.udsp));
    }
    if level >= 2 {
        by_type(&mut map, &ni.traffic);
        map.put("health stats", health(&ni.health));
    }
    if level >= 1 {
        let tunables = &ni.tunables;
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
            let Latency { samples, min_nsec, max_nsec, avg_nsec } = latency;
            map.put(&format!("{name}_samples"), samples);
            map.put(&format!("{name}_min_nsec"), min_nsec);
            map.put(&format!("{name}_max_nsec"), max_nsec);
            map.put(&format!("{name}_avg_nsec"), avg_nsec);
        }
    }
    map
}

/// Returns the effect of selection policies on an NI; −1 means no priority.
pub(crate) fn udsp_info(udsp: &Udsp) -> Map {
    let priority = |given: Option<u32>| given.map_or(-1, i64::from);
    let mut map = Map::new();
    map.put("net priority", priority(udsp.net_priority));
    map.put("nid priority", priority(udsp.nid_priority));
    for (key, nids) in [
        ("Preferred gateway NIDs", &udsp.preferred_gateways),
        ("Preferred source NIDs", &udsp.preferred_sources),
    ] {
        let one = |(n, nid): (usize, &Nid)| (format!("NID-{n}"), Value::from(*nid));
        if !nids.is_empty() {
            map.put(key, nids.iter().enumerate().map(one).collect::<Map>());
        }
    }
    map
}

pub(crate) fn by_type(map: &mut Map, traffic: &Traffic) {
    let counts = |counts: &ByType| -> Map {
        counts.named().iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect()
    };
    map.put("sent_stats", counts(&traffic.sent));
    map.put("received_stats", counts(&traffic.received));
    map.put("dropped_stats", counts(&traffic.dropped));
}

fn health(health: &NiHealth) -> Map {
    let mut map = Map::new();
    map.put("fatal_error", health.fatal_error);
    map.put("health value", health.value);
    map.put("interrupts", health.interrupts);
    map.put("dropped", health.dropped);
    map.put("aborted", health.aborted);
    map.put("no route", health.no_route);
    map.put("timeouts", health.timeouts);
    map.put("error", health.error);
    map.put("ping_count", health.ping_count);
    map.put("next_ping", health.next_ping);
    map
}
