//! `lst add_group`, `del_group`, `update_group`, `list_group`. Spec: lnet-selftest §16.5 to §16.8.

use fulmar_base::Errno;
use fulmar_selftest::console::{Answer, Command, NodeInfo, NodeState, Reply};

use super::nids::expand;
use super::options::{Line, Opt};
use super::session::features;
use super::tables::{self, STATES};
use super::tool::{About, CommandResult, Failure, Tool, failures, framework, status};
use super::{Key, Subcommand};

pub(super) const ADD_GROUP: Subcommand = Subcommand {
    name: "add_group",
    about: "Add nodes to the session, as a named group",
    usage: "Usage: lst group NAME IDs [IDs]...",
    options: &[],
    operands: "NAME IDs...",
    note: "IDs: NIDs, such as 10.0.[1-2].[1-31/2]@tcp",
    key: Key::Needed,
    run: add_group,
};

pub(super) const DEL_GROUP: Subcommand = Subcommand {
    name: "del_group",
    about: "Delete a group; its nodes leave the session unless they are in another group",
    usage: "Usage: lst del_group NAME",
    options: &[],
    operands: "NAME",
    note: "",
    key: Key::Needed,
    run: del_group,
};

pub(super) const UPDATE_GROUP: Subcommand = Subcommand {
    name: "update_group",
    about: "Retry the nodes of a group, or remove some of them",
    usage: "Usage: lst update_group NAME [--clean] [--refresh] [--remove IDs]",
    options: &[
        Opt::flag('f', "refresh", "Retry the nodes that are not active"),
        Opt::valued(
            'c',
            "clean",
            "STATE",
            "Remove nodes in this state: active, busy, down, unknown; invalid: all but active",
        ),
        Opt::valued('r', "remove", "IDs", "Remove these nodes, such as 10.0.0.[1-4]@tcp"),
    ],
    operands: "NAME",
    note: "",
    key: Key::Needed,
    run: update_group,
};

pub(super) const LIST_GROUP: Subcommand = Subcommand {
    name: "list_group",
    about: "Print the names of the groups, or the nodes of some groups",
    usage: "Usage: lst list_group [--active] [--busy] [--down] [--unknown] GROUP ...",
    options: &[
        Opt::flag('a', "active", "Nodes that are in the session"),
        Opt::flag('b', "busy", "Nodes that are in another session"),
        Opt::flag('d', "down", "Nodes that do not answer"),
        Opt::flag('u', "unknown", "Nodes that are in no session"),
        Opt::flag('l', "all", "All nodes"),
    ],
    operands: "[GROUP]...",
    note: "",
    key: Key::Needed,
    run: list_group,
};

fn add_group(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let [group, lists @ ..] = &line.operands[..] else { return Err(status::USAGE) };
    if lists.is_empty() {
        return Err(status::USAGE);
    }
    tool.check_name(group)?;
    let wanted = features(tool)?;
    let failed = format!("Failed to add group {group}");
    let about = About { object: "group", failed: &failed };
    tool.execute(about, Command::AddGroup { group: group.clone() })?;
    let mut adding = GroupAddition { about, features: wanted, added: false, failed: Vec::new() };
    let mut ended = Ok(());
    for list in lists {
        match expand(list) {
            Ok(nodes) => {
                let group = group.clone();
                let answer = tool.call(Command::AddNodes { group, nodes })?;
                if let Err(status) = adding.take(tool, list, answer) {
                    ended = Err(status);
                    break;
                }
            }
            Err(error) => {
                tool.complain(&format!("Ignore invalid id list {list}"));
                ended = Err(tool.bad_list(&error));
            }
        }
    }
    if !adding.added {
        tool.complain(&format!("No nodes added successfully, deleting group {group}"));
        // The reason was printed before, and decides the status.
        if let Ok(Reply::Done | Reply::Nodes(_)) =
            tool.call(Command::DeleteGroup { group: group.clone() })?
        {
            tool.print("Group is deleted\n")?;
        }
    }
    ended.and(tool.conclude(&adding.failed))
}

/// A group under construction.
struct GroupAddition<'a> {
    about: About<'a>,
    /// Features of the session, as far as known.
    features: u32,
    /// Whether a node was added.
    added: bool,
    failed: Vec<Failure>,
}

impl GroupAddition<'_> {
    /// Handles the answer of the console about the nodes of a list.
    fn take(&mut self, tool: &mut Tool<'_>, list: &str, answer: Answer) -> CommandResult {
        let reply = match answer {
            Ok(Reply::Nodes(reply)) => reply,
            Ok(reply) => return Err(tool.garbled(&reply)),
            Err(errno) => {
                mention_features(tool, errno == Errno::EPROTO);
                return Err(tool.refused(self.about, errno));
            }
        };
        let lost = self.features & !reply.features;
        if lost != 0 {
            self.features = reply.features;
            tool.print(&format!(
                "Warning, this session will run with compatible mode because some test nodes \
                 might not understand these features: {lost:x}\n"
            ))?;
        }
        let failed = failures(&reply.nodes);
        let refuses = |failure: &Failure| framework(failure.error) == Some(Errno::EPROTO);
        mention_features(tool, failed.iter().any(refuses));
        // Nodes that are already in the session are added without another request.
        self.added |= failed.is_empty() || failed.len() < reply.nodes.len();
        if failed.is_empty() {
            return tool.print(&format!("{list} are added to session\n"));
        }
        tool.name_failed("create session", &failed);
        self.failed.extend(failed);
        Ok(())
    }
}

fn mention_features(tool: &mut Tool<'_>, differ: bool) {
    if differ {
        tool.complain(
            "test nodes might have different LST features, please disable some features by \
             setting LST_FEATURES",
        );
    }
}

fn del_group(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let group = line.operand().ok_or(status::USAGE)?;
    let about = About { object: "group", failed: &format!("Failed to delete group {group}") };
    let failed = tool.execute(about, Command::DeleteGroup { group: group.to_owned() })?;
    let failed = without_left(failed);
    if failed.is_empty() {
        return tool.print("Group is deleted\n");
    }
    tool.complain("Group is deleted with some errors");
    tool.check_ended(&failed)
}

/// Leaves out nodes that are in no session, which is the requested state.
pub(super) fn without_left(mut failed: Vec<Failure>) -> Vec<Failure> {
    failed.retain(|failure| framework(failure.error) != Some(Errno::ESRCH));
    failed
}

fn update_group(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let group = line.operand().ok_or(status::USAGE)?.to_owned();
    let given = ["refresh", "clean", "remove"].map(|long| line.has(long));
    if given.iter().filter(|given| **given).count() != 1 {
        return Err(status::USAGE);
    }
    let about = About { object: "group", failed: "Failed to update group" };
    let failed = match (line.value("clean"), line.value("remove")) {
        (Some(state), _) => {
            let states = states_named(state).ok_or_else(|| {
                tool.complain(&format!("lst update_group: unknown state {state}"));
                status::USAGE
            })?;
            without_left(tool.execute(about, Command::CleanGroup { group, states })?)
        }
        (_, Some(list)) => {
            let nodes = expand(list).map_err(|error| tool.bad_list(&error))?;
            without_left(tool.execute(about, Command::RemoveNodes { group, nodes })?)
        }
        _ => tool.execute(about, Command::RefreshGroup { group })?,
    };
    tool.check_nodes("Updating group", &failed)
}

fn states_named(name: &str) -> Option<Vec<NodeState>> {
    match name {
        "invalid" => Some(STATES[1..].to_vec()),
        _ => {
            let named = |state: &&NodeState| tables::state_name(**state).eq_ignore_ascii_case(name);
            Some(vec![*STATES.iter().find(named)?])
        }
    }
}

fn list_group(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    if line.operands.is_empty() {
        let about = About { object: "group", failed: "Failed to list groups" };
        let reply = tool.ask(about, Command::ListGroups {})?;
        let Reply::Names(names) = reply else { return Err(tool.garbled(&reply)) };
        return tool.print(&tables::names(&names, "groups"));
    }
    let options = ["active", "busy", "down", "unknown"];
    let mut states: Vec<NodeState> =
        options.iter().zip(STATES).filter(|(long, _)| line.has(long)).map(|(_, s)| s).collect();
    if line.has("all") {
        states = STATES.to_vec();
    }
    let mut titled = false;
    for group in &line.operands {
        let about = About { object: "group", failed: &format!("Failed to list group {group}") };
        let info = match tool.call(Command::ShowGroup { group: group.clone() })? {
            Ok(Reply::Group(info)) => info,
            Ok(reply) => return Err(tool.garbled(&reply)),
            // Scripts rely on this: an unknown group ends the listing without an error.
            Err(Errno::ENOENT) => {
                tool.hint(&format!("unknown group \"{group}\": the listing ends here"));
                return Ok(());
            }
            Err(errno) => return Err(tool.refused(about, errno)),
        };
        if !states.is_empty() {
            tool.print(&nodes_of(group, &info.nodes, &states))?;
            continue;
        }
        if !titled {
            tool.print(&format!("\t{}\n", tables::TITLE))?;
            titled = true;
        }
        tool.print(&format!("\t{}\t{group}\n", tables::counts(&info.nodes)))?;
    }
    Ok(())
}

fn nodes_of(group: &str, nodes: &[NodeInfo], states: &[NodeState]) -> String {
    if nodes.is_empty() {
        return format!("No nodes found [ {group} ]\n");
    }
    let (lines, total) = tables::nodes(nodes, states);
    format!("Group [ {group} ]\n{lines}Total {total} nodes [ {group} ]\n")
}
