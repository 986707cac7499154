//! The nodes of a session, without duplicates, in any number of groups. Spec: lnet-selftest §13.2,
//! §13.4.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::SessionId;

use super::api::{NodeInfo, NodeState};

/// A node of a session. Never reused in a session, so that late replies of a removed node are not
/// attributed to its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u64);

/// State of a node in a session.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) nid: Nid,
    pub(super) state: NodeState,
    /// Number of its groups; at 0 it leaves the session.
    links: u32,
    /// Number of MAKE_SESSIONs sent: it may need as many REMOVE_SESSIONs.
    pub(super) makes: u32,
    /// Whether a MAKE_SESSION is in flight.
    pub(super) making: bool,
    /// Whether a ping is in flight.
    pub(super) pinging: bool,
    /// When it last answered.
    pub(super) heard: Time,
    /// Seconds of silence after which it leaves the session; 0 for never.
    pub(super) timeout: u32,
}

impl Node {
    /// Returns whether it may have to be notified of the end of the session.
    pub(super) fn may_be_in_session(&self) -> bool {
        self.state == NodeState::Active || self.making
    }

    /// Returns its administrative view.
    pub(super) fn info(&self) -> NodeInfo {
        NodeInfo { nid: self.nid, state: self.state }
    }
}

impl NodeState {
    /// Returns the state of a node from the session that it reports.
    pub(super) fn of(theirs: SessionId, ours: SessionId) -> Self {
        match theirs {
            _ if theirs == ours => Self::Active,
            _ if theirs.is_valid() => Self::Busy,
            _ => Self::Unknown,
        }
    }
}

/// All nodes of a session, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    created: u64,
    by_nid: BTreeMap<Nid, NodeId>,
    all: BTreeMap<NodeId, Node>,
}

impl Nodes {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn find(&self, nid: Nid) -> Option<NodeId> {
        self.by_nid.get(&nid).copied()
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.all.get_mut(&id)
    }

    /// Returns a node of a group.
    pub(super) fn of_group(&self, id: NodeId) -> &Node {
        self.all.get(&id).expect("a node of a group is in the session")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.all.iter().map(|(id, node)| (*id, node))
    }

    /// Adds a node that is not in the session yet. It is in no group until linked.
    pub(super) fn create(&mut self, now: Time, nid: Nid) -> NodeId {
        self.created += 1;
        let id = NodeId(self.created);
        let before = self.by_nid.insert(nid, id);
        assert!(before.is_none(), "a node is added to the session once");
        let node = Node {
            nid,
            state: NodeState::Unknown,
            links: 0,
            makes: 0,
            making: false,
            pinging: false,
            heard: now,
            timeout: 0,
        };
        self.all.insert(id, node);
        id
    }

    /// Adds a node to one more group.
    pub(super) fn link(&mut self, id: NodeId) {
        self.all.get_mut(&id).expect("linked nodes are here").links += 1;
    }

    /// Removes a node from a group, and returns the node if it was its last group.
    pub(super) fn unlink(&mut self, id: NodeId) -> Option<Node> {
        let node = self.all.get_mut(&id).expect("linked nodes are here");
        node.links = node.links.checked_sub(1).expect("a linked node has links");
        if node.links > 0 {
            return None;
        }
        let node = self.all.remove(&id)?;
        self.by_nid.remove(&node.nid);
        Some(node)
    }

    /// Returns an inconsistency with the nodes of all groups, if any.
    pub(super) fn check(&self, linked: impl Iterator<Item = NodeId>) -> Result<(), String> {
        let mut links: BTreeMap<NodeId, u32> = BTreeMap::new();
        linked.for_each(|id| *links.entry(id).or_default() += 1);
        let counted: BTreeMap<_, _> = self.iter().map(|(id, node)| (id, node.links)).collect();
        if links != counted {
            return Err(format!("groups have {links:?} but nodes say {counted:?}"));
        }
        if self.by_nid.len() == self.all.len() {
            Ok(())
        } else {
            Err("a node is known by no NID or by two".to_owned())
        }
    }
}
