//! Advice: the model turned round. Spec: lnet-behaviour §13, §15.
//!
//! From what a site has follow the bytes that must be in flight; from these everything else. Where
//! memory is too small for them, all is reduced, and the prediction says what that costs.

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
    Bound, Direction, Hold, Kind, Load, Nic, Path, Prediction, Routers, Settings, payload_rate,
    predict,
};

/// Whose nodes are to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whose {
    /// Fulmar's, whose credits come back when the socket has a message.
    Fulmar,
    /// Those with Lustre's kernel modules, whose credits come back after a round trip.
    Kernel,
}

impl Whose {
    /// Returns how long their bulk holds credits.
    pub fn hold(self) -> Hold {
        match self {
            Self::Fulmar => Hold::Written,
            Self::Kernel => Hold::RoundTrip,
        }
    }
}

/// What a site has, and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Site {
    /// Bits per second of the line between the two ends, as it is sold.
    pub line_bits: u64,
    /// Bits per second of the interface of one node; that of the line if `None`.
    pub interface_bits: Option<u64>,
    /// The round trip between the ends.
    pub rtt: Duration,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// The chance that a packet is lost, if known.
    pub loss: Option<f64>,
    /// Nodes at each end that work at once, each with one of the other end.
    pub nodes: u32,
    /// Routers at each end; 0 if nodes reach each other.
    pub routers: u32,
    /// Bytes of memory of a node, if known.
    pub memory: Option<u64>,
    /// Connections of each bulk kind, where somebody insists.
    pub connections: Option<u32>,
    /// Whose nodes they are.
    pub whose: Whose,
    /// What they do.
    pub kind: Kind,
    /// Which way the data goes.
    pub direction: Direction,
}

impl Site {
    /// Returns the path as the model has it.
    pub fn path(&self) -> Path {
        Path::of_line(self.line_bits, self.mtu, self.rtt)
    }

    fn interface_rate(&self) -> u64 {
        payload_rate(self.interface_bits.unwrap_or(self.line_bits), self.mtu)
    }

    /// What the narrowest of lines, nodes and routers carries: bytes of payload per second.
    pub fn rate(&self) -> u64 {
        let of = |count: u32| u64::from(count.max(1)).saturating_mul(self.interface_rate());
        let routers = if self.routers > 0 { of(self.routers) } else { u64::MAX };
        self.path().rate.min(of(self.nodes)).min(routers)
    }

    /// Returns the load of the site with so many RPCs of so many bytes in flight for each pair.
    pub fn load(&self, concurrency: u32, rpc_bytes: u64) -> Load {
        Load {
            rpc_bytes,
            kind: self.kind,
            ..Load::selftest(self.nodes.max(1), concurrency, self.direction)
        }
    }

    /// Returns what the model should know of interfaces and routers.
    pub(crate) fn bounds(&self, settings: Settings, router_credits: u32, large: u32) -> Settings {
        let rate = self.interface_rate();
        let routers = Routers { count: self.routers, rate, router_credits, large_buffers: large };
        Settings {
            nic: self.interface_bits.map(|_| Nic { rate }),
            routers: (self.routers > 0).then_some(routers),
            ..settings
        }
    }
}

/// Where a setting is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// The interface of LNet: lnet.conf, `lnetctl net add`, or ksocklnd's parameters.
    Interface,
    /// LNet itself.
    Lnet,
    /// The file system: `lctl set_param`.
    Lustre,
    /// What is asked of a test.
    Load,
    /// The kernel's `sysctl`.
    Sysctl,
    /// The network device.
    Device,
}

/// What the site would carry if one setting stayed as it usually is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Without {
    pub bytes_per_second: f64,
    pub bound: Bound,
}

/// One setting, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its name where it is made, such as `peer_credits` or `net.ipv4.tcp_rmem`.
    pub name: &'static str,
    /// Where it is made.
    pub place: Place,
    /// What it is if nobody sets it.
    pub usual: String,
    /// What it should be.
    pub advised: String,
    /// The arithmetic, with the numbers filled in, or the reason.
    pub why: String,
    /// What binds without it, where the model knows.
    pub without: Option<Without>,
}

/// All that there is to say to a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is for.
    pub site: Site,
    /// The path as the model has it.
    pub path: Path,
    /// What was asked of it.
    pub load: Load,
    /// The numbers.
    pub plan: Plan,
    /// The same, as the model has them.
    pub model: Settings,
    /// What it will carry.
    pub prediction: Prediction,
    /// Every setting.
    pub settings: Vec<Setting>,
    /// What a node keeps in memory for it.
    pub memory: Memory,
    /// What somebody should know before believing it.
    pub warnings: Vec<String>,
}

/// Returns what a site needs.
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
