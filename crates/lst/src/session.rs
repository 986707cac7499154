//! `lst new_session`, `end_session`, `show_session`. Spec: lnet-selftest §16.1 to §16.3.

use fulmar_lnet_wire::selftest::FEATURES;
use fulmar_selftest::console::{Command, Reply};

use super::group::without_left;
use super::options::{Line, Opt};
use super::tool::{About, CommandResult, NAME_LEN_MAX, Tool, status};
use super::{Key, Subcommand};

/// Seconds without a command after which a session expires.
const TIMEOUT: u32 = 300;

pub(super) const NEW_SESSION: Subcommand = Subcommand {
    name: "new_session",
    about: "Start a session",
    usage: "Usage: lst new_session [--timeout TIME] [--force] [NAME]",
    options: &[
        Opt::valued('t', "timeout", "SECONDS", "End the session after this time without a command"),
        Opt::flag('f', "force", "Replace an existing session, here and on the nodes"),
    ],
    operands: "[NAME]",
    note: "",
    key: Key::Needed,
    run: new_session,
};

pub(super) const END_SESSION: Subcommand = Subcommand {
    name: "end_session",
    about: "End the session; its nodes stop their tests and become free",
    usage: "Usage: lst end_session",
    options: &[],
    operands: "",
    note: "",
    key: Key::Needed,
    run: end_session,
};

pub(super) const SHOW_SESSION: Subcommand = Subcommand {
    name: "show_session",
    about: "Print the session, with its key",
    usage: "Usage: lst show_session",
    options: &[],
    operands: "",
    note: "",
    key: Key::Unused,
    run: show_session,
};

fn new_session(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let default = tool.environment.name.clone();
    let name = line.operand_or(&default).ok_or(status::USAGE)?;
    let Some(timeout) = line.number("timeout", TIMEOUT).filter(|timeout| *timeout > 0) else {
        return tool.fail("Invalid timeout value");
    };
    if name.len() > NAME_LEN_MAX {
        return tool.fail(&format!("Name size is limited to {NAME_LEN_MAX}"));
    }
    let features = features(tool)?;
    let force = line.has("force");
    let command = Command::NewSession { name: name.to_owned(), timeout, force, features };
    let about = About { object: "session", failed: "Failed to create session" };
    match tool.ask(about, command)? {
        Reply::Session(info) => tool.print(&format!(
            "SESSION: {} FEATURES: {:x} TIMEOUT: {} FORCE: {}\n",
            info.name,
            info.features,
            info.timeout,
            if info.force { "Yes" } else { "No" }
        )),
        reply => Err(tool.garbled(&reply)),
    }
}

/// Returns the features that the user selects.
pub(super) fn features(tool: &mut Tool<'_>) -> CommandResult<u32> {
    let Some(text) = tool.environment.features.clone() else { return Ok(FEATURES) };
    let digits = text.trim_start_matches("0x");
    match u32::from_str_radix(digits, 16) {
        Ok(features) if features & !FEATURES == 0 => Ok(features),
        _ => {
            tool.complain(&format!(
                "Unsupported session features {digits}, only support these features so far: \
                 {FEATURES:x}"
            ));
            tool.hint("unset LST_FEATURES");
            Err(status::LOCAL)
        }
    }
}

/// Prints nothing on success, as releases from 2.16 on do.
fn end_session(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    if !line.operands.is_empty() {
        return Err(status::USAGE);
    }
    let about = About { object: "session", failed: "Failed to end session" };
    let failed = without_left(tool.execute(about, Command::EndSession {})?);
    tool.check_ended(&failed)
}

fn show_session(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    if !line.operands.is_empty() {
        return Err(status::USAGE);
    }
    let about = About { object: "session", failed: "Failed to show session" };
    match tool.ask(about, Command::ShowSession {})? {
        Reply::Session(info) => tool.print(&format!(
            "{} ID: {}@{}, KEY: {} FEATURES: {:x} NODES: {}\n",
            info.name, info.stamp, info.nid, info.key, info.features, info.nodes
        )),
        reply => Err(tool.garbled(&reply)),
    }
}
