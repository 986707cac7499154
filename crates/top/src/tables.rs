//! The tables of a node.

use std::cmp::Reverse;

use fulmar_text::{
    UNKNOWN, byte_rate, bytes as size, grouped, micros, or_unknown, percent, significant,
};

use crate::figure::{of_connection, of_target, rpc_time};
use crate::rates::{Pair, bytes, mean, operations};
use crate::sample::{Connection, HEALTH_BEST, Latency, Peer, Target};
use crate::view::{Mark, Row, Table};

/// The most operations of targets that are shown: those that are executed most often.
const OPERATIONS_SHOWN: usize = 20;
/// A target with a smaller share of free space is marked.
pub(crate) const FREE_MIN: f64 = 0.05;

/// Returns the tables that have rows.
pub(crate) fn all(pair: &Pair<'_>) -> Vec<Table> {
    let mut all = vec![
        interfaces(pair),
        peers(pair),
        routes(pair),
        buffers(pair),
        transits(pair),
        targets(pair),
        operations_of_targets(pair),
        connections(pair),
    ];
    all.retain(|table| !table.rows.is_empty());
    all
}

fn rate(value: Option<f64>) -> String {
    or_unknown(value, |value| significant(value, 3))
}

fn moved(value: Option<f64>) -> String {
    or_unknown(value, byte_rate)
}

fn time(value: Option<f64>) -> String {
    or_unknown(value, micros)
}

/// Returns nanoseconds as a time; 0 is that of nothing.
fn nanos(value: u64) -> String {
    or_unknown((value > 0).then_some(value as f64 / 1e3), micros)
}

fn of_most(free: i64, most: i64) -> String {
    format!("{free} of {most}")
}

fn row(mark: Mark, cells: impl IntoIterator<Item = String>) -> Row {
    Row { mark, cells: cells.into_iter().collect() }
}

/// The columns of what interfaces and NIDs of peers have in common.
const OF_TRAFFIC: [&str; 8] = [
    ">health",
    ">credits",
    ">least",
    ">sent/s",
    ">received/s",
    ">dropped/s",
    ">failures/s",
    ">GET to REPLY",
];

/// What interfaces and NIDs of peers have in common.
struct Traffic<'a> {
    health: u64,
    credits: [i64; 3],
    counters: [u64; 4],
    round_trips: &'a Latency,
}

/// Borrows that of an interface or a NID.
macro_rules! traffic {
    ($one:expr) => {
        Traffic {
            health: $one.health,
            credits: [$one.credits, $one.credits_max, $one.credits_min],
            counters: [$one.sent, $one.received, $one.dropped, $one.failures],
            round_trips: &$one.round_trips,
        }
    };
}

impl Traffic<'_> {
    /// Returns the cells of its columns.
    fn cells(&self, pair: &Pair<'_>, before: Option<Traffic<'_>>) -> [String; 8] {
        let [credits, most, least] = self.credits;
        let changed = |n: usize| {
            rate(pair.rate(before.as_ref().map(|before| before.counters[n]), self.counters[n]))
        };
        let round_trip = before.as_ref().and_then(|one| self.round_trips.since(one.round_trips));
        [
            self.health.to_string(),
            of_most(credits, most),
            least.to_string(),
            changed(0),
            changed(1),
            changed(2),
            changed(3),
            time(round_trip),
        ]
    }
}

fn interfaces(pair: &Pair<'_>) -> Table {
    let columns = [&["NID", "device", "state"][..], &OF_TRAFFIC].concat();
    let mut table = Table::new("Interfaces", &columns);
    for one in &pair.now.interfaces {
        let mark = match one {
            one if !one.is_up => Mark::Bad,
            one if one.health < HEALTH_BEST || one.credits < 0 => Mark::Warn,
            _ => Mark::Plain,
        };
        let state = if one.is_up { "up" } else { "down" }.to_owned();
        let before = pair.interface(&one.nid).map(|before| traffic!(before));
        let cells = traffic!(one).cells(pair, before);
        let own = [one.nid.clone(), one.device.clone(), state];
        table.rows.push(row(mark, own.into_iter().chain(cells)));
    }
    table
}

fn peers(pair: &Pair<'_>) -> Table {
    let columns = [&["NID", "peer", ">queued"][..], &OF_TRAFFIC].concat();
    let mut table = Table::new("Peers", &columns);
    let mut all: Vec<&Peer> = pair.now.peers.iter().collect();
    let busy = |one: &Peer| {
        let before = pair.peer(&one.nid).map(|before| before.sent.saturating_add(before.received));
        pair.rate(before, one.sent.saturating_add(one.received)).unwrap_or(0.0) as u64
    };
    all.sort_by_cached_key(|one| (mark_of_peer(one), Reverse(busy(one)), one.nid.clone()));
    for one in all {
        let primary = if one.primary == one.nid { UNKNOWN } else { &one.primary };
        let before = pair.peer(&one.nid).map(|before| traffic!(before));
        let cells = traffic!(one).cells(pair, before);
        let own = [one.nid.clone(), primary.to_owned(), size(one.queued_bytes)];
        table.rows.push(row(mark_of_peer(one), own.into_iter().chain(cells)));
    }
    let (known, shown) = (pair.now.peers_known, pair.now.peers.len() as u64);
    table.note = (known > shown).then(|| {
        let (shown, known) = (grouped(shown), grouped(known));
        format!("{shown} of {known} NIDs: those with trouble, then those with most messages")
    });
    table
}

fn mark_of_peer(one: &Peer) -> Mark {
    match one {
        one if one.health == 0 => Mark::Bad,
        one if one.health < HEALTH_BEST || one.credits < 0 => Mark::Warn,
        _ => Mark::Plain,
    }
}

fn routes(pair: &Pair<'_>) -> Table {
    let columns =
        ["net", "gateway", "route", "gateway is", ">messages/s", ">median", ">99 % within"];
    let mut table = Table::new("Routes", &columns);
    for one in &pair.now.routes {
        let router = pair.now.routers.iter().find(|router| router.nid == one.gateway);
        let alive =
            or_unknown(router, |router| if router.is_alive { "alive" } else { "dead" }.to_owned());
        let before = pair.route(&one.net, &one.gateway).map(|before| before.messages);
        table.rows.push(row(
            if one.is_up { Mark::Plain } else { Mark::Bad },
            [
                one.net.clone(),
                one.gateway.clone(),
                if one.is_up { "up" } else { "down" }.to_owned(),
                alive,
                rate(pair.rate(before, one.messages)),
                nanos(one.median_nsec),
                nanos(one.p99_nsec),
            ],
        ));
    }
    table
}

fn buffers(pair: &Pair<'_>) -> Table {
    let columns = ["buffers", ">free", ">least free", ">with memory"];
    let mut table = Table::new("Router", &columns);
    let Some(routing) = &pair.now.routing else { return table };
    for one in &pair.now.pools {
        table.rows.push(row(
            if one.free < 0 { Mark::Warn } else { Mark::Plain },
            [
                one.name.clone(),
                of_most(one.free, one.buffers),
                one.free_min.to_string(),
                grouped(one.allocated),
            ],
        ));
    }
    table.note = Some(format!("forwarding is {routing}"));
    table
}

fn transits(pair: &Pair<'_>) -> Table {
    let columns = ["from", "to", ">messages/s", ">payload", ">median", ">99 % within"];
    let mut table = Table::new("Forwarded", &columns);
    for one in &pair.now.transits {
        let before = pair.transit(&one.from, &one.to);
        table.rows.push(row(
            Mark::Plain,
            [
                one.from.clone(),
                one.to.clone(),
                rate(pair.rate(before.map(|one| one.messages), one.messages)),
                moved(pair.rate(before.map(|one| one.bytes), one.bytes)),
                nanos(one.median_nsec),
                nanos(one.p99_nsec),
            ],
        ));
    }
    table
}

/// Returns the share of a target that is free; `None` if its size is not known.
pub(crate) fn free_share(one: &Target) -> Option<f64> {
    (one.size_kib > 0).then(|| one.free_kib as f64 / one.size_kib as f64)
}

fn targets(pair: &Pair<'_>) -> Table {
    let columns = [
        "target",
        "kind",
        "state",
        ">clients",
        ">RPCs",
        ">queued",
        ">locks",
        ">waiting",
        ">read",
        ">written",
        ">operations/s",
        ">granted",
        ">free",
        ">free files",
    ];
    let mut table = Table::new("Targets", &columns);
    for one in &pair.now.targets {
        let both = of_target(pair, one);
        let mark = match one {
            one if one.error.is_some() => Mark::Bad,
            one if free_share(one).is_some_and(|share| share < FREE_MIN) => Mark::Warn,
            _ => Mark::Plain,
        };
        let free = free_share(one).map(|share| {
            format!("{} ({})", size(one.free_kib.saturating_mul(1024)), percent(share))
        });
        table.rows.push(row(
            mark,
            [
                one.name.clone(),
                one.kind.clone(),
                if one.error.is_none() { "served" } else { "not served" }.to_owned(),
                grouped(one.clients),
                grouped(one.in_hand),
                grouped(one.queued),
                // A node of another release says only how many there are.
                or_unknown(one.locks_granted.or(one.locks), grouped),
                or_unknown(one.locks_waiting(), grouped),
                moved(bytes(pair, both, "read_bytes")),
                moved(bytes(pair, both, "write_bytes")),
                rate(operations(pair, both)),
                or_unknown((one.granted > 0).then_some(one.granted), size),
                or_unknown(free, |free| free),
                or_unknown((one.files > 0).then_some(one.files_free), grouped),
            ],
        ));
    }
    table
}

/// Returns the operations that were executed between the samples.
fn operations_of_targets(pair: &Pair<'_>) -> Table {
    let mut table = Table::new("Operations", &["target", "operation", ">operations/s", ">mean"]);
    let mut all = Vec::new();
    for target in &pair.now.targets {
        let both = of_target(pair, target);
        for counter in &target.counters {
            let executed = pair.counted(both, &counter.name, |counter| counter.samples);
            let Some(executed) = executed.filter(|rate| *rate > 0.0) else { continue };
            let mean = mean(pair, both, &counter.name);
            let mean = if counter.name.ends_with("_bytes") {
                mean.map(|mean| size(mean as u64))
            } else {
                mean.map(micros)
            };
            all.push((executed, &target.name, &counter.name, or_unknown(mean, |mean| mean)));
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let hidden = all.len().saturating_sub(OPERATIONS_SHOWN);
    for (executed, target, operation, mean) in all.into_iter().take(OPERATIONS_SHOWN) {
        let executed = rate(Some(executed));
        table.rows.push(row(Mark::Plain, [target.clone(), operation.clone(), executed, mean]));
    }
    table.note = (hidden > 0).then(|| format!("and {hidden} more"));
    table
}

/// Returns how a connection is marked: an idle or new one is connected when it is needed.
pub(crate) fn mark_of_connection(one: &Connection) -> Mark {
    match one.state.as_str() {
        "FULL" | "IDLE" | "NEW" => Mark::Plain,
        "CONNECTING" | "REPLAY" | "REPLAY_LOCKS" | "REPLAY_WAIT" | "RECOVER" => Mark::Warn,
        _ => Mark::Bad,
    }
}

fn connections(pair: &Pair<'_>) -> Table {
    let columns = [
        "mount",
        "target",
        "state",
        "NID",
        ">in flight",
        ">RPCs/s",
        ">RPC time",
        ">read",
        ">written",
        ">dirty",
        ">granted",
        ">locks",
        ">unused",
    ];
    let mut table = Table::new("Mounts", &columns);
    for one in &pair.now.connections {
        let both = of_connection(pair, one);
        table.rows.push(row(
            mark_of_connection(one),
            [
                if one.mount.is_empty() { UNKNOWN.to_owned() } else { one.mount.clone() },
                one.device.clone(),
                one.state.clone(),
                one.nid.clone(),
                grouped(one.in_flight),
                rate(pair.counted(both, "req_waittime", |counter| counter.samples)),
                time(rpc_time(pair, one)),
                moved(bytes(pair, both, "read_bytes")),
                moved(bytes(pair, both, "write_bytes")),
                or_unknown((one.dirty > 0).then_some(one.dirty), size),
                or_unknown((one.granted > 0).then_some(one.granted), size),
                or_unknown(one.locks, grouped),
                or_unknown(one.locks_unused, grouped),
            ],
        ));
    }
    table
}
