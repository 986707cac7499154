//! Nodes with IPv6 addresses, in a network namespace of their own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use common::{Host, pattern};
use fulmar_lnet::{EventKind, MdOptions};
use fulmar_net::{Buffer, Runtime};

const INSIDE: &str = "FULMAR_TEST_NAMESPACE";
const SET_UP: &str = "ip link set lo up && ip -6 address add fd00::1/128 dev lo nodad && \
                      ip -6 address add fd00::2/128 dev lo nodad || exit 77; exec \"$0\" --exact \
                      nodes_talk_over_ipv6 --nocapture";

#[test]
fn nodes_talk_over_ipv6() {
    if std::env::var(INSIDE).is_ok() {
        return talk();
    }
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", SET_UP]).arg(this).env(INSIDE, "yes");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == Some(101) => panic!("the test failed in its namespace"),
        // The test runner keeps what eprintln says of a test that passes.
        outcome => writeln!(
            std::io::stderr(),
            "\nNOT RUN: nodes over IPv6: no network namespace can be made: {outcome:?}"
        )
        .unwrap(),
    }
}

fn talk() {
    let runtime = Runtime::new(Some(2)).unwrap();
    let a = Host::start_at(&runtime, "fd00::1".parse().unwrap(), |_| ());
    let b = Host::start_at(&runtime, "fd00::2".parse().unwrap(), |_| ());
    let reply = a.admin.ping(b.id(), None, Duration::from_secs(5)).unwrap();
    assert_eq!(reply.nids, [b.nid]);
    b.admin.discover(a.nid, true).unwrap();
    common::eventually("three connections", || b.admin.connections().len() == 3);
    let staged = b.node.io_counters().payload_bytes_staged_in;
    for size in [1, 928, 1 << 20] {
        let (source, target) = (Buffer::new(size), Buffer::new(size));
        source.write_at(0, &pattern(size, size));
        let stored = b.offer(size as u64, &target, MdOptions::OP_PUT);
        let acknowledged = a.put(b.id(), size as u64, &source);
        stored.wait(EventKind::Put);
        acknowledged.wait(EventKind::Ack);
        assert!(target.to_vec(0, size) == pattern(size, size));
    }
    assert!(b.node.io_counters().payload_bytes_staged_in <= staged + 1);
    a.node.stop();
    b.node.stop();
}
