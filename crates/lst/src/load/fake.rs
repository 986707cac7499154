//! A console with simulated nodes and a simulated clock.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::Histogram;
use fulmar_selftest::console::{
    Answer, Command, Measures, NodeAnswer, NodeError, NodeState, NodesReply, Reply, SessionInfo,
    Stats, Target, TestSpec,
};

use super::clock::Clock;
use crate::console::{CallFailure, Console};

/// The console; its nodes are 10.0.0.1@tcp and so on.
pub(super) struct Fake {
    pub(super) nodes: Vec<FakeNode>,
    /// When the user stops the measurement.
    pub(super) stop_at: Option<Duration>,
    /// A command that fails.
    pub(super) refuse: Option<(&'static str, Errno)>,
    /// The requests, without those that only read.
    pub(super) log: Vec<String>,
    time: Rc<Cell<Duration>>,
    session: Option<FakeSession>,
}

/// Behaviour of a node. All RPCs take the same time.
#[derive(Clone)]
pub(super) struct FakeNode {
    pub(super) fulmar: bool,
    pub(super) rpc_ns: u64,
    /// Whether it never answers.
    pub(super) away: bool,
    /// When it stops answering.
    pub(super) dies_at: Option<Duration>,
    /// When its test ends with an error.
    pub(super) errs_at: Option<Duration>,
}

#[derive(Default)]
struct FakeSession {
    name: String,
    force: bool,
    began: Duration,
    groups: Vec<(String, Vec<Nid>)>,
    tests: Vec<FakeTest>,
    run: Option<Duration>,
    stopped: Option<Duration>,
}

struct FakeTest {
    test: TestSpec,
    concurrency: u32,
    from: Vec<Nid>,
    to: Vec<Nid>,
}

/// The time of a [`Fake`].
pub(super) struct FakeClock {
    time: Rc<Cell<Duration>>,
    stop_at: Option<Duration>,
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.time.get()
    }

    fn wait(&self, time: Duration) -> bool {
        let end = self.now() + time;
        let stopped = self.stop_at.is_some_and(|stop| stop <= end);
        self.time.set(self.stop_at.filter(|_| stopped).unwrap_or(end).max(self.now()));
        stopped
    }

    fn rest(&self, time: Duration) {
        self.time.set(self.now() + time);
    }
}

impl FakeNode {
    /// A Fulmar node with 8 RPCs in flight, at 1000 RPCs per second.
    pub(super) fn fulmar() -> Self {
        Self { fulmar: true, rpc_ns: 8_000_000, away: false, dies_at: None, errs_at: None }
    }

    pub(super) fn kernel() -> Self {
        Self { fulmar: false, ..Self::fulmar() }
    }
}

pub(super) fn nid(number: usize) -> Nid {
    format!("10.0.0.{number}@tcp").parse().unwrap()
}

impl Fake {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![FakeNode::fulmar(); nodes],
            stop_at: None,
            refuse: None,
            log: Vec::new(),
            time: Rc::default(),
            session: None,
        }
    }

    pub(super) fn clock(&self) -> FakeClock {
        FakeClock { time: Rc::clone(&self.time), stop_at: self.stop_at }
    }

    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Starts a session of another user.
    pub(super) fn occupy(&mut self, name: &str) {
        self.session = Some(FakeSession { name: name.to_owned(), ..FakeSession::default() });
    }

    fn node(&self, of: Nid) -> &FakeNode {
        let at = (1..=self.nodes.len()).find(|number| nid(*number) == of).expect("a known node");
        &self.nodes[at - 1]
    }

    fn answer<T>(&self, of: Nid, value: impl FnOnce() -> T) -> NodeAnswer<T> {
        let node = self.node(of);
        if node.away || node.dies_at.is_some_and(|at| at <= self.time.get()) {
            let result = Err(NodeError::Rpc(Errno::ETIMEDOUT));
            NodeAnswer { nid: of, state: NodeState::Down, result }
        } else {
            NodeAnswer { nid: of, state: NodeState::Active, result: Ok(value()) }
        }
    }

    fn answers<T>(&self, of: &[Nid], value: impl Fn(Nid) -> T) -> Vec<NodeAnswer<T>> {
        of.iter().map(|nid| self.answer(*nid, || value(*nid))).collect()
    }

    fn done(&self, of: &[Nid]) -> Reply {
        Reply::Nodes(NodesReply { features: 1, nodes: self.answers(of, |_| ()) })
    }

    fn session(&self) -> &FakeSession {
        self.session.as_ref().expect("a session")
    }

    fn session_mut(&mut self) -> &mut FakeSession {
        self.session.as_mut().expect("a session")
    }

    /// Returns whether a client has RPCs in flight.
    fn works(&self, of: Nid) -> bool {
        let session = self.session();
        session.run.is_some()
            && session.stopped.is_none()
            && self.node(of).errs_at.is_none_or(|at| at > self.time.get())
            && session.tests.iter().any(|test| test.from.contains(&of))
    }

    /// Returns the number of RPCs that a client has completed.
    fn rpcs(&self, of: Nid, test: &FakeTest) -> u64 {
        let session = self.session();
        let Some(run) = session.run else { return 0 };
        let ends = [session.stopped, self.node(of).errs_at, self.node(of).dies_at];
        let end = ends.into_iter().flatten().fold(self.time.get(), Duration::min);
        let time = end.saturating_sub(run).as_nanos() as u64;
        time * u64::from(test.concurrency) / self.node(of).rpc_ns
    }

    fn stats(&self, of: Nid) -> Stats {
        let age = self.time.get().saturating_sub(self.session().began).as_millis() as u32;
        let mut stats = Stats { running_ms: age, ..Stats::default() };
        stats.active_batches = u32::from(self.works(of));
        stats.brw_errors = u32::from(self.node(of).errs_at.is_some_and(|at| at <= self.time.get()));
        for test in &self.session().tests {
            let (write, size) = match test.test {
                TestSpec::Ping => (false, 0),
                TestSpec::Brw { write, size, .. } => (write, u64::from(size)),
            };
            for (at, client) in test.from.iter().enumerate() {
                let rpcs = self.rpcs(*client, test);
                let (sent, received) = if write { (rpcs * size, 0) } else { (0, rpcs * size) };
                if *client == of {
                    stats.rpcs_sent += rpcs as u32;
                    stats.send_length += sent + rpcs * 160;
                    stats.recv_length += received + rpcs * 160;
                }
                if test.to[at % test.to.len()] == of {
                    stats.rpcs_received += rpcs as u32;
                    stats.bulk_get += sent;
                    stats.bulk_put += received;
                    stats.send_length += received + rpcs * 160;
                    stats.recv_length += sent + rpcs * 160;
                }
            }
        }
        stats
    }

    fn measures(&self, of: Nid) -> Measures {
        let FakeNode { fulmar, rpc_ns, .. } = *self.node(of);
        if !fulmar {
            return Measures::default();
        }
        let mut measures = Measures { reported: true, window: 3 << 20, ..Measures::default() };
        for test in &self.session().tests {
            for client in test.from.iter().filter(|client| **client == of) {
                let rpcs = self.rpcs(*client, test);
                let size = match test.test {
                    TestSpec::Ping => 0,
                    TestSpec::Brw { size, .. } => u64::from(size),
                };
                measures.rpcs += rpcs;
                measures.bytes += rpcs * size;
                (measures.min_ns, measures.max_ns) = (rpc_ns, rpc_ns);
                let mut histogram = Histogram::default();
                histogram.record(rpc_ns);
                measures.buckets = vec![0; histogram.slice(0).first as usize];
                measures.buckets.push(rpcs as u32);
            }
        }
        // Servers have as much work as clients.
        measures.cpu_ns = 100_000 * u64::from(self.stats(of).rpcs_received).max(measures.rpcs);
        measures.retransmits = (self.time.get().as_secs() / 2) as u32;
        measures
    }

    fn note(&mut self, command: &Command) -> &'static str {
        let (name, detail) = match command {
            Command::ShowSession {} => ("show", String::new()),
            Command::NewSession { force, .. } => ("new", format!(" force={force}")),
            Command::AddGroup { .. } => ("group", String::new()),
            Command::AddNodes { group, nodes } => ("nodes", format!(" {group} {}", nodes.len())),
            Command::AddBatch { .. } => ("batch", String::new()),
            Command::AddTest { from, to, .. } => ("test", format!(" {from} {to}")),
            Command::Run { .. } => ("run", String::new()),
            Command::Stop { force, .. } => ("stop", format!(" force={force}")),
            Command::EndSession {} => ("end", String::new()),
            Command::Query { .. } => ("query", String::new()),
            Command::Stat { .. } => ("stat", String::new()),
            Command::Measure { .. } => ("measure", String::new()),
            other => panic!("unexpected command {other:?}"),
        };
        if !["show", "group", "batch", "query", "stat", "measure"].contains(&name) {
            self.log.push(format!("{name}{detail}"));
        }
        name
    }
}

impl Console for Fake {
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure> {
        let name = self.note(&command);
        if let Some((refused, errno)) = self.refuse
            && refused == name
        {
            return Ok(Err(errno));
        }
        let now = self.time.get();
        Ok(Ok(match command {
            Command::ShowSession {} => match &self.session {
                None => return Ok(Err(Errno::ESRCH)),
                Some(session) => Reply::Session(SessionInfo {
                    name: session.name.clone(),
                    stamp: 1,
                    nid: nid(1),
                    key: 4711,
                    features: 1,
                    timeout: 300,
                    force: session.force,
                    nodes: 0,
                }),
            },
            Command::NewSession { name, force, .. } => {
                assert!(force || self.session.is_none(), "a session was replaced without force");
                let new = FakeSession { name, force, began: now, ..FakeSession::default() };
                self.session = Some(new);
                Reply::Done
            }
            Command::EndSession {} => {
                self.session = None;
                Reply::Done
            }
            Command::AddGroup { group } => {
                self.session_mut().groups.push((group, Vec::new()));
                Reply::Done
            }
            Command::AddNodes { group, nodes } => {
                let reply = self.done(&nodes);
                let groups = &mut self.session_mut().groups;
                groups.iter_mut().find(|(name, _)| *name == group).unwrap().1 = nodes;
                reply
            }
            Command::AddTest { test, concurrency, from, to, loops: -1, .. } => {
                let groups = &self.session().groups;
                let group = |of: &String| groups.iter().find(|(name, _)| name == of).unwrap();
                let (from, to) = (group(&from).1.clone(), group(&to).1.clone());
                let reply = self.done(&[from.clone(), to.clone()].concat());
                self.session_mut().tests.push(FakeTest { test, concurrency, from, to });
                reply
            }
            Command::Run { .. } => {
                self.session_mut().run = Some(now);
                let clients = self.session().tests.iter().flat_map(|test| test.from.clone());
                self.done(&clients.collect::<Vec<_>>())
            }
            Command::Stop { .. } => {
                self.session_mut().stopped = Some(now);
                self.done(&[])
            }
            Command::Query { .. } => Reply::Active(Vec::new()),
            Command::Stat { target: Target::Nodes(nodes), .. } => {
                Reply::Stats(self.answers(&nodes, |nid| self.stats(nid)))
            }
            Command::Measure { target: Target::Nodes(nodes), .. } => {
                Reply::Measures(self.answers(&nodes, |nid| self.measures(nid)))
            }
            _ => Reply::Done,
        }))
    }
}
