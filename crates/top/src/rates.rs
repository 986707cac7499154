//! Two samples of a node, and the rates between them.

use crate::sample::{Connection, Counter, Interface, Peer, Route, Sample, Target, Transit};

/// A sample and the one before it.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) now: &'a Sample,
    /// `None` if there is none of the same run of the node.
    before: Option<&'a Sample>,
    seconds: f64,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(before: Option<&'a Sample>, now: &'a Sample) -> Self {
        let before = before.filter(|before| before.at_ms < now.at_ms && !is_restarted(before, now));
        let millis = before.map_or(1, |before| now.at_ms - before.at_ms);
        Self { now, before, seconds: millis as f64 / 1e3 }
    }

    /// Returns how fast a counter grows; `None` if that is not known, or if it was reset.
    pub(crate) fn rate(&self, before: Option<u64>, now: u64) -> Option<f64> {
        self.before?;
        Some(now.checked_sub(before?)? as f64 / self.seconds)
    }

    /// The same for a counter of the sample.
    pub(crate) fn of(&self, get: impl Fn(&Sample) -> u64) -> Option<f64> {
        self.rate(self.before.map(&get), get(self.now))
    }

    /// The same for a counter of a target or connection; one that was not there has begun at 0.
    pub(crate) fn counted(
        &self,
        (before, now): (Option<&[Counter]>, &[Counter]),
        name: &str,
        get: impl Fn(&Counter) -> u64,
    ) -> Option<f64> {
        let before = before.map(|all| Counter::of(all, name).map_or(0, &get));
        self.rate(before, Counter::of(now, name).map_or(0, &get))
    }

    pub(crate) fn interface(&self, nid: &str) -> Option<&'a Interface> {
        self.before?.interfaces.iter().find(|one| one.nid == nid)
    }

    pub(crate) fn peer(&self, nid: &str) -> Option<&'a Peer> {
        self.before?.peers.iter().find(|one| one.nid == nid)
    }

    pub(crate) fn route(&self, net: &str, gateway: &str) -> Option<&'a Route> {
        self.before?.routes.iter().find(|one| one.net == net && one.gateway == gateway)
    }

    pub(crate) fn transit(&self, from: &str, to: &str) -> Option<&'a Transit> {
        self.before?.transits.iter().find(|one| one.from == from && one.to == to)
    }

    pub(crate) fn target(&self, name: &str) -> Option<&'a Target> {
        self.before?.targets.iter().find(|one| one.name == name)
    }

    pub(crate) fn connection(&self, of: &Connection) -> Option<&'a Connection> {
        let is_same = |one: &&Connection| one.mount == of.mount && one.device == of.device;
        self.before?.connections.iter().find(is_same)
    }
}

/// Returns whether the counters of the node have begun again, so that none can be compared.
fn is_restarted(before: &Sample, now: &Sample) -> bool {
    now.totals.sent < before.totals.sent || now.totals.received < before.totals.received
}

/// Returns the sum of what is known; `None` if nothing is.
pub(crate) fn sum(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.flatten().reduce(|all, rate| all + rate)
}

/// Returns what counters have moved: how many bytes a second in this direction.
pub(crate) fn bytes(
    pair: &Pair<'_>,
    both: (Option<&[Counter]>, &[Counter]),
    name: &str,
) -> Option<f64> {
    pair.counted(both, name, |counter| counter.sum)
}

/// Returns how many operations a second counters tell of: all but those that only count their bytes again, or the
/// requests of others.
pub(crate) fn operations(
    pair: &Pair<'_>,
    (before, now): (Option<&[Counter]>, &[Counter]),
) -> Option<f64> {
    let is_counted = |counter: &&Counter| !AGAIN.contains(&counter.name.as_str());
    sum(now
        .iter()
        .filter(is_counted)
        .map(|one| pair.counted((before, now), &one.name, |counter| counter.samples)))
    .or_else(|| pair.rate(before.map(|_| 0), 0))
}

/// Counters of what others count.
const AGAIN: [&str; 4] = ["read_bytes", "write_bytes", "req_waittime", "req_active"];

/// Returns the mean of the samples that a counter got.
pub(crate) fn mean(
    pair: &Pair<'_>,
    both: (Option<&[Counter]>, &[Counter]),
    name: &str,
) -> Option<f64> {
    let samples = pair.counted(both, name, |counter| counter.samples)?;
    let sum = pair.counted(both, name, |counter| counter.sum)?;
    (samples > 0.0).then(|| sum / samples)
}
