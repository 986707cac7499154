//! The state of a node as values, the same in the server and the client of the control socket.

use std::net::SocketAddr;

use fulmar_lnd::NiTunables;
use fulmar_lnet::views;
use fulmar_lnet_wire::{Nid, ProcessId};
use serde::{Deserialize, Serialize};

use crate::config::GlobalKey;

/// A network of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Net {
    pub net: fulmar_lnet_wire::Net,
    pub nis: Vec<Ni>,
}

/// A network interface of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Ni {
    pub nid: Nid,
    pub up: bool,
    /// Whether the administrator lets it be used.
    pub enabled: bool,
    /// On a router, seconds since the last message from the network.
    pub alive: Option<u64>,
    /// As configured; `0@lo` has none.
    pub interface: Option<String>,
    pub traffic: Traffic,
    pub udsp: Udsp,
    pub health: NiHealth,
    pub tunables: Tunables,
    /// `0@lo` has none.
    pub lnd: Option<LndTunables>,
    /// The NUMA node of the device, −1 if unknown.
    pub dev_cpt: i32,
    pub cpts: Vec<u32>,
    pub refs: u32,
    pub credits: Credits,
}

/// The traffic of an NI or a peer NI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Traffic {
    pub sent: ByType,
    pub received: ByType,
    pub dropped: ByType,
    pub put_egress: Latency,
    pub get_rtt: Latency,
    pub put_ack: Latency,
}

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

/// Durations of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub samples: u64,
    pub min_nsec: u64,
    pub max_nsec: u64,
    pub avg_nsec: u64,
}

/// The health of an NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct NiHealth {
    pub fatal_error: u32,
    /// 0 to 1000.
    pub value: u32,
    pub interrupts: u32,
    pub dropped: u32,
    pub aborted: u32,
    pub no_route: u32,
    pub timeouts: u32,
    pub error: u32,
    pub ping_count: u32,
    pub next_ping: u64,
}

impl Default for NiHealth {
    fn default() -> Self {
        Self {
            fatal_error: 0,
            value: 1000,
            interrupts: 0,
            dropped: 0,
            aborted: 0,
            no_route: 0,
            timeouts: 0,
            error: 0,
            ping_count: 0,
            next_ping: 0,
        }
    }
}

/// The configured credits of an NI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Tunables {
    pub peer_timeout: i32,
    pub peer_credits: u32,
    pub peer_buffer_credits: u32,
    pub credits: u32,
}

/// The settings of the socket LND for an NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LndTunables {
    pub conns_per_peer: u32,
    /// Seconds.
    pub timeout: u32,
    pub tos: i32,
}

/// Current credits. If negative, the number of waiting messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Credits {
    pub max: i64,
    pub now: i64,
    pub min: i64,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Peer {
    pub primary: Nid,
    pub multi_rail: bool,
    /// The bits of lnet-admin §6.2.
    pub state: u32,
    pub nis: Vec<PeerNi>,
}

/// A NID of another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PeerNi {
    pub nid: Nid,
    /// `None` prints as `NA`: its liveness is not monitored.
    pub up: Option<bool>,
    pub credits: Credits,
    pub router_credits: i64,
    pub router_credits_min: i64,
    /// Bytes of messages in flight or waiting.
    pub queued_bytes: u64,
    pub refcount: u32,
    pub traffic: Traffic,
    pub udsp: Udsp,
    pub health: PeerHealth,
}

/// The effect of selection policies on an NI or a peer NI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Udsp {
    /// `None` prints as −1: no rule matches.
    pub net_priority: Option<u32>,
    pub nid_priority: Option<u32>,
    pub preferred_gateways: Vec<Nid>,
    pub preferred_sources: Vec<Nid>,
}

impl Udsp {
    /// Converts the priorities of the machine.
    pub fn of(net: u32, nid: u32) -> Self {
        let given = |priority: u32| (priority != views::PRIORITY_LOWEST).then_some(priority);
        Self { net_priority: given(net), nid_priority: given(nid), ..Self::default() }
    }
}

/// The health of a peer NI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct PeerHealth {
    /// 0 to 1000.
    pub value: u32,
    pub dropped: u32,
    pub timeout: u32,
    pub error: u32,
    pub network_timeout: u32,
    pub ping_count: u32,
    pub next_ping: u64,
}

impl Default for PeerHealth {
    fn default() -> Self {
        Self {
            value: 1000,
            dropped: 0,
            timeout: 0,
            error: 0,
            network_timeout: 0,
            ping_count: 0,
            next_ping: 0,
        }
    }
}

/// The global values, in order.
pub type Globals = Vec<(GlobalKey, u32)>;

/// Returns the global values, including computed ones.
pub fn globals(globals: &fulmar_lnet::Globals) -> Globals {
    GlobalKey::ALL.map(|key| (key, key.get(globals))).to_vec()
}

/// The answer of another node to a ping, or its state after a discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Reply {
    pub primary: Nid,
    pub multi_rail: bool,
    /// Without `0@lo`.
    pub nids: Vec<Nid>,
}

/// The result of the ping or discovery of one NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The NID that was pinged.
    pub nid: Nid,
    /// The reply, or a positive error number.
    pub result: Result<Reply, i32>,
}

/// An open connection of the socket LND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Connection {
    pub peer: ProcessId,
    /// `C` control, `I` bulk in, `O` bulk out, `A` any.
    pub kind: char,
    pub cpt: u32,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Bytes of the socket's buffers.
    pub send_buffer: u32,
    pub receive_buffer: u32,
    pub nagle: bool,
}

/// A peer of the socket LND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SocklndPeer {
    pub peer: ProcessId,
    /// The local and the remote address, if this node dials the peer.
    pub dials: Option<(std::net::IpAddr, SocketAddr)>,
    pub connections: u32,
}

/// An interface that the socket LND uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct SocklndInterface {
    pub ip: std::net::IpAddr,
    /// The length of the network prefix.
    pub prefix: u8,
    pub peers: u32,
    pub routes: u32,
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

        impl From<views::Stats> for Stats {
            fn from(view: views::Stats) -> Self {
                Self { $( $key: view.$key, )+ }
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

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $key:ident),+ $(,)?) => {
        /// The counters of the socket LND.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct SocklndCounters { $( $(#[doc = $help])+ pub $key: u64, )+ }

        impl SocklndCounters {
            /// Returns the name, the description and the value of each counter.
            pub fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$( (stringify!($key), concat!($($help),+), self.$key), )+]
            }
        }

        impl From<&fulmar_socklnd::Counters> for SocklndCounters {
            fn from(counters: &fulmar_socklnd::Counters) -> Self {
                Self { $( $key: counters.$key, )+ }
            }
        }
    };
}

counters! {
    /// Connections that peers opened.
    accepted,
    /// Connections that this node opened.
    dialled,
    /// Connections that could not be opened.
    dial_failures,
    /// Connections that ended in their handshake.
    handshake_failures,
    /// Connections refused because the source port is not privileged.
    refused_unprivileged,
    /// Connections refused because too many were in their handshake.
    refused_handshakes,
    /// Connections refused because they requested a NID of another node.
    refused_nid,
    /// Connections refused in favour of an outgoing one to the same peer.
    refused_races,
    /// Connections closed because received bytes violate the protocol.
    malformed,
    /// Connections closed because nothing was received in time.
    silent,
    /// Messages whose checksum was wrong.
    checksum_errors,
    /// Zero-copy acknowledgements of unknown messages.
    unknown_cookies,
    /// Zero-copy acknowledgements of messages that ended with an earlier connection.
    late_cookies,
    /// Connections closed because a message stalled.
    stalled,
    /// Connections retired because their link went down or nothing arrived.
    retired,
    /// Keepalives sent.
    keepalives_sent,
    /// Keepalives received.
    keepalives_received,
    /// Zero-copy acknowledgements sent.
    zc_acks_sent,
    /// Zero-copy acknowledgements received.
    zc_acks_received,
    /// LNet messages sent.
    messages_sent,
    /// LNet messages received.
    messages_received,
    /// Payload bytes sent.
    payload_sent,
    /// Payload bytes received.
    payload_received,
}

impl From<NiTunables> for Tunables {
    fn from(t: NiTunables) -> Self {
        Self {
            peer_timeout: t.peer_timeout,
            peer_credits: t.peer_credits,
            peer_buffer_credits: t.peer_buffer_credits,
            credits: t.credits,
        }
    }
}

impl From<views::ByType> for ByType {
    fn from(v: views::ByType) -> Self {
        Self { put: v.put, get: v.get, reply: v.reply, ack: v.ack, hello: v.hello }
    }
}

impl From<views::Latency> for Latency {
    fn from(v: views::Latency) -> Self {
        Self {
            samples: v.samples,
            min_nsec: v.min_nsec,
            max_nsec: v.max_nsec,
            avg_nsec: v.avg_nsec(),
        }
    }
}

impl From<views::Traffic> for Traffic {
    fn from(v: views::Traffic) -> Self {
        Self {
            sent: v.sent.into(),
            received: v.received.into(),
            dropped: v.dropped.into(),
            put_egress: v.put_egress.into(),
            get_rtt: v.get_rtt.into(),
            put_ack: v.put_ack.into(),
        }
    }
}

impl Peer {
    /// Converts the view of the machine.
    pub fn of(v: views::Peer) -> Self {
        let nis = v.nis.into_iter().map(PeerNi::of).collect();
        Self { primary: v.primary, multi_rail: v.multi_rail, state: v.state, nis }
    }
}

impl PeerNi {
    fn of(v: views::PeerNi) -> Self {
        Self {
            nid: v.nid,
            up: v.alive,
            credits: Credits { max: v.credits_max, now: v.credits, min: v.credits_min },
            router_credits: v.router_credits,
            router_credits_min: v.router_credits_min,
            queued_bytes: v.queued_bytes,
            refcount: v.refcount,
            traffic: v.traffic.into(),
            udsp: Udsp {
                preferred_gateways: v.preferred_gateways,
                preferred_sources: v.preferred_nids,
                ..Udsp::of(v.net_priority, v.priority)
            },
            health: PeerHealth {
                value: v.health.value,
                dropped: v.health.dropped,
                timeout: v.health.timeouts,
                error: v.health.error,
                network_timeout: v.health.network_timeout,
                ping_count: v.health.ping_count,
                next_ping: next_ping(&v.health),
            },
        }
    }
}

impl NiHealth {
    /// Converts the view of the machine.
    pub fn of(health: &views::Health, fatal: bool) -> Self {
        Self {
            fatal_error: fatal.into(),
            value: health.value,
            interrupts: health.interrupts,
            dropped: health.dropped,
            aborted: health.aborted,
            no_route: health.no_route,
            timeouts: health.timeouts,
            error: health.error,
            ping_count: health.ping_count,
            next_ping: next_ping(health),
        }
    }
}

/// Returns the time of the next recovery ping in seconds of the node's clock, as kernels show it.
fn next_ping(health: &views::Health) -> u64 {
    health.next_ping.map_or(0, |at| at.as_secs())
}

impl From<fulmar_lnet::PingReply> for Reply {
    fn from(reply: fulmar_lnet::PingReply) -> Self {
        Self { primary: reply.primary, multi_rail: reply.multi_rail, nids: reply.nids }
    }
}
