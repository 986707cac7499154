//! When RPCs are answered, and from when on evenly.
//!
//! Each unit of a test does one RPC after the other, so in a steady state any so many answers as
//! there are units, a *round*, take the time of one RPC, in whatever bursts they come. Whole rounds
//! are measured: a burst is never half in.

use std::time::Duration;

use fulmar_base::Time;

/// How far two measurements may be apart, of their sum, to be called the same.
const EVEN: f64 = 0.004;

/// The times of rounds.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    units: u64,
    answers: u64,
    /// When each round ended; the first begins when the first answer of all is seen.
    rounds: Vec<Time>,
    least: usize,
    most: usize,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) answers: u64,
    pub(crate) over: Duration,
    /// Whether the time before was as fast.
    pub(crate) steady: bool,
    /// When it began.
    pub(crate) from: Time,
}

impl Meter {
    /// Returns a meter of so many units that watches so many rounds at least and at most.
    pub(crate) fn new(units: u64, least: usize, most: usize) -> Self {
        Self { units, answers: 0, rounds: Vec::new(), least: least.max(3), most: most.max(3) }
    }

    /// Takes an answer.
    pub(crate) fn count(&mut self, now: Time) {
        self.answers += 1;
        if self.answers.is_multiple_of(self.units) {
            self.rounds.push(now);
        }
    }

    /// Returns the measurement, as soon as there is one: the last third of all rounds if the third
    /// before was as fast, or if it is time to end.
    pub(crate) fn result(&self) -> Option<Measured> {
        let count = self.rounds.len();
        if !self.answers.is_multiple_of(self.units) || count < self.least {
            return None;
        }
        let last = count - 1;
        let part = (last / 3).max(1);
        let steady = self.is_even(last, part);
        (steady || count >= self.most).then(|| Measured {
            answers: part as u64 * self.units,
            over: self.took(last - part, last),
            steady,
            from: self.rounds[last - part],
        })
    }

    /// Returns whether the last `part` rounds were as fast as those before them.
    fn is_even(&self, last: usize, part: usize) -> bool {
        let Some(start) = last.checked_sub(2 * part) else { return false };
        let (before, after) = (self.took(start, last - part), self.took(last - part, last));
        let apart = before.abs_diff(after).as_secs_f64();
        apart <= EVEN * (before + after).as_secs_f64()
    }

    fn took(&self, from: usize, to: usize) -> Duration {
        self.rounds[to].since(self.rounds[from])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(meter: &mut Meter, times: impl Iterator<Item = u64>) -> Option<(usize, Measured)> {
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
    fn what_grows_faster_is_watched_until_it_is_even() {
        // A slow start: rounds take 800, 400, 200 and then always 100.
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
    fn what_never_becomes_even_ends_too() {
        let times = (1..100).map(|n| n * n);
        let (answers, measured) = run(&mut Meter::new(1, 3, 30), times).unwrap();
        assert_eq!((answers, measured.steady), (30, false));
    }
}
