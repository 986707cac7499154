//! Clients that are killed. What they had alone may be lost; what is there is adopted when it is read.

use std::collections::BTreeMap;

use super::super::operation::{Operation, PAGE, Step};
use super::super::outcome::Outcome;
use super::super::words::Slot;
use super::{Node, World};

/// Where a file can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It has a name.
    Path(String),
    /// It is open: whose slot it is, and whether that may be read.
    Open(u8, Slot, bool),
}

impl World {
    /// Kills a client: what it has open and locked goes, and so may what it has written and no server has.
    pub(super) fn kill(&mut self, client: u8) {
        for inode in self.inodes.values_mut() {
            let Node::File(data) = &mut inode.node else { continue };
            if data.lose(client) {
                // A write that is lost has not set them.
                (inode.atime, inode.mtime) = (None, None);
            }
        }
        let keys: Vec<_> = self.opens.keys().filter(|key| key.0 == client).copied().collect();
        keys.into_iter().for_each(|key| self.close(key));
    }

    /// Returns the files of which something may be lost, with the ranges in which that is.
    pub(crate) fn lost(&self) -> BTreeMap<u64, Vec<(u64, u64)>> {
        let lost = self.inodes.iter().filter_map(|(number, inode)| {
            let Node::File(data) = &inode.node else { return None };
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for at in data.lost()?.into_iter().map(|page| page * PAGE) {
                match ranges.last_mut() {
                    Some((start, len)) if *start + *len == at => *len += PAGE,
                    _ => ranges.push((at, PAGE)),
                }
            }
            Some((*number, ranges))
        });
        lost.collect()
    }

    /// Returns where a file can be read; at least where its length can.
    pub(crate) fn place_of(&self, number: u64) -> Option<Place> {
        let is_one = |path: &String| self.resolve(path, false) == Ok(number);
        if let Some(path) = self.paths().into_iter().map(|(path, _)| path).find(is_one) {
            return Some(Place::Path(path));
        }
        let opens = self.opens.iter().filter(|(_, open)| open.inode == number);
        let (key, open) = opens.max_by_key(|(_, open)| open.access.read)?;
        Some(Place::Open(key.0, key.1, open.access.read))
    }

    /// Adopts what an operation has found of a file, where that may be after a client was killed.
    pub(crate) fn adopt(&mut self, step: &Step, found: &Outcome) {
        self.adopt_refusal(step, found);
        let Some(slot) = step.operation.slot() else { return };
        let Some(open) = self.opens.get(&(step.client, slot)).cloned() else { return };
        let Some(data) = self.inode(open.inode).data() else { return };
        match (&step.operation, found) {
            (Operation::StatOpen { .. }, Outcome::Stat(stat)) => {
                stat.size.into_iter().for_each(|size| data.adopt_size(size));
            }
            (Operation::Read { at, .. }, Outcome::Bytes(bytes)) => data.adopt(*at, bytes),
            _ => {}
        }
    }

    /// Adds what may be lost if an equal file system has come about in another way.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (number, inode) in &mut self.inodes {
            if let (Node::File(data), Some(Node::File(other))) =
                (&mut inode.node, other.inodes.get(number).map(|inode| &inode.node))
            {
                data.merge(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{bytes, parse};

    /// Applies operations, of which the last but one kills client 0. Returns which outcomes of the last one are adopted.
    fn adopted(text: &str, found: &[Outcome]) -> Vec<bool> {
        let mut world = World::default();
        let steps = parse(text).unwrap();
        let (last, before) = steps.split_last().unwrap();
        for step in before {
            assert!(!matches!(world.apply(step).example(), Outcome::Failed(_)), "{step}");
        }
        let is_admitted = |outcome: &Outcome| {
            let mut world = world.clone();
            world.adopt(last, outcome);
            world.apply(last).admits(outcome)
        };
        found.iter().map(is_admitted).collect()
    }

    const BEGIN: &str = "0 open h0 /f rwc plain\n1 open h0 /f rw plain\n0 write h0 0 4 1\n";

    #[test]
    fn what_a_client_has_not_synced_may_be_lost_byte_by_byte() {
        let (old, new) = (bytes(1, 0, 4), bytes(2, 0, 4));
        let mixed = [&old[..2], &new[2..]].concat();
        let found = [old, new, mixed, vec![9; 4]].map(Outcome::Bytes);
        let synced = "0 sync h0\n0 write h0 0 4 2\n";
        let read = "0 kill\n1 read h0 0 4";
        assert_eq!(adopted(&format!("{BEGIN}{synced}{read}"), &found), [true, true, true, false]);
        // It is not if it is synced, or if another client has used the page.
        for saved in ["0 sync h0", "1 read h0 1 1", "1 write h0 9 1 3", "1 private h0 0 1 3"] {
            let text = format!("{BEGIN}{synced}{saved}\n{read}");
            assert_eq!(adopted(&text, &found), [false, true, false, false], "{saved}");
        }
        // What another client has done does not save the rest, and that client has its own.
        for other in ["1 sync h0", "1 read h0 0 0", "1 write h0 9000 1 3", "1 fstat h0"] {
            let text = format!("{BEGIN}{synced}{other}\n{read}");
            assert_eq!(adopted(&text, &found), [true, true, true, false], "{other}");
        }
    }

    #[test]
    fn synchronous_writes_are_there_and_the_rest_of_their_pages_may_be_lost() {
        for access in ["rws", "rwd"] {
            let text = format!(
                "{BEGIN}0 open h1 /f {access} plain\n0 write h1 2 2 2\n0 kill\n1 read h0 0 4"
            );
            let (old, new) = (bytes(1, 0, 2), bytes(2, 2, 2));
            let found = [[&old[..], &new].concat(), [&[0, 0][..], &new].concat(), bytes(1, 0, 4)];
            assert_eq!(adopted(&text, &found.map(Outcome::Bytes)), [true, true, false], "{access}");
        }
    }

    #[test]
    fn the_length_is_one_of_those_since_the_last_sync() {
        let lengths = |text: &str, sizes: &[u64]| {
            let found = sizes.iter().map(|size| {
                let mut world = World::default();
                parse(text).unwrap().iter().for_each(|step| drop(world.apply(step)));
                let Outcome::Stat(stat) = world.apply(&"1 stat /f".parse().unwrap()).example()
                else {
                    panic!("/f has no attributes")
                };
                Outcome::Stat(crate::model::Stat { size: Some(*size), ..stat })
            });
            adopted(&format!("{text}\n0 kill\n1 fstat h0"), &found.collect::<Vec<_>>())
        };
        let long = format!("{BEGIN}0 sync h0\n0 write h0 100 70000 2\n0 write h0 80000 1 3");
        let sizes = [4, 5, 65536, 70100, 80001, 90000];
        assert_eq!(lengths(&long, &sizes), [true, false, true, true, true, false]);
        let cut = format!("{long}\n1 cut h0 50000");
        assert_eq!(lengths(&cut, &[4, 50000, 50001]), [false, true, false]);
        let other = format!("{long}\n1 write h0 75000 1 3");
        assert_eq!(lengths(&other, &[70100, 75001, 80001]), [false, true, true]);
    }

    #[test]
    fn its_open_files_and_locks_go() {
        let text = "0 lock h0 posix rw 0 10\n0 unlink /f\n0 kill\n1 lock h0 posix rw 0 10";
        let locked = adopted(&format!("{BEGIN}{text}"), &[Outcome::Done]);
        assert_eq!(locked, [true]);
        let closed = adopted(&format!("{BEGIN}0 kill\n0 close h0"), &[Outcome::Done]);
        assert_eq!(closed, [false]);
    }
}
