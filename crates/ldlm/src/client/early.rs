//! Locks that are given up with the request that would have them called back. Spec:
//! ptlrpc-ldlm-mgs §23.3.

use std::collections::BTreeSet;

use fulmar_base::Time;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::LockType;

use super::held::MODES;
use super::lock::{Lock, Marks};
use super::{Coverage, EarlyId, LockId, Namespace, Output, tree};
use crate::mode;
use crate::slab::NIL;

/// A search under way.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Locks that are being flushed.
    waiting: BTreeSet<LockId>,
    handles: Vec<Handle>,
}

impl Namespace {
    /// Gives up at most `room` unused locks that a request is about to conflict with. When what they
    /// cover is flushed, [`Output::Early`] names them, and the request must carry them.
    pub fn early_cancel(&mut self, now: Time, conflicts: &[Coverage], room: usize) -> EarlyId {
        let id = EarlyId(self.next_early);
        self.next_early += 1;
        self.early.insert(id, Early::default());
        let room = if self.settings.early_cancel { room } else { 0 };
        let mut found = BTreeSet::new();
        for conflict in conflicts {
            found.extend(self.conflicting(conflict));
        }
        for place in found.into_iter().take(room) {
            self.call(place, Marks::WHOLE);
            self.locks.at_mut(place).busy().early = Some(id);
            let lock = self.locks.id(place);
            self.early.entry(id).or_default().waiting.insert(lock);
            self.flush(now, place);
        }
        self.finish_early(id);
        id
    }

    /// Returns locks of [`Output::Early`] that no request carries: they are cancelled.
    pub fn cancel_early(&mut self, handles: Vec<Handle>) {
        handles.into_iter().for_each(|handle| self.cancel_handle(handle));
    }

    pub(super) fn early_done(&mut self, id: EarlyId, lock: LockId, handle: Handle) {
        let Some(early) = self.early.get_mut(&id) else { return self.cancel_handle(handle) };
        early.waiting.remove(&lock);
        early.handles.extend(Some(handle).filter(|handle| !handle.is_none()));
        self.finish_early(id);
    }

    /// The server does not know any handle any more.
    pub(super) fn forget_early_handles(&mut self) {
        self.early.values_mut().for_each(|early| early.handles.clear());
    }

    fn finish_early(&mut self, id: EarlyId) {
        if self.early.get(&id).is_some_and(|early| early.waiting.is_empty()) {
            let handles = self.early.remove(&id).unwrap_or_default().handles;
            self.outputs.push_back(Output::Early { id, handles });
        }
    }

    /// Returns the unused locks that exclude what is given.
    fn conflicting(&self, with: &Coverage) -> Vec<u32> {
        let Some(resource) = self.resources.find(&with.resource) else { return Vec::new() };
        let (root, [first, second, _]) = (self.resources.at(resource).root, with.policy.words);
        let mut found = Vec::new();
        let (last, end) = match with.resource.kind {
            LockType::EXTENT => (second, first),
            _ => (u64::MAX, 0),
        };
        for held in MODES.into_iter().filter(|&held| !mode::are_compatible(held, with.mode)) {
            let range = [(held.0, 0, 0), (held.0, last, NIL)];
            tree::all(&self.locks, root, range, end, &mut found);
        }
        let overlaps = |lock: &Lock| match with.resource.kind {
            LockType::EXTENT | LockType::PLAIN => true,
            LockType::IBITS => lock.words[0] & first != 0,
            _ => false,
        };
        found.retain(|&place| {
            let lock = self.locks.at(place);
            lock.uses == 0 && overlaps(lock)
        });
        found
    }

    pub(super) fn check_early(&self) {
        for (id, early) in &self.early {
            assert!(!early.waiting.is_empty(), "{id:?} has ended");
            for &lock in &early.waiting {
                assert!(self.locks.place(lock).is_some(), "{id:?} waits for {lock:?}");
            }
        }
    }
}
