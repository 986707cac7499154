//! The index of granted locks by range: a treap in order of start, end and place.

use std::ops::ControlFlow;

use super::lock::Lock;
use crate::slab::{NIL, Slab};
use crate::treap::{Links, Nodes};
pub(super) use crate::treap::{check, insert, remove};

type Locks = Slab<Lock>;

impl Nodes for Locks {
    type Key = (u64, u64, u32);

    fn key(&self, place: u32) -> Self::Key {
        let part = &self[place].part;
        (part.start, part.end, place)
    }

    fn end(&self, place: u32) -> u64 {
        self[place].part.end
    }

    fn links(&self, place: u32) -> Links {
        self[place].links
    }

    fn set_links(&mut self, place: u32, links: Links) {
        self[place].links = links;
    }
}

/// Visits the locks that overlap `start..=end`, in order, until `visit` breaks.
pub(super) fn overlapping(
    locks: &Locks,
    root: u32,
    range: (u64, u64),
    visit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if root == NIL || locks[root].links.reach < range.0 {
        return ControlFlow::Continue(());
    }
    let lock = &locks[root];
    overlapping(locks, lock.links.left, range, visit)?;
    if lock.part.start > range.1 {
        return ControlFlow::Continue(());
    }
    if lock.part.end >= range.0 {
        visit(root)?;
    }
    overlapping(locks, lock.links.right, range, visit)
}

/// Visits the locks that reach beyond `end`, those with the highest start first, until `visit`
/// breaks.
pub(super) fn beyond(
    locks: &Locks,
    root: u32,
    end: u64,
    visit: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if root == NIL || locks[root].links.reach <= end {
        return ControlFlow::Continue(());
    }
    let lock = &locks[root];
    beyond(locks, lock.links.right, end, visit)?;
    if lock.part.end > end {
        visit(root)?;
    }
    beyond(locks, lock.links.left, end, visit)
}

/// Returns the lowest start of a lock after `end`.
pub(super) fn start_after(locks: &Locks, root: u32, end: u64) -> Option<u64> {
    let (mut at, mut found) = (root, None);
    while at != NIL {
        let lock = &locks[at];
        if lock.part.start > end {
            found = Some(lock.part.start);
            at = lock.links.left;
        } else {
            at = lock.links.right;
        }
    }
    found
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
