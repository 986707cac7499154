//! Bandwidth and latency from every node to every other, with the worst pairs.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::{DataCheck, TestSpec};
use fulmar_text::{Table, left, or_unknown, right};
use serde::Serialize;

use super::clock::Clock;
use super::drive::{Cell, Flow, Outcome, measure};
use super::live::Live;
use super::report::{FailedNode, rate, time};
use super::session::Failure;
use super::stats::median;
use crate::console::Console;

/// The nodes and settings of a mesh.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Nid>,
    pub(super) time: Duration,
    pub(super) warmup: Duration,
    pub(super) size: u32,
    pub(super) concurrency: u32,
    pub(super) parallel: bool,
    pub(super) force: bool,
}

/// The result of a mesh. Rows of the matrices are clients, columns servers.
#[derive(Debug, Serialize)]
pub(super) struct Mesh {
    nodes: Vec<Nid>,
    size: u32,
    concurrency: u32,
    seconds: f64,
    pub(super) interrupted: bool,
    bandwidth_bytes_per_second: Matrix,
    latency_ns: Matrix,
    /// Clients that report no median: their latency is the mean, computed from the ping rate.
    mean_latency_of: Vec<Nid>,
    worst_bandwidth: Vec<Worst>,
    worst_latency: Vec<Worst>,
    failed: Vec<FailedNode>,
    remarks: Vec<String>,
    /// Why not all pairs were measured.
    #[serde(skip)]
    pub(super) failure: Option<Failure>,
}

/// A value for each client and server.
type Matrix = Vec<Vec<Option<f64>>>;

/// A pair that differs much from the median.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Worst {
    from: Nid,
    to: Nid,
    value: f64,
    median: f64,
}

/// A client and a server, by their indices in the list of nodes.
type Pair = (usize, usize);

/// A bandwidth below this share of the median is bad.
const BANDWIDTH_BAD: f64 = 0.9;
/// A latency above this multiple of the median is bad.
const LATENCY_BAD: f64 = 1.5;
/// How many bad pairs are listed.
const WORST_MAX: usize = 5;

/// Measures all pairs. Ends early if the user stops it, or if a measurement fails for another
/// reason than an absent node.
pub(super) fn run(
    console: &mut dyn Console,
    clock: &dyn Clock,
    plan: &Plan,
    live: &mut Live,
) -> Mesh {
    let mut mesh = Mesh::empty(plan);
    let mut away: BTreeMap<Nid, String> = BTreeMap::new();
    let rounds = rounds(plan.nodes.len(), plan.parallel);
    let all = rounds.len();
    'rounds: for (number, round) in rounds.iter().enumerate() {
        for test in [plan.brw(), TestSpec::Ping] {
            live.label(format!("[{}/{all}] {}", number + 1, plan.names(round)));
            match measure_round(console, clock, plan, test, round, &mut away, live) {
                Ok(outcome) => {
                    mesh.add(test, round, &outcome);
                    if outcome.interrupted {
                        break 'rounds;
                    }
                }
                Err(failure) => {
                    mesh.failure = Some(failure);
                    break 'rounds;
                }
            }
        }
    }
    let away = away.into_iter().map(|(nid, why)| FailedNode { node: nid.to_string(), why });
    mesh.failed = away.collect();
    let worse = |value: f64, median: f64| median - value;
    mesh.worst_bandwidth = mesh.worst(&mesh.bandwidth_bytes_per_second, BANDWIDTH_BAD, worse);
    let worse = |value: f64, median: f64| value - median;
    mesh.worst_latency = mesh.worst(&mesh.latency_ns, LATENCY_BAD, worse);
    mesh
}

/// Measures the pairs of one round whose nodes are present. A node that turns out to be absent is
/// remembered, and the others are measured without it.
fn measure_round(
    console: &mut dyn Console,
    clock: &dyn Clock,
    plan: &Plan,
    test: TestSpec,
    round: &[Pair],
    away: &mut BTreeMap<Nid, String>,
    live: &mut Live,
) -> Result<Outcome, Failure> {
    loop {
        let pairs = round.iter().map(|(from, to)| (plan.nodes[*from], plan.nodes[*to]));
        let pairs = pairs.filter(|(from, to)| !away.contains_key(from) && !away.contains_key(to));
        let flows: Vec<Flow> =
            pairs.map(|(from, to)| Flow { from: vec![from], to: vec![to] }).collect();
        if flows.is_empty() {
            let (nodes, remarks) = (Vec::new(), Vec::new());
            return Ok(Outcome { nodes, interrupted: false, remarks });
        }
        match measure(console, clock, &plan.cell(test, flows), &mut |tick| live.tick(tick)) {
            Err(Failure::Nodes { nodes, .. }) if !nodes.is_empty() => away.extend(nodes),
            ended => return ended,
        }
    }
}

/// Returns every ordered pair once: alone, or in rounds of pairs without common nodes.
fn rounds(nodes: usize, parallel: bool) -> Vec<Vec<Pair>> {
    if !parallel {
        let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        return pairs.filter(|(from, to)| from != to).map(|pair| vec![pair]).collect();
    }
    // A round-robin tournament by the circle method: one node is fixed, the others rotate by one
    // place each round. With an odd number of nodes, the partner of the missing one pauses.
    let circle = nodes.next_multiple_of(2) - 1;
    let mut rounds = Vec::new();
    for turn in 0..circle {
        let across = (1..=circle / 2).map(|k| ((turn + k) % circle, (turn + circle - k) % circle));
        let pairs = std::iter::once((turn, circle)).chain(across);
        let there: Vec<Pair> = pairs.filter(|(a, b)| *a < nodes && *b < nodes).collect();
        let back = there.iter().map(|(a, b)| (*b, *a)).collect();
        rounds.extend([there, back]);
    }
    rounds
}

impl Plan {
    fn brw(&self) -> TestSpec {
        TestSpec::Brw { write: true, check: DataCheck::None, size: self.size, offset: 0 }
    }

    fn cell(&self, test: TestSpec, flows: Vec<Flow>) -> Cell {
        Cell {
            name: format!("mesh-{}", std::process::id()),
            flows,
            test,
            concurrency: if test == TestSpec::Ping { 1 } else { self.concurrency },
            distribute: (1, 1),
            time: self.time,
            warmup: self.warmup,
            force: self.force,
        }
    }

    fn names(&self, round: &[Pair]) -> String {
        match round {
            [(from, to)] => format!("{} -> {}", self.nodes[*from], self.nodes[*to]),
            pairs => format!("{} pairs", pairs.len()),
        }
    }
}

impl Mesh {
    fn empty(plan: &Plan) -> Self {
        let matrix = || vec![vec![None; plan.nodes.len()]; plan.nodes.len()];
        Self {
            nodes: plan.nodes.clone(),
            size: plan.size,
            concurrency: plan.concurrency,
            seconds: plan.time.as_secs_f64(),
            interrupted: false,
            bandwidth_bytes_per_second: matrix(),
            latency_ns: matrix(),
            mean_latency_of: Vec::new(),
            worst_bandwidth: Vec::new(),
            worst_latency: Vec::new(),
            failed: Vec::new(),
            remarks: Vec::new(),
            failure: None,
        }
    }

    /// Adds the results of the clients of a round.
    fn add(&mut self, test: TestSpec, round: &[Pair], outcome: &Outcome) {
        self.interrupted = outcome.interrupted;
        self.remarks.extend(outcome.remarks.iter().cloned());
        for (from, to) in round {
            let nids = [self.nodes[*from], self.nodes[*to]];
            let of = |nid| outcome.nodes.iter().find(move |node| node.nid == nid);
            for node in nids.iter().filter_map(|nid| of(*nid)) {
                let what = match (&node.trouble, node.errors) {
                    (Some(trouble), _) => format!("{} {trouble}", node.nid),
                    (None, 0) => continue,
                    (None, errors) => format!("{errors} errors at {}", node.nid),
                };
                self.remarks.push(format!("{} -> {}: {what}", nids[0], nids[1]));
            }
            let Some(figures) = of(nids[0]).and_then(|node| node.figures.as_ref()) else {
                continue;
            };
            if test != TestSpec::Ping {
                self.bandwidth_bytes_per_second[*from][*to] = Some(figures.bytes_per_second());
            } else if let Some(latency) = &figures.latency {
                self.latency_ns[*from][*to] = Some(latency.quantile(0.5) as f64);
            } else if figures.rpcs > 0 {
                // One ping at a time, so that the mean is the inverse of the rate.
                self.latency_ns[*from][*to] = Some(1e9 / figures.rpcs_per_second());
                if !self.mean_latency_of.contains(&nids[0]) {
                    self.mean_latency_of.push(nids[0]);
                }
            }
        }
    }

    /// Returns whether there are results to print.
    pub(super) fn has_figures(&self) -> bool {
        self.bandwidth_bytes_per_second.iter().flatten().any(Option::is_some)
    }

    /// Returns whether all pairs were measured without errors.
    pub(super) fn is_fine(&self) -> bool {
        self.failure.is_none() && self.failed.is_empty() && self.remarks.is_empty()
    }

    /// Returns the pairs beyond a multiple of the median, the worst first.
    fn worst(&self, matrix: &Matrix, bad: f64, worse: impl Fn(f64, f64) -> f64) -> Vec<Worst> {
        let Some(median) = middle(matrix) else { return Vec::new() };
        let mut worst = Vec::new();
        for (from, row) in self.nodes.iter().zip(matrix) {
            for (to, value) in self.nodes.iter().zip(row) {
                let far = |value: &f64| worse(*value, median) > worse(bad * median, median);
                if let Some(value) = value.filter(far) {
                    worst.push(Worst { from: *from, to: *to, value, median });
                }
            }
        }
        worst.sort_by(|a, b| worse(b.value, median).total_cmp(&worse(a.value, median)));
        worst.truncate(WORST_MAX);
        worst
    }

    /// Returns both matrices, with notes below them.
    pub(super) fn text(&self) -> String {
        let bandwidth = |_: Nid, bytes: f64| rate(bytes / 1e6);
        let latency = |from: Nid, ns: f64| {
            if self.mean_latency_of.contains(&from) {
                format!("~{}", time(ns as u64))
            } else {
                time(ns as u64)
            }
        };
        let mut text = format!(
            "MB/s of brw write {}, concurrency {}, from each row to each column\n\n{}\n\
             Median latency of a ping\n\n{}",
            super::grid::Size(self.size),
            self.concurrency,
            self.table(&self.bandwidth_bytes_per_second, bandwidth),
            self.table(&self.latency_ns, latency),
        );
        if !self.mean_latency_of.is_empty() {
            text += "\n~ marks the mean of nodes that report no median.\n";
        }
        let mut worst: Vec<String> = Vec::new();
        worst.extend(self.worst_bandwidth.iter().map(|worst| {
            let Worst { from, to, value, median } = worst;
            let below = (1.0 - value / median) * 100.0;
            let (value, median) = (rate(value / 1e6), rate(median / 1e6));
            format!("{from} -> {to}: {value} MB/s, {below:.0} % below the median of {median} MB/s")
        }));
        worst.extend(self.worst_latency.iter().map(|worst| {
            let Worst { from, to, value, median } = worst;
            let above = (value / median - 1.0) * 100.0;
            let (value, median) = (time(*value as u64), time(*median as u64));
            format!("{from} -> {to}: {value}, {above:.0} % above the median of {median}")
        }));
        text += &if worst.is_empty() {
            "\nWorst pairs: none differs much from the median.\n".to_owned()
        } else {
            format!("\nWorst pairs\n\n{}\n", worst.join("\n"))
        };
        let failed = self.failed.iter().map(|failed| format!("{} {}", failed.node, failed.why));
        let remarks: Vec<String> = failed.chain(self.remarks.iter().cloned()).collect();
        if !remarks.is_empty() {
            text += &format!("\n{}\n", remarks.join("\n"));
        }
        text
    }

    fn table(&self, matrix: &Matrix, cell: impl Fn(Nid, f64) -> String) -> Table {
        let servers = (1..=self.nodes.len()).map(|number| right(number.to_string()));
        let mut table = Table::new([left(""), left("node")].into_iter().chain(servers));
        for (number, (nid, row)) in self.nodes.iter().zip(matrix).enumerate() {
            let cells = row.iter().map(|value| or_unknown(*value, |value| cell(*nid, value)));
            let names = [(number + 1).to_string(), nid.to_string()];
            table.row(names.into_iter().chain(cells));
        }
        table
    }
}

fn middle(matrix: &Matrix) -> Option<f64> {
    median(matrix.iter().flatten().copied().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, FakeNode};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rounds_have_every_ordered_pair_once_and_no_node_twice() {
        for nodes in 2..12 {
            for parallel in [false, true] {
                let rounds = rounds(nodes, parallel);
                let pairs: BTreeSet<Pair> = rounds.iter().flatten().copied().collect();
                assert_eq!(pairs.len(), nodes * (nodes - 1), "{nodes}");
                assert_eq!(rounds.iter().flatten().count(), pairs.len());
                for round in rounds {
                    let players: BTreeSet<usize> =
                        round.iter().flat_map(|(a, b)| [*a, *b]).collect();
                    assert_eq!(players.len(), 2 * round.len());
                }
            }
        }
    }

    fn plan(nodes: usize) -> Plan {
        Plan {
            nodes: (1..=nodes).map(|n| format!("10.0.0.{n}@tcp").parse().unwrap()).collect(),
            time: Duration::from_secs(1),
            warmup: Duration::from_millis(200),
            size: 1 << 20,
            concurrency: 8,
            parallel: false,
            force: false,
        }
    }

    #[test]
    fn slow_pairs_are_listed_and_absent_nodes_are_left_out() {
        let mut fake = Fake::new(4);
        fake.nodes[2] = FakeNode { rpc_ns: 32_000_000, ..FakeNode::fulmar() };
        fake.nodes[1] = FakeNode::kernel();
        fake.nodes[3] = FakeNode { away: true, ..FakeNode::fulmar() };
        let clock = fake.clock();
        let mesh = run(&mut fake, &clock, &plan(4), &mut Live::on_stderr(false));
        let expected = "\
MB/s of brw write 1M, concurrency 8, from each row to each column

   node              1      2      3  4
1  10.0.0.1@tcp      -  1,049  1,049  -
2  10.0.0.2@tcp  1,049      -  1,049  -
3  10.0.0.3@tcp  262.1  262.1      -  -
4  10.0.0.4@tcp      -      -      -  -

Median latency of a ping

   node              1      2      3  4
1  10.0.0.1@tcp      -   8 ms   8 ms  -
2  10.0.0.2@tcp  ~8 ms      -  ~8 ms  -
3  10.0.0.3@tcp  32 ms  32 ms      -  -
4  10.0.0.4@tcp      -      -      -  -

~ marks the mean of nodes that report no median.

Worst pairs

10.0.0.3@tcp -> 10.0.0.1@tcp: 262.1 MB/s, 75 % below the median of 1,049 MB/s
10.0.0.3@tcp -> 10.0.0.2@tcp: 262.1 MB/s, 75 % below the median of 1,049 MB/s
10.0.0.3@tcp -> 10.0.0.1@tcp: 32 ms, 300 % above the median of 8 ms
10.0.0.3@tcp -> 10.0.0.2@tcp: 32 ms, 300 % above the median of 8 ms

10.0.0.4@tcp does not answer (Connection timed out)
";
        assert_eq!(mesh.text(), expected);
        assert!(!mesh.is_fine() && mesh.failure.is_none());
        assert!(!fake.has_session());
    }
    #[test]
    fn pairs_without_common_nodes_are_measured_in_parallel() {
        let mut fake = Fake::new(4);
        let clock = fake.clock();
        let plan = Plan { parallel: true, ..plan(4) };
        let mesh = run(&mut fake, &clock, &plan, &mut Live::on_stderr(false));
        assert!(mesh.is_fine() && mesh.worst_bandwidth.is_empty());
        let known = mesh.bandwidth_bytes_per_second.iter().flatten().flatten();
        assert_eq!(known.count(), 12);
        // Six rounds of two tests.
        assert_eq!(fake.log.iter().filter(|line| *line == "run").count(), 12);
        let json: serde_json::Value =
            serde_json::from_str(&crate::load::report::json(&mesh)).unwrap();
        assert_eq!(json["latency_ns"][0], serde_json::json!([null, 8e6, 8e6, 8e6]));
    }
}
