//! The session of a console: its nodes, groups and batches. Spec: lnet-selftest §13.1.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{FEATURES, Name, SessionId};

use super::api::{NodeInfo, SessionInfo, Target};
use super::ask::Ask;
use super::batch::Batch;
use super::group::Group;
use super::limits::{PING_INTERVAL, SESSION_TIMEOUT};
use super::node::{NodeId, Nodes};
use super::transaction::{Part, Transaction};

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) name: Name,
    pub(super) key: u32,
    /// Seconds without a command after which it expires.
    pub(super) timeout: u32,
    pub(super) force: bool,
    pub(super) features: u32,
    /// Whether a node has accepted the features, which fixes them.
    features_agreed: bool,
    pub(super) nodes: Nodes,
    pub(super) groups: Vec<Group>,
    pub(super) batches: Vec<Batch>,
    pub(super) last_command: Time,
    /// When its silent nodes are pinged next.
    pub(super) next_round: Time,
}

/// The parameters of a new session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionRequest {
    pub(super) key: u32,
    pub(super) name: Name,
    pub(super) timeout: u32,
    pub(super) force: bool,
    pub(super) features: u32,
}

impl SessionRequest {
    /// # Errors
    /// EINVAL for an invalid name or unsupported features.
    pub(super) fn new(
        key: u32,
        name: &str,
        timeout: u32,
        force: bool,
        features: u32,
    ) -> Result<Self, Errno> {
        let name = parse_name(name)?;
        if features & !FEATURES != 0 {
            return Err(Errno::EINVAL);
        }
        let timeout = if timeout == 0 { SESSION_TIMEOUT } else { timeout };
        Ok(Self { key, name, timeout, force, features })
    }
}

/// # Errors
/// EINVAL if it is not a valid name of a session, group or batch.
pub(super) fn parse_name(name: &str) -> Result<Name, Errno> {
    name.parse().map_err(|_| Errno::EINVAL)
}

impl Session {
    pub(super) fn new(now: Time, id: SessionId, request: SessionRequest) -> Self {
        Self {
            id,
            name: request.name,
            key: request.key,
            timeout: request.timeout,
            force: request.force,
            features: request.features,
            features_agreed: false,
            nodes: Nodes::default(),
            groups: Vec::new(),
            batches: Vec::new(),
            last_command: now,
            next_round: now + PING_INTERVAL,
        }
    }

    pub(super) fn info(&self) -> SessionInfo {
        SessionInfo {
            name: self.name.to_string(),
            stamp: self.id.stamp,
            nid: self.id.nid,
            key: self.key,
            features: self.features,
            timeout: self.timeout,
            force: self.force,
            nodes: self.nodes.len() as u32,
        }
    }

    /// Returns a transaction that queries each of some nodes.
    pub(super) fn ask(&self, ask: Ask, parts: Vec<Part>) -> Transaction {
        Transaction::new(self.id, self.features, ask, parts)
    }

    /// Returns a transaction that removes all nodes from the session, which has ended.
    pub(super) fn farewell(self) -> Transaction {
        let nodes = self.nodes.iter().filter(|(_, node)| node.may_be_in_session());
        let parts = nodes.map(|(id, node)| Part::new(id, node)).collect();
        self.ask(Ask::Remove, parts)
    }

    /// Handles the features of a node. The first reply decides, and the others must agree.
    ///
    /// # Errors
    /// EPROTO if they do not.
    pub(super) fn agree(&mut self, features: u32) -> Result<(), Errno> {
        if !self.features_agreed {
            // A node can only reduce the features to supported ones.
            if features & !self.features != 0 {
                return Err(Errno::EPROTO);
            }
            self.features_agreed = true;
            self.features = features;
        }
        if features == self.features { Ok(()) } else { Err(Errno::EPROTO) }
    }

    /// Returns the nodes of a target.
    ///
    /// # Errors
    /// ENOENT if there is no such group or batch, or none of the nodes is in the session.
    pub(super) fn select(&self, target: &Target) -> Result<Vec<NodeId>, Errno> {
        match target {
            Target::Session => Ok(self.nodes.iter().map(|(id, _)| id).collect()),
            Target::Group(name) => Ok(self.group(name)?.nodes.clone()),
            Target::Batch { name, servers } => Ok(self.nodes_of_batch(self.batch(name)?, *servers)),
            Target::Nodes(nids) => {
                let mut seen = BTreeSet::new();
                let found = nids.iter().filter_map(|nid| self.nodes.find(*nid));
                let found: Vec<NodeId> = found.filter(|id| seen.insert(*id)).collect();
                if found.is_empty() { Err(Errno::ENOENT) } else { Ok(found) }
            }
        }
    }

    /// Returns a part for each of these nodes.
    pub(super) fn parts(&self, nodes: &[NodeId]) -> Vec<Part> {
        nodes.iter().map(|id| Part::new(*id, self.nodes.of_group(*id))).collect()
    }

    pub(super) fn infos(&self, nodes: &[NodeId]) -> Vec<NodeInfo> {
        nodes.iter().map(|id| self.nodes.of_group(*id).info()).collect()
    }

    pub(super) fn nids(&self, nodes: &[NodeId]) -> Vec<Nid> {
        nodes.iter().map(|id| self.nodes.of_group(*id).nid).collect()
    }

    /// Returns a broken invariant of the session, if any.
    pub(super) fn check(&self) -> Result<(), String> {
        self.nodes.check(self.groups.iter().flat_map(|group| group.nodes.iter().copied()))?;
        let tests = self.batches.iter().flat_map(|batch| &batch.tests);
        match tests.flat_map(|test| [&test.from, &test.to]).find(|name| self.group(name).is_err()) {
            Some(name) => Err(format!("a test has the group {name}, which does not exist")),
            None => Ok(()),
        }
    }
}
