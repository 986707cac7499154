//! Rates, sizes, times and shares in text, with the same meaning in every command. The caller
//! checks the limits.
//!
//! ```text
//! rate     100Gbit  100G  100Gb/s  100Gbps  2.5Gbit/s  800M  64000     decimal units of bits
//! size     64GiB  64G  64GB  512M  4096                                binary units of bytes
//! time     50.5ms  240us  1s  0                                        a unit, unless it is zero
//! share    0.01%  100%  1e-4                                           percent, or a fraction
//! ```
//!
//! Upper and lower case are equal, except that `GB/s`, which would be bytes, is not a rate. A
//! space may precede the unit.

use std::time::Duration;

/// The largest value: a larger one is not exact, and no network has it.
const MOST: f64 = 1e18;

/// Parses a rate in bits per second.
///
/// # Errors
/// If the text is not a rate; the error gives examples.
pub fn rate(text: &str) -> Result<u64, String> {
    const ENDS: [&str; 8] = ["bits/s", "bit/s", "b/s", "/s", "bits", "bit", "bps", "b"];
    let wrong =
        || format!("{text:?} is not a valid rate: write bits per second, such as 10Gbit or 2.5G");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let small = unit.to_ascii_lowercase();
    if unit.contains('B') && !small.contains("bit") {
        return Err(format!("{text:?} may mean bytes per second: write bits, such as 10Gbit"));
    }
    let letter = ENDS.iter().find_map(|end| small.strip_suffix(end)).unwrap_or(&small);
    let power = power(letter).ok_or_else(wrong)?;
    whole(number * 1000f64.powi(power)).ok_or_else(wrong)
}

/// Parses a number of bytes.
///
/// # Errors
/// If the text is not a size; the error gives examples.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a valid size: write bytes, such as 64G or 512MiB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let small = unit.to_ascii_lowercase();
    let letter = small.strip_suffix('b').unwrap_or(&small);
    let letter = match letter.strip_suffix('i') {
        Some("") => return Err(wrong()),
        Some(letter) => letter,
        None => letter,
    };
    let power = power(letter).ok_or_else(wrong)?;
    whole(number * 1024f64.powi(power)).ok_or_else(wrong)
}

/// Parses a time. A number without a unit is refused: some tools take it for microseconds and
/// others for milliseconds.
///
/// # Errors
/// If the text is not a time; the error gives examples.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a valid time: write it with a unit, as 50.5ms, 240us or 1s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" => number,
        "ms" | "msec" | "msecs" => number / 1e3,
        "us" | "µs" | "μs" | "usec" | "usecs" => number / 1e6,
        "ns" | "nsec" | "nsecs" => number / 1e9,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Parses a share, from 0 to 1. The whole is `100%`: a bare 1 may be meant as one percent.
///
/// # Errors
/// If the text is not a share; the error gives examples.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a valid share: write percent, such as 0.01%, or a fraction, such as \
             1e-4"
        )
    };
    let text = text.trim();
    let (number, fits): (_, fn(f64) -> bool) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), |number| (0.0..=100.0).contains(&number)),
        None => (text, |number| (0.0..1.0).contains(&number)),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    match fits(value) {
        true if text.ends_with('%') => Ok(value / 100.0),
        true => Ok(value),
        false => Err(wrong()),
    }
}

/// Returns the number at the start of a text, and the rest.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// Returns the exponent of 1000 or 1024 for the letter of a unit.
fn power(letter: &str) -> Option<i32> {
    ["", "k", "m", "g", "t"].iter().zip(0..).find(|(name, _)| **name == letter).map(|(_, n)| n)
}

fn whole(number: f64) -> Option<u64> {
    (number <= MOST).then(|| number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_bits_per_second() {
        for text in [
            "100Gbit",
            "100gbit",
            "100Gbits",
            "100G",
            "100 G",
            "100Gb",
            "100Gb/s",
            "100gb/s",
            "100Gbit/s",
            "100GBit/s",
            "100G/s",
            "100Gbps",
            "100gbps",
            "0.1T",
            "0.1Tbit",
            "100000M",
            "100000000k",
            "100000000000",
            "100000000000bit/s",
            " 100 Gb/s ",
        ] {
            assert_eq!(rate(text), Ok(100_000_000_000), "{text}");
        }
        assert_eq!(rate("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!((rate("0"), rate("1T")), (Ok(0), Ok(1_000_000_000_000)));
        for text in ["", "fast", "G", "-1G", "1Q", "1Gib", "1.2.3M", "1e9", "10Gbit/h", "9e", "."] {
            assert!(rate(text).unwrap_err().contains("such as 10Gbit"), "{text}");
        }
        assert!(rate(&"9".repeat(400)).is_err() && rate("9999999T").is_err());
        for text in ["10GB/s", "10GBps", "10GB", "1B"] {
            assert!(rate(text).unwrap_err().contains("write bits"), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary_bytes() {
        for text in ["64G", "64GB", "64GiB", "64Gi", "64gb", "64 gib", "65536M", "0.0625T"] {
            assert_eq!(size(text), Ok(64 << 30), "{text}");
        }
        assert_eq!(size("64MB"), Ok(64 << 20));
        assert_eq!(size("1.5k"), Ok(1536));
        assert_eq!([size("4096"), size("4096B"), size("4KiB")], [const { Ok(4096) }; 3]);
        assert_eq!(size("0"), Ok(0));
        for text in ["", "G", "-1G", "1i", "1iB", "1GBB", "1Gbit", "1e400", "2000000T", "much"] {
            assert!(size(text).unwrap_err().contains("such as 64G"), "{text}");
        }
    }

    #[test]
    fn times_have_a_unit_unless_they_are_zero() {
        for text in ["50.5ms", "50.5msec", "50.5 ms", "50500us", "50500usec", "50500µs", "0.0505s"]
        {
            assert_eq!(time(text), Ok(Duration::from_micros(50_500)), "{text}");
        }
        assert_eq!([time("1s"), time("1sec")], [const { Ok(Duration::from_secs(1)) }; 2]);
        assert_eq!(time("250ns"), Ok(Duration::from_nanos(250)));
        assert_eq!([time("0"), time("0ms")], [const { Ok(Duration::ZERO) }; 2]);
        for text in ["", "50", "ms", "-1s", "1e9s", "5m", "5 min", "99999999999999999999999s"] {
            assert!(time(text).unwrap_err().contains("50.5ms"), "{text}");
        }
    }

    #[test]
    fn shares_are_percent_or_a_fraction() {
        for text in ["0.01%", "0.01 %", "1e-2%", "1e-4", "0.0001", " 1e-4 "] {
            assert_eq!(share(text), Ok(1e-4), "{text}");
        }
        assert_eq!([share("0"), share("0%")], [const { Ok(0.0) }; 2]);
        assert_eq!((share("100%"), share("0.5")), (Ok(1.0), Ok(0.5)));
        for text in ["", "%", "1", "5", "101%", "-1%", "-1e-6", "NaN", "inf", "NaN%", "some"] {
            assert!(share(text).unwrap_err().contains("percent"), "{text}");
        }
    }
}
