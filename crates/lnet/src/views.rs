//! The state of a node as values, for administrators and for checks. The control socket sends them
//! as JSON.

use std::fmt;

use fulmar_base::Time;
use fulmar_lnd::NiTunables;
use fulmar_lnet_wire::selftest::Histogram;
use fulmar_lnet_wire::{Net, Nid};
use serde::{Deserialize, Serialize};

use crate::fault::FaultRule;

/// Messages by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ByType {
    pub put: u64,
    pub get: u64,
    pub reply: u64,
    pub ack: u64,
    pub hello: u64,
}

impl ByType {
    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, n)| n).sum()
    }

    /// Returns the name and the number of each type, in display order.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { put, get, reply, ack, hello } = *self;
        [("put", put), ("get", get), ("reply", reply), ("ack", ack), ("hello", hello)]
    }
}

/// Durations of operations: the latency keys of 2.17.55.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub samples: u64,
    pub min_nsec: u64,
    pub max_nsec: u64,
    pub sum_nsec: u64,
}

impl Latency {
    /// Adds one sample.
    pub fn record(&mut self, nsec: u64) {
        self.min_nsec = if self.samples == 0 { nsec } else { self.min_nsec.min(nsec) };
        self.max_nsec = self.max_nsec.max(nsec);
        self.sum_nsec = self.sum_nsec.saturating_add(nsec);
        self.samples += 1;
    }

    /// Returns the mean, 0 without samples.
    pub fn avg_nsec(&self) -> u64 {
        self.sum_nsec.checked_div(self.samples).unwrap_or(0)
    }
}

/// The traffic of an NI or a peer NI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Traffic {
    pub sent: ByType,
    pub received: ByType,
    pub dropped: ByType,
    /// From commit to the LND's completion of a PUT.
    pub put_egress: Latency,
    /// From GET to REPLY.
    pub get_rtt: Latency,
    /// From PUT to ACK.
    pub put_ack: Latency,
}

/// A network interface of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ni {
    pub nid: Nid,
    pub net: Net,
    /// As reported to peers: its link is up, it is enabled, and its health is above 0.
    pub up: bool,
    /// Its link is down, or its address is gone: used only if that is so for all NIs.
    pub fatal: bool,
    /// Whether the administrator lets it be used.
    pub enabled: bool,
    pub tunables: NiTunables,
    pub credits_max: i64,
    /// If negative, the number of waiting messages.
    pub credits: i64,
    pub credits_min: i64,
    pub health: Health,
    /// The UDSP priorities of the interface and of its network; [`PRIORITY_LOWEST`] without rules.
    pub priority: u32,
    pub net_priority: u32,
    /// On a router, when a node of the network last pinged it.
    pub pinged: Option<Time>,
    pub traffic: Traffic,
}

/// The UDSP priority of what no rule names.
pub const PRIORITY_LOWEST: u32 = u32::MAX;

/// How reliable an NI or a peer NI has been. Spec: lnet-behaviour §11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Health {
    /// 0 to 1000.
    pub value: u32,
    /// Failures by class; the local ones are of NIs, the remote ones of peer NIs.
    pub interrupts: u32,
    pub dropped: u32,
    pub aborted: u32,
    pub no_route: u32,
    pub timeouts: u32,
    pub error: u32,
    pub network_timeout: u32,
    /// Recovery pings since the last sign of health.
    pub ping_count: u32,
    /// When the next is due; `None` if it does not need to recover.
    pub next_ping: Option<Time>,
}

/// A NID of another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PeerNi {
    pub nid: Nid,
    pub credits_max: i64,
    /// If negative, the number of waiting messages.
    pub credits: i64,
    pub credits_min: i64,
    pub router_credits: i64,
    pub router_credits_min: i64,
    /// Payload and 72 bytes for each message in flight or waiting.
    pub queued_bytes: u64,
    pub refcount: u32,
    pub health: Health,
    /// Whether it is alive, if that is monitored: on a router with a peer timeout, or of a gateway.
    pub alive: Option<bool>,
    /// UDSP: the priorities of the NID and of its network, our NIDs and the gateways it prefers.
    pub priority: u32,
    pub net_priority: u32,
    pub preferred_nids: Vec<Nid>,
    pub preferred_gateways: Vec<Nid>,
    pub traffic: Traffic,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Peer {
    pub primary: Nid,
    pub multi_rail: bool,
    /// The bits of lnet-behaviour §2.4.
    pub state: u32,
    pub configured: bool,
    pub nis: Vec<PeerNi>,
}

macro_rules! stats {
    ($($key:ident),+ $(,)?) => {
        /// The statistics of the node, in display order. Spec: lnet-admin §9.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs)]
        pub struct Stats { $( pub $key: u64, )+ }

        impl Stats {
            /// Returns each key and its value, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$( (stringify!($key), self.$key), )+]
            }
        }
    };
}

stats! {
    msgs_alloc, msgs_max, rst_alloc, errors, send_count, resend_count, response_timeout_count,
    local_interrupt_count, local_dropped_count, local_aborted_count, local_no_route_count,
    local_timeout_count, local_error_count, remote_dropped_count, remote_error_count,
    remote_timeout_count, network_timeout_count, failed_resends, successful_resends, recv_count,
    route_count, drop_count, send_length, recv_length, route_length, drop_length,
}

/// Quantiles of latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Quantiles {
    pub samples: u64,
    /// The median, and so on.
    pub p50_nsec: u64,
    pub p90_nsec: u64,
    pub p99_nsec: u64,
    pub max_nsec: u64,
}

impl Quantiles {
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

impl From<&Histogram> for Quantiles {
    fn from(latency: &Histogram) -> Self {
        let at = |share| latency.quantile(share).unwrap_or(0);
        match latency.count() {
            0 => Self::default(),
            samples => Self {
                samples,
                p50_nsec: at(0.5),
                p90_nsec: at(0.9),
                p99_nsec: at(0.99),
                max_nsec: at(1.0),
            },
        }
    }
}

/// A route to a network that none of our interfaces is on. Spec: lnet-behaviour §8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Route {
    pub net: Net,
    pub gateway: Nid,
    /// `None` counts as 1 and prints as −1.
    pub hops: Option<u32>,
    /// Smaller is preferred.
    pub priority: u32,
    /// What a failure takes from the health of the gateway, if that was configured.
    #[serde(default)]
    pub health_sensitivity: Option<u32>,
    /// Whether it would be used now.
    pub up: bool,
    /// The network is one of the gateway's own, so that its interface there is watched too.
    pub single_hop: bool,
    /// Messages sent by this route.
    pub messages: u64,
    /// From request to response of the messages on this route.
    pub latency: Quantiles,
}

/// A gateway of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Router {
    pub nid: Nid,
    pub refs: u32,
    pub routes: u32,
    pub alive: bool,
}

/// Whether messages for others are forwarded. Spec: lnet-behaviour §8.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingState {
    /// They are dropped.
    #[default]
    Disabled,
    /// They are forwarded, and peers know it.
    Enabled,
    /// They are forwarded, and peers are notified that they soon will not be.
    Stopping,
    /// Like stopping, but at once: peers are notified by pushes, messages in transit are forwarded.
    Draining,
}

impl RoutingState {
    /// Returns whether routing is enabled.
    pub fn is_on(self) -> bool {
        self == Self::Enabled
    }
}

impl fmt::Display for RoutingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::Stopping => "stopping",
            Self::Draining => "draining",
        })
    }
}

/// One class of router buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Pool {
    /// 4 KiB pages of one buffer: 0 tiny, 1 small, 256 large.
    pub pages: u32,
    /// The maximum number.
    pub buffers: u32,
    /// The number with memory.
    pub allocated: u32,
    /// If negative, the number of waiting messages.
    pub credits: i64,
    pub credits_min: i64,
}

/// The traffic from one network to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Transit {
    pub from: Net,
    pub to: Net,
    pub messages: u64,
    pub bytes: u64,
    /// From receiving the header to sending the last byte.
    pub latency: Quantiles,
}

/// The state of a node as a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Routing {
    pub state: RoutingState,
    /// Tiny, small, large; without buffers if it never was a router.
    pub pools: [Pool; 3],
    pub transits: Vec<Transit>,
}

impl Routing {
    /// Returns whether the node is a router or was one.
    pub fn is_known(&self) -> bool {
        self.state != RoutingState::Disabled || self.pools.iter().any(|pool| pool.buffers > 0)
    }

    /// Returns the number of messages in transit.
    pub fn in_transit(&self) -> u64 {
        let taken = |pool: &Pool| u64::try_from(i64::from(pool.buffers) - pool.credits);
        self.pools.iter().filter_map(|pool| taken(pool).ok()).sum()
    }
}

/// NIDs that wait to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Recovery {
    pub local: Vec<Nid>,
    pub peer: Vec<Nid>,
}

/// An injected fault, and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its configuration, with its message types filled in.
    pub rule: FaultRule,
    /// Messages that matched, to which a rate or an interval applied.
    pub examined: u64,
    /// Messages that were dropped, failed or delayed.
    pub hits: ByType,
}
