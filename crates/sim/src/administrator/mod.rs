//! People at the consoles of nodes: each gives a command, waits for the answer, thinks, goes on.

mod script;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_selftest::CommandId;
use fulmar_selftest::console::{Answer as ConsoleAnswer, Command, Keyed};

use crate::HostId;
use crate::options::Options;
use crate::queue::Queue;
use crate::signal::Signal;
use crate::world::World;

/// The key of every session.
const KEY: u32 = 4711;
/// How often somebody looks whether his node is up again.
const PATIENCE: Duration = Duration::from_secs(1);

/// All of them, and what they were told.
#[derive(Debug)]
pub struct Administrators {
    rng: Rng,
    endless: bool,
    people: BTreeMap<HostId, Administrator>,
    /// Who gives his next command, and when: everybody who does not wait for an answer.
    agenda: Queue<HostId>,
    answers: BTreeMap<(HostId, CommandId), Option<ConsoleAnswer>>,
    /// Sessions are ended, and none begins.
    calm: bool,
}

#[derive(Debug, Default)]
struct Administrator {
    script: VecDeque<Command>,
    waiting: Option<CommandId>,
    done: bool,
}

impl Administrators {
    /// Draws when they begin.
    pub fn new(options: &Options) -> Self {
        let mut rng = Rng::new(options.seed ^ ADMINISTRATOR_STREAM);
        let (mut agenda, mut people) = (Queue::default(), BTreeMap::new());
        let selftest = options.selftest.clone().unwrap_or_default();
        for host in (0..selftest.administrators.min(options.nodes)).map(HostId) {
            agenda.push(Time(rng.below(options.safety.0 / 4)), host);
            people.insert(host, Administrator::default());
        }
        let (endless, answers, calm) = (selftest.endless, BTreeMap::new(), false);
        Self { rng, endless, people, agenda, answers, calm }
    }

    /// Gives a command to the console of a node, unless that is down.
    ///
    /// # Panics
    /// If the node has no selftest.
    pub fn give(&mut self, world: &mut World, host: HostId, command: Command) -> Option<CommandId> {
        let id = world.command(host, Keyed { key: KEY, command })?;
        let id = id.expect("the options of the run have a selftest");
        let before = self.answers.insert((host, id), None);
        assert!(before.is_none(), "{host}: {id:?} is used again");
        Some(id)
    }

    /// Returns the answer to a command, if there is one.
    pub fn answer(&self, host: HostId, command: CommandId) -> Option<&ConsoleAnswer> {
        self.answers.get(&(host, command))?.as_ref()
    }

    /// Returns how many commands are not answered and how many people are not done.
    pub fn pending(&self) -> usize {
        let open = self.answers.values().filter(|answer| answer.is_none()).count();
        open + self.people.values().filter(|person| !person.done).count()
    }

    /// Returns when somebody next gives a command.
    pub fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// From now on everybody only ends his session.
    pub fn calm_down(&mut self) {
        self.calm = true;
        for person in self.people.values_mut() {
            person.script = [Command::EndSession {}].into();
        }
    }

    /// Lets the next one give his command.
    pub fn act(&mut self, world: &mut World) {
        let Some((now, host)) = self.agenda.pop() else { return };
        if world.node(host).is_none() {
            return self.agenda.push(now.max(world.now()) + PATIENCE, host);
        }
        let Some(command) = self.next_command(world, host) else { return };
        let id = self.give(world, host, command);
        if let Some(person) = self.people.get_mut(&host) {
            person.waiting = id;
        }
    }

    /// Takes what a node told.
    ///
    /// # Panics
    /// If it answers what it was not asked, or for the second time.
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

    /// Whoever has his answer thinks, for longer or shorter.
    fn answered(&mut self, now: Time, host: HostId, command: CommandId) {
        let Some(person) = self.people.get_mut(&host) else { return };
        if person.waiting != Some(command) {
            return;
        }
        person.waiting = None;
        let longest = if self.rng.one_in(3) { 3_000_000_000 } else { 50_000_000 };
        self.agenda.push(now + Duration::from_nanos(self.rng.below(longest)), host);
    }

    /// The session is lost with the node.
    fn crashed(&mut self, now: Time, host: HostId) {
        let Some(person) = self.people.get_mut(&host) else { return };
        if !self.calm {
            person.script.clear();
        }
        if person.waiting.take().is_some() {
            self.agenda.push(now + PATIENCE, host);
        }
    }

    fn next_command(&mut self, world: &World, host: HostId) -> Option<Command> {
        let person = self.people.get_mut(&host)?;
        if person.script.is_empty() && !self.calm {
            person.script = script::draw(&mut self.rng, world, self.endless);
        }
        let command = person.script.pop_front();
        person.done = command.is_none();
        command
    }
}

/// Keeps what they draw apart from what the network draws.
const ADMINISTRATOR_STREAM: u64 = 0x6164_6d69_6e00_0000;
