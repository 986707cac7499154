//! The console against real test nodes: complete runs in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{BatchOperation, Body, FEATURES};

use super::rig::{KEY, nid};
use crate::console::{
    Answer, Command, DataCheck, KeyedCommand, Measures, NodeAnswer, NodeError, NodeState,
    NodesReply, PingInfo, Reply, Stats, Target, TestSpec,
};
use crate::tests::wire::{Wire, body};
use crate::{CommandId, Config};

#[test]
fn a_complete_session() {
    let mut world = World::new(4);
    world.groups(&[1, 2], &[3, 4]);
    let write = brw(true, DataCheck::Full, 1 << 20);
    for test in [TestSpec::Ping, write, brw(false, DataCheck::Simple, 65_536)] {
        world.ask(add_test(test, 5, 2));
    }
    world.ask(run("batch"));
    world.wire.run_for(SECOND);
    assert_eq!(world.active("batch"), [0, 0], "all loops are done");

    let stats = world.stat();
    let sent: Vec<u32> = stats.iter().map(|node| node.result.unwrap().rpcs_sent).collect();
    assert!(sent[1] == 30, "three tests of ten RPCs on node 2: {sent:?}");
    let fetched = stats[2].result.unwrap().bulk_get;
    assert_eq!(fetched, 10 << 20, "node 3 is the server of node 1");
    assert!(stats.iter().all(|node| node.result.unwrap().brw_errors == 0));
    let measured = world.measure();
    let client = measured[1].result.clone().unwrap();
    assert_eq!((client.reported, client.rpcs), (true, 30));
    assert_eq!(client.buckets.iter().sum::<u32>(), 30);
    assert_eq!(measured[2].result.clone().unwrap().rpcs, 0, "servers do not measure");

    world.ask(Command::Stop { batch: "batch".to_owned(), force: false });
    world.end();
}

#[test]
fn an_endless_test_runs_until_it_is_stopped() {
    let mut world = World::new(2);
    world.groups(&[1], &[2]);
    world.ask(add_test(TestSpec::Ping, -1, 3));
    world.ask(run("batch"));
    world.wire.run_for(SECOND);
    assert_eq!(world.active("batch"), [1]);
    assert_eq!(world.active_of("batch", 1), [3], "units");
    world.ask(Command::Stop { batch: "batch".to_owned(), force: false });
    world.wire.run_for(SECOND);
    assert_eq!(world.active("batch"), [0]);
    world.end();
}

#[test]
fn a_session_that_ends_during_a_batch_leaves_nothing() {
    let mut world = World::new(3);
    world.groups(&[1, 2], &[2, 3]);
    world.ask(add_test(brw(false, DataCheck::Full, 4096), -1, 8));
    world.ask(run("batch"));
    world.wire.run_for(SECOND);
    world.end();
}

#[test]
fn one_node_is_console_client_and_server() {
    let mut world = World::new(1);
    world.groups(&[1], &[1]);
    world.ask(add_test(brw(true, DataCheck::Full, 4096), 3, 1));
    world.ask(run("batch"));
    world.wire.run_for(SECOND);
    assert_eq!(world.active("batch"), [0]);
    assert_eq!(world.stat()[0].result.unwrap().bulk_get, 3 * 4096 + 12);
    world.end();
}

#[test]
fn requests_match_those_of_a_kernel_console() {
    let mut world = World::new(4);
    let log: Rc<RefCell<Vec<String>>> = Rc::default();
    let sent = Rc::clone(&log);
    world.wire.lose = Some(Box::new(move |packet| {
        let line = body(packet).and_then(|body| describe(packet.target, &body));
        sent.borrow_mut().extend(line.filter(|_| packet.source == nid(1)));
        false
    }));
    world.new_session(1, false).unwrap();
    world.add_group(1, "c", &[3]);
    world.add_group(1, "s", &[4]);
    world.ask(add_test(TestSpec::Ping, 5, 2));
    world.ask(add_test(brw(true, DataCheck::Full, 8192), 3, 2));
    world.ask(run("batch"));
    world.wire.run_for(SECOND);
    world.active("batch");
    world.stat();
    world.ask(Command::Stop { batch: "batch".to_owned(), force: false });
    world.end();
    assert_eq!(
        log.borrow()[..],
        [
            "MakeSession 1 to 3",
            "MakeSession 2 to 4",
            "Test 3 to 4: server, loop 2, 0 destinations at 0",
            "Test 4 to 3: client, loop 5, 1 destinations at 5",
            "Test 6 to 4: server, loop 2, 0 destinations at 0",
            "Test 7 to 3: client, loop 3, 1 destinations at 8",
            "Run 9 to 3",
            "Query 10 to 3",
            "Stat 11 to 3",
            "Stat 12 to 4",
            "Stop 13 to 3",
            "RemoveSession 14 to 3",
            "RemoveSession 15 to 4",
        ]
    );
}

#[test]
fn a_console_takes_a_node_of_another_only_by_force() {
    let mut world = World::new(3);
    world.new_session(1, false).unwrap();
    world.add_group(1, "c", &[3]);
    world.new_session(2, false).unwrap();
    let refused = world.add_group(2, "c", &[3]);
    assert_eq!(refused[0].state, NodeState::Busy);
    assert_eq!(refused[0].result, Err(NodeError::Framework(Errno::EBUSY)));
    let seen = world.ping(2);
    assert_eq!(seen[0].state, NodeState::Busy);
    let info = seen[0].result.clone().unwrap();
    assert_eq!((&*info.name, info.console), ("of 1", Some(nid(1))));

    world.new_session(2, true).unwrap();
    assert_eq!(world.add_group(2, "c", &[3])[0].state, NodeState::Active);
    let seen = world.ping(1);
    assert_eq!((seen[0].state, &*seen[0].result.clone().unwrap().name), (NodeState::Busy, "of 2"));
    assert_eq!(world.run(1, Command::EndSession {}), nodes_reply(vec![]), "none is in it");
    world.run(2, Command::EndSession {}).unwrap();
    world.assert_idle();
}

#[test]
fn a_forced_session_releases_the_nodes_of_the_old_one() {
    let mut world = World::new(3);
    world.groups(&[2], &[3]);
    world.ask(add_test(TestSpec::Ping, -1, 3));
    world.ask(run("batch"));
    world.new_session(1, true).unwrap();
    world.wire.run_for(SECOND);
    for number in [2, 3] {
        world.wire.machine(nid(number)).is_idle().expect("it is free");
    }
    world.groups_in_session(&[2], &[3]);
    world.end();
}

#[test]
fn a_dead_node_is_reported_and_the_others_answer() {
    let mut world = World::new(4);
    world.groups(&[2], &[3, 4]);
    world.wire.kill(nid(3));
    let stats = world.stat();
    assert!(stats[0].result.is_ok());
    let dead = (stats[1].nid, stats[1].state, stats[1].result);
    assert_eq!(dead, (nid(3), NodeState::Down, Err(NodeError::Rpc(Errno::ETIMEDOUT))));
    assert_eq!(world.run(1, add_test(TestSpec::Ping, 1, 1)), Err(Errno::ENETDOWN));
    let Ok(Reply::Nodes(NodesReply { nodes, .. })) = world.run(1, Command::EndSession {}) else {
        panic!("the session ends")
    };
    assert_eq!(nodes.iter().map(|node| node.nid).collect::<Vec<_>>(), [nid(2), nid(4)]);
    world.wire.machine(nid(1)).is_idle().unwrap();
}

#[test]
fn nodes_stay_while_the_console_pings_and_leave_otherwise() {
    let mut world = World::new(3);
    world.groups(&[2], &[3]);
    for _ in 0..50 {
        world.wire.run_for(10 * SECOND);
        assert!(world.run(1, Command::ShowSession {}).is_ok());
    }
    let seen = world.ping(1);
    assert!(seen.iter().all(|node| node.state == NodeState::Active), "after 500 s");
    world.wire.kill(nid(1));
    world.wire.run_for(99 * SECOND);
    assert!(world.wire.machine(nid(2)).is_idle().is_err());
    world.wire.run_for(10 * SECOND);
    for number in [2, 3] {
        world.wire.machine(nid(number)).is_idle().expect("it has left");
    }
}

#[test]
fn an_unused_session_releases_its_nodes() {
    let mut world = World::new(3);
    let (name, force) = ("short".to_owned(), false);
    let command = Command::NewSession { name, timeout: 5, force, features: FEATURES };
    world.run(1, command).unwrap();
    world.groups_in_session(&[2], &[3]);
    world.ask(add_test(TestSpec::Ping, -1, 1));
    world.ask(run("batch"));
    world.wire.run_for(9 * SECOND);
    world.assert_idle();
    assert_eq!(world.run(1, Command::ListGroups {}), Err(Errno::ESHUTDOWN));
}

const SECOND: Duration = Duration::from_secs(1);

/// Nodes 1 to n, each test node and console; node 1 is the console by default.
struct World {
    wire: Wire,
    count: u32,
}

impl World {
    fn new(count: u32) -> Self {
        let mut wire = Wire::default();
        (1..=count).for_each(|number| wire.add(nid(number), Config::default()));
        Self { wire, count }
    }

    fn run(&mut self, console: u32, command: Command) -> Answer {
        let console = nid(console);
        let id: CommandId = self.wire.command(console, KeyedCommand { key: KEY, command });
        for _ in 0..31_000 {
            if let Some(answer) = self.wire.answer(console, id) {
                return answer;
            }
            self.wire.run_for(SECOND / 1000);
        }
        panic!("no answer after 31 s")
    }

    fn ask(&mut self, command: Command) -> Vec<NodeAnswer<()>> {
        let nodes = self.ask_by(1, command);
        assert!(nodes.iter().all(|node| node.result == Ok(())), "{nodes:?}");
        nodes
    }

    fn ask_by(&mut self, console: u32, command: Command) -> Vec<NodeAnswer<()>> {
        match self.run(console, command) {
            Ok(Reply::Nodes(NodesReply { nodes, .. })) => nodes,
            other => panic!("no answers of nodes: {other:?}"),
        }
    }

    fn new_session(&mut self, console: u32, force: bool) -> Answer {
        let (name, features) = (format!("of {console}"), FEATURES);
        self.run(console, Command::NewSession { name, timeout: 300, force, features })
    }

    fn add_group(&mut self, console: u32, group: &str, numbers: &[u32]) -> Vec<NodeAnswer<()>> {
        let group = group.to_owned();
        self.run(console, Command::AddGroup { group: group.clone() }).unwrap();
        let nodes = numbers.iter().map(|number| nid(*number)).collect();
        self.ask_by(console, Command::AddNodes { group, nodes })
    }

    /// Creates a session with clients and servers.
    fn groups(&mut self, clients: &[u32], servers: &[u32]) {
        self.new_session(1, false).unwrap();
        self.groups_in_session(clients, servers);
    }

    fn groups_in_session(&mut self, clients: &[u32], servers: &[u32]) {
        for (group, numbers) in [("c", clients), ("s", servers)] {
            let nodes = self.add_group(1, group, numbers);
            assert!(nodes.iter().all(|node| node.state == NodeState::Active), "{nodes:?}");
        }
    }

    fn active(&mut self, batch: &str) -> Vec<u32> {
        self.active_of(batch, 0)
    }

    fn active_of(&mut self, batch: &str, test: u32) -> Vec<u32> {
        let batch = batch.to_owned();
        match self.run(1, Command::Query { batch, test, servers: false, timeout: 5 }) {
            Ok(Reply::Active(nodes)) => nodes.iter().map(|node| node.result.unwrap()).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn stat(&mut self) -> Vec<NodeAnswer<Stats>> {
        match self.run(1, Command::Stat { target: Target::Session, timeout: 5 }) {
            Ok(Reply::Stats(nodes)) => nodes,
            other => panic!("{other:?}"),
        }
    }

    fn measure(&mut self) -> Vec<NodeAnswer<Measures>> {
        match self.run(1, Command::Measure { target: Target::Session, timeout: 5 }) {
            Ok(Reply::Measures(nodes)) => nodes,
            other => panic!("{other:?}"),
        }
    }

    fn ping(&mut self, console: u32) -> Vec<NodeAnswer<PingInfo>> {
        match self.run(console, Command::Ping { target: Target::Session, timeout: 5 }) {
            Ok(Reply::Sessions(nodes)) => nodes,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the session and checks that nothing is left.
    fn end(&mut self) {
        self.ask(Command::EndSession {});
        self.wire.run_for(SECOND);
        self.assert_idle();
    }

    fn assert_idle(&self) {
        for number in 1..=self.count {
            let idle = self.wire.machine(nid(number)).is_idle();
            assert_eq!(idle, Ok(()), "node {number}");
        }
    }
}

fn nodes_reply(nodes: Vec<NodeAnswer<()>>) -> Answer {
    Ok(Reply::Nodes(NodesReply { features: FEATURES, nodes }))
}

fn run(batch: &str) -> Command {
    Command::Run { batch: batch.to_owned(), timeout: 0 }
}

fn brw(write: bool, check: DataCheck, size: u32) -> TestSpec {
    TestSpec::Brw { write, check, size, offset: 0 }
}

fn add_test(test: TestSpec, loops: i32, concurrency: u32) -> Command {
    Command::AddTest {
        batch: "batch".to_owned(),
        test,
        loops,
        concurrency,
        distribute: (1, 1),
        from: "c".to_owned(),
        to: "s".to_owned(),
    }
}

/// Describes a request of a console: the low part of the reply ID, and the fixed parameters.
fn describe(to: Nid, request: &Body) -> Option<String> {
    let ids = |reply_id: u64| format!("{} to {}", reply_id & 0xffff, to.number() & 0xff);
    Some(match request {
        Body::MakeSession(body) => format!("MakeSession {}", ids(body.reply_id)),
        Body::RemoveSession(body) => format!("RemoveSession {}", ids(body.reply_id)),
        Body::Stat(body) => format!("Stat {}", ids(body.reply_id)),
        Body::Batch(body) => {
            let operation = match body.operation {
                BatchOperation::RUN => "Run",
                BatchOperation::STOP => "Stop",
                _ => "Query",
            };
            format!("{operation} {}", ids(body.reply_id))
        }
        Body::Test(test) => format!(
            "Test {}: {}, loop {}, {} destinations at {}",
            ids(test.reply_id),
            if test.is_client { "client" } else { "server" },
            test.loops,
            test.destinations,
            test.bulk_id & 0xffff,
        ),
        _ => return None,
    })
}
