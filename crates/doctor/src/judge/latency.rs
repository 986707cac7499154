//! Latency by message size.

use fulmar_text::{bit_rate, bytes, micros};

use crate::finding::{Finding, Level, Place};
use crate::measure::LatencyRow;

/// Judges the latencies of all message sizes.
pub fn latency(rows: &[LatencyRow]) -> Vec<Finding> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Vec::new() };
    let mut found = vec![Finding::ok(
        Place::Path,
        format!("{} takes {} one way", bytes(first.size.into()), micros(first.one_way.median_us)),
        format!(
            "{} takes {}; highest rate {}; 95th percentile of {}: {}",
            bytes(last.size.into()),
            micros(last.one_way.median_us),
            bit_rate(rows.iter().map(|row| row.rate).fold(0.0, f64::max)),
            bytes(first.size.into()),
            micros(first.one_way.p95_us)
        ),
    )];
    let spread = first.one_way.p95_us - first.one_way.median_us;
    if spread > SPREAD_US && spread > 2.0 * first.one_way.median_us {
        let what = "the latency of small messages varies widely";
        let evidence = format!(
            "median {}, 95th percentile {}, maximum {}",
            micros(first.one_way.median_us),
            micros(first.one_way.p95_us),
            micros(first.one_way.max_us)
        );
        let remedy = "disable deep CPU idle states: cpupower idle-set -D 10; look for other load \
                      on the CPUs and on the path";
        found.push(Finding::new(Level::Note, Place::Path, what, evidence).remedy(remedy));
    }
    found.extend(step(rows));
    found
}

/// A smaller spread does not matter, in microseconds.
const SPREAD_US: f64 = 500.0;
/// A message that takes so many times as long as one of the next smaller size is delayed.
const STEP: f64 = 12.0;

/// Finds the size from which messages are delayed, for example by delayed acknowledgements or
/// retransmission timers.
fn step(rows: &[LatencyRow]) -> Option<Finding> {
    let (before, row) = rows.windows(2).map(|pair| (pair[0], pair[1])).find(|(before, row)| {
        let longer = row.one_way.median_us - before.one_way.median_us;
        longer > 10_000.0 && row.one_way.median_us > STEP * before.one_way.median_us
    })?;
    let what = format!("messages of {} and more are delayed", bytes(row.size.into()));
    let evidence = format!(
        "{} takes {}, {} takes {}",
        bytes(before.size.into()),
        micros(before.one_way.median_us),
        bytes(row.size.into()),
        micros(row.one_way.median_us)
    );
    let remedy = "packets of that size are lost or delayed: see the checks mtu, udp and offload";
    Some(Finding::new(Level::Warning, Place::Path, what, evidence).remedy(remedy))
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
    fn spread_and_delays_are_reported() {
        assert_eq!(latency(&[row(1, 20.0, 2000.0)])[1].level, Level::Note);
        let found = latency(&[row(512, 100.0, 110.0), row(4096, 40_000.0, 40_100.0)]);
        assert!(found[1].level == Level::Warning && found[1].what.contains("4 KiB"));
    }
}
