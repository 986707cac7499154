//! The targets of a server, which may come and go.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::message::Flavor;

use super::recovery::{Recovery, Step};
use super::server::{Partition, Server, Stage};
use super::{PartitionConfig, RequestId, TargetConfig, TargetState};
use crate::export::TargetId;
use crate::import::TargetKind;

/// The targets, by numbers that are never used twice.
#[derive(Debug, Default)]
pub(super) struct Targets {
    all: BTreeMap<TargetId, Target>,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) config: TargetConfig,
    pub(super) state: TargetState,
    /// How clients that connect protect their messages; `None` for any way.
    pub(super) flavor: Option<Flavor>,
    pub(super) last_committed: u64,
    /// Until it has recovered from its restart.
    pub(super) recovery: Option<Recovery>,
}

impl Targets {
    pub(super) fn add(&mut self, config: TargetConfig) -> TargetId {
        let id = TargetId(self.next);
        self.next += 1;
        let (state, last_committed) = (TargetState::Starting, 0);
        let flavor = (config.kind != TargetKind::Mgs).then_some(Flavor::NULL);
        self.all.insert(id, Target { config, state, flavor, last_committed, recovery: None });
        id
    }

    pub(super) fn get(&self, id: TargetId) -> Option<&Target> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TargetId) -> Option<&mut Target> {
        self.all.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (TargetId, &Target)> {
        self.all.iter().map(|(id, target)| (*id, target))
    }

    /// Returns the recoveries that are under way.
    pub(super) fn recoveries(&mut self) -> impl Iterator<Item = (TargetId, &mut Recovery)> {
        self.all.iter_mut().filter_map(|(id, target)| Some((*id, target.recovery.as_mut()?)))
    }

    /// Returns the next step of a recovery, if one is possible.
    pub(super) fn poll_recovery(&mut self) -> Option<(TargetId, Step)> {
        self.recoveries().find_map(|(id, recovery)| Some((id, recovery.poll()?)))
    }
}

/// A client that has an export has its target.
impl Index<TargetId> for Targets {
    type Output = Target;

    fn index(&self, id: TargetId) -> &Target {
        self.get(id).unwrap_or_else(|| panic!("{id:?} is no target"))
    }
}

impl IndexMut<TargetId> for Targets {
    fn index_mut(&mut self, id: TargetId) -> &mut Target {
        self.get_mut(id).unwrap_or_else(|| panic!("{id:?} is no target"))
    }
}

impl Server {
    /// Adds a partition, which stays. Its portals are opened.
    ///
    /// # Panics
    /// As [`Server::new`].
    pub fn add_partition(&mut self, config: PartitionConfig) {
        for &portal in &config.portals {
            assert!(!self.has_portal(portal), "portal {portal} is in two partitions");
        }
        self.open_partition(Partition::new(config, self.timeouts));
    }

    /// Returns whether requests are taken at a portal.
    pub fn has_portal(&self, portal: u32) -> bool {
        self.partitions.iter().any(|partition| partition.config.portals.contains(&portal))
    }

    /// Adds a target, which starts. Its number is new.
    pub fn add_target(&mut self, config: TargetConfig) -> TargetId {
        self.targets.add(config)
    }

    /// Removes a target with its exports, of which the host hears nothing more: no [`Task::Evicted`],
    /// since their clients connect again when it is back. Its requests are answered with ENODEV, as all
    /// later ones, so that their clients send them to its next start; the host answers none of
    /// them any more. Returns whether there was such a target.
    ///
    /// Bulk data of these requests may still be moved for a moment, to or from memory that the host
    /// does not use any more.
    ///
    /// [`Task::Evicted`]: super::Task::Evicted
    pub fn remove_target(&mut self, now: Time, target: TargetId) -> bool {
        if self.targets.get(target).is_none() {
            return false;
        }
        let of_it = self.exports.iter().filter(|(_, export)| export.target == target);
        let exports: Vec<Handle> = of_it.map(|(handle, _)| handle).collect();
        for handle in exports {
            if let Some(gone) = self.exports.remove(handle) {
                self.end_work_of(handle, &gone);
            }
        }
        self.targets.all.remove(&target);
        let running = self.requests.iter().filter(|(_, one)| {
            one.target == Some(target) && matches!(one.stage, Stage::Running { .. })
        });
        let running: Vec<RequestId> = running.map(|(id, _)| RequestId(id)).collect();
        for id in running {
            if !self.transfers.abandon(id) {
                self.refuse(now, id, Errno::ENODEV);
            }
        }
        // Others have their places.
        for partition in 0..self.partitions.len() {
            self.dispatch(now, partition);
        }
        self.advance(now);
        true
    }
}
