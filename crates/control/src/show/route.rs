//! `route show`, `routing show` and their values. Spec: lnet-admin §7, §8.

use std::fmt;

use fulmar_lnet::views;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::Histogram;
use serde::{Deserialize, Serialize};

use super::peer::block;
use crate::config::{BuffersConf, RouteConf};
use crate::value::{Map, MapExt, Value};

/// The level of verbosity from which lists have values that Lustre's tools do not have.
const LEVEL_OF_OURS: u8 = 4;

/// Latencies of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Delays {
    pub samples: u64,
    /// The median, and so on.
    pub p50_nsec: u64,
    pub p90_nsec: u64,
    pub p99_nsec: u64,
    pub max_nsec: u64,
}

impl Delays {
    /// Returns each name and its value, in display order.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { samples, p50_nsec, p90_nsec, p99_nsec, max_nsec } = *self;
        [
            ("latency_samples", samples),
            ("latency_p50_nsec", p50_nsec),
            ("latency_p90_nsec", p90_nsec),
            ("latency_p99_nsec", p99_nsec),
            ("latency_max_nsec", max_nsec),
        ]
    }
}

impl From<&Histogram> for Delays {
    fn from(latency: &Histogram) -> Self {
        let at = |share| latency.quantile(share).unwrap_or(0);
        Self {
            samples: latency.count(),
            p50_nsec: at(0.5),
            p90_nsec: at(0.9),
            p99_nsec: at(0.99),
            max_nsec: at(1.0),
        }
    }
}

/// A route and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Route {
    pub net: fulmar_lnet_wire::Net,
    pub gateway: Nid,
    /// `None` prints as −1.
    pub hop: Option<u32>,
    pub priority: u32,
    /// Whether it is usable.
    pub up: bool,
    /// Whether the gateway is on the target network.
    pub single_hop: bool,
    /// Messages sent on it.
    pub messages: u64,
    /// From request to response.
    pub latency: Delays,
}

impl From<&views::Route> for Route {
    fn from(v: &views::Route) -> Self {
        Self {
            net: v.net,
            gateway: v.gateway,
            hop: v.hops,
            priority: v.priority,
            up: v.up,
            single_hop: v.single_hop,
            messages: v.messages,
            latency: Delays::from(&v.latency),
        }
    }
}

impl Route {
    /// Returns the configuration that an import needs to restore it.
    pub fn to_conf(&self) -> RouteConf {
        let Self { net, gateway, hop, priority, .. } = *self;
        RouteConf { net, gateway, hop, priority, health_sensitivity: None }
    }
}

/// A gateway of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Router {
    pub nid: Nid,
    pub refs: u32,
    pub routes: u32,
    pub alive: bool,
}

impl From<&views::Router> for Router {
    fn from(v: &views::Router) -> Self {
        Self { nid: v.nid, refs: v.refs, routes: v.routes, alive: v.alive }
    }
}

/// The state of forwarding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum RoutingState {
    #[default]
    Disabled,
    Enabled,
    /// Peers are being informed that it ends.
    Stopping,
    /// Peers are not informed yet.
    Starting,
    /// Peers switch to other routers; messages in transit are forwarded.
    Draining,
}

impl RoutingState {
    /// Returns whether routing is enabled or starting.
    pub fn is_on(self) -> bool {
        matches!(self, Self::Enabled | Self::Starting)
    }
}

impl fmt::Display for RoutingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Stopping => "stopping",
            Self::Starting => "starting",
            Self::Draining => "draining",
        })
    }
}

impl From<views::RoutingState> for RoutingState {
    fn from(state: views::RoutingState) -> Self {
        match state {
            views::RoutingState::Disabled => Self::Disabled,
            views::RoutingState::Enabled => Self::Enabled,
            views::RoutingState::Stopping => Self::Stopping,
            views::RoutingState::Starting => Self::Starting,
            views::RoutingState::Draining => Self::Draining,
        }
    }
}

/// One class of router buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Pool {
    /// 4 KiB pages of one buffer.
    pub pages: u32,
    /// The maximum number.
    pub buffers: u32,
    /// The number with memory.
    pub allocated: u32,
    /// If negative, the number of waiting messages.
    pub credits: i64,
    pub credits_min: i64,
}

impl From<views::Pool> for Pool {
    fn from(v: views::Pool) -> Self {
        Self {
            pages: v.pages,
            buffers: v.buffers,
            allocated: v.allocated,
            credits: v.credits,
            credits_min: v.credits_min,
        }
    }
}

/// The traffic from one network to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Transit {
    pub from: fulmar_lnet_wire::Net,
    pub to: fulmar_lnet_wire::Net,
    pub messages: u64,
    pub bytes: u64,
    /// From receiving the header to sending the last byte.
    pub latency: Delays,
}

/// The state of a node as a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Routing {
    pub state: RoutingState,
    /// Tiny, small, large.
    pub pools: [Pool; 3],
    pub transits: Vec<Transit>,
}

/// The names of [`Routing::pools`].
pub const POOLS: [&str; 3] = ["tiny", "small", "large"];

impl From<&views::Routing> for Routing {
    fn from(v: &views::Routing) -> Self {
        let transit = |v: &views::Transit| Transit {
            from: v.from,
            to: v.to,
            messages: v.messages,
            bytes: v.bytes,
            latency: Delays::from(&v.latency),
        };
        Self {
            state: v.state.into(),
            pools: v.pools.map(Pool::from),
            transits: v.transits.iter().map(transit).collect(),
        }
    }
}

impl Routing {
    /// Returns whether the node is a router or was one.
    pub fn is_known(&self) -> bool {
        self.state != RoutingState::Disabled || self.pools.iter().any(|pool| pool.buffers > 0)
    }

    /// Returns the number of messages in transit.
    pub fn in_hand(&self) -> u64 {
        let taken = |pool: &Pool| u64::try_from(i64::from(pool.buffers) - pool.credits);
        self.pools.iter().filter_map(|pool| taken(pool).ok()).sum()
    }

    /// Returns the maximum numbers of buffers, if known.
    pub fn buffers(&self) -> Option<BuffersConf> {
        let [tiny, small, large] = self.pools.map(|pool| Some(pool.buffers));
        self.is_known().then_some(BuffersConf { tiny, small, large })
    }
}

/// Returns the block `route`, empty without routes.
pub(super) fn routes(all: &[Route], level: u8) -> Map {
    let one = |route: &Route| {
        let mut map = Map::new();
        map.put("net", route.net);
        map.put("gateway", route.gateway);
        if level >= 1 {
            map.put("hop", route.hop.map_or(-1, i64::from));
            map.put("priority", route.priority);
            map.put("state", if route.up { "up" } else { "down" });
            map.put("type", if route.single_hop { "single-hop" } else { "multi-hop" });
        }
        if level >= LEVEL_OF_OURS {
            let mut statistics: Map = vec![("send_count".into(), route.messages.into())];
            put_delays(&mut statistics, &route.latency);
            map.put("statistics", statistics);
        }
        map
    };
    block("route", all.iter().map(one))
}

/// Returns the blocks `routing` and `buffers`, none for a node that never was a router.
pub(super) fn routing(routing: &Routing, level: u8) -> Map {
    let mut map = Map::new();
    let Some(counts) = routing.buffers() else { return map };
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
    put_delays(&mut map, &transit.latency);
    map
}

fn put_delays(map: &mut Map, delays: &Delays) {
    for (name, value) in delays.named() {
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
