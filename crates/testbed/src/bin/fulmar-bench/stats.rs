//! Repeats, their medians and spreads.

/// The values of repeated trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    /// # Panics
    /// If there are no values.
    pub(crate) fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        assert!(!values.is_empty(), "a series has a value");
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// Returns the median; for an even count the mean of the middle two values.
    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len().is_multiple_of(2) {
            f64::midpoint(self.0[middle - 1], self.0[middle])
        } else {
            self.0[middle]
        }
    }

    /// Returns the difference of the highest and the lowest value, as a share of the median.
    pub(crate) fn spread(&self) -> f64 {
        let (low, high) = (self.0[0], self.0[self.0.len() - 1]);
        let median = self.median();
        if high == low { 0.0 } else { ((high - low) / median).abs() }
    }
}

/// Runs `ours` and `baseline` alternately, so that other load of the machine affects both.
pub(crate) fn interleave<A, B, E>(
    repeats: usize,
    mut ours: impl FnMut() -> Result<A, E>,
    mut baseline: impl FnMut() -> Result<B, E>,
) -> Result<(Vec<A>, Vec<B>), E> {
    let (mut a, mut b) = (vec![], vec![]);
    for _ in 0..repeats {
        a.push(ours()?);
        b.push(baseline()?);
    }
    Ok((a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(Series::new([9.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Series::new([9.0, 1.0, 2.0, 4.0]).median(), 3.0);
    }

    #[test]
    fn spread_is_a_share_of_the_median() {
        assert_eq!(Series::new([9.0, 10.0, 12.0]).spread(), 0.3);
        assert_eq!(Series::new([7.0]).spread(), 0.0);
        assert_eq!(Series::new([0.0, 0.0]).spread(), 0.0);
    }

    #[test]
    fn repeats_alternate() {
        let log = std::cell::RefCell::new(String::new());
        let note = |c| {
            log.borrow_mut().push(c);
            Ok::<(), ()>(())
        };
        interleave(3, || note('a'), || note('b')).unwrap();
        assert_eq!(log.into_inner(), "ababab");
    }
}
