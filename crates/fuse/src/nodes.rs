//! The files that the kernel knows.

use std::collections::BTreeMap;

use fulmar_client::inode;
use fulmar_lustre_wire::Fid;

/// The number of the root of a mount.
pub(crate) const ROOT: u64 = 1;

/// The files that the kernel knows by numbers: those of their inodes, as long as they are unique. Bounded by the
/// kernel, which forgets what it has no memory for.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_number: BTreeMap<u64, Node>,
    by_fid: BTreeMap<Fid, u64>,
}

#[derive(Debug)]
struct Node {
    fid: Fid,
    /// How often the kernel has been told.
    lookups: u64,
}

impl Nodes {
    /// The kernel knows the root, and never forgets it.
    pub(crate) fn new(root: Fid) -> Self {
        let node = Node { fid: root, lookups: 1 };
        Self { by_number: [(ROOT, node)].into(), by_fid: [(root, ROOT)].into() }
    }

    /// Returns the file with a number.
    pub(crate) fn fid(&self, number: u64) -> Option<Fid> {
        self.by_number.get(&number).map(|node| node.fid)
    }

    /// Returns the number of a file that the kernel is told now.
    pub(crate) fn tell(&mut self, fid: Fid) -> u64 {
        let known = self.by_fid.get(&fid).copied();
        let number = known.unwrap_or_else(|| self.free_number(fid));
        let node = self.by_number.entry(number).or_insert(Node { fid, lookups: 0 });
        node.lookups += 1;
        self.by_fid.insert(fid, number);
        number
    }

    /// Numbers have fewer bits than FIDs.
    fn free_number(&self, fid: Fid) -> u64 {
        let mut number = inode(fid);
        while number <= ROOT || self.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// Forgets that the kernel has been told so often.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        if number == ROOT {
            return;
        }
        if let Some(node) = self.by_number.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 {
                self.by_fid.remove(&node.fid);
                self.by_number.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: 0x2_0000_0400, oid: 7, version: 0 };
    /// It has the same number.
    const B: Fid = Fid { seq: 0x2_0000_0400, oid: 7, version: 1 };

    #[test]
    fn a_file_has_its_number_until_it_is_forgotten() {
        let mut nodes = Nodes::new(Fid { seq: 0x2_0000_0007, oid: 1, version: 0 });
        let number = nodes.tell(A);
        assert_eq!((number, nodes.tell(A)), (inode(A), number));
        let other = nodes.tell(B);
        assert_ne!(other, number);
        assert_eq!((nodes.fid(number), nodes.fid(other)), (Some(A), Some(B)));
        nodes.forget(number, 1);
        assert_eq!(nodes.fid(number), Some(A));
        nodes.forget(number, 1);
        assert_eq!((nodes.fid(number), nodes.fid(other)), (None, Some(B)));
        nodes.forget(ROOT, u64::MAX);
        assert!(nodes.fid(ROOT).is_some());
    }
}
