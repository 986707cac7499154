//! Batches and tests: the requests to each node, and when a batch runs.

use fulmar_base::Errno;
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{BatchId, Body, Direction, LOOP_FOREVER, MessageType, TestKind};

use super::rig::{Rig, nid};
use crate::console::{
    Answer, BatchInfo, Command, DataCheck, NodeError, NodeState, Reply, Target, TestSpec,
};

#[test]
fn a_test_goes_to_the_servers_and_then_to_the_clients_with_their_destinations() {
    let mut rig = Rig::with_groups(&[1, 2], &[3, 4, 5]);
    rig.log.clear();
    let test = AddTest { distribute: (1, 2), concurrency: 8, ..AddTest::default() }.command();
    let nodes = rig.ask(test);
    let order: Vec<_> = [3, 4, 5, 1, 2].map(nid).into();
    assert_eq!(nodes.iter().map(|node| node.nid).collect::<Vec<_>>(), order);
    assert_eq!(rig.sent(MessageType::TEST), order);

    let server = rig.node(3).tests[0];
    assert_eq!((server.is_client, server.bulk_id, server.destinations), (false, 0, 0));
    assert_eq!((server.loops, server.concurrency), (8, 8));
    let client = rig.node(2).tests[0];
    assert_eq!((client.is_client, client.destinations, client.loops), (true, 2, LOOP_FOREVER));
    assert_eq!(client.bulk_id, client.reply_id + 1, "the IDs of a client are consecutive");
    assert!(client.stop_on_error);
    let kind = TestKind::Brw { direction: Direction::WRITE, flags: 3, len: 8192, offset: 0 };
    assert_eq!((client.kind, server.kind), (kind, kind));
    let processes = |numbers: [u32; 2]| numbers.map(|number| ProcessId::lustre(nid(number)));
    assert_eq!(rig.node(1).lists, [processes([3, 4])]);
    assert_eq!(rig.node(2).lists, [processes([5, 3])]);
    rig.finish();
}

#[test]
fn clients_get_no_test_if_a_server_fails_but_the_test_stays() {
    let mut rig = Rig::with_groups(&[1], &[2, 3]);
    rig.node(2).refuses.insert(MessageType::TEST, Errno::ENOMEM);
    let nodes = rig.ask(add_test(WRITE));
    let results: Vec<_> = nodes.iter().map(|node| (node.nid, node.result)).collect();
    let refused = Err(NodeError::Framework(Errno::ENOMEM));
    assert_eq!(results, [(nid(2), refused), (nid(3), Ok(()))]);
    assert!(rig.node(1).tests.is_empty());
    assert_eq!(show(&mut rig, "batch").tests.len(), 1);
    rig.finish();
}

#[test]
fn a_test_needs_groups_whose_nodes_are_all_in_the_session() {
    let mut rig = Rig::with_groups(&[1, 2], &[3]);
    rig.run(Command::AddGroup { group: "empty".to_owned() }).unwrap();
    let from = |group| AddTest { from: group, ..AddTest::default() }.command();
    assert_eq!(rig.run(from("nowhere")), Err(Errno::ENOENT));
    assert_eq!(rig.run(from("empty")), Err(Errno::EINVAL));
    rig.node(2).alive = false;
    assert!(rig.run(Command::Stat { target: Target::Session, timeout: 3 }).is_ok());
    rig.log.clear();
    assert_eq!(rig.run(add_test(WRITE)), Err(Errno::ENETDOWN));
    assert!(rig.log.is_empty() && show(&mut rig, "batch").tests.is_empty());
    rig.finish();
}

#[test]
fn requests_that_crash_a_kernel_node_are_not_sent() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.log.clear();
    let brw = |size, offset| TestSpec::Brw { write: true, check: DataCheck::None, size, offset };
    for (size, offset) in [(0, 0), (100, 0), ((1 << 20) + 8, 0), (4096, 4), (4096, 4096)] {
        assert_eq!(rig.run(add_test(brw(size, offset))), Err(Errno::EINVAL), "{size} at {offset}");
    }
    for test in [
        AddTest { loops: 0, ..AddTest::default() },
        AddTest { concurrency: 0, ..AddTest::default() },
        AddTest { concurrency: 1025, ..AddTest::default() },
        AddTest { distribute: (1, 2), ..AddTest::default() },
    ] {
        assert_eq!(rig.run(test.command()), Err(Errno::EINVAL));
    }
    assert!(rig.log.is_empty());
    rig.finish();
}

#[test]
fn nodes_without_byte_lengths_get_pages() {
    let mut rig = Rig::new(2);
    rig.new_session(false).unwrap();
    for number in [1, 2] {
        rig.node(number).features = 0;
    }
    rig.add_group("c", &[1]);
    rig.add_group("s", &[2]);
    rig.ask(add_test(WRITE));
    let direction = Direction::WRITE;
    assert_eq!(rig.node(1).tests[0].kind, TestKind::BrwPages { direction, pages: 2, flags: 3 });
    let odd = TestSpec::Brw { write: true, check: DataCheck::None, size: 4104, offset: 0 };
    assert_eq!(rig.run(add_test(odd)), Err(Errno::EINVAL));
    rig.finish();
}

#[test]
fn a_batch_runs_until_stopped_or_done() {
    let mut rig = Rig::with_groups(&[1, 2], &[3]);
    rig.ask(add_test(WRITE));
    rig.log.clear();
    assert_eq!(rig.ask(run()).len(), 2);
    assert_eq!(rig.sent(MessageType::BATCH), [nid(1), nid(2)], "servers are not notified");
    assert!(show(&mut rig, "batch").running);
    assert_eq!(rig.run(add_test(WRITE)), Err(Errno::EINVAL));

    rig.node(1).active = 1;
    assert_eq!(active(&mut rig, 0, false), [1, 0]);
    assert!(show(&mut rig, "batch").running);
    rig.node(1).active = 0;
    assert_eq!(active(&mut rig, 1, false), [0, 0]);
    assert!(show(&mut rig, "batch").running, "one test does not decide for the others");
    assert_eq!(active(&mut rig, 0, true), [0]);
    assert!(show(&mut rig, "batch").running, "servers never run anything");
    assert_eq!(active(&mut rig, 0, false), [0, 0]);
    assert!(!show(&mut rig, "batch").running);

    rig.ask(run());
    rig.node(1).refuses.insert(MessageType::BATCH, Errno::EPERM);
    rig.ask(stop());
    assert!(!show(&mut rig, "batch").running, "a node without units has stopped");
    rig.ask(run());
    rig.node(1).refuses.insert(MessageType::BATCH, Errno::ENOENT);
    rig.ask(stop());
    assert!(show(&mut rig, "batch").running);
    rig.finish();
}

#[test]
fn run_and_stop_carry_their_arguments_to_active_clients() {
    let mut rig = Rig::with_groups(&[1, 2], &[3]);
    rig.ask(add_test(WRITE));
    rig.node(2).alive = false;
    assert!(rig.run(Command::Stat { target: Target::Session, timeout: 3 }).is_ok());
    rig.log.clear();
    rig.ask(Command::Run { batch: "batch".to_owned(), timeout: 9 });
    rig.ask(Command::Stop { batch: "batch".to_owned(), force: true });
    let calls: Vec<_> = rig.log.iter().map(|(to, message)| (*to, message.body.clone())).collect();
    let [(first, Body::Batch(run)), (_, Body::Batch(stop))] = &calls[..] else {
        panic!("{calls:?}")
    };
    assert_eq!((*first, run.argument, stop.argument), (nid(1), 9, 1));
    rig.finish();
}

#[test]
fn a_batch_has_each_node_once_and_shows_its_tests() {
    let mut rig = Rig::with_groups(&[1, 2], &[2, 3]);
    rig.ask(add_test(WRITE));
    rig.ask(add_test(TestSpec::Ping));
    let info = show(&mut rig, "batch");
    let nids = |nodes: &[crate::console::NodeInfo]| nodes.iter().map(|n| n.nid).collect::<Vec<_>>();
    assert_eq!(nids(&info.clients), [nid(1), nid(2)]);
    assert_eq!(nids(&info.servers), [nid(2), nid(3)]);
    assert_eq!(info.tests.len(), 2);
    assert_eq!((info.tests[1].test, info.tests[1].loops), (TestSpec::Ping, -1));
    let query =
        |test| Command::Query { batch: "batch".to_owned(), test, servers: false, timeout: 5 };
    assert!(rig.run(query(2)).is_ok());
    assert_eq!(rig.run(query(3)), Err(Errno::ENOENT));
    rig.finish();
}

#[test]
fn groups_of_a_test_stay_as_they_are() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    rig.ask(add_test(WRITE));
    let group = || "c".to_owned();
    for command in [
        Command::DeleteGroup { group: group() },
        Command::RefreshGroup { group: group() },
        Command::CleanGroup { group: group(), states: vec![NodeState::Down] },
        Command::RemoveNodes { group: group(), nodes: vec![nid(1)] },
        Command::AddNodes { group: group(), nodes: vec![nid(2)] },
    ] {
        assert_eq!(rig.run(command), Err(Errno::EBUSY));
    }
    rig.finish();
}

#[test]
fn batches_are_numbered_over_all_sessions() {
    let mut rig = Rig::with_groups(&[1], &[2]);
    assert_eq!(add_batch(&mut rig, "b"), Ok(Reply::Done));
    assert_eq!(add_batch(&mut rig, "b"), Err(Errno::EEXIST));
    assert_eq!(add_batch(&mut rig, ""), Err(Errno::EINVAL));
    rig.ask(Command::EndSession {});
    rig.new_session(false).unwrap();
    rig.add_group("c", &[1]);
    rig.add_group("s", &[2]);
    assert_eq!(add_batch(&mut rig, "b"), Ok(Reply::Done));
    let names = vec!["batch".to_owned(), "b".to_owned()];
    assert_eq!(rig.run(Command::ListBatches {}), Ok(Reply::Names(names)));
    rig.ask(AddTest { batch: "b", ..AddTest::default() }.command());
    assert_eq!(rig.node(2).tests[0].batch, BatchId(4), "batch and b, twice");
    rig.finish();
}

const WRITE: TestSpec =
    TestSpec::Brw { write: true, check: DataCheck::Full, size: 8192, offset: 0 };

/// The command, with defaults for most tests.
struct AddTest {
    batch: &'static str,
    test: TestSpec,
    loops: i32,
    concurrency: u32,
    distribute: (u32, u32),
    from: &'static str,
}

impl Default for AddTest {
    fn default() -> Self {
        let (batch, from, distribute) = ("batch", "c", (1, 1));
        Self { batch, test: WRITE, loops: -1, concurrency: 1, distribute, from }
    }
}

impl AddTest {
    fn command(self) -> Command {
        Command::AddTest {
            batch: self.batch.to_owned(),
            test: self.test,
            loops: self.loops,
            concurrency: self.concurrency,
            distribute: self.distribute,
            from: self.from.to_owned(),
            to: "s".to_owned(),
        }
    }
}

fn add_test(test: TestSpec) -> Command {
    AddTest { test, ..AddTest::default() }.command()
}

fn run() -> Command {
    Command::Run { batch: "batch".to_owned(), timeout: 0 }
}

fn stop() -> Command {
    Command::Stop { batch: "batch".to_owned(), force: false }
}

fn add_batch(rig: &mut Rig, name: &str) -> Answer {
    rig.run(Command::AddBatch { batch: name.to_owned() })
}

fn active(rig: &mut Rig, test: u32, servers: bool) -> Vec<u32> {
    let batch = "batch".to_owned();
    match rig.run(Command::Query { batch, test, servers, timeout: 5 }) {
        Ok(Reply::Active(nodes)) => nodes.iter().map(|node| node.result.unwrap()).collect(),
        other => panic!("{other:?}"),
    }
}

fn show(rig: &mut Rig, batch: &str) -> BatchInfo {
    match rig.run(Command::ShowBatch { batch: batch.to_owned() }) {
        Ok(Reply::Batch(info)) => info,
        other => panic!("{other:?}"),
    }
}
