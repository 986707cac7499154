//! The search for a lock that is held. Spec: ptlrpc-ldlm-mgs §20, §24.5.

use fulmar_lustre_wire::ldlm::{LockMode, LockType, Policy, ResourceDesc};

use super::{LockId, Namespace, tree};
use crate::mode;
use crate::slab::NIL;

/// The modes of locks that may be held, the weakest first.
pub(super) const MODES: [LockMode; 7] = [
    LockMode::NL,
    LockMode::CR,
    LockMode::CW,
    LockMode::PR,
    LockMode::PW,
    LockMode::EX,
    LockMode::GROUP,
];

impl Namespace {
    /// Returns a lock that is held, is not called back, and covers what is wanted.
    pub fn find(
        &self,
        resource: &ResourceDesc,
        mode: LockMode,
        policy: impl Into<Policy>,
    ) -> Option<LockId> {
        self.search(resource, mode, policy.into()).map(|place| self.locks.id(place))
    }

    pub(super) fn search(
        &self,
        resource: &ResourceDesc,
        wanted: LockMode,
        policy: Policy,
    ) -> Option<u32> {
        let root = self.resources.at(self.resources.find(resource)?).root;
        let held = MODES.into_iter().filter(|&held| mode::covers(held, wanted));
        held.filter_map(|held| self.search_mode(root, resource.kind, held, policy)).next()
    }

    fn search_mode(
        &self,
        root: u32,
        kind: LockType,
        held: LockMode,
        wanted: Policy,
    ) -> Option<u32> {
        let (low, [start, end, gid]) = ((held.0, 0, 0), wanted.words);
        match kind {
            LockType::EXTENT => {
                let found = tree::find(&self.locks, root, low, (held.0, start, NIL), end)?;
                let has_group = self.locks.at(found).words[2] == gid;
                (held != LockMode::GROUP || has_group).then_some(found)
            }
            LockType::IBITS => {
                // The bits of a lock that has those wanted are not a smaller number. No more locks
                // are looked at than there are sets of bits.
                let (bits, mut from) = (start, start);
                loop {
                    let found = tree::first(&self.locks, root, (held.0, from, 0))?;
                    let lock = self.locks.at(found);
                    match lock.mode() == held {
                        true if lock.words[0] & bits == bits => return Some(found),
                        true => from = lock.words[0].checked_add(1)?,
                        false => return None,
                    }
                }
            }
            LockType::PLAIN => {
                let found = tree::first(&self.locks, root, low)?;
                (self.locks.at(found).mode() == held).then_some(found)
            }
            _ => None,
        }
    }

    /// Returns the last byte of an object that a held lock covers: beyond it the size of the object is
    /// not known any more. Spec: ptlrpc-ldlm-mgs §24.5.
    pub fn last_covered(&self, resource: &ResourceDesc) -> Option<u64> {
        let root = self.resources.at(self.resources.find(resource)?).root;
        (root != NIL).then(|| self.locks.at(root).links.reach)
    }

    /// Adds a lock to the tree of its resource.
    pub(super) fn index(&mut self, place: u32) {
        let resource = self.resources.at_mut(self.locks.at(place).resource);
        resource.root = tree::insert(&mut self.locks, resource.root, place);
    }

    /// Removes a lock from it.
    pub(super) fn unindex(&mut self, place: u32) {
        let resource = self.resources.at_mut(self.locks.at(place).resource);
        resource.root = tree::remove(&mut self.locks, resource.root, place);
    }
}
