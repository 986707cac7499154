//! Locks without uses, the one that was used longest ago first. Spec: ptlrpc-ldlm-mgs §23.4, §23.6.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lustre_wire::ldlm::{InodeBits, LockType};

use super::lock::{Marks, State};
use super::{LockId, Namespace, tree};
use crate::slab::NIL;

/// How many locks on the same bits of a resource in the same mode are kept.
const EQUAL_MAX: usize = 16;

/// The list, and what the server says about it.
#[derive(Debug)]
pub(super) struct UnusedLocks {
    oldest: u32,
    newest: u32,
    len: usize,
    /// The product of age in seconds and number above which locks are given up.
    volume: Option<u64>,
    /// The number that the server allows.
    limit: Option<usize>,
}

impl Default for UnusedLocks {
    fn default() -> Self {
        Self { oldest: NIL, newest: NIL, len: 0, volume: None, limit: None }
    }
}

impl UnusedLocks {
    /// Empties the list. The limits stay.
    pub(super) fn forget_all(&mut self) {
        (self.oldest, self.newest, self.len) = (NIL, NIL, 0);
    }
}

impl Namespace {
    /// Applies the limits of a reply body: the number of locks (`pb_limit`), and the volume (`pb_slv`).
    /// Zero in either means neither.
    pub fn set_limits(&mut self, now: Time, locks: u32, volume: u64) {
        if locks == 0 || volume == 0 {
            return;
        }
        self.unused.limit = Some(locks as usize);
        self.unused.volume = Some(volume);
        self.shrink(now);
    }

    /// Gives up at most `count` unused locks, the oldest first: memory is short. Returns how many.
    pub fn give_up_unused(&mut self, now: Time, count: usize) -> usize {
        let count = count.min(self.unused.len);
        for _ in 0..count {
            self.give_up_oldest(now);
        }
        count
    }

    /// Returns how many locks have no uses and are kept.
    pub fn unused_len(&self) -> usize {
        self.unused.len
    }

    /// Appends a granted lock to the list.
    pub(super) fn list(&mut self, place: u32) {
        if self.locks.at(place).marks.has(Marks::LISTED) {
            return;
        }
        let newest = std::mem::replace(&mut self.unused.newest, place);
        let lock = self.locks.at_mut(place);
        lock.marks.set(Marks::LISTED);
        (lock.older, lock.newer) = (newest, NIL);
        match newest {
            NIL => self.unused.oldest = place,
            _ => self.locks.at_mut(newest).newer = place,
        }
        self.unused.len += 1;
    }

    /// Removes a lock from the list, if it is there.
    pub(super) fn unlist(&mut self, place: u32) {
        let lock = self.locks.at_mut(place);
        if !lock.marks.has(Marks::LISTED) {
            return;
        }
        lock.marks.clear(Marks::LISTED);
        let (older, newer) = (lock.older, lock.newer);
        match older {
            NIL => self.unused.oldest = newer,
            _ => self.locks.at_mut(older).newer = newer,
        }
        match newer {
            NIL => self.unused.newest = older,
            _ => self.locks.at_mut(newer).older = older,
        }
        self.unused.len -= 1;
    }

    /// Gives up those that are unused of the locks on the same bits as a new one, if they are many: each intent brings
    /// one, and one is enough. They are given up together, so that few requests do it.
    pub(super) fn shrink_equal(&mut self, now: Time, place: u32) {
        let new = self.locks.at(place);
        let bits = InodeBits(new.words[0]);
        // What is cached of data belongs to one of the locks.
        if self.kind(place) != LockType::IBITS || bits.has(InodeBits::DOM) {
            return;
        }
        let (mode, root) = (new.mode(), self.resources.at(new.resource).root);
        let (mut equal, mut from) = (Vec::new(), 0);
        while let Some(found) = tree::first(&self.locks, root, (mode.0, bits.0, from)) {
            let lock = self.locks.at(found);
            if (lock.mode(), lock.words[0]) != (mode, bits.0) || equal.len() > EQUAL_MAX {
                break;
            }
            equal.push(found);
            from = found + 1;
        }
        if equal.len() <= EQUAL_MAX {
            return;
        }
        for old in equal.into_iter().filter(|old| *old != place) {
            if self.locks.at(old).marks.has(Marks::LISTED) {
                self.call(old, Marks::WHOLE);
                self.flush(now, old);
            }
        }
    }

    /// Gives up unused locks that are too many or too old.
    pub(super) fn shrink(&mut self, now: Time) {
        let max = self.unused.limit.unwrap_or(usize::MAX).min(match self.unused.volume {
            Some(_) => usize::MAX,
            None => self.settings.unused_max,
        });
        while self.unused.len > max || self.next_too_old().is_some_and(|at| at <= now) {
            self.give_up_oldest(now);
        }
    }

    /// Returns when the oldest lock is too old.
    pub(super) fn next_too_old(&self) -> Option<Time> {
        let UnusedLocks { oldest, len, volume, .. } = self.unused;
        let used_at = self.locks.get(oldest).filter(|_| oldest != NIL)?.used_at;
        let by_volume = volume.map(|volume| Duration::from_secs((volume / len as u64) + 1));
        Some(used_at + self.settings.age_max.min(by_volume.unwrap_or(Duration::MAX)))
    }

    fn give_up_oldest(&mut self, now: Time) {
        let oldest = self.unused.oldest;
        self.call(oldest, Marks::WHOLE);
        self.flush(now, oldest);
    }

    pub(super) fn check_unused(&self) {
        let (mut place, mut before, mut count) = (self.unused.oldest, NIL, 0);
        while place != NIL {
            let lock = self.locks.at(place);
            assert!(lock.marks.has(Marks::LISTED) && lock.older == before, "{lock:?}");
            assert!(lock.uses == 0 && lock.state == State::Granted, "{lock:?}");
            (before, place, count) = (place, lock.newer, count + 1);
        }
        assert_eq!((before, count), (self.unused.newest, self.unused.len));
        let is_listed = |place: &u32| self.locks.at(*place).marks.has(Marks::LISTED);
        assert_eq!(self.locks.places(0).filter(is_listed).count(), count);
    }

    /// Returns the unused locks, the oldest first.
    pub fn unused(&self) -> impl Iterator<Item = LockId> {
        let next = |&place: &u32| Some(self.locks.at(place).newer).filter(|&next| next != NIL);
        let oldest = Some(self.unused.oldest).filter(|&oldest| oldest != NIL);
        std::iter::successors(oldest, next).map(|place| self.locks.id(place))
    }
}
