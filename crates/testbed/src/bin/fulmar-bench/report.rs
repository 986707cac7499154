//! Output of figures, as a table and as JSON.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use fulmar_text::{Table, left, right, significant};
use serde::Serialize;
use serde_json::Value;

use crate::Failure;
use crate::stats::Series;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// `family.case.what`.
    pub(crate) name: Cow<'static, str>,
    /// The measured value.
    pub(crate) value: f64,
    /// The unit.
    pub(crate) unit: &'static str,
    /// The baseline of the same run, in its own unit.
    pub(crate) baseline: Option<f64>,
    /// The spread of the repeats behind the figure, or of those of the baseline, as a share of
    /// their median.
    pub(crate) spread: f64,
    /// The bound that the value must keep, if any.
    pub(crate) bar: Option<Bar>,
    /// Whether it keeps the bound.
    pub(crate) holds: Option<bool>,
}

/// A bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    /// Returns a figure without a baseline and without a bound.
    pub(crate) fn plain(
        name: impl Into<Cow<'static, str>>,
        value: f64,
        unit: &'static str,
    ) -> Self {
        let name = name.into();
        Self { name, value, unit, baseline: None, spread: 0.0, bar: None, holds: None }
    }

    /// Returns the median of repeats.
    pub(crate) fn median(
        name: impl Into<Cow<'static, str>>,
        of: &Series,
        unit: &'static str,
    ) -> Self {
        Self::plain(name, of.median(), unit).spreads_as(of)
    }

    /// Returns the ratio of two medians, beside the second.
    pub(crate) fn ratio(
        name: impl Into<Cow<'static, str>>,
        ours: &Series,
        baseline: &Series,
    ) -> Self {
        let ratio = ours.median() / baseline.median();
        Self::plain(name, ratio, "ratio").spreads_as(ours).beside_median(baseline)
    }

    /// Sets the baseline.
    pub(crate) fn beside(self, baseline: f64) -> Self {
        Self { baseline: Some(baseline), ..self }
    }

    /// Sets the baseline to the median of repeats.
    pub(crate) fn beside_median(self, baseline: &Series) -> Self {
        self.beside(baseline.median()).spreads_as(baseline)
    }

    /// Adds the spread of these repeats.
    pub(crate) fn spreads_as(self, of: &Series) -> Self {
        Self { spread: self.spread.max(of.spread()), ..self }
    }

    /// Sets the bound of the value.
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

/// Writes figures to a results file. Other figures in the file are kept.
pub(crate) fn record(results: &Path, figures: &[Figure]) -> Result<(), Failure> {
    let known = fs::read_to_string(results).unwrap_or_default();
    let mut all: Vec<Value> = serde_json::from_str(&known).unwrap_or_default();
    for figure in figures {
        let value = serde_json::to_value(figure).expect("a figure is plain");
        match all.iter_mut().find(|known| known["name"] == *figure.name) {
            Some(known) => *known = value,
            None => all.push(value),
        }
    }
    let text = serde_json::to_string_pretty(&all).expect("figures are plain");
    if let Some(directory) = results.parent() {
        fs::create_dir_all(directory).map_err(Failure::io("create the directory of results"))?;
    }
    fs::write(results, text + "\n").map_err(Failure::io(format!("write {}", results.display())))
}

/// Returns the figures as a table for people.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut table = Table::new([
        left("name"),
        right("value"),
        left("unit"),
        right("baseline"),
        right("spread"),
        left("bar"),
        left("holds"),
    ]);
    for figure in figures {
        let holds = figure.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
        table.row([
            figure.name.to_string(),
            number(figure.value),
            figure.unit.to_owned(),
            figure.baseline.map(number).unwrap_or_default(),
            format!("{:.0} %", figure.spread * 100.0),
            figure.bar.map(Bar::text).unwrap_or_default(),
            holds.to_owned(),
        ]);
    }
    table.to_string()
}

fn number(value: f64) -> String {
    significant(value, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_checked_and_written() {
        let low = Figure::plain("a.b", 0.89, "ratio").beside(24.5).held_to(Bar::AtLeast(0.9));
        let high = Figure::plain("a.c", 1.1, "ratio").held_to(Bar::AtMost(1.2));
        assert_eq!((low.holds, high.holds), (Some(false), Some(true)));
        let json = serde_json::to_value(&low).unwrap();
        let expected = serde_json::json!({
            "name": "a.b", "value": 0.89, "unit": "ratio",
            "baseline": 24.5, "spread": 0.0, "bar": ">= 0.9", "holds": false,
        });
        assert_eq!(json, expected);
        assert_eq!(
            table(&[low, high]),
            "name  value  unit   baseline  spread  bar     holds\n\
             a.b    0.89  ratio      24.5     0 %  >= 0.9  NO\n\
             a.c     1.1  ratio               0 %  <= 1.2  yes\n"
        );
    }
}
