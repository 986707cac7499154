//! A node that fails ends its process. It has a process of its own: this program, run again.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_control::api::{Client, NetShow, Ping};
use fulmar_control::config::{Module, NodeConfig};
use fulmar_lnet::{Event, EventDone, MdId, Op};
use fulmar_net::Tap;
use fulmar_node::{Crossing, Node as Machine};

/// The environment variable with the path of the control socket.
const CONTROL: &str = "FULMAR_TEST_FAILURE";
/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(30);
const NETWORKS: &str = "tcp(127.0.0.1)";

/// Panics, under the node's lock, when the first message is sent or received.
#[derive(Debug)]
struct Trap;

impl Tap for Trap {
    fn posted(&self, _: &Op, _: Result<MdId, Errno>) {}

    fn crossing(&self, _: &Machine, _: &Crossing) {
        panic!("a credit was returned twice");
    }

    fn event(&self, _: &Event) {}

    fn handled(&self, _: EventDone) {}
}

/// The node, in its process.
#[test]
fn node() {
    let Ok(control) = std::env::var(CONTROL) else { return };
    let mut config = NodeConfig::default();
    config.set_networks(NETWORKS).unwrap();
    let port = fulmar_loopback::ports(1).to_string();
    config.set(Module::Lnet, "accept_port", &port).unwrap();
    config.control = Some(PathBuf::from(control));
    fulmar_daemon::run_observed(&config, Some(Arc::new(Trap)), |_| ()).unwrap();
}

#[test]
fn a_node_that_fails_reports_it_and_ends_with_status_1() {
    let control = std::env::temp_dir().join(format!("fulmar-fails-{}.sock", std::process::id()));
    let mut node = start(&control);
    let client = Client::new(&control);
    let ready = || client.call(&NetShow::default()).is_ok();
    eventually("the node is ready", &mut node, |_| ready());
    assert!(client.get("/metrics").unwrap().contains("\nfulmar_node_failed 0\n"));

    let nids = vec!["127.0.0.2@tcp".parse().unwrap()];
    // It is answered with the failure, or the node has ended before.
    let answer = client.call(&Ping { nids, source: None, timeout: Some(300) });
    assert!(!answer.is_ok_and(|answers| answers[0].result.is_ok()));
    assert!(client.call(&NetShow::default()).is_err(), "its state is not shown");

    let mut status = None;
    eventually("the process ends", &mut node, |node| {
        status = node.try_wait().unwrap();
        status.is_some()
    });
    let output = node.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(status.unwrap().code(), Some(1), "{text}");
    let report = text.find("fulmar: the node has failed").map(|at| &text[at..]);
    let report = report.unwrap_or_else(|| panic!("no report in:\n{text}"));
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines[1], "  what:   a credit was returned twice");
    assert!(lines[2].starts_with("  where:  ") && lines[2].contains("failure.rs:"), "{report}");
    assert!(lines[4].starts_with("  remedy: start the node again"), "{report}");
    assert!(!control.exists(), "the socket is removed");
}

fn start(control: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "node", "--nocapture"]).env(CONTROL, control);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until `done`.
fn eventually(what: &str, node: &mut Child, mut done: impl FnMut(&mut Child) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done(node) {
        if Instant::now() >= deadline {
            let _ = node.kill();
            panic!("{what} within {TIMEOUT:?}");
        }
        sleep(Duration::from_millis(10));
    }
}
