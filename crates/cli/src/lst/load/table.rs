//! Tables and numbers for people.

use std::fmt;

/// Rows of text whose columns line up: the first to the left, the others to the right or, where
/// the heading says so by a leading `<`, to the left too.
#[derive(Clone, Debug)]
pub(super) struct Table {
    left: Vec<bool>,
    rows: Vec<Vec<String>>,
}

/// What stands where nothing is known.
pub(super) const UNKNOWN: &str = "-";

impl Table {
    pub(super) fn new<T: AsRef<str>>(headings: &[T]) -> Self {
        let headings = headings.iter().map(AsRef::as_ref);
        let left = headings.clone().enumerate().map(|(at, text)| at == 0 || text.starts_with('<'));
        let texts = headings.clone().map(|text| text.trim_start_matches('<').to_owned());
        Self { left: left.collect(), rows: vec![texts.collect()] }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If it has not as many cells as there are headings.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.left.len(), "a cell for each heading");
        self.rows.push(cells);
    }

    /// Returns the table in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
            if number == 0 {
                let rules = self.left.iter().map(|left| if *left { "---" } else { "---:" });
                text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
            }
        }
        text
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..self.left.len()).filter_map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&self.left).zip(&widths);
            let cells = cells.map(|((cell, left), width)| match left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Returns a number as it stands in a table, or a dash.
pub(super) fn cell<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

/// Returns a rate with as many digits as mean something.
pub(super) fn rate(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..1000.0 => format!("{value:.1}"),
        _ => grouped(value.round() as u64),
    }
}

/// Returns nanoseconds with three digits that mean something, at most.
pub(super) fn duration(ns: u64) -> String {
    let micros = ns as f64 / 1e3;
    match micros {
        ..9.95 => format!("{micros:.1} µs"),
        ..999.5 => format!("{micros:.0} µs"),
        ..9_995.0 => format!("{:.2} ms", micros / 1e3),
        ..99_950.0 => format!("{:.1} ms", micros / 1e3),
        ..999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

/// Returns a number of bytes in the binary unit that suits it.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes as f64 / 1024.0 {
        ..1.0 => format!("{bytes} B"),
        kib @ ..1024.0 => format!("{kib:.1} KiB"),
        kib => format!("{:.1} MiB", kib / 1024.0),
    }
}

/// Returns a number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_under_their_headings() {
        let mut table = Table::new(&["node", "latency", "<role"]);
        table.row(["10.0.0.1@tcp", "8.3 µs", "client"].map(String::from));
        table.row(["total", "-", ""].map(String::from));
        let expected = "\
node          latency  role
10.0.0.1@tcp   8.3 µs  client
total               -
";
        assert_eq!(table.to_string(), expected);
        assert!(table.markdown().starts_with("| node | latency | role |\n| --- | ---: | --- |\n"));
    }

    #[test]
    fn numbers_are_short_enough_to_read() {
        let durations = [8_260, 82_600, 999_700, 8_260_000, 82_600_000, 8_260_000_000];
        let texts = ["8.3 µs", "83 µs", "1.00 ms", "8.26 ms", "82.6 ms", "8.3 s"];
        assert_eq!(durations.map(duration), texts);
        assert_eq!([0.0, 9.876, 98.76, 1234.5].map(rate), ["0.00", "9.88", "98.8", "1,235"]);
        assert_eq!([999, 1536, 5 << 20].map(bytes), ["999 B", "1.5 KiB", "5.0 MiB"]);
        assert_eq!(cell(None, rate), "-");
    }
}
