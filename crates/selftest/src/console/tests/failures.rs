//! Silent nodes, and sessions that end during a command.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{FEATURES, MessageType};

use super::rig::{Rig, nid};
use crate::console::{Command, NodeError, NodeState, Reply, Target};

#[test]
fn a_silent_node_is_reported_at_the_deadline() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    for (wanted, given) in [(0, 3), (5, 5), (1000, 30)] {
        let id = rig.begin(Command::Stat { target: Target::Session, timeout: wanted });
        rig.pass(Duration::from_millis(given * 1000 - 1));
        assert!(rig.answer(id).is_none());
        rig.pass(Duration::from_millis(1));
        let Some(Ok(Reply::Stats(nodes))) = rig.answer(id) else { panic!("no answer in time") };
        assert_eq!(nodes[0].result, Err(NodeError::Rpc(Errno::ETIMEDOUT)));
        assert_eq!((nodes[0].nid, nodes[0].state), (nid(1), NodeState::Down));
        assert_eq!(nodes[1].result.unwrap().rpcs_sent, 7);
    }
    rig.finish();
}

#[test]
fn silent_nodes_do_not_delay_others() {
    const SILENT: u32 = 1500;
    let mut rig = Rig::new(SILENT + 1);
    rig.new_session(false).unwrap();
    let all: Vec<u32> = (1..=SILENT + 1).collect();
    rig.add_group("c", &all);
    for number in 1..=SILENT {
        rig.node(number).alive = false;
    }
    let id = rig.begin(Command::Stat { target: Target::Session, timeout: 5 });
    rig.pass(Duration::from_secs(5));
    let Some(Ok(Reply::Stats(nodes))) = rig.answer(id) else { panic!("no answer in time") };
    let answers: Vec<_> = nodes.iter().filter(|node| node.result.is_ok()).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].nid, nid(SILENT + 1));
    rig.finish();
}

#[test]
fn any_answer_makes_a_node_active_again() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    ping(&mut rig);
    assert_eq!(rig.states("c"), [NodeState::Down]);
    rig.node(1).alive = true;
    ping(&mut rig);
    assert_eq!(rig.states("c"), [NodeState::Active]);
    rig.node(1).session = None;
    ping(&mut rig);
    assert_eq!(rig.states("c"), [NodeState::Unknown]);
    rig.finish();
}

#[test]
fn commands_in_progress_are_answered_when_the_session_ends() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(1).alive = false;
    let waiting = [
        rig.begin(Command::Stat { target: Target::Session, timeout: 30 }),
        rig.begin(Command::Ping { target: Target::Session, timeout: 30 }),
        rig.begin(Command::DeleteGroup { group: "c".to_owned() }),
    ];
    let end = rig.begin(Command::EndSession {});
    for id in waiting {
        assert_eq!(rig.answer(id), Some(Err(Errno::ESHUTDOWN)));
    }
    assert!(matches!(rig.answer(end), Some(Ok(Reply::Nodes(_)))), "node 2 has answered");
    rig.node(1).alive = true;
    rig.finish();
}

#[test]
fn a_node_with_a_pending_answer_is_released_too() {
    let mut rig = Rig::new(1);
    rig.new_session(false).unwrap();
    rig.run(Command::AddGroup { group: "c".to_owned() }).unwrap();
    rig.node(1).alive = false;
    let add = rig.begin(Command::AddNodes { group: "c".to_owned(), nodes: vec![nid(1)] });
    rig.node(1).alive = true;
    rig.ask(Command::EndSession {});
    assert_eq!(rig.answer(add), Some(Err(Errno::ESHUTDOWN)));
    assert_eq!(rig.sent(MessageType::REMOVE_SESSION), [nid(1)]);
    rig.finish();
}

#[test]
fn a_session_does_not_expire_while_a_command_waits() {
    let mut rig = Rig::new(1);
    let (name, force) = ("short".to_owned(), false);
    rig.run(Command::NewSession { name, timeout: 1, force, features: FEATURES }).unwrap();
    rig.run(Command::AddGroup { group: "c".to_owned() }).unwrap();
    rig.node(1).alive = false;
    let add = rig.begin(Command::AddNodes { group: "c".to_owned(), nodes: vec![nid(1)] });
    rig.pass(Duration::from_secs(30));
    assert!(matches!(rig.answer(add), Some(Ok(Reply::Nodes(_)))));
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.run(Command::ListGroups {}), Err(Errno::ESHUTDOWN));
    rig.finish();
}

#[test]
fn silent_servers_keep_the_test_from_clients() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.node(2).alive = false;
    let nodes = rig.ask(Command::AddTest {
        batch: "batch".to_owned(),
        test: crate::console::TestSpec::Ping,
        loops: 5,
        concurrency: 2,
        distribute: (1, 1),
        from: "c".to_owned(),
        to: "s".to_owned(),
    });
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].result, Err(NodeError::Rpc(Errno::ETIMEDOUT)));
    assert!(rig.node(1).tests.is_empty());
    assert_eq!(rig.states("c"), [NodeState::Active]);
    rig.finish();
}

fn ping(rig: &mut Rig) {
    let answer = rig.run(Command::Ping { target: Target::Session, timeout: 3 });
    assert!(matches!(answer, Ok(Reply::Sessions(_))), "{answer:?}");
}
