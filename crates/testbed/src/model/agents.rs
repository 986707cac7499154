//! Operations by agents: commands that execute them in a directory which somebody else has mounted, also on other machines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::check::{Executor, Failure, check};
use super::kernels;
use super::library::now;
use super::operation::{Operation, Step};
use super::outcome::{Expected, Outcome};

/// By how many seconds the clocks of machines may differ.
const CLOCKS: i64 = 60;

/// Agents, one for each client.
pub struct Agents {
    agents: Vec<Agent>,
    begun: i64,
    runs: u32,
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
    /// Starts a shell command for each client.
    ///
    /// # Errors
    /// Which cannot be started, and why.
    pub fn start(commands: &[String]) -> Result<Self, String> {
        let agents = commands.iter().map(|command| Agent::start(command));
        Ok(Self { agents: agents.collect::<Result<_, _>>()?, begun: now(), runs: 0 })
    }

    /// Executes operations in a new directory, and examines it by each agent.
    ///
    /// # Errors
    /// The first outcome that the model does not admit.
    ///
    /// # Panics
    /// If an agent has ended.
    pub fn check(&mut self, steps: &[Step]) -> Result<(), Box<Failure>> {
        self.runs += 1;
        let line = format!("run run-{}-{} {}", self.begun, self.runs, now() - CLOCKS);
        for agent in &mut self.agents {
            agent.perform(&line);
        }
        check(steps, self.agents.len() as u8, self)
    }
}

impl Executor for Agents {
    fn perform(&mut self, step: &Step) -> Outcome {
        self.agents[usize::from(step.client)].perform(&step.to_string())
    }

    fn admits(&self, operation: &Operation, expected: &Expected, found: &Outcome) -> bool {
        kernels::admit(operation, expected, found)
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

    /// Returns the answer to a line.
    fn perform(&mut self, line: &str) -> Outcome {
        self.ask(line)
            .unwrap_or_else(|why| panic!("{:?} has ended at {line:?}: {why}", self.command))
    }

    fn ask(&mut self, line: &str) -> Result<Outcome, String> {
        let lines = self.lines.as_mut().ok_or("it has no input")?;
        writeln!(lines, "{line}").map_err(|error| error.to_string())?;
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
