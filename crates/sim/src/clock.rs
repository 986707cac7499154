//! The clock of a host, which may have an offset and a drift.

use std::time::Duration;

use fulmar_base::Time;

/// A clock with an offset that runs fast or slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The time of the last change of its speed.
    since: Time,
    /// The time that it showed then.
    shown: Time,
    /// How fast it runs, in parts per million.
    ppm: i32,
}

impl Clock {
    /// Returns a clock that is ahead by `offset` and runs at the right speed.
    pub(crate) fn ahead(offset: Duration) -> Self {
        Self { since: Time::ZERO, shown: Time::ZERO + offset, ppm: 0 }
    }

    /// Makes it run fast by `ppm` parts per million from now on, or slow if that is negative.
    pub(crate) fn drift(&mut self, now: Time, ppm: i32) {
        *self = Self { since: now, shown: self.show(now), ppm };
    }

    /// Returns the time that it shows at a real time.
    pub(crate) fn show(&self, now: Time) -> Time {
        if self.ppm == 0 {
            return self.shown + now.since(self.since);
        }
        let passed = now.since(self.since).as_nanos();
        self.shown + Duration::from_nanos((passed * self.speed() / MILLION) as u64)
    }

    /// Returns the real time at which it first shows `shown`.
    pub(crate) fn when(&self, shown: Time) -> Time {
        let to_pass = shown.since(self.shown).as_nanos();
        if self.ppm == 0 {
            return self.since + Duration::from_nanos(to_pass as u64);
        }
        self.since + Duration::from_nanos((to_pass * MILLION).div_ceil(self.speed()) as u64)
    }

    fn speed(&self) -> u128 {
        u128::from(MILLION as u32).saturating_add_signed(self.ppm.into())
    }
}

const MILLION: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_inverse_of_show() {
        let mut clock = Clock::ahead(Duration::from_secs(3_600));
        assert_eq!(clock.show(Time::from_secs(1)), Time::from_secs(3_601));
        for (at, ppm) in [(10, 1_000), (20, -1_000), (30, 1)] {
            clock.drift(Time::from_secs(at), ppm);
            for later in [0, 1, 999, 1_000_001, 7_777_777_777] {
                let shown = clock.show(Time::from_secs(at)) + Duration::from_nanos(later);
                let when = clock.when(shown);
                assert!(clock.show(when) >= shown, "{ppm}: {later}");
                assert!(when == Time::from_secs(at) || clock.show(Time(when.0 - 1)) < shown);
            }
        }
    }

    #[test]
    fn a_fast_clock_gains_and_never_jumps() {
        let mut clock = Clock::ahead(Duration::ZERO);
        clock.drift(Time::from_secs(100), 1_000);
        assert_eq!(clock.show(Time::from_secs(100)), Time::from_secs(100));
        assert_eq!(clock.show(Time::from_secs(1_100)), Time::from_secs(1_101));
    }
}
