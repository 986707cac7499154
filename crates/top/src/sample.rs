//! What a node says of itself at a moment.

use fulmar_text::printable;
use serde::{Deserialize, Serialize};

/// The most interfaces, routes, routers and pairs of networks of a sample.
const PARTS_MAX: usize = 128;
/// The most NIDs of peers of a sample: those with trouble, and of the others those with most messages.
const PEERS_MAX: usize = 128;
/// The most targets, and the most connections of mounts, of a sample.
const TARGETS_MAX: usize = 512;
/// The most counters of a target or a connection.
const COUNTERS_MAX: usize = 64;
/// The most characters of a text.
const TEXT_MAX: usize = 160;
/// What a number of far nodes can at most be, so that sums and differences of numbers are exact.
const NUMBER_MAX: i64 = 1 << 53;

macro_rules! values {
    ($( $(#[$meta:meta])* $name:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        #[allow(missing_docs)]
        pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }
    )+ };
}

values! {
    /// What a node says of itself. A field that a node of another release leaves out is empty.
    Sample {
        /// Its clock: milliseconds since 1970.
        at_ms: u64,
        /// Its first NID, or what else names it.
        name: String,
        /// Why it has failed, if it has.
        failure: Option<String>,
        totals: Totals,
        interfaces: Vec<Interface>,
        /// How many NIDs of peers it knows; `peers` may have fewer.
        peers_known: u64,
        peers: Vec<Peer>,
        routes: Vec<Route>,
        routers: Vec<Router>,
        /// Whether it forwards messages; `None` if it never did.
        routing: Option<String>,
        pools: Vec<Pool>,
        transits: Vec<Transit>,
        targets: Vec<Target>,
        /// The connections of the mounts of this machine.
        connections: Vec<Connection>,
    }
    /// Counters of a node since its start.
    Totals {
        active: u64,
        sent: u64,
        received: u64,
        routed: u64,
        sent_bytes: u64,
        received_bytes: u64,
        routed_bytes: u64,
        dropped: u64,
        failed: u64,
        resent: u64,
        late_responses: u64,
        /// Connections that ended because bytes were wrong, a message stalled or nothing arrived.
        broken_connections: u64,
        refused_connections: u64,
        resident_bytes: u64,
    }
    /// Durations: how many, and their sum.
    Latency { samples: u64, sum_nsec: u64, }
    /// An interface of the node.
    Interface {
        nid: String,
        device: String,
        is_up: bool,
        health: u64,
        /// If negative, the number of waiting messages.
        credits: i64,
        credits_min: i64,
        credits_max: i64,
        sent: u64,
        received: u64,
        dropped: u64,
        failures: u64,
        round_trips: Latency,
    }
    /// A NID of a peer.
    Peer {
        primary: String,
        nid: String,
        health: u64,
        /// If negative, the number of waiting messages.
        credits: i64,
        credits_min: i64,
        credits_max: i64,
        queued_bytes: u64,
        sent: u64,
        received: u64,
        dropped: u64,
        failures: u64,
        round_trips: Latency,
    }
    /// A route to another network.
    Route {
        net: String,
        gateway: String,
        is_up: bool,
        messages: u64,
        median_nsec: u64,
        p99_nsec: u64,
    }
    /// A gateway of routes.
    Router { nid: String, is_alive: bool, }
    /// The buffers of a router of one size.
    Pool {
        name: String,
        buffers: i64,
        allocated: u64,
        /// If negative, the number of waiting messages.
        free: i64,
        free_min: i64,
    }
    /// The traffic from one network to another.
    Transit {
        from: String,
        to: String,
        messages: u64,
        bytes: u64,
        median_nsec: u64,
        p99_nsec: u64,
    }
    /// What a target or a connection counts: samples of an operation, and the sum of their bytes or microseconds.
    Counter { name: String, samples: u64, sum: u64, }
    /// A target of the node.
    Target {
        name: String,
        kind: String,
        /// Why it is not served, if it is not.
        error: Option<String>,
        clients: u64,
        /// Requests of clients that are executed now.
        in_hand: u64,
        /// Requests of clients that wait for that.
        queued: u64,
        counters: Vec<Counter>,
        size_kib: u64,
        free_kib: u64,
        files: u64,
        files_free: u64,
        /// Bytes that clients may write without asking.
        granted: u64,
        /// Those that are granted and those that wait.
        locks: Option<u64>,
        locks_granted: Option<u64>,
    }
    /// The connection of a mount to a target.
    Connection {
        /// The mount and its number, such as `lv-ff11000012345678`.
        mount: String,
        /// The target, such as `lv-OST0000`.
        device: String,
        /// As a kernel's client names it, such as FULL.
        state: String,
        nid: String,
        in_flight: u64,
        counters: Vec<Counter>,
        dirty: u64,
        granted: u64,
        locks: Option<u64>,
        locks_unused: Option<u64>,
    }
}

impl Latency {
    /// Returns the mean of what was added since `before`, in microseconds; `None` if nothing was.
    pub(crate) fn since(&self, before: &Self) -> Option<f64> {
        let samples = self.samples.checked_sub(before.samples).filter(|samples| *samples > 0)?;
        let sum = self.sum_nsec.checked_sub(before.sum_nsec)?;
        Some(sum as f64 / samples as f64 / 1e3)
    }
}

impl Target {
    /// Returns how many locks wait; `None` if that is not known.
    pub fn locks_waiting(&self) -> Option<u64> {
        Some(self.locks?.saturating_sub(self.locks_granted?))
    }
}

impl Peer {
    /// Returns how many messages wait for a credit.
    pub(crate) fn waiting(&self) -> u64 {
        self.credits.min(0).unsigned_abs()
    }

    /// Returns whether it belongs to those that a sample keeps first.
    fn is_troubled(&self) -> bool {
        self.health < HEALTH_BEST || self.credits < 0
    }
}

/// The health of what has no failures.
pub(crate) const HEALTH_BEST: u64 = 1000;

impl Counter {
    pub(crate) fn of<'a>(counters: &'a [Self], name: &str) -> Option<&'a Self> {
        counters.iter().find(|counter| counter.name == name)
    }
}

impl Sample {
    /// Cuts everything to its bounds: texts are printable and not long, lists are short, and numbers are not so large
    /// that sums overflow. Of the peers, those with trouble stay, then those with most messages.
    #[must_use]
    pub fn bound(mut self) -> Self {
        let order = |peer: &Peer| (!peer.is_troubled(), u64::MAX - peer.sent.max(peer.received));
        self.peers.sort_by_key(order);
        self.peers.truncate(PEERS_MAX);
        self.interfaces.truncate(PARTS_MAX);
        self.routes.truncate(PARTS_MAX);
        self.routers.truncate(PARTS_MAX);
        self.pools.truncate(PARTS_MAX);
        self.transits.truncate(PARTS_MAX);
        self.targets.truncate(TARGETS_MAX);
        self.connections.truncate(TARGETS_MAX);
        for counters in self.targets.iter_mut().map(|target| &mut target.counters) {
            bound_counters(counters);
        }
        for counters in self.connections.iter_mut().map(|connection| &mut connection.counters) {
            bound_counters(counters);
        }
        self.texts().for_each(bound_text);
        self.bound_numbers();
        self
    }

    /// Returns all texts but the names of counters.
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let own = [&mut self.name].into_iter().chain(&mut self.failure).chain(&mut self.routing);
        let interfaces = self.interfaces.iter_mut().flat_map(|one| [&mut one.nid, &mut one.device]);
        let peers = self.peers.iter_mut().flat_map(|one| [&mut one.primary, &mut one.nid]);
        let routes = self.routes.iter_mut().flat_map(|one| [&mut one.net, &mut one.gateway]);
        let routers = self.routers.iter_mut().map(|one| &mut one.nid);
        let pools = self.pools.iter_mut().map(|one| &mut one.name);
        let transits = self.transits.iter_mut().flat_map(|one| [&mut one.from, &mut one.to]);
        let targets = self.targets.iter_mut();
        let targets = targets
            .flat_map(|one| [&mut one.name, &mut one.kind].into_iter().chain(&mut one.error));
        let connections = self
            .connections
            .iter_mut()
            .flat_map(|one| [&mut one.mount, &mut one.device, &mut one.state, &mut one.nid]);
        let network = interfaces.chain(peers).chain(routes).chain(routers);
        own.chain(network).chain(pools).chain(transits).chain(targets).chain(connections)
    }

    /// Bounds the numbers that are added up or subtracted.
    fn bound_numbers(&mut self) {
        let most = NUMBER_MAX.unsigned_abs();
        self.at_ms = self.at_ms.min(most);
        let credits = self
            .interfaces
            .iter_mut()
            .flat_map(|one| [&mut one.credits, &mut one.credits_min, &mut one.credits_max]);
        let of_peers = self
            .peers
            .iter_mut()
            .flat_map(|one| [&mut one.credits, &mut one.credits_min, &mut one.credits_max]);
        let buffers = self
            .pools
            .iter_mut()
            .flat_map(|one| [&mut one.buffers, &mut one.free, &mut one.free_min]);
        for number in credits.chain(of_peers).chain(buffers) {
            *number = (*number).clamp(-NUMBER_MAX, NUMBER_MAX);
        }
        for one in &mut self.targets {
            let sizes = [&mut one.size_kib, &mut one.free_kib, &mut one.granted];
            for number in sizes.into_iter().chain([&mut one.in_hand, &mut one.queued]) {
                *number = (*number).min(most);
            }
        }
        for one in &mut self.connections {
            for number in [&mut one.in_flight, &mut one.dirty, &mut one.granted] {
                *number = (*number).min(most);
            }
        }
        let locks = self.connections.iter_mut().map(|one| &mut one.locks);
        let of_targets =
            self.targets.iter_mut().flat_map(|one| [&mut one.locks, &mut one.locks_granted]);
        locks.chain(of_targets).flatten().for_each(|number| *number = (*number).min(most));
    }
}

fn bound_counters(counters: &mut Vec<Counter>) {
    counters.truncate(COUNTERS_MAX);
    for counter in counters {
        bound_text(&mut counter.name);
        let most = NUMBER_MAX.unsigned_abs();
        (counter.samples, counter.sum) = (counter.samples.min(most), counter.sum.min(most));
    }
}

/// Cuts a text, and replaces what would control a terminal.
fn bound_text(text: &mut String) {
    *text = printable(text).chars().take(TEXT_MAX).collect();
}
