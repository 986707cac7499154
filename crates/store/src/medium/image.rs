//! The contents of a simulated file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Seek;

/// The unit of allocation.
pub(super) const PAGE: u64 = 4096;

/// Bytes with holes. What was not written is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    pub(super) len: u64,
    /// The allocated pages. One that was never written is empty.
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Image {
    /// Returns how many pages are allocated.
    pub(super) fn allocated(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns how many pages of the range are not allocated.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        let pages = pages_of(&range);
        let all = pages.end - pages.start;
        all - self.pages.range(pages).count() as u64
    }

    /// Reads bytes before the end, and returns how many there were.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let count = self.len.saturating_sub(offset).min(out.len() as u64) as usize;
        for (page, within, at) in parts(offset, count) {
            match self.pages.get(&page).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => out[at].copy_from_slice(&bytes[within]),
                None => out[at].fill(0),
            }
        }
        count
    }

    /// Writes bytes. The length does not change.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, within, at) in parts(offset, bytes.len()) {
            self.page(page)[within].copy_from_slice(&bytes[at]);
        }
    }

    /// Cuts or extends.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.cut(len);
        }
        self.len = len;
    }

    /// Sets the length, and frees everything behind it.
    pub(super) fn cut(&mut self, len: u64) {
        self.punch(len..self.end());
        self.len = len;
    }

    /// Returns where the last page ends.
    pub(super) fn end(&self) -> u64 {
        self.pages.last_key_value().map_or(0, |(page, _)| (page + 1) * PAGE)
    }

    /// Makes a hole.
    pub(super) fn punch(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        let partial = pages_of(&range);
        for page in [partial.start, partial.end.saturating_sub(1)] {
            let start = range.start.max(page * PAGE);
            let end = range.end.min((page + 1) * PAGE);
            if !whole.contains(&page) && start < end {
                let within = (start - page * PAGE) as usize..(end - page * PAGE) as usize;
                if let Some(bytes) = self.pages.get_mut(&page).filter(|bytes| !bytes.is_empty()) {
                    bytes[within].fill(0);
                }
            }
        }
        if whole.start < whole.end {
            let mut after = self.pages.split_off(&whole.start);
            self.pages.append(&mut after.split_off(&whole.end));
        }
    }

    /// Allocates the pages of the range.
    pub(super) fn allocate(&mut self, range: Range<u64>) {
        for page in pages_of(&range) {
            self.pages.entry(page).or_default();
        }
    }

    /// Returns the first allocated or the first free page from `offset` on.
    pub(super) fn seek(&self, offset: u64, what: Seek) -> Option<u64> {
        if offset >= self.len {
            return None;
        }
        let first = offset / PAGE;
        let found = match what {
            Seek::Data => *self.pages.range(first..).next()?.0,
            Seek::Hole => {
                let mut page = first;
                while self.pages.contains_key(&page) {
                    page += 1;
                }
                page
            }
        };
        let found = (found * PAGE).max(offset);
        match what {
            Seek::Data => (found < self.len).then_some(found),
            Seek::Hole => Some(found.min(self.len)),
        }
    }

    fn page(&mut self, page: u64) -> &mut [u8] {
        let bytes = self.pages.entry(page).or_default();
        if bytes.is_empty() {
            *bytes = vec![0; PAGE as usize].into();
        }
        bytes
    }
}

fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// Cuts `len` bytes at `offset` into their pages: the page, the place in it, the place in the bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let end = offset + len as u64;
    pages_of(&(offset..end)).map(move |page| {
        let (start, stop) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
        let within = (start - page * PAGE) as usize..(stop - page * PAGE) as usize;
        (page, within, (start - offset) as usize..(stop - offset) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_and_give_their_pages_back() {
        let mut image = Image { len: 20_000, ..Image::default() };
        image.write(4000, &[7; 9000]);
        assert_eq!(image.allocated(), 4);
        image.punch(4090..12_300);
        assert_eq!(image.allocated(), 2, "the partial pages stay");
        let mut bytes = [1; 9000];
        assert_eq!(image.read(4000, &mut bytes), 9000);
        assert!(bytes[..90].iter().all(|byte| *byte == 7));
        assert!(bytes[90..8300].iter().all(|byte| *byte == 0));
        assert!(bytes[8300..].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn allocated_pages_read_as_zeros() {
        let mut image = Image { len: 10_000, ..Image::default() };
        image.allocate(0..10_000);
        image.write(5000, &[7; 10]);
        image.punch(100..5005);
        let mut bytes = [1; 10_000];
        assert_eq!((image.read(0, &mut bytes), image.allocated()), (10_000, 3));
        assert_eq!(bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 5 * 7);
    }

    #[test]
    fn the_end_is_a_hole() {
        let mut image = Image { len: 10_000, ..Image::default() };
        image.write(4096, &[1; 5904]);
        assert_eq!(image.seek(0, Seek::Data), Some(4096));
        assert_eq!(image.seek(0, Seek::Hole), Some(0));
        assert_eq!(image.seek(5000, Seek::Hole), Some(10_000));
        assert_eq!(image.seek(10_000, Seek::Hole), None);
        image.set_len(4096);
        assert_eq!((image.allocated(), image.seek(0, Seek::Data)), (0, None));
    }
}
