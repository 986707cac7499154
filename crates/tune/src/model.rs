//! The closed-form model: the throughput of a load over a path, and its bound.
//! Spec: lnet-behaviour §15.
//!
//! A bulk message takes a credit of its sender, crosses the line, and returns the credit: when the
//! socket has it ([`Hold::Written`]) or when the acknowledgement of a zero-copy send returns
//! ([`Hold::RoundTrip`]). An RPC is a request, its bulk and a reply:
//!
//! ```text
//! write    request ½ RTT, GET ½ RTT, REPLY with the data ½ RTT, reply ½ RTT     2 RTT + transfer
//! read     request ½ RTT, PUT with the data ½ RTT, the reply behind it          1 RTT + transfer
//! read whose server waits for an acknowledgement before it replies              2 RTT + transfer
//! ```
//!
//! A selftest server waits for one if its credits are held for a round trip and the client is its
//! next hop; a Lustre server requests an LNet ACK and always waits.
//!
//! The throughput is the least of the terms. If more messages need a credit than there are, the
//! terms are only an upper bound: a small request waits in LNet's queue behind the bulk of other
//! RPCs, so that RPCs travel in convoys, between which the line is idle. [`predict()`] then follows
//! the queue of one pair message by message, which takes microseconds to milliseconds.
//!
//! Through routers a path has several hops, and each has its own bound: the credits of its sender, of its router and the
//! buffers there, each times a message, over the time for which this hop holds them. Only the hop between the
//! sites is long. A router forwards a message when it is complete: an RPC takes the time of the message on each
//! hop, each at the rate of its own line, which beside a router is often a much faster cable.
//!
//! ```text
//! sender ── cable ──► router ══ long line ══► router ── cable ──► receiver
//!         message/cable      message/line + ½ RTT     message/cable
//! ```
//!
//! # Limits
//! * TCP is steady: no slow start (about ten round trips after the first byte of a connection), and
//!   losses only as far as `socket_buffer` includes their effect on the congestion control.
//! * Pairs are equal and share fairly; routers take turns.
//! * With more in flight than the capacity of the path, and less than twice as much, RPCs of several
//!   pairs meet on the line, and requests wait in its queue: up to a quarter is lost, at once if they
//!   start together and otherwise after tens of round trips, and for hundreds. The simulator shows that.
//! * With twice as many RPCs as credits that are held, writes through routers are up to an eighth below the prediction: a
//!   router's two connections take turns, but neither in the order nor at the times that the model assumes.
//! * Messages of several pairs that meet on an idle line each take longer: up to an eighth.
//! * The long line is one hop. Of routers between two long lines the model knows nothing.
//! * A message takes no longer than a round trip, even on short paths.
//! * Servers need no time, and have a thread for every request.
//! * A queue on the line that is too short for the windows drops packets; the model does not.

use std::time::Duration;

use serde::Serialize;

mod predict;
mod terms;
#[cfg(test)]
mod tests;
mod waves;

pub use predict::predict;

/// The most payload of one LNet message in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// A path between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// The payload rate of its narrowest line in bytes per second.
    pub rate: u64,
    /// The time from sending a byte to its acknowledgement on an idle line.
    pub rtt: Duration,
}

impl Path {
    /// Returns a path over a line of `bits` per second with packets of up to `mtu` bytes.
    pub fn of_line(bits: u64, mtu: u32, rtt: Duration) -> Self {
        Self { rate: payload_rate(bits, mtu), rtt }
    }

    /// Returns the capacity in bytes: the bytes in flight when it is full.
    pub fn bytes_in_flight(&self) -> u64 {
        (self.rate as f64 * self.rtt.as_secs_f64()) as u64
    }
}

/// Ethernet's header, check sum, preamble and gap.
const ETHERNET_BYTES: u32 = 14 + 4 + 8 + 12;
/// Headers of IPv4 and of TCP with timestamps.
const TCP_IP_BYTES: u32 = 20 + 32;

/// Returns the payload in bytes per second of an Ethernet line of `bits` per second.
pub fn payload_rate(bits: u64, mtu: u32) -> u64 {
    let segment = u64::from(segment_bytes(mtu));
    let frame = u64::from(mtu.max(TCP_IP_BYTES + 1) + ETHERNET_BYTES);
    (u128::from(bits) * u128::from(segment) / (8 * u128::from(frame))) as u64
}

/// Returns the payload of one packet of TCP over IPv4 in bytes.
pub fn segment_bytes(mtu: u32) -> u32 {
    mtu.saturating_sub(TCP_IP_BYTES).max(1)
}

/// Returns the average bytes in flight of CUBIC if packets are lost with the probability `loss`:
/// RFC 8312, section 5.1. `u64::MAX` without loss.
pub fn cubic_window(segment: u32, rtt: Duration, loss: f64) -> u64 {
    if loss <= 0. {
        return u64::MAX;
    }
    let cubic = 1.054 * (rtt.as_secs_f64() / loss).powf(0.75);
    let reno = 1.22 / loss.sqrt();
    (cubic.max(reno) * f64::from(segment)) as u64
}

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From servers to clients.
    Read,
    /// From clients to servers.
    Write,
}

impl Direction {
    /// Returns the name that `lst` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The kind of RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The bulk test of LNet selftest: one message per RPC.
    Selftest,
    /// Bulk reads and writes of the file system.
    Lustre,
}

/// The load of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Nodes that send requests.
    pub clients: u32,
    /// Nodes that answer them.
    pub servers: u32,
    /// The number of active pairs of a client and a server.
    pub pairs: u32,
    /// RPCs of a pair in flight: `--concurrency` of lst, `max_rpcs_in_flight` of Lustre.
    pub concurrency: u32,
    /// The data of one RPC in bytes.
    pub rpc_bytes: u64,
    /// The data of one message in bytes, at most [`MESSAGE_BYTES_MAX`].
    pub message_bytes: u64,
    /// The direction of the data.
    pub direction: Direction,
    /// The kind of RPCs.
    pub kind: Kind,
}

impl Load {
    /// Returns selftest's bulk test with 1 MiB per RPC between `pairs` clients and as many servers.
    pub fn selftest(pairs: u32, concurrency: u32, direction: Direction) -> Self {
        Self {
            clients: pairs,
            servers: pairs,
            pairs,
            concurrency,
            rpc_bytes: MESSAGE_BYTES_MAX,
            message_bytes: MESSAGE_BYTES_MAX,
            direction,
            kind: Kind::Selftest,
        }
    }

    /// Returns the number of data messages of one RPC.
    pub fn messages(&self) -> u64 {
        self.rpc_bytes.div_ceil(self.message().max(1)).max(1)
    }

    pub(crate) fn message(&self) -> u64 {
        self.message_bytes.clamp(1, MESSAGE_BYTES_MAX).min(self.rpc_bytes.max(1))
    }

    /// Returns the number of nodes whose credits the data use.
    pub(crate) fn senders(&self) -> u32 {
        match self.direction {
            Direction::Read => self.servers,
            Direction::Write => self.clients,
        }
    }

    /// Returns the number of nodes that get the data.
    pub(crate) fn receivers(&self) -> u32 {
        match self.direction {
            Direction::Read => self.clients,
            Direction::Write => self.servers,
        }
    }
}

/// How long a data message holds its credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Until the socket has its last byte.
    Written,
    /// Until the peer's acknowledgement of a zero-copy send: kernel nodes do so from 16 KiB on, if
    /// the interface supports it.
    RoundTrip,
}

/// The interface of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// The payload rate in bytes per second, in each direction.
    pub rate: u64,
}

/// Routers at one end or both ends of the long path, where the nodes of a site reach all of its routers, and
/// every router uses all nodes or routers of the other end as next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Routers {
    /// The number at the end of the clients.
    pub at_clients: u32,
    /// The number at the end of the servers.
    pub at_servers: u32,
    /// The payload rate of one router in bytes per second.
    pub rate: u64,
    /// The most messages of one previous hop in a router (`peer_buffer_credits`, or if that is 0
    /// `peer_credits`).
    pub router_credits: u32,
    /// Buffers of 1 MiB in each router.
    pub large_buffers: u32,
    /// Whose messages get them.
    pub sharing: Sharing,
}

impl Routers {
    /// Returns the number at the end of the senders, and of the receivers.
    fn on_the_way(&self, direction: Direction) -> [u32; 2] {
        match direction {
            Direction::Write => [self.at_clients, self.at_servers],
            Direction::Read => [self.at_servers, self.at_clients],
        }
    }
}

/// How router buffers are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// By target, as routers of Fulmar do: each target leaves some for others.
    ByTarget,
    /// The first message that comes, as kernel routers do.
    FirstCome,
}

/// The settings that limit the data in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// The most messages to one peer that the driver has (`peer_credits`).
    pub peer_credits: u32,
    /// The most messages of one interface that the driver has (`credits`).
    pub credits: u32,
    /// The most bytes in flight of one connection: the least of the buffers of both ends, and of
    /// the window of the congestion control.
    pub socket_buffer: u64,
    /// Connections of a pair that carry data in one direction (`conns_per_peer`).
    pub bulk_connections: u32,
    /// How long a data message holds its credit.
    pub hold: Hold,
    /// The most dirty or read-ahead bytes of a client for one server; no limit if `None`.
    pub cache: Option<u64>,
    /// The interfaces of clients and servers; no limit if `None`.
    pub nic: Option<Nic>,
    /// The routers; none if `None`.
    pub routers: Option<Routers>,
}

/// What bounds the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The line is full.
    Line,
    /// The interfaces of the clients or of the servers are full.
    Nic,
    /// The routers forward no more.
    Router,
    /// The TCP windows.
    Window,
    /// `peer_credits`.
    PeerCredits,
    /// `credits` of an interface.
    Credits,
    /// Router credits of a previous hop.
    RouterCredits,
    /// Large buffers of the routers.
    RouterBuffers,
    /// RPCs in flight.
    Concurrency,
    /// The dirty or read-ahead data of clients.
    Cache,
}

impl Bound {
    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Nic => "interfaces",
            Self::Router => "routers",
            Self::Window => "TCP windows",
            Self::PeerCredits => "peer_credits",
            Self::Credits => "credits",
            Self::RouterCredits => "router credits",
            Self::RouterBuffers => "router buffers",
            Self::Concurrency => "RPCs in flight",
            Self::Cache => "client cache",
        }
    }
}

/// One bound with its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// The bound.
    pub what: Bound,
    /// The formula with its numbers.
    pub formula: String,
    /// The rate that it allows for all pairs together in bytes per second.
    pub bytes_per_second: f64,
}

/// The predicted throughput of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The data rate of all pairs together in bytes per second.
    pub bytes_per_second: f64,
    /// The bound that applies.
    pub bound: Bound,
    /// All bounds.
    pub terms: Vec<Term>,
    /// The factor of convoys on the least term, if messages wait for credits; otherwise 1.
    pub convoy: f64,
    /// The duration of an RPC that does not wait.
    pub rpc_time: Duration,
}
