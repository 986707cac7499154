//! Distributions of quantities.

use std::time::Duration;

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

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_squares = self.sum_squares.saturating_add(other.sum_squares);
        for (bucket, other) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += other;
        }
    }

    /// Returns the line of a `stats` file, as administrators of Lustre know it: the values are of the
    /// unit `unit`, such as `usecs`.
    pub fn line(&self, name: &str, unit: &str) -> String {
        let Self { count, min, max, sum, sum_squares, .. } = self;
        format!("{name:<25} {count} samples [{unit}] {min} {max} {sum} {sum_squares}")
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

    #[test]
    fn merged_histograms_have_the_values_of_both() {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            histogram
        };
        for (one, other) in [(&[5, 9][..], &[3, 70][..]), (&[], &[4]), (&[4], &[]), (&[], &[])] {
            let mut merged = of(one);
            merged.merge(&of(other));
            assert_eq!(merged, of(&[one, other].concat()));
        }
    }

    #[test]
    fn a_histogram_is_a_line_of_a_stats_file() {
        let mut times = Histogram::default();
        times.add(3);
        times.add(5);
        let line = times.line("ost_read", "usecs");
        assert_eq!(line, "ost_read                  2 samples [usecs] 3 5 8 34");
    }
}
