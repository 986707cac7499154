//! What a run is like: drawn from its seed, so that seeds differ in kind and not only in detail.

mod network;
mod rails;
mod selftest;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_lnet::RouteConfig;
use fulmar_lnet_wire::{Net, Nid};

pub use network::{Control, Cut, Duplex, Line, Network, Ports, Site, Tcp, Topology, Trunk};
pub use rails::{RailFaults, Rails};
pub use selftest::Selftest;

use crate::{HostId, Port};

/// Everything that shapes a run and is not an event of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What everything random is drawn from.
    pub seed: u64,
    /// How many nodes.
    pub nodes: u32,
    /// The network between them.
    pub network: Network,
    /// Credits of each node towards one peer.
    pub peer_credits: u32,
    /// Credits of each node towards all peers.
    pub credits: u32,
    /// Connections of each bulk kind.
    pub conns_per_peer: u32,
    /// From which payload on a message holds its credits until the peer's node has it, as a
    /// kernel's does; `None` for never.
    pub zc_min_payload: Option<u32>,
    /// How many nodes, the first ones, offer only version 2 of the socklnd protocol.
    pub old_nodes: u32,
    /// Whether nodes discover each other before they talk.
    pub discovery: bool,
    /// How often each kind of operation is begun.
    pub mix: Mix,
    /// How many operations are begun.
    pub operations: u32,
    /// When: operations and faults come in bunches, so that they meet.
    pub bunches: u32,
    /// When the last of them is begun, faults end and everything is healed.
    pub safety: Time,
    /// By how much request buffers are late, at most.
    pub lateness: Duration,
    /// What goes wrong meanwhile.
    pub faults: Faults,
    /// Several interfaces a node; without, each has one, on the same network.
    pub rails: Option<Rails>,
    /// LNet selftest on every node.
    pub selftest: Option<Selftest>,
    /// Which fault is planted in the simulator itself, to see that the checkers find it.
    pub canary: Option<Canary>,
}

/// The relative frequency of each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [(Kind, u64); Kind::ALL.len()],
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A PUT into a descriptor that was posted for it.
    Put,
    /// A GET from a descriptor that was posted for it.
    Get,
    /// A PUT into the request buffers of a lazy portal, which may come late.
    Request,
    /// A PUT that nobody waits for.
    Unwanted,
    /// A GET from a region that serves everybody.
    Region,
    /// A PUT or a GET to `0@lo`.
    Loopback,
    /// Both nodes begin at the same moment.
    Mutual,
    /// A PUT whose descriptor is unlinked while it is under way.
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
}

impl Mix {
    /// Draws weights; about a third of the kinds do not occur.
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

/// How often each fault strikes during the safety phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Faults {
    /// Connections reset between two nodes.
    pub resets: u32,
    /// Nodes that die and come back with nothing.
    pub crashes: u32,
    /// Pairs that cannot reach each other for a while.
    pub partitions: u32,
    /// Nodes that stand still for a while.
    pub pauses: u32,
    /// Nodes that read slowly for a while.
    pub slow_readers: u32,
    /// Administrators who close the connections with a peer.
    pub disconnects: u32,
    /// Clocks that begin to run fast or slow, by up to a part in a thousand. If there are any, all
    /// are apart from the start.
    pub clocks: u32,
    /// Those of interfaces and routers.
    pub rails: RailFaults,
    /// How long what lasts a while does so at most.
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

    /// Returns whether nothing ever goes wrong.
    pub fn is_none(&self) -> bool {
        let Self { resets, crashes, partitions, pauses, slow_readers, disconnects, clocks, .. } =
            self;
        let hosts = resets + crashes + partitions + pauses + slow_readers + disconnects + clocks;
        hosts + self.rails.total() == 0
    }
}

/// A fault in the simulator's own driver, which the checkers must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Once a run, the node is not told that the socket took the end of a message: a credit leaks.
    LostSent,
    /// Once a run, a resumed connection is not read on: a wake-up is lost.
    LostResume,
    /// Once a run, bulk goes four bytes beside its place.
    Misplaced,
    /// Once a run, a router is not told that the socket took what it forwarded: a buffer and a
    /// router credit leak.
    LostForward,
    /// Once a run, a router's connection is not read on when it gets its buffer: a message that
    /// waited in the queue of a pool is forgotten.
    LostPool,
}

impl Canary {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::LostSent, Self::LostResume, Self::Misplaced, Self::LostForward, Self::LostPool];

    /// Returns the name by which the command line knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LostSent => "lost-sent",
            Self::LostResume => "lost-resume",
            Self::Misplaced => "misplaced",
            Self::LostForward => "lost-forward",
            Self::LostPool => "lost-pool",
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
            // Two versions that meet in mid-call close what they have and begin anew: no calm.
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
            selftest: None,
            canary: None,
        }
    }

    /// Returns the options of nodes with default settings on a fast, even network, to which
    /// nothing happens but what a test makes happen.
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
            selftest: None,
            canary: None,
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

    /// Returns whether a node forwards.
    pub(crate) fn is_router(&self, host: HostId) -> bool {
        self.rails.as_ref().is_some_and(|rails| rails.routers.contains(&host))
    }

    /// Returns the routes that each node is told.
    pub(crate) fn routes(&self) -> BTreeMap<HostId, Vec<RouteConfig>> {
        let mut routes: BTreeMap<HostId, Vec<RouteConfig>> = BTreeMap::new();
        for (host, route) in self.rails.iter().flat_map(|rails| &rails.routes) {
            routes.entry(*host).or_default().push(*route);
        }
        routes
    }

    /// Returns the times at which bunches of operations and faults begin.
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
             zero-copy from {:?}",
            self.peer_credits,
            self.credits,
            self.conns_per_peer,
            self.old_nodes,
            self.discovery,
            self.zc_min_payload
        )?;
        write!(
            f,
            "  operations  {} in {} bunches in {} s:",
            self.operations,
            self.bunches,
            self.safety.as_secs()
        )?;
        for (kind, weight) in self.mix.weights.iter().filter(|(_, weight)| *weight > 0) {
            write!(f, " {kind:?} {weight}")?;
        }
        write!(f, "\n  faults      {:?}", self.faults)?;
        if let Some(rails) = &self.rails {
            write!(f, "\n  rails       {rails}")?;
        }
        if let Some(selftest) = &self.selftest {
            write!(f, "\n  selftest    {selftest}")?;
        }
        if let Some(canary) = self.canary {
            write!(f, "\n  canary      {canary:?}")?;
        }
        Ok(())
    }
}

/// Keeps the times of bunches apart from what the options drew.
const BUNCH_STREAM: u64 = 0x6275_6e63_6800_0000;

/// Draws one of `choices`.
pub(crate) fn pick<'a, T>(rng: &mut Rng, choices: &'a [T]) -> &'a T {
    &choices[rng.below(choices.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_calm_runs_and_wild_ones() {
        let all: Vec<Options> = (0..100).map(Options::draw).collect();
        assert!(all.iter().any(|options| options.faults.is_none()));
        assert!(all.iter().any(|options| options.faults.crashes > 0));
        assert!(all.iter().any(|options| options.nodes == 2));
        assert!(all.iter().any(|options| options.nodes == 6));
        assert_eq!(Options::draw(7), Options::draw(7));
    }

    #[test]
    fn a_mix_of_one_kind_draws_only_that() {
        let mut rng = Rng::new(1);
        let mix = Mix::only(Kind::Ping);
        assert!((0..50).all(|_| mix.kind(&mut rng) == Kind::Ping));
    }
}
