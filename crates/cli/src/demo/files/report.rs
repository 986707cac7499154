//! The table of the demonstration.

use std::time::Duration;

use fulmar_text::{Table, bytes, fixed, left, right};

use super::tree::TreeCount;
use crate::demo::indented;
use crate::demo::ocean::Ocean;

/// A row of the table.
pub(super) struct Row {
    what: String,
    bytes: Option<u64>,
    time: Option<Duration>,
    /// Bytes per second, where the link is the limit.
    rate: Option<f64>,
    files: Option<u64>,
}

impl Row {
    /// A rate in bytes per second.
    pub(super) fn rate(what: &str, rate: f64) -> Self {
        Self { what: what.to_owned(), bytes: None, time: None, rate: Some(rate), files: None }
    }

    /// A large file.
    pub(super) fn bytes(what: String, bytes: u64, time: Duration) -> Self {
        let rate = Some(bytes as f64 / time.as_secs_f64());
        Self { what, bytes: Some(bytes), time: Some(time), rate, files: None }
    }

    /// Many small files, of which each costs round trips.
    pub(super) fn files(what: String, counted: TreeCount, time: Duration) -> Self {
        let (bytes, files) = (Some(counted.bytes), Some(counted.files));
        Self { what, bytes, time: Some(time), rate: None, files }
    }
}

/// Returns the table, with the rate of the link as its first row.
pub(super) fn table(ocean: &Ocean, rows: &[Row]) -> String {
    let mut table = Table::new([
        left(""),
        right("data"),
        right("seconds"),
        right("Gbit/s"),
        right("of the link"),
        right("round trips a file"),
    ]);
    let empty = String::new;
    let link = fixed(ocean.rate.bits() as f64 * 1e-9, 3);
    table.row(["the link".into(), empty(), empty(), link, "100.0 %".into(), empty()]);
    for Row { what, bytes: data, time, rate, files } in rows {
        let trips = |time: Duration| time.as_secs_f64() / ocean.round_trip.as_secs_f64();
        let each = time.zip(*files).map(|(time, files)| trips(time) / files.max(1) as f64);
        table.row([
            what.clone(),
            data.map(bytes).unwrap_or_default(),
            time.map(|time| fixed(time.as_secs_f64(), 1)).unwrap_or_default(),
            rate.map(|rate| fixed(rate * 8e-9, 3)).unwrap_or_default(),
            rate.map(|rate| format!("{} %", fixed(100.0 * ocean.share(rate), 1)))
                .unwrap_or_default(),
            each.map(|each| fixed(each, 2)).unwrap_or_default(),
        ]);
    }
    indented(&table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_link::Rate;

    #[test]
    fn the_link_is_beside_what_it_carries() {
        let ocean = Ocean::new(Rate::bits_per_second(2_000_000_000), Duration::from_millis(50));
        let rows = [
            Row::rate("lst", 240e6),
            Row::bytes("a file".into(), 1 << 30, Duration::from_secs(5)),
            Row::files(
                "a tree".into(),
                TreeCount { files: 100, bytes: 4096 },
                Duration::from_secs(1),
            ),
        ];
        let expected = [
            "             data  seconds  Gbit/s  of the link  round trips a file",
            "  the link                   2.000      100.0 %",
            "  lst                        1.920       96.0 %",
            "  a file    1 GiB      5.0   1.718       85.9 %",
            "  a tree    4 KiB      1.0                                     0.20",
        ];
        assert_eq!(table(&ocean, &rows).lines().collect::<Vec<_>>(), expected);
    }
}
