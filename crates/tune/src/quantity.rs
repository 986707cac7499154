//! Rates, sizes, times and chances, read as people write them.
//!
//! ```text
//! rate     100Gbit  100G  100Gb/s  100Gbps  2.5Gbit/s  800M  1000000     decimal units, bits
//! size     64GiB  64G  64GB  512M  4096                                  binary units, bytes
//! time     50.5ms  240us  0.05s                                          never without a unit
//! loss     1e-6  0.0001%
//! ```

use std::time::Duration;

/// Reads a rate in bits per second.
///
/// # Errors
/// Says what a rate looks like.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no rate: write bits per second, such as 100Gbit or 2.5G");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let unit = ["bit/s", "bits", "bit", "bps", "b/s", "b"]
        .iter()
        .find_map(|end| unit.strip_suffix(end))
        .unwrap_or(&unit);
    let factor = match unit {
        "" => 1.,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        _ => return Err(wrong()),
    };
    let bits = number * factor;
    match (1e3..=1e14).contains(&bits) {
        true => Ok(bits.round() as u64),
        false => Err(format!("{text}: a rate is between 1kbit and 100Tbit")),
    }
}

/// Reads a number of bytes.
///
/// # Errors
/// Says what a size looks like.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: write bytes, such as 64G or 512MiB");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let bytes =
        number * f64::from(1u32 << (shift % 30)) * if shift >= 30 { 1073741824. } else { 1. };
    match (1. ..=1e18).contains(&bytes) {
        true => Ok(bytes.round() as u64),
        false => Err(wrong()),
    }
}

/// Reads a time.
///
/// # Errors
/// Says what a time looks like.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: write one such as 50.5ms, 240us or 0.05s");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        "ns" => number / 1e9,
        _ => return Err(wrong()),
    };
    match (0. ..=60.).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{text}: a round trip is at most 60s")),
    }
}

/// Reads a chance.
///
/// # Errors
/// Says what a chance looks like.
pub fn chance(text: &str) -> Result<f64, String> {
    let (number, per_cent) = match text.strip_suffix('%') {
        Some(number) => (number.trim(), 100.),
        None => (text, 1.),
    };
    match number.parse::<f64>() {
        Ok(number) if (0. ..1.).contains(&(number / per_cent)) => Ok(number / per_cent),
        _ => {
            Err(format!("{text:?} is no loss: write the part that is lost, such as 1e-6 or 0.01%"))
        }
    }
}

/// The number that a text begins with, and what follows.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_bits() {
        for text in ["100Gbit", "100G", "100 Gb/s", "100gbps", "0.1T", "100000M", "100Gbit/s"] {
            assert_eq!(rate(text), Ok(100_000_000_000), "{text}");
        }
        assert_eq!(rate("2.5Gbit"), Ok(2_500_000_000));
        assert!(rate("fast").unwrap_err().contains("such as 100Gbit"));
        assert!(rate("100Q").is_err() && rate("0").is_err() && rate("-1G").is_err());
    }

    #[test]
    fn sizes_are_binary_bytes() {
        for text in ["64G", "64GiB", "64GB", "65536M", "64 gib"] {
            assert_eq!(size(text), Ok(64 << 30), "{text}");
        }
        assert_eq!(size("4096"), Ok(4096));
        assert!(size("0").is_err() && size("G").is_err() && size("1e400").is_err());
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("50.5ms"), Ok(Duration::from_micros(50_500)));
        assert_eq!(time("240us"), Ok(Duration::from_micros(240)));
        assert_eq!(time("0.05s"), Ok(Duration::from_millis(50)));
        assert!(time("50").unwrap_err().contains("such as 50.5ms"));
        assert!(time("90s").is_err());
    }

    #[test]
    fn chances_are_parts_or_per_cent() {
        assert_eq!(chance("1e-6"), Ok(1e-6));
        assert!((chance("0.01%").unwrap() - 1e-4).abs() < 1e-12);
        assert!(chance("2").is_err() && chance("-1e-6").is_err() && chance("NaN").is_err());
    }
}
