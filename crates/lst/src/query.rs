//! `lst query`. Spec: lnet-selftest §16.14.

use std::time::Duration;

use fulmar_lnet_wire::ProcessId;
use fulmar_selftest::console::{Command, NodeAnswer, NodeError, Reply};

use super::batch::{BATCH, test_number};
use super::options::{Line, Opt};
use super::tables::state_name;
use super::tool::{About, CommandResult, Tool, failures, framework, rpc, status, verdict};
use super::{Key, Subcommand};

/// Timeout of an answer, and pause between two rounds, in seconds.
const TIMEOUT: u32 = 5;
const DELAY: u32 = 5;

pub(super) const QUERY: Subcommand = Subcommand {
    name: "query",
    about: "Show whether the tests of a batch are running",
    usage: "Usage: lst query [--test ID] [--server] [--timeout TIME] NAME",
    options: &[
        Opt::valued('t', "test", "ID", "Only this test; numbers start at 1"),
        Opt::flag('s', "server", "Query servers instead of clients"),
        Opt::valued('o', "timeout", "SECONDS", "Timeout of an answer"),
        Opt::valued('d', "delay", "SECONDS", "Pause between two rounds"),
        Opt::valued('c', "loop", "N", "Number of rounds"),
        Opt::flag('a', "active", "Print each node except idle ones"),
        Opt::flag('i', "idle", "Print each node except running ones"),
        Opt::flag('e', "error", "Print each node with an error"),
        Opt::flag('l', "all", "Print each node"),
    ],
    operands: "[BATCH]",
    note: "",
    key: Key::Needed,
    run: query,
};

fn query(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let batch = line.operand_or(BATCH).ok_or(status::USAGE)?.to_owned();
    let test = test_number(tool, line)?;
    let timeout = line.number("timeout", TIMEOUT).ok_or(status::USAGE)?;
    let delay = line.number("delay", DELAY).ok_or(status::USAGE)?;
    let rounds = line.number("loop", 1).ok_or(status::USAGE)?;
    let delay = Duration::from_secs(u64::from(delay));
    let mut ended = Ok(());
    for round in 0..rounds {
        if round > 0 {
            let next = tool.clock.now() + delay;
            tool.clock.wait_until(next);
        }
        let object = if test == 0 { "batch" } else { "test" };
        let about = About { object, failed: &format!("Failed to query batch {batch}") };
        let servers = line.has("server");
        let command = Command::Query { batch: batch.clone(), test, servers, timeout };
        let reply = tool.ask(about, command)?;
        let Reply::Active(answers) = reply else { return Err(tool.garbled(&reply)) };
        let text = match (&answers[..], Filter::of(line)) {
            ([], _) => "Batch or test is empty\n".into(),
            (answers, Some(filter)) => filter.lines(answers),
            (answers, None) => format!("{batch} [{test}] {}\n", summary(answers)),
        };
        tool.print(&text)?;
        ended = verdict(&failures(&answers));
    }
    ended
}

/// Returns the number of nodes in each state.
fn summary(answers: &[NodeAnswer<u32>]) -> String {
    let count = |what: fn(&NodeAnswer<u32>) -> bool| answers.iter().filter(|a| what(a)).count();
    let unknown = count(|answer| answer.result.is_err_and(|error| rpc(error).is_some()));
    let failed = count(|answer| answer.result.is_err_and(|error| framework(error).is_some()));
    let running = count(is_running);
    let stopped = count(is_idle);
    match (unknown, running, stopped, failed) {
        (0, 0, _, 0) => "is stopped".into(),
        (0, _, 0, 0) => "is running".into(),
        _ => format!(
            "{unknown} of {} nodes are unknown, stopped: {stopped} , running: {running}, failed: \
             {failed}",
            answers.len()
        ),
    }
}

fn is_running(answer: &NodeAnswer<u32>) -> bool {
    answer.result.is_ok_and(|active| active > 0)
}

fn is_idle(answer: &NodeAnswer<u32>) -> bool {
    answer.result == Ok(0)
}

/// Which nodes to leave out. Each option except the last leaves out more.
struct Filter {
    idle: bool,
    running: bool,
    sound: bool,
}

impl Filter {
    fn of(line: &Line) -> Option<Self> {
        let given = ["active", "idle", "error", "all"].iter().any(|long| line.has(long));
        given.then(|| Self {
            idle: line.has("active"),
            running: line.has("idle"),
            sound: line.has("error"),
        })
    }

    fn lines(&self, answers: &[NodeAnswer<u32>]) -> String {
        let shown = |answer: &&NodeAnswer<u32>| {
            let refused = matches!(answer.result, Err(NodeError::Framework(_)));
            !(self.idle && is_idle(answer)
                || self.running && is_running(answer)
                || self.sound && !refused)
        };
        let line = |answer: &NodeAnswer<u32>| {
            let node = ProcessId::lustre(answer.nid);
            let result = match answer.result {
                Ok(0) => "Idle".into(),
                Ok(_) => "Running".into(),
                Err(NodeError::Rpc(errno) | NodeError::Framework(errno)) => errno.to_string(),
            };
            format!("{node} [{}]: {result}\n", state_name(answer.state))
        };
        answers.iter().filter(shown).map(line).collect()
    }
}
