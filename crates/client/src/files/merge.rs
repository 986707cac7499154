//! The names in pages of a directory, and those of several stripes in one order. Spec: mdt-ost §9.2, §9.4.
//!
//! A position is the hash of the name that is next. Hashes of different stripes are compared as they are: so a position
//! says for each stripe where to go on.

use fulmar_base::Errno;
use fulmar_lustre_wire::directory::{DirectoryPage, PageFlags};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;

use super::directory::DirectoryItem;

/// The length of a page.
const PAGE: usize = 4096;
const DIRECTORY: u32 = 0o040_000;
/// What memory for a name costs beyond its length.
const ALLOCATION: usize = 16;
/// The positions of `.` and `..` of a striped directory, and that of its first name.
const OWN: u64 = 0;
const ABOVE: u64 = 1;
const FIRST: u64 = 2;

/// Names of a directory or a stripe in the order of their hashes, and where to go on after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    names: Vec<(u64, DirectoryItem)>,
    next: Option<u64>,
}

/// Returns where the names of stripes begin at a position of a striped directory.
pub(crate) fn start(from: u64) -> u64 {
    if from <= FIRST { 0 } else { from }
}

impl Part {
    /// Returns the names in pages.
    ///
    /// # Errors
    /// EPROTO if they are not valid.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Errno> {
        let mut this = Self::default();
        for page in bytes.chunks_exact(PAGE) {
            let page = DirectoryPage::decode(page, Order::Little).map_err(|_| Errno::EPROTO)?;
            for entry in &page.entries {
                this.names.push((
                    entry.hash,
                    DirectoryItem {
                        name: entry.name.clone(),
                        fid: entry.fid,
                        file_type: entry.file_type().unwrap_or(0).into(),
                        next: 0,
                    },
                ));
            }
            this.next = (page.hash_end < DirectoryPage::END).then_some(page.hash_end);
            if this.next.is_none() || page.flags.has(PageFlags::EMPTY) {
                this.next = None;
                return Ok(this);
            }
        }
        // No page at all would be read for ever.
        if this.next.is_none() { Err(Errno::EPROTO) } else { Ok(this) }
    }

    #[cfg(test)]
    pub(crate) fn new(names: Vec<(u64, DirectoryItem)>, next: Option<u64>) -> Self {
        Self { names, next }
    }

    /// Returns whether the names are in the order of their hashes, as they are of known servers.
    pub(crate) fn is_sorted(&self) -> bool {
        self.names.is_sorted_by_key(|(hash, _)| *hash)
    }

    /// Returns how many bytes this is in memory, about.
    pub(crate) fn len(&self) -> usize {
        let names: usize = self.names.iter().map(|(_, item)| item.name.len()).sum();
        names + self.names.len() * (size_of::<(u64, DirectoryItem)>() + ALLOCATION)
    }

    /// Returns names from a position on if one of them follows, or none does at all: about `max`. They have to be sorted.
    pub(crate) fn after(&self, from: u64, max: usize) -> Option<Self> {
        if self.next.is_some_and(|next| from >= next) {
            return None;
        }
        let left = &self.names[self.names.partition_point(|(hash, _)| *hash < from)..];
        if left.is_empty() && self.next.is_some() {
            return None;
        }
        let Some(&(last, _)) = left.get(max) else {
            return Some(Self { names: left.to_vec(), next: self.next });
        };
        // No position is between names of one hash.
        let end = match left.partition_point(|(hash, _)| *hash < last) {
            0 => left.partition_point(|(hash, _)| *hash <= last),
            end => end,
        };
        let next = left.get(end).map_or(self.next, |(hash, _)| Some(*hash));
        Some(Self { names: left[..end].to_vec(), next })
    }

    /// Returns `.` and `..` as far as they are not before a position.
    pub(crate) fn own_names(directory: Fid, above: Fid, from: u64) -> Self {
        let item = |name: &[u8], fid| DirectoryItem {
            name: name.to_vec(),
            fid,
            file_type: DIRECTORY,
            next: 0,
        };
        let mut names = vec![(OWN, item(b".", directory)), (ABOVE, item(b"..", above))];
        names.retain(|(position, _)| *position >= from);
        Self { names, next: None }
    }

    /// Leaves `.` and `..` out, and keeps their positions free.
    pub(crate) fn without_own_names(mut self) -> Self {
        self.names.retain(|(_, item)| item.name != b"." && item.name != b"..");
        self.names.iter_mut().for_each(|(hash, _)| *hash = (*hash).max(FIRST));
        self.next = self.next.map(|next| next.max(FIRST));
        self
    }

    /// Returns the names, each with the position after it, and the position after all of them.
    pub(crate) fn items(self) -> (Vec<DirectoryItem>, Option<u64>) {
        let Self { names, next } = self;
        let after: Vec<u64> = names.iter().skip(1).map(|(hash, _)| *hash).collect();
        let after = after.into_iter().chain([next.unwrap_or(DirectoryPage::END)]);
        let items = names.into_iter().zip(after);
        (items.map(|((_, item), next)| DirectoryItem { next, ..item }).collect(), next)
    }
}

/// Returns the names of several parts in one order, up to the first one that was not read, and the position there.
///
/// # Errors
/// EPROTO if a stripe has more names of one hash than fit: no position is between them.
pub(crate) fn merged(parts: Vec<Part>) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
    let end = parts.iter().filter_map(|part| part.next).min();
    let mut names: Vec<_> = parts.into_iter().flat_map(|part| part.names).collect();
    names.retain(|(hash, _)| end.is_none_or(|end| *hash < end));
    if names.is_empty() && end.is_some() {
        return Err(Errno::EPROTO);
    }
    names.sort_by_key(|(hash, _)| *hash);
    Ok(Part { names, next: end }.items())
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::directory::DirectoryEntry;
    use proptest::prelude::*;

    use super::*;
    use crate::files::shape::tests::fid;

    /// Returns what a stripe with these names answers from a position on, with so many in an answer.
    fn read(stripe: &[(u64, u32)], from: u64, room: usize) -> Part {
        let names: Vec<_> = stripe.iter().filter(|(hash, _)| *hash >= from).collect();
        let entries = names.iter().take(room).map(|(hash, oid)| {
            DirectoryEntry::new(fid(*oid), *hash, format!("f{oid}").as_bytes(), 0o100_000)
        });
        let page = DirectoryPage {
            hash_start: from,
            hash_end: names.get(room).map_or(DirectoryPage::END, |(hash, _)| *hash),
            flags: if names.is_empty() { PageFlags::EMPTY } else { PageFlags::NONE },
            entries: entries.collect(),
            padding: fulmar_lustre_wire::Padding::default(),
            rest: fulmar_lustre_wire::Bytes::default(),
        };
        let mut bytes = page.to_bytes();
        bytes.resize(PAGE, 0);
        Part::decode(&bytes).unwrap()
    }

    fn list(
        stripes: &[Vec<(u64, u32)>],
        from: u64,
        room: usize,
    ) -> (Vec<DirectoryItem>, Option<u64>) {
        let mut parts = vec![Part::own_names(fid(1), fid(2), from)];
        parts.extend(stripes.iter().map(|one| read(one, start(from), room).without_own_names()));
        merged(parts).unwrap()
    }

    #[test]
    fn names_of_stripes_are_read_in_one_order() {
        let stripes = [vec![(5, 10), (9, 11)], vec![(7, 12)], vec![]];
        let (items, next) = list(&stripes, 0, 10);
        let shown: Vec<_> =
            items.iter().map(|item| (String::from_utf8_lossy(&item.name), item.next)).collect();
        let end = DirectoryPage::END;
        let expected = [(".", 1), ("..", 5), ("f10", 7), ("f12", 9), ("f11", end)];
        assert_eq!(shown, expected.map(|(name, next)| (name.into(), next)));
        assert_eq!((next, items[0].fid, items[1].fid), (None, fid(1), fid(2)));
        let after: Vec<_> = list(&stripes, 1, 10).0.into_iter().map(|item| item.name).collect();
        assert_eq!(after, [&b".."[..], b"f10", b"f12", b"f11"]);
    }

    #[test]
    fn a_stripe_that_goes_nowhere_is_refused() {
        let stuck =
            Part { names: vec![(7, DirectoryItem::clone(&list(&[], 0, 1).0[0]))], next: Some(7) };
        assert_eq!(merged(vec![stuck]), Err(Errno::EPROTO));
        assert_eq!(Part::decode(&[]), Err(Errno::EPROTO));
    }

    proptest! {
        #[test]
        fn every_name_is_read_once_from_any_position(
            hashes in proptest::collection::btree_set(3..400_u64, 0..150),
            count in 1..6_usize,
            room in 1..20_usize,
            seed: u64,
        ) {
            let mut stripes = vec![Vec::new(); count];
            for (number, hash) in hashes.iter().enumerate() {
                let stripe = (seed.rotate_left(number as u32) % count as u64) as usize;
                stripes[stripe].push((*hash, 100 + number as u32));
            }
            let mut all: Vec<DirectoryItem> = Vec::new();
            let mut from = Some(0);
            while let Some(position) = from {
                let (items, next) = list(&stripes, position, room);
                all.extend(items);
                from = next;
            }
            prop_assert_eq!(all.len(), 2 + hashes.len());
            let mut names: Vec<_> = all.iter().map(|item| item.name.clone()).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), all.len());
            // A program that stops after a name goes on with the next one.
            for (place, item) in all.iter().enumerate().filter(|(_, item)| item.next < DirectoryPage::END) {
                let (items, _) = list(&stripes, item.next, room);
                prop_assert_eq!(&items[0].name, &all[place + 1].name);
            }
        }
    }
}
