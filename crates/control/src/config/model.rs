//! What lnet.conf says, as values. Spec: lnet-admin §16.3.

use fulmar_lnet::{RouteConfig, RouterBuffers};
use fulmar_lnet_wire::{Net, Nid};
use serde::{Deserialize, Serialize};

use super::globals::GlobalKey;
use super::pattern::AddressPattern;
use super::rules::UdspConf;

/// The whole of an lnet.conf, each part in the file's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct LnetConf {
    pub nets: Vec<NetConf>,
    pub ip2nets: Vec<Ip2NetsConf>,
    pub peers: Vec<PeerConf>,
    pub routes: Vec<RouteConf>,
    /// Whether messages are forwarded.
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

/// One entry under `local NI(s)`: as many NIs as it names interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NiConf {
    /// Names of interfaces, or addresses in their place. None: the first that can be used.
    pub interfaces: Vec<String>,
    /// The NI whose address is this one's, where no interface is named.
    pub nid: Option<Nid>,
    /// Its credits.
    pub tunables: TunablesConf,
    /// What its LND is told.
    pub lnd: LndConf,
    /// CPU partitions.
    pub cpts: Option<Vec<u32>>,
}

/// The credits of an NI, as far as they are given.
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

/// The settings of an NI's LND, as far as they are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LndConf {
    /// Connections of each bulk kind to a peer; 0 to decide by the speed of the link.
    pub conns_per_peer: Option<u32>,
    /// Seconds.
    pub timeout: Option<u32>,
    /// The IP type of service; −1 to leave it.
    pub tos: Option<i32>,
    /// Settings of LNDs other than socklnd, kept as they are written.
    pub other: Vec<(String, String)>,
}

/// An entry under `ip2nets`: a net for nodes with certain addresses. Spec: lnet-admin §16.4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ip2NetsConf {
    pub net: Net,
    /// What each NI gets, and the interfaces that are considered, if they are named.
    pub ni: NiConf,
    /// Local addresses to which the entry applies; none for all.
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

/// A route: a remote net and the router that leads there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RouteConf {
    pub net: Net,
    pub gateway: Nid,
    /// 1 to 255; `None` prints as −1.
    pub hop: Option<u32>,
    /// Smaller is preferred.
    pub priority: u32,
    pub health_sensitivity: Option<u32>,
}

impl From<&RouteConf> for RouteConfig {
    fn from(conf: &RouteConf) -> Self {
        let RouteConf { net, gateway, hop, priority, .. } = *conf;
        Self { net, gateway, hops: hop, priority }
    }
}

/// How many router buffers there are, over all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct BuffersConf {
    pub tiny: Option<u32>,
    pub small: Option<u32>,
    pub large: Option<u32>,
}

impl BuffersConf {
    /// Returns `usual` with what is given here in its place.
    pub fn over(&self, usual: RouterBuffers) -> RouterBuffers {
        RouterBuffers {
            tiny: self.tiny.unwrap_or(usual.tiny),
            small: self.small.unwrap_or(usual.small),
            large: self.large.unwrap_or(usual.large),
        }
    }
}

/// A ping or discovery that an import with `--exec` runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct QueryConf {
    pub source: Option<Nid>,
    /// Seconds.
    pub timeout: Option<u32>,
    pub nids: Vec<Nid>,
}
