//! Ranges of values on the command line: `1..64x2` multiplies, `8..20+6` adds.

/// A range, whose values are in the notation of their setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// The first value.
    pub low: &'a str,
    /// The last value, if the steps reach it.
    pub high: &'a str,
    /// How one value follows from another; `None` if the text does not say it.
    pub step: Option<Step<&'a str>>,
}

/// How one value follows from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// It is this many times as large.
    Times(T),
    /// It is larger by so much.
    Plus(T),
}

impl<'a> Range<'a> {
    /// Splits a text; `None` if it is a single value.
    pub fn split(text: &'a str) -> Option<Self> {
        let (low, rest) = text.split_once("..")?;
        let Some(at) = rest.find(['x', '+']) else {
            return Some(Self { low, high: rest, step: None });
        };
        let (high, by) = (&rest[..at], &rest[at + 1..]);
        let step = if rest[at..].starts_with('x') { Step::Times(by) } else { Step::Plus(by) };
        Some(Self { low, high, step: Some(step) })
    }
}

impl Step<u64> {
    /// Returns the values from `low` to `high`; only the first one if they would not grow.
    pub fn values(self, low: u64, high: u64) -> impl Iterator<Item = u64> {
        let next = move |value: &u64| {
            let next = match self {
                Self::Times(factor) => value.checked_mul(factor)?,
                Self::Plus(more) => value.checked_add(more)?,
            };
            (next > *value).then_some(next)
        };
        std::iter::successors(Some(low), next).take_while(move |value| *value <= high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_its_step() {
        let range = |low, high, step| Some(Range { low, high, step });
        assert_eq!(Range::split("4k..1Mx16"), range("4k", "1M", Some(Step::Times("16"))));
        assert_eq!(Range::split("8..20+6"), range("8", "20", Some(Step::Plus("6"))));
        assert_eq!(Range::split("1..4"), range("1", "4", None));
        assert_eq!(Range::split("1M"), None);
    }

    #[test]
    fn values_grow_up_to_the_last() {
        let values = |step: Step<u64>, low, high| step.values(low, high).collect::<Vec<_>>();
        assert_eq!(values(Step::Times(3), 5, 100), [5, 15, 45]);
        assert_eq!(values(Step::Plus(6), 8, 20), [8, 14, 20]);
        assert_eq!(values(Step::Times(1), 5, 100), [5]);
        assert_eq!(values(Step::Plus(0), 5, 100), [5]);
        assert_eq!(values(Step::Times(2), 1 << 63, u64::MAX), [1 << 63]);
        assert_eq!(values(Step::Plus(1), 2, 1), []);
    }
}
