//! What an import has done.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lustre_wire::Opcode;

use crate::bulk::Direction;
use crate::stats::Histogram;

/// Numbers of an import since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// For each operation, the times from the last transmission of a request to its reply, in
    /// microseconds.
    pub operations: BTreeMap<Opcode, Histogram>,
    /// How many requests were in flight when one was sent, with it. Pings do not count.
    pub in_flight: Histogram,
    /// Requests whose bulk data come from the target.
    pub reads: Transfers,
    /// Requests whose bulk data go to the target.
    pub writes: Transfers,
    /// Requests that were sent again, as often as they were.
    pub repeated: u64,
}

/// Numbers of requests with bulk data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// How many of them were in flight when one was sent, with it.
    pub in_flight: Histogram,
    /// The bytes of each.
    pub bytes: Histogram,
}

impl Stats {
    pub(super) fn replied(&mut self, opcode: Opcode, after: Duration) {
        self.operations.entry(opcode).or_default().add_time(after);
    }

    /// Adds what was done at another time.
    pub(super) fn merge(&mut self, other: &Self) {
        for (opcode, times) in &other.operations {
            self.operations.entry(*opcode).or_default().merge(times);
        }
        self.in_flight.merge(&other.in_flight);
        for (transfers, other) in
            [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)]
        {
            transfers.in_flight.merge(&other.in_flight);
            transfers.bytes.merge(&other.bytes);
        }
        self.repeated += other.repeated;
    }

    pub(super) fn transfers(&mut self, direction: Direction) -> &mut Transfers {
        match direction {
            Direction::ToClient => &mut self.reads,
            Direction::ToServer => &mut self.writes,
        }
    }
}
