//! LNet selftest over simulated nodes: scenarios, and a swarm.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{Body, DebugRequest, FEATURES, Message, Service, SessionId};
use fulmar_lnet_wire::{Body as LnetBody, Handle, Header, Pid};
use fulmar_selftest::console::{
    Command, DataCheck, NodeAnswer, NodeError, NodeState, Reply, Stats, Target, TestSpec,
};
use fulmar_selftest::{CommandId, Config as SelftestConfig};
use fulmar_sim::options::{Faults, Network, Selftest};
use fulmar_sim::{Cluster, HostId, Log, Options, run};

const CONSOLE: HostId = HostId(0);
const CLIENTS: [HostId; 2] = [HostId(1), HostId(2)];
const SERVERS: [HostId; 2] = [HostId(3), HostId(4)];
const BATCH: &str = "load";
const MIB: u32 = 1 << 20;
/// A little more than the response timeout of LNet, in seconds.
const RESPONSE_TIMEOUT: u64 = 240;
/// One-way delay, which limits the rate of an endless test.
const DELAY: Duration = Duration::from_millis(10);

/// A console, two clients and two servers.
struct Lab {
    cluster: Cluster,
}

impl Lab {
    /// Creates a session with all nodes. With `faulty`, failures are allowed.
    fn new(config: SelftestConfig, faulty: bool) -> Self {
        let selftest = Selftest { config, ..Selftest::default() };
        // A pause of no duration disables the checkers for runs without faults.
        let longest = Duration::from_nanos(1);
        let faults = Faults { pauses: faulty.into(), longest, ..Faults::default() };
        let mut options = Options { selftest: Some(selftest), faults, ..Options::plain(5) };
        options.network = Network::even(100_000, DELAY);
        let mut lab = Self { cluster: Cluster::new(&options, Log::new(200)) };
        let name = "sim".to_owned();
        lab.tell(Command::NewSession { name, timeout: 300, force: false, features: 1 });
        for (group, hosts) in [("clients", CLIENTS), ("servers", SERVERS)] {
            lab.tell(Command::AddGroup { group: group.into() });
            let nodes = hosts.map(|host| lab.cluster.world.nid(host)).to_vec();
            lab.tell(Command::AddNodes { group: group.into(), nodes });
        }
        lab.tell(Command::AddBatch { batch: BATCH.into() });
        lab
    }

    fn give(&mut self, command: Command) -> CommandId {
        let Cluster { world, administrators, .. } = &mut self.cluster;
        administrators.give(world, CONSOLE, command).expect("the console is up")
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, command: Command) -> Result<Reply, Errno> {
        let id = self.give(command);
        self.until("an answer", 120, |c| c.administrators.answer(CONSOLE, id).is_some());
        self.cluster.administrators.answer(CONSOLE, id).expect("just seen").clone()
    }

    /// Sends a command that must succeed on every node.
    fn tell(&mut self, command: Command) {
        let text = format!("{command:?}");
        match self.ask(command) {
            Ok(Reply::Nodes(reply)) => {
                let all = reply.nodes.iter().all(|node| node.result.is_ok());
                assert!(all, "{text}: {reply:?}");
            }
            answer => assert!(answer.is_ok(), "{text}: {answer:?}"),
        }
    }

    fn add_test(&mut self, test: TestSpec, loops: i32, concurrency: u32, distribute: (u32, u32)) {
        let (batch, from, to) = (BATCH.into(), "clients".into(), "servers".into());
        self.tell(Command::AddTest { batch, test, loops, concurrency, distribute, from, to });
    }

    fn run(&mut self) {
        self.tell(Command::Run { batch: BATCH.into(), timeout: 0 });
    }

    fn stop(&mut self, force: bool) -> Vec<NodeAnswer<()>> {
        match self.ask(Command::Stop { batch: BATCH.into(), force }) {
            Ok(Reply::Nodes(reply)) => reply.nodes,
            answer => panic!("{answer:?}"),
        }
    }

    fn query(&mut self, test: u32, servers: bool) -> Vec<NodeAnswer<u32>> {
        match self.ask(Command::Query { batch: BATCH.into(), test, servers, timeout: 5 }) {
            Ok(Reply::Active(nodes)) => nodes,
            answer => panic!("{answer:?}"),
        }
    }

    /// Queries until no test runs.
    fn wait_for_the_end(&mut self) {
        for _second in 0..100 {
            if self.query(0, false).iter().all(|node| node.result == Ok(0)) {
                return;
            }
            self.pass(1);
        }
        panic!("the batch runs for ever");
    }

    fn stats(&mut self, group: &str) -> Vec<Result<Stats, NodeError>> {
        match self.ask(Command::Stat { target: Target::Group(group.into()), timeout: 5 }) {
            Ok(Reply::Stats(nodes)) => nodes.into_iter().map(|node| node.result).collect(),
            answer => panic!("{answer:?}"),
        }
    }

    fn pass(&mut self, seconds: u64) {
        let end = self.cluster.world.now() + Duration::from_secs(seconds);
        let verdict = self.cluster.run_until(end);
        self.require(verdict);
    }

    fn until(&mut self, what: &str, seconds: u64, holds: impl Fn(&Cluster) -> bool) {
        let bound = Duration::from_secs(seconds);
        let verdict = self.cluster.run_while(what, bound, |cluster| !holds(cluster));
        self.require(verdict);
    }

    /// Ends the run, and requires that all nodes become idle.
    fn finish(&mut self) {
        let verdict = self.cluster.finish();
        self.require(verdict);
    }

    fn require(&self, verdict: fulmar_sim::check::Verdict) {
        if let Err(violation) = verdict {
            let log: Vec<&str> = self.cluster.world.log().lines().collect();
            panic!("{}\n{violation}", log.join("\n"));
        }
    }

    /// Returns whether a kept line of the log has all of these.
    fn has_line(&self, marks: &[&str]) -> bool {
        self.cluster.world.log().lines().any(|line| marks.iter().all(|mark| line.contains(mark)))
    }
}

fn brw(write: bool, size: u32, check: DataCheck) -> TestSpec {
    TestSpec::Brw { write, check, size, offset: 0 }
}

fn is_idle(cluster: &Cluster, host: HostId) -> bool {
    let node = cluster.world.node(host).expect("it is up");
    let selftest = cluster.world.selftest(host).expect("it has one");
    node.lnet().is_idle().is_ok() && selftest.is_idle().is_ok()
}

#[test]
fn an_endless_self_ping_can_be_stopped() {
    let mut lab = Lab::new(SelftestConfig::default(), false);
    let (group, batch) = (String::from("self"), String::from(BATCH));
    lab.tell(Command::AddGroup { group: group.clone() });
    let nodes = vec![lab.cluster.world.nid(CONSOLE)];
    lab.tell(Command::AddNodes { group: group.clone(), nodes });
    let (test, distribute) = (TestSpec::Ping, (1, 1));
    let (from, to) = (group.clone(), group);
    lab.tell(Command::AddTest { batch, test, loops: -1, concurrency: 1, distribute, from, to });
    lab.run();
    lab.stop(false);
    lab.wait_for_the_end();
    lab.tell(Command::EndSession {});
    lab.finish();
}

#[test]
fn a_request_that_wants_an_ack_gets_it() {
    let mut lab = Lab::new(SelftestConfig::default(), true);
    let server = SERVERS[0];
    let request = DebugRequest { reply_id: 7, session: SessionId::INVALID, flags: 0 };
    let bytes = Message::new(FEATURES, Body::Debug(request)).to_bytes();
    let put = LnetBody::Put {
        ack: Handle { interface: 5, object: 5 },
        match_bits: Service::DEBUG.0,
        header_data: 0,
        portal: Service::DEBUG.portal(),
        offset: 0,
    };
    let header = Header {
        target: lab.cluster.world.nid(server),
        source: lab.cluster.world.nid(CONSOLE),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: bytes.len() as u32,
        body: put,
    };
    assert!(lab.cluster.world.send_forged(CONSOLE, server, &header, &bytes), "they are connected");
    lab.pass(1);
    assert!(lab.has_line(&[&server.to_string(), "96 + 0 ACK"]));
    let stats = lab.cluster.world.node(server).unwrap().lnet().stats();
    assert_eq!(stats.msgs_alloc, 0);
    lab.tell(Command::EndSession {});
    lab.finish();
}

#[test]
fn without_faults_every_rpc_is_executed_and_counted_once() {
    let mut lab = Lab::new(SelftestConfig::default(), false);
    lab.add_test(brw(true, 4096, DataCheck::Full), 10, 2, (1, 1));
    lab.add_test(brw(false, 65_536, DataCheck::Full), 5, 3, (1, 1));
    lab.add_test(brw(false, MIB, DataCheck::Simple), 3, 1, (1, 2));
    lab.add_test(TestSpec::Ping, 20, 4, (1, 2));
    lab.run();
    lab.wait_for_the_end();

    // Per client, and as they are paired, per server.
    let (writes, reads, long_reads, pings) = (10 * 2, 5 * 3, 3 * 2, 20 * 4 * 2);
    let rpcs = writes + reads + long_reads + pings;
    for stats in lab.stats("clients") {
        let stats = stats.unwrap();
        assert_eq!(stats.rpcs_sent, rpcs);
        // The destination lists have 12 bytes per server.
        assert_eq!((stats.bulk_get, stats.bulk_put), (12 * (1 + 1 + 2 + 2), 0));
        assert_no_errors(&stats);
    }
    for stats in lab.stats("servers") {
        let stats = stats.unwrap();
        // In addition to the load: one MAKE_SESSION, four TESTs and this STAT request.
        assert_eq!(stats.rpcs_received, rpcs + 1 + 4 + 1);
        assert_eq!(stats.bulk_get, u64::from(writes * 4096));
        assert_eq!(stats.bulk_put, u64::from(reads * 65_536 + long_reads * MIB));
        assert_no_errors(&stats);
    }
    let target = Target::Group("clients".into());
    let Ok(Reply::Measures(nodes)) = lab.ask(Command::Measure { target, timeout: 5 }) else {
        panic!("a measure request returns measures");
    };
    for node in nodes {
        let measures = node.result.unwrap();
        assert_eq!(measures.rpcs, u64::from(rpcs));
        assert_eq!(measures.bytes, u64::from(writes * 4096 + reads * 65_536 + long_reads * MIB));
        assert_eq!(measures.buckets.iter().sum::<u32>(), rpcs);
        let round_trip = 2 * DELAY.as_nanos() as u64;
        assert!(measures.min_ns >= round_trip, "{measures:?}");
    }
    lab.tell(Command::EndSession {});
    lab.until("all is over", 60, |c| c.world.host_ids().all(|host| is_idle(c, host)));
    lab.finish();
}

fn assert_no_errors(stats: &Stats) {
    let Stats { brw_errors, ping_errors, rpc_errors, rpcs_dropped, rpcs_expired, .. } = stats;
    assert_eq!([brw_errors, ping_errors, rpc_errors, rpcs_dropped, rpcs_expired], [&0; 5]);
}

#[test]
fn an_endless_batch_can_be_stopped_and_run_again() {
    let mut lab = Lab::new(SelftestConfig::default(), false);
    lab.add_test(brw(true, 8192, DataCheck::Full), -1, 2, (1, 1));
    lab.add_test(TestSpec::Ping, -1, 1, (1, 2));
    for force in [false, true] {
        lab.run();
        lab.pass(1);
        // Per client: two units of the first test, and one per server of the second.
        for test in [1, 2] {
            assert!(lab.query(test, false).iter().all(|node| node.result == Ok(2)));
        }
        assert!(lab.stop(force).iter().all(|node| node.result.is_ok()));
        lab.wait_for_the_end();
    }
    lab.tell(Command::EndSession {});
    lab.finish();
}

#[test]
fn exactly_the_corrupted_data_are_found_and_counted() {
    let config = SelftestConfig { inject_errors: 2, ..SelftestConfig::default() };
    let mut lab = Lab::new(config, true);
    // A unit ends at its first error: two of the five units of each client read a corrupted word.
    lab.add_test(brw(false, 4096, DataCheck::Full), 10, 5, (1, 1));
    lab.run();
    lab.wait_for_the_end();
    for stats in lab.stats("clients") {
        let stats = stats.unwrap();
        assert_eq!((stats.brw_errors, stats.rpcs_sent), (2, 3 * 10 + 2));
    }
    lab.tell(Command::EndSession {});
    lab.finish();
}

#[test]
fn a_server_without_power_affects_only_its_clients() {
    let rpc_timeout = Duration::from_secs(10);
    let mut lab = Lab::new(SelftestConfig { rpc_timeout, ..SelftestConfig::default() }, true);
    lab.add_test(brw(true, 4096, DataCheck::Full), -1, 2, (1, 1));
    lab.add_test(TestSpec::Ping, -1, 1, (1, 1));
    lab.run();
    lab.pass(2);
    lab.cluster.crash(SERVERS[1], true).unwrap();
    lab.pass(15);
    let active = lab.query(0, false);
    assert_eq!([&active[0].result, &active[1].result], [&Ok(2), &Ok(0)], "pairs are independent");
    let stats: Vec<Stats> = lab.stats("clients").into_iter().map(Result::unwrap).collect();
    assert_no_errors(&stats[0]);
    let lost = (stats[1].brw_errors, stats[1].ping_errors, stats[1].rpcs_expired);
    assert_eq!(lost, (2, 1, 3), "each unit had one RPC in progress");

    let servers = lab.query(0, true);
    assert!(servers[0].result.is_ok());
    assert!(matches!(servers[1].result, Err(NodeError::Rpc(_))), "{servers:?}");
    assert_eq!(servers[1].state, NodeState::Down);

    // After the restart it has no session.
    lab.cluster.restart(SERVERS[1]);
    lab.pass(90);
    let servers = lab.query(0, true);
    assert_eq!(servers[1].result, Err(NodeError::Framework(Errno::ESRCH)));
    assert_eq!(servers[1].state, NodeState::Unknown);
    assert!(lab.stop(false).iter().all(|node| node.result.is_ok()));
    lab.wait_for_the_end();
    assert!(lab.ask(Command::EndSession {}).is_ok());
    lab.finish();
}

#[test]
fn a_crashed_client_is_reported_and_the_others_continue() {
    let mut lab = Lab::new(SelftestConfig::default(), true);
    lab.add_test(brw(false, 65_536, DataCheck::Full), -1, 4, (1, 2));
    lab.run();
    lab.pass(1);
    lab.cluster.crash(CLIENTS[0], false).unwrap();
    lab.pass(1);
    let stopped = lab.stop(false);
    assert!(matches!(stopped[0].result, Err(NodeError::Rpc(_))), "{stopped:?}");
    assert_eq!(stopped[0].state, NodeState::Down);
    assert_eq!((stopped[1].result, stopped[1].state), (Ok(()), NodeState::Active));
    lab.cluster.restart(CLIENTS[0]);
    lab.pass(90);
    let active = lab.query(0, false);
    assert_eq!(active[0].result, Err(NodeError::Framework(Errno::ESRCH)));
    assert_eq!(active[1].result, Ok(0));
    // From now on only the other client is used.
    lab.run();
    lab.pass(1);
    assert_eq!(lab.query(0, false)[1].result, Ok(1));
    assert!(lab.ask(Command::EndSession {}).is_ok());
    lab.until("all is over", RESPONSE_TIMEOUT, |c| c.world.host_ids().all(|host| is_idle(c, host)));
    lab.finish();
}

#[test]
fn nodes_end_the_session_when_their_console_crashes() {
    let session_timeout = Duration::from_secs(30);
    let mut lab = Lab::new(SelftestConfig { session_timeout, ..SelftestConfig::default() }, true);
    lab.add_test(brw(true, MIB, DataCheck::Full), -1, 1, (1, 1));
    lab.add_test(TestSpec::Ping, -1, 1, (1, 2));
    lab.run();
    lab.pass(1);
    lab.cluster.crash(CONSOLE, true).unwrap();
    lab.pass(28);
    let busy = |c: &Cluster| CLIENTS.iter().chain(&SERVERS).all(|host| !is_idle(c, *host));
    assert!(busy(&lab.cluster), "not before the time");
    lab.pass(2);
    for host in CLIENTS.iter().chain(&SERVERS) {
        let host = host.to_string();
        assert!(lab.has_line(&[&host, "its console was silent for too long"]), "{host}");
    }
    let free = |c: &Cluster| CLIENTS.iter().chain(&SERVERS).all(|host| is_idle(c, *host));
    // A server's unanswered GET ends when its response times out.
    lab.until("all is over", RESPONSE_TIMEOUT, free);
    lab.finish();
}

#[test]
fn a_session_survives_a_partition() {
    let mut lab = Lab::new(SelftestConfig::default(), true);
    lab.add_test(brw(true, 65_536, DataCheck::Full), -1, 2, (1, 1));
    lab.run();
    lab.pass(1);
    lab.cluster.world.partition(CLIENTS[0], SERVERS[0]);
    lab.cluster.world.reset(CLIENTS[1], SERVERS[1], true);
    lab.pass(10);
    lab.cluster.world.heal(CLIENTS[0], SERVERS[0]);
    lab.pass(90);
    let active = lab.query(0, false);
    assert!(active.iter().all(|node| node.state == NodeState::Active && node.result.is_ok()));
    assert!(lab.stop(true).iter().all(|node| node.result.is_ok()));
    lab.wait_for_the_end();
    lab.tell(Command::EndSession {});
    lab.finish();
}

#[test]
fn thirty_seeds_of_administrators_keep_every_invariant() {
    for seed in 0..30 {
        if let Err(failure) = run(&Options::draw_selftest(seed), 100) {
            panic!("{failure}");
        }
    }
}

#[test]
fn equal_seeds_of_administrators_write_equal_logs() {
    for seed in [1, 2, 3, 5] {
        let options = Options::draw_selftest(seed);
        let runs = [run(&options, 1000).unwrap(), run(&options, 1000).unwrap()];
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

/// Checks that the swarm covers these cases.
#[test]
fn a_few_seeds_of_administrators_cover_every_outcome_of_a_test() {
    let mut missing = vec![
        "its console ended it",
        "another console took this node by force",
        "its console was silent for too long",
        "selftest BRW with",
        "refuses: Device or resource busy",
        "refuses: No such process",
        "does not answer: Connection timed out",
        "does not answer: Connection refused",
        "refused: Network is down",
        "(down)",
    ];
    for seed in 0..60 {
        let outcome = run(&Options::draw_selftest(seed), usize::MAX).unwrap_or_else(|failure| {
            panic!("{}", failure.violation);
        });
        missing.retain(|mark| !outcome.log.iter().any(|line| line.contains(mark)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("never occurred: {missing:?}");
}
