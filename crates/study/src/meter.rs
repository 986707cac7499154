//! Measures the rate of answered RPCs, and finds its steady state.
//!
//! Each unit of a test runs one RPC after the other. So in a steady state a *round*, as many
//! answers as there are units, takes the time of one RPC, even if answers come in bursts. Only
//! whole rounds are measured, so that no burst is counted partly.

use std::time::Duration;

use fulmar_base::Time;

/// The largest difference of two equal measurements, relative to their sum.
const STEADY: f64 = 0.004;

/// Records the times of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    units: u64,
    answers: u64,
    /// The end of each round.
    rounds: Vec<Time>,
    least: usize,
    most: usize,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) answers: u64,
    pub(crate) over: Duration,
    /// Whether the rate was steady.
    pub(crate) steady: bool,
    /// The start of the measurement.
    pub(crate) from: Time,
}

impl Meter {
    /// Returns a meter for so many units that measures at least `least` and at most `most` rounds.
    pub(crate) fn new(units: u64, least: usize, most: usize) -> Self {
        Self { units, answers: 0, rounds: Vec::new(), least: least.max(3), most: most.max(3) }
    }

    /// Counts an answer.
    pub(crate) fn count(&mut self, now: Time) {
        self.answers += 1;
        if self.answers.is_multiple_of(self.units) {
            self.rounds.push(now);
        }
    }

    /// Returns the number of answers.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Returns the measurement once available: the last third of all rounds, if the third before
    /// had the same rate, or if `most` rounds have passed.
    pub(crate) fn result(&self) -> Option<Measurement> {
        let count = self.rounds.len();
        if !self.answers.is_multiple_of(self.units) || count < self.least {
            return None;
        }
        let last = count - 1;
        let part = (last / 3).max(1);
        let steady = self.is_steady(last, part);
        (steady || count >= self.most).then(|| Measurement {
            answers: part as u64 * self.units,
            over: self.took(last - part, last),
            steady,
            from: self.rounds[last - part],
        })
    }

    /// Returns whether the last `part` rounds had the same rate as those before them.
    fn is_steady(&self, last: usize, part: usize) -> bool {
        let Some(start) = last.checked_sub(2 * part) else { return false };
        let (before, after) = (self.took(start, last - part), self.took(last - part, last));
        let apart = before.abs_diff(after).as_secs_f64();
        apart <= STEADY * (before + after).as_secs_f64()
    }

    fn took(&self, from: usize, to: usize) -> Duration {
        self.rounds[to].since(self.rounds[from])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(meter: &mut Meter, times: impl Iterator<Item = u64>) -> Option<(usize, Measurement)> {
        times.enumerate().find_map(|(n, at)| {
            meter.count(Time(at));
            meter.result().map(|measured| (n + 1, measured))
        })
    }

    #[test]
    fn bursts_of_a_round_are_measured_exactly() {
        // Four units, whose answers come in pairs, 10 ns apart, every 100 ns.
        let times = (0..100).map(|n| n / 4 * 100 + n % 4 / 2 * 10);
        let (answers, measured) = run(&mut Meter::new(4, 3, 20), times).unwrap();
        assert_eq!((answers, measured.answers), (12, 4));
        assert_eq!((measured.over, measured.steady), (Duration::from_nanos(100), true));
    }

    #[test]
    fn a_growing_rate_is_measured_until_it_is_steady() {
        // Slow start: rounds take 800, 400, 200 and then always 100.
        let times = (0..40).scan(0, |now, n| {
            *now += (800 >> n).max(100);
            Some(*now)
        });
        let (_, measured) = run(&mut Meter::new(1, 3, 40), times).unwrap();
        assert!(measured.steady);
        let rate = measured.over.as_nanos() as u64 / measured.answers;
        assert_eq!(rate, 100);
    }

    #[test]
    fn an_unsteady_rate_ends_after_the_most_rounds() {
        let times = (1..100).map(|n| n * n);
        let (answers, measured) = run(&mut Meter::new(1, 3, 30), times).unwrap();
        assert_eq!((answers, measured.steady), (30, false));
    }
}
