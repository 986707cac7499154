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
struct Removed(PathBuf);

impl Removed {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Removed {
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
    let pcap = Removed::new("again.pcapng");
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
    let pcap = Removed::new("run.pcapng");
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
