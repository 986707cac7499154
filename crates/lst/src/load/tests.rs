//! Complete measurements against a console with simulated nodes.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_selftest::console::{DataCheck, TestSpec};

use super::drive::{Cell, Flow, measure};
use super::fake::{Fake, FakeNode, nid};
use super::grid::{Grid, Point};
use super::live::Live;
use super::report::Report;
use super::session::Failure;
use super::sweep::Sweep;

const WRITE: TestSpec =
    TestSpec::Brw { write: true, check: DataCheck::None, size: 1 << 20, offset: 0 };

/// Nodes 1 and 2 write to node 3.
fn cell() -> Cell {
    Cell {
        name: "run-1".to_owned(),
        flows: vec![Flow { from: vec![nid(1), nid(2)], to: vec![nid(3)] }],
        test: WRITE,
        concurrency: 8,
        distribute: (1, 1),
        time: Duration::from_secs(4),
        warmup: Duration::from_secs(1),
        force: false,
    }
}

fn report(fake: &mut Fake, cell: &Cell) -> Report {
    let clock = fake.clock();
    let outcome = measure(fake, &clock, cell, &mut |_| ()).unwrap();
    assert!(!fake.has_session(), "the session has ended");
    Report::new(cell, &outcome)
}

/// The requests of an undisturbed measurement of [`cell`].
const USUAL: [&str; 7] = [
    "new force=false",
    "nodes clients0 2",
    "nodes servers0 1",
    "test clients0 servers0",
    "run",
    "stop force=false",
    "end",
];

#[test]
fn a_measurement_is_a_table_of_all_results() {
    let mut fake = Fake::new(3);
    let report = report(&mut fake, &cell());
    let expected = "\
brw write 1M, check none, concurrency 8, distribute 1:1: 4.0 s after 1 s of warm-up

node          role     MB/s  MiB/s  RPC/s  latency min  median   p99   max  errors  CPU s/GB  retransmits  window
10.0.0.1@tcp  client  1,049  1,000  1,000         8 ms    8 ms  8 ms  8 ms       0     0.095            2   3 MiB
10.0.0.2@tcp  client  1,049  1,000  1,000         8 ms    8 ms  8 ms  8 ms       0     0.095            2   3 MiB
10.0.0.3@tcp  server  2,097  2,000  2,000            -       -     -     -       0     0.095            2   3 MiB
total                 2,097  2,000  2,000         8 ms    8 ms  8 ms  8 ms       0     0.191            6   3 MiB
";
    assert_eq!(report.text(), expected);
    assert_eq!(fake.log, USUAL);
}

#[test]
fn kernel_nodes_report_only_rates_and_errors() {
    let mut fake = Fake::new(3);
    fake.nodes[1] = FakeNode::kernel();
    let report = report(&mut fake, &cell());
    let expected = "\
node          role     MB/s  MiB/s  RPC/s  latency min  median   p99   max  errors  CPU s/GB  retransmits  window
10.0.0.1@tcp  client  1,049  1,000  1,000         8 ms    8 ms  8 ms  8 ms       0     0.095            2   3 MiB
10.0.0.2@tcp  client  1,049  1,000  1,000            -       -     -     -       0         -            -       -
10.0.0.3@tcp  server  2,097  2,000  2,000            -       -     -     -       0     0.095            2   3 MiB
total                 2,097  2,000  2,000         8 ms    8 ms  8 ms  8 ms       0         -            -   3 MiB

The latency of 1 of the clients is unknown.
";
    assert!(report.text().ends_with(expected), "{}", report.text());
}

#[test]
fn json_and_csv_have_the_same_results() {
    let mut fake = Fake::new(3);
    let report = report(&mut fake, &cell());
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    let load = serde_json::json!({
        "test": "brw write", "size": 1_048_576, "check": "none", "concurrency": 8,
        "distribute": "1:1", "warmup_seconds": 1.0,
    });
    assert_eq!(json["load"], load);
    let node = serde_json::json!({
        "node": "10.0.0.3@tcp", "role": "server", "bytes_per_second": 2_097_152_000.0,
        "rpcs_per_second": 2000.0, "latency_ns": null, "errors": 0,
        "cpu_seconds_per_gb": 0.095_367_431_640_625, "tcp_retransmits": 2,
        "tcp_window_bytes": 3_145_728,
    });
    assert_eq!(json["nodes"][2], node);
    let latency = serde_json::json!({
        "min": 8_000_000, "median": 8_000_000, "p99": 8_000_000, "max": 8_000_000,
    });
    assert_eq!((&json["total"]["latency_ns"], &json["seconds"]), (&latency, &4.0.into()));
    let csv = report.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[3], "10.0.0.3@tcp,server,2097152000,2000,,,,,0,0.095367,2,3145728");
    assert_eq!(lines.len(), 5);
}

#[test]
fn a_failed_node_is_reported_and_the_others_continue() {
    let mut fake = Fake::new(3);
    fake.nodes[1].dies_at = Some(Duration::from_millis(2_500));
    let report = report(&mut fake, &cell());
    let text = report.text();
    assert!(text.contains("10.0.0.1@tcp  client  1,049"), "{text}");
    assert!(text.contains("10.0.0.2@tcp  client      -"), "{text}");
    assert!(text.ends_with("\n\n10.0.0.2@tcp does not answer (Connection timed out)\n"), "{text}");
    let total = &report.total;
    assert_eq!((total.cpu_seconds_per_gb, total.tcp_retransmits), (None, None));
    assert_eq!(fake.log[5], "stop force=true");
}

#[test]
fn a_stopped_load_ends_the_measurement() {
    let mut fake = Fake::new(3);
    fake.nodes[0].errs_at = Some(Duration::from_millis(1_500));
    fake.nodes[1].errs_at = Some(Duration::from_millis(2_500));
    let clock = fake.clock();
    let outcome = measure(&mut fake, &clock, &cell(), &mut |_| ()).unwrap();
    assert!(!outcome.is_fine());
    let report = Report::new(&cell(), &outcome);
    assert_eq!(report.total.errors, 2);
    assert_eq!(report.failed[1].why, "stopped early: a test stops at its first error");
    assert_eq!(super::clock::Clock::now(&clock), Duration::from_secs(3));
}

#[test]
fn an_interrupt_stops_the_load_and_reports_the_results() {
    let mut fake = Fake::new(3);
    fake.stop_at = Some(Duration::from_secs(3));
    let report = report(&mut fake, &cell());
    assert!(report.interrupted);
    assert_eq!((report.seconds, report.total.rpcs_per_second), (2.0, Some(2000.0)));
    assert_eq!(fake.log[5..], ["stop force=true", "end"]);
    assert!(report.text().contains("2.0 s after 1 s of warm-up, interrupted\n"));

    let mut fake = Fake::new(3);
    fake.stop_at = Some(Duration::from_millis(500));
    let report = self::report(&mut fake, &cell());
    assert_eq!((report.interrupted, report.total.bytes_per_second), (true, None));
}

#[test]
fn the_session_ends_after_any_failure() {
    for (command, ends) in [
        ("nodes", &["end"][..]),
        ("test", &["end"]),
        ("run", &["stop force=true", "end"]),
        ("measure", &["stop force=true", "end"]),
        ("query", &["stop force=false", "end"]),
    ] {
        let mut fake = Fake::new(3);
        fake.refuse = Some((command, Errno::EIO));
        let clock = fake.clock();
        let failure = measure(&mut fake, &clock, &cell(), &mut |_| ()).unwrap_err();
        assert!(matches!(failure, Failure::Refused { errno: Errno::EIO, .. }), "{failure:?}");
        assert!(!fake.has_session() && fake.log.ends_with(&ends_of(ends)), "{:?}", fake.log);
    }
}

fn ends_of(ends: &[&str]) -> Vec<String> {
    ends.iter().map(|end| (*end).to_owned()).collect()
}

#[test]
fn all_absent_nodes_are_reported() {
    let mut fake = Fake::new(3);
    (fake.nodes[0].away, fake.nodes[1].away) = (true, true);
    let clock = fake.clock();
    let failure = measure(&mut fake, &clock, &cell(), &mut |_| ()).unwrap_err();
    let expected = "cannot add the nodes to the session:\n  \
                    10.0.0.1@tcp does not answer (Connection timed out)\n  \
                    10.0.0.2@tcp does not answer (Connection timed out)";
    assert_eq!(failure.to_string(), expected);
    assert!(!fake.has_session());
}

#[test]
fn sessions_of_others_are_replaced_only_with_force() {
    let mut fake = Fake::new(3);
    fake.occupy("theirs");
    let clock = fake.clock();
    let failure = measure(&mut fake, &clock, &cell(), &mut |_| ()).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "this node already has the session \"theirs\" (key 4711): end it with \"LST_SESSION=4711 \
         lst end_session\", or add --force"
    );
    assert!(fake.has_session() && fake.log.is_empty());
    let forced = Cell { force: true, ..cell() };
    measure(&mut fake, &clock, &forced, &mut |_| ()).unwrap();
    assert_eq!(fake.log[0], "new force=true");
}

/// Measures the points of a grid.
fn sweep(fake: &mut Fake, grid: &str, repeats: u32) -> Sweep {
    let grid: Grid = grid.parse().unwrap();
    let at = |point: Point| {
        let size = point.size.unwrap_or(1 << 20);
        let test = TestSpec::Brw { write: true, check: DataCheck::None, size, offset: 0 };
        (point, Cell { test, concurrency: point.concurrency.unwrap_or(1), ..cell() })
    };
    let cells: Vec<_> = grid.points().into_iter().map(at).collect();
    let (clock, mut live) = (fake.clock(), Live::on_stderr(false));
    Sweep::measure(fake, &clock, &cells, repeats, &mut live)
}

#[test]
fn a_sweep_repeats_every_point_in_its_own_session() {
    let mut fake = Fake::new(3);
    let sweep = sweep(&mut fake, "concurrency=1..4x4,size=64k,1M", 2);
    let expected = "\
brw write, check none, distribute 1:1: 2 × 4 s after 1 s of warm-up

size  concurrency  MB/s mean  sd    min    max  RPC/s  median   p99  errors
64k             1      16.38   0  16.38  16.38    250    8 ms  8 ms       0
64k             4      65.54   0  65.54  65.54  1,000    8 ms  8 ms       0
1M              1      262.1   0  262.1  262.1    250    8 ms  8 ms       0
1M              4      1,049   0  1,049  1,049  1,000    8 ms  8 ms       0
";
    assert_eq!(sweep.text(), expected);
    assert_eq!(fake.log, USUAL.repeat(8));
    let markdown = "\
brw write, check none, distribute 1:1: 2 × 4 s after 1 s of warm-up, mean MB/s ± standard deviation.

| size | 1 at a time | 4 at a time |
|------|------------:|------------:|
| 64k  |   16.38 ± 0 |   65.54 ± 0 |
| 1M   |   262.1 ± 0 |   1,049 ± 0 |
";
    assert_eq!(sweep.markdown(), markdown);
    let csv = sweep.csv();
    let line = csv.lines().nth(1).unwrap();
    assert!(
        line.starts_with("65536,1,2,16384000,0,16384000,16384000,250,0,250,250,8000000,"),
        "{line}"
    );
    assert!(sweep.is_fine());
}

#[test]
fn a_failed_sweep_keeps_its_results() {
    let mut fake = Fake::new(3);
    // The second of four measurements.
    fake.nodes[2].dies_at = Some(Duration::from_secs(7));
    let sweep = sweep(&mut fake, "concurrency=1,2", 2);
    assert!(matches!(&sweep.failure, Some(Failure::Nodes { .. })));
    let text = sweep.text();
    assert!(text.contains("1M              1      262.1   -"), "{text}");
    assert!(text.contains("1M              2          -   -"), "{text}");
    assert!(text.contains("10.0.0.3@tcp does not answer"), "{text}");
    assert!(!sweep.is_fine() && !fake.has_session());
}
