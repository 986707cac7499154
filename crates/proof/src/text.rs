//! Numbers and tables for people.

use std::time::Duration;

use fulmar_lnet_wire::socklnd::ConnKind;

/// Rows of text whose columns line up: the first to the left, the others to the right or, where
/// the heading says so by a leading `<`, to the left too.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    left: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        let left = headings.iter().enumerate().map(|(at, text)| at == 0 || text.starts_with('<'));
        let texts = headings.iter().map(|text| text.trim_start_matches('<').to_owned());
        Self { left: left.collect(), rows: vec![texts.collect()] }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has not as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.left.len(), "a cell for each heading");
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..self.left.len()).filter_map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&self.left).zip(&widths);
            let cells = cells.map(|((cell, left), width)| match left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            writeln!(f, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
            if number == 0 {
                let lines = widths.iter().map(|width| "-".repeat(*width));
                writeln!(f, "  {}", lines.collect::<Vec<_>>().join("  "))?;
            }
        }
        Ok(())
    }
}

/// Returns a duration with three digits that mean something, at most.
pub(crate) fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        ..10.0 => format!("{micros:.1} us"),
        ..1e3 => format!("{micros:.0} us"),
        ..1e4 => format!("{:.2} ms", micros / 1e3),
        ..1e6 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// Returns a number of bytes in the decimal unit that suits it.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Returns a number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns what a connection carries, as seen from this side.
pub(crate) fn kind(kind: ConnKind) -> &'static str {
    match kind {
        ConnKind::ANY => "any",
        ConnKind::CONTROL => "control",
        ConnKind::BULK_IN => "bulk in",
        ConnKind::BULK_OUT => "bulk out",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_under_their_headings() {
        let mut table = Table::new(&["work", "MB/s", "<kind"]);
        table.row(["PUT".into(), "1,234".into(), "bulk".into()]);
        table.row(["8-byte PUT".into(), "7".into(), "any".into()]);
        let expected = "  work         MB/s  kind
  ----------  -----  ----
  PUT         1,234  bulk
  8-byte PUT      7  any
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn numbers_are_short_enough_to_read() {
        assert_eq!(duration(Duration::from_nanos(8_260)), "8.3 us");
        assert_eq!(duration(Duration::from_nanos(82_600)), "83 us");
        assert_eq!(duration(Duration::from_micros(8_260)), "8.26 ms");
        assert_eq!(duration(Duration::from_millis(82)), "82 ms");
        assert_eq!(duration(Duration::from_millis(8_260)), "8.3 s");
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([999, 1_048_576, 3_000_000_000].map(bytes), ["999 B", "1.0 MB", "3.0 GB"]);
    }
}
