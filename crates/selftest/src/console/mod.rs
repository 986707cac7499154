//! The console: owns a session with its groups, batches and tests, and tells test nodes what to
//! do. Spec: lnet-selftest §13.
//!
//! ```text
//! begin ----> answered at once
//!        +--> Transaction --> RPCs to nodes --> handle_finished --> answered when all have ended
//! ```
//!
//! Where we differ from a kernel console on purpose: a new session by force does not wait for the
//! nodes of the old one; a command that is interrupted by the end of its session is answered
//! ESHUTDOWN; a session does not expire while a command waits for nodes; a node that was asked
//! twice to enter the session is asked twice to leave it.

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
    Answer, BatchInfo, Command, DataCheck, GroupInfo, Keyed, Measures, NodeAnswer, NodeError,
    NodeInfo, NodeState, NodesReply, PingInfo, Reply, SessionInfo, Stats, Target, TestInfo,
    TestSpec,
};
pub(crate) use machine::Console;

use transaction::Transaction;

/// What becomes of a command that is allowed.
#[derive(Debug)]
enum Plan {
    /// It is done.
    Reply(Reply),
    /// Nodes are asked.
    Ask(Transaction),
}
