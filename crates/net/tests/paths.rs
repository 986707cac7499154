//! A way between two nodes fails and comes back: its link goes, its address goes, or packets vanish
//! and nothing says so. Each node has a network namespace of its own, with a bridge between them.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use common::{Events, Host, eventually, pattern};
use fulmar_lnet::{EventKind, MdOptions, views};
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_net::{Buffer, Runtime};

const ROLE: &str = "FULMAR_TEST_ROLE";
const NEAR: &str = "10.9.0.1";
const FAR: &str = "10.9.0.2";
const SET_UP: &str = "ip link set lo up && ip link add near type veth peer name port1 && \
                      ip link add port2 type veth peer name far && \
                      ip link add bridge type bridge && ip link set port1 master bridge && \
                      ip link set port2 master bridge && ip link set bridge up && \
                      ip link set port1 up && ip link set port2 up && \
                      ip address add 10.9.0.1/24 dev near && ip link set near up || exit 77; \
                      exec \"$0\" --exact a_way_fails_and_comes_back --nocapture";

#[test]
fn a_way_fails_and_comes_back() {
    match std::env::var(ROLE).as_deref() {
        Ok("near") => return near(),
        Ok(_) => return far(),
        Err(_) => {}
    }
    let this = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", SET_UP]).arg(this).env(ROLE, "near");
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == Some(101) => panic!("the test failed in its namespace"),
        // The test runner keeps what eprintln says of a test that passes.
        outcome => writeln!(
            std::io::stderr(),
            "\nNOT RUN: ways that fail: no network namespace can be made: {outcome:?}"
        )
        .unwrap(),
    }
}

fn near() {
    let peer = Peer::start();
    let runtime = Runtime::new(Some(2)).unwrap();
    let host = Host::start_at(&runtime, NEAR.parse().unwrap(), |_| ());
    let sender = Sender { host, far: "10.9.0.2@tcp".parse().unwrap() };
    sender.begin().wait(EventKind::Ack);
    eventually("a set of connections", || sender.conns() == 3);

    packets_vanish(&sender);
    link_goes(&sender, "ip link set near down", "ip link set near up");
    link_goes(&sender, "ip link set port1 down", "ip link set port1 up");
    link_goes(
        &sender,
        "ip address del 10.9.0.1/24 dev near",
        "ip address add 10.9.0.1/24 dev near",
    );

    shell("ip link set near down");
    let nid = sender.host.nid;
    sender.host.node.stop();
    let late = Host::start_at(&runtime, NEAR.parse().unwrap(), |_| ());
    assert!(!link_is_up(&late), "a link may be down from the start");
    assert_eq!(late.nid, nid);
    shell("ip link set near up");
    eventually("the link is up", || link_is_up(&late));
    late.node.stop();
    peer.finish();
}

/// The far port leaves the bridge: links stay up, and nothing arrives.
fn packets_vanish(sender: &Sender) {
    let retired = || sender.host.admin.counters().retired;
    shell("ip link set port2 nomaster");
    let vanished = sender.begin();
    eventually("the connections are retired", || retired() == 3);
    assert!(link_is_up(&sender.host));
    shell("ip link set port2 master bridge");
    let later = sender.begin();
    assert_eq!(later.wait(EventKind::Ack).status, Ok(()));
    assert_eq!(vanished.wait(EventKind::Ack).status, Ok(()), "TCP has delivered what was written");
    eventually("a new set of connections", || sender.conns() >= 6);
}

/// The way is gone as long as `gone` holds, and the node knows.
fn link_goes(sender: &Sender, gone: &str, back: &str) {
    shell(gone);
    eventually("the node knows that the link is down", || !link_is_up(&sender.host));
    shell(back);
    eventually("the node knows that the link is up", || link_is_up(&sender.host));
    let events = sender.begin();
    assert_eq!(events.wait(EventKind::Ack).status, Ok(()), "{back}");
}

fn link_is_up(host: &Host) -> bool {
    let is_up = |ni: views::Ni| ni.nid == host.nid && !ni.fatal;
    host.admin.nis().into_iter().any(is_up)
}

struct Sender {
    host: Host,
    far: Nid,
}

impl Sender {
    fn begin(&self) -> Events {
        let source = Buffer::new(5000);
        source.write_at(0, &pattern(1, 5000));
        self.host.put(ProcessId::lustre(self.far), 7, &source)
    }

    fn conns(&self) -> usize {
        self.host.admin.connections().len()
    }
}

/// A node that takes whatever is stored, until its input ends.
fn far() {
    println!("inside");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    shell("ip link set lo up && ip address add 10.9.0.2/24 dev far && ip link set far up");
    let runtime = Runtime::new(Some(1)).unwrap();
    let host = Host::start_at(&runtime, FAR.parse().unwrap(), |_| ());
    let target = Buffer::new(1 << 20);
    let _offered = host.offer(7, &target, MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE));
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    host.node.stop();
}

/// The far node's process.
struct Peer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Peer {
    fn start() -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new("unshare");
        command.arg("--net").arg(this).args(["--exact", "a_way_fails_and_comes_back"]);
        command.arg("--nocapture").env(ROLE, "far");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self { child, lines };
        this.wait_for("inside");
        shell(&format!("ip link set far netns {}", this.child.id()));
        writeln!(this.child.stdin.as_mut().unwrap(), "go").unwrap();
        this.wait_for("ready");
        this
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the far node has ended");
        }
    }

    fn finish(mut self) {
        drop(self.child.stdin.take());
        while self.lines.read_line(&mut String::new()).unwrap() > 0 {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has ended already, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shell(script: &str) {
    let status = Command::new("sh").args(["-c", script]).status().unwrap();
    assert!(status.success(), "{script}: {status}");
}
