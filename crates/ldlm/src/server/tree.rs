//! An index of granted locks by range: a balanced tree (AVL) whose nodes are the locks themselves.
//!
//! A tree is in order of start, end and place. Each lock knows the last byte that its subtree
//! reaches, so that a search for overlapping locks skips the others.

use std::ops::ControlFlow;

use super::lock::Lock;
use crate::slab::{NIL, Slab};

type Locks = Slab<Lock>;

/// Adds a lock, and returns the root.
pub(super) fn insert(locks: &mut Locks, root: u32, id: u32) -> u32 {
    if root == NIL {
        let lock = &mut locks[id];
        (lock.left, lock.right) = (NIL, NIL);
        update(locks, id);
        return id;
    }
    if key(locks, id) < key(locks, root) {
        locks[root].left = insert(locks, locks[root].left, id);
    } else {
        locks[root].right = insert(locks, locks[root].right, id);
    }
    balance(locks, root)
}

/// Removes a lock that is in the tree, and returns the root.
pub(super) fn remove(locks: &mut Locks, root: u32, id: u32) -> u32 {
    assert_ne!(root, NIL, "lock {id} is not in its tree");
    let (left, right) = (locks[root].left, locks[root].right);
    if id == root {
        if left == NIL || right == NIL {
            return if left == NIL { right } else { left };
        }
        let (first, rest) = take_first(locks, right);
        (locks[first].left, locks[first].right) = (left, rest);
        return balance(locks, first);
    }
    if key(locks, id) < key(locks, root) {
        locks[root].left = remove(locks, left, id);
    } else {
        locks[root].right = remove(locks, right, id);
    }
    balance(locks, root)
}

/// Visits the locks that overlap `start..=end`, in order, until `visit` breaks.
pub(super) fn overlapping(
    locks: &Locks,
    root: u32,
    range: (u64, u64),
    visit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if root == NIL || locks[root].reach < range.0 {
        return ControlFlow::Continue(());
    }
    let lock = &locks[root];
    overlapping(locks, lock.left, range, visit)?;
    if lock.part.start > range.1 {
        return ControlFlow::Continue(());
    }
    if lock.part.end >= range.0 {
        visit(root)?;
    }
    overlapping(locks, lock.right, range, visit)
}

/// Visits the locks that reach beyond `end`, those with the highest start first, until `visit`
/// breaks.
pub(super) fn beyond(
    locks: &Locks,
    root: u32,
    end: u64,
    visit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if root == NIL || locks[root].reach <= end {
        return ControlFlow::Continue(());
    }
    let lock = &locks[root];
    beyond(locks, lock.right, end, visit)?;
    if lock.part.end > end {
        visit(root)?;
    }
    beyond(locks, lock.left, end, visit)
}

/// Returns the lowest start of a lock after `end`.
pub(super) fn start_after(locks: &Locks, root: u32, end: u64) -> Option<u64> {
    let (mut at, mut found) = (root, None);
    while at != NIL {
        let lock = &locks[at];
        if lock.part.start > end {
            found = Some(lock.part.start);
            at = lock.left;
        } else {
            at = lock.right;
        }
    }
    found
}

/// Checks order, balance and reach of a tree, and returns how many locks it has.
pub(super) fn check(locks: &Locks, root: u32) -> Result<u32, String> {
    if root == NIL {
        return Ok(0);
    }
    let (left, right) = (locks[root].left, locks[root].right);
    let count = check(locks, left)? + check(locks, right)? + 1;
    let reach = locks[root].part.end.max(reach(locks, left)).max(reach(locks, right));
    let is_ordered = (left == NIL || key(locks, left) < key(locks, root))
        && (right == NIL || key(locks, root) < key(locks, right));
    let lean = i32::from(height(locks, left)) - i32::from(height(locks, right));
    match is_ordered && reach == locks[root].reach && lean.abs() <= 1 {
        true => Ok(count),
        false => Err(format!("lock {root}: ordered {is_ordered}, reach {reach}, lean {lean}")),
    }
}

fn key(locks: &Locks, id: u32) -> (u64, u64, u32) {
    let part = &locks[id].part;
    (part.start, part.end, id)
}

fn height(locks: &Locks, id: u32) -> u8 {
    if id == NIL { 0 } else { locks[id].height }
}

fn reach(locks: &Locks, id: u32) -> u64 {
    if id == NIL { 0 } else { locks[id].reach }
}

fn update(locks: &mut Locks, id: u32) {
    let (left, right) = (locks[id].left, locks[id].right);
    let height = height(locks, left).max(height(locks, right)) + 1;
    let reach = locks[id].part.end.max(reach(locks, left)).max(reach(locks, right));
    (locks[id].height, locks[id].reach) = (height, reach);
}

fn balance(locks: &mut Locks, root: u32) -> u32 {
    let (left, right) = (locks[root].left, locks[root].right);
    let (on_left, on_right) = (height(locks, left), height(locks, right));
    if on_left > on_right + 1 {
        if height(locks, locks[left].left) < height(locks, locks[left].right) {
            locks[root].left = rotate_left(locks, left);
        }
        return rotate_right(locks, root);
    }
    if on_right > on_left + 1 {
        if height(locks, locks[right].right) < height(locks, locks[right].left) {
            locks[root].right = rotate_right(locks, right);
        }
        return rotate_left(locks, root);
    }
    update(locks, root);
    root
}

fn rotate_left(locks: &mut Locks, root: u32) -> u32 {
    let up = locks[root].right;
    locks[root].right = locks[up].left;
    update(locks, root);
    locks[up].left = root;
    update(locks, up);
    up
}

fn rotate_right(locks: &mut Locks, root: u32) -> u32 {
    let up = locks[root].left;
    locks[root].left = locks[up].right;
    update(locks, root);
    locks[up].right = root;
    update(locks, up);
    up
}

/// Takes the first lock out, and returns it with the root of the others.
fn take_first(locks: &mut Locks, root: u32) -> (u32, u32) {
    let (left, right) = (locks[root].left, locks[root].right);
    if left == NIL {
        return (root, right);
    }
    let (first, rest) = take_first(locks, left);
    locks[root].left = rest;
    (first, balance(locks, root))
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;
    use fulmar_lustre_wire::Handle;

    use super::super::lock::{Claim, Flags, Kind, Mode, Part};
    use super::*;

    #[test]
    fn a_tree_finds_what_a_list_finds() {
        let (mut locks, mut root, mut list) = (Slab::default(), NIL, Vec::new());
        let mut rng = Rng::new(1);
        for round in 0..4000 {
            if rng.below(5) < 3 || list.is_empty() {
                let start = rng.below(1000);
                let end = start + rng.below(60);
                let part = Part { start, end, value: 0, more: 0 };
                let claim = Claim { kind: Kind::Extent, mode: Mode::PR, part, export: 0 };
                let id = locks.insert(Lock::new(Handle(1), Handle(1), &claim, Flags(0)));
                root = insert(&mut locks, root, id);
                list.push(id);
            } else {
                let id = list.swap_remove(rng.below(list.len() as u64) as usize);
                root = remove(&mut locks, root, id);
                locks.remove(id);
            }
            assert_eq!(check(&locks, root), Ok(list.len() as u32));
            if round % 8 == 0 {
                compare(&locks, root, &list, rng.below(1000));
            }
        }
    }

    fn compare(locks: &Locks, root: u32, list: &[u32], at: u64) {
        let parts = || list.iter().map(|&id| locks[id].part);
        let mut count = 0;
        let mut visit = |_| {
            count += 1;
            ControlFlow::Continue(())
        };
        let _ = overlapping(locks, root, (at, at + 10), &mut visit);
        let _ = beyond(locks, root, at, &mut visit);
        let expected = parts().filter(|part| part.start <= at + 10 && part.end >= at).count()
            + parts().filter(|part| part.end > at).count();
        assert_eq!(count, expected);
        let next = parts().map(|part| part.start).filter(|&start| start > at).min();
        assert_eq!(start_after(locks, root, at), next);
    }
}
