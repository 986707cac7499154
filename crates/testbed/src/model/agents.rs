//! Operations by agents: commands that execute them in a directory which somebody else has mounted, also on other machines.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fulmar_base::Errno;

use super::agent;
use super::check::{Executor, Failure, check};
use super::kernels;
use super::library::now;
use super::operation::{Operation, Step};
use super::order::{TimedOutcome, timed};
use super::outcome::{Expectation, Outcome, Stat};
use super::words::{Owner, Slot};

/// By how many seconds the clocks of machines may differ.
const CLOCKS: i64 = 60;
/// How long after a close its locks may be held: a kernel tells FUSE of the last close when that has ended.
const RELEASE: Duration = Duration::from_secs(2);
/// How often a lock is tried again meanwhile.
const INTERVAL: Duration = Duration::from_millis(20);

/// Agents, one for each client.
pub struct Agents {
    agents: Vec<Agent>,
    has_kernel_servers: bool,
    /// The slots through which OFD locks or locks by `flock` were taken.
    locked: BTreeSet<(u8, Slot)>,
    /// When such a slot was closed last.
    released: Option<Instant>,
    begun: i64,
    runs: u32,
    /// By which agents begin the run.
    line: String,
}

/// A command that executes the operations of a client.
struct Agent {
    command: String,
    process: Child,
    // Gone when the agent is to end.
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Agents {
    /// Starts a shell command for each client. What is known of kernel servers is admitted only if there may be some.
    ///
    /// # Errors
    /// Which cannot be started, and why.
    pub fn start(commands: &[String], has_kernel_servers: bool) -> Result<Self, String> {
        let agents = commands.iter().map(|command| Agent::start(command));
        Ok(Self {
            agents: agents.collect::<Result<_, _>>()?,
            has_kernel_servers,
            locked: BTreeSet::new(),
            released: None,
            begun: now(),
            runs: 0,
            line: String::new(),
        })
    }

    /// Executes operations in a new directory, and examines it by each agent.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If an agent has ended.
    pub fn check(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        self.begin();
        check(steps, self.agents.len() as u8, self)
    }

    /// Has the next operations be in a new directory.
    pub(super) fn begin(&mut self) {
        self.runs += 1;
        (self.locked, self.released) = (BTreeSet::new(), None);
        self.line = format!("run run-{}-{} {}", self.begun, self.runs, now() - CLOCKS);
        for agent in &mut self.agents {
            agent.perform(&self.line);
        }
    }

    /// Has each agent use all servers at the same time, so that its mount learns of a fault.
    pub(super) fn use_servers(&mut self, least: u64) {
        for agent in &mut self.agents {
            let told = agent.tell(&format!("{}{least}", agent::USE));
            told.unwrap_or_else(|why| panic!("{:?} has ended: {why}", agent.command));
        }
        for agent in &mut self.agents {
            let done = agent.hear();
            assert_eq!(done, Ok(Outcome::Done), "{:?} cannot use the servers", agent.command);
        }
    }

    /// Starts an agent again, in the same directory.
    pub(super) fn restart(&mut self, client: u8) {
        let agent = &mut self.agents[usize::from(client)];
        let again = Agent::start(&agent.command);
        *agent = again.unwrap_or_else(|error| panic!("{error}"));
        agent.perform(&self.line);
        self.locked.retain(|(other, _)| *other != client);
    }

    /// Notes which slots have locks that go some time after a close.
    fn note_locks(&mut self, step: &Step, outcome: &Outcome) {
        let Some(slot) = step.operation.slot() else { return };
        let key = (step.client, slot);
        match &step.operation {
            Operation::Lock { owner: Owner::OpenFile | Owner::Flock, .. }
                if *outcome == Outcome::Done =>
            {
                self.locked.insert(key);
            }
            Operation::Close { .. } | Operation::Open { .. } if self.locked.remove(&key) => {
                self.released = Some(Instant::now());
            }
            _ => {}
        }
    }
}

impl Executor for Agents {
    fn perform(&mut self, step: &Step) -> Outcome {
        let agent = &mut self.agents[usize::from(step.client)];
        let outcome = if self.has_kernel_servers {
            agent.sync_before_close(&step.operation);
            agent.execute(&kernels::instead_of(&step.operation), self.released)
        } else {
            agent.execute(&step.operation, self.released)
        };
        self.note_locks(step, &outcome);
        outcome
    }

    fn perform_together(&mut self, steps: &[Step]) -> Vec<TimedOutcome> {
        let released = self.released;
        let found =
            timed(&mut self.agents, steps, |agent, operation| agent.execute(operation, released));
        steps.iter().zip(&found).for_each(|(step, found)| self.note_locks(step, &found.outcome));
        found
    }

    fn admits(&self, operation: &Operation, expected: &Expectation, found: &Outcome) -> bool {
        self.has_kernel_servers && kernels::admit(operation, expected, found)
    }
}

/// Returns whether a lock of others is in the way.
fn is_refused(operation: &Operation, outcome: &Outcome) -> bool {
    match operation {
        Operation::Lock { .. } => *outcome == Outcome::Failed(Errno::EAGAIN),
        Operation::TestLock { .. } => *outcome == Outcome::IsRefused(true),
        _ => false,
    }
}

impl Agent {
    fn start(command: &str) -> Result<Self, String> {
        let started = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = started.map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (lines, answers) = (process.stdin.take(), process.stdout.take());
        let answers = answers.ok_or_else(|| format!("{command:?} has no output"))?;
        Ok(Self { command: command.to_owned(), process, lines, answers: BufReader::new(answers) })
    }

    /// Executes an operation; a lock that is refused again for some time after a close, as its locks may not be free yet.
    fn execute(&mut self, operation: &Operation, released: Option<Instant>) -> Outcome {
        // The number of the client is one of the tester.
        let line = Step::alone(0, operation.clone()).to_string();
        let mut outcome = self.perform(&line);
        while is_refused(operation, &outcome)
            && released.is_some_and(|since| since.elapsed() < RELEASE)
        {
            std::thread::sleep(INTERVAL);
            outcome = self.perform(&line);
        }
        outcome
    }

    /// Syncs a file without a name before its slot is closed: a kernel client that closes it as its last one drops what it has
    /// not written yet, also when another client has the file open.
    fn sync_before_close(&mut self, operation: &Operation) {
        let (Operation::Close { slot } | Operation::Open { slot, .. }) = operation else { return };
        let slot = *slot;
        let stat = self.execute(&Operation::StatOpen { slot }, None);
        if matches!(stat, Outcome::Stat(Stat { links: 0, .. })) {
            self.execute(&Operation::Sync { slot }, None);
        }
    }

    /// Returns the answer to a line.
    fn perform(&mut self, line: &str) -> Outcome {
        self.ask(line)
            .unwrap_or_else(|why| panic!("{:?} has ended at {line:?}: {why}", self.command))
    }

    fn ask(&mut self, line: &str) -> Result<Outcome, String> {
        self.tell(line)?;
        self.hear()
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let lines = self.lines.as_mut().ok_or("it has no input")?;
        writeln!(lines, "{line}").map_err(|error| error.to_string())
    }

    fn hear(&mut self) -> Result<Outcome, String> {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| error.to_string())?;
        answer.strip_suffix('\n').ok_or("it says no more")?.parse()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.process.wait();
    }
}
