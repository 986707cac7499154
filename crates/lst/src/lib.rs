//! `lst`: the console tool of LNet selftest, with the commands of Lustre's `lst`, and with `lst run
//! --from … --to …` and `lst mesh`, which measure paths with one command. Spec: lnet-selftest §15 to
//! §17.
//!
//! The node owns the session. Each command calls the console of the node through the control socket
//! and prints the answer. [`run`] runs one command and returns its exit [`status`]; [`document()`]
//! describes the commands for help, completion and manual pages.
//!
//! ```text
//! words ──► options ──► a command of the console (one or many) ──► answers ──► tables, CSV, JSON
//! session, group, batch, test     what a node's console keeps
//! stat, ping, query               what it measures
//! load                            lst run, sweeps and mesh: scripts of the same commands
//! ```
//!
//! Commands and their output are those of Lustre, with true minimums and true counts of nodes;
//! docs/differences.md has the list. The session outlives each call of the tool, so a script may
//! call it once for each command.
#![forbid(unsafe_code)]
// This crate is a command-line tool: it may read clocks and the environment, and handle signals.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod batch;
mod console;
mod document;
mod group;
mod load;
mod nids;
mod options;
mod ping;
mod query;
mod session;
mod show_error;
mod stat;
mod tables;
mod targets;
mod test;
#[cfg(test)]
mod tests;
mod tool;

use fulmar_control::api::Client;
use fulmar_control::tool::{Status, command_table, unknown_command};

pub use document::document;
pub use tool::status;

use self::console::{Remote, SystemClock};
use self::options::{Line, Opt};
use self::tool::{CommandResult, Environment, NAME_LEN_MAX, Tool};

/// Connects to the node. Commands that need no node do not call it.
pub type Connect<'a> = dyn Fn() -> Client + 'a;

/// One subcommand.
struct Subcommand {
    name: &'static str,
    about: &'static str,
    /// Printed if the arguments are invalid.
    usage: &'static str,
    options: &'static [Opt],
    /// Operands, for the manual.
    operands: &'static str,
    /// Further notes for the help.
    note: &'static str,
    key: Key,
    run: fn(&mut Tool<'_>, &Line) -> CommandResult,
}

/// Whether a subcommand needs the key of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Needed,
    Unused,
}

/// All subcommands, in the order of the listing.
const SUBCOMMANDS: [Subcommand; 16] = [
    session::NEW_SESSION,
    session::END_SESSION,
    session::SHOW_SESSION,
    ping::PING,
    group::ADD_GROUP,
    group::DEL_GROUP,
    group::UPDATE_GROUP,
    group::LIST_GROUP,
    stat::STAT,
    show_error::SHOW_ERROR,
    batch::ADD_BATCH,
    batch::RUN,
    batch::STOP,
    batch::LIST_BATCH,
    query::QUERY,
    test::ADD_TEST,
];

/// A command that Lustre's `lst` does not have: [`load`].
const MESH: &str = "mesh";

const HELP: &str = "usage: lst [COMMAND] [OPTIONS]... [ARGS]
Without any parameters, interactive mode is invoked
Try 'lst help <COMMAND>', or 'lst --list-commands' for a list of commands.
";

/// Runs one command, given as the arguments of `lst`, prints output and errors, and returns its
/// exit status.
pub fn run(connect: &Connect<'_>, words: &[String]) -> Status {
    match words {
        [word, rest @ ..] if word == MESH => return load::mesh(connect, rest),
        [word, rest @ ..] if word == batch::RUN.name && selects_measurement(rest) => {
            return load::run(connect, rest);
        }
        _ => {}
    }
    let environment = Environment::of_process();
    let mut tool = Tool {
        console: &mut Remote::new(connect, environment.key().unwrap_or(0)),
        clock: &mut SystemClock::new(),
        out: &mut std::io::stdout(),
        err: &mut std::io::stderr(),
        environment: &environment,
    };
    dispatch(&mut tool, words)
}

/// Returns whether the arguments of `run` select a measurement and not a batch.
fn selects_measurement(words: &[String]) -> bool {
    let begins = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        ["--from", "--to", "--help"].contains(&name)
    };
    words.iter().any(begins)
}

/// Runs one command.
fn dispatch(tool: &mut Tool<'_>, words: &[String]) -> Status {
    let Some((word, rest)) = words.split_first() else { return 0 };
    let ran = match word.as_str() {
        "help" | "--help" => help(tool, rest),
        "version" | "--version" => tool.print(concat!("lst ", env!("CARGO_PKG_VERSION"), "\n")),
        "list-commands" | "--list-commands" => {
            let names = SUBCOMMANDS.iter().map(|subcommand| subcommand.name);
            tool.print(&command_table(names.chain([MESH])))
        }
        // They have an effect only where other lines follow.
        "ignore_errors" | "--ignore_errors" | "quit" | "exit" => Ok(()),
        word => match SUBCOMMANDS.iter().find(|subcommand| subcommand.name == word) {
            Some(subcommand) => subcommand.execute(tool, rest),
            None => unknown(tool, word),
        },
    };
    ran.err().unwrap_or(0)
}

fn unknown(tool: &mut Tool<'_>, word: &str) -> CommandResult {
    tool.fail(unknown_command("lst", word).trim_end())
}

fn help(tool: &mut Tool<'_>, words: &[String]) -> CommandResult {
    let Some(word) = words.first() else { return tool.print(HELP) };
    if word == MESH {
        tool.complain("mesh: Usage: lst mesh NIDS...\n\"lst mesh --help\" says more.");
        return Ok(());
    }
    let Some(subcommand) = SUBCOMMANDS.iter().find(|subcommand| subcommand.name == word) else {
        return unknown(tool, word);
    };
    tool.complain(&format!("{word}: {}", subcommand.usage));
    if !subcommand.note.is_empty() {
        tool.complain(subcommand.note);
    }
    Ok(())
}

impl Subcommand {
    fn execute(&self, tool: &mut Tool<'_>, words: &[String]) -> CommandResult {
        if self.key == Key::Needed && tool.environment.key().is_none() {
            tool.complain("Can't find env LST_SESSION or value is not valid");
            tool.hint("choose a number for the session and its commands: export LST_SESSION=$$");
            return Err(status::LOCAL);
        }
        let line = Line::parse(self.options, words).map_err(|wrong| {
            tool.complain(&format!("lst {}: {wrong}", self.name));
            status::USAGE
        });
        let ran = line.and_then(|line| (self.run)(tool, &line));
        if ran == Err(status::USAGE) {
            tool.print(&format!("{}\n", self.usage))?;
        }
        ran
    }
}

impl Environment {
    fn of_process() -> Self {
        let variable = |name| std::env::var(name).ok();
        let user = variable("USER").or_else(|| variable("LOGNAME"));
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let mut name = format!(
            "{}@{}",
            user.as_deref().unwrap_or("root"),
            host.as_deref().map_or("localhost", str::trim_end)
        );
        while name.len() > NAME_LEN_MAX {
            name.pop();
        }
        Self { session: variable("LST_SESSION"), features: variable("LST_FEATURES"), name }
    }

    /// Returns the key of the session: any 32-bit number except 0.
    fn key(&self) -> Option<u32> {
        let number: i64 = self.session.as_deref()?.trim().parse().ok()?;
        let key = u32::try_from(number).ok().or_else(|| Some(i32::try_from(number).ok()? as u32));
        key.filter(|key| *key != 0)
    }
}
