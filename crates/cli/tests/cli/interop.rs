//! The checks for a real Lustre node, run against a Fulmar node.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fulmar::interop;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_net::{NiAddress, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;

/// Unprivileged, so that the tests need not run as root.
const PORT: u16 = 19888;

/// Returns an address that no other test uses.
fn address(test: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(127, 20 + (std::process::id() % 200) as u8, test, host).into()
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
    let (own, peer) = (address(1, 1), address(1, 2));
    let (_runtime, node) = start(peer, true);
    for _run in 0..2 {
        let (passed, text) = run(&options(own, peer));
        assert!(passed && text.ends_with("13 of 13 checks passed.\n"), "{text}");
    }
    node.stop();
}

#[test]
fn a_node_without_discovery_fails_the_checks_of_discovery() {
    let (own, peer) = (address(2, 1), address(2, 2));
    let (_runtime, node) = start(peer, false);
    let options = interop::Options { timeout: Duration::from_secs(1), ..options(own, peer) };
    let (passed, text) = run(&options);
    assert!(!passed && text.ends_with("11 of 13 checks passed.\n"), "{text}");
    node.stop();
}

#[test]
fn without_a_listener_the_first_check_explains_the_failure() {
    let (passed, text) = run(&options(address(3, 1), address(3, 2)));
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

#[test]
fn interfaces_are_given_by_address_or_name() {
    assert_eq!(interop::interface("fd00::1"), NiAddress::Ip("fd00::1".parse().unwrap()));
    assert_eq!(interop::interface("eth0"), NiAddress::Interface("eth0".into()));
}
