//! What is to be simulated.

use std::time::Duration;

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Line, Tcp};

pub use fulmar_tune::model::Direction;

/// Clients at one site that read from or write to servers at another, as `lst`'s brw test does.
///
/// Client *i* talks to server *i* modulo the number of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// How many clients there are.
    pub clients: u32,
    /// How many servers there are.
    pub servers: u32,
    /// Which way the data go.
    pub direction: Direction,
    /// RPCs that each client has under way: what `lst` calls concurrency, and stands for
    /// `max_rpcs_in_flight`.
    pub concurrency: u32,
    /// Bytes of each transfer: a multiple of 8, at most 1 MiB. Replies have 160 bytes: not so many.
    pub size: u32,
    /// When clients begin.
    pub begin: Begin,
    /// Settings of every node.
    pub credits: Credits,
    /// What is between the sites.
    pub path: Path,
}

/// When clients begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// All at one moment, as a batch of `lst` and the ranks of a job do. Their RPCs meet on lines
    /// that all share, and travel side by side for hundreds of round trips.
    Together,
    /// One after the other, evenly over such a time, as users do who know nothing of each other.
    InTurn(Duration),
}

/// What bounds the messages of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Messages to one peer at once.
    pub peer_credits: u32,
    /// Messages of an interface at once.
    pub credits: u32,
    /// Connections of each bulk kind to a peer.
    pub conns_per_peer: u32,
    /// From which payload on a message holds its credits until the peer has it: 16 KiB in a
    /// kernel; `None` for never, as ours.
    pub zc_min_payload: Option<u32>,
}

impl Credits {
    /// What a kernel holds its credits for a round trip for, unless it is told otherwise.
    pub const KERNEL_ZERO_COPY: u32 = 16_384;
}

/// The settings that nodes have by themselves.
impl Default for Credits {
    fn default() -> Self {
        Self { peer_credits: 8, credits: 256, conns_per_peer: 1, zc_min_payload: None }
    }
}

/// By how much the delay of a long line varies at most, one way: to this the emulated link keeps its
/// own. A network without any noise keeps for ever how RPCs happened to begin, so that one setting
/// has several answers.
pub const OCEAN_JITTER: Duration = Duration::from_micros(200);

/// Two sites, each with a switch, and trunks between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The cable of each client.
    pub client_cable: Line,
    /// The cable of each server.
    pub server_cable: Line,
    /// Between the sites; each connection keeps to one of them.
    pub trunks: Vec<Line>,
    /// What the TCP of every host is told.
    pub tcp: Tcp,
    /// LNet routers at the sites, if messages pass any.
    pub routers: Option<Routers>,
}

impl Path {
    /// Returns a path of one trunk of this rate and round trip. Cables are ten times as fast, and
    /// so short that all of the way is the trunk's.
    pub fn pipe(rate_mbps: u64, round_trip: Duration) -> Self {
        let cable = Line::new(rate_mbps * 10, Duration::ZERO);
        Self {
            client_cable: cable.clone(),
            server_cable: cable,
            trunks: vec![Line::new(rate_mbps, round_trip / 2)],
            tcp: Tcp::default(),
            routers: None,
        }
    }

    /// Returns how long a message and its answer take at least.
    pub fn round_trip(&self) -> Duration {
        let trunk = self.trunks.iter().map(|line| line.delay).min().unwrap_or_default();
        (self.client_cable.delay + trunk + self.server_cable.delay) * 2
    }
}

/// Routers at the ends of the trunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routers {
    /// How many there are at the site of the clients, beside each other; may be none.
    pub at_clients: u32,
    /// How many there are at the site of the servers; may be none.
    pub at_servers: u32,
    /// Their cables, on either side.
    pub cable: Line,
    /// How many messages each can hold.
    pub buffers: RouterBuffers,
    /// Messages that each forwards at once for one neighbour; 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
}
