//! The end of slow start before a loss, as HyStart of Linux's CUBIC finds it.
//!
//! ```text
//! delay   the shortest round trip of a round grows: a queue builds up
//! train   acknowledgements follow each other without a gap for half of the shortest round trip
//! ```

use std::time::Duration;

use fulmar_base::Time;

use super::Sample;
use crate::options::HyStart;

/// Finds the end of slow start.
#[derive(Debug)]
pub(super) struct SlowStart {
    mode: HyStart,
    /// The shortest round trip so far.
    base: Option<Duration>,
    /// The shortest of this round.
    round: Option<Duration>,
    /// The beginning and the end of this round's train.
    train: Option<(Time, Time)>,
}

impl SlowStart {
    pub(super) fn new(mode: HyStart) -> Self {
        Self { mode, base: None, round: None, train: None }
    }

    pub(super) fn is_over(&mut self, now: Time, sample: &Sample) -> bool {
        let base = self.base.map_or(sample.rtt, |base| base.min(sample.rtt));
        self.base = Some(base);
        let before = if sample.new_round { None } else { self.round };
        let round = before.map_or(sample.rtt, |before| before.min(sample.rtt));
        self.round = Some(round);
        let queue = round >= base + (base / 8).clamp(LATER_MIN, LATER_MAX);
        let train = self.train(now, sample);
        self.mode.sees_delay() && queue || self.mode.sees_train() && train > base / 2
    }

    /// Returns the length of this round's train. The packets of a burst are acknowledged one after
    /// the other, until now.
    fn train(&mut self, now: Time, sample: &Sample) -> Duration {
        let first = now - sample.spread;
        let train = match self.train.filter(|_| !sample.new_round) {
            None => (first, now),
            Some((start, end)) if first <= end + GAP_MAX => (start, now),
            Some(broken) => broken,
        };
        self.train = Some(train);
        train.1.since(train.0)
    }
}

/// Growth of a round's shortest round trip that ends slow start: an eighth within these limits.
const LATER_MIN: Duration = Duration::from_millis(4);
const LATER_MAX: Duration = Duration::from_millis(16);
/// The longest gap in a train.
const GAP_MAX: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn sample(rtt: Duration, spread: Duration, new_round: bool) -> Sample {
        Sample { acked: 10_000, rtt, rate: 1, limited: true, new_round, spread }
    }

    /// Returns whether slow start is over after acknowledgements `apart` from each other for a time.
    fn over(mode: HyStart, apart: Duration, lasts: Duration, later: Duration) -> bool {
        let mut slow_start = SlowStart::new(mode);
        slow_start.is_over(Time::from_secs(1), &sample(RTT, Duration::ZERO, true));
        let mut now = Time::from_secs(2);
        let end = now + lasts;
        let mut is_first = true;
        while now <= end {
            if slow_start.is_over(now, &sample(RTT + later, Duration::ZERO, is_first)) {
                return true;
            }
            (now, is_first) = (now + apart, false);
        }
        false
    }

    #[test]
    fn a_train_of_half_a_round_trip_or_a_longer_round_trip_ends_it() {
        let (close, none) = (Duration::from_millis(1), Duration::ZERO);
        let long = Duration::from_millis(30);
        let short = Duration::from_millis(20);
        assert!(over(HyStart::Train, close, long, none) && over(HyStart::Both, close, long, none));
        assert!(!over(HyStart::Train, close, short, none), "a short train");
        assert!(!over(HyStart::Train, Duration::from_millis(3), long, none), "gaps");
        assert!(!over(HyStart::Delay, close, long, none));
        let later = Duration::from_millis(7);
        assert!(
            over(HyStart::Delay, close, short, later) && over(HyStart::Both, close, short, later)
        );
        assert!(!over(HyStart::Train, close, short, later));
        assert!(!over(HyStart::Off, close, long, later));
    }

    #[test]
    fn a_burst_is_a_train_of_its_own() {
        let mut slow_start = SlowStart::new(HyStart::Train);
        slow_start.is_over(Time::from_secs(1), &sample(RTT, Duration::ZERO, true));
        let long = sample(RTT, Duration::from_millis(26), true);
        assert!(slow_start.is_over(Time::from_secs(2), &long));
    }
}
