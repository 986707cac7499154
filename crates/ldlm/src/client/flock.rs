//! Flocks of the same owner replace each other, as the server does it. Spec: ptlrpc-ldlm-mgs §25.2.

use fulmar_lustre_wire::ldlm::LockMode;

use super::lock::{Lock, State};
use super::{Namespace, tree};
use crate::slab::NIL;

impl Namespace {
    /// Applies a flock that was granted to those of its owner: ranges of the same mode are joined,
    /// others are cut. An unlocked range is gone.
    pub(super) fn merge_flock(&mut self, place: u32) {
        let lock = self.locks.at(place);
        let (mode, [mut start, mut end, owner]) = (lock.mode(), lock.words);
        self.unindex(place);
        for old in self.touching_flocks(place, [start, end], owner) {
            self.unindex(old);
            let Lock { words: [first, last, _], .. } = *self.locks.at(old);
            if self.locks.at(old).mode() == mode {
                (start, end) = (start.min(first), end.max(last));
                self.forget_flock(old);
            } else {
                self.cut_flock(old, [start, end]);
            }
        }
        self.locks.at_mut(place).words = [start, end, owner];
        match mode {
            LockMode::NL => self.forget_flock(place),
            _ => self.index(place),
        }
    }

    /// Returns the flocks of an owner that overlap a range or are beside it.
    fn touching_flocks(&self, but: u32, [start, end]: [u64; 2], owner: u64) -> Vec<u32> {
        let root = self.resources.at(self.locks.at(but).resource).root;
        let mut found = Vec::new();
        for mode in [LockMode::PR, LockMode::PW] {
            let range = [(mode.0, 0, 0), (mode.0, end.saturating_add(1), NIL)];
            tree::all(&self.locks, root, range, start.saturating_sub(1), &mut found);
        }
        found.retain(|&place| self.locks.at(place).words[2] == owner);
        found
    }

    /// Cuts a range from a flock that is not in the tree.
    fn cut_flock(&mut self, old: u32, [start, end]: [u64; 2]) {
        let Lock { words: [first, last, owner], pid, resource, .. } = *self.locks.at(old);
        if last < start || end < first {
            return self.index(old);
        }
        let mut parts = Vec::new();
        if first < start {
            parts.push([first, start - 1, owner]);
        }
        if end < last {
            parts.push([end + 1, last, owner]);
        }
        match parts[..] {
            [] => self.forget_flock(old),
            [kept, ..] => {
                self.locks.at_mut(old).words = kept;
                self.index(old);
            }
        }
        if let [_, other] = parts[..] {
            let mut part = Lock::new(resource, self.locks.at(old).mode(), Default::default());
            (part.words, part.pid, part.state) = (other, pid, State::Granted);
            let desc = self.resources.at(resource).desc;
            self.resources.take(&desc);
            let place = self.locks.insert(part);
            self.index(place);
        }
    }

    /// Removes a flock that is not in the tree.
    fn forget_flock(&mut self, place: u32) {
        let lock = self.locks.remove(place);
        self.resources.give_back(lock.resource);
    }
}
