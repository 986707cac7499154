//! `fulmar sim` from the command line.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");

fn fulmar(words: &[&str]) -> Output {
    let place = env!("CARGO_TARGET_TMPDIR");
    Command::new(FULMAR).arg("sim").args(words).current_dir(place).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file that is removed on drop.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_seed_gives_the_same_log_twice() {
    let run = || fulmar(&["run", "--seed", "4", "--log"]);
    let (one, other) = (run(), run());
    assert!(one.status.success(), "{}", err(&one));
    assert!(out(&one).lines().count() > 100);
    assert_eq!(out(&one), out(&other));
}

#[test]
fn a_log_with_a_closed_reader_ends_silently() {
    for words in [&["run", "--log"][..], &["swarm", "--seeds", "0..1"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(FULMAR).arg("sim").args(words).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), ""), "{words:?}");
    }
}

#[test]
fn a_swarm_reports_which_seed_found_a_deliberate_defect() {
    let found = fulmar(&["swarm", "--seeds", "0..200", "--defect", "lost-sent"]);
    assert_eq!(found.status.code(), Some(1), "{}", err(&found));
    assert!(out(&found).starts_with("lost-sent was found by seed "), "{}", out(&found));
    let again = out(&found).lines().last().unwrap().to_owned();
    let words: Vec<&str> = again.split(' ').skip(2).collect();
    let pcap = TemporaryFile::new("again.pcapng");
    let again = fulmar(&[&words[..], &["--pcap", "again.pcapng"]].concat());
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("FAILED credits: "), "{}", err(&again));
    assert!(pcap.0.exists(), "{}", err(&again));
    let clean = fulmar(&["swarm", "--seeds", "3..5"]);
    assert!(clean.status.success() && out(&clean).contains("2 seeds, "), "{}", out(&clean));
}

#[test]
fn invalid_options_are_reported() {
    for (words, says) in [
        (&["swarm", "--seeds", "7"][..], "a range, such as 0..200"),
        (&["swarm", "--seeds", "7..7"], "no seed"),
        (&["run", "--defect", "no-such-defect"], "lost-sent, lost-resume"),
        (&["run", "--nodes", "1"], "1 is not in 2..=10000"),
        (&["run", "--rails", "--routed"], "cannot be used with"),
    ] {
        let output = fulmar(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains(says), "{words:?}: {}", err(&output));
    }
}

#[test]
fn tshark_reads_the_capture() {
    if Command::new("tshark").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "\nNOT RUN: tshark is needed: scripts/need.sh tshark");
        return;
    }
    let pcap = TemporaryFile::new("run.pcapng");
    let run = fulmar(&["run", "--seed", "4", "--log", "--pcap", "run.pcapng"]);
    assert!(run.status.success(), "{}", err(&run));
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&pcap.0).args(["-d", "tcp.port==988,lnet", "-Y", "lnet"]);
    let read = tshark.args(["-T", "fields", "-e", "lnet.msg_type"]).output().unwrap();
    assert!(read.status.success(), "{}", err(&read));
    let types = out(&read);
    let of = |number: &str| types.split([',', '\n']).filter(|text| *text == number).count();
    let written = |name: &str| out(&run).lines().filter(|line| line.ends_with(name)).count();
    for (number, name) in [("0", " ACK"), ("1", " PUT"), ("2", " GET"), ("3", " REPLY")] {
        // Messages truncated by a fault are missing.
        let (read, written) = (of(number), written(name));
        assert!(
            read > 0 && read <= written && read * 10 >= written * 9,
            "{name}: {read}/{written}"
        );
    }
    assert!(types.split([',', '\n']).all(|text| ["", "0", "1", "2", "3"].contains(&text)));
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", err(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const SHORT: [&str; 9] =
    ["path", "--rate", "500Mbit", "--rtt", "20ms", "--time", "1s", "--warmup", "1s"];

#[test]
fn a_path_is_simulated_beside_the_formula_and_drawn() {
    let picture = TemporaryFile::new("path.svg");
    let words = [&SHORT[..], &["--concurrency", "2", "--svg", "path.svg"]].concat();
    let text = out(&fulmar(&words));
    for row in ["write clients -> servers", "link A -> B", "bound by", "formula", "difference"] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    assert!(text.contains("RPCs in flight"), "{text}");
    let drawn = std::fs::read_to_string(&picture.0).unwrap();
    assert!(drawn.contains("Throughput") && drawn.contains("congestion window"));
    let value = json(&fulmar(&[&SHORT[..], &["--concurrency", "2", "--json"]].concat()));
    // Two transfers of 1 MiB in two round trips and the time of the transfers.
    let rate = value["simulated"]["bytes_per_second"].as_f64().unwrap();
    let (formula, apart) = (&value["formula"]["bytes_per_second"], 0.05);
    assert!((rate / formula.as_f64().unwrap() - 1.0).abs() < apart, "{value:#}");
    assert_eq!(value["simulated"]["bound"], "concurrency");
    assert_eq!(value["simulated"]["course"].as_array().unwrap().len(), 200);
}

#[test]
fn a_path_says_which_setting_bounds_it() {
    for (words, bound) in [
        (&["--tcp", "rmem=512k"][..], "receive_window"),
        (&["--tcp", "rmem=64M", "--tcp", "wmem=256k"], "send_buffer"),
        (
            &["--held", "--size", "64k", "--peer-credits", "4", "--concurrency", "32"],
            "peer_credits",
        ),
        (&["--test", "read", "--concurrency", "32"], "link"),
        (&["--loss", "1%"], "congestion_window"),
        (&["--node-rate", "100Mbit", "--tcp", "window=16M"], "interfaces"),
        (&["--test", "ping"], "concurrency"),
        (&["--routers", "1", "--concurrency", "32"], "link"),
    ] {
        let value = json(&fulmar(&[&SHORT[..], words, &["--json"]].concat()));
        assert_eq!(
            value["simulated"]["bound"], bound,
            "{words:?}: {:#}",
            value["simulated"]["waits"]
        );
    }
}

#[test]
fn a_sweep_has_a_row_for_each_value() {
    // Long enough for many RPCs: the rates are compared.
    let long = ["path", "--rate", "500Mbit", "--rtt", "20ms", "--time", "5s", "--warmup", "1s"];
    let text = out(&fulmar(&[&long[..], &["--sweep", "concurrency=1..4x2"]].concat()));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let first: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(first, ["concurrency", "1", "2", "4"], "{text}");
    let rate = |row: usize| rows[row][1].parse::<f64>().unwrap();
    assert!((rate(2) / rate(1) - 2.0).abs() < 0.1, "{text}");
    // 1 MiB in two round trips of 20 ms and its transfer, not at the default rate and round trip.
    assert!((130.0..150.0).contains(&rate(1)), "{text}");
}

#[test]
fn a_path_that_is_not_possible_is_refused_with_the_remedy() {
    for (words, says) in [
        (&["--rate", "100k"][..], "100k is too slow for the simulator: write 1Mbit or more"),
        (&["--rtt", "1000s"], "write 10s or less"),
        (&["--size", "161"], "write a multiple of 8 bytes up to 1M"),
        (&["--test", "raed"], "unknown test \"raed\": did you mean \"read\"?"),
        (&["--clients", "many"], "write a whole number from 1 to 5000"),
        (&["--tcp", "vegas"], "there is no setting \"vegas\": the settings of TCP are"),
        (&["--tcp", "rmem"], "rmem has no value: write rmem=SIZE"),
        (&["--tcp", "wmem=1"], "wmem=1: a buffer has 4096 bytes or more"),
        (&["--sweep", "svg=a"], "cannot vary"),
        (&["--sweep", "rtt=fast"], "--sweep rtt=fast: \"fast\" is not a valid time"),
        (&["--sweep", "concurency=1,2"], "did you mean \"concurrency\"?"),
        (&["--sweep", "held=yes"], "--held has no value: run once with it, and once without"),
        (&["--time", "0"], "a millisecond or more"),
    ] {
        let output = fulmar(&[&["path"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains(says), "{words:?}: {}", err(&output));
    }
    let output = fulmar(&[&SHORT[..], &["--svg", "/nowhere/a.svg"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("give another file with --svg"), "{}", err(&output));
}

/// The size of a reply, and several loads between the same nodes, are counted as all others.
#[test]
fn rpcs_of_any_size_and_of_each_load_are_counted() {
    let rpcs = |size: &str| {
        let value =
            json(&fulmar(&[&SHORT[..], &["--test", "read", "--size", size, "--json"]].concat()));
        value["simulated"]["loads"][0]["rpcs"].as_u64().unwrap()
    };
    assert!(rpcs("160").abs_diff(rpcs("168")) < 10, "{} {}", rpcs("160"), rpcs("168"));
    let file = TemporaryFile::new("same.yaml");
    let text = "time: 1s\nwarmup: 1s\nlinks: [{between: [x, y], rate: 1G, rtt: 20ms}]\nnodes:\n\
        - {name: a, interfaces: [{site: x, rate: 1G}]}\n\
        - {name: b, interfaces: [{site: y, rate: 1G}]}\nloads:\n\
        - {from: a, to: b, test: write, size: 64k, concurrency: 2}\n\
        - {from: a, to: b, test: read, size: 64k, concurrency: 2}\n\
        - {from: a, to: b, test: ping}\n";
    std::fs::write(&file.0, text).unwrap();
    let value = json(&fulmar(&["path", "same.yaml", "--json"]));
    let rpcs = |n: usize| value["simulated"]["loads"][n]["rpcs"].as_u64().unwrap();
    // A write takes two round trips, a read and a ping one.
    assert!((40..=50).contains(&rpcs(0)), "{value:#}");
    assert!((85..=100).contains(&rpcs(1)) && (42..=50).contains(&rpcs(2)), "{value:#}");
}

#[test]
fn each_example_of_a_path_is_simulated() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paths");
    let mut count = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let file = entry.unwrap().path();
        let value = json(&fulmar(&["path", file.to_str().unwrap(), "--json"]));
        let loads = value["simulated"]["loads"].as_array().unwrap();
        assert!(loads.len() > 1 && loads.iter().all(|load| load["rpcs"].as_u64() > Some(20)));
        // Its buffers are larger than the defaults, which would be the bound.
        assert_ne!(value["simulated"]["bound"], "receive_window", "{}", file.display());
        count += 1;
    }
    assert!(count > 1);
    let lost = TemporaryFile::new("lost.yaml");
    std::fs::write(
        &lost.0,
        "nodes:\n - {name: a, interfaces: [{site: x, rate: 1G}]}\n\
        loads:\n - {from: a, to: b}\n",
    )
    .unwrap();
    let output = fulmar(&["path", "lost.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("lost.yaml:4:18: error: unknown name of nodes"),
        "{}",
        err(&output)
    );
    // Links that do not join all sites.
    let text = "links: [{between: [x, y], rate: 1G}, {between: [z, w], rate: 1G}]\nnodes:\n\
        - {name: a, interfaces: [{site: x, rate: 1G}]}\n\
        - {name: b, interfaces: [{site: z, rate: 1G}]}\nloads:\n- {from: a, to: b}\n";
    std::fs::write(&lost.0, text).unwrap();
    let output = fulmar(&["path", "lost.yaml"]);
    let says = "no link leads from the site x to the site z: add one";
    assert!(err(&output).contains(says), "{}", err(&output));
    let output = fulmar(&["path", "lost.yaml", "--rate", "1G"]);
    assert!(err(&output).contains("cannot be used with"), "{}", err(&output));
}
