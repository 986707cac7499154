//! The tree of the locks of a resource that can be matched: a treap of intervals.
//!
//! Locks are ordered by mode, then by the first word of their policy (the start of a range, the
//! bits). Each node knows the largest second word (the end of a range) below it, so a range that
//! contains another is found in logarithmic time. The priorities are hashes of places.

use super::lock::{Lock, Node};
use super::resources::mix;
use super::slots::Slots;
use crate::slab::NIL;

/// The order of locks: mode, first word, place.
pub(super) type Key = (u32, u64, u32);

pub(super) type Locks = Slots<Lock>;

pub(super) fn key(locks: &Locks, place: u32) -> Key {
    let lock = locks.at(place);
    (lock.mode().0, lock.words[0], place)
}

/// Adds a lock, and returns the new root.
pub(super) fn insert(locks: &mut Locks, root: u32, new: u32) -> u32 {
    if root == NIL || mix(new.into()) > mix(root.into()) {
        let (left, right) = split(locks, root, key(locks, new));
        return attach(locks, new, left, right);
    }
    let Node { left, right, .. } = locks.at(root).node;
    if key(locks, new) < key(locks, root) {
        let left = insert(locks, left, new);
        attach(locks, root, left, right)
    } else {
        let right = insert(locks, right, new);
        attach(locks, root, left, right)
    }
}

/// Removes a lock that is in the tree, and returns the new root.
pub(super) fn remove(locks: &mut Locks, root: u32, old: u32) -> u32 {
    assert_ne!(root, NIL, "the lock is in the tree");
    let Node { left, right, .. } = locks.at(root).node;
    if root == old {
        return merge(locks, left, right);
    }
    if key(locks, old) < key(locks, root) {
        let left = remove(locks, left, old);
        attach(locks, root, left, right)
    } else {
        let right = remove(locks, right, old);
        attach(locks, root, left, right)
    }
}

/// Returns a lock between two keys whose second word is at least `end`.
pub(super) fn find(locks: &Locks, root: u32, low: Key, high: Key, end: u64) -> Option<u32> {
    if root == NIL || locks.at(root).node.max < end {
        return None;
    }
    let Node { left, right, .. } = locks.at(root).node;
    let own = key(locks, root);
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
        let Node { left, right, .. } = locks.at(root).node;
        match key(locks, root) < low {
            true => root = right,
            false => (root, found) = (left, Some(root)),
        }
    }
    found
}

/// Appends the locks between two keys whose second word is at least `end`, in order.
pub(super) fn all(locks: &Locks, root: u32, [low, high]: [Key; 2], end: u64, found: &mut Vec<u32>) {
    if root == NIL || locks.at(root).node.max < end {
        return;
    }
    let Node { left, right, .. } = locks.at(root).node;
    let own = key(locks, root);
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

/// Makes a node of a lock and two parts, and returns it.
fn attach(locks: &mut Locks, root: u32, left: u32, right: u32) -> u32 {
    let max_of = |place| match place {
        NIL => 0,
        place => locks.at(place).node.max,
    };
    let max = max_of(left).max(max_of(right)).max(locks.at(root).words[1]);
    locks.at_mut(root).node = Node { left, right, max };
    root
}

/// Parts a tree at a key.
fn split(locks: &mut Locks, root: u32, at: Key) -> (u32, u32) {
    if root == NIL {
        return (NIL, NIL);
    }
    let Node { left, right, .. } = locks.at(root).node;
    if key(locks, root) < at {
        let (below, above) = split(locks, right, at);
        (attach(locks, root, left, below), above)
    } else {
        let (below, above) = split(locks, left, at);
        (below, attach(locks, root, above, right))
    }
}

/// Joins two trees, of which the first is before the second.
fn merge(locks: &mut Locks, first: u32, second: u32) -> u32 {
    match (first, second) {
        (NIL, other) | (other, NIL) => other,
        _ if mix(first.into()) > mix(second.into()) => {
            let Node { left, right, .. } = locks.at(first).node;
            let right = merge(locks, right, second);
            attach(locks, first, left, right)
        }
        _ => {
            let Node { left, right, .. } = locks.at(second).node;
            let left = merge(locks, first, left);
            attach(locks, second, left, right)
        }
    }
}

/// Checks the order, the priorities and the ends of a tree, and appends its locks.
pub(super) fn check(locks: &Locks, root: u32, found: &mut Vec<u32>) {
    if root == NIL {
        return;
    }
    let Node { left, right, max } = locks.at(root).node;
    check(locks, left, found);
    if let Some(&last) = found.last() {
        assert!(key(locks, last) < key(locks, root), "{last} is before {root}");
    }
    found.push(root);
    check(locks, right, found);
    let mut expected = locks.at(root).words[1];
    for child in [left, right].into_iter().filter(|&child| child != NIL) {
        assert!(mix(child.into()) < mix(root.into()), "{child} is below {root}");
        expected = expected.max(locks.at(child).node.max);
    }
    assert_eq!(max, expected, "the largest end below {root}");
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_lustre_wire::ldlm::{Extent, LockMode};

    use super::*;

    fn depth(locks: &Locks, root: u32) -> usize {
        match root {
            NIL => 0,
            _ => {
                let Node { left, right, .. } = locks.at(root).node;
                1 + depth(locks, left).max(depth(locks, right))
            }
        }
    }

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
            let keys = list.iter().map(|&place| key(&locks, place));
            let expected = keys.filter(|key| *key >= (mode, start, 0)).min();
            assert_eq!(next.map(|place| key(&locks, place)), expected);
            if round % 100 == 0 {
                let mut in_order = vec![];
                check(&locks, root, &mut in_order);
                assert_eq!(in_order.len(), list.len());
            }
        }
    }

    #[test]
    fn locks_in_order_make_no_deep_tree() {
        let (mut locks, mut root) = (Locks::default(), NIL);
        for start in 0..10_000 {
            let extent = Extent { start, end: start, gid: 0 };
            let new = locks.insert(Lock::new(0, LockMode::PW, extent.into()));
            root = insert(&mut locks, root, new);
        }
        assert!(depth(&locks, root) < 45, "{}", depth(&locks, root));
        let mut found = vec![];
        let mode = LockMode::PW.0;
        all(&locks, root, [(mode, 0, 0), (mode, 30, NIL)], 20, &mut found);
        let starts: Vec<_> = found.iter().map(|&place| locks.at(place).words[0]).collect();
        assert_eq!(starts, (20..=30).collect::<Vec<_>>());
    }
}
