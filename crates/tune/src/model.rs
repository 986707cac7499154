//! The closed model: what a load carries over a path, and what binds it. Spec: lnet-behaviour §15.
//!
//! A bulk message takes a credit of its sender, crosses the line, and gives the credit back: when
//! the socket has it ([`Hold::Written`]) or when the acknowledgement of a zero-copy send returns
//! ([`Hold::RoundTrip`]). An RPC is a request, its bulk and a reply:
//!
//! ```text
//! write    request ½ RTT, GET ½ RTT, REPLY with the data ½ RTT, reply ½ RTT     2 RTT + transfer
//! read     request ½ RTT, PUT with the data ½ RTT, the reply behind it          1 RTT + transfer
//! read whose server waits for an acknowledgement before it replies              2 RTT + transfer
//! ```
//!
//! The server of selftest waits for one if its credits are held for a round trip and the other end
//! is its next hop; that of Lustre asks for an LNet ACK and always waits.
//!
//! The throughput is the least of the terms. Where more messages want a credit than there are, the
//! terms are only a bound from above: a small request waits in LNet's queue behind the bulk of
//! others, so RPCs travel in convoys, between which the line is idle. [`predict()`] then follows the
//! queue of one pair message by message, which is still a matter of microseconds to milliseconds.
//!
//! # Where it does not apply
//! * TCP is steady: no slow start (some ten round trips after the first byte of a connection), and
//!   losses only as far as `socket_buffer` says what the congestion control lets go.
//! * Pairs are alike and share fairly; routers take turns.
//! * With more in flight than the path holds, and less than twice of it, RPCs that began together
//!   meet on the line too, and requests wait in its queue: up to a fifth is lost, until noise has
//!   driven them apart over hundreds of round trips. The simulator shows that.
//! * Behind routers small messages and bulk come on connections of their own, which take turns, and
//!   convoys are shorter: where a few more RPCs than credits are under way, up to a sixth (writes) or
//!   a quarter (reads) more goes over than is said.
//! * No path is so short that a message takes longer than a round trip.
//! * Servers take no time, and have a thread for every request.
//! * A queue on the line that is too short for the windows that share it drops packets.

use std::time::Duration;

use serde::Serialize;

mod predict;
mod terms;
#[cfg(test)]
mod tests;
mod waves;

pub use predict::predict;

/// The most that one LNet message carries.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// A way between two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Bytes of payload that its narrowest line carries in a second.
    pub rate: u64,
    /// From a byte sent to its acknowledgement, with nothing else on the line.
    pub rtt: Duration,
}

impl Path {
    /// Returns a path over a line of `bits` per second whose packets have up to `mtu` bytes.
    pub fn of_line(bits: u64, mtu: u32, rtt: Duration) -> Self {
        Self { rate: payload_rate(bits, mtu), rtt }
    }

    /// Returns how many bytes are under way when it is full.
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

/// Returns what one packet of TCP over IPv4 carries.
pub fn segment_bytes(mtu: u32) -> u32 {
    mtu.saturating_sub(TCP_IP_BYTES).max(1)
}

/// Returns the bytes that CUBIC keeps under way on average when packets are lost with the chance
/// `loss`: RFC 8312, section 5.1. `u64::MAX` without loss.
pub fn cubic_window(segment: u32, rtt: Duration, loss: f64) -> u64 {
    if loss <= 0. {
        return u64::MAX;
    }
    let cubic = 1.054 * (rtt.as_secs_f64() / loss).powf(0.75);
    let reno = 1.22 / loss.sqrt();
    (cubic.max(reno) * f64::from(segment)) as u64
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From servers to clients.
    Read,
    /// From clients to servers.
    Write,
}

impl Direction {
    /// Returns the word that `lst` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Whose RPCs they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The bulk test of LNet selftest: one message an RPC.
    Selftest,
    /// Bulk reads and writes of the file system.
    Lustre,
}

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Nodes that send requests.
    pub clients: u32,
    /// Nodes that answer them.
    pub servers: u32,
    /// How many pairs of a client and a server work at once.
    pub pairs: u32,
    /// RPCs of a pair in flight: `--concurrency` of lst, `max_rpcs_in_flight` of Lustre.
    pub concurrency: u32,
    /// Data of one RPC.
    pub rpc_bytes: u64,
    /// Data of one message, at most [`MESSAGE_BYTES_MAX`].
    pub message_bytes: u64,
    /// Which way the data goes.
    pub direction: Direction,
    /// Whose RPCs they are.
    pub kind: Kind,
}

impl Load {
    /// Returns selftest's bulk test with 1 MiB an RPC between `pairs` clients and as many servers.
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

    /// Returns the messages of data of one RPC.
    pub fn messages(&self) -> u64 {
        self.rpc_bytes.div_ceil(self.message().max(1)).max(1)
    }

    pub(crate) fn message(&self) -> u64 {
        self.message_bytes.clamp(1, MESSAGE_BYTES_MAX).min(self.rpc_bytes.max(1))
    }

    /// The nodes whose credits the data takes.
    pub(crate) fn senders(&self) -> u32 {
        match self.direction {
            Direction::Read => self.servers,
            Direction::Write => self.clients,
        }
    }
}

/// How long a message of data keeps its credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Until the socket has taken its last byte.
    Written,
    /// Until the peer's acknowledgement of a zero-copy send is back: what kernel nodes do from
    /// 16 KiB on, where the interface allows.
    RoundTrip,
}

/// What one node's interface carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Bytes of payload per second, each way.
    pub rate: u64,
}

/// Routers at both ends of the long path, which is then between them: every router of one site has
/// every one of the other as its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Routers {
    /// How many at each end.
    pub count: u32,
    /// Bytes of payload per second that one of them forwards.
    pub rate: u64,
    /// Messages that one previous hop may have in a router (`peer_buffer_credits`, or if that is 0
    /// `peer_credits`).
    pub router_credits: u32,
    /// Buffers of 1 MiB in each.
    pub large_buffers: u32,
}

/// The settings that bound what is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Messages to one peer that may be with the driver.
    pub peer_credits: u32,
    /// Messages of one interface that may be with the driver.
    pub credits: u32,
    /// Bytes that one connection can have under way: the least of both ends' buffers, and of what
    /// the congestion control lets go.
    pub socket_buffer: u64,
    /// Connections of a pair that carry data one way (`conns_per_peer`).
    pub bulk_connections: u32,
    /// How long a message of data keeps its credit.
    pub hold: Hold,
    /// Bytes that a client may have dirty, or read ahead, for one server; no limit if `None`.
    pub cache: Option<u64>,
    /// The interfaces of clients and servers; no limit if `None`.
    pub nic: Option<Nic>,
    /// Routers at both ends; none if `None`.
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
    /// TCP may have no more under way.
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
    /// What clients may have dirty or read ahead.
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

/// One thing that bounds, with its arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// What it is.
    pub what: Bound,
    /// The formula with the numbers filled in.
    pub formula: String,
    /// What it allows all pairs together.
    pub bytes_per_second: f64,
}

/// What a load carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Data of all pairs together.
    pub bytes_per_second: f64,
    /// What binds.
    pub bound: Bound,
    /// All that might.
    pub terms: Vec<Term>,
    /// What convoys leave of the least term, if messages wait for credits; else 1.
    pub convoy: f64,
    /// How long an RPC takes that waits for nothing.
    pub rpc_time: Duration,
}
