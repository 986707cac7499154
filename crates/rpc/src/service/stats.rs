//! What a partition has done.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::Opcode;

/// Numbers of a partition since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// For each operation, the times from the arrival of a request to its reply, in microseconds.
    /// Operations that no target has are counted as operation 0.
    pub operations: BTreeMap<Opcode, Histogram>,
    /// The times that requests waited, in microseconds.
    pub waiting: Histogram,
    /// How many requests waited when another one arrived.
    pub depth: Histogram,
    /// How many requests were executed when another one began.
    pub active: Histogram,
    /// The bytes of bulk data that were moved.
    pub moved: u64,
    /// The times that transfers of bulk data took, in microseconds.
    pub transfers: Histogram,
    /// Transfers that failed, by errno.
    pub not_moved: BTreeMap<Errno, u64>,
    /// Early replies.
    pub early: u64,
    /// Replies that were sent again.
    pub repeated: u64,
    /// Requests without a reply, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Requests that were refused before the host saw them, by errno.
    pub refused: BTreeMap<Errno, u64>,
    /// Replies that could not be sent.
    pub lost: u64,
}

/// Why a request has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// It is not a valid message, or not a request.
    Malformed,
    /// It is of an earlier connection of the client.
    Outdated,
    /// It is not protected as its connection is.
    Flavor,
    /// It allows no time.
    NoTime,
    /// Its time passed while it waited.
    Late,
    /// It is in progress already: that one is answered.
    InProgress,
    /// Its slot was used by a later request.
    Stale,
    /// There was no place for it.
    Busy,
    /// The host does not answer it.
    Discarded,
}

/// The distribution of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many values.
    pub count: u64,
    /// The least value; 0 without values.
    pub min: u64,
    /// The greatest value.
    pub max: u64,
    /// The sum of the values.
    pub sum: u64,
    /// The sum of their squares.
    pub sum_squares: u128,
    /// How many values are 0, 1, 2 to 3, 4 to 7, and so on; the last is of all greater ones.
    pub buckets: [u64; Self::BUCKETS],
}

impl Histogram {
    /// Enough for an hour in microseconds.
    pub const BUCKETS: usize = 33;

    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        let square = u128::from(value).pow(2);
        self.sum_squares = self.sum_squares.saturating_add(square);
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.buckets[bucket.min(Self::BUCKETS - 1)] += 1;
    }

    /// Adds a time, in microseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = [0; Self::BUCKETS];
        Self { count: 0, min: 0, max: 0, sum: 0, sum_squares: 0, buckets }
    }
}

impl Stats {
    pub(super) fn drop(&mut self, why: Dropped) {
        *self.dropped.entry(why).or_default() += 1;
    }

    pub(super) fn refuse(&mut self, errno: Errno) {
        *self.refused.entry(errno).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_a_bucket_for_each_power_of_two() {
        let mut histogram = Histogram::default();
        for value in [5, 0, 1, 2, 3, 4, u64::MAX] {
            histogram.add(value);
        }
        assert_eq!((histogram.count, histogram.min, histogram.max), (7, 0, u64::MAX));
        assert_eq!(histogram.buckets[..4], [1, 1, 2, 2]);
        assert_eq!(histogram.buckets[Histogram::BUCKETS - 1], 1);
        assert_eq!(histogram.sum, u64::MAX);
        let mut times = Histogram::default();
        times.add_time(Duration::from_millis(3));
        times.add_time(Duration::from_millis(1));
        assert_eq!((times.min, times.sum, times.sum_squares), (1000, 4000, 10_000_000));
    }
}
