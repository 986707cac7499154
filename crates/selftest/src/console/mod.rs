//! The console: owns a session with groups, batches and tests, and controls test nodes.
//! Spec: lnet-selftest §13.
//!
//! ```text
//! begin ----> answered at once
//!        +--> Transaction --> RPCs to nodes --> handle_finished --> answered when all have ended
//! ```
//!
//! Deliberate differences from a kernel console: a new session by force does not wait for the nodes
//! of the old one; a command that is interrupted by the end of its session is answered with
//! ESHUTDOWN; a session does not expire while a command waits for nodes; a node that was requested
//! twice to enter the session is requested twice to leave it.

mod api;
mod ask;
mod batch;
mod distribute;
mod group;
mod join;
mod limits;
mod machine;
mod measuring;
mod node;
mod part;
mod pinger;
mod session;
mod test;
#[cfg(test)]
mod tests;
mod transaction;
mod transactions;

pub use api::{
    Answer, BatchInfo, Command, DataCheck, GroupInfo, KeyedCommand, Measures, NodeAnswer,
    NodeError, NodeInfo, NodeState, NodesReply, PingInfo, Reply, SessionInfo, Stats, Target,
    TestInfo, TestSpec,
};
pub(crate) use machine::Console;

use transaction::Transaction;

/// The next step of an accepted command.
#[derive(Debug)]
enum Plan {
    /// Completed.
    Reply(Reply),
    /// Nodes are queried.
    Ask(Transaction),
}
