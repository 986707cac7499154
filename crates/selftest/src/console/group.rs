//! Groups: named lists of nodes, through which nodes enter and leave the session.
//! Spec: lnet-selftest §13.3, §13.4.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;

use super::Plan;
use super::api::{GroupInfo, NodeState, Reply};
use super::ask::Ask;
use super::limits::{GROUPS_MAX, NODES_MAX};
use super::node::NodeId;
use super::session::{Session, parse_name};
use super::transaction::{Part, Transaction};

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    /// Nodes in the order in which they were added.
    pub(super) nodes: Vec<NodeId>,
}

impl Session {
    pub(super) fn add_group(&mut self, name: &str) -> Result<(), Errno> {
        parse_name(name)?;
        if self.group(name).is_ok() {
            return Err(Errno::EEXIST);
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(Errno::ENOSPC);
        }
        self.groups.push(Group { name: name.to_owned(), nodes: Vec::new() });
        Ok(())
    }

    /// Adds nodes to a group, and new ones to the session. They stay in the group even if they do
    /// not enter the session.
    pub(super) fn add_nodes(
        &mut self,
        now: Time,
        group: &str,
        nids: &[Nid],
    ) -> Result<Transaction, Errno> {
        let group = self.free_group(group)?;
        if nids.iter().any(|nid| nid.is_any() || nid.is_large()) {
            return Err(Errno::EINVAL);
        }
        let mut seen = BTreeSet::new();
        let nids: Vec<Nid> = nids.iter().copied().filter(|nid| seen.insert(*nid)).collect();
        let new = nids.iter().filter(|nid| self.nodes.find(**nid).is_none()).count();
        if self.nodes.len() + new > NODES_MAX {
            return Err(Errno::ENOSPC);
        }
        let members: BTreeSet<NodeId> = self.groups[group].nodes.iter().copied().collect();
        let mut parts = Vec::with_capacity(nids.len());
        for nid in nids {
            let known = self.nodes.find(nid);
            let id = known.unwrap_or_else(|| self.nodes.create(now, nid));
            if !members.contains(&id) {
                self.enlist(group, id);
            }
            parts.push(match known {
                Some(id) => Part::settled(id, self.nodes.of_group(id)),
                None => self.make(id),
            });
        }
        Ok(self.ask(self.entrance(), parts))
    }

    /// Retries the nodes of a group that are not in the session.
    pub(super) fn refresh_group(&mut self, group: &str) -> Result<Transaction, Errno> {
        let group = self.free_group(group)?;
        let mut absent = self.groups[group].nodes.clone();
        absent.retain(|id| self.nodes.of_group(*id).state != NodeState::Active);
        let parts = absent.into_iter().map(|id| self.make(id)).collect();
        Ok(self.ask(self.entrance(), parts))
    }

    pub(super) fn delete_group(&mut self, group: &str) -> Result<Transaction, Errno> {
        let group = self.free_group(group)?;
        let group = self.groups.remove(group);
        Ok(self.dismiss(group.nodes))
    }

    /// Removes the nodes of a group that are in one of these states.
    pub(super) fn clean_group(
        &mut self,
        group: &str,
        states: &[NodeState],
    ) -> Result<Transaction, Errno> {
        let group = self.free_group(group)?;
        let nodes = &self.nodes;
        let is_bad = |id: &mut NodeId| states.contains(&nodes.of_group(*id).state);
        let gone = self.groups[group].nodes.extract_if(.., is_bad).collect();
        Ok(self.dismiss(gone))
    }

    /// Removes these nodes from a group; nodes that are not in it are skipped.
    pub(super) fn remove_nodes(&mut self, group: &str, nids: &[Nid]) -> Result<Transaction, Errno> {
        let group = self.free_group(group)?;
        let named: BTreeSet<NodeId> = nids.iter().filter_map(|nid| self.nodes.find(*nid)).collect();
        let is_named = |id: &mut NodeId| named.contains(id);
        let gone = self.groups[group].nodes.extract_if(.., is_named).collect();
        Ok(self.dismiss(gone))
    }

    pub(super) fn group_names(&self) -> Vec<String> {
        self.groups.iter().map(|group| group.name.clone()).collect()
    }

    pub(super) fn show_group(&self, name: &str) -> Result<Plan, Errno> {
        let nodes = self.infos(&self.group(name)?.nodes);
        Ok(Plan::Reply(Reply::Group(GroupInfo { nodes })))
    }

    /// # Errors
    /// ENOENT if there is no such group.
    pub(super) fn group(&self, name: &str) -> Result<&Group, Errno> {
        self.groups.iter().find(|group| group.name == name).ok_or(Errno::ENOENT)
    }

    /// Returns whether tests use the group, so that it must not change.
    pub(super) fn is_in_test(&self, group: &str) -> bool {
        let mut tests = self.batches.iter().flat_map(|batch| &batch.tests);
        tests.any(|test| test.from == group || test.to == group)
    }

    /// Returns the position of a group that may be changed.
    pub(super) fn free_group(&self, name: &str) -> Result<usize, Errno> {
        let place = self.groups.iter().position(|group| group.name == name);
        let place = place.ok_or(Errno::ENOENT)?;
        if self.is_in_test(name) { Err(Errno::EBUSY) } else { Ok(place) }
    }

    /// Adds a node to a group that it is not in.
    pub(super) fn enlist(&mut self, group: usize, id: NodeId) {
        self.nodes.link(id);
        self.groups[group].nodes.push(id);
    }

    fn entrance(&self) -> Ask {
        Ask::Make { force: self.force, name: self.name }
    }

    /// Returns the part that requests a node to enter the session.
    fn make(&mut self, id: NodeId) -> Part {
        let node = self.nodes.get_mut(id).expect("nodes of groups are in the table");
        node.makes += 1;
        node.making = true;
        Part::new(id, node)
    }

    /// Releases nodes that were removed from a group. A node that is in no other group leaves the
    /// session, and is notified if it knows of the session.
    fn dismiss(&mut self, gone: Vec<NodeId>) -> Transaction {
        let mut parts = Vec::with_capacity(gone.len());
        for id in gone {
            parts.push(match self.nodes.unlink(id) {
                Some(node) if node.may_be_in_session() => Part::new(id, &node),
                Some(node) => Part::settled(id, &node),
                None => Part::settled(id, self.nodes.of_group(id)),
            });
        }
        self.ask(Ask::Remove, parts)
    }
}
