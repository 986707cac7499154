//! Pages of directories that are kept: who reads a directory again, or from the middle, needs no request. Spec: mdt-ost §9.3.
//!
//! Those of a directory, or of a stripe of one, are valid as long as a lock protects its `UPDATE` bit.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lustre_wire::Fid;

use super::caller::Caller;
use super::merge::Part;

/// The most bytes of all pages together, about. The directories that were not read for longest give way.
const LEN_MAX: usize = 32 << 20;
/// The most names that are returned at once.
const NAMES_MAX: usize = 2048;

/// The pages that are kept of a mount.
#[derive(Debug, Default)]
pub(crate) struct DirectoryPages {
    directories: BTreeMap<Fid, Directory>,
    /// The directories by their last use.
    order: BTreeMap<u64, Fid>,
    clock: u64,
    len: usize,
}

#[derive(Debug)]
struct Directory {
    /// Who has read it: the server may not let others.
    caller: Caller,
    /// What was read, by the positions that it was read from.
    parts: BTreeMap<u64, Part>,
    len: usize,
    used: u64,
    /// How long it took to read from its beginning.
    duration: Duration,
}

impl DirectoryPages {
    /// Returns names from a position on, if they are kept and this caller has read them.
    pub(crate) fn find(&mut self, directory: Fid, caller: &Caller, from: u64) -> Option<Part> {
        let found =
            self.directories.get_mut(&directory).filter(|one| is_same(&one.caller, caller))?;
        let (_, part) = found.parts.range(..=from).next_back()?;
        let part = part.after(from, NAMES_MAX)?;
        self.clock += 1;
        self.order.remove(&found.used);
        self.order.insert(self.clock, directory);
        found.used = self.clock;
        Some(part)
    }

    /// Keeps what a caller has read of a directory from a position on.
    pub(crate) fn keep(
        &mut self,
        directory: Fid,
        caller: &Caller,
        (from, part): (u64, &Part),
        duration: Duration,
    ) {
        let len = part.len();
        if !part.is_sorted() || len > LEN_MAX {
            return;
        }
        let known = self.remove(directory).filter(|one| is_same(&one.caller, caller));
        let fits = |one: &Directory| one.len + len <= LEN_MAX;
        let mut kept = known.filter(fits).unwrap_or_else(|| Directory::new(caller));
        if let Some(old) = kept.parts.insert(from, part.clone()) {
            kept.len -= old.len();
        }
        kept.len += len;
        if from == 0 {
            kept.duration = duration;
        }
        while self.len + kept.len > LEN_MAX
            && let Some((_, &oldest)) = self.order.first_key_value()
        {
            self.remove(oldest);
        }
        self.clock += 1;
        kept.used = self.clock;
        self.len += kept.len;
        self.order.insert(self.clock, directory);
        self.directories.insert(directory, kept);
    }

    /// Returns how long it took to read a directory from its beginning, as far as that is kept.
    pub(crate) fn duration(&self, directory: Fid) -> Duration {
        self.directories.get(&directory).map_or(Duration::ZERO, |one| one.duration)
    }

    /// Nothing of a directory is valid any more.
    pub(crate) fn drop(&mut self, directory: Fid) {
        self.remove(directory);
    }

    fn remove(&mut self, directory: Fid) -> Option<Directory> {
        let removed = self.directories.remove(&directory)?;
        self.order.remove(&removed.used);
        self.len -= removed.len;
        Some(removed)
    }
}

impl Directory {
    fn new(caller: &Caller) -> Self {
        let caller = Caller { umask: 0, ..caller.clone() };
        Self { caller, parts: BTreeMap::new(), len: 0, used: 0, duration: Duration::ZERO }
    }
}

fn is_same(known: &Caller, caller: &Caller) -> bool {
    *known == Caller { umask: 0, ..caller.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::directory::DirectoryItem;
    use crate::files::shape::tests::fid;

    /// Names with these hashes, and the position after them.
    fn part(hashes: impl IntoIterator<Item = u64>, next: Option<u64>) -> Part {
        let item = |hash: u64| {
            let name = format!("file{hash}").into_bytes();
            (hash, DirectoryItem { name, fid: fid(7), file_type: 0, next: 0 })
        };
        Part::new(hashes.into_iter().map(item).collect(), next)
    }

    fn keep(pages: &mut DirectoryPages, directory: u32, from: u64, part: &Part) {
        pages.keep(fid(directory), &Caller::ROOT, (from, part), Duration::ZERO);
    }

    fn find(pages: &mut DirectoryPages, directory: u32, from: u64) -> Option<Part> {
        pages.find(fid(directory), &Caller::ROOT, from)
    }

    #[test]
    fn names_are_found_from_any_position_that_was_read() {
        let mut pages = DirectoryPages::default();
        keep(&mut pages, 1, 0, &part([0, 5, 9], Some(20)));
        assert_eq!(find(&mut pages, 1, 0), Some(part([0, 5, 9], Some(20))));
        assert_eq!(find(&mut pages, 1, 5), Some(part([5, 9], Some(20))));
        assert_eq!(find(&mut pages, 1, 6), Some(part([9], Some(20))));
        // What follows then was not read.
        assert_eq!((find(&mut pages, 1, 10), find(&mut pages, 1, 20)), (None, None));
        keep(&mut pages, 1, 20, &part([20, 30], None));
        assert_eq!(find(&mut pages, 1, 21), Some(part([30], None)));
        assert_eq!(find(&mut pages, 1, 31), Some(part([], None)));
        assert_eq!(find(&mut pages, 2, 0), None);
        assert_eq!(pages.find(fid(1), &Caller::new(1, 1), 0), None, "he may not read it");
        pages.drop(fid(1));
        assert_eq!(find(&mut pages, 1, 0), None);
        assert_eq!((pages.len, pages.order.len()), (0, 0));
    }

    #[test]
    fn names_with_one_hash_are_not_torn_apart() {
        let mut pages = DirectoryPages::default();
        let hashes = (0..NAMES_MAX as u64 - 1).chain([5000, 5000, 5000, 6000]);
        keep(&mut pages, 1, 0, &part(hashes, None));
        let first = find(&mut pages, 1, 0).unwrap();
        let (items, next) = first.items();
        assert_eq!((items.len(), next), (NAMES_MAX - 1, Some(5000)));
        assert_eq!(find(&mut pages, 1, 5000), Some(part([5000, 5000, 5000, 6000], None)));
        // Names that a server has in another order may be anywhere.
        keep(&mut pages, 2, 0, &part([7, 3], None));
        assert_eq!(find(&mut pages, 2, 0), None);
    }

    #[test]
    fn the_pages_of_all_directories_are_bounded() {
        let mut pages = DirectoryPages::default();
        let large = part(0..20_000, Some(20_000));
        let count = LEN_MAX / large.len();
        for directory in 0..count as u32 + 1 {
            keep(&mut pages, directory, 0, &large);
            assert!(find(&mut pages, 0, 0).is_some(), "it is used");
        }
        assert!(find(&mut pages, 1, 0).is_none() && find(&mut pages, 2, 0).is_some());
        assert!(pages.len <= LEN_MAX && pages.order.len() == pages.directories.len());
        // One directory alone may have too many.
        for from in 0..=count as u64 {
            keep(&mut pages, 0, from * 20_000, &large);
        }
        assert!(pages.len <= LEN_MAX && find(&mut pages, 0, 0).is_none());
        assert_eq!(pages.directories.values().map(|one| one.len).sum::<usize>(), pages.len);
        (0..=count as u32).for_each(|directory| pages.drop(fid(directory)));
        assert_eq!((pages.len, pages.order.len()), (0, 0));
    }
}
