//! `lst add_test`. Spec: lnet-selftest §16.10.

use fulmar_selftest::console::{Command, DataCheck, Reply, TestSpec};

use super::batch::BATCH;
use super::options::{Line, Opt, c_number};
use super::tool::{About, CommandResult, Tool, failures, status};
use super::{Key, Subcommand};

/// The largest transfer, in bytes.
const SIZE_MAX: i64 = 1 << 20;
const SIZE: u32 = 4096;
/// Offsets are within a page.
const PAGE: i64 = 4096;
/// Data is a sequence of 64-bit words: a kernel node crashes when it receives a part of one.
const WORD: i64 = 8;
const CONCURRENCY_MAX: u32 = 1024;

pub(super) const ADD_TEST: Subcommand = Subcommand {
    name: "add_test",
    about: "Add a test to a batch",
    usage: "Usage: lst add_test [--batch BATCH] [--loop #] [--concurrency #]  [--distribute #:#] \
            [--from GROUP] [--to GROUP] TEST...",
    options: &[
        Opt::valued('b', "batch", "NAME", "The batch; the one named batch by default"),
        Opt::valued('c', "concurrency", "N", "RPCs in flight from each client to each server"),
        Opt::valued(
            'd',
            "distribute",
            "D:S",
            "How many clients share how many servers; 1:1 by default",
        ),
        Opt::valued('f', "from", "GROUP", "The clients"),
        Opt::valued('t', "to", "GROUP", "The servers"),
        Opt::valued('l', "loop", "N", "Number of RPCs; without end by default"),
    ],
    operands: "TEST...",
    note: "TEST: ping, or brw [read|write] [size=N[k|M]] [check=simple|full] [off=N]",
    key: Key::Needed,
    run: add_test,
};

fn add_test(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let batch = line.value("batch").unwrap_or(BATCH).to_owned();
    let concurrency = concurrency(tool, line)?;
    let distribute = distribute(tool, line)?;
    let loops = line.number("loop", -1).ok_or(status::USAGE)?;
    let [name, parameters @ ..] = &line.operands[..] else { return Err(status::USAGE) };
    let from = line.value("from").ok_or(status::USAGE)?.to_owned();
    let to = line.value("to").ok_or(status::USAGE)?.to_owned();
    let test = match parse(name, parameters) {
        Ok(test) => test,
        Err(wrong) => {
            tool.complain(&wrong.text);
            tool.complain(&format!("Failed to add test ({name})"));
            if let Some(hint) = wrong.hint {
                tool.hint(hint);
            }
            return Err(status::LOCAL);
        }
    };
    for group in [&from, &to] {
        check_group(tool, group)?;
    }
    let about = About { object: "test", failed: "Failed to add test" };
    let command = Command::AddTest { batch, test, loops, concurrency, distribute, from, to };
    let reply = tool.ask(about, command)?;
    let Reply::Nodes(reply) = reply else { return Err(tool.garbled(&reply)) };
    tool.check_nodes("add test", &failures(&reply.nodes))?;
    tool.print("Test was added successfully\n")
}

/// Checks that a group exists: an error of the test does not tell which one is missing.
fn check_group(tool: &mut Tool<'_>, group: &str) -> CommandResult {
    match tool.call(Command::ShowGroup { group: group.to_owned() })? {
        Ok(_) => Ok(()),
        Err(errno) => {
            tool.complain(&format!("Can't get count of nodes from {group}: {errno}"));
            tool.hint("\"lst list_group\" lists the groups");
            Err(status::LOCAL)
        }
    }
}

fn concurrency(tool: &mut Tool<'_>, line: &Line) -> CommandResult<u32> {
    match line.number("concurrency", 1) {
        Some(number) if (1..=CONCURRENCY_MAX).contains(&number) => Ok(number),
        _ => {
            let given = line.value("concurrency").unwrap_or_default();
            tool.complain(&format!("Invalid concurrency of test: {given}"));
            tool.hint(&format!("write a number from 1 to {CONCURRENCY_MAX}"));
            Err(status::LOCAL)
        }
    }
}

fn distribute(tool: &mut Tool<'_>, line: &Line) -> CommandResult<(u32, u32)> {
    let Some(text) = line.value("distribute") else { return Ok((1, 1)) };
    let pair = text
        .split_once(':')
        .and_then(|(clients, servers)| Some((clients.parse().ok()?, servers.parse().ok()?)));
    match pair {
        Some((clients, servers)) if clients > 0 && servers > 0 => Ok((clients, servers)),
        _ => {
            tool.complain(&format!("Invalid distribution: {text}"));
            tool.hint("write how many clients share how many servers: 1:2");
            Err(status::LOCAL)
        }
    }
}

/// An error in the description of a test.
#[derive(Debug, PartialEq, Eq)]
struct TestError {
    text: String,
    hint: Option<&'static str>,
}

impl TestError {
    fn new(text: String, hint: &'static str) -> Self {
        Self { text, hint: Some(hint) }
    }
}

/// Parses the description of a test. `Unknow` and `postive` are spelled as in Lustre's tool.
fn parse(name: &str, parameters: &[String]) -> Result<TestSpec, TestError> {
    match &name.to_ascii_lowercase()[..] {
        "ping" => match parameters.first() {
            None => Ok(TestSpec::Ping),
            Some(parameter) => Err(unknown(parameter, "ping has no parameters")),
        },
        "brw" => parse_brw(parameters),
        _ => Err(TestError::new(format!("Unknow test name {name}"), "use ping or brw")),
    }
}

fn unknown(parameter: &str, hint: &'static str) -> TestError {
    TestError::new(format!("Unknow parameter: {parameter}"), hint)
}

fn parse_brw(parameters: &[String]) -> Result<TestSpec, TestError> {
    let (mut write, mut check, mut size, mut offset) = (false, DataCheck::None, SIZE, 0);
    for parameter in parameters {
        let lower = parameter.to_ascii_lowercase();
        match lower.split_once('=').map_or((&lower[..], None), |(key, value)| (key, Some(value))) {
            ("read" | "r", None) => write = false,
            ("write" | "w", None) => write = true,
            ("size" | "s", Some(value)) => size = parse_size(value)?,
            ("off", Some(value)) => offset = parse_offset(value)?,
            ("check" | "c", Some(value)) => check = parse_check(value)?,
            ("skip_rx_copy" | "skip-rx-copy", None) => return Err(unknown(parameter, NO_DISCARD)),
            _ => {
                return Err(unknown(
                    parameter,
                    "use read, write, size=N[k|M], check=simple, check=full or off=N",
                ));
            }
        }
    }
    Ok(TestSpec::Brw { write, check, size, offset })
}

/// Why the discard pattern of the wire protocol is refused.
const NO_DISCARD: &str = "kernel nodes of most releases do not support it, and some would crash; \
                          without check= no data is compared either";

fn parse_check(value: &str) -> Result<DataCheck, TestError> {
    match value {
        "full" => Ok(DataCheck::Full),
        "simple" => Ok(DataCheck::Simple),
        "discard" => Err(TestError::new(format!("Unknow flag {value}"), NO_DISCARD)),
        _ => Err(TestError::new(format!("Unknow flag {value}"), "use simple or full")),
    }
}

fn parse_size(value: &str) -> Result<u32, TestError> {
    let wrong = |hint| TestError::new(format!("Invalid size {value}"), hint);
    let (digits, unit) = match value.strip_suffix(['k', 'm']) {
        Some(digits) if value.ends_with('k') => (digits, 1 << 10),
        Some(digits) => (digits, 1 << 20),
        None => (value, 1),
    };
    let number = c_number(digits).and_then(|number| number.checked_mul(unit));
    match number {
        Some(size) if size > SIZE_MAX => Err(TestError::new(
            format!("Size exceed limitation: {size} bytes"),
            "a transfer carries at most 1M; for more load use --concurrency",
        )),
        Some(size) if size > 0 && size % WORD == 0 => Ok(size as u32),
        Some(size) if size > 0 => Err(wrong(
            "it must be a multiple of 8: data is in 64-bit words, and a kernel node that \
             receives a part of one crashes",
        )),
        _ => Err(wrong("write bytes, or a number with k or M: size=64k")),
    }
}

fn parse_offset(value: &str) -> Result<u32, TestError> {
    let number = c_number(value);
    match number {
        Some(offset) if (0..PAGE).contains(&offset) && offset % WORD == 0 => Ok(offset as u32),
        _ => Err(TestError::new(
            format!(
                "Invalid offset {value}/{}, it should be postive value and multiple of 8",
                number.unwrap_or(0)
            ),
            "it is the offset of the data in the first page of the client: 0 to 4088",
        )),
    }
}
