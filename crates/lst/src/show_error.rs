//! `lst show_error`. Spec: lnet-selftest §16.16.

use fulmar_lnet_wire::ProcessId;
use fulmar_selftest::console::{NodeAnswer, NodeError, Stats};

use super::options::{Line, Opt};
use super::targets;
use super::tool::{CommandResult, Tool, failures};
use super::{Key, Subcommand};

/// Timeout of an answer, in seconds.
const TIMEOUT: u32 = 10;

pub(super) const SHOW_ERROR: Subcommand = Subcommand {
    name: "show_error",
    about: "Print the nodes that counted errors",
    usage: "Usage: lst show_error NAME | IDS ...",
    options: &[Opt::flag('s', "session", "Only errors of tests of this session")],
    operands: "GROUP|IDS...",
    note: "",
    key: Key::Needed,
    run: show_error,
};

fn show_error(tool: &mut Tool<'_>, line: &Line) -> CommandResult {
    let session = line.has("session");
    let mut failed = Vec::new();
    for target in targets::resolve(tool, &line.operands)? {
        let answers = target.stats(tool, TIMEOUT)?;
        tool.print(&format!("{}:\n", target.name))?;
        let errors: Vec<String> =
            answers.iter().filter_map(|answer| described(answer, session)).collect();
        errors.iter().for_each(|line| tool.complain(line));
        tool.print(&format!("Total {} error nodes in {}\n", errors.len(), target.name))?;
        failed.extend(failures(&answers));
    }
    tool.conclude(&failed)
}

/// Returns the errors of a node, if any.
fn described(answer: &NodeAnswer<Stats>, session: bool) -> Option<String> {
    let node = ProcessId::lustre(answer.nid);
    let stats = match answer.result {
        Ok(stats) => stats,
        Err(NodeError::Rpc(_)) => return Some(format!("RPC failure, can't show error on {node}")),
        Err(NodeError::Framework(_)) => {
            return Some(format!("Framework failure, can't show error on {node}"));
        }
    };
    let Stats { brw_errors, ping_errors, rpc_errors, rpcs_dropped, rpcs_expired, .. } = stats;
    if brw_errors == 0 && ping_errors == 0 && (session || rpc_errors == 0) {
        return None;
    }
    let tests = format!("[Session {brw_errors} brw errors, {ping_errors} ping errors]");
    Some(if session {
        format!("{node}: {tests}")
    } else {
        format!(
            "{node}: {tests} [RPC: {rpc_errors} errors, {rpcs_dropped} dropped, {rpcs_expired} \
             expired]"
        )
    })
}
