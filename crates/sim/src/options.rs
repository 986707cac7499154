//! The options of a run. They are drawn from its seed, so that runs differ in kind.

mod hostile;
mod network;
mod rails;
mod selftest;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_lnet::RouteConfig;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_text::duration;

pub use hostile::Hostile;
pub use network::{
    Control, Cut, Duplex, HyStart, Line, Network, Ports, Site, Tcp, Topology, Trunk,
};
pub use rails::{RailFaults, Rails};
pub use selftest::Selftest;

use crate::{HostId, Port};

/// Everything that configures a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of all random values.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: u32,
    /// The network between them.
    pub network: Network,
    /// Credits of each node towards one peer.
    pub peer_credits: u32,
    /// Credits of each node towards all peers.
    pub credits: u32,
    /// Connections of each bulk type.
    pub conns_per_peer: u32,
    /// The payload from which a message holds its credits until the peer acknowledges it (zero-copy
    /// acknowledgement), as in a kernel node; `None` for never.
    pub zc_min_payload: Option<u32>,
    /// Number of nodes, from the first, that offer only version 2 of the socket LND protocol.
    pub old_nodes: u32,
    /// Whether nodes discover each other before other messages.
    pub discovery: bool,
    /// The relative frequency of each kind of operation.
    pub mix: Mix,
    /// Number of operations.
    pub operations: u32,
    /// Number of bunches in which operations and faults occur, so that they coincide.
    pub bunches: u32,
    /// End of the safety phase: the last operation has started, and all faults end.
    pub safety: Time,
    /// Longest delay before an application posts a request buffer.
    pub lateness: Duration,
    /// The faults of the safety phase.
    pub faults: Faults,
    /// Several interfaces per node; without, each node has one, all on the same network.
    pub rails: Option<Rails>,
    /// Hosts that are hostile to the nodes.
    pub hostile: Option<Hostile>,
    /// LNet selftest on every node.
    pub selftest: Option<Selftest>,
    /// A deliberate defect in the simulator, to test that the checkers find it.
    pub defect: Option<Defect>,
}

/// The relative frequency of each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [(Kind, u64); Kind::ALL.len()],
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A PUT into an MD that was posted for it.
    Put,
    /// A GET from an MD that was posted for it.
    Get,
    /// A PUT into the request buffers of a lazy portal, which may be posted late.
    Request,
    /// A PUT that matches nothing and is dropped.
    Unwanted,
    /// A GET from a region that all nodes may read.
    Region,
    /// A PUT or a GET to `0@lo`.
    Loopback,
    /// PUTs of two nodes to each other at the same time.
    Mutual,
    /// A PUT or GET whose MD is unlinked while it is in progress.
    Cancelled,
    /// A ping.
    Ping,
    /// A discovery.
    Discover,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Put,
        Self::Get,
        Self::Request,
        Self::Unwanted,
        Self::Region,
        Self::Loopback,
        Self::Mutual,
        Self::Cancelled,
        Self::Ping,
        Self::Discover,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Request => "request",
            Self::Unwanted => "unwanted",
            Self::Region => "region",
            Self::Loopback => "loopback",
            Self::Mutual => "mutual",
            Self::Cancelled => "cancelled",
            Self::Ping => "ping",
            Self::Discover => "discover",
        }
    }
}

impl Mix {
    /// Draws weights; about a third of them are zero.
    fn draw(rng: &mut Rng) -> Self {
        let weights = Kind::ALL.map(|kind| (kind, rng.between(0, 8).saturating_sub(2)));
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Self::only(Kind::Put);
        }
        Self { weights }
    }

    /// Returns the mix of one kind.
    pub fn only(kind: Kind) -> Self {
        Self { weights: Kind::ALL.map(|other| (other, u64::from(other == kind))) }
    }

    /// Draws a kind.
    pub(crate) fn kind(&self, rng: &mut Rng) -> Kind {
        let total = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut left = rng.below(total);
        for (kind, weight) in self.weights {
            match left.checked_sub(weight) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        Kind::Put
    }
}

/// Number of faults of each kind during the safety phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Faults {
    /// Resets of all connections between two nodes.
    pub resets: u32,
    /// Nodes that crash and restart without state.
    pub crashes: u32,
    /// Pairs of nodes that cannot reach each other for a while.
    pub partitions: u32,
    /// Nodes that are paused for a while.
    pub pauses: u32,
    /// Nodes that read slowly for a while.
    pub slow_readers: u32,
    /// Connections with a peer that an administrator closes.
    pub disconnects: u32,
    /// Clocks that start to drift, by up to one part in a thousand. If there are any, all clocks
    /// have different offsets from the start.
    pub clocks: u32,
    /// Faults of interfaces and routers.
    pub rails: RailFaults,
    /// Longest duration of a fault.
    pub longest: Duration,
}

impl Faults {
    fn draw(rng: &mut Rng) -> Self {
        let mut often = |max| if rng.one_in(2) { 0 } else { rng.between(1, max) as u32 };
        Self {
            resets: often(12),
            crashes: often(4),
            partitions: often(4),
            pauses: often(4),
            slow_readers: often(4),
            disconnects: often(3),
            clocks: often(3),
            rails: RailFaults::default(),
            longest: Duration::from_secs(*pick(rng, &[1, 10, 60, 120])),
        }
    }

    /// Returns whether there are no faults.
    pub fn is_none(&self) -> bool {
        let Self { resets, crashes, partitions, pauses, slow_readers, disconnects, clocks, .. } =
            self;
        let hosts = resets + crashes + partitions + pauses + slow_readers + disconnects + clocks;
        hosts + self.rails.total() == 0
    }
}

/// The faults that there are, with their numbers.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rails, longest, .. } = self;
        let all = [
            (self.resets, "resets"),
            (self.crashes, "crashes"),
            (self.partitions, "partitions"),
            (self.pauses, "pauses"),
            (self.slow_readers, "slow readers"),
            (self.disconnects, "disconnects"),
            (self.clocks, "drifting clocks"),
            (rails.cuts, "links down"),
            (rails.silent_cuts, "silent links"),
            (rails.removals, "removals of interfaces"),
            (rails.switches, "disabled interfaces"),
            (rails.router_crashes, "crashes of routers"),
            (rails.stops, "routers that stop forwarding"),
            (rails.drains, "drained routers"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let some: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
        if some.is_empty() {
            f.write_str("none")
        } else {
            write!(f, "{}, of up to {}", some.join(", "), duration(*longest))
        }
    }
}

/// A deliberate defect in the simulator's driver, which the checkers must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Once per run, a node is not notified that the socket took the end of a message: a credit
    /// leaks.
    LostSent,
    /// Once per run, reading of a resumed connection does not continue: a wake-up is lost.
    LostResume,
    /// Once per run, bulk data are stored four bytes off.
    Misplaced,
    /// Once per run, a router is not notified that the socket took a forwarded message: a buffer
    /// and a router credit leak.
    LostForward,
    /// Once per run, reading of a router's connection does not continue when its buffer is
    /// available: a message in the queue of a pool is lost.
    LostPool,
    /// Once per run, a node sees a connection of a hostile host come from the address that its hello
    /// claims, which is that of another node.
    Impersonated,
    /// Once per run, a connection of a hostile host blocks a node for a minute.
    Blocked,
}

impl Defect {
    /// All defects.
    pub const ALL: [Self; 7] = [
        Self::LostSent,
        Self::LostResume,
        Self::Misplaced,
        Self::LostForward,
        Self::LostPool,
        Self::Impersonated,
        Self::Blocked,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::LostSent => "lost-sent",
            Self::LostResume => "lost-resume",
            Self::Misplaced => "misplaced",
            Self::LostForward => "lost-forward",
            Self::LostPool => "lost-pool",
            Self::Impersonated => "impersonated",
            Self::Blocked => "blocked",
        }
    }
}

impl Options {
    /// Draws the options of a run.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let calm = rng.one_in(4);
        let faults = if calm { Faults::default() } else { Faults::draw(rng) };
        let zc_min_payload = rng.one_in(4).then(|| 1 << rng.between(8, 16));
        let peer_credits = rng.between(1, 16) as u32;
        Self {
            seed,
            nodes: rng.between(2, 6) as u32,
            network: Network::draw(rng, faults.is_none()),
            peer_credits,
            credits: peer_credits * rng.between(1, 8) as u32,
            conns_per_peer: rng.between(1, 3) as u32,
            zc_min_payload,
            // Nodes of different versions that connect at the same time close a connection and try
            // again, which a run without faults does not allow.
            old_nodes: if !faults.is_none() && rng.one_in(3) {
                rng.between(1, 6) as u32
            } else {
                0
            },
            discovery: !rng.one_in(8),
            mix: Mix::draw(rng),
            operations: rng.between(10, 250) as u32,
            bunches: rng.between(1, 40) as u32,
            safety: Time::from_secs(rng.between(1, 150)),
            lateness: Duration::from_secs(if faults.is_none() { 3 } else { 30 }),
            faults,
            rails: None,
            hostile: None,
            selftest: None,
            defect: None,
        }
    }

    /// Returns options with default settings, a fast and even network, and neither operations nor
    /// faults, for tests.
    pub fn plain(nodes: u32) -> Self {
        Self {
            seed: 0,
            nodes,
            network: Network::even(100_000, Duration::from_micros(50)),
            peer_credits: 8,
            credits: 256,
            conns_per_peer: 1,
            zc_min_payload: None,
            old_nodes: 0,
            discovery: true,
            mix: Mix::only(Kind::Put),
            operations: 0,
            bunches: 1,
            safety: Time::from_secs(1),
            lateness: Duration::from_millis(1),
            faults: Faults::default(),
            rails: None,
            hostile: None,
            selftest: None,
            defect: None,
        }
    }
}

impl Options {
    /// Returns the interfaces of a node.
    pub(crate) fn ports(&self, host: HostId) -> Vec<Port> {
        match &self.rails {
            Some(rails) => rails.ports(host).collect(),
            None => vec![Port { host, index: 0 }],
        }
    }

    /// Returns the NID of an interface.
    pub(crate) fn nid(&self, port: Port) -> Nid {
        let net = self.rails.as_ref().and_then(|rails| rails.net(port)).unwrap_or(Net::TCP);
        Nid::of_ip(net, port.ip())
    }

    /// Returns whether a node is a router.
    pub(crate) fn is_router(&self, host: HostId) -> bool {
        self.rails.as_ref().is_some_and(|rails| rails.routers.contains(&host))
    }

    /// Returns the routes of each node.
    pub(crate) fn routes(&self) -> BTreeMap<HostId, Vec<RouteConfig>> {
        let mut routes: BTreeMap<HostId, Vec<RouteConfig>> = BTreeMap::new();
        for (host, route) in self.rails.iter().flat_map(|rails| &rails.routes) {
            routes.entry(*host).or_default().push(*route);
        }
        routes
    }

    /// Returns the start times of the bunches of operations and faults.
    pub(crate) fn bunch_times(&self) -> Vec<Time> {
        let mut rng = Rng::new(self.seed ^ BUNCH_STREAM);
        (0..self.bunches.max(1)).map(|_| Time(rng.below(self.safety.0))).collect()
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} nodes", self.seed, self.nodes)?;
        writeln!(f, "  network     {}", self.network)?;
        writeln!(
            f,
            "  nodes       peer credits {}, credits {}, conns per peer {}, {} old, discovery {}, \
             zero-copy from {}",
            self.peer_credits,
            self.credits,
            self.conns_per_peer,
            self.old_nodes,
            self.discovery,
            self.zc_min_payload.map_or_else(|| "none".to_owned(), |least| least.to_string())
        )?;
        write!(
            f,
            "  operations  {} in {} bunches in {} s:",
            self.operations,
            self.bunches,
            self.safety.as_secs()
        )?;
        for (kind, weight) in self.mix.weights.iter().filter(|(_, weight)| *weight > 0) {
            write!(f, " {} {weight}", kind.name())?;
        }
        write!(f, "\n  faults      {}", self.faults)?;
        if let Some(rails) = &self.rails {
            write!(f, "\n  rails       {rails}")?;
        }
        if let Some(hostile) = &self.hostile {
            write!(f, "\n  hostile     {hostile}")?;
        }
        if let Some(selftest) = &self.selftest {
            write!(f, "\n  selftest    {selftest}")?;
        }
        if let Some(defect) = self.defect {
            write!(f, "\n  defect      {}", defect.name())?;
        }
        Ok(())
    }
}

/// Gives the times of bunches a random stream of their own.
const BUNCH_STREAM: u64 = 0x6275_6e63_6800_0000;

/// Draws one of `choices`.
pub(crate) fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.below(choices.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_runs_with_and_without_faults() {
        let all: Vec<Options> = (0..100).map(Options::draw).collect();
        assert!(all.iter().any(|options| options.faults.is_none()));
        assert!(all.iter().any(|options| options.faults.crashes > 0));
        assert!(all.iter().any(|options| options.nodes == 2));
        assert!(all.iter().any(|options| options.nodes == 6));
        assert_eq!(Options::draw(7), Options::draw(7));
    }

    #[test]
    fn a_mix_of_one_kind_draws_only_that_kind() {
        let mut rng = Rng::new(1);
        let mix = Mix::only(Kind::Ping);
        assert!((0..50).all(|_| mix.kind(&mut rng) == Kind::Ping));
    }
}
