//! Rates, times, sizes and shares, in the words of tc(8).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::line::Queue;

/// A value that is not understood, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(pub(crate) String);

/// What a line carries, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rate(u64);

/// A part of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
pub struct Share(pub f64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size(pub u64);

/// What is emulated: from a telephone line to what no host has.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

impl Rate {
    /// Returns the rate of so many bits per second, brought into the range that can be emulated:
    /// 1 kbit to 1 Tbit.
    pub fn bits_per_second(bits: u64) -> Self {
        Self(bits.clamp(*RATES.start(), *RATES.end()))
    }

    /// Returns bits per second.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns how many bytes pass in so long.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bits = u128::from(self.0) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0.0);
}

/// Splits `10Gbit` into a number and what follows it, in small letters.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    Some((number, text[at..].trim().to_ascii_lowercase()))
}

/// Decimal prefixes, and binary ones with an `i`.
fn prefix(text: &str) -> Option<f64> {
    let power = |base: f64, text: &str| match text {
        "" => Some(1.0),
        "k" => Some(base),
        "m" => Some(base.powi(2)),
        "g" => Some(base.powi(3)),
        "t" => Some(base.powi(4)),
        _ => None,
    };
    match text.strip_suffix('i') {
        Some("") => None,
        Some(letter) => power(1024.0, letter),
        None => power(1000.0, text),
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError(format!("{text:?} is no rate: write it as 10Gbit or 500Mbit"));
        let (number, unit) = split(text).ok_or_else(wrong)?;
        if unit.ends_with("bps") {
            return Err(UnitError(format!(
                "{text:?} means bytes per second to tc and bits to others: write bits, as 10Gbit"
            )));
        }
        let unit = unit.strip_suffix("/s").unwrap_or(&unit);
        let unit = unit.strip_suffix("bit").unwrap_or(unit);
        let bits = number * prefix(unit).ok_or_else(wrong)?;
        if !(*RATES.start() as f64..=*RATES.end() as f64).contains(&bits) {
            return Err(UnitError(format!("a rate is from 1kbit to 1Tbit, not {text}")));
        }
        Ok(Self(bits.round() as u64))
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

/// Reads a time such as `25.25ms`, `300us` or `1s`. A bare number, which tc takes for microseconds
/// and others for milliseconds, is asked for its unit.
///
/// # Errors
/// What is not understood.
pub fn words_of_time(text: &str) -> Result<Duration, UnitError> {
    let wrong = || UnitError(format!("{text:?} is no time: write it as 25.25ms, 300us or 1s"));
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "s" | "sec" | "secs" => number,
        "ms" | "msec" | "msecs" => number / 1e3,
        "us" | "µs" | "usec" | "usecs" => number / 1e6,
        "ns" => number / 1e9,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    // Longer is no time of a network, and arithmetic on it would not be exact.
    if time > Duration::from_secs(3600) { Err(wrong()) } else { Ok(time) }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong =
            || UnitError(format!("{text:?} is no share: write it in percent, such as 0.01%"));
        let number: f64 = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(wrong)?;
        if (0.0..=100.0).contains(&number) { Ok(Self(number / 100.0)) } else { Err(wrong()) }
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError(format!("{text:?} is no size: write it as 64MB or 64MiB"));
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let unit = unit.strip_suffix('b').unwrap_or(&unit);
        let bytes = number * prefix(unit).ok_or_else(wrong)?;
        if bytes <= 1e15 { Ok(Self(bytes.round() as u64)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            1_000_000_000.. => write!(f, "{:.2} GB", bytes / 1e9),
            1_000_000.. => write!(f, "{:.1} MB", bytes / 1e6),
            1_000.. => write!(f, "{:.1} kB", bytes / 1e3),
            _ => write!(f, "{} B", self.0),
        }
    }
}

impl FromStr for Queue {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let time = words_of_time(text).map(Self::Time);
        time.or_else(|_| text.parse().map(Self::Bytes)).map_err(|_| {
            UnitError(format!("{text:?} is no queue: write it as a size, 64MB, or a time, 100ms"))
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
    fn rates_are_read_as_tc_writes_them() {
        let bits = |text: &str| text.parse::<Rate>().map(Rate::bits);
        assert_eq!(bits("10Gbit"), Ok(10_000_000_000));
        assert_eq!(bits("2.5gbit"), Ok(2_500_000_000));
        assert_eq!(bits("500mbit"), Ok(500_000_000));
        assert_eq!(bits("100G"), Ok(100_000_000_000));
        assert_eq!(bits("10Gbit/s"), Ok(10_000_000_000));
        assert_eq!(bits("64000"), Ok(64_000));
        assert!(bits("10gbps").unwrap_err().to_string().contains("bytes per second to tc"));
        assert!(bits("fast").unwrap_err().to_string().contains("10Gbit"));
        assert!(bits("0").is_err() && bits("2Tbit").is_err());
        assert_eq!("2500mbit".parse::<Rate>().unwrap().to_string(), "2.5Gbit");
    }

    #[test]
    fn times_want_a_unit() {
        assert_eq!(words_of_time("25.25ms"), Ok(Duration::from_micros(25_250)));
        assert_eq!(words_of_time("300us"), Ok(Duration::from_micros(300)));
        assert_eq!(words_of_time("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(words_of_time("0"), Ok(Duration::ZERO));
        assert!(words_of_time("25").is_err() && words_of_time("1e9s").is_err());
    }

    #[test]
    fn shares_are_percent_and_queues_sizes_or_times() {
        assert_eq!("0.01%".parse(), Ok(Share(0.0001)));
        assert!("0.01".parse::<Share>().is_err() && "101%".parse::<Share>().is_err());
        assert_eq!("64MB".parse(), Ok(Queue::Bytes(Size(64_000_000))));
        assert_eq!("64MiB".parse(), Ok(Queue::Bytes(Size(64 << 20))));
        assert_eq!("100ms".parse(), Ok(Queue::Time(Duration::from_millis(100))));
        assert!("much".parse::<Queue>().is_err());
    }

    #[test]
    fn bytes_that_pass_in_a_time_are_exact() {
        let rate: Rate = "10Gbit".parse().unwrap();
        assert_eq!(rate.bytes_in(Duration::from_micros(50_500)), 63_125_000);
        assert_eq!(Size(63_125_000).to_string(), "63.1 MB");
    }
}
