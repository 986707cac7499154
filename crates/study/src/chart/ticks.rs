//! The ticks of an axis.

use super::model::{Axis, Scale, Unit};
use super::number::format_value;

/// An axis with known ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    scale: Scale,
    unit: Unit,
    least: f64,
    greatest: f64,
}

/// A tick: its text, and its position from 0, the start of the axis, to 1, its end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) part: f64,
    pub(crate) text: String,
}

impl Span {
    /// Returns the span of an axis for these values.
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let (scale, unit) = (axis.scale, axis.unit);
        let shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let both = |ends: Option<(f64, f64)>, value: f64| {
            let (least, greatest) = ends.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        };
        let needed = values.filter(shown).fold(None, both).unwrap_or((1.0, 2.0));
        let (least, greatest) = match (axis.range, scale) {
            (Some(range), _) => range,
            (None, Scale::Linear) => linear_ends(needed, unit),
            (None, Scale::Log2 | Scale::Log10) => needed,
        };
        // An axis must not be empty.
        let greatest = if greatest > least { greatest } else { least + least.abs().max(1.0) };
        let least = if scale != Scale::Linear && least <= 0.0 { greatest / 1024.0 } else { least };
        Self { scale, unit, least, greatest }
    }

    /// Returns the position of a value, unless it cannot be shown.
    pub(crate) fn part(&self, value: f64) -> Option<f64> {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log2 | Scale::Log10 => value.log2(),
        };
        let (least, greatest) = (along(self.least), along(self.greatest));
        let part = (along(value) - least) / (greatest - least);
        let near = part.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&part);
        near.then(|| part.clamp(0.0, 1.0))
    }

    /// Returns at most about `most` ticks.
    pub(crate) fn ticks(&self, most: usize) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Linear => self.linear(most),
            Scale::Log2 => self.powers(2.0, most),
            Scale::Log10 => self.powers(10.0, most),
        };
        let tick = |value: f64| {
            Some(Tick { part: self.part(value)?, text: format_value(value, self.unit) })
        };
        values.into_iter().filter_map(tick).collect()
    }

    fn linear(&self, most: usize) -> Vec<f64> {
        let step = step((self.greatest - self.least) / most.max(1) as f64, self.unit);
        let first = (self.least / step - 1e-9).ceil() as i64;
        let last = (self.greatest / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn powers(&self, base: f64, most: usize) -> Vec<f64> {
        let power = |value: f64| value.log2() / base.log2();
        let first = (power(self.least) - 1e-9).ceil() as i32;
        let last = (power(self.greatest) + 1e-9).floor() as i32;
        let every = ((last - first).max(0) as usize + 1).div_ceil(most.max(1)).max(1);
        let powers = (first..=last).step_by(every).map(|n| base.powi(n)).collect::<Vec<_>>();
        let few = base > 2.0 && powers.len() < 3 && most > 4;
        if !few {
            return powers;
        }
        let decades = (first - 1)..=last;
        let all = decades.flat_map(|n| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(n)));
        all.filter(|value| (self.least..=self.greatest).contains(value)).collect()
    }
}

/// Returns the ends of a linear axis: it includes 0, and ends at a tick.
fn linear_ends((least, greatest): (f64, f64), unit: Unit) -> (f64, f64) {
    let (least, greatest) = (least.min(0.0), greatest.max(0.0));
    let step = step((greatest - least) / 6.0, unit);
    ((least / step).floor() * step, (greatest / step - 1e-9).ceil() * step)
}

/// Returns the next greater of 1, 2, 5, 10 and so on; for bytes, of powers of two.
fn step(at_least: f64, unit: Unit) -> f64 {
    if at_least <= 0.0 || !at_least.is_finite() {
        return 1.0;
    }
    if unit == Unit::Bytes {
        return at_least.log2().ceil().exp2();
    }
    let decade = 10_f64.powf(at_least.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|d| d * decade >= at_least * 0.999_999);
    digit.unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale, values: [f64; 2], most: usize) -> Vec<String> {
        let span = Span::new(&Axis::new("", scale), values.into_iter());
        span.ticks(most).into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(Scale::Linear, [0.3, 9.7], 6), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(Scale::Log2, [1.0, 16.0], 9), ["1", "2", "4", "8", "16"]);
        assert_eq!(texts(Scale::Log2, [1.0, 256.0], 5), ["1", "4", "16", "64", "256"]);
        assert_eq!(texts(Scale::Log10, [1.0, 1000.0], 6), ["1", "10", "100", "1,000"]);
        assert_eq!(texts(Scale::Log10, [20.0, 300.0], 6), ["20", "50", "100", "200"]);
    }

    #[test]
    fn values_that_cannot_be_shown_have_no_position() {
        let span = Span::new(&Axis::new("", Scale::Log2), [0.0, 1.0, 4.0].into_iter());
        assert_eq!(span.part(2.0), Some(0.5));
        assert_eq!([span.part(0.0), span.part(f64::NAN), span.part(8.0)], [None; 3]);
        let nothing = Span::new(&Axis::default(), std::iter::empty());
        assert!(nothing.part(1.0).is_some());
        let one = Span::new(&Axis::new("", Scale::Log2), std::iter::once(5.0));
        assert_eq!(one.part(5.0), Some(0.0));
    }
}
