//! `lst ping`. Spec: lnet-selftest §16.4.

use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_selftest::console::{Command, NodeAnswer, NodeState, PingInfo, Reply, Target};

use super::nids::expand;
use super::options::{Line, Opt};
use super::tables::state_name;
use super::tool::{About, CommandResult, Tool, failures, status};
use super::{Key, Subcommand};

/// Timeout of an answer, in seconds.
const TIMEOUT: u32 = 5;

pub(super) const PING: Subcommand = Subcommand {
    name: "ping",
    about: "Print the sessions of nodes",
    usage: "Usage: lst ping  [--group NAME] [--batch NAME] [--session]  [--nodes IDS]",
    options: &[
        Opt::flag('s', "session", "All nodes of the session"),
        Opt::valued('g', "group", "NAME", "The nodes of a group"),
        Opt::valued('b', "batch", "NAME", "The clients of a batch"),
        Opt::flag('v', "server", "With --batch: its servers"),
        Opt::valued('n', "nodes", "IDS", "These nodes, such as 10.0.0.[1-4]@tcp"),
        Opt::valued('t', "timeout", "SECONDS", "Timeout of an answer"),
    ],
    operands: "",
    note: "",
    key: Key::Needed,
    run: ping,
};

fn ping(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    if !line.operands.is_empty() {
        return Err(status::USAGE);
    }
    let timeout = line.number("timeout", TIMEOUT).ok_or(status::USAGE)?;
    let chosen = line.last_of(&["session", "group", "batch", "nodes"]);
    let (object, name) = chosen.ok_or(status::USAGE)?;
    let target = match object {
        "group" => Target::Group(name.to_owned()),
        "batch" => Target::Batch { name: name.to_owned(), servers: line.has("server") },
        "nodes" => Target::Nodes(expand(name).map_err(|error| tool.bad_list(&error))?),
        _ => Target::Session,
    };
    let name = if target == Target::Session { "session" } else { name };
    let about = About { object, failed: &format!("Failed to ping {name}") };
    let reply = tool.ask(about, Command::Ping { target, timeout })?;
    let Reply::Sessions(answers) = reply else { return Err(tool.garbled(&reply)) };
    if answers.is_empty() {
        return tool.print(&format!("Target {name} is empty\n"));
    }
    tool.print(&answers.iter().map(described).collect::<String>())?;
    tool.conclude(&failures(&answers))
}

fn described(answer: &NodeAnswer<PingInfo>) -> String {
    let in_session = matches!(answer.state, NodeState::Active | NodeState::Busy);
    let session = match &answer.result {
        _ if !in_session => "<NULL>",
        Ok(info) => &info.name,
        Err(_) => "Unknown",
    };
    let console = answer.result.as_ref().ok().and_then(|info| info.console);
    format!(
        "\t{}: {} [session: {session} id: {}]\n",
        ProcessId::lustre(answer.nid),
        state_name(answer.state),
        console.unwrap_or(Nid::ANY)
    )
}
