//! The data of a file, with its holes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::super::operation::PAGE;
use super::unsaved::{LostParts, Page, UnsavedParts};

/// The smallest stripe: what a server may have allocated at least for a byte, and what it may have without the rest.
pub(super) const UNIT: u64 = 64 << 10;
/// The units of `stat`.
const BLOCK: u64 = 512;
/// What a server may have allocated for a file without data, in units of `stat`.
const BLOCKS_EXTRA: u64 = 4096;

/// Bytes up to a length. What was never written, or freed, is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    size: u64,
    /// Shared with copies of the model until they are written.
    pages: BTreeMap<u64, Arc<[u8; PAGE as usize]>>,
    /// The units that may be allocated.
    units: BTreeSet<u64>,
    /// Whether all of it was written to servers.
    is_synced: bool,
    /// What clients may have alone.
    unsaved: UnsavedParts,
    /// What a client that was killed had alone, or what one was refused.
    lost: LostParts,
}

/// Data are equal that programs cannot distinguish.
impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size
            && self.pages == other.pages
            && self.units == other.units
            && self.is_synced == other.is_synced
    }
}

impl Data {
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns as many bytes as there are in a range.
    pub(crate) fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let end = self.size.min(at.saturating_add(len));
        let mut bytes = vec![0; end.saturating_sub(at) as usize];
        for (page, part) in pieces(at..end) {
            if let Some(found) = self.pages.get(&page) {
                let place = (page * PAGE + part.start as u64 - at) as usize;
                bytes[place..place + part.len()].copy_from_slice(&found[part]);
            }
        }
        bytes
    }

    /// Writes bytes, and grows as needed.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        for (page, part) in pieces(at..end) {
            let place = (page * PAGE + part.start as u64 - at) as usize;
            let own = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(own)[part.clone()].copy_from_slice(&bytes[place..place + part.len()]);
        }
        self.allocate(at, bytes.len() as u64);
        self.is_synced = false;
        self.size = self.size.max(end);
    }

    /// Writes bytes as a client does that may keep them for some time.
    pub(crate) fn change(&mut self, client: u8, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        self.unsaved.used(client, at / PAGE..end.div_ceil(PAGE));
        let old: Vec<(u64, Page)> =
            pieces(at..end).map(|(page, _)| (page, self.pages.get(&page).cloned())).collect();
        self.write(at, bytes);
        for (number, old) in old {
            self.unsaved.change(client, number, old, self.pages.get(&number).cloned());
        }
        self.unsaved.grow(client, end);
    }

    /// Writes bytes of which servers have refused some: those from `written` on may be there, each, or not.
    pub(crate) fn change_partly(&mut self, client: u8, at: u64, bytes: &[u8], written: u64) {
        let (first, rest) = bytes.split_at(written as usize);
        if !first.is_empty() {
            self.change(client, at, first);
        }
        let (at, end, size) = (at + written, at + bytes.len() as u64, self.size);
        let versions = |data: &Self| -> Vec<(u64, Page)> {
            pieces(at..end).map(|(page, _)| (page, data.pages.get(&page).cloned())).collect()
        };
        let old = versions(self);
        self.used(client, at, end - at);
        self.write(at, rest);
        self.lost.add(LostParts::refused(client, old, versions(self), size, at..end));
    }

    /// Notes that a client uses a range, for which others have to give up what they have of it.
    pub(crate) fn used(&mut self, client: u8, at: u64, len: u64) {
        let end = self.size.min(at.saturating_add(len));
        if at < end {
            self.unsaved.used(client, at / PAGE..end.div_ceil(PAGE));
        }
    }

    /// Notes that servers have a range.
    pub(crate) fn save(&mut self, at: u64, len: u64) {
        for (number, part) in pieces(at..at + len) {
            let start = number * PAGE + part.start as u64;
            let bytes = self.read(start, part.len() as u64);
            self.unsaved.save(number, part, &bytes);
        }
        self.unsaved.save_to(at + len);
    }

    /// Notes that a range may be allocated.
    pub(crate) fn allocate(&mut self, at: u64, len: u64) {
        self.units.extend(at / UNIT..(at + len).div_ceil(UNIT));
    }

    /// Makes a range zero, within the length.
    pub(crate) fn zero(&mut self, range: Range<u64>) {
        for (page, part) in pieces(range.start..range.end.min(self.size)) {
            self.unsaved.save(page, part.clone(), &[0; PAGE as usize][..part.len()]);
            if part.len() as u64 == PAGE {
                self.pages.remove(&page);
            } else if let Some(found) = self.pages.get_mut(&page) {
                Arc::make_mut(found)[part].fill(0);
            }
        }
    }

    /// Grows to a length at least.
    pub(crate) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.unsaved.save_to(size);
    }

    /// Sets the length.
    pub(crate) fn cut(&mut self, size: u64) {
        self.zero(size..size.next_multiple_of(PAGE));
        self.pages.retain(|page, _| page * PAGE < size);
        self.unsaved.cut(size);
        self.set_size(size);
    }

    /// Sets the length alone: what is behind it is there again when it grows.
    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Returns the first byte from `at` on that is not zero, or that is zero.
    pub(crate) fn find(&self, at: u64, zero: bool) -> Option<u64> {
        let mut place = at;
        while place < self.size {
            let page = place / PAGE;
            let Some(found) = self.pages.get(&page) else {
                if zero {
                    return Some(place);
                }
                let next = self.pages.range(page..).next()?;
                place = next.0 * PAGE;
                continue;
            };
            let from = (place % PAGE) as usize;
            match found[from..].iter().position(|byte| (*byte == 0) == zero) {
                Some(more) => return Some(place + more as u64).filter(|found| *found < self.size),
                None => place = (page + 1) * PAGE,
            }
        }
        None
    }

    /// Notes that all that a client has was written to servers.
    pub(crate) fn sync(&mut self, client: u8) {
        self.is_synced = true;
        self.unsaved.sync(client);
    }

    /// Adds what may not be on servers if equal data have come about in another way.
    pub(super) fn merge(&mut self, other: &Self) {
        self.unsaved.merge(&other.unsaved);
    }

    /// Forgets what a client has alone, and returns whether there was any.
    pub(super) fn lose(&mut self, client: u8) -> bool {
        let lost = self.unsaved.lose(client, self.size);
        let is_any = !lost.is_empty();
        self.lost.add(lost);
        is_any
    }

    /// Returns the pages that a client had alone which was killed; `None` if it had nothing.
    pub(super) fn lost(&self) -> Option<Vec<u64>> {
        (!self.lost.is_empty()).then(|| self.lost.pages())
    }

    /// Sets a length that was found, if it may be that after a client was killed or refused room.
    pub(super) fn adopt_size(&mut self, size: u64) {
        if self.lost.adopt_size(size) {
            let (unsaved, lost) = (self.unsaved.clone(), self.lost.clone());
            self.cut(size);
            (self.unsaved, self.lost) = (unsaved, lost);
            match self.lost.keeper {
                Some(client) => self.unsaved.grow(client, size),
                None => self.unsaved.save_to(size),
            }
        }
    }

    /// Sets bytes that were found, if they may be those after a client was killed or refused room.
    pub(super) fn adopt(&mut self, at: u64, bytes: &[u8]) {
        let end = (at + bytes.len() as u64).min(self.size);
        for (number, part) in pieces(at..end) {
            let place = (number * PAGE + part.start as u64 - at) as usize;
            let is_whole = part.start == 0 && number * PAGE + part.end as u64 >= end.min(self.size);
            let found = &bytes[place..place + part.len()];
            if self.lost.adopt(number, part.clone(), found, is_whole) {
                let own = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE as usize]));
                Arc::make_mut(own)[part].copy_from_slice(found);
                if let Some(client) = self.lost.keeper {
                    self.unsaved.add_version(client, number, Some(own.clone()));
                }
            }
        }
    }

    /// Has the file be as if servers had nothing of what was lost.
    pub(crate) fn lose_all(&mut self) {
        let (size, pages) = std::mem::take(&mut self.lost).oldest();
        for (number, page) in pages {
            match page {
                Some(page) => drop(self.pages.insert(number, page)),
                None => drop(self.pages.remove(&number)),
            }
        }
        if let Some(size) = size {
            let unsaved = self.unsaved.clone();
            self.cut(size);
            self.unsaved = unsaved;
        }
    }

    /// Has servers have no more than they had of other data of the same file.
    pub(crate) fn unsave(&mut self, before: &Self) {
        self.unsaved.clone_from(&before.unsaved);
    }

    /// Returns the units of 512 bytes that it may have: some if any byte is not zero and servers have it.
    pub(crate) fn blocks(&self) -> std::ops::RangeInclusive<u64> {
        let is_known = self.is_synced && self.lost.is_empty();
        let least = u64::from(is_known && self.find(0, false).is_some());
        least..=self.units.len() as u64 * (UNIT / BLOCK) + BLOCKS_EXTRA
    }
}

/// Returns the pages of a range, with the part of each.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let pages = if range.is_empty() { 0..0 } else { range.start / PAGE..range.end.div_ceil(PAGE) };
    pages.map(move |page| {
        let start = range.start.saturating_sub(page * PAGE);
        let end = (range.end - page * PAGE).min(PAGE);
        (page, start as usize..end as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_and_the_rest_is_zero() {
        let mut data = Data::default();
        data.write(4090, &[1; 10]);
        data.write(1 << 40, &[2; 3]);
        assert_eq!(data.size(), (1 << 40) + 3);
        assert_eq!(data.read(4088, 14), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(data.read((1 << 40) + 1, 9), [2, 2]);
        assert_eq!((data.find(0, false), data.find(4090, true)), (Some(4090), Some(4100)));
        assert_eq!(data.find(4100, false), Some(1 << 40));
        data.zero(4092..4098);
        assert_eq!(data.read(4090, 10), [1, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        data.cut(4091);
        data.cut(5000);
        assert_eq!(data.read(4090, 4), [1, 0, 0, 0]);
        assert_eq!((data.find(4091, false), data.find(5000, true)), (None, None));
        assert_eq!(*data.blocks().start(), 0);
        data.sync(0);
        assert_eq!(*data.blocks().start(), 1);
        data.cut(0);
        assert_eq!((*data.blocks().start(), data.read(0, 10)), (0, vec![]));
    }
}
