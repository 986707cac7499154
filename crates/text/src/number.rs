//! Numbers without a unit.

/// The most digits after the point.
const DECIMALS_MAX: i32 = 6;

/// Reads a number in the notation of C: decimal, hexadecimal with `0x`, or octal with `0`.
pub fn integer(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    // The standard library also takes a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

/// Returns a number with its digits in groups of three, such as `1,234,567`.
pub fn grouped(number: u64) -> String {
    group(&number.to_string())
}

/// Returns a number with this many significant digits, without zeros at the end of a fraction. All
/// digits before the point are kept, in groups of three: `0.025`, `1.5`, `98.8`, `1,235`.
pub fn significant(value: f64, digits: u8) -> String {
    let digits = usize::from(digits.max(1));
    // The exponent is that of the rounded value: 9.996 is 1.00e1 with three digits.
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent = rounded.rsplit_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let Some(exponent) = exponent else { return value.to_string() };
    let decimals = (digits as i32 - 1 - exponent).clamp(0, DECIMALS_MAX) as usize;
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    match (group(whole), fraction.trim_end_matches('0')) {
        (whole, "") if whole == "-0" => "0".to_owned(),
        (whole, "") => whole,
        (whole, fraction) => format!("{whole}.{fraction}"),
    }
}

/// Returns a number with a fixed number of digits after the point, and groups of three before it,
/// so that the points are aligned in a column.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group(whole)),
        None => group(&text),
    }
}

/// Returns a number of things, such as `1 pair` or `2 pairs`.
pub fn count(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", grouped(number)),
    }
}

/// Puts a comma between groups of three digits. The number may have a sign.
fn group(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_in_c() {
        for (text, number) in [("0", 0), ("17", 17), ("0x1f", 31), ("0X10", 16), ("017", 15)] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["", "+1", "-1", "0x", "08", "1k", " 1", "18446744073709551616"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn digits_are_grouped_in_threes() {
        let texts = ["0", "999", "1,000", "1,234,567"];
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), texts);
        assert_eq!((fixed(-1234.56, 1), fixed(999.96, 0)), ("-1,234.6".into(), "1,000".into()));
    }

    #[test]
    fn significant_digits_are_kept_and_trailing_zeros_are_not() {
        let values = [0.0, 0.025, 1.5, 9.996, 98.76, 999.6, 1234.5, -5.004, 1e-9];
        let texts = ["0", "0.025", "1.5", "10", "98.8", "1,000", "1,234", "-5", "0"];
        assert_eq!(values.map(|value| significant(value, 3)), texts);
        assert_eq!([98.76, 262.14].map(|value| significant(value, 4)), ["98.76", "262.1"]);
        assert_eq!((significant(-1e-9, 3), significant(f64::NAN, 3)), ("0".into(), "NaN".into()));
    }

    #[test]
    fn things_have_a_plural() {
        assert_eq!([1u32, 2, 1000].map(|n| count(n, "pair")), ["1 pair", "2 pairs", "1,000 pairs"]);
    }
}
