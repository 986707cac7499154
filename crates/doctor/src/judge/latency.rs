//! Latency over message sizes.

use fulmar_text::{bit_rate, bytes, micros};

use crate::finding::{Finding, Level, Place};
use crate::measure::LatencyRow;

/// Judges messages of many sizes.
pub fn latency(rows: &[LatencyRow]) -> Vec<Finding> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    let mut found = vec![Finding::ok(
        Place::Path,
        format!("{} takes {} one way", bytes(first.size.into()), micros(first.one_way.median_us)),
        format!(
            "{} takes {}, {} at best; 95 % of {} within {}",
            bytes(last.size.into()),
            micros(last.one_way.median_us),
            bit_rate(rows.iter().map(|row| row.rate).fold(0.0, f64::max)),
            bytes(first.size.into()),
            micros(first.one_way.p95_us)
        ),
    )];
    let spread = first.one_way.p95_us - first.one_way.median_us;
    if spread > SPREAD_US && spread > 2.0 * first.one_way.median_us {
        let what = "the latency of small messages varies much";
        let evidence = format!(
            "median {}, 95 % within {}, longest {}",
            micros(first.one_way.median_us),
            micros(first.one_way.p95_us),
            micros(first.one_way.max_us)
        );
        let mend = "processors that sleep deeply or are shared: cpupower idle-set -D 10, another load \
                    on the hosts or the path";
        found.push(Finding::new(Level::Note, Place::Path, what, evidence).mend(mend));
    }
    found.extend(step(rows));
    found
}

/// A spread below this is nobody's concern, in microseconds.
const SPREAD_US: f64 = 500.0;
/// A larger message that takes so much longer than one of a quarter waits for something.
const STEP: f64 = 12.0;

/// Finds a size from which on messages wait for something: a delayed acknowledgement, a timer.
fn step(rows: &[LatencyRow]) -> Option<Finding> {
    let (before, row) = rows.windows(2).map(|pair| (pair[0], pair[1])).find(|(before, row)| {
        let longer = row.one_way.median_us - before.one_way.median_us;
        longer > 10_000.0 && row.one_way.median_us > STEP * before.one_way.median_us
    })?;
    let what = format!("messages from {} on take out of proportion long", bytes(row.size.into()));
    let evidence = format!(
        "{} takes {}, {} takes {}",
        bytes(before.size.into()),
        micros(before.one_way.median_us),
        bytes(row.size.into()),
        micros(row.one_way.median_us)
    );
    let mend = "packets of that size are lost or wait: see the checks mtu, udp and offload";
    Some(Finding::new(Level::Warning, Place::Path, what, evidence).mend(mend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;

    fn row(size: u32, median_us: f64, p95_us: f64) -> LatencyRow {
        let one_way = Spread { count: 100, min_us: 1.0, median_us, p95_us, max_us: p95_us };
        LatencyRow { size, one_way, rate: f64::from(size) * 8e6 / median_us }
    }

    #[test]
    fn times_that_grow_with_sizes_are_fine() {
        let rows = [row(1, 20.0, 30.0), row(1024, 25.0, 40.0), row(1 << 20, 900.0, 1000.0)];
        let found = latency(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].level, Level::Ok);
        assert_eq!(latency(&[]), []);
    }

    #[test]
    fn spread_and_steps_are_noticed() {
        assert_eq!(latency(&[row(1, 20.0, 2000.0)])[1].level, Level::Note);
        let found = latency(&[row(512, 100.0, 110.0), row(4096, 40_000.0, 40_100.0)]);
        assert!(found[1].level == Level::Warning && found[1].what.contains("4 KiB"));
    }
}
