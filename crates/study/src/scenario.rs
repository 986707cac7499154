//! The description of a scenario.

use std::time::Duration;

use fulmar_lnet::RouterBuffers;
use fulmar_sim::options::{Line, Tcp};

pub use fulmar_tune::model::Direction;

/// Clients at one site that read from or write to servers at another, as the brw test of `lst`
/// does.
///
/// Client *i* talks to server *i* modulo the number of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Number of clients.
    pub clients: u32,
    /// Number of servers.
    pub servers: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// RPCs in flight of each client: `lst`'s concurrency; corresponds to `max_rpcs_in_flight`.
    pub concurrency: u32,
    /// Bytes of each transfer: a multiple of 8, at most 1 MiB, and not 160, the size of a reply.
    pub size: u32,
    /// When clients start.
    pub begin: Begin,
    /// Settings of every node.
    pub credits: Credits,
    /// The network between the sites.
    pub path: Path,
}

/// When clients start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// All at the same time, like a batch of `lst` or the ranks of a job. Their RPCs queue on
    /// shared lines, and stay bunched for hundreds of round trips.
    Together,
    /// One after the other, evenly over this time, like independent users.
    InTurn(Duration),
}

/// The limits of a node's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    /// Concurrent messages to one peer.
    pub peer_credits: u32,
    /// Concurrent messages of an interface.
    pub credits: u32,
    /// Connections of each bulk type to a peer.
    pub conns_per_peer: u32,
    /// The payload from which a message holds its credits until the peer acknowledges it: 16 KiB in
    /// a kernel node; `None` for never, as in Fulmar.
    pub zc_min_payload: Option<u32>,
}

impl Credits {
    /// The default of a kernel node, in bytes.
    pub const KERNEL_ZERO_COPY: u32 = 16_384;
}

/// The default settings of nodes.
impl Default for Credits {
    fn default() -> Self {
        Self { peer_credits: 8, credits: 256, conns_per_peer: 1, zc_min_payload: None }
    }
}

/// Largest one-way jitter of a long line, the same as of the emulated link. Without any noise, the
/// initial timing of RPCs would persist, and the result would depend on it.
pub const OCEAN_JITTER: Duration = Duration::from_micros(200);

/// Two sites, each with a switch, and trunks between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The cable of each client.
    pub client_cable: Line,
    /// The cable of each server.
    pub server_cable: Line,
    /// The trunks between the sites; each connection uses one of them.
    pub trunks: Vec<Line>,
    /// The TCP settings of every host.
    pub tcp: Tcp,
    /// LNet routers at the sites, if any.
    pub routers: Option<Routers>,
}

impl Path {
    /// Returns a path of one trunk with this rate and round trip. Cables are ten times as fast and
    /// have no delay.
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

    /// Returns the shortest round trip.
    pub fn round_trip(&self) -> Duration {
        let trunk = self.trunks.iter().map(|line| line.delay).min().unwrap_or_default();
        (self.client_cable.delay + trunk + self.server_cable.delay) * 2
    }
}

/// Routers at the ends of the trunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routers {
    /// Number of parallel routers at the clients' site; may be 0.
    pub at_clients: u32,
    /// Number of parallel routers at the servers' site; may be 0.
    pub at_servers: u32,
    /// Their cables, on both sides.
    pub cable: Line,
    /// The buffers of each router.
    pub buffers: RouterBuffers,
    /// Concurrent messages that each forwards for one peer; 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
}
