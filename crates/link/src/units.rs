//! Rates, times, sizes and shares of a line, in the notation of [`quantity`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fulmar_base::quantity;
use serde::{Serialize, Serializer};

use crate::line::Queue;

/// The error of an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(pub(crate) String);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rate(u64);

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Share(pub f64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size(pub u64);

/// The range of emulated rates.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;
/// The largest size; arithmetic on it is exact.
const SIZE_MAX: u64 = 900 << 40;

impl Rate {
    /// Returns the rate in bits per second, clamped to the range of emulated rates: 1 kbit to 1
    /// Tbit.
    pub fn bits_per_second(bits: u64) -> Self {
        Self(bits.clamp(*RATES.start(), *RATES.end()))
    }

    /// Returns a rate in units of 10^6 bits per second.
    ///
    /// # Panics
    /// If it is out of range.
    pub const fn megabits(megabits: u64) -> Self {
        assert!(megabits >= 1 && megabits <= 1_000_000, "a rate is from 1kbit to 1Tbit");
        Self(megabits * 1_000_000)
    }

    /// Returns bits per second.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the bytes that pass in this time.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.0) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl Share {
    /// Zero.
    pub const NONE: Self = Self(0.0);
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bits = quantity::rate(text).map_err(UnitError)?;
        if RATES.contains(&bits) {
            Ok(Self(bits))
        } else {
            Err(UnitError(format!("a rate is from 1kbit to 1Tbit, not {text}")))
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        let (divisor, unit) = match self.0 {
            1_000_000_000.. => (1e9, "Gbit"),
            1_000_000.. => (1e6, "Mbit"),
            _ => (1e3, "kbit"),
        };
        write!(f, "{}{unit}", (bits / divisor * 1e3).round() / 1e3)
    }
}

/// Parses a time such as `25.25ms`, `300us` or `1s`, of at most an hour.
///
/// # Errors
/// If the text is not a time, or too long.
pub fn words_of_time(text: &str) -> Result<Duration, UnitError> {
    let time = quantity::time(text).map_err(UnitError)?;
    // Arithmetic on longer times would not be exact.
    if time <= Duration::from_secs(3600) {
        Ok(time)
    } else {
        Err(UnitError(format!("a time of a line is an hour at most, not {text}")))
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity::share(text).map(Self).map_err(UnitError)
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = quantity::size(text).map_err(UnitError)?;
        if bytes <= SIZE_MAX {
            Ok(Self(bytes))
        } else {
            Err(UnitError(format!("a size is 900TiB at most, not {text}")))
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&fulmar_text::bytes(self.0))
    }
}

impl FromStr for Queue {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim_end().ends_with(|c: char| c.is_ascii_digit()) {
            return Err(UnitError(format!(
                "{text:?} is a queue without a unit, which may mean packets, bytes or a time: \
                 write it as 64MB or 100ms"
            )));
        }
        let time = words_of_time(text).map(Self::Time);
        time.or_else(|_| text.parse().map(Self::Bytes)).map_err(|_| {
            UnitError(format!(
                "{text:?} is not a valid queue: write a size, 64MB, or a time, 100ms"
            ))
        })
    }
}

/// Serializes a duration as a number of milliseconds.
pub(crate) fn as_ms<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_nanos() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_limited_to_the_emulated_range() {
        let bits = |text: &str| text.parse::<Rate>().map(Rate::bits);
        assert_eq!(bits("10Gbit"), Ok(10_000_000_000));
        assert_eq!(bits("10gbps"), Ok(10_000_000_000));
        assert_eq!((bits("1kbit"), bits("1Tbit")), (Ok(1_000), Ok(1_000_000_000_000)));
        assert!(bits("fast").unwrap_err().to_string().contains("10Gbit"));
        assert!(bits("0").is_err() && bits("999").is_err() && bits("1.1Tbit").is_err());
        assert_eq!("2500mbit".parse::<Rate>().unwrap().to_string(), "2.5Gbit");
    }

    #[test]
    fn times_of_a_line_are_an_hour_at_most() {
        assert_eq!(words_of_time("25.25ms"), Ok(Duration::from_micros(25_250)));
        assert_eq!(words_of_time("3600s"), Ok(Duration::from_secs(3600)));
        assert!(words_of_time("25").is_err() && words_of_time("3601s").is_err());
    }

    #[test]
    fn queues_are_sizes_or_times() {
        assert_eq!("64MB".parse(), Ok(Queue::Bytes(Size(64 << 20))));
        assert_eq!("100ms".parse(), Ok(Queue::Time(Duration::from_millis(100))));
        for text in ["1000", "0", "64.5"] {
            let error = text.parse::<Queue>().unwrap_err().to_string();
            assert!(error.contains("write it as 64MB or 100ms"), "{error}");
        }
        assert!("much".parse::<Queue>().is_err() && "1000T".parse::<Size>().is_err());
    }

    #[test]
    fn a_displayed_size_can_be_parsed() {
        for size in [999, 1536, 64 << 20, 250 << 20, 8 << 30].map(Size) {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert_eq!(Size(63_125_000).to_string(), "60.2 MiB");
    }

    #[test]
    fn bytes_in_a_time_are_exact() {
        let rate: Rate = "10Gbit".parse().unwrap();
        assert_eq!(rate.bytes_in(Duration::from_micros(50_500)), 63_125_000);
    }
}
