//! Rates, sizes, times and chances in the words of [`quantity`], within what
//! the model is for.

use std::time::Duration;

use fulmar_base::quantity;

/// Reads a rate in bits per second.
///
/// # Errors
/// Says what a rate looks like, and what the bounds are.
pub fn rate(text: &str) -> Result<u64, String> {
    match quantity::rate(text)? {
        bits @ 1_000..=100_000_000_000_000 => Ok(bits),
        _ => Err(format!("{text}: a rate is between 1kbit and 100Tbit")),
    }
}

/// Reads a number of bytes.
///
/// # Errors
/// Says what a size looks like, and that nothing is none.
pub fn size(text: &str) -> Result<u64, String> {
    match quantity::size(text)? {
        0 => Err(format!("{text}: a size is at least one byte")),
        bytes => Ok(bytes),
    }
}

/// Reads a round trip.
///
/// # Errors
/// Says what a time looks like, and what the bound is.
pub fn time(text: &str) -> Result<Duration, String> {
    match quantity::time(text)? {
        time if time <= Duration::from_secs(60) => Ok(time),
        _ => Err(format!("{text}: a round trip is at most 60s")),
    }
}

/// Reads the chance that a packet is lost.
///
/// # Errors
/// Says what a share looks like, and that not all may be lost.
pub fn chance(text: &str) -> Result<f64, String> {
    match quantity::share(text)? {
        part if part < 1. => Ok(part),
        _ => Err(format!("{text}: where all is lost there is no path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_path_is_like_is_refused_with_the_bound() {
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
