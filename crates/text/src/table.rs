//! Tables: plain text with aligned columns, and Markdown.

use std::fmt;

use comfy_table::{CellAlignment, ColumnConstraint, Table as Grid, Width, presets};

/// Spaces between the columns of plain text.
const GAP: u16 = 2;

/// Shown where there is no value.
pub const UNKNOWN: &str = "-";

/// A column of a table: its heading and its alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    heading: String,
    is_right: bool,
    width_min: u16,
}

/// Returns a column whose cells are aligned to the left, as words are.
pub fn left(heading: impl Into<String>) -> Column {
    Column { heading: heading.into(), is_right: false, width_min: 0 }
}

/// Returns a column whose cells are aligned to the right, as numbers are.
pub fn right(heading: impl Into<String>) -> Column {
    Column { is_right: true, ..left(heading) }
}

impl Column {
    /// Keeps the column at least so many characters wide, so that a table that is shown repeatedly
    /// keeps its layout.
    #[must_use]
    pub fn at_least(self, width: u16) -> Self {
        Self { width_min: width, ..self }
    }
}

/// Rows of text in columns. `Display` writes plain text with two spaces between the columns; each
/// row ends with a newline.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows. If no column has a heading, the line of headings is omitted.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If there are not as many cells as columns.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Returns the table in Markdown.
    pub fn markdown(&self) -> String {
        let escaped = |cell: &String| cell.replace('|', "\\|");
        let rows = self.rows.iter().map(|row| row.iter().map(escaped).collect());
        let mut grid = self.grid(rows.collect());
        grid.load_style(presets::ASCII_MARKDOWN);
        // The preset writes a line below the headings that does not mark alignment.
        let widths = grid.column_max_content_widths();
        let rules = self.columns.iter().zip(widths).map(|(column, width)| {
            if column.is_right {
                format!("{}:", "-".repeat(usize::from(width) + 1))
            } else {
                "-".repeat(usize::from(width) + 2)
            }
        });
        let rules = format!("|{}|", rules.collect::<Vec<_>>().join("|"));
        let lines = grid.lines().enumerate();
        lines.map(|(at, line)| if at == 1 { rules.clone() } else { line } + "\n").collect()
    }

    fn grid(&self, rows: Vec<Vec<String>>) -> Grid {
        let mut grid = Grid::new();
        grid.set_header(self.columns.iter().map(|column| column.heading.as_str()));
        grid.add_rows(rows);
        for (column, shown) in self.columns.iter().zip(grid.column_iter_mut()) {
            if column.is_right {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        grid
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut grid = self.grid(self.rows.clone());
        grid.load_style(presets::NOTHING);
        let last = self.columns.len().saturating_sub(1);
        for (at, (column, shown)) in self.columns.iter().zip(grid.column_iter_mut()).enumerate() {
            let gap = if at == last { 0 } else { GAP };
            shown.set_padding((0, gap));
            if column.width_min > 0 {
                let width = Width::Fixed(column.width_min + gap);
                shown.set_constraint(ColumnConstraint::LowerBoundary(width));
            }
        }
        let has_headings = self.columns.iter().any(|column| !column.heading.is_empty());
        for line in grid.lines().skip(if has_headings { 0 } else { 1 }) {
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Returns the text of a value, or [`UNKNOWN`] where there is none.
pub fn or_unknown<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([left("node"), right("latency"), left("role")]);
        table.row(["10.0.0.1@tcp", "8.3 µs", "client | server"]);
        table.row(["total", "-", ""]);
        table
    }

    #[test]
    fn columns_are_aligned_with_their_headings() {
        let expected = "\
node          latency  role
10.0.0.1@tcp   8.3 µs  client | server
total               -
";
        assert_eq!(sample().to_string(), expected);
    }

    #[test]
    fn a_column_keeps_its_minimum_width() {
        let mut table = Table::new([left("kind").at_least(6), right("rate").at_least(6)]);
        table.row(["out", "1"]);
        assert_eq!(table.to_string(), "kind      rate\nout          1\n");
    }

    #[test]
    fn a_table_without_headings_has_only_its_rows() {
        let mut table = Table::new([left(""), left("")]);
        table.row(["memory", "1 GiB"]);
        table.row(["connections", "3"]);
        assert_eq!(table.to_string(), "memory       1 GiB\nconnections  3\n");
    }

    #[test]
    fn long_rows_are_not_wrapped() {
        let mut table = Table::new([left("text")]);
        table.row(["word ".repeat(100).trim_end()]);
        assert_eq!(table.to_string().lines().count(), 2);
    }

    #[test]
    fn markdown_marks_the_alignment_and_escapes_bars() {
        let expected = "\
| node         | latency | role             |
|--------------|--------:|------------------|
| 10.0.0.1@tcp |  8.3 µs | client \\| server |
| total        |       - |                  |
";
        assert_eq!(sample().markdown(), expected);
    }

    #[test]
    fn a_missing_value_is_a_dash() {
        assert_eq!(or_unknown(Some(3), |n| n.to_string()), "3");
        assert_eq!(or_unknown(None::<u32>, |n| n.to_string()), UNKNOWN);
    }
}
