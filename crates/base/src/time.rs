//! A point in time, as a number.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since an epoch: the start of the driver or of the simulation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the time `seconds` after the epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// Returns how long ago `earlier` was, or zero if it is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the whole seconds since the epoch.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, before: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Seconds with nine decimals, so that the columns of a log are aligned.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }

    #[test]
    fn prints_seconds_and_nanoseconds() {
        assert_eq!(Time(1_000_000_002).to_string(), "1.000000002");
    }
}
