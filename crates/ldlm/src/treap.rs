//! Ordered trees of ranges, whose nodes are the values of a table themselves.
//!
//! Each node knows the greatest end below it, so that a search skips what ends too early. Priorities are
//! hashes of the places: whatever the order of the keys, a tree is as deep as a random one.

use fulmar_base::Rng;

use crate::slab::NIL;

/// Where a node is in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) left: u32,
    pub(crate) right: u32,
    /// The greatest end in its subtree.
    pub(crate) reach: u64,
}

impl Default for Links {
    fn default() -> Self {
        Self { left: NIL, right: NIL, reach: 0 }
    }
}

/// A table with nodes of trees.
pub(crate) trait Nodes {
    /// Orders the nodes of a tree. No two have the same.
    type Key: Copy + Ord;

    fn key(&self, place: u32) -> Self::Key;

    /// Returns the end of the range of a node.
    fn end(&self, place: u32) -> u64;

    fn links(&self, place: u32) -> Links;

    fn set_links(&mut self, place: u32, links: Links);
}

fn priority(place: u32) -> u64 {
    Rng::new(place.into()).u64()
}

/// Adds a node, and returns the new root.
pub(crate) fn insert<N: Nodes>(nodes: &mut N, root: u32, new: u32) -> u32 {
    if root == NIL || priority(new) > priority(root) {
        let (left, right) = split(nodes, root, nodes.key(new));
        return attach(nodes, new, left, right);
    }
    let Links { left, right, .. } = nodes.links(root);
    if nodes.key(new) < nodes.key(root) {
        let left = insert(nodes, left, new);
        attach(nodes, root, left, right)
    } else {
        let right = insert(nodes, right, new);
        attach(nodes, root, left, right)
    }
}

/// Removes a node that is in the tree, and returns the new root.
pub(crate) fn remove<N: Nodes>(nodes: &mut N, root: u32, old: u32) -> u32 {
    assert_ne!(root, NIL, "{old} is in the tree");
    let Links { left, right, .. } = nodes.links(root);
    if root == old {
        return merge(nodes, left, right);
    }
    if nodes.key(old) < nodes.key(root) {
        let left = remove(nodes, left, old);
        attach(nodes, root, left, right)
    } else {
        let right = remove(nodes, right, old);
        attach(nodes, root, left, right)
    }
}

/// Makes a subtree of a node and two parts, and returns it.
fn attach<N: Nodes>(nodes: &mut N, root: u32, left: u32, right: u32) -> u32 {
    let reach = nodes.end(root).max(reach(nodes, left)).max(reach(nodes, right));
    nodes.set_links(root, Links { left, right, reach });
    root
}

fn reach<N: Nodes>(nodes: &N, root: u32) -> u64 {
    if root == NIL { 0 } else { nodes.links(root).reach }
}

/// Parts a tree at a key.
fn split<N: Nodes>(nodes: &mut N, root: u32, at: N::Key) -> (u32, u32) {
    if root == NIL {
        return (NIL, NIL);
    }
    let Links { left, right, .. } = nodes.links(root);
    if nodes.key(root) < at {
        let (below, above) = split(nodes, right, at);
        (attach(nodes, root, left, below), above)
    } else {
        let (below, above) = split(nodes, left, at);
        (below, attach(nodes, root, above, right))
    }
}

/// Joins two trees, of which the first is before the second.
fn merge<N: Nodes>(nodes: &mut N, first: u32, second: u32) -> u32 {
    match (first, second) {
        (NIL, other) | (other, NIL) => other,
        _ if priority(first) > priority(second) => {
            let Links { left, right, .. } = nodes.links(first);
            let right = merge(nodes, right, second);
            attach(nodes, first, left, right)
        }
        _ => {
            let Links { left, right, .. } = nodes.links(second);
            let left = merge(nodes, first, left);
            attach(nodes, second, left, right)
        }
    }
}

/// Checks order, priorities and ends of a tree, and returns how many nodes it has.
///
/// # Errors
/// What is wrong.
pub(crate) fn check<N: Nodes>(nodes: &N, root: u32) -> Result<u32, String> {
    if root == NIL {
        return Ok(0);
    }
    let Links { left, right, reach: known } = nodes.links(root);
    let count = check(nodes, left)? + check(nodes, right)? + 1;
    let is_ordered = (left == NIL || nodes.key(left) < nodes.key(root))
        && (right == NIL || nodes.key(root) < nodes.key(right));
    let mut children = [left, right].into_iter().filter(|&child| child != NIL);
    let is_heap = children.all(|child| priority(child) < priority(root));
    let reach = nodes.end(root).max(reach(nodes, left)).max(reach(nodes, right));
    if is_ordered && is_heap && reach == known {
        Ok(count)
    } else {
        Err(format!("{root}: ordered {is_ordered}, heap {is_heap}, reach {known}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges of one byte, by their starts.
    #[derive(Default)]
    struct Table(Vec<(u64, Links)>);

    impl Nodes for Table {
        type Key = (u64, u32);

        fn key(&self, place: u32) -> (u64, u32) {
            (self.end(place), place)
        }

        fn end(&self, place: u32) -> u64 {
            self.0[place as usize].0
        }

        fn links(&self, place: u32) -> Links {
            self.0[place as usize].1
        }

        fn set_links(&mut self, place: u32, links: Links) {
            self.0[place as usize].1 = links;
        }
    }

    fn depth(table: &Table, root: u32) -> usize {
        match root {
            NIL => 0,
            _ => {
                let Links { left, right, .. } = table.links(root);
                1 + depth(table, left).max(depth(table, right))
            }
        }
    }

    #[test]
    fn keys_in_order_make_no_deep_tree() {
        let (mut table, mut root) = (Table::default(), NIL);
        for at in 0..10_000 {
            table.0.push((at, Links::default()));
            root = insert(&mut table, root, at as u32);
        }
        assert!(depth(&table, root) < 45, "{}", depth(&table, root));
        assert_eq!(check(&table, root), Ok(10_000));
        for place in (0..10_000).step_by(2) {
            root = remove(&mut table, root, place);
        }
        assert_eq!(check(&table, root), Ok(5000));
    }
}
