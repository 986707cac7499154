//! The pinger: keeps sessions of nodes alive, and detects that the session is no longer used.
//! Spec: lnet-selftest §13.5.

use std::time::Duration;

use fulmar_base::Time;

use super::api::NodeState;
use super::ask::Ask;
use super::limits::PING_INTERVAL;
use super::node::{Node, NodeId};
use super::session::Session;
use super::transaction::{Part, Transaction};

impl Session {
    /// Returns whether no command has arrived for too long.
    pub(super) fn is_forgotten(&self, now: Time) -> bool {
        now.since(self.last_command) > Duration::from_secs(self.timeout.into())
    }

    /// Pings the nodes that were silent for half of their timeout.
    pub(super) fn round(&mut self, now: Time) -> Transaction {
        self.next_round = now + PING_INTERVAL;
        let due = |node: &Node| {
            let limit = Duration::from_secs(node.timeout.into()) / 2;
            node.state == NodeState::Active && !node.pinging && now.since(node.heard) >= limit
        };
        let due: Vec<NodeId> =
            self.nodes.iter().filter(|(_, node)| due(node)).map(|(id, _)| id).collect();
        let mut parts = Vec::with_capacity(due.len());
        for id in due {
            let node = self.nodes.get_mut(id).expect("nodes that are due exist");
            node.pinging = true;
            parts.push(Part::new(id, node));
        }
        self.ask(Ask::Debug, parts)
    }
}
