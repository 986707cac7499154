//! The checks for real Lustre nodes and their file systems, run against Fulmar's.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulmar::interop;
use fulmar::interop::files::{Settings, check};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_net::{NiAddress, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

use crate::mounts::turn;
use crate::nodes::lab::{Lab, fulmar, ran};

/// Unprivileged, so that the tests need not run as root.
const PORT: u16 = 19888;

/// Returns an address that no other test uses.
fn address() -> IpAddr {
    fulmar_loopback::address().into()
}

fn start(address: IpAddr, discovery: bool) -> (Runtime, Node) {
    let runtime = Runtime::new(Some(1)).unwrap();
    let mut options = Options::default();
    options.config.socklnd.accept = AcceptMode::All;
    options.config.socklnd.accept_port = PORT;
    options.config.lnet.globals.discovery = discovery;
    options.nis.push(NiOptions::at(address));
    let node = Node::start(&runtime, options).unwrap();
    (runtime, node)
}

fn options(own: IpAddr, peer: IpAddr) -> interop::Options {
    interop::Options {
        interface: Some(NiAddress::Ip(own)),
        port: PORT,
        accept: AcceptMode::All,
        timeout: Duration::from_secs(5),
        ..interop::Options::new(Nid::of_ip(Net::TCP, peer))
    }
}

fn run(options: &interop::Options) -> (bool, String) {
    let mut out = Vec::new();
    let passed = interop::run(options, &mut out).unwrap();
    (passed, String::from_utf8(out).unwrap())
}

#[test]
fn a_fulmar_node_passes_every_check_repeatedly() {
    let (own, peer) = (address(), address());
    let (_runtime, node) = start(peer, true);
    for _run in 0..2 {
        let (passed, text) = run(&options(own, peer));
        assert!(passed && text.ends_with("13 of 13 checks passed.\n"), "{text}");
    }
    node.stop();
}

#[test]
fn a_node_without_discovery_fails_the_checks_of_discovery() {
    let (own, peer) = (address(), address());
    let (_runtime, node) = start(peer, false);
    let options = interop::Options { timeout: Duration::from_secs(1), ..options(own, peer) };
    let (passed, text) = run(&options);
    assert!(!passed && text.ends_with("11 of 13 checks passed.\n"), "{text}");
    node.stop();
}

#[test]
fn without_a_listener_the_first_check_explains_the_failure() {
    let (passed, text) = run(&options(address(), address()));
    assert!(!passed && text.ends_with("0 of 13 checks passed.\n"), "{text}");
    assert!(text.contains("FAIL  TCP connection and hello"), "{text}");
    assert!(text.contains("cannot be reached: Connection refused"), "{text}");
}

#[test]
fn nids_on_other_networks_than_tcp_are_refused() {
    let options = interop::Options::new("127.0.0.1@o2ib".parse().unwrap());
    let error = interop::run(&options, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "127.0.0.1@o2ib is on a network that is not supported: use a NID on tcp");
}

fn settings(only: &str) -> Settings {
    let time = Duration::from_millis(200);
    Settings { time, seed: 7, only: only.to_owned(), stop: Arc::default() }
}

/// Returns the results of the checks of a file system in two directories.
fn checked(one: &Path, two: &Path) -> String {
    let settings = settings("");
    let mut out = Vec::new();
    let passed = check(one, two, &settings, &mut out).unwrap();
    assert!(!passed, "a local file system has no layouts");
    String::from_utf8(out).unwrap()
}

#[test]
fn a_local_file_system_passes_the_checks_that_are_not_about_lustre() {
    let scratch = std::env::temp_dir().join(format!("fulmar-checked-{}", std::process::id()));
    std::fs::create_dir(&scratch).unwrap();
    let text = checked(&scratch, &scratch);
    // There fcntl locks are those of a process, whichever file it has open, and a read may see a write in part.
    let others = ["layouts of stripes", "fcntl locks", "the same records"];
    let is_other = |line: &&str| others.iter().any(|name| line.contains(name));
    let failed: Vec<&str> = text.lines().filter(|line| line.contains("FAIL")).collect();
    assert!(failed.iter().all(is_other) && failed[0].contains("layouts"), "{text}");
    assert!(text.contains("PASS  random data") && !text.contains("is left:"), "{text}");
    std::fs::remove_dir(&scratch).unwrap();
}

#[test]
fn one_check_of_a_file_system_can_be_made_alone() {
    let scratch = std::env::temp_dir().join(format!("fulmar-alone-{}", std::process::id()));
    std::fs::create_dir(&scratch).unwrap();
    let mut out = Vec::new();
    assert!(check(&scratch, &scratch, &settings("random data"), &mut out).unwrap());
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("PASS  random data") && text.ends_with("1 of 1 checks passed.\n"),
        "{text}"
    );
    let words = ["interop", "127.0.0.9@tcp:/lv", "--only", "no such check"];
    let (status, _, err) = ran(fulmar(&scratch).args(words));
    std::fs::remove_dir(&scratch).unwrap();
    assert_eq!(status, 2);
    assert!(err.contains("no check is called so; there are: names of"), "{err}");
}

#[test]
fn mounts_of_different_file_systems_fail_the_checks() {
    let scratch = std::env::temp_dir().join(format!("fulmar-differ-{}", std::process::id()));
    let sides = ["one", "two"].map(|name| scratch.join(name));
    sides.iter().for_each(|side| std::fs::create_dir_all(side).unwrap());
    let text = checked(&sides[0], &sides[1]);
    let passed: Vec<&str> = text.lines().filter(|line| line.contains("PASS")).collect();
    assert_eq!(passed, [""; 0], "{text}");
    assert_eq!(std::fs::read_dir(&sides[0]).unwrap().count(), 0, "{text}");
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn our_own_servers_pass_every_check_of_a_file_system() {
    let Some(_turn) = turn("checks of a mount") else { return };
    let lab = Lab::new("interop-files");
    let (networks, port) = ("tcp(127.0.0.59)", lab.port);
    let node = lab.up(59, &["fs", "--osts", "2", "--networks", networks]);
    let df = format!("lfs df 127.0.0.59@tcp:/lustre --port {port}");
    node.wait_for_success(&df);
    for target in ["MDT:0", "OST:0", "OST:1"] {
        node.wait_for_output(&df, target);
    }
    let scratch = lab.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let words = format!("interop 127.0.0.59@tcp:/lustre --port {port} --seconds 1 --timeout 60");
    let (status, out, err) = ran(fulmar(&scratch).args(words.split(' ')).env("TMPDIR", &scratch));
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("27 of 27 checks") || out.contains("26 of 26 checks"), "{out}");
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(scratch.to_str().unwrap()), "{mounts}");
    let left: Vec<_> = std::fs::read_dir(&scratch).unwrap().map(Result::unwrap).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn interfaces_are_given_by_address_or_name() {
    assert_eq!(interop::interface("fd00::1"), NiAddress::Ip("fd00::1".parse().unwrap()));
    assert_eq!(interop::interface("eth0"), NiAddress::Interface("eth0".into()));
}
