//! The points of the study, and the parameters of the SC11 laboratory.

use std::collections::BTreeSet;
use std::time::Duration;

use fulmar_sim::options::{Line, Tcp};
use serde::Serialize;

use crate::scenario::{Begin, Credits, Direction, OCEAN_JITTER, Path, Scenario};

/// Number of clients.
pub const CLIENTS: u32 = 31;
/// Number of servers.
pub const SERVERS: u32 = 16;
/// Rate of each node's cable.
pub(super) const CABLE_MBPS: u64 = 10_000;
/// Rate of each trunk, one per VLAN.
pub(super) const TRUNK_MBPS: u64 = 50_000;
pub(super) const TRUNKS: usize = 2;
pub(super) const MTU: u32 = 9000;
/// The maximum of `tcp_rmem` and `tcp_wmem`: 160 MiB.
pub(super) const BUFFERS: u64 = 160 << 20;
/// `credits` of each interface; high enough not to be the bottleneck.
pub(super) const CREDITS: u32 = 4096;
/// Initial window of warm connections: as many packets as the buffers hold.
const WARM: u32 = (BUFFERS / 8948) as u32 + 1;

/// `peer_credits`, from the default to eight times as many.
pub const PEER_CREDITS: [u32; 4] = [8, 16, 32, 64];
/// RPCs in flight of a client.
pub const CONCURRENCIES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Bytes of a transfer.
pub const SIZES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Numbers of clients; there are as many servers, up to [`SERVERS`].
pub const NODES: [u32; 6] = [1, 2, 4, 8, 16, CLIENTS];
/// The concurrency where another parameter varies.
pub const USUAL_CONCURRENCY: u32 = 64;
const MIB: u32 = 1 << 20;

/// One point of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    /// Direction of the data.
    pub direction: Direction,
    /// How long messages hold their credits.
    pub hold: Hold,
    /// The distance between the sites.
    pub distance: Distance,
    /// Concurrent messages to one peer.
    pub peer_credits: u32,
    /// RPCs in flight of a client.
    pub concurrency: u32,
    /// Bytes of a transfer.
    pub size: u32,
    /// Number of clients.
    pub clients: u32,
}

/// How long messages hold their credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Until the socket has taken them, as in Fulmar.
    Fulmar,
    /// From 16 KiB on until the peer acknowledges them, as with zero copy in a kernel node.
    Kernel,
}

impl Hold {
    /// All values.
    pub const ALL: [Self; 2] = [Self::Fulmar, Self::Kernel];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fulmar => "Fulmar",
            Self::Kernel => "kernel-like",
        }
    }
}

/// The distance between the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// A round trip of 0.24 ms.
    BackToBack,
    /// A round trip of 50.5 ms.
    Ocean,
}

impl Distance {
    /// Returns the round trip.
    pub fn round_trip(self) -> Duration {
        match self {
            Self::BackToBack => Duration::from_micros(240),
            Self::Ocean => Duration::from_micros(50_500),
        }
    }

    /// Returns the largest one-way jitter.
    fn jitter(self) -> Duration {
        match self {
            Self::BackToBack => Duration::ZERO,
            Self::Ocean => OCEAN_JITTER,
        }
    }

    /// Returns the round trip as text.
    pub fn name(self) -> &'static str {
        match self {
            Self::BackToBack => "0.24 ms",
            Self::Ocean => "50.5 ms",
        }
    }
}

impl Key {
    /// Returns the base point of the study: all nodes, 1 MiB, over the ocean.
    pub fn usual(direction: Direction, hold: Hold, peer_credits: u32) -> Self {
        let (distance, concurrency) = (Distance::Ocean, USUAL_CONCURRENCY);
        Self { direction, hold, distance, peer_credits, concurrency, size: MIB, clients: CLIENTS }
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> u32 {
        self.clients.min(SERVERS)
    }

    /// Returns the scenario to simulate.
    pub fn scenario(&self) -> Scenario {
        let kernel = self.hold == Hold::Kernel;
        let cable = Line::new(CABLE_MBPS, Duration::ZERO);
        let round_trip = self.distance.round_trip();
        let jitter = self.distance.jitter();
        let trunk = Line { jitter, ..Line::new(TRUNK_MBPS, round_trip / 2) };
        let tcp = Tcp { mtu: MTU, initial_window: WARM, ..Tcp::default() };
        Scenario {
            clients: self.clients,
            servers: self.servers(),
            direction: self.direction,
            concurrency: self.concurrency,
            size: self.size,
            // A write RPC takes two round trips.
            begin: Begin::InTurn(round_trip * 2),
            credits: Credits {
                peer_credits: self.peer_credits,
                credits: CREDITS,
                conns_per_peer: 1,
                zc_min_payload: kernel.then_some(Credits::KERNEL_ZERO_COPY),
            },
            path: Path {
                client_cable: cable.clone(),
                server_cable: cable,
                trunks: vec![trunk; TRUNKS],
                tcp: tcp.with_buffers(BUFFERS),
                routers: None,
            },
        }
    }

    /// Returns the number of RPCs in flight.
    pub fn units(&self) -> u64 {
        u64::from(self.clients) * u64::from(self.concurrency)
    }
}

/// Returns every point of all figures once, the most expensive first.
pub fn points() -> Vec<Key> {
    let mut all = BTreeSet::new();
    for direction in [Direction::Write, Direction::Read] {
        for hold in Hold::ALL {
            for peer_credits in PEER_CREDITS {
                let usual = Key::usual(direction, hold, peer_credits);
                all.extend(CONCURRENCIES.map(|concurrency| Key { concurrency, ..usual }));
                all.extend(SIZES.map(|size| Key { size, ..usual }));
                all.extend(NODES.map(|clients| Key { clients, ..usual }));
            }
            for peer_credits in BACK_TO_BACK_CREDITS {
                let usual = Key::usual(direction, hold, peer_credits);
                let near = Key { distance: Distance::BackToBack, ..usual };
                all.extend(near_concurrencies().map(|concurrency| Key { concurrency, ..near }));
            }
        }
    }
    all.extend(what_fills(Hold::Fulmar, BACK_TO_BACK_CREDITS[0]).into_iter().flatten());
    all.extend(what_fills(Hold::Kernel, BACK_TO_BACK_CREDITS[1]).into_iter().flatten());
    let mut all: Vec<Key> = all.into_iter().collect();
    all.sort_by_key(|key| std::cmp::Reverse(key.units()));
    all
}

/// Returns points that are also simulated with clients that start at the same time: some with
/// nearly as many data in flight as the trunks hold, and one with less.
pub(super) fn together() -> [Key; 4] {
    let usual = Key::usual(Direction::Write, Hold::Fulmar, 8);
    let read = Key { direction: Direction::Read, hold: Hold::Kernel, peer_credits: 64, ..usual };
    [
        Key { concurrency: 8, ..usual },
        Key { concurrency: 32, ..usual },
        Key { clients: 16, ..usual },
        Key { concurrency: 32, ..read },
    ]
}

/// Returns the concurrencies of the back-to-back curves, where few RPCs fill the trunks.
pub(super) fn near_concurrencies() -> impl Iterator<Item = u32> {
    CONCURRENCIES.into_iter().filter(|n| *n <= 8)
}

/// The peer credits of the back-to-back curves.
pub const BACK_TO_BACK_CREDITS: [u32; 2] = [8, 64];

/// Returns the points of the heat map of clients (rows) and concurrency (columns).
pub fn what_fills(hold: Hold, peer_credits: u32) -> Vec<Vec<Key>> {
    let usual = Key::usual(Direction::Write, hold, peer_credits);
    let row = |clients| CONCURRENCIES.map(|concurrency| Key { clients, concurrency, ..usual });
    NODES.map(|clients| row(clients).to_vec()).to_vec()
}
