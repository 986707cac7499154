//! `export`, and `export --backup`, which is lnet.conf. Spec: lnet-admin §16.

use serde::{Deserialize, Serialize};

use super::model::{Globals, Net, Ni};
use super::net::{cpts, nets, numbered};
use super::peer::{block, peers};
use super::route::buffers;
use super::{Peer, Route, Routing, global, route};
use crate::config::{
    BuffersConf, Ip2NetsConf, LndConf, LnetConf, NetConf, NiConf, PeerConf, QueryConf, RouteConf,
    TunablesConf, UdspConf,
};
use crate::value::{Dialect, Family, Map, MapExt, Report, Value};

/// The data of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Export {
    pub nets: Vec<Net>,
    pub peers: Vec<Peer>,
    pub routes: Vec<Route>,
    pub routing: Routing,
    pub globals: Globals,
    /// The remaining configuration, such as UDSP.
    pub rest: LnetConf,
}

impl Export {
    /// Returns the plain export: all information, for people.
    pub fn report(&self, dialect: Dialect) -> Report {
        let mut report = Report::default();
        push(&mut report, Family::Listing, nets(&self.nets, 2, dialect));
        push(&mut report, Family::Listing, route::routes(&self.routes, 1));
        push(&mut report, Family::Listing, peers(&self.peers, 3, dialect));
        let rest = LnetConf { globals: self.globals.clone(), ..self.rest.clone() };
        tail(&mut report, route::routing(&self.routing, 0), &rest);
        report
    }

    /// Returns the configuration that an import needs to restore this node.
    pub fn to_conf(&self) -> LnetConf {
        let real = self.nets.iter().filter(|net| net.net != fulmar_lnet_wire::Net::LOOPBACK);
        let conf = |net: &Net| NetConf { net: net.net, nis: net.nis.iter().map(ni_conf).collect() };
        let peer = |peer: &Peer| PeerConf {
            primary: peer.primary,
            multi_rail: peer.multi_rail,
            nids: peer.nis.iter().map(|ni| ni.nid).collect(),
        };
        let is_restored = |peer: &&Peer| !self.is_made_by_route(peer);
        LnetConf {
            nets: real.map(conf).collect(),
            peers: self.peers.iter().filter(is_restored).map(peer).collect(),
            routes: self.routes.iter().map(RouteConf::from).collect(),
            routing: self.routing.is_known().then(|| self.routing.state.is_on()),
            buffers: BuffersConf::of(&self.routing),
            globals: self.globals.clone(),
            ..self.rest.clone()
        }
    }

    /// A gateway that is nothing but that. A kernel node of 2.17 would import it as Multi-Rail.
    fn is_made_by_route(&self, peer: &Peer) -> bool {
        let is_single = !peer.multi_rail && peer.nis.iter().all(|ni| ni.nid == peer.primary);
        is_single && self.routes.iter().any(|route| route.gateway == peer.primary)
    }
}

fn ni_conf(ni: &Ni) -> NiConf {
    let tunables = &ni.view.tunables;
    NiConf {
        interfaces: ni.interface.iter().cloned().collect(),
        // Kernels ignore it beside an interface.
        nid: ni.is_secondary.then_some(ni.view.nid),
        tunables: TunablesConf {
            peer_timeout: Some(tunables.peer_timeout),
            peer_credits: Some(tunables.peer_credits),
            peer_buffer_credits: Some(tunables.peer_buffer_credits),
            credits: Some(tunables.credits),
        },
        lnd: ni.lnd.map_or_else(LndConf::default, |lnd| LndConf {
            conns_per_peer: Some(lnd.conns_per_peer),
            timeout: lnd.own_timeout.then_some(lnd.timeout),
            tos: Some(lnd.tos),
            other: Vec::new(),
        }),
        cpts: Some(ni.cpts.clone()),
    }
}

/// Prints lnet.conf, which [`LnetConf::parse`] parses to the same value.
pub fn backup(conf: &LnetConf) -> Report {
    let mut report = Report::default();
    push(&mut report, Family::Listing, block("net", conf.nets.iter().map(net)));
    push(&mut report, Family::Listing, block("ip2nets", conf.ip2nets.iter().map(ip2nets)));
    // Kernel nodes print routes first, and lose peers with several NIDs when they import that.
    push(&mut report, Family::Listing, block("peer", conf.peers.iter().map(peer)));
    push(&mut report, Family::Listing, block("route", conf.routes.iter().map(route_conf)));
    let mut map = Map::new();
    if let Some(enable) = conf.routing {
        map.put("routing", vec![("enable".to_owned(), Value::from(i32::from(enable)))]);
    }
    map.put_some("buffers", conf.buffers.as_ref().map(buffers));
    tail(&mut report, map, conf);
    report
}

fn push(report: &mut Report, family: Family, block: Map) {
    if !block.is_empty() {
        report.0.push((family, block));
    }
}

/// Adds the end of both kinds of export, after `routing`, in the older layout.
fn tail(report: &mut Report, routing: Map, conf: &LnetConf) {
    let mut map = routing;
    if let Some(range) = conf.numa_range {
        map.put("numa", vec![("range".to_owned(), Value::from(range))]);
    }
    map.extend(global(&conf.globals));
    map.extend(block("udsp", conf.udsp.iter().map(udsp)));
    for (key, asked) in [("ping", &conf.ping), ("discover", &conf.discover)] {
        map.put_some(key, asked.as_ref().map(query));
    }
    push(report, Family::Classic, map);
}

fn net(net: &NetConf) -> Map {
    let mut map = Map::new();
    map.put("net type", net.net);
    map.put("local NI(s)", Value::from_iter(net.nis.iter().map(ni)));
    map
}

fn ni(ni: &NiConf) -> Map {
    let mut map = Map::new();
    map.put_some("nid", ni.nid);
    if !ni.interfaces.is_empty() {
        map.put("interfaces", numbered(&ni.interfaces));
    }
    settings(&mut map, ni);
    map
}

fn settings(map: &mut Map, ni: &NiConf) {
    let mut tunables = Map::new();
    tunables.put_some("peer_timeout", ni.tunables.peer_timeout);
    tunables.put_some("peer_credits", ni.tunables.peer_credits);
    tunables.put_some("peer_buffer_credits", ni.tunables.peer_buffer_credits);
    tunables.put_some("credits", ni.tunables.credits);
    let mut lnd = Map::new();
    lnd.put_some("conns_per_peer", ni.lnd.conns_per_peer);
    lnd.put_some("timeout", ni.lnd.timeout);
    lnd.put_some("tos", ni.lnd.tos);
    lnd.extend(ni.lnd.other.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    for (key, inner) in [("tunables", tunables), ("lnd tunables", lnd)] {
        if !inner.is_empty() {
            map.put(key, inner);
        }
    }
    map.put_some("CPT", ni.cpts.as_deref().map(cpts));
}

fn ip2nets(entry: &Ip2NetsConf) -> Map {
    let mut map = Map::new();
    map.put("net-spec", entry.net);
    if !entry.ni.interfaces.is_empty() {
        map.put("interfaces", numbered(&entry.ni.interfaces));
    }
    if !entry.ranges.is_empty() {
        let ranges: Vec<String> = entry.ranges.iter().map(ToString::to_string).collect();
        map.put("ip-range", numbered(&ranges));
    }
    settings(&mut map, &entry.ni);
    map
}

fn peer(peer: &PeerConf) -> Map {
    let mut map = Map::new();
    map.put("primary nid", peer.primary);
    map.put("Multi-Rail", peer.multi_rail);
    let nids = peer.nids.iter().map(|nid| vec![("nid".to_owned(), Value::from(*nid))]);
    map.put("peer ni", Value::from_iter(nids));
    map
}

fn route_conf(route: &RouteConf) -> Map {
    let mut map = Map::new();
    map.put("net", route.net);
    map.put("gateway", route.gateway);
    map.put("hop", route.hop.map_or(-1, i64::from));
    map.put("priority", route.priority);
    map.put_some("health_sensitivity", route.health_sensitivity);
    map
}

pub(super) fn udsp(rule: &UdspConf) -> Map {
    let mut map = Map::new();
    map.put_some("idx", rule.idx);
    map.put_some("src", rule.src.as_ref().map(ToString::to_string));
    map.put_some("dst", rule.dst.as_ref().map(ToString::to_string));
    map.put_some("rte", rule.rte.as_ref().map(ToString::to_string));
    let action = rule.priority.map(|priority| vec![("priority".to_owned(), Value::from(priority))]);
    map.put_some("action", action);
    map
}

fn query(asked: &QueryConf) -> Map {
    let mut map = Map::new();
    map.put_some("source", asked.source);
    map.put_some("timeout", asked.timeout);
    let nids: Vec<Value> = asked.nids.iter().map(|nid| (*nid).into()).collect();
    map.put("nids", nids);
    map
}
