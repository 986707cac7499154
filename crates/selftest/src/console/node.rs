//! The nodes of a session: each once, in however many groups. Spec: lnet-selftest §13.2, §13.4.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::SessionId;

use super::api::{NodeInfo, NodeState};

/// A node of a session. Never used twice in a session, so that what is heard of a node that was
/// removed is not taken for news of the one that was added again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u64);

/// What a session knows of a node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) nid: Nid,
    pub(super) state: NodeState,
    /// In how many groups it is; in none it leaves the session.
    links: u32,
    /// How many MAKE_SESSIONs it was sent: it may want as many REMOVE_SESSIONs.
    pub(super) makes: u32,
    /// Whether one is in flight.
    pub(super) making: bool,
    /// Whether a ping of ours is in flight.
    pub(super) pinging: bool,
    /// When it last answered.
    pub(super) heard: Time,
    /// After how many seconds of silence it leaves the session; 0 for never.
    pub(super) timeout: u32,
}

impl Node {
    /// Returns whether it may have to be told that the session is over for it.
    pub(super) fn may_be_in_session(&self) -> bool {
        self.state == NodeState::Active || self.making
    }

    /// Returns what an administrator sees of it.
    pub(super) fn info(&self) -> NodeInfo {
        NodeInfo { nid: self.nid, state: self.state }
    }
}

impl NodeState {
    /// Returns how a node stands to our session that says it is in another one, or in the same.
    pub(super) fn of(theirs: SessionId, ours: SessionId) -> Self {
        match theirs {
            _ if theirs == ours => Self::Active,
            _ if theirs.is_valid() => Self::Busy,
            _ => Self::Unknown,
        }
    }
}

/// All nodes of a session, in the order in which they came.
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

    /// Adds a node that is not here yet. It is in no group: link it.
    pub(super) fn create(&mut self, now: Time, nid: Nid) -> NodeId {
        self.created += 1;
        let id = NodeId(self.created);
        let before = self.by_nid.insert(nid, id);
        assert!(before.is_none(), "a node is in the session once");
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

    /// Counts one more group that a node is in.
    pub(super) fn link(&mut self, id: NodeId) {
        self.all.get_mut(&id).expect("linked nodes are here").links += 1;
    }

    /// Counts one group less, and returns the node if that was its last: it has left.
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

    /// Returns what is wrong, if these are the nodes of all groups.
    pub(super) fn check(&self, linked: impl Iterator<Item = NodeId>) -> Result<(), String> {
        let mut links: BTreeMap<NodeId, u32> = BTreeMap::new();
        linked.for_each(|id| *links.entry(id).or_default() += 1);
        let counted: BTreeMap<_, _> = self.iter().map(|(id, node)| (id, node.links)).collect();
        if links != counted {
            return Err(format!("groups have {links:?} but nodes say {counted:?}"));
        }
        match self.by_nid.len() == self.all.len() {
            true => Ok(()),
            false => Err("a node is known by no NID or by two".to_owned()),
        }
    }
}
