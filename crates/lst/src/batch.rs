//! `lst add_batch`, `run`, `stop`, `list_batch`. Spec: lnet-selftest §16.9, §16.11 to §16.13.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_selftest::console::{
    BatchInfo, Command, NodeInfo, NodeState, Reply, TestInfo, TestSpec,
};

use super::options::{Line, Opt};
use super::tables::{self, STATES};
use super::tool::{About, CommandResult, Tool, failures, framework, status};
use super::{Key, Subcommand};

/// The default batch, which every session has.
pub(super) const BATCH: &str = "batch";
/// State codes of a batch in the output.
const IDLE: u32 = 0xb0;
const RUNNING: u32 = 0xb1;
/// Interval between two queries of a stopping batch.
const POLL: Duration = Duration::from_secs(1);
/// The timeout of such a query, in seconds.
const POLL_TIMEOUT: u32 = 30;

pub(super) const ADD_BATCH: Subcommand = Subcommand {
    name: "add_batch",
    about: "Create a batch: tests that run together",
    usage: "Usage: lst add_batch NAME",
    options: &[],
    operands: "NAME",
    note: "",
    key: Key::Needed,
    run: add_batch,
};

pub(super) const RUN: Subcommand = Subcommand {
    name: "run",
    about: "Start the tests of a batch",
    usage: "Usage: lst run [--timeout TIME] [NAME]",
    options: &[Opt::valued(
        't',
        "timeout",
        "SECONDS",
        "Accepted and not used, as in every release",
    )],
    operands: "[BATCH]",
    note: "With --from and --to it runs one test and prints the results: see lst run --help",
    key: Key::Needed,
    run,
};

pub(super) const STOP: Subcommand = Subcommand {
    name: "stop",
    about: "Stop the tests of a batch, and wait until they have stopped",
    usage: "Usage: lst stop [--force] BATCH_NAME",
    options: &[Opt::flag('f', "force", "Abort RPCs in flight")],
    operands: "[BATCH]",
    note: "",
    key: Key::Needed,
    run: stop,
};

pub(super) const LIST_BATCH: Subcommand = Subcommand {
    name: "list_batch",
    about: "Print the names of the batches, or the tests or nodes of one",
    usage: "Usage: lst list_batch NAME [--test ID] [--server]",
    options: &[
        Opt::valued('t', "test", "ID", "Only this test; numbers start at 1"),
        Opt::flag('s', "server", "Servers instead of clients"),
        Opt::flag('a', "active", "Nodes that are in the session"),
        Opt::flag('i', "invalid", "Nodes that are not in the session"),
        Opt::flag('l', "all", "All nodes"),
    ],
    operands: "[NAME]",
    note: "",
    key: Key::Needed,
    run: list_batch,
};

fn add_batch(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let batch = line.operand().ok_or(status::USAGE)?.to_owned();
    tool.check_name(&batch)?;
    let about = About { object: "batch", failed: &format!("Failed to add batch {batch}") };
    let failed = tool.execute(about, Command::AddBatch { batch })?;
    tool.conclude(&failed)
}

fn run(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let batch = line.operand_or(BATCH).ok_or(status::USAGE)?;
    let timeout = line.number("timeout", 0).ok_or(status::USAGE)?;
    let about = About { object: "batch", failed: &format!("Failed to start batch {batch}") };
    let failed = tool.execute(about, Command::Run { batch: batch.to_owned(), timeout })?;
    tool.check_nodes("Run batch", &failed)?;
    tool.print(&format!("{batch} is running now\n"))
}

fn stop(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let batch = line.operand_or(BATCH).ok_or(status::USAGE)?.to_owned();
    let about = About { object: "batch", failed: &format!("Failed to stop batch {batch}") };
    let force = line.has("force");
    let mut failed = tool.execute(about, Command::Stop { batch: batch.clone(), force })?;
    failed.retain(|failure| framework(failure.error) != Some(Errno::EPERM));
    tool.check_nodes("stop batch", &failed)?;
    loop {
        let (servers, timeout) = (false, POLL_TIMEOUT);
        let query = Command::Query { batch: batch.clone(), test: 0, servers, timeout };
        let reply = tool.ask(about, query)?;
        let Reply::Active(answers) = reply else { return Err(tool.garbled(&reply)) };
        // A node that does not answer may never stop: it is reported, but not waited for.
        tool.check_nodes("stop batch", &failures(&answers))?;
        let running = answers.iter().filter(|answer| answer.result.is_ok_and(|n| n > 0)).count();
        if running == 0 {
            return tool.print("Batch is stopped\n");
        }
        tool.print(&format!("{running} batch in stopping\n"))?;
        let next = tool.clock.now() + POLL;
        tool.clock.wait_until(next);
    }
}

fn list_batch(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    if line.operands.is_empty() {
        let about = About { object: "batch", failed: "Failed to list batches" };
        let reply = tool.ask(about, Command::ListBatches {})?;
        let Reply::Names(names) = reply else { return Err(tool.garbled(&reply)) };
        return tool.print(&tables::names(&names, "batches"));
    }
    let batch = line.operand().ok_or(status::USAGE)?;
    let test = test_number(tool, line)?;
    let about = About { object: "batch", failed: &format!("Failed to list batch {batch}") };
    let reply = tool.ask(about, Command::ShowBatch { batch: batch.to_owned() })?;
    let Reply::Batch(info) = reply else { return Err(tool.garbled(&reply)) };
    let tests = match test {
        0 => &info.tests[..],
        number => {
            let one = info.tests.get(number as usize - 1..number as usize);
            one.ok_or_else(|| tool.refused(About { object: "test", ..about }, Errno::ENOENT))?
        }
    };
    let states = selected_states(line);
    if states.is_empty() {
        let mut text = if test == 0 { head(batch, &info) } else { String::new() };
        let first = test.max(1);
        text.extend(tests.iter().zip(first..).map(|(test, number)| test_block(number, test)));
        return tool.print(&text);
    }
    let nodes = match (test, line.has("server")) {
        (0, false) => &info.clients,
        (0, true) => &info.servers,
        (_, false) => &tests[0].clients,
        (_, true) => &tests[0].servers,
    };
    let (lines, total) = tables::nodes(nodes, &states);
    tool.print(&format!("{lines}Total {total} nodes\n"))
}

/// Returns the number of the test; 0 means all.
pub(super) fn test_number(tool: &mut Tool<'_>, line: &Line) -> CommandResult<u32> {
    match line.number("test", 0) {
        Some(0) if line.has("test") => {}
        Some(number) => return Ok(number),
        None => {}
    }
    tool.fail("Invalid test id, test id starts from 1")
}

fn selected_states(line: &Line) -> Vec<NodeState> {
    let wanted = |state: &NodeState| {
        let option = if *state == NodeState::Active { "active" } else { "invalid" };
        line.has("all") || line.has(option)
    };
    STATES.into_iter().filter(wanted).collect()
}

fn head(batch: &str, info: &BatchInfo) -> String {
    let state = if info.running { RUNNING } else { IDLE };
    let tests = info.tests.len();
    format!("Batch: {batch} Tests: {tests} State: {state}\n{}", sides(&info.clients, &info.servers))
}

fn test_block(number: u32, info: &TestInfo) -> String {
    let name = match info.test {
        TestSpec::Ping => "ping",
        TestSpec::Brw { .. } => "brw",
    };
    format!(
        "\tTest {number}({name}) (loop: {}, concurrency: {})\n{}",
        info.loops,
        info.concurrency,
        sides(&info.clients, &info.servers)
    )
}

fn sides(clients: &[NodeInfo], servers: &[NodeInfo]) -> String {
    format!(
        "\t{}\nclient\t{}\nserver\t{}\n",
        tables::TITLE,
        tables::counts(clients),
        tables::counts(servers)
    )
}
