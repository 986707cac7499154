//! The locks of a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Whose a lock is: a client, and the open file or, for its process, none.
pub(crate) type LockOwner = (u8, Option<u64>);

/// A locked range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    range: Range<u64>,
    is_exclusive: bool,
}

/// The locks of a file, which those of others exclude.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Locks(BTreeMap<LockOwner, Vec<Part>>);

impl Locks {
    /// Returns whether others have what excludes a lock.
    pub(crate) fn is_refused(
        &self,
        owner: LockOwner,
        range: &Range<u64>,
        is_exclusive: bool,
    ) -> bool {
        let others = self.0.iter().filter(|(other, _)| **other != owner);
        others.flat_map(|(_, parts)| parts).any(|part| {
            let meets = part.range.start < range.end && range.start < part.range.end;
            meets && (part.is_exclusive || is_exclusive)
        })
    }

    /// Replaces what an owner has of a range; by nothing to unlock it.
    pub(crate) fn set(&mut self, owner: LockOwner, range: &Range<u64>, lock: Option<bool>) {
        let own = self.0.entry(owner).or_default();
        let rest = |part: Part| {
            let before = part.range.start..part.range.end.min(range.start);
            let behind = part.range.start.max(range.end)..part.range.end;
            let kept = [before, behind].into_iter().filter(|range| !range.is_empty());
            kept.map(move |range| Part { range, ..part }).collect::<Vec<_>>()
        };
        *own = std::mem::take(own).into_iter().flat_map(rest).collect();
        own.extend(lock.map(|is_exclusive| Part { range: range.clone(), is_exclusive }));
        // Equal locks are equal, however they were made.
        own.sort_by_key(|part| part.range.start);
        own.dedup_by(|next, part| {
            let is_one =
                part.range.end == next.range.start && part.is_exclusive == next.is_exclusive;
            if is_one {
                part.range.end = next.range.end;
            }
            is_one
        });
        self.0.retain(|_, parts| !parts.is_empty());
    }

    /// Returns the clients that have locks.
    pub(crate) fn clients(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.keys().map(|(client, _)| *client)
    }

    /// Unlocks all that a client has.
    pub(crate) fn remove_client(&mut self, client: u8) {
        self.0.retain(|(other, _), _| *other != client);
    }

    /// Unlocks all that an owner has.
    pub(crate) fn remove(&mut self, owner: LockOwner) {
        self.0.remove(&owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_others_exclude_and_own_ones_are_replaced() {
        let mut locks = Locks::default();
        let (one, two) = ((0, None), (1, None));
        locks.set(one, &(0..100), Some(true));
        locks.set(one, &(40..60), None);
        assert!(locks.is_refused(two, &(30..41), false) && !locks.is_refused(two, &(40..60), true));
        locks.set(one, &(0..40), Some(false));
        assert!(!locks.is_refused(two, &(0..40), false) && locks.is_refused(two, &(0..1), true));
        assert!(!locks.is_refused(one, &(0..100), true));
        locks.remove(one);
        assert!(!locks.is_refused(two, &(0..100), true));
        locks.set((0, Some(3)), &(0..100), Some(true));
        locks.remove_client(1);
        assert!(locks.is_refused(two, &(0..100), true));
        locks.remove_client(0);
        assert!(!locks.is_refused(two, &(0..100), true));
    }
}
