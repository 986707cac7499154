//! The output of `lnetctl` and `lctl`: from values to text, in both dialects and as JSON.

pub mod error;
mod export;
mod fault;
mod model;
mod net;
mod parameters;
mod peer;
mod query;
mod route;
pub mod tables;
mod target;

#[cfg(test)]
mod tests;

use fulmar_lnet_wire::Nid;

use crate::config::UdspConf;
use crate::value::{Dialect, Family, Map, MapExt, Report};

pub use error::{ErrorObject, exit};
pub use export::{Export, backup};
pub use fault::{Fault, fault_lines, fault_show};
pub use fulmar_lnet::views::{Peer, Route, Router, Routing, Stats};
pub use model::{
    Answer, Connection, Globals, LndTunables, Net, Ni, Reply, SocklndCounters, SocklndInterface,
    SocklndPeer, globals,
};
pub use parameters::{Form, Parameter, ParameterName};
pub use query::{Answers, answers, cpt_of_nid};
pub use route::POOLS;
pub use target::{Target, targets};

/// `net show`; `level` is 0 to 4, as `-v` gives it.
pub fn net_show(nets: &[Net], level: u8, dialect: Dialect) -> Report {
    Report::one(Family::Listing, net::nets(nets, level, dialect))
}

/// `peer show`; `level` is 0 to 4, as `-v` gives it.
pub fn peer_show(peers: &[Peer], level: u8, dialect: Dialect) -> Report {
    Report::one(Family::Listing, peer::peers(peers, level, dialect))
}

/// `peer list`: primary NIDs.
pub fn peer_list(peers: &[Peer]) -> Report {
    Report::one(Family::Listing, peer::list(peers))
}

/// `route show`; `level` is 0 to 4, as `-v` gives it.
pub fn route_show(all: &[Route], level: u8) -> Report {
    Report::one(Family::Listing, route::routes(all, level))
}

/// `routing show`; `level` is 0 to 4, as `-v` gives it.
pub fn routing_show(routing: &Routing, level: u8) -> Report {
    Report::one(Family::Classic, route::routing(routing, level))
}

/// `debug recovery`: local NIDs in recovery, or those of peers.
pub fn recovery(nids: &[Nid], peers: bool, dialect: Dialect) -> Report {
    Report::one(Family::Listing, route::recovery(nids, peers, dialect))
}

/// `udsp show`.
pub fn udsp_show(rules: &[UdspConf]) -> Report {
    Report::one(Family::Classic, peer::block("udsp", rules.iter().map(export::udsp)))
}

/// `stats show`.
pub fn stats_show(stats: &Stats) -> Report {
    let named: Map = stats.named().iter().map(|(key, n)| ((*key).into(), (*n).into())).collect();
    Report::one(Family::Classic, vec![("statistics".into(), named.into())])
}

/// `global show`.
pub fn global_show(globals: &Globals) -> Report {
    Report::one(Family::Classic, global(globals))
}

fn global(globals: &Globals) -> Map {
    let mut block = Map::new();
    if !globals.is_empty() {
        let values: Map = globals.iter().map(|(key, n)| (key.name().into(), (*n).into())).collect();
        block.put("global", values);
    }
    block
}
