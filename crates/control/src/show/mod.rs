//! What `lnetctl` and `lctl` print: from plain values to text, in both dialects and as JSON.

pub mod error;
mod export;
mod model;
mod net;
mod peer;
mod query;
pub mod tables;

#[cfg(test)]
mod tests;

use crate::config::{RouteConf, UdspConf};
use crate::value::{Dialect, Family, Map, MapExt, Report};

pub use error::{ErrorObject, exit};
pub use export::{Export, backup};
pub use model::{
    Answer, ByType, Connection, Credits, Globals, Latency, LndTunables, Net, Ni, NiHealth, Peer,
    PeerHealth, PeerNi, Reply, SocklndCounters, SocklndInterface, SocklndPeer, Stats, Traffic,
    Tunables, globals,
};
pub use query::{Answers, answers, cpt_of_nid};

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

/// `route show`.
pub fn route_show(all: &[RouteConf], verbose: bool) -> Report {
    Report::one(Family::Listing, routes(all, verbose))
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

fn routes(all: &[RouteConf], verbose: bool) -> Map {
    peer::block("route", all.iter().map(|route| export::route(route, verbose)))
}
