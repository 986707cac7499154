//! `route show` and `routing show`. Spec: lnet-admin §7, §8.

use fulmar_lnet::views::{Pool, Quantiles, Route, Routing, Transit};
use fulmar_lnet_wire::Nid;

use super::peer::block;
use crate::config::BuffersConf;
use crate::value::{Map, MapExt, Value};

/// The level of verbosity from which lists have values that Lustre's tools do not have.
const LEVEL_OF_OURS: u8 = 4;

/// The names of [`Routing::pools`].
pub const POOLS: [&str; 3] = ["tiny", "small", "large"];

/// Returns the block `route`, empty without routes.
pub(super) fn routes(all: &[Route], level: u8) -> Map {
    let one = |route: &Route| {
        let mut map = Map::new();
        map.put("net", route.net);
        map.put("gateway", route.gateway);
        if level >= 1 {
            map.put("hop", route.hops.map_or(-1, i64::from));
            map.put("priority", route.priority);
            map.put_some("health_sensitivity", route.health_sensitivity);
            map.put("state", if route.up { "up" } else { "down" });
            map.put("type", if route.single_hop { "single-hop" } else { "multi-hop" });
        }
        if level >= LEVEL_OF_OURS {
            let mut statistics: Map = vec![("send_count".into(), route.messages.into())];
            put_latency(&mut statistics, &route.latency);
            map.put("statistics", statistics);
        }
        map
    };
    block("route", all.iter().map(one))
}

/// Returns the blocks `routing` and `buffers`, none for a node that never was a router.
pub(super) fn routing(routing: &Routing, level: u8) -> Map {
    let mut map = Map::new();
    let Some(counts) = BuffersConf::of(routing) else { return map };
    let pools = POOLS.into_iter().zip(&routing.pools);
    let pools: Map = pools.map(|(name, one)| (name.to_owned(), pool(one, level).into())).collect();
    let mut last: Map = vec![("enable".into(), i32::from(routing.state.is_on()).into())];
    if level >= 1 {
        last.put("state", routing.state.to_string());
    }
    let items: [Map; 2] = [vec![("cpt[0]".into(), pools.into())], last];
    map.put("routing", Value::from_iter(items));
    map.put("buffers", buffers(&counts));
    if level >= LEVEL_OF_OURS {
        map.extend(block("transits", routing.transits.iter().map(transit)));
    }
    map
}

fn pool(pool: &Pool, level: u8) -> Map {
    let mut map = Map::new();
    map.put("npages", pool.pages);
    map.put("nbuffers", pool.buffers);
    map.put("credits", pool.credits);
    map.put("mincredits", pool.credits_min);
    if level >= 1 {
        map.put("allocated", pool.allocated);
    }
    map
}

fn transit(transit: &Transit) -> Map {
    let mut map = Map::new();
    map.put("from", transit.from);
    map.put("to", transit.to);
    map.put("route_count", transit.messages);
    map.put("route_length", transit.bytes);
    put_latency(&mut map, &transit.latency);
    map
}

fn put_latency(map: &mut Map, latency: &Quantiles) {
    for (name, value) in latency.named() {
        map.put(name, value);
    }
}

pub(super) fn buffers(counts: &BuffersConf) -> Map {
    let mut map = Map::new();
    map.put_some("tiny", counts.tiny);
    map.put_some("small", counts.small);
    map.put_some("large", counts.large);
    map
}

/// Returns the block of `debug recovery`, empty without NIDs in recovery.
pub(super) fn recovery(nids: &[Nid], peers: bool, dialect: crate::value::Dialect) -> Map {
    let title = match (peers, dialect) {
        (false, crate::value::Dialect::Netlink) => "Local NI recovery",
        (false, crate::value::Dialect::Cyaml) => "local NI recovery",
        (true, crate::value::Dialect::Netlink) => "Peer NI recovery",
        (true, crate::value::Dialect::Cyaml) => "peer NI recovery",
    };
    let one = |(n, nid): (usize, &Nid)| (format!("nid-{n}"), Value::from(*nid));
    let mut map = Map::new();
    if !nids.is_empty() {
        map.put(title, nids.iter().enumerate().map(one).collect::<Map>());
    }
    map
}
