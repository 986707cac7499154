//! The memory behind buffers.
//!
//! # Why this is sound
//!
//! The kernel reads and writes a region for sockets and files while the program holds handles to it,
//! so no Rust reference to the bytes is ever formed: they are reached by raw pointers only, and every
//! access of the program is a copy in or out under the region's lock. The kernel's accesses are those
//! of another process to shared memory: they race with nothing in Rust's memory model, and a program
//! that looks at bytes which are still being received sees some bytes, old or new.
//!
//! A region lives as long as anything that may touch it: a handle of the program, a memory
//! descriptor, a connection in the middle of a payload. Each of them holds the [`Region`], and each
//! range is checked against it before a pointer is made. Address and length never change, so that
//! hardware can keep a translation of them.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fulmar_socklnd::checksum;

use super::places;
use crate::sys;

/// Page-aligned memory of a fixed length.
pub(crate) struct Region {
    start: NonNull<u8>,
    len: usize,
    /// Held while the program copies; the kernel knows nothing of it.
    copying: RwLock<()>,
}

// SAFETY: the bytes are reached by copies under `copying` and by the kernel only (see the module).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates `len` zeros.
    pub(crate) fn new(len: usize) -> Self {
        let start = match len {
            ..=places::PLACE_MAX => places::take(len),
            // Pages come from the kernel when they are first touched.
            _ => sys::map_pages(len).unwrap_or_else(|_| handle_alloc_error(layout(len))),
        };
        Self { start, len, copying: RwLock::new(()) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns where `len` bytes at `offset` are, valid as long as the region.
    ///
    /// # Panics
    /// If they are not all within the region.
    pub(crate) fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} are not within the {} bytes of a buffer",
            self.len
        );
        // SAFETY: just checked to be within the allocation.
        unsafe { self.start.as_ptr().add(offset) }
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.pointer(offset, bytes.len());
        let _guard = self.write_guard();
        // SAFETY: `to` has room for `bytes`, which, being a reference, is other memory; the guard
        // excludes other copies.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.pointer(offset, bytes.len());
        let _guard = self.read_guard();
        // SAFETY: as in `write`, the other way.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Copies `len` bytes at `offset` to the end of `bytes`.
    pub(crate) fn append_to(&self, offset: usize, len: usize, bytes: &mut Vec<u8>) {
        let from = self.pointer(offset, len);
        bytes.reserve(len);
        let end = bytes.len();
        let _guard = self.read_guard();
        // SAFETY: the vector has room for `len` bytes behind its end, in other memory; they are written
        // before they belong to it.
        unsafe {
            ptr::copy_nonoverlapping(from, bytes.as_mut_ptr().add(end), len);
            bytes.set_len(end + len);
        }
    }

    pub(crate) fn fill(&self, offset: usize, len: usize, byte: u8) {
        let to = self.pointer(offset, len);
        let _guard = self.write_guard();
        // SAFETY: `to` has room for `len` bytes, and the guard excludes other copies.
        unsafe { ptr::write_bytes(to, byte, len) }
    }

    /// Continues a checksum over `len` bytes at `offset`.
    pub(crate) fn checksum(&self, mut offset: usize, len: usize, mut crc: u32) -> u32 {
        let mut chunk = [0; CHECKSUM_CHUNK];
        let end = offset + len;
        while offset < end {
            let bytes = &mut chunk[..(end - offset).min(CHECKSUM_CHUNK)];
            self.read(offset, bytes);
            crc = checksum::update(crc, bytes);
            offset += bytes.len();
        }
        crc
    }

    /// Copies `len` bytes at `from_offset` of `from` to `offset`.
    pub(crate) fn copy_from(&self, offset: usize, from: &Self, from_offset: usize, len: usize) {
        let source = from.pointer(from_offset, len);
        let target = self.pointer(offset, len);
        // In the order of their addresses, so that two copies that cross do not wait for each other.
        let (_first, _second);
        if self.start == from.start {
            (_first, _second) = (Some(self.write_guard()), None);
        } else if self.start < from.start {
            _first = Some(self.write_guard());
            _second = Some(from.read_guard());
        } else {
            _second = Some(from.read_guard());
            _first = Some(self.write_guard());
        }
        // SAFETY: both ranges are within their regions, the guards exclude other copies, and the
        // ranges may overlap.
        unsafe { ptr::copy(source, target, len) }
    }

    fn read_guard(&self) -> RwLockReadGuard<'_, ()> {
        self.copying.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_guard(&self) -> RwLockWriteGuard<'_, ()> {
        self.copying.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match self.len {
            // SAFETY: taken in `new` for the same length; nothing holds the region any more.
            ..=places::PLACE_MAX => unsafe { places::give_back(self.start, self.len) },
            // SAFETY: mapped in `new` with the same length; nothing holds the region any more.
            _ => unsafe { sys::unmap_pages(self.start, self.len) },
        }
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE).expect("a buffer is far smaller than the memory")
}

/// What buffers are aligned to. Direct I/O and hardware want no more.
pub(crate) const PAGE: usize = 4096;
/// Checksums are taken of a copy, a chunk at a time, since the bytes may not be borrowed.
const CHECKSUM_CHUNK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_and_checksums_agree() {
        let a = Region::new(100_000);
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        a.write(0, &bytes);
        let crc = checksum::update(checksum::INITIAL, &bytes[7..99_000]);
        assert_eq!(a.checksum(7, 98_993, checksum::INITIAL), crc);
        a.copy_from(10, &a, 0, 50_000);
        let mut copied = vec![0; 50_000];
        a.read(10, &mut copied);
        assert_eq!(copied, bytes[..50_000]);
        let b = Region::new(50_000);
        b.copy_from(0, &a, 10, 50_000);
        b.read(0, &mut copied);
        assert_eq!(copied, bytes[..50_000]);
        let mut appended = vec![9; 3];
        b.append_to(7, 0, &mut appended);
        b.append_to(7, 49_993, &mut appended);
        assert_eq!((&appended[..3], &appended[3..]), (&[9; 3][..], &bytes[7..50_000]));
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn refuses_a_range_beyond_the_end() {
        Region::new(8).write(usize::MAX, b"ab");
    }

    #[test]
    fn every_region_begins_on_a_page_and_is_zero() {
        for len in [0, 1, 4095, places::PLACE_MAX, places::PLACE_MAX + 1, 1 << 20] {
            let region = Region::new(len);
            assert_eq!(region.pointer(0, len).addr() % PAGE, 0, "{len} bytes");
            let mut bytes = vec![1; len];
            region.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 0), "{len} bytes");
        }
    }

    #[test]
    fn a_large_region_costs_no_memory_before_it_is_used() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
            pages * PAGE
        };
        let len = 256 << 20;
        let before = resident();
        let region = Region::new(len);
        let made = resident().saturating_sub(before);
        assert!(made < len / 2, "{made} bytes were touched");
        assert_eq!(region.len(), len);
    }
}
