//! The quantities whose history is kept.

use fulmar_text::{byte_rate, grouped, micros, significant};

use crate::rates::{Pair, bytes, mean, operations, sum};
use crate::sample::{Connection, Counter, Peer, Target};

/// A quantity of a node, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Quantity {
    Sent,
    Received,
    Messages,
    RoundTrip,
    Waiting,
    Failures,
    Routed,
    TargetsRead,
    TargetsWritten,
    Operations,
    MountsRead,
    MountsWritten,
    RpcsInFlight,
    RpcTime,
    Locks,
}

/// The unit of a quantity.
#[derive(Clone, Copy)]
enum Unit {
    BytesPerSecond,
    PerSecond,
    Count,
    Micros,
}

impl Quantity {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::Messages => "messages",
            Self::RoundTrip => "GET to REPLY",
            Self::Waiting => "wait for credits",
            Self::Failures => "failures",
            Self::Routed => "routed",
            Self::TargetsRead => "targets: read",
            Self::TargetsWritten => "targets: written",
            Self::Operations => "targets: operations",
            Self::MountsRead => "mounts: read",
            Self::MountsWritten => "mounts: written",
            Self::RpcsInFlight => "mounts: in flight",
            Self::RpcTime => "mounts: RPC time",
            Self::Locks => "locks",
        }
    }

    /// Returns what it says, in a sentence.
    pub fn help(self) -> &'static str {
        match self {
            Self::Sent => "Payload that the node sends.",
            Self::Received => "Payload that the node receives.",
            Self::Messages => "LNet messages, sent and received.",
            Self::RoundTrip => "The mean time from a GET to its REPLY.",
            Self::Waiting => "Messages that wait for a credit of an interface or a peer.",
            Self::Failures => {
                "Messages dropped, failed, sent again, or without a response in time."
            }
            Self::Routed => "Payload that the node forwards.",
            Self::TargetsRead => "Bytes that clients read from the targets of the node.",
            Self::TargetsWritten => "Bytes that clients write to the targets of the node.",
            Self::Operations => "Operations of the targets of the node.",
            Self::MountsRead => "Bytes that the mounts of this machine read from targets.",
            Self::MountsWritten => "Bytes that the mounts of this machine write to targets.",
            Self::RpcsInFlight => "RPCs of the mounts of this machine that wait for a reply.",
            Self::RpcTime => "The mean time from an RPC of a mount to its reply.",
            Self::Locks => "Locks of the targets and of the mounts.",
        }
    }

    /// Returns a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self.unit() {
            Unit::BytesPerSecond => byte_rate(value),
            Unit::PerSecond => significant(value, 3) + "/s",
            Unit::Count => grouped(value as u64),
            Unit::Micros => micros(value),
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Sent | Self::Received | Self::Routed => Unit::BytesPerSecond,
            Self::TargetsRead | Self::TargetsWritten => Unit::BytesPerSecond,
            Self::MountsRead | Self::MountsWritten => Unit::BytesPerSecond,
            Self::Messages | Self::Failures | Self::Operations => Unit::PerSecond,
            Self::Waiting | Self::RpcsInFlight | Self::Locks => Unit::Count,
            Self::RoundTrip | Self::RpcTime => Unit::Micros,
        }
    }
}

/// Returns what is known of a node between two samples. Quantities of what it does not have are left out.
pub(crate) fn values(pair: &Pair<'_>) -> Vec<(Quantity, f64)> {
    let mut all = network(pair);
    if !pair.now.targets.is_empty() {
        all.extend(of_targets(pair));
    }
    if !pair.now.connections.is_empty() {
        all.extend(of_mounts(pair));
    }
    let locks = pair.now.targets.iter().filter_map(|one| one.locks);
    let locks = locks.chain(pair.now.connections.iter().filter_map(|one| one.locks));
    all.push((Quantity::Locks, locks.reduce(u64::saturating_add).map(|locks| locks as f64)));
    all.into_iter().filter_map(|(quantity, value)| Some((quantity, value?))).collect()
}

type Values = Vec<(Quantity, Option<f64>)>;

fn network(pair: &Pair<'_>) -> Values {
    let now = pair.now;
    if now.interfaces.is_empty() {
        return Vec::new();
    }
    let of_interfaces = now.interfaces.iter().map(|one| one.credits.min(0).unsigned_abs());
    // A message that waits for an interface has the credit of its peer.
    let waiting = of_interfaces.chain(now.peers.iter().map(Peer::waiting));
    let waiting = waiting.reduce(u64::saturating_add).unwrap_or(0);
    let failures = pair.of(|sample| {
        let totals = &sample.totals;
        [totals.dropped, totals.failed, totals.resent, totals.late_responses]
            .into_iter()
            .fold(0, u64::saturating_add)
    });
    let routed = now.routing.is_some().then(|| pair.of(|sample| sample.totals.routed_bytes));
    vec![
        (Quantity::Sent, pair.of(|sample| sample.totals.sent_bytes)),
        (Quantity::Received, pair.of(|sample| sample.totals.received_bytes)),
        (
            Quantity::Messages,
            pair.of(|sample| sample.totals.sent.saturating_add(sample.totals.received)),
        ),
        (Quantity::RoundTrip, round_trip(pair)),
        (Quantity::Waiting, Some(waiting as f64)),
        (Quantity::Failures, failures),
        (Quantity::Routed, routed.flatten()),
    ]
}

/// Returns the mean of all interfaces.
fn round_trip(pair: &Pair<'_>) -> Option<f64> {
    let mut samples = 0_u64;
    let mut sum = 0_u64;
    for one in &pair.now.interfaces {
        let before = &pair.interface(&one.nid)?.round_trips;
        samples = samples.saturating_add(one.round_trips.samples.checked_sub(before.samples)?);
        sum = sum.saturating_add(one.round_trips.sum_nsec.checked_sub(before.sum_nsec)?);
    }
    (samples > 0).then(|| sum as f64 / samples as f64 / 1e3)
}

fn of_targets(pair: &Pair<'_>) -> Values {
    let all = || pair.now.targets.iter().map(|one| of_target(pair, one));
    vec![
        (Quantity::TargetsRead, sum(all().map(|both| bytes(pair, both, "read_bytes")))),
        (Quantity::TargetsWritten, sum(all().map(|both| bytes(pair, both, "write_bytes")))),
        (Quantity::Operations, sum(all().map(|both| operations(pair, both)))),
    ]
}

fn of_mounts(pair: &Pair<'_>) -> Values {
    let all = || pair.now.connections.iter().map(|one| of_connection(pair, one));
    let in_flight = pair.now.connections.iter().map(|one| one.in_flight);
    let waits =
        |get: fn(&Counter) -> u64| sum(all().map(|both| pair.counted(both, "req_waittime", get)));
    let (count, time) = (waits(|one| one.samples), waits(|one| one.sum));
    let mean = count.zip(time).filter(|(count, _)| *count > 0.0).map(|(count, time)| time / count);
    vec![
        (Quantity::MountsRead, sum(all().map(|both| bytes(pair, both, "read_bytes")))),
        (Quantity::MountsWritten, sum(all().map(|both| bytes(pair, both, "write_bytes")))),
        (Quantity::RpcsInFlight, in_flight.reduce(u64::saturating_add).map(|count| count as f64)),
        (Quantity::RpcTime, mean),
    ]
}

/// The counters of a target before and now.
pub(crate) fn of_target<'a>(
    pair: &Pair<'a>,
    one: &'a Target,
) -> (Option<&'a [Counter]>, &'a [Counter]) {
    (pair.target(&one.name).map(|before| &before.counters[..]), &one.counters)
}

/// The counters of a connection before and now.
pub(crate) fn of_connection<'a>(
    pair: &Pair<'a>,
    one: &'a Connection,
) -> (Option<&'a [Counter]>, &'a [Counter]) {
    (pair.connection(one).map(|before| &before.counters[..]), &one.counters)
}

/// Returns the mean time of the RPCs of a connection.
pub(crate) fn rpc_time(pair: &Pair<'_>, one: &Connection) -> Option<f64> {
    mean(pair, of_connection(pair, one), "req_waittime")
}
