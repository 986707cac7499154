//! Formats values at axes and in cells.

use super::model::Unit;

/// Returns a value with three significant digits and its unit. A minus sign is as wide as a plus.
pub(crate) fn format_value(value: f64, unit: Unit) -> String {
    let plain = |value| fulmar_text::significant(value, 3).replace('-', "–");
    match unit {
        Unit::Plain => plain(value),
        // One decimal is precise enough for a picture.
        Unit::Percent => format!("{} %", plain((value * 1000.0).round() / 10.0)),
        Unit::Bytes => fulmar_text::bytes(value.max(0.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits_and_a_unit() {
        let all = [0.0, 0.25, 1.5, 12.0, 99.94, 1000.0, 1_234_567.8, -5.0];
        let all = all.map(|value| format_value(value, Unit::Plain));
        assert_eq!(all, ["0", "0.25", "1.5", "12", "99.9", "1,000", "1,234,568", "–5"]);
        let all = [512.0, 4096.0, 1_572_864.0].map(|value| format_value(value, Unit::Bytes));
        assert_eq!(all, ["512 B", "4 KiB", "1.5 MiB"]);
        let all = [0.955, 0.00781, 1.0].map(|value| format_value(value, Unit::Percent));
        assert_eq!(all, ["95.5 %", "0.8 %", "100 %"]);
    }
}
