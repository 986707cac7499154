//! `peer show` and `peer list`. Spec: lnet-admin §6.

use fulmar_lnet::views::{Health, Peer, PeerNi};

use super::net::{Preferences, by_type, next_ping, statistics};
use crate::value::{Dialect, Map, MapExt, Value};

/// Returns the block `peer`, empty without peers. `level` is 0 to 4, as `-v` gives it.
pub(crate) fn peers(peers: &[Peer], level: u8, dialect: Dialect) -> Map {
    let one = |peer: &Peer| {
        let mut map = Map::new();
        map.put("primary nid", peer.primary);
        map.put("Multi-Rail", peer.multi_rail);
        if level >= 3 {
            map.put("peer state", peer.state);
        }
        let nis = peer.nis.iter().map(|ni| peer_ni(ni, level, dialect));
        map.put("peer ni", Value::from_iter(nis));
        map
    };
    block("peer", peers.iter().map(one))
}

/// Returns the block `peer list`: primary NIDs.
pub(crate) fn list(peers: &[Peer]) -> Map {
    block("peer list", peers.iter().map(|peer| vec![("nid".into(), peer.primary.into())]))
}

/// Returns a list under `key`, or nothing if it is empty.
pub(crate) fn block(key: &str, items: impl Iterator<Item = Map>) -> Map {
    let mut block = Map::new();
    match Value::from_iter(items) {
        Value::List(items) if items.is_empty() => {}
        items => block.put(key, items),
    }
    block
}

fn peer_ni(ni: &PeerNi, level: u8, dialect: Dialect) -> Map {
    let mut map = Map::new();
    map.put("nid", ni.nid);
    if level >= 4 {
        let rules = Preferences {
            net_priority: ni.net_priority,
            nid_priority: ni.priority,
            gateways: &ni.preferred_gateways,
            sources: &ni.preferred_nids,
        };
        map.put("udsp info", rules.shown());
    }
    map.put("state", state(ni.alive));
    if level >= 1 {
        map.put("max_ni_tx_credits", ni.credits_max);
        map.put("available_tx_credits", ni.credits);
        map.put("min_tx_credits", ni.credits_min);
        map.put("tx_q_num_of_buf", ni.queued_bytes);
        map.put("available_rtr_credits", ni.router_credits);
        map.put("min_rtr_credits", ni.router_credits_min);
        map.put("refcount", ni.refcount);
        map.put("statistics", statistics(&ni.traffic, dialect));
    }
    if level >= 2 {
        by_type(&mut map, &ni.traffic);
        map.put("health stats", health(&ni.health));
    }
    map
}

pub(crate) fn state(up: Option<bool>) -> &'static str {
    match up {
        Some(true) => "up",
        Some(false) => "down",
        None => "NA",
    }
}

fn health(health: &Health) -> Map {
    let mut map = Map::new();
    map.put("health value", health.value);
    map.put("dropped", health.dropped);
    map.put("timeout", health.timeouts);
    map.put("error", health.error);
    map.put("network timeout", health.network_timeout);
    map.put("ping_count", health.ping_count);
    map.put("next_ping", next_ping(health));
    map
}
