//! Rates, sizes, times and probabilities in the notation of [`quantity`], within the range of the
//! model.

use std::time::Duration;

use fulmar_base::quantity;

/// Parses a rate in bits per second.
///
/// # Errors
/// If the text is not a rate, or out of range.
pub fn rate(text: &str) -> Result<u64, String> {
    match quantity::rate(text)? {
        bits @ 1_000..=100_000_000_000_000 => Ok(bits),
        _ => Err(format!("{text}: a rate is between 1kbit and 100Tbit")),
    }
}

/// Parses a number of bytes.
///
/// # Errors
/// If the text is not a size, or 0.
pub fn size(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        0 => Err(format!("{text}: a size is at least one byte")),
        bytes => Ok(bytes),
    }
}

/// Parses a round trip.
///
/// # Errors
/// If the text is not a time, or too long.
pub fn time(text: &str) -> Result<Duration, String> {
    match quantity::time(text)? {
        time if time <= Duration::from_secs(60) => Ok(time),
        _ => Err(format!("{text}: a round trip is at most 60s")),
    }
}

/// Parses the probability that a packet is lost.
///
/// # Errors
/// If the text is not a share, or is 100%.
pub fn chance(text: &str) -> Result<f64, String> {
    match quantity::share(text)? {
        part if part < 1. => Ok(part),
        _ => Err(format!("{text}: a path that loses all packets is no path: use less than 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_limit() {
        assert_eq!(rate("1kbit").and(rate("100T")), Ok(100_000_000_000_000));
        for text in ["0", "999", "100.1T"] {
            assert!(rate(text).unwrap_err().contains("between 1kbit and 100Tbit"), "{text}");
        }
        assert_eq!(size("1"), Ok(1));
        assert!(size("0").unwrap_err().contains("at least one byte"));
        assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
        assert!(time("60.1s").unwrap_err().contains("at most 60s"));
        assert_eq!(chance("99%"), Ok(0.99));
        assert!(chance("100%").unwrap_err().contains("no path"));
    }
}
