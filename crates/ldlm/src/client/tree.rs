//! The index of the locks of a resource that can be matched: a treap in order of mode, then of the
//! first word of their policy (the start of a range, the bits), then of place. A range that contains
//! another is found in logarithmic time.

use super::lock::Lock;
use super::slots::Slots;
use crate::slab::NIL;
use crate::treap::{Links, Nodes};
pub(super) use crate::treap::{check, insert, remove};

/// The order of locks: mode, first word, place.
pub(super) type Key = (u32, u64, u32);

pub(super) type Locks = Slots<Lock>;

impl Nodes for Locks {
    type Key = Key;

    fn key(&self, place: u32) -> Key {
        let lock = self.at(place);
        (lock.mode().0, lock.words[0], place)
    }

    fn end(&self, place: u32) -> u64 {
        self.at(place).words[1]
    }

    fn links(&self, place: u32) -> Links {
        self.at(place).links
    }

    fn set_links(&mut self, place: u32, links: Links) {
        self.at_mut(place).links = links;
    }
}

/// Returns a lock between two keys whose second word is at least `end`.
pub(super) fn find(locks: &Locks, root: u32, low: Key, high: Key, end: u64) -> Option<u32> {
    if root == NIL || locks.at(root).links.reach < end {
        return None;
    }
    let Links { left, right, .. } = locks.at(root).links;
    let own = locks.key(root);
    if own < low {
        return find(locks, right, low, high, end);
    }
    if own > high {
        return find(locks, left, low, high, end);
    }
    if locks.at(root).words[1] >= end {
        return Some(root);
    }
    find(locks, left, low, high, end).or_else(|| find(locks, right, low, high, end))
}

/// Returns the first lock from a key on.
pub(super) fn first(locks: &Locks, root: u32, low: Key) -> Option<u32> {
    let (mut root, mut found) = (root, None);
    while root != NIL {
        let Links { left, right, .. } = locks.at(root).links;
        if locks.key(root) < low { root = right } else { (root, found) = (left, Some(root)) }
    }
    found
}

/// Appends the locks between two keys whose second word is at least `end`, in order.
pub(super) fn all(locks: &Locks, root: u32, [low, high]: [Key; 2], end: u64, found: &mut Vec<u32>) {
    if root == NIL || locks.at(root).links.reach < end {
        return;
    }
    let Links { left, right, .. } = locks.at(root).links;
    let own = locks.key(root);
    if own > low {
        all(locks, left, [low, high], end, found);
    }
    if (low..=high).contains(&own) && locks.at(root).words[1] >= end {
        found.push(root);
    }
    if own < high {
        all(locks, right, [low, high], end, found);
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_lustre_wire::ldlm::{Extent, LockMode};

    use super::*;

    #[test]
    fn a_tree_finds_what_a_list_finds() {
        let mut rng = Rng::new(3);
        let (mut locks, mut root, mut list) = (Locks::default(), NIL, Vec::<u32>::new());
        for round in 0..6000 {
            if list.is_empty() || rng.below(5) < if round < 3000 { 3 } else { 2 } {
                let start = rng.below(1000);
                let extent = Extent { start, end: start + rng.below(60), gid: 0 };
                let mode = [LockMode::PR, LockMode::PW][rng.below(2) as usize];
                let new = locks.insert(Lock::new(0, mode, extent.into()));
                root = insert(&mut locks, root, new);
                list.push(new);
            } else {
                let old = list.swap_remove(rng.below(list.len() as u64) as usize);
                root = remove(&mut locks, root, old);
                locks.remove(old);
            }
            let (mode, start) = (LockMode::PR.0, rng.below(1000));
            let end = start + rng.below(40);
            let contains = |place: &&u32| {
                let lock = locks.at(**place);
                lock.mode().0 == mode && lock.words[0] <= start && lock.words[1] >= end
            };
            let found = find(&locks, root, (mode, 0, 0), (mode, start, NIL), end);
            assert_eq!(found.is_some(), list.iter().any(|place| contains(&place)));
            assert!(found.is_none_or(|place| contains(&&place)));
            let next = first(&locks, root, (mode, start, 0));
            let keys = list.iter().map(|&place| locks.key(place));
            let expected = keys.filter(|key| *key >= (mode, start, 0)).min();
            assert_eq!(next.map(|place| locks.key(place)), expected);
            if round % 100 == 0 {
                assert_eq!(check(&locks, root), Ok(list.len() as u32));
            }
        }
    }

    #[test]
    fn locks_between_two_keys_come_in_order() {
        let (mut locks, mut root) = (Locks::default(), NIL);
        for start in 0..1000 {
            let extent = Extent { start, end: start, gid: 0 };
            let new = locks.insert(Lock::new(0, LockMode::PW, extent.into()));
            root = insert(&mut locks, root, new);
        }
        let mut found = vec![];
        let mode = LockMode::PW.0;
        all(&locks, root, [(mode, 0, 0), (mode, 30, NIL)], 20, &mut found);
        let starts: Vec<_> = found.iter().map(|&place| locks.at(place).words[0]).collect();
        assert_eq!(starts, (20..=30).collect::<Vec<_>>());
    }
}
