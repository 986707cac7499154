//! Administrators at selftest consoles: each sends a command, waits for the answer and a random
//! time, and continues.

mod script;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_selftest::CommandId;
use fulmar_selftest::console::{Answer as ConsoleAnswer, Command, KeyedCommand};

use crate::HostId;
use crate::options::Options;
use crate::queue::Queue;
use crate::signal::Signal;
use crate::world::World;

/// The key of every session.
const KEY: u32 = 4711;
/// Wait before a command is tried again on a node that is down.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// All administrators, and the answers to their commands.
#[derive(Debug)]
pub struct Administrators {
    rng: Rng,
    endless: bool,
    consoles: BTreeMap<HostId, Console>,
    /// The next commands: the hosts of all administrators who do not wait for an answer, by time.
    agenda: Queue<HostId>,
    answers: BTreeMap<(HostId, CommandId), Option<ConsoleAnswer>>,
    /// Sessions are ended, and no new ones start.
    calm: bool,
}

#[derive(Debug, Default)]
struct Console {
    script: VecDeque<Command>,
    waiting: Option<CommandId>,
    done: bool,
}

impl Administrators {
    /// Draws the start times.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed ^ ADMINISTRATOR_STREAM);
        let (mut agenda, mut consoles) = (Queue::default(), BTreeMap::new());
        let selftest = options.selftest.clone().unwrap_or_default();
        for host in (0..selftest.administrators.min(options.nodes)).map(HostId) {
            agenda.push(Time(rng.below(options.safety.0 / 4)), host);
            consoles.insert(host, Console::default());
        }
        let (endless, answers, calm) = (selftest.endless, BTreeMap::new(), false);
        Self { rng, endless, consoles, agenda, answers, calm }
    }

    /// Sends a command to the console of a node, unless the node is down.
    ///
    /// # Panics
    /// If the node has no selftest.
    pub fn give(&mut self, world: &mut World, host: HostId, command: Command) -> Option<CommandId> {
        let id = world.command(host, KeyedCommand { key: KEY, command })?;
        let id = id.expect("the options of the run have a selftest");
        let before = self.answers.insert((host, id), None);
        assert!(before.is_none(), "{host}: {id:?} is used again");
        Some(id)
    }

    /// Returns the answer to a command, if there is one.
    pub fn answer(&self, host: HostId, command: CommandId) -> Option<&ConsoleAnswer> {
        self.answers.get(&(host, command))?.as_ref()
    }

    /// Returns the number of unanswered commands plus the number of unfinished administrators.
    pub fn pending(&self) -> usize {
        let open = self.answers.values().filter(|answer| answer.is_none()).count();
        open + self.consoles.values().filter(|console| !console.done).count()
    }

    /// Returns the time of the next command.
    pub fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Makes all administrators end their sessions and do nothing else.
    pub fn end_sessions(&mut self) {
        self.calm = true;
        for console in self.consoles.values_mut() {
            console.script = [Command::EndSession {}].into();
        }
    }

    /// Sends the next command.
    pub fn act(&mut self, world: &mut World) {
        let Some((now, host)) = self.agenda.pop() else { return };
        if world.node(host).is_none() {
            return self.agenda.push(now.max(world.now()) + RETRY_INTERVAL, host);
        }
        let Some(command) = self.next_command(world, host) else { return };
        let id = self.give(world, host, command);
        if let Some(console) = self.consoles.get_mut(&host) {
            console.waiting = id;
        }
    }

    /// Handles a signal of a node.
    ///
    /// # Panics
    /// If a node answers a command that was not sent, or answers twice.
    pub fn react(&mut self, now: Time, signal: &Signal) {
        match signal {
            Signal::Commanded { host, command, answer } => {
                let place = self.answers.get_mut(&(*host, *command));
                let before = place.expect("only a command is answered").replace(answer.clone());
                assert!(before.is_none(), "{host}: {command:?} is answered twice");
                self.answered(now, *host, *command);
            }
            Signal::Crashed { host } => {
                self.answers.retain(|(one, _), _| one != host);
                self.crashed(now, *host);
            }
            _ => {}
        }
    }

    /// Schedules the next command after a random time.
    fn answered(&mut self, now: Time, host: HostId, command: CommandId) {
        let Some(console) = self.consoles.get_mut(&host) else { return };
        if console.waiting != Some(command) {
            return;
        }
        console.waiting = None;
        let longest = if self.rng.one_in(3) { 3_000_000_000 } else { 50_000_000 };
        self.agenda.push(now + Duration::from_nanos(self.rng.below(longest)), host);
    }

    /// The session is lost with the node.
    fn crashed(&mut self, now: Time, host: HostId) {
        let Some(console) = self.consoles.get_mut(&host) else { return };
        if !self.calm {
            console.script.clear();
        }
        if console.waiting.take().is_some() {
            self.agenda.push(now + RETRY_INTERVAL, host);
        }
    }

    fn next_command(&mut self, world: &World, host: HostId) -> Option<Command> {
        let console = self.consoles.get_mut(&host)?;
        if console.script.is_empty() && !self.calm {
            console.script = script::draw(&mut self.rng, world, self.endless);
        }
        let command = console.script.pop_front();
        console.done = command.is_none();
        command
    }
}

/// Gives the administrators a random stream of their own.
const ADMINISTRATOR_STREAM: u64 = 0x6164_6d69_6e00_0000;
