//! The report of one measurement, for people and programs.

use std::time::Duration;

use fulmar_selftest::console::{DataCheck, TestSpec};
use fulmar_text::{
    Table, bytes, csv, field, fixed, grouped, left, number_field, or_unknown, right, significant,
};
use serde::Serialize;

use super::drive::{Cell, NodeOutcome, Outcome};
use super::grid::Size;
use super::measure::{Figures, Latency};

/// A measurement for output; the names of JSON fields include the units.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) load: Load,
    /// Duration of the measurement.
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
    pub(super) total: Line,
    pub(super) nodes: Vec<Line>,
    pub(super) failed: Vec<FailedNode>,
    pub(super) remarks: Vec<String>,
}

/// The requested load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    #[serde(flatten)]
    pub(super) test: TestSpecText,
    pub(super) concurrency: u32,
    pub(super) distribute: String,
    pub(super) warmup_seconds: f64,
}

/// The test in the syntax of the command line.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TestSpecText {
    test: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<DataCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    off: Option<u32>,
}

/// The results of one node, or of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) node: String,
    pub(super) role: &'static str,
    pub(super) bytes_per_second: Option<f64>,
    pub(super) rpcs_per_second: Option<f64>,
    pub(super) latency_ns: Option<Quantiles>,
    pub(super) errors: u64,
    pub(super) cpu_seconds_per_gb: Option<f64>,
    pub(super) tcp_retransmits: Option<u64>,
    pub(super) tcp_window_bytes: Option<u32>,
}

/// Latency of RPCs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Quantiles {
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

/// A node that failed before the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FailedNode {
    pub(super) node: String,
    pub(super) why: String,
}

impl Report {
    pub(super) fn new(cell: &Cell, outcome: &Outcome) -> Self {
        let times = outcome.nodes.iter().filter_map(|node| Some(node.figures.as_ref()?.time));
        let mut remarks = outcome.remarks.clone();
        let clients = || outcome.nodes.iter().filter(|node| node.client);
        let telling = clients().filter(|node| latency(node).is_some()).count();
        let silent = clients().filter(|node| node.figures.is_some()).count() - telling;
        if telling > 0 && silent > 0 {
            remarks.push(format!("The latency of {silent} of the clients is unknown."));
        }
        Self {
            load: Load {
                test: TestSpecText::of(cell.test),
                concurrency: cell.concurrency,
                distribute: format!("{}:{}", cell.distribute.0, cell.distribute.1),
                warmup_seconds: cell.warmup.as_secs_f64(),
            },
            seconds: times.max().unwrap_or_default().as_secs_f64(),
            interrupted: outcome.interrupted,
            total: Line::of_all(cell.test, &outcome.nodes),
            nodes: outcome.nodes.iter().map(|node| Line::of_node(cell.test, node)).collect(),
            failed: failed(&outcome.nodes),
            remarks,
        }
    }

    /// Returns the table, with notes below it.
    pub(super) fn text(&self) -> String {
        let figures = [
            "MB/s",
            "MiB/s",
            "RPC/s",
            "latency min",
            "median",
            "p99",
            "max",
            "errors",
            "CPU s/GB",
            "retransmits",
            "window",
        ];
        let names = [left("node"), left("role")].into_iter();
        let mut table = Table::new(names.chain(figures.map(right)));
        for line in self.nodes.iter().chain([&self.total]) {
            table.row(line.cells());
        }
        let mut text = format!("{}\n\n{table}", self.heading());
        for failed in &self.failed {
            text += &format!("\n{} {}", failed.node, failed.why);
        }
        for remark in &self.remarks {
            text += &format!("\n{remark}");
        }
        if !self.failed.is_empty() || !self.remarks.is_empty() {
            text += "\n";
        }
        text
    }

    fn heading(&self) -> String {
        let Load { test, concurrency, distribute, warmup_seconds } = &self.load;
        let ended = if self.interrupted { ", interrupted" } else { "" };
        format!(
            "{test}, concurrency {concurrency}, distribute {distribute}: {:.1} s after \
             {warmup_seconds} s of warm-up{ended}",
            self.seconds
        )
    }

    pub(super) fn json(&self) -> String {
        json(self)
    }

    pub(super) fn csv(&self) -> String {
        let headings = [
            "node",
            "role",
            "bytes_per_second",
            "rpcs_per_second",
            "latency_min_ns",
            "latency_median_ns",
            "latency_p99_ns",
            "latency_max_ns",
            "errors",
            "cpu_seconds_per_gb",
            "tcp_retransmits",
            "tcp_window_bytes",
        ];
        csv(&headings, self.nodes.iter().chain([&self.total]).map(Line::fields))
    }
}

/// Returns any report as JSON.
pub(super) fn json<T: Serialize>(report: &T) -> String {
    let text = serde_json::to_string_pretty(report).expect("a report has string keys only");
    text + "\n"
}

/// Returns the nodes that failed before the end.
pub(super) fn failed(nodes: &[NodeOutcome]) -> Vec<FailedNode> {
    let failed = |node: &NodeOutcome| {
        Some(FailedNode { node: node.nid.to_string(), why: node.trouble.clone()? })
    };
    nodes.iter().filter_map(failed).collect()
}

fn latency(node: &NodeOutcome) -> Option<&Latency> {
    node.figures.as_ref()?.latency.as_ref()
}

impl Line {
    fn of_node(test: TestSpec, node: &NodeOutcome) -> Self {
        let figures = node.figures.as_ref();
        let has_data = test != TestSpec::Ping;
        Self {
            node: node.nid.to_string(),
            role: match (node.client, node.server) {
                (true, true) => "both",
                (true, false) => "client",
                (false, _) => "server",
            },
            bytes_per_second: figures.filter(|_| has_data).map(Figures::bytes_per_second),
            rpcs_per_second: figures.map(Figures::rpcs_per_second),
            latency_ns: latency(node).map(Quantiles::of),
            errors: node.errors,
            cpu_seconds_per_gb: figures
                .and_then(|figures| per_gb(figures.cpu?.as_secs_f64(), figures.bytes)),
            tcp_retransmits: figures.and_then(|figures| figures.retransmits).map(u64::from),
            tcp_window_bytes: figures.and_then(|figures| figures.window),
        }
    }

    /// Returns the sum. Rates are those of the clients, since servers count the same data again.
    pub(super) fn of_all(test: TestSpec, nodes: &[NodeOutcome]) -> Self {
        let clients: Vec<&Figures> =
            nodes.iter().filter(|node| node.client).filter_map(|n| n.figures.as_ref()).collect();
        let some = !clients.is_empty();
        let bytes = clients.iter().map(|figures| figures.bytes).sum();
        // A sum is unknown if any part is unknown.
        let cpu = |node: &NodeOutcome| Some(node.figures.as_ref()?.cpu?.as_secs_f64());
        let cpu: Option<f64> = nodes.iter().map(cpu).sum();
        let retransmits = |node: &NodeOutcome| node.figures.as_ref()?.retransmits.map(u64::from);
        let windows = nodes.iter().filter_map(|node| node.figures.as_ref()?.window);
        Self {
            node: "total".to_owned(),
            role: "",
            bytes_per_second: (some && test != TestSpec::Ping)
                .then(|| clients.iter().map(|figures| figures.bytes_per_second()).sum()),
            rpcs_per_second: some
                .then(|| clients.iter().map(|figures| figures.rpcs_per_second()).sum()),
            latency_ns: latency_of_all(nodes).as_ref().map(Quantiles::of),
            errors: nodes.iter().map(|node| node.errors).sum(),
            cpu_seconds_per_gb: cpu.and_then(|seconds| per_gb(seconds, bytes)),
            tcp_retransmits: nodes.iter().map(retransmits).sum(),
            tcp_window_bytes: windows.max(),
        }
    }

    fn cells(&self) -> [String; 13] {
        let latency = |part: fn(&Quantiles) -> u64| {
            or_unknown(self.latency_ns.as_ref(), |latency| time(part(latency)))
        };
        [
            self.node.clone(),
            self.role.to_owned(),
            or_unknown(self.bytes_per_second, |bytes| rate(bytes / 1e6)),
            or_unknown(self.bytes_per_second, |bytes| rate(bytes / 1_048_576.0)),
            or_unknown(self.rpcs_per_second, rate),
            latency(|latency| latency.min),
            latency(|latency| latency.median),
            latency(|latency| latency.p99),
            latency(|latency| latency.max),
            grouped(self.errors),
            or_unknown(self.cpu_seconds_per_gb, |seconds| fixed(seconds, 3)),
            or_unknown(self.tcp_retransmits, grouped),
            or_unknown(self.tcp_window_bytes, |window| bytes(window.into())),
        ]
    }

    fn fields(&self) -> [String; 12] {
        let latency = |part: fn(&Quantiles) -> u64| field(self.latency_ns.as_ref().map(part));
        [
            self.node.clone(),
            self.role.to_owned(),
            number_field(self.bytes_per_second),
            number_field(self.rpcs_per_second),
            latency(|latency| latency.min),
            latency(|latency| latency.median),
            latency(|latency| latency.p99),
            latency(|latency| latency.max),
            self.errors.to_string(),
            number_field(self.cpu_seconds_per_gb),
            field(self.tcp_retransmits),
            field(self.tcp_window_bytes),
        ]
    }
}

/// Returns a rate with four significant digits: repeats differ in the fifth anyway.
pub(super) fn rate(value: f64) -> String {
    significant(value, 4)
}

/// Formats a time in nanoseconds.
pub(super) fn time(ns: u64) -> String {
    fulmar_text::duration(Duration::from_nanos(ns))
}

/// Returns the latency over all clients that report it.
pub(super) fn latency_of_all(nodes: &[NodeOutcome]) -> Option<Latency> {
    Latency::of_all(nodes.iter().filter_map(latency))
}

fn per_gb(seconds: f64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| seconds / (bytes as f64 / 1e9))
}

impl Quantiles {
    pub(super) fn of(latency: &Latency) -> Self {
        Self {
            min: latency.min_ns,
            median: latency.quantile(0.5),
            p99: latency.quantile(0.99),
            max: latency.max_ns,
        }
    }
}

impl TestSpecText {
    pub(super) fn of(test: TestSpec) -> Self {
        match test {
            TestSpec::Ping => Self { test: "ping", size: None, check: None, off: None },
            TestSpec::Brw { write, check, size, offset } => Self {
                test: if write { "brw write" } else { "brw read" },
                size: Some(size),
                check: Some(check),
                off: Some(offset).filter(|offset| *offset > 0),
            },
        }
    }

    /// Leaves out the size, where the output has it elsewhere.
    pub(super) fn without_size(self) -> Self {
        Self { size: None, ..self }
    }
}

impl std::fmt::Display for TestSpecText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.test)?;
        if let Some(size) = self.size {
            write!(f, " {}", Size(size))?;
        }
        match self.check {
            None => {}
            Some(DataCheck::None) => f.write_str(", check none")?,
            Some(DataCheck::Simple) => f.write_str(", check simple")?,
            Some(DataCheck::Full) => f.write_str(", check full")?,
        }
        self.off.map_or(Ok(()), |off| write!(f, ", off {off}"))
    }
}
