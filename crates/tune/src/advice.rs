//! Advice: the inverse of the model. Spec: lnet-behaviour §13, §15.
//!
//! The properties of a site determine the bytes that must be in flight, and these all settings. If
//! the memory is too small, all settings are reduced, and the prediction shows the cost.

use std::time::Duration;

use serde::Serialize;

mod memory;
pub(crate) mod plan;
mod settings;
#[cfg(test)]
mod tests;

pub use memory::{Memory, Share};
pub use plan::{Congestion, Plan};

use crate::model::{
    Bound, Direction, Hold, Kind, Load, Nic, Path, Prediction, Routers, Settings, Sharing,
    payload_rate, predict,
};

/// The kind of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// Fulmar's, whose credits are returned when the socket has a message.
    Fulmar,
    /// Lustre's kernel modules, whose credits are returned after a round trip.
    Kernel,
}

impl Whose {
    /// Returns how long bulk holds credits.
    pub fn hold(self) -> Hold {
        match self {
            Self::Fulmar => Hold::Written,
            Self::Kernel => Hold::RoundTrip,
        }
    }
}

/// The properties of a site, and its load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Site {
    /// The nominal bits per second of the line between the two ends.
    pub line_bits: u64,
    /// The bits per second of a node's interface; as the line if `None`.
    pub interface_bits: Option<u64>,
    /// The round trip between the ends.
    pub rtt: Duration,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// The chance that a packet is lost, if known.
    pub loss: Option<f64>,
    /// Active nodes at each end, each with a partner at the other end.
    pub nodes: u32,
    /// Routers at each end; 0 if nodes reach each other directly.
    pub routers: u32,
    /// Bytes of memory of a node, if known.
    pub memory: Option<u64>,
    /// Connections of each bulk type, if given.
    pub connections: Option<u32>,
    /// The kind of nodes.
    pub whose: Whose,
    /// The kind of load.
    pub kind: Kind,
    /// The direction of the data.
    pub direction: Direction,
}

impl Site {
    /// Returns the path for the model.
    pub fn path(&self) -> Path {
        Path::of_line(self.line_bits, self.mtu, self.rtt)
    }

    fn interface_rate(&self) -> u64 {
        payload_rate(self.interface_bits.unwrap_or(self.line_bits), self.mtu)
    }

    /// Returns the payload rate of the narrowest of lines, nodes and routers in bytes per second.
    pub fn rate(&self) -> u64 {
        let of = |count: u32| u64::from(count.max(1)).saturating_mul(self.interface_rate());
        let routers = if self.routers > 0 { of(self.routers) } else { u64::MAX };
        self.path().rate.min(of(self.nodes)).min(routers)
    }

    /// Returns the load for this concurrency of each pair and this size of RPCs in bytes.
    pub fn load(&self, concurrency: u32, rpc_bytes: u64) -> Load {
        Load {
            rpc_bytes,
            kind: self.kind,
            ..Load::selftest(self.nodes.max(1), concurrency, self.direction)
        }
    }

    /// Returns the settings with the bounds of interfaces and routers.
    pub(crate) fn bounds(&self, settings: Settings, router_credits: u32, large: u32) -> Settings {
        let rate = self.interface_rate();
        let routers = Routers {
            at_clients: self.routers,
            at_servers: self.routers,
            rate,
            router_credits,
            large_buffers: large,
            sharing: match self.whose {
                Whose::Fulmar => Sharing::ByTarget,
                Whose::Kernel => Sharing::FirstCome,
            },
        };
        Settings {
            nic: self.interface_bits.map(|_| Nic { rate }),
            routers: (self.routers > 0).then_some(routers),
            ..settings
        }
    }
}

/// The place of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The interface of LNet: lnet.conf, `lnetctl net add`, or ksocklnd's parameters.
    Interface,
    /// LNet itself.
    Lnet,
    /// The file system: `lctl set_param`.
    Lustre,
    /// An argument of a test.
    Load,
    /// The kernel's `sysctl`.
    Sysctl,
    /// The network device.
    Device,
}

/// The prediction with the usual value of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Without {
    pub bytes_per_second: f64,
    pub bound: Bound,
}

/// One setting with its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its name, such as `peer_credits` or `net.ipv4.tcp_rmem`.
    pub name: &'static str,
    /// Its place.
    pub place: Place,
    /// The default value.
    pub usual: String,
    /// The advised value.
    pub advised: String,
    /// The arithmetic with its numbers, or the reason.
    pub why: String,
    /// The prediction without it, if the model covers it.
    pub without: Option<Without>,
}

/// The advice for a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The site.
    pub site: Site,
    /// The path for the model.
    pub path: Path,
    /// The load.
    pub load: Load,
    /// The numbers.
    pub plan: Plan,
    /// The numbers for the model.
    pub model: Settings,
    /// The predicted throughput.
    pub prediction: Prediction,
    /// All settings.
    pub settings: Vec<Setting>,
    /// The memory of a node.
    pub memory: Memory,
    /// Limits of the advice.
    pub warnings: Vec<String>,
}

/// Returns the advice for a site.
pub fn advise(site: &Site) -> Advice {
    let (plan, memory) = memory::fitting(site);
    let load = site.load(plan.concurrency, plan.rpc_bytes);
    let model = plan.model(site);
    let path = site.path();
    let prediction = predict(&path, &load, &model);
    let settings = settings::all(site, &plan, &load, &model);
    let mut advice = Advice {
        site: *site,
        path,
        load,
        plan,
        model,
        prediction,
        settings,
        memory,
        warnings: Vec::new(),
    };
    advice.warnings = settings::warnings(&advice);
    advice
}
