//! Repeated measurements of all points of a grid, with the spread of the repeats.

use fulmar_selftest::console::TestSpec;
use fulmar_text::{Column, Table, csv, field, grouped, left, number_field, or_unknown, right};
use serde::Serialize;

use super::clock::Clock;
use super::drive::{Cell, Outcome, measure};
use super::grid::{Point, Size};
use super::live::Live;
use super::measure::Latency;
use super::report::{
    FailedNode, Line, Quantiles, TestSpecText, failed, latency_of_all, rate, time,
};
use super::session::Failure;
use super::stats::Summary;
use crate::console::Console;

/// The result of a sweep.
#[derive(Debug, Serialize)]
pub(super) struct Sweep {
    #[serde(flatten)]
    test: TestSpecText,
    distribute: String,
    /// Duration of each measurement.
    seconds: f64,
    warmup_seconds: f64,
    /// Requested number of repeats of each point.
    repeats: u32,
    pub(super) interrupted: bool,
    points: Vec<Row>,
    failed: Vec<FailedNode>,
    remarks: Vec<String>,
    /// Why repeats are missing.
    #[serde(skip)]
    pub(super) failure: Option<Failure>,
    #[serde(skip)]
    has_data: bool,
}

/// The combined repeats of one point.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
    concurrency: u32,
    /// Number of measurements.
    repeats: usize,
    bytes_per_second: Option<Summary>,
    rpcs_per_second: Option<Summary>,
    latency_ns: Option<Quantiles>,
    errors: u64,
}

/// The repeats of one point.
#[derive(Default)]
struct Repeats {
    bytes_per_second: Vec<f64>,
    rpcs_per_second: Vec<f64>,
    latencies: Vec<Latency>,
    errors: u64,
}

impl Sweep {
    /// Measures all points, and then all again, so that changes over time affect every point. Ends
    /// early if a measurement fails or the user stops it.
    ///
    /// # Panics
    /// If `cells` is empty: a grid has at least one point.
    pub(super) fn measure(
        console: &mut dyn Console,
        clock: &dyn Clock,
        cells: &[(Point, Cell)],
        repeats: u32,
        live: &mut Live,
    ) -> Self {
        let (_, first) = cells.first().expect("a grid has a point");
        let mut this = Self::empty(first, repeats);
        let mut gathered: Vec<Repeats> = cells.iter().map(|_| Repeats::default()).collect();
        let all = cells.len() * repeats as usize;
        let turns = (0..repeats).flat_map(|_| cells.iter().zip(0..));
        for (number, ((point, cell), at)) in (1..).zip(turns) {
            let place = format!("[{number}/{all}] {point}");
            live.label(place.clone());
            match measure(console, clock, cell, &mut |tick| live.tick(tick)) {
                Ok(outcome) => {
                    let remarks = outcome.remarks.iter();
                    this.remarks.extend(remarks.map(|text| format!("{point}: {text}")));
                    let failed = failed(&outcome.nodes);
                    this.interrupted = outcome.interrupted;
                    if outcome.interrupted {
                        break;
                    }
                    let total = Line::of_all(cell.test, &outcome.nodes);
                    live.note(&format!("{place}: {}", brief(&total)));
                    gathered[at].add(&total, failed.is_empty().then_some(&outcome));
                    this.failed.extend(failed);
                }
                Err(failure) => {
                    this.failure = Some(failure);
                    break;
                }
            }
        }
        let rows = cells.iter().zip(&gathered);
        this.points = rows.map(|((_, cell), repeats)| repeats.row(cell)).collect();
        this
    }

    fn empty(cell: &Cell, repeats: u32) -> Self {
        Self {
            test: TestSpecText::of(cell.test).without_size(),
            distribute: format!("{}:{}", cell.distribute.0, cell.distribute.1),
            seconds: cell.time.as_secs_f64(),
            warmup_seconds: cell.warmup.as_secs_f64(),
            repeats,
            interrupted: false,
            points: Vec::new(),
            failed: Vec::new(),
            remarks: Vec::new(),
            failure: None,
            has_data: cell.test != TestSpec::Ping,
        }
    }

    /// Returns whether there are results to print.
    pub(super) fn has_figures(&self) -> bool {
        self.points.iter().any(|row| row.repeats > 0)
    }

    /// Returns whether all repeats completed without errors.
    pub(super) fn is_fine(&self) -> bool {
        self.failure.is_none()
            && self.failed.is_empty()
            && self.remarks.is_empty()
            && self.points.iter().all(|row| row.errors == 0)
    }

    /// Returns a table with a row for each point.
    pub(super) fn text(&self) -> String {
        let (unit, other) = if self.has_data { ("MB/s", "RPC/s") } else { ("RPC/s", "MB/s") };
        let mean = format!("{unit} mean");
        let figures =
            ["concurrency", &mean, "sd", "min", "max", other, "median", "p99", "errors"].map(right);
        let mut table = Table::new([left("size")].into_iter().chain(figures));
        for row in &self.points {
            table.row(row.cells(self.has_data));
        }
        let failed = self.failed.iter().map(|failed| format!("{} {}", failed.node, failed.why));
        let lines: Vec<String> = failed.chain(self.remarks.iter().cloned()).collect();
        match lines[..] {
            [] => format!("{}\n\n{table}", self.heading()),
            _ => format!("{}\n\n{table}\n{}\n", self.heading(), lines.join("\n")),
        }
    }

    /// Returns a Markdown table with a row for each size and a column for each concurrency.
    pub(super) fn markdown(&self) -> String {
        // The points are ordered by rows.
        let columns = self.points.iter().take_while(|row| row.size == self.points[0].size);
        let columns = columns.map(|row| right(format!("{} at a time", row.concurrency)));
        let columns: Vec<Column> = columns.collect();
        let count = columns.len();
        let mut table = Table::new([left("size")].into_iter().chain(columns));
        for row in self.points.chunks(count) {
            let name = or_unknown(row[0].size, |size| Size(size).to_string());
            let cells = row.iter().map(|row| {
                or_unknown(row.primary(self.has_data), |summary| {
                    let deviation = summary.standard_deviation;
                    let deviation = deviation.map(|sd| format!(" ± {}", rate(sd)));
                    format!("{}{}", rate(summary.mean), deviation.unwrap_or_default())
                })
            });
            table.row(std::iter::once(name).chain(cells));
        }
        let unit = if self.has_data { "MB/s" } else { "RPC/s" };
        let heading = self.heading();
        format!("{heading}, mean {unit} ± standard deviation.\n\n{}", table.markdown())
    }

    pub(super) fn csv(&self) -> String {
        let headings = [
            "size",
            "concurrency",
            "repeats",
            "bytes_per_second_mean",
            "bytes_per_second_sd",
            "bytes_per_second_min",
            "bytes_per_second_max",
            "rpcs_per_second_mean",
            "rpcs_per_second_sd",
            "rpcs_per_second_min",
            "rpcs_per_second_max",
            "latency_min_ns",
            "latency_median_ns",
            "latency_p99_ns",
            "latency_max_ns",
            "errors",
        ];
        csv(&headings, self.points.iter().map(Row::fields))
    }

    fn heading(&self) -> String {
        let Self { test, distribute, seconds, warmup_seconds, repeats, .. } = self;
        let ended = if self.interrupted { ", interrupted" } else { "" };
        format!(
            "{test}, distribute {distribute}: {repeats} × {seconds} s after {warmup_seconds} s of \
             warm-up{ended}"
        )
    }
}

impl Repeats {
    /// Adds a measurement; if nodes failed in it, only its errors.
    fn add(&mut self, total: &Line, whole: Option<&Outcome>) {
        self.errors += total.errors;
        if let Some(outcome) = whole {
            self.bytes_per_second.extend(total.bytes_per_second);
            self.rpcs_per_second.extend(total.rpcs_per_second);
            self.latencies.extend(latency_of_all(&outcome.nodes));
        }
    }

    fn row(&self, cell: &Cell) -> Row {
        Row {
            size: match cell.test {
                TestSpec::Ping => None,
                TestSpec::Brw { size, .. } => Some(size),
            },
            concurrency: cell.concurrency,
            repeats: self.rpcs_per_second.len(),
            bytes_per_second: Summary::of(&self.bytes_per_second),
            rpcs_per_second: Summary::of(&self.rpcs_per_second),
            latency_ns: Latency::of_all(&self.latencies).as_ref().map(Quantiles::of),
            errors: self.errors,
        }
    }
}

impl Row {
    /// Returns the main result of the test: MB/s, or RPC/s if it has no data.
    fn primary(&self, has_data: bool) -> Option<Summary> {
        if has_data {
            self.bytes_per_second.map(|bytes| Summary {
                mean: bytes.mean / 1e6,
                standard_deviation: bytes.standard_deviation.map(|bytes| bytes / 1e6),
                min: bytes.min / 1e6,
                max: bytes.max / 1e6,
            })
        } else {
            self.rpcs_per_second
        }
    }

    fn cells(&self, has_data: bool) -> [String; 10] {
        let primary = self.primary(has_data);
        let other = self.rpcs_per_second.filter(|_| has_data).map(|summary| summary.mean);
        let latency = self.latency_ns.as_ref();
        [
            or_unknown(self.size, |size| Size(size).to_string()),
            self.concurrency.to_string(),
            or_unknown(primary.map(|summary| summary.mean), rate),
            or_unknown(primary.and_then(|summary| summary.standard_deviation), rate),
            or_unknown(primary.map(|summary| summary.min), rate),
            or_unknown(primary.map(|summary| summary.max), rate),
            or_unknown(other, rate),
            or_unknown(latency.map(|latency| latency.median), time),
            or_unknown(latency.map(|latency| latency.p99), time),
            grouped(self.errors),
        ]
    }

    fn fields(&self) -> [String; 16] {
        let of = |summary: Option<Summary>| match summary {
            None => [const { String::new() }; 4],
            Some(Summary { mean, standard_deviation, min, max }) => {
                [Some(mean), standard_deviation, Some(min), Some(max)].map(number_field)
            }
        };
        let latency = |part: fn(&Quantiles) -> u64| field(self.latency_ns.as_ref().map(part));
        let [b0, b1, b2, b3] = of(self.bytes_per_second);
        let [r0, r1, r2, r3] = of(self.rpcs_per_second);
        [
            field(self.size),
            self.concurrency.to_string(),
            self.repeats.to_string(),
            b0,
            b1,
            b2,
            b3,
            r0,
            r1,
            r2,
            r3,
            latency(|latency| latency.min),
            latency(|latency| latency.median),
            latency(|latency| latency.p99),
            latency(|latency| latency.max),
            self.errors.to_string(),
        ]
    }
}

fn brief(total: &Line) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(total.bytes_per_second.map(|bytes| format!("{} MB/s", rate(bytes / 1e6))));
    parts.extend(total.rpcs_per_second.map(|rpcs| format!("{} RPC/s", rate(rpcs))));
    parts.extend(total.latency_ns.map(|latency| format!("median {}", time(latency.median))));
    parts.extend((total.errors > 0).then(|| format!("{} errors", grouped(total.errors))));
    parts.join(", ")
}
