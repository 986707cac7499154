//! Helpers for the tests of codecs.

use std::fmt::Debug;

use crate::DecodeError;

/// Decodes `bytes`, encodes the value and requires the same bytes; then requires that every shorter
/// prefix is an error. Returns the value.
///
/// # Panics
/// If a requirement does not hold.
pub fn round_trip<T: Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> T {
    let value = decode(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
    let mut again = Vec::new();
    encode(&value, &mut again);
    assert_eq!(again, bytes, "{value:?} encodes to other bytes");
    for len in 0..bytes.len() {
        let prefix = decode(&bytes[..len]);
        assert!(prefix.is_err(), "{len} of {} bytes decode to {prefix:?}", bytes.len());
    }
    value
}

/// Parses the hex digits of `text`; everything from a `|` or `;` to the end of a line is a comment.
///
/// # Panics
/// If a digit is not hexadecimal, or their number is odd.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .lines()
        .flat_map(|line| line.split(['|', ';']).next().unwrap_or("").chars())
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).unwrap_or_else(|| panic!("{c:?} is not a hex digit")))
        .collect();
    assert!(digits.len().is_multiple_of(2), "odd number of hex digits");
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}
