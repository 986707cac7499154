//! Tables of groups, batches and their nodes. Spec: lnet-selftest §16.8, §16.13.

use fulmar_lnet_wire::ProcessId;
use fulmar_selftest::console::{NodeInfo, NodeState};

/// The states in the order of the columns.
pub(super) const STATES: [NodeState; 4] =
    [NodeState::Active, NodeState::Busy, NodeState::Down, NodeState::Unknown];

/// The header of [`counts`].
pub(super) const TITLE: &str = "ACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL";

/// Returns the name of a state.
pub(super) fn state_name(state: NodeState) -> &'static str {
    match state {
        NodeState::Active => "Active",
        NodeState::Busy => "Busy",
        NodeState::Down => "Down",
        NodeState::Unknown => "Unknown",
    }
}

/// Returns the number of nodes in each state, and the total.
pub(super) fn counts(nodes: &[NodeInfo]) -> String {
    let in_state = |state| nodes.iter().filter(|node| node.state == state).count();
    let [active, busy, down, unknown] = STATES.map(in_state);
    format!("{active}\t{busy}\t{down}\t{unknown}\t{}", nodes.len())
}

/// Returns a line for each node in one of `states`, and the number of lines.
pub(super) fn nodes(nodes: &[NodeInfo], states: &[NodeState]) -> (String, usize) {
    let shown = || nodes.iter().filter(|node| states.contains(&node.state));
    let line = |node: &NodeInfo| {
        format!("\t{}: {}\n", ProcessId::lustre(node.nid), state_name(node.state))
    };
    (shown().map(line).collect(), shown().count())
}

/// Returns a numbered list of names.
pub(super) fn names(names: &[String], what: &str) -> String {
    let numbered = |(n, name): (usize, &String)| format!("{}) {name}\n", n + 1);
    let list: String = names.iter().enumerate().map(numbered).collect();
    format!("{list}Total {} {what}\n", names.len())
}
