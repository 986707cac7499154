//! What is shown, as text: for a terminal, a file and a browser.

use fulmar_text::{Table as Grid, left, right};
use serde::Serialize;

/// Everything that is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// A row for each node.
    pub overview: Table,
    /// Each node.
    pub nodes: Vec<NodeView>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct NodeView {
    /// Its first NID, or where it is asked if it has not answered.
    pub name: String,
    pub state: State,
    /// Its clock when it last answered: milliseconds since 1970, and as text.
    pub at_ms: u64,
    pub at: String,
    /// What is wrong, the worst first.
    pub troubles: Vec<(Mark, String)>,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
}

/// Whether a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has not answered yet.
    Waiting,
    /// It answers.
    Up,
    /// It says that it has failed.
    Failed,
    /// It does not answer now.
    Silent,
}

/// How something is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// It does not work.
    Bad,
    /// It works, but not as it could.
    Warn,
    /// It works.
    Plain,
}

/// A quantity with its last values.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Figure {
    pub name: &'static str,
    pub help: &'static str,
    /// The value at the last sample with its unit; `-` if it is not known.
    pub now: String,
    /// The largest of the last values.
    pub most: String,
    /// Milliseconds since 1970, and values, for a picture.
    pub points: Vec<(u64, f64)>,
}

/// Rows of text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Table {
    pub title: &'static str,
    pub columns: Vec<Heading>,
    pub rows: Vec<Row>,
    /// What else is to be said of it.
    pub note: Option<String>,
}

/// The heading of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Heading {
    pub name: &'static str,
    /// Whether its cells are numbers, which are aligned to the right.
    pub is_number: bool,
}

/// A row with a cell for each column.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Row {
    pub mark: Mark,
    pub cells: Vec<String>,
}

impl Table {
    /// Returns a table without rows. A `>` before the name of a column says that it has numbers.
    pub(crate) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        let heading = |name: &&'static str| match name.strip_prefix('>') {
            Some(name) => Heading { name, is_number: true },
            None => Heading { name, is_number: false },
        };
        let columns = columns.iter().map(heading).collect();
        Self { title, columns, rows: Vec::new(), note: None }
    }

    /// Returns the headings and then each row as a line of plain text.
    pub fn lines(&self) -> Vec<String> {
        let column = |heading: &Heading| {
            if heading.is_number { right(heading.name) } else { left(heading.name) }
        };
        let mut grid = Grid::new(self.columns.iter().map(column));
        for row in &self.rows {
            grid.row(&row.cells);
        }
        grid.to_string().lines().map(str::to_owned).collect()
    }
}

impl NodeView {
    /// Returns everything as plain text.
    pub fn text(&self) -> String {
        let state = match self.state {
            State::Waiting => "no answer yet",
            State::Up => "up",
            State::Failed => "FAILED",
            State::Silent => "NO ANSWER",
        };
        let mut out = format!("=== {}  {}  {state}\n", self.name, self.at);
        for (mark, text) in &self.troubles {
            out += if *mark == Mark::Bad { "!! " } else { "!  " };
            out += text;
            out.push('\n');
        }
        let mut figures = Grid::new([left(""), right("now"), right("most")]);
        for figure in &self.figures {
            figures.row([figure.name, &figure.now, &figure.most]);
        }
        if !self.figures.is_empty() {
            out += &format!("\n{figures}");
        }
        for table in &self.tables {
            out += &table.text();
        }
        out
    }
}

impl Table {
    /// Returns its title, its lines and its note as plain text.
    pub fn text(&self) -> String {
        let mut out = format!("\n{}\n", self.title.to_uppercase());
        for line in self.lines().iter().chain(&self.note) {
            out.push_str(line);
            out.push('\n');
        }
        out
    }
}

impl View {
    /// Returns everything as plain text: the nodes in a table if there are several, then each.
    pub fn text(&self) -> String {
        let overview =
            (self.nodes.len() > 1).then(|| self.overview.text().trim_start().to_owned() + "\n");
        let nodes = self.nodes.iter().map(NodeView::text).collect::<Vec<_>>().join("\n");
        overview.unwrap_or_default() + &nodes
    }
}

/// Returns the time of the day of a time since 1970: `07:14:59 UTC`.
pub fn time_of_day(at_ms: u64) -> String {
    let seconds = at_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
