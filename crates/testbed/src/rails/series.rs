//! Bytes over time: mean rates, and when a rate was reached.

use crate::traffic::Sample;

/// A time in milliseconds, and the total bytes until then.
pub type Point = (u64, u64);

/// Returns the series of the samples of a load.
pub fn of(samples: &[Sample]) -> Vec<Point> {
    samples.iter().map(|sample| (sample.at_ms, sample.bytes)).collect()
}

/// Returns the mean rate between two times, in bytes per second; `None` if there are no points
/// between them.
pub fn rate(series: &[Point], from_ms: u64, to_ms: u64) -> Option<f64> {
    let (first, last) = between(series, from_ms, to_ms)?;
    Some((last.1 - first.1) as f64 / ((last.0 - first.0) as f64 / 1e3))
}

/// Returns the bytes between two times.
pub fn carried(series: &[Point], from_ms: u64, to_ms: u64) -> u64 {
    between(series, from_ms, to_ms).map_or(0, |(first, last)| last.1 - first.1)
}

/// Returns the first and the last point between two times, which are not the same.
fn between(series: &[Point], from_ms: u64, to_ms: u64) -> Option<(Point, Point)> {
    let first = *series.iter().find(|(at, _)| *at >= from_ms)?;
    let last = *series.iter().rev().find(|(at, _)| *at <= to_ms)?;
    (first.0 < last.0).then_some((first, last))
}

/// Returns how many seconds after `from_ms` the first window of [`WINDOW_MS`] started whose rate
/// was at least `least`; `None` if there is none before `until_ms`.
pub fn reached(series: &[Point], (from_ms, until_ms): (u64, u64), least: f64) -> Option<f64> {
    let starts = series.iter().map(|(at, _)| *at).filter(|at| (from_ms..until_ms).contains(at));
    let mut good = starts.filter(|at| {
        let end = at + WINDOW_MS;
        end <= until_ms && rate(series, *at, end).is_some_and(|rate| rate >= least)
    });
    good.next().map(|at| (at - from_ms) as f64 / 1e3)
}

/// How long a rate must last to count: time for many messages of 1 MiB at these rates.
pub const WINDOW_MS: u64 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_after_a_cut_is_measured() {
        // 1 byte each millisecond, nothing from 1000 to 1600, then again.
        let bytes = |at: u64| at.min(1000) + at.saturating_sub(1600);
        let series: Vec<Point> = (0..4000).step_by(20).map(|at| (at, bytes(at))).collect();
        assert_eq!(rate(&series, 0, 1000), Some(1000.0));
        assert_eq!((carried(&series, 0, 1200), carried(&series, 1100, 1500)), (1000, 0));
        assert_eq!(reached(&series, (1000, 4000), 990.0), Some(0.6));
        assert_eq!(reached(&series, (1000, 1700), 990.0), None);
        assert_eq!(reached(&series, (1000, 4000), 1010.0), None);
    }
}
