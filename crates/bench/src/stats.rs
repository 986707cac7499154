//! Repeats and medians.

/// Returns the middle of `values`: of an even number, the mean of the middle two.
///
/// # Panics
/// If there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// Runs `ours` and `baseline` in turns, so that whatever else the machine does falls on both.
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
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), 3.0);
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
