//! What an administrator is shown.

use fulmar_base::Time;
use fulmar_lnd::NiTunables;
use fulmar_lnet_wire::selftest::Histogram;
use fulmar_lnet_wire::{Net, Nid};

use crate::fault::FaultRule;

/// Messages by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        self.put + self.get + self.reply + self.ack + self.hello
    }
}

/// How long something took: the latency keys of 2.17.55.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What an NI or a peer NI has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ni {
    pub nid: Nid,
    pub net: Net,
    /// As reported to peers: the link is up, the administrator has not taken it out, it has health.
    pub up: bool,
    /// Its link is down, or its address is gone: used only if all are like that.
    pub fatal: bool,
    /// The administrator has not taken it out of use.
    pub enabled: bool,
    pub tunables: NiTunables,
    pub credits_max: i64,
    /// Negative: so many messages wait.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Recovery pings since it last was heard of.
    pub ping_count: u32,
    /// When the next is due; `None` if it does not need to recover.
    pub next_ping: Option<Time>,
}

/// A NID of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PeerNi {
    pub nid: Nid,
    pub credits_max: i64,
    /// Negative: so many messages wait.
    pub credits: i64,
    pub credits_min: i64,
    pub router_credits: i64,
    pub router_credits_min: i64,
    /// Payload and 72 bytes for each message under way or waiting.
    pub queued_bytes: u64,
    pub refcount: u32,
    pub health: Health,
    /// Whether it lives, if that is watched: on a router with a peer timeout, or of a gateway.
    pub alive: Option<bool>,
    /// UDSP: the priorities of the NID and of its network, our NIDs and the gateways it prefers.
    pub priority: u32,
    pub net_priority: u32,
    pub preferred_nids: Vec<Nid>,
    pub preferred_gateways: Vec<Nid>,
    pub traffic: Traffic,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Peer {
    pub primary: Nid,
    pub multi_rail: bool,
    /// The bits of lnet-behaviour §2.4.
    pub state: u32,
    pub configured: bool,
    pub nis: Vec<PeerNi>,
}

/// What `lnetctl stats show` prints, in that order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stats {
    pub msgs_alloc: u64,
    pub msgs_max: u64,
    pub rst_alloc: u64,
    pub errors: u64,
    pub send_count: u64,
    pub resend_count: u64,
    pub response_timeout_count: u64,
    pub local_interrupt_count: u64,
    pub local_dropped_count: u64,
    pub local_aborted_count: u64,
    pub local_no_route_count: u64,
    pub local_timeout_count: u64,
    pub local_error_count: u64,
    pub remote_dropped_count: u64,
    pub remote_error_count: u64,
    pub remote_timeout_count: u64,
    pub network_timeout_count: u64,
    pub failed_resends: u64,
    pub successful_resends: u64,
    pub recv_count: u64,
    pub route_count: u64,
    pub drop_count: u64,
    pub send_length: u64,
    pub recv_length: u64,
    pub route_length: u64,
    pub drop_length: u64,
}

/// A route to a network that none of our interfaces is on. Spec: lnet-behaviour §8.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Route {
    pub net: Net,
    pub gateway: Nid,
    /// `None` counts as 1.
    pub hops: Option<u32>,
    /// Smaller is preferred.
    pub priority: u32,
    /// Whether it would be used now.
    pub up: bool,
    /// The network is one of the gateway's own, so that its interface there is watched too.
    pub single_hop: bool,
    /// Messages sent by this route.
    pub messages: u64,
    /// From request to response of what went by this route.
    pub latency: Histogram,
}

/// A gateway of routes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Router {
    pub nid: Nid,
    pub refs: u32,
    pub routes: u32,
    pub alive: bool,
}

/// Whether messages for others are forwarded. Spec: lnet-behaviour §8.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoutingState {
    /// They are dropped.
    #[default]
    Disabled,
    /// They are forwarded, and peers know it.
    Enabled,
    /// They are forwarded, and peers are notified that they soon will not be.
    Stopping,
    /// They are forwarded, and peers are not notified yet.
    Starting,
    /// Like stopping, but at once: peers are notified by pushes, what is here is finished.
    Draining,
}

/// One class of router buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Pool {
    /// 4 KiB pages of one buffer: 0 tiny, 1 small, 256 large.
    pub pages: u32,
    /// How many there may be.
    pub buffers: u32,
    /// How many have memory now.
    pub allocated: u32,
    /// Negative: so many messages wait.
    pub credits: i64,
    pub credits_min: i64,
}

/// What passed from one network to another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Transit {
    pub from: Net,
    pub to: Net,
    pub messages: u64,
    pub bytes: u64,
    /// From the header's arrival to the last byte's leaving.
    pub latency: Histogram,
}

/// The state of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Routing {
    pub state: RoutingState,
    /// Tiny, small, large; without buffers if it never was a router.
    pub pools: [Pool; 3],
    pub transits: Vec<Transit>,
}

/// NIDs that wait to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Recovery {
    pub local: Vec<Nid>,
    pub peer: Vec<Nid>,
}

/// A fault on purpose, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As it was configured, with its types filled in.
    pub rule: FaultRule,
    /// Messages that a rate or an interval was about.
    pub examined: u64,
    /// Messages that were dropped, failed or delayed.
    pub hits: ByType,
}
