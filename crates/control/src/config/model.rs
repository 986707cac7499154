//! The content of lnet.conf as values. Spec: lnet-admin §16.3.

use fulmar_lnet::{RouteConfig, RouterBuffers, views};
use fulmar_lnet_wire::{Net, Nid};
use serde::{Deserialize, Serialize};

use super::globals::GlobalKey;
use super::pattern::AddressPattern;
use super::rules::UdspConf;

/// An lnet.conf, each part in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct LnetConf {
    pub nets: Vec<NetConf>,
    pub ip2nets: Vec<Ip2NetsConf>,
    pub peers: Vec<PeerConf>,
    pub routes: Vec<RouteConf>,
    /// Whether the node forwards messages.
    pub routing: Option<bool>,
    pub buffers: Option<BuffersConf>,
    pub numa_range: Option<u32>,
    pub globals: Vec<(GlobalKey, u32)>,
    pub udsp: Vec<UdspConf>,
    pub ping: Option<QueryConf>,
    pub discover: Option<QueryConf>,
}

/// A network and its interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct NetConf {
    pub net: Net,
    pub nis: Vec<NiConf>,
}

/// An entry of `local NI(s)`: one NI for each interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NiConf {
    /// Names of interfaces, or their addresses. Empty: the first usable interface.
    pub interfaces: Vec<String>,
    /// The NID whose address selects the interface, if none is named, or one of its addresses.
    pub nid: Option<Nid>,
    /// Its credits.
    pub tunables: TunablesConf,
    /// The settings of its LND.
    pub lnd: LndConf,
    /// CPU partitions.
    pub cpts: Option<Vec<u32>>,
}

impl NiConf {
    /// Returns the NIs of the entry, each with one interface.
    pub fn singles(&self) -> Vec<Self> {
        if self.interfaces.is_empty() {
            return vec![self.clone()];
        }
        let one = |name: &String| Self { interfaces: vec![name.clone()], ..self.clone() };
        self.interfaces.iter().map(one).collect()
    }

    /// Returns the settings that have no effect on networks of this type.
    pub fn unused(&self, net: Net) -> Vec<String> {
        let unused =
            |(key, value): &(String, String)| format!("{key} {value} has no effect on {net}");
        self.lnd.other.iter().map(unused).collect()
    }
}

/// Leaves out CPU partitions that a node with `count` of them does not have, and says so. Without any
/// left an NI is on all.
pub fn fit_cpts(cpts: &mut Option<Vec<u32>>, count: u32) -> Option<String> {
    let all = cpts.take()?;
    let there: Vec<u32> = all.iter().copied().filter(|cpt| *cpt < count).collect();
    let note = (there.len() < all.len()).then(|| {
        let last = count.saturating_sub(1);
        format!("of the CPTs {all:?} there are only those up to {last}")
    });
    *cpts = Some(there).filter(|there| !there.is_empty());
    note
}

/// The configured credits of an NI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct TunablesConf {
    /// Seconds.
    pub peer_timeout: Option<i32>,
    pub peer_credits: Option<u32>,
    pub peer_buffer_credits: Option<u32>,
    pub credits: Option<u32>,
}

/// The configured settings of an NI's LND.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LndConf {
    /// Connections of each bulk type to a peer; 0 to decide by the speed of the link.
    pub conns_per_peer: Option<u32>,
    /// Seconds.
    pub timeout: Option<u32>,
    /// The IP type of service; −1 to leave it.
    pub tos: Option<i32>,
    /// Settings of LNDs other than socklnd, kept unchanged.
    pub other: Vec<(String, String)>,
}

/// An entry of `ip2nets`: a net for nodes with certain addresses. Spec: lnet-admin §16.4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ip2NetsConf {
    pub net: Net,
    /// The settings of each NI, and the candidate interfaces, if they are named.
    pub ni: NiConf,
    /// Local addresses to which the entry applies; empty for all.
    #[serde(with = "crate::as_text::list")]
    pub ranges: Vec<AddressPattern>,
}

/// A peer and its NIDs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PeerConf {
    pub primary: Nid,
    pub multi_rail: bool,
    pub nids: Vec<Nid>,
}

/// A route: a remote net and its gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RouteConf {
    pub net: Net,
    pub gateway: Nid,
    /// 1 to 255; `None` prints as −1.
    pub hop: Option<u32>,
    /// Lower values are preferred.
    pub priority: u32,
    pub health_sensitivity: Option<u32>,
}

impl RouteConf {
    /// Returns the form that a node keeps.
    pub fn normal(&self) -> Self {
        Self { health_sensitivity: self.health_sensitivity.filter(|by| *by > 0), ..self.clone() }
    }
}

impl From<&RouteConf> for RouteConfig {
    fn from(conf: &RouteConf) -> Self {
        let RouteConf { net, gateway, hop, priority, health_sensitivity } = *conf;
        // 0 stands for the value of the node.
        let health_sensitivity = health_sensitivity.filter(|by| *by > 0);
        Self { net, gateway, hops: hop, priority, health_sensitivity }
    }
}

impl From<&views::Route> for RouteConf {
    fn from(route: &views::Route) -> Self {
        let views::Route { net, gateway, hops, priority, health_sensitivity, .. } = *route;
        Self { net, gateway, hop: hops, priority, health_sensitivity }
    }
}

/// The number of router buffers of all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct BuffersConf {
    pub tiny: Option<u32>,
    pub small: Option<u32>,
    pub large: Option<u32>,
}

impl BuffersConf {
    /// Returns the maximum numbers of buffers of a node that is a router or was one.
    pub fn of(routing: &views::Routing) -> Option<Self> {
        let [tiny, small, large] = routing.pools.map(|pool| Some(pool.buffers));
        routing.is_known().then_some(Self { tiny, small, large })
    }

    /// Returns `usual` with the values that are configured here.
    pub fn over(&self, usual: RouterBuffers) -> RouterBuffers {
        RouterBuffers {
            tiny: self.tiny.unwrap_or(usual.tiny),
            small: self.small.unwrap_or(usual.small),
            large: self.large.unwrap_or(usual.large),
        }
    }
}

/// A ping or discovery that an import with `--exec` executes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct QueryConf {
    pub source: Option<Nid>,
    /// Seconds.
    pub timeout: Option<u32>,
    pub nids: Vec<Nid>,
}
