//! Groups: how nodes enter and leave the session.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{JoinRequest, MessageType, Name, SessionId};
use fulmar_lnet_wire::{Nid, ProcessId};

use super::rig::{Rig, nid};
use crate::console::limits::NODES_MAX;
use crate::console::{Command, NodeError, NodeState, NodesReply, Reply, Target};

#[test]
fn a_node_in_many_groups_enters_and_leaves_once() {
    let mut rig = Rig::with_groups(&[1, 2], &[2, 3]);
    assert_eq!(rig.sent(MessageType::MAKE_SESSION), [nid(1), nid(2), nid(3)]);
    let again = rig.add_nodes("c", &[2, 3, 3]);
    assert_eq!(again.len(), 2, "one answer for each node");
    assert!(again.iter().all(|node| node.result == Ok(()) && node.state == NodeState::Active));
    assert_eq!(rig.states("c").len(), 3);

    rig.ask(Command::DeleteGroup { group: "c".to_owned() });
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1)], "the others are in group s");
    rig.ask(Command::DeleteGroup { group: "s".to_owned() });
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1), nid(2), nid(3)]);
    assert!(rig.nodes.values().all(|node| node.session.is_none()));
    rig.finish();
}

#[test]
fn nodes_that_fail_to_enter_stay_in_the_group_and_refresh_tries_them_again() {
    let mut rig = Rig::new(3);
    rig.new_session(false).unwrap();
    rig.node(2).session = Some((OTHER, "other".parse().unwrap(), 1));
    rig.node(3).alive = false;
    let nodes = rig.add_group("c", &[1, 2, 3, 4]);
    let results: Vec<_> = nodes.iter().map(|node| (node.state, node.result)).collect();
    assert_eq!(
        results,
        [
            (NodeState::Active, Ok(())),
            (NodeState::Busy, Err(NodeError::Framework(Errno::EBUSY))),
            (NodeState::Down, Err(NodeError::Rpc(Errno::ETIMEDOUT))),
            (NodeState::Down, Err(NodeError::Rpc(Errno::EHOSTUNREACH))),
        ]
    );
    rig.node(2).session = None;
    rig.node(3).alive = true;
    let nodes = rig.ask(Command::RefreshGroup { group: "c".to_owned() });
    assert_eq!(nodes.iter().map(|node| node.nid).collect::<Vec<_>>(), [nid(2), nid(3), nid(4)]);
    let mut states = [NodeState::Active; 4];
    states[3] = NodeState::Down;
    assert_eq!(rig.states("c"), states);
    rig.finish();
}

#[test]
fn two_requests_to_enter_need_two_requests_to_leave() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    stat(&mut rig);
    assert_eq!(rig.states("c"), [NodeState::Down]);
    rig.node(1).alive = true;
    rig.ask(Command::RefreshGroup { group: "c".to_owned() });
    assert_eq!(rig.node(1).session.unwrap().2, 2, "it counts the requests");
    rig.ask(Command::EndSession {});
    assert_eq!(rig.node(1).session, None);
    rig.finish();
}

#[test]
fn clean_removes_nodes_by_state_and_remove_by_nid() {
    let mut rig = Rig::with_groups(&[1, 2, 3], &[3]);
    rig.node(2).session = Some((OTHER, Name::EMPTY, 1));
    stat(&mut rig);
    let states = vec![NodeState::Busy, NodeState::Down];
    let gone = rig.ask(Command::CleanGroup { group: "c".to_owned(), states });
    assert_eq!(gone.iter().map(|node| node.nid).collect::<Vec<_>>(), [nid(2)]);
    assert!(rig.sent(MessageType::REMOVE_SESSION).is_empty(), "it is in another session");

    let nodes = vec![nid(3), nid(1), nid(9)];
    let gone = rig.ask(Command::RemoveNodes { group: "c".to_owned(), nodes });
    assert_eq!(gone.iter().map(|node| node.nid).collect::<Vec<_>>(), [nid(1), nid(3)]);
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1)], "node 3 is in group s");
    assert!(rig.states("c").is_empty());
    rig.finish();
}

#[test]
fn leaving_twice_is_not_an_error() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).session = None;
    let nodes = rig.ask(Command::DeleteGroup { group: "c".to_owned() });
    assert_eq!((nodes[0].result, nodes[0].state), (Ok(()), NodeState::Unknown));
    rig.finish();
}

#[test]
fn features_are_those_of_the_first_node_and_others_must_agree() {
    let mut rig = Rig::new(3);
    rig.new_session(false).unwrap();
    for number in [1, 2] {
        rig.node(number).features = 0;
    }
    rig.run(Command::AddGroup { group: "c".to_owned() }).unwrap();
    let nodes = vec![nid(1), nid(2), nid(3)];
    let answer = rig.run(Command::AddNodes { group: "c".to_owned(), nodes });
    let Ok(Reply::Nodes(NodesReply { features, nodes })) = answer else { panic!("{answer:?}") };
    assert_eq!(features, 0);
    let results: Vec<_> = nodes.iter().map(|node| node.result).collect();
    assert_eq!(results, [Ok(()), Ok(()), Err(NodeError::Framework(Errno::EPROTO))]);
    rig.finish();
}

#[test]
fn names_are_checked_and_bad_nodes_refused() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    let add = |rig: &mut Rig, name: &str| rig.run(Command::AddGroup { group: name.to_owned() });
    assert_eq!(add(&mut rig, ""), Err(Errno::EINVAL));
    assert_eq!(add(&mut rig, &"g".repeat(32)), Err(Errno::EINVAL));
    assert_eq!(add(&mut rig, "c"), Err(Errno::EEXIST));
    assert_eq!(add(&mut rig, &"g".repeat(31)), Ok(Reply::Done));

    let add = |group: &str, nodes| Command::AddNodes { group: group.to_owned(), nodes };
    assert_eq!(rig.run(add("nowhere", vec![nid(1)])), Err(Errno::ENOENT));
    assert_eq!(rig.run(add("c", vec![Nid::ANY])), Err(Errno::EINVAL));
    assert_eq!(rig.run(add("c", vec!["fe80::1@tcp".parse().unwrap()])), Err(Errno::EINVAL));
    let crowd = (1..=NODES_MAX as u32 + 1).map(nid).collect();
    assert_eq!(rig.run(add("c", crowd)), Err(Errno::ENOSPC));
    rig.finish();
}

#[test]
fn nodes_are_named_by_group_or_nid_and_must_be_in_the_session() {
    let mut rig = Rig::with_groups(&[1, 2], &[2]);
    let mut ping = |target| match rig.run(Command::Ping { target, timeout: 5 }) {
        Ok(Reply::Sessions(nodes)) => Ok(nodes.iter().map(|node| node.nid).collect::<Vec<_>>()),
        Err(errno) => Err(errno),
        other => panic!("{other:?}"),
    };
    assert_eq!(ping(Target::Session), Ok(vec![nid(1), nid(2)]));
    assert_eq!(ping(Target::Group("s".to_owned())), Ok(vec![nid(2)]));
    assert_eq!(ping(Target::Group("x".to_owned())), Err(Errno::ENOENT));
    assert_eq!(ping(Target::Nodes(vec![nid(2), nid(7), nid(2)])), Ok(vec![nid(2)]));
    assert_eq!(ping(Target::Nodes(vec![nid(7)])), Err(Errno::ENOENT));
    let batch = |servers| Target::Batch { name: "batch".to_owned(), servers };
    assert_eq!(ping(batch(false)), Ok(vec![]));
    rig.finish();
}

#[test]
fn a_node_may_ask_to_join() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    let join = |rig: &mut Rig, features, session, group: &str, number| {
        let request = JoinRequest { reply_id: 1, session, group: group.parse().unwrap() };
        let from = ProcessId::lustre(nid(number));
        Errno(rig.console.join(rig.now, features, from, &request).0.status as i32)
    };
    let any = SessionId::INVALID;
    assert_eq!(join(&mut rig, 0, any, "g", 9), Errno::EPROTO);
    assert_eq!(join(&mut rig, 1, OTHER, "g", 9), Errno::EBUSY);
    assert_eq!(join(&mut rig, 1, any, "c", 1), Errno::EEXIST);
    assert_eq!(join(&mut rig, 1, any, "g", 9), Errno(0));
    assert_eq!(rig.states("g"), [NodeState::Active]);
    rig.console.check_invariants().unwrap();
    rig.ask(Command::EndSession {});
    assert_eq!(join(&mut rig, 1, any, "g", 9), Errno::ESRCH);
    rig.finish();
}

#[test]
fn ten_thousand_nodes_take_turns() {
    let mut rig = Rig::new(10_000);
    rig.new_session(false).unwrap();
    let numbers: Vec<u32> = (1..=10_000).collect();
    let nodes = rig.add_group("c", &numbers);
    assert!(nodes.iter().all(|node| node.result == Ok(())));
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.sent(MessageType::DEBUG).len(), 10_000);
    rig.finish();
}

const OTHER: SessionId = SessionId { nid: Nid::LOOPBACK, stamp: 5 };

fn stat(rig: &mut Rig) {
    let answer = rig.run(Command::Stat { target: Target::Session, timeout: 3 });
    assert!(matches!(answer, Ok(Reply::Stats(_))), "{answer:?}");
}
