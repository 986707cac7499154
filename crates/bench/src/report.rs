//! What was measured, as a table and as JSON.

use std::fmt::Write;

use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// `family.case.what`.
    pub(crate) name: &'static str,
    /// What was measured.
    pub(crate) value: f64,
    /// What it counts.
    pub(crate) unit: &'static str,
    /// The yardstick of the same run, in the unit that it has by itself.
    pub(crate) baseline: Option<f64>,
    /// What the value must reach, if anything.
    pub(crate) bar: Option<Bar>,
    /// Whether it does.
    pub(crate) holds: Option<bool>,
}

/// A bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    /// Returns a figure that is only told.
    pub(crate) fn plain(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, value, unit, baseline: None, bar: None, holds: None }
    }

    /// Names the yardstick.
    pub(crate) fn beside(self, baseline: f64) -> Self {
        Self { baseline: Some(baseline), ..self }
    }

    /// Holds the value to a bar.
    pub(crate) fn held_to(self, bar: Bar) -> Self {
        let holds = match bar {
            Bar::AtLeast(least) => self.value >= least,
            Bar::AtMost(most) => self.value <= most,
        };
        Self { bar: Some(bar), holds: Some(holds), ..self }
    }
}

impl Bar {
    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
        }
    }
}

impl Serialize for Bar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

/// Returns the figures as a table for people.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut rows = vec![["name", "value", "unit", "baseline", "bar", "holds"].map(String::from)];
    rows.extend(figures.iter().map(|figure| {
        let holds = figure.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
        [
            figure.name.into(),
            number(figure.value),
            figure.unit.into(),
            figure.baseline.map(number).unwrap_or_default(),
            figure.bar.map(Bar::text).unwrap_or_default(),
            holds.into(),
        ]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let [name, value, unit, baseline, bar, holds] = row;
        let [w0, w1, w2, w3, w4, _] = widths;
        let line =
            format!("{name:w0$}  {value:>w1$}  {unit:w2$}  {baseline:>w3$}  {bar:w4$}  {holds}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Four significant digits, as far as people care.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_held_both_ways_and_written_down() {
        let low = Figure::plain("a.b", 0.89, "ratio").beside(24.5).held_to(Bar::AtLeast(0.9));
        let high = Figure::plain("a.c", 1.1, "ratio").held_to(Bar::AtMost(1.2));
        assert_eq!((low.holds, high.holds), (Some(false), Some(true)));
        let json = serde_json::to_value(&low).unwrap();
        let expected = serde_json::json!({
            "name": "a.b", "value": 0.89, "unit": "ratio",
            "baseline": 24.5, "bar": ">= 0.9", "holds": false,
        });
        assert_eq!(json, expected);
        assert_eq!(
            table(&[low, high]),
            "name  value  unit   baseline  bar     holds\n\
             a.b   0.890  ratio      24.5  >= 0.9  NO\n\
             a.c   1.100  ratio            <= 1.2  yes\n"
        );
    }
}
