//! Mean and spread of repeats.

use serde::Serialize;

/// Mean and spread of several measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) mean: f64,
    /// Standard deviation of the sample; `None` for a single value.
    pub(super) standard_deviation: Option<f64>,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Summary {
    /// Returns the summary of `values`; `None` if empty.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let (first, count) = (*values.first()?, values.len() as f64);
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            standard_deviation: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            min: values.iter().copied().fold(first, f64::min),
            max: values.iter().copied().fold(first, f64::max),
        })
    }
}

/// Returns the median of `values`; for an even count the mean of the middle two.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values[values.len() / 2]);
    Some(f64::midpoint(*low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_that_of_a_sample() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((summary.mean, summary.min, summary.max), (5.0, 2.0, 9.0));
        let deviation = summary.standard_deviation.unwrap();
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[3.0]).unwrap().standard_deviation, None);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }
}
