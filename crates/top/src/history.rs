//! The last values of a quantity.

use std::collections::VecDeque;

/// The most values that are kept of a quantity: ten minutes, if there is one every two seconds.
pub const POINTS_MAX: usize = 300;

/// Values with their times, in milliseconds since 1970 by the clock of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(VecDeque<(u64, f64)>);

impl Series {
    /// Adds a value. If the clock of the node was set back, what was later is forgotten.
    pub(crate) fn add(&mut self, at_ms: u64, value: f64) {
        while self.0.back().is_some_and(|(at, _)| *at >= at_ms) {
            self.0.pop_back();
        }
        if self.0.len() == POINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((at_ms, value));
    }

    /// Returns the values in the order of their times.
    pub(crate) fn points(&self) -> Vec<(u64, f64)> {
        self.0.iter().copied().collect()
    }

    /// Returns the value at a time.
    pub(crate) fn at(&self, at_ms: u64) -> Option<f64> {
        self.0.back().filter(|(at, _)| *at == at_ms).map(|(_, value)| *value)
    }

    /// Returns the largest value.
    pub(crate) fn largest(&self) -> f64 {
        self.0.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_values_are_kept() {
        let mut series = Series::default();
        for at in 0..POINTS_MAX as u64 + 5 {
            series.add(at, at as f64);
        }
        let points = series.points();
        assert_eq!((points.len(), points[0]), (POINTS_MAX, (5, 5.0)));
        assert_eq!((series.at(304), series.at(303), series.largest()), (Some(304.0), None, 304.0));
    }

    #[test]
    fn a_clock_that_was_set_back_begins_again_there() {
        let mut series = Series::default();
        for at in [1, 5, 9, 5] {
            series.add(at, at as f64);
        }
        assert_eq!(series.points(), [(1, 1.0), (5, 5.0)]);
    }
}
