//! A session of LNet selftest on simulated nodes, with the commands that `lst` sends.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::BatchId;
use fulmar_selftest::console::{
    Command, DataCheck, Measures, NodeAnswer, NodeError, Reply, Target, TestSpec,
};
use fulmar_sim::administrator::Administrators;
use fulmar_sim::{HostId, Log, Options, Signal, World};

use crate::meter::Meter;
use crate::network::{CONSOLE, TIMEOUT};
use crate::scenario::Direction;

/// Why a simulation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyError(pub(crate) String);

impl std::fmt::Display for StudyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StudyError {}

/// The nodes, and the console of one of them.
pub(crate) struct Session {
    pub(crate) world: World,
    administrators: Administrators,
    tests: Vec<Test>,
    /// Counts the answers to all tests once it is set.
    pub(crate) meter: Option<Meter>,
    /// The answers that the meter has counted, by client.
    metered: BTreeMap<u32, u64>,
    pub(crate) steps: u64,
    broken: Option<String>,
}

/// A test without an end: each client with one server.
#[derive(Debug)]
pub(crate) struct Test {
    /// The name of its batch.
    pub(crate) name: String,
    pub(crate) clients: Range<u32>,
    pub(crate) servers: Range<u32>,
    pub(crate) spec: TestSpec,
    pub(crate) concurrency: u32,
}

/// Returns the bulk test of LNet selftest.
pub(crate) fn brw(direction: Direction, size: u32) -> TestSpec {
    TestSpec::Brw { write: direction == Direction::Write, check: DataCheck::None, size, offset: 0 }
}

impl Session {
    /// Starts the nodes, and creates a session.
    pub(crate) fn begin(options: &Options) -> Result<Self, StudyError> {
        let mut session = Self {
            // The log is not used.
            world: World::new(options, Log::new(0)),
            administrators: Administrators::new(options),
            tests: Vec::new(),
            meter: None,
            metered: BTreeMap::new(),
            steps: 0,
            broken: None,
        };
        let name = "study".to_owned();
        session.command(Command::NewSession { name, timeout: 3600, force: false, features: 1 })?;
        Ok(session)
    }

    fn group(&mut self, group: &str, hosts: Range<u32>) -> Result<(), StudyError> {
        self.command(Command::AddGroup { group: group.into() })?;
        let nodes = hosts.map(|host| self.world.nid(HostId(host))).collect();
        self.command(Command::AddNodes { group: group.into(), nodes })
    }

    /// Adds a test.
    pub(crate) fn add(&mut self, test: Test) -> Result<(), StudyError> {
        let [from, to] = [test.group_of_clients(), format!("{}-servers", test.name)];
        self.group(&from, test.clients.clone())?;
        self.group(&to, test.servers.clone())?;
        self.command(Command::AddBatch { batch: test.name.clone() })?;
        self.command(Command::AddTest {
            batch: test.name.clone(),
            test: test.spec,
            loops: -1,
            concurrency: test.concurrency,
            distribute: (1, 1),
            from,
            to,
        })?;
        self.tests.push(test);
        Ok(())
    }

    /// Starts the tests, with so much time from the first to the end of the last one's turn.
    pub(crate) fn start(&mut self, over: Duration) -> Result<(), StudyError> {
        let (mut turn, part) = (self.world.now(), over / self.tests.len().max(1) as u32);
        let names: Vec<String> = self.tests.iter().map(|test| test.name.clone()).collect();
        for batch in names {
            while self.world.next().is_some_and(|next| next < turn) {
                self.step(turn, "the next test")?;
            }
            self.command(Command::Run { batch, timeout: 0 })?;
            turn = turn + part;
        }
        Ok(())
    }

    /// Returns the number of answers to each test.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let count = |n: usize| self.answers(n).map(|(_, count)| count).sum();
        (0..self.tests.len()).map(count).collect()
    }

    /// Returns the number of answers of each of the servers to all tests.
    pub(crate) fn answered_by(&self, servers: Range<u32>) -> Vec<u64> {
        let mut all = vec![0; servers.len()];
        for (n, test) in self.tests.iter().enumerate() {
            for ((_, count), server) in self.answers(n).zip(test.servers.clone().cycle()) {
                all[(server - servers.start) as usize] += count;
            }
        }
        all
    }

    /// Returns the number of answers that each client of a test got.
    fn answers(&self, test: usize) -> impl Iterator<Item = (u32, u64)> {
        let clients = self.tests[test].clients.clone();
        clients.map(move |client| (client, self.answers_to(client, test)))
    }

    fn answers_to(&self, client: u32, test: usize) -> u64 {
        // The console numbers batches, from that of every new session on, which is 1.
        let batch = BatchId(test as u64 + 2);
        let selftest = self.world.selftest(HostId(client));
        selftest.map_or(0, |selftest| selftest.answered(batch))
    }

    /// Returns the measurements of all clients since the start of the session.
    pub(crate) fn measures(&mut self) -> Result<Vec<Measures>, StudyError> {
        let groups: Vec<String> = self.tests.iter().map(Test::group_of_clients).collect();
        let mut all = Vec::new();
        for group in groups {
            match self.ask(Command::Measure { target: Target::Group(group), timeout: 0 })? {
                Reply::Measures(nodes) => {
                    for node in nodes {
                        all.push(result_of(node, "measure")?);
                    }
                }
                other => {
                    let what = "the console answers a measure command with";
                    return Err(StudyError(format!("{what} {other:?}")));
                }
            }
        }
        Ok(all)
    }

    /// Sends a command that must succeed on every node.
    fn command(&mut self, command: Command) -> Result<(), StudyError> {
        match self.ask(command)? {
            Reply::Nodes(reply) => reply
                .nodes
                .into_iter()
                .try_for_each(|node| result_of(node, "run the command").map(drop)),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, command: Command) -> Result<Reply, StudyError> {
        let text = format!("{command:?}");
        let text = text.chars().take(60).collect::<String>();
        let given = self.administrators.give(&mut self.world, CONSOLE, command);
        let id = given.ok_or_else(|| StudyError("the console's node is down".into()))?;
        let end = self.world.now() + TIMEOUT;
        loop {
            if let Some(answer) = self.administrators.answer(CONSOLE, id) {
                return answer.clone().map_err(|Errno(errno)| {
                    StudyError(format!("the console refuses {text}: errno {errno}"))
                });
            }
            self.step(end, &text)?;
        }
    }

    /// Runs until a condition holds, for at most `timeout`.
    pub(crate) fn until(
        &mut self,
        what: &str,
        timeout: Duration,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<(), StudyError> {
        let end = self.world.now() + timeout;
        while !holds(self) {
            self.step(end, what)?;
        }
        Ok(())
    }

    /// Runs the next event, if it is due before `end`.
    fn step(&mut self, end: Time, what: &str) -> Result<(), StudyError> {
        if self.world.next().is_none_or(|next| next > end) || !self.world.step() {
            return Err(StudyError(format!("{what}: no result before {end}")));
        }
        self.steps += 1;
        while let Some(signal) = self.world.poll_signal() {
            self.observe(&signal);
        }
        self.broken.take().map_or(Ok(()), |what| Err(StudyError(what)))
    }

    fn observe(&mut self, signal: &Signal) {
        match signal {
            // A client that gets an answer sends the next request.
            Signal::Wrote { host, .. } => self.count(*host),
            Signal::Commanded { .. } => self.administrators.react(self.world.now(), signal),
            Signal::Broken { host, what } => self.broken = Some(format!("{host}: {what}")),
            _ => {}
        }
    }

    /// Tells the meter about new answers that a client got.
    fn count(&mut self, host: HostId) {
        if self.meter.is_none() {
            return;
        }
        let tests = self.tests.iter().enumerate();
        let of = tests.filter(|(_, test)| test.clients.contains(&host.0));
        let answers: u64 = of.map(|(n, _)| self.answers_to(host.0, n)).sum();
        let Some(meter) = &mut self.meter else { return };
        let counted = self.metered.entry(host.0).or_default();
        (*counted..answers).for_each(|_| meter.count(self.world.now()));
        *counted = answers;
    }
}

impl Test {
    fn group_of_clients(&self) -> String {
        format!("{}-clients", self.name)
    }
}

fn result_of<T>(node: NodeAnswer<T>, what: &str) -> Result<T, StudyError> {
    let nid = node.nid;
    node.result.map_err(|error| {
        StudyError(match error {
            NodeError::Rpc(Errno(errno)) => format!(
                "the node {nid} does not answer its console (errno {errno}): give it a link, a network \
                 and routers over which the first clients reach it, with a round trip below 10 s"
            ),
            NodeError::Framework(Errno(errno)) => {
                format!("the node {nid} refuses to {what}: errno {errno}")
            }
        })
    })
}
