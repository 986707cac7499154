//! The contents of figures.

/// Curves over two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The conditions; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub series: Vec<Series>,
    /// Lines of text below the figure.
    pub notes: Vec<String>,
}

/// An axis of a [`Chart`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// The scale.
    pub scale: Scale,
    /// The format of values.
    pub unit: Unit,
    /// The least and the greatest value; `None` to fit the curves, where a linear axis starts at 0.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// Returns an axis of plain numbers that fits the values.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ..Self::default() }
    }

    /// Sets the format of values.
    pub fn in_unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Sets fixed ends.
    pub fn between(self, least: f64, greatest: f64) -> Self {
        Self { range: Some((least, greatest)), ..self }
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic to base 2. Only values above 0 are shown.
    Log2,
    /// Logarithmic to base 10. Only values above 0 are shown.
    Log10,
}

/// The format of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Numbers.
    #[default]
    Plain,
    /// Bytes, in KiB, MiB and so on.
    Bytes,
    /// Fractions as per cent: 0.5 is 50 %.
    Percent,
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The style.
    pub style: Style,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The style of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The number of the colour and of the mark; higher numbers repeat the palette.
    pub colour: usize,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// Whether the points have no marks, as for a formula.
    pub bare: bool,
}

/// A heat map: a coloured cell for each pair of a column and a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The title.
    pub title: String,
    /// The conditions; may be empty.
    pub subtitle: String,
    /// The label of the columns.
    pub x_label: String,
    /// The names of the columns, from left to right.
    pub columns: Vec<String>,
    /// The label of the rows.
    pub y_label: String,
    /// The names of the rows, from the bottom up.
    pub rows: Vec<String>,
    /// The label of the colour scale.
    pub value_label: String,
    /// The format of values.
    pub unit: Unit,
    /// The values of the darkest and the lightest colour.
    pub range: (f64, f64),
    /// The values: `cells[row][column]`. Missing cells stay white.
    pub cells: Vec<Vec<Option<f64>>>,
    /// Lines of text below the figure.
    pub notes: Vec<String>,
}

/// A bar chart with groups of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The title.
    pub title: String,
    /// The conditions; may be empty.
    pub subtitle: String,
    /// The quantity, with its unit.
    pub label: String,
    /// The format of values.
    pub unit: Unit,
    /// The names of the bars of each group, for the legend.
    pub names: Vec<String>,
    /// The groups, from left to right.
    pub groups: Vec<Bar>,
    /// A named reference value, drawn as a dashed line.
    pub baseline: Option<(String, f64)>,
    /// Lines of text below the figure.
    pub notes: Vec<String>,
}

/// A group of [`Bars`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// The text below it.
    pub name: String,
    /// A value for each bar; a missing value leaves a gap.
    pub values: Vec<Option<f64>>,
}
