//! A session of LNet selftest on simulated nodes, with the commands that `lst` sends.

use std::ops::Range;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::BULK_PORTAL;
use fulmar_lnet_wire::{Body, Header};
use fulmar_selftest::console::{Command, DataCheck, Measures, NodeAnswer, Reply, Target, TestSpec};
use fulmar_sim::administrator::Administrators;
use fulmar_sim::{HostId, Log, Options, Signal, World};

use crate::meter::Meter;
use crate::network::{CONSOLE, TIMEOUT};
use crate::scenario::{Begin, Direction};

const BATCH: &str = "load";
const CLIENTS: &str = "clients";
const SERVERS: &str = "servers";

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
    /// Counts the answers of the servers once the batch runs.
    pub(crate) meter: Option<Meter>,
    /// Number of answers of each server.
    pub(crate) answered: Vec<u64>,
    clients: Range<u32>,
    servers: Range<u32>,
    transfer: u32,
    /// The tests of [`Self::add`], and the numbers of their answers.
    tests: Vec<(Test, u64)>,
    pub(crate) steps: u64,
    broken: Option<String>,
}

/// The load of a batch.
pub(crate) struct Load {
    pub(crate) direction: Direction,
    pub(crate) size: u32,
    pub(crate) concurrency: u32,
    pub(crate) begin: Begin,
}

/// A test between two groups of nodes.
#[derive(Debug)]
pub(crate) struct Test {
    /// The name of its batch.
    pub(crate) name: String,
    pub(crate) clients: Range<u32>,
    pub(crate) servers: Range<u32>,
    pub(crate) spec: TestSpec,
    pub(crate) concurrency: u32,
}

impl Test {
    /// Returns the bytes of a transfer; 0 for pings.
    fn transfer(&self) -> u32 {
        match self.spec {
            TestSpec::Ping => 0,
            TestSpec::Brw { size, .. } => size,
        }
    }
}

impl Session {
    /// Starts the nodes, and creates a session with clients and servers.
    pub(crate) fn open(
        options: &Options,
        clients: Range<u32>,
        servers: Range<u32>,
    ) -> Result<Self, StudyError> {
        let mut session = Self::begin(options)?;
        session.answered = vec![0; servers.len()];
        (session.clients, session.servers) = (clients.clone(), servers.clone());
        session.group(CLIENTS, clients)?;
        session.group(SERVERS, servers)?;
        Ok(session)
    }

    /// Starts the nodes, and creates a session without groups.
    pub(crate) fn begin(options: &Options) -> Result<Self, StudyError> {
        let mut session = Self {
            // The log is not used.
            world: World::new(options, Log::new(0)),
            administrators: Administrators::new(options),
            meter: None,
            answered: Vec::new(),
            clients: 0..0,
            servers: 0..0,
            transfer: 0,
            tests: Vec::new(),
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

    /// Starts an endless brw test, each client with one server.
    pub(crate) fn run(&mut self, load: &Load, meter: Meter) -> Result<(), StudyError> {
        match load.begin {
            Begin::Together => {
                self.add_test(BATCH, [CLIENTS, SERVERS], load)?;
                self.watch(load, meter);
                self.start(BATCH)
            }
            Begin::InTurn(over) => self.run_in_turn(load, meter, over),
        }
    }

    fn run_in_turn(&mut self, load: &Load, meter: Meter, over: Duration) -> Result<(), StudyError> {
        let (clients, servers) = (self.clients.clone(), self.servers.clone());
        for server in servers.clone() {
            self.group(&format!("{SERVERS}-{server}"), server..server + 1)?;
        }
        for (client, server) in clients.clone().zip(servers.cycle()) {
            let (from, to) = (format!("{CLIENTS}-{client}"), format!("{SERVERS}-{server}"));
            self.group(&from, client..client + 1)?;
            self.add_test(&format!("{BATCH}-{client}"), [&from, &to], load)?;
        }
        self.watch(load, meter);
        let (mut turn, part) = (self.world.now(), over / clients.len().max(1) as u32);
        for client in clients {
            while self.world.next().is_some_and(|next| next < turn) {
                self.step(turn, "the next client")?;
            }
            self.start(&format!("{BATCH}-{client}"))?;
            turn = turn + part;
        }
        Ok(())
    }

    /// Adds an endless test, each client with one server.
    pub(crate) fn add(&mut self, test: Test) -> Result<(), StudyError> {
        let ends = ["clients", "servers"].map(|end| format!("{}-{end}", test.name));
        self.group(&ends[0], test.clients.clone())?;
        self.group(&ends[1], test.servers.clone())?;
        let ends = ends.each_ref().map(String::as_str);
        self.add_to_batch(&test.name, ends, test.spec, test.concurrency)?;
        self.tests.push((test, 0));
        Ok(())
    }

    /// Starts all tests that were added.
    pub(crate) fn start_all(&mut self) -> Result<(), StudyError> {
        let names: Vec<String> = self.tests.iter().map(|(test, _)| test.name.clone()).collect();
        names.iter().try_for_each(|name| self.start(name))
    }

    /// Returns the number of answers to each test that was added.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.tests.iter().map(|(_, count)| *count).collect()
    }

    fn add_test(&mut self, batch: &str, ends: [&str; 2], load: &Load) -> Result<(), StudyError> {
        let test = TestSpec::Brw {
            write: load.direction == Direction::Write,
            check: DataCheck::None,
            size: load.size,
            offset: 0,
        };
        self.add_to_batch(batch, ends, test, load.concurrency)
    }

    fn add_to_batch(
        &mut self,
        batch: &str,
        ends: [&str; 2],
        test: TestSpec,
        concurrency: u32,
    ) -> Result<(), StudyError> {
        self.command(Command::AddBatch { batch: batch.into() })?;
        let [from, to] = ends.map(str::to_owned);
        self.command(Command::AddTest {
            batch: batch.into(),
            test,
            loops: -1,
            concurrency,
            distribute: (1, 1),
            from,
            to,
        })
    }

    /// Starts to count answers.
    fn watch(&mut self, load: &Load, meter: Meter) {
        self.transfer = load.size;
        self.meter = Some(meter);
    }

    fn start(&mut self, batch: &str) -> Result<(), StudyError> {
        self.command(Command::Run { batch: batch.into(), timeout: 0 })
    }

    /// Returns the measurements of the clients since the start of the session.
    pub(crate) fn measures(&mut self) -> Result<Vec<Measures>, StudyError> {
        let target = Target::Group(CLIENTS.into());
        match self.ask(Command::Measure { target, timeout: 0 })? {
            Reply::Measures(nodes) => {
                nodes.into_iter().map(|node| result_of(node, "measure")).collect()
            }
            other => {
                Err(StudyError(format!("the console answers a measure command with {other:?}")))
            }
        }
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

    /// Counts an answer to a test: a message to the bulk portal that is not the data.
    fn count(&mut self, host: HostId, header: &Header) {
        let Body::Put { portal: BULK_PORTAL, .. } = header.body else { return };
        let Some(client) = self.world.host_of(header.target) else { return };
        let found = self.tests.iter_mut().find(|(test, _)| {
            test.servers.contains(&host.0)
                && test.clients.contains(&client.0)
                && header.payload_len != test.transfer()
        });
        if let Some((_, count)) = found {
            *count += 1;
        }
    }

    fn observe(&mut self, signal: &Signal) {
        match signal {
            Signal::Wrote { host, header, .. } => {
                self.count(*host, header);
                let Some(meter) = &mut self.meter else { return };
                let is_bulk = header.payload_len == self.transfer;
                if let Body::Put { portal: BULK_PORTAL, .. } = header.body
                    && self.servers.contains(&host.0)
                    && !is_bulk
                {
                    meter.count(self.world.now());
                    self.answered[(host.0 - self.servers.start) as usize] += 1;
                }
            }
            Signal::Commanded { .. } => self.administrators.react(self.world.now(), signal),
            Signal::Broken { host, what } => self.broken = Some(format!("{host}: {what}")),
            _ => {}
        }
    }
}

fn result_of<T>(node: NodeAnswer<T>, what: &str) -> Result<T, StudyError> {
    let nid = node.nid;
    node.result.map_err(|error| StudyError(format!("{nid} cannot {what}: {error:?}")))
}
