//! What there is to be seen.

/// Curves over two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows, in a few words.
    pub title: String,
    /// Under which conditions; may be empty.
    pub subtitle: String,
    /// From left to right.
    pub x: Axis,
    /// From the bottom up.
    pub y: Axis,
    /// The curves; the legend names them in this order.
    pub series: Vec<Series>,
    /// Lines of text below.
    pub notes: Vec<String>,
}

/// An axis of a [`Chart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// How values become lengths.
    pub scale: Scale,
    /// How values are written.
    pub unit: Unit,
    /// The least and the greatest value to be seen; without, what the curves need. A linear axis
    /// then begins at 0.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// Returns an axis of plain numbers that takes the room that the values need.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ..Self::default() }
    }

    /// Returns it with values written in another unit.
    pub fn in_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Returns it with fixed ends.
    pub fn between(self, least: f64, greatest: f64) -> Self {
        Self { range: Some((least, greatest)), ..self }
    }
}

/// How values become lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Each doubling is equally long. Only values above 0 are shown.
    Log2,
    /// Each factor of ten is equally long. Only values above 0 are shown.
    Log10,
}

/// How values are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// As numbers.
    #[default]
    Plain,
    /// As bytes, in KiB, MiB and so on.
    Bytes,
    /// As parts of a whole: 0.5 is 50 %.
    Percent,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Which colour of the palette, and which mark; numbers beyond the last begin anew.
    pub colour: usize,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// Whether the points have no marks: for a curve of a formula.
    pub bare: bool,
}

/// Cells whose colours are values: one for each pair of a column and a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// What it shows, in a few words.
    pub title: String,
    /// Under which conditions; may be empty.
    pub subtitle: String,
    /// What the columns are.
    pub x_label: String,
    /// Each column, from left to right.
    pub columns: Vec<String>,
    /// What the rows are.
    pub y_label: String,
    /// Each row, from the bottom up.
    pub rows: Vec<String>,
    /// What the colours are.
    pub value_label: String,
    /// How values are written.
    pub unit: Unit,
    /// The values of the darkest and the lightest colour.
    pub range: (f64, f64),
    /// The values: `cells[row][column]`. What is missing stays white.
    pub cells: Vec<Vec<Option<f64>>>,
    /// Lines of text below.
    pub notes: Vec<String>,
}

/// Bars beside each other, from 0 to their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// What they show, in a few words.
    pub title: String,
    /// Under which conditions; may be empty.
    pub subtitle: String,
    /// What is measured, with its unit.
    pub label: String,
    /// How values are written.
    pub unit: Unit,
    /// What the bars of each group are; the legend names them.
    pub names: Vec<String>,
    /// Groups of bars, from left to right.
    pub groups: Vec<Bar>,
    /// A value with a name to hold the bars against, drawn as a dashed line.
    pub yardstick: Option<(String, f64)>,
    /// Lines of text below.
    pub notes: Vec<String>,
}

/// A group of [`Bars`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// What is written under it.
    pub name: String,
    /// A value for each of the names; what is missing leaves a gap.
    pub values: Vec<Option<f64>>,
}
