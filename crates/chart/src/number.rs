//! How values are written.

use crate::model::Unit;

/// Returns a value as people write it.
pub(crate) fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Plain => plain(value),
        // Nobody reads more of a part than its thousandths.
        Unit::Percent => format!("{} %", plain((value * 1000.0).round() / 10.0)),
        Unit::Bytes => bytes(value),
    }
}

/// Whole numbers in groups of three digits; others with three digits that count.
fn plain(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 100.0 || size == 0.0 => 0,
        _ => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let part = part.trim_end_matches('0');
    let dot = if part.is_empty() { "" } else { "." };
    format!("{}{dot}{part}", grouped(whole))
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("–", rest),
        None => ("", digits),
    };
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

fn bytes(value: f64) -> String {
    let names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut name) = (value, 0);
    while value.abs() >= 1024.0 && name + 1 < names.len() {
        (value, name) = (value / 1024.0, name + 1);
    }
    format!("{} {}", plain(value), names[name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_people_write_them() {
        let all = [0.0, 0.25, 1.5, 12.0, 99.94, 1000.0, 1_234_567.8, -5.0];
        let all = all.map(|value| written(value, Unit::Plain));
        assert_eq!(all, ["0", "0.25", "1.5", "12", "99.9", "1,000", "1,234,568", "–5"]);
        let all = [512.0, 4096.0, 1_572_864.0].map(|value| written(value, Unit::Bytes));
        assert_eq!(all, ["512 B", "4 KiB", "1.5 MiB"]);
        let all = [0.955, 0.00781, 1.0].map(|value| written(value, Unit::Percent));
        assert_eq!(all, ["95.5 %", "0.8 %", "100 %"]);
    }
}
