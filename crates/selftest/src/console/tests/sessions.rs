//! Sessions: one for each console, with a key, while it is used.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{FEATURES, MessageType, Name, SessionId};

use super::rig::{KEY, Rig, nid};
use crate::console::{Command, KeyedCommand, NodeState, Reply, SessionInfo};

#[test]
fn a_second_session_needs_force() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    assert_eq!(rig.new_session(false), Err(Errno::EEXIST));
    let before = info(&mut rig);
    assert!(rig.new_session(true).is_ok());
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1), nid(2)]);
    let after = info(&mut rig);
    assert_eq!((before.nodes, after.nodes), (2, 0));
    assert!(after.stamp > before.stamp, "the ID differs");
    rig.finish();
}

#[test]
fn a_forced_session_does_not_wait_for_dead_nodes() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    let id = { rig.begin(new_session(true)) };
    assert!(matches!(rig.answer(id), Some(Ok(Reply::Session(_)))), "answered at once");
    assert_eq!(rig.add_group("c", &[2])[0].state, NodeState::Active);
    rig.pass(Duration::from_secs(31));
    assert_eq!(rig.states("c"), [NodeState::Active], "old replies do not reach the new session");
    rig.finish();
}

#[test]
fn commands_need_the_key_except_show_and_new_session() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    let other = KEY + 1;
    for command in [
        Command::EndSession {},
        Command::ListGroups {},
        Command::AddGroup { group: "g".to_owned() },
        Command::Run { batch: "batch".to_owned(), timeout: 0 },
    ] {
        let id = rig.begin_with(other, command);
        assert_eq!(rig.answer(id), Some(Err(Errno::EACCES)));
    }
    let id = rig.begin_with(other, Command::ShowSession {});
    assert!(matches!(rig.answer(id), Some(Ok(Reply::Session(_)))));
    let id = rig.begin_with(other, new_session(true));
    assert!(matches!(rig.answer(id), Some(Ok(Reply::Session(info))) if info.key == other));
}

#[test]
fn commands_need_a_session() {
    let mut rig = Rig::new(1);
    for command in [Command::EndSession {}, Command::ShowSession {}, Command::ListBatches {}] {
        assert_eq!(rig.run(command), Err(Errno::ESRCH));
    }
}

#[test]
fn a_session_needs_a_4_byte_nid_a_name_and_supported_features() {
    let mut rig = Rig::new(1);
    let mut rpcs = crate::rpc::Rpcs::new(&crate::api::Config::default());
    let command = KeyedCommand { key: KEY, command: new_session(false) };
    rig.console.begin(rig.now, crate::api::CommandId(9), None, command, &mut rpcs);
    assert_eq!(rig.console.poll_answer().unwrap().1, Err(Errno::EADDRNOTAVAIL));
    for (name, features) in [("", 1), (&*"n".repeat(32), 1), ("n", 2)] {
        let name = name.to_owned();
        let command = Command::NewSession { name, timeout: 300, force: false, features };
        assert_eq!(rig.run(command), Err(Errno::EINVAL));
    }
}

#[test]
fn nodes_are_released_when_the_session_ends() {
    let mut rig = Rig::with_groups(&[1, 2], &[3]);
    rig.node(2).session = Some((OTHER, Name::EMPTY, 1));
    let nodes = rig.ask(Command::EndSession {});
    let states: Vec<_> = nodes.iter().map(|node| (node.nid, node.result.is_ok())).collect();
    assert_eq!(states, [(nid(1), true), (nid(2), false), (nid(3), true)]);
    assert!(rig.node(1).session.is_none() && rig.node(3).session.is_none());
    assert_eq!(rig.node(2).session.unwrap().0, OTHER, "not a session of this console");
    assert_eq!(rig.run(Command::ShowSession {}), Err(Errno::ESRCH));
    rig.finish();
}

#[test]
fn pings_keep_the_nodes_in_the_session() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    for _ in 0..30 {
        rig.pass(Duration::from_secs(10));
        let _ = info(&mut rig);
    }
    let pings = rig.sent(MessageType::DEBUG).len();
    // One ping for each node in each half of 100 s, at the next round of 8 s.
    assert_eq!(pings, 2 * (300 / 56));
    rig.node(1).timeout = 0;
    rig.ask(Command::EndSession {});
    rig.log.clear();
    rig.new_session(false).unwrap();
    rig.add_group("c", &[1]);
    rig.pass(Duration::from_secs(80));
    assert_eq!(
        rig.sent(MessageType::DEBUG).len(),
        10,
        "a node with timeout 0 is pinged in each round"
    );
    rig.finish();
}

#[test]
fn a_node_without_ping_reply_is_down_and_not_pinged_again() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    rig.pass(Duration::from_secs(100));
    assert_eq!(rig.states("c"), [NodeState::Down]);
    assert_eq!(rig.states("s"), [NodeState::Active]);
    let to_dead = rig.sent(MessageType::DEBUG).iter().filter(|to| **to == nid(1)).count();
    assert_eq!(to_dead, 1);
    rig.finish();
}

#[test]
fn an_unused_session_expires_and_releases_its_nodes() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.pass(Duration::from_secs(299));
    assert!(rig.node(1).session.is_some());
    rig.pass(Duration::from_secs(10));
    assert!(rig.node(1).session.is_none() && rig.node(2).session.is_none());
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1), nid(2)]);
    assert_eq!(rig.run(Command::ListGroups {}), Err(Errno::ESHUTDOWN));
    assert_eq!(rig.run(Command::EndSession {}), Err(Errno::ESHUTDOWN));
    assert_eq!(rig.run(Command::ShowSession {}), Err(Errno::ESRCH));
    assert_eq!(rig.console.poll_timeout(), None, "no timeout is pending");
    assert!(rig.new_session(false).is_ok(), "there is nothing to replace");
    rig.finish();
}

#[test]
fn a_thousand_sessions_leave_nothing_behind() {
    let mut rig = Rig::new(3);
    for _ in 0..1000 {
        rig.new_session(false).unwrap();
        rig.add_group("c", &[1, 2, 3]);
        rig.ask(Command::EndSession {});
        rig.log.clear();
        rig.console.is_idle().unwrap();
    }
    rig.finish();
}

const OTHER: SessionId = SessionId { nid: fulmar_lnet_wire::Nid::LOOPBACK, stamp: 5 };

fn new_session(force: bool) -> Command {
    Command::NewSession { name: "far".to_owned(), timeout: 300, force, features: FEATURES }
}

fn info(rig: &mut Rig) -> SessionInfo {
    match rig.run(Command::ShowSession {}) {
        Ok(Reply::Session(info)) => info,
        other => panic!("no session: {other:?}"),
    }
}
