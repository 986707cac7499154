//! Buffers and slices of them, as programs hold them.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::region::Region;

/// Page-aligned memory for payload. Clones are handles to the same bytes.
#[derive(Clone)]
pub struct Buffer(Arc<Region>);

impl Buffer {
    /// Allocates `len` zeros.
    pub fn new(len: usize) -> Self {
        Self(Arc::new(Region::new(len)))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there are other handles to the bytes: clones, slices, and descriptors and
    /// messages of LNet that may still move them.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns part of the buffer, which shares its bytes.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice {
        Slice::whole(self.0.clone()).slice(range)
    }

    /// Returns the buffer as something that can be sent from and not received into.
    pub fn read_only(&self) -> Slice {
        self.slice(..).read_only()
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If that is beyond the end.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }

    /// Copies what is at `offset` to `bytes`.
    ///
    /// # Panics
    /// If that is beyond the end.
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        self.0.read(offset, bytes);
    }

    /// Returns a copy of `len` bytes at `offset`.
    ///
    /// # Panics
    /// If that is beyond the end.
    pub fn to_vec(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.append_to(offset, len, &mut bytes);
        bytes
    }

    /// Sets every byte to `byte`.
    pub fn fill(&self, byte: u8) {
        self.0.fill(0, self.len(), byte);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// Part of a [`Buffer`]. Clones share its bytes.
#[derive(Clone)]
pub struct Slice {
    region: Arc<Region>,
    offset: usize,
    len: usize,
    writable: bool,
}

impl Slice {
    fn whole(region: Arc<Region>) -> Self {
        let len = region.len();
        Self { region, offset: 0, len, writable: true }
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether bytes may be received into the slice.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Returns part of the slice, which shares its bytes.
    ///
    /// # Panics
    /// If the range is not within the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        assert!(start <= end && end <= self.len, "{start}..{end} of {} bytes", self.len);
        Self { offset: self.offset + start, len: end - start, ..self.clone() }
    }

    /// Returns the slice as something that can be sent from and not received into.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { writable: false, ..self.clone() }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If that is beyond the end, or the slice is read-only.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) {
        assert!(self.writable, "the slice is read-only");
        self.require(offset, bytes.len());
        self.region.write(self.offset + offset, bytes);
    }

    /// Copies what is at `offset` to `bytes`.
    ///
    /// # Panics
    /// If that is beyond the end.
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        self.require(offset, bytes.len());
        self.region.read(self.offset + offset, bytes);
    }

    /// Copies all its bytes to the end of `bytes`.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        self.region.append_to(self.offset, self.len, bytes);
    }

    /// Returns where `len` bytes at `offset` are, valid as long as the slice.
    pub(super) fn pointer(&self, offset: usize, len: usize) -> *mut u8 {
        self.require(offset, len);
        self.region.pointer(self.offset + offset, len)
    }

    pub(super) fn checksum(&self, offset: usize, len: usize, crc: u32) -> u32 {
        self.require(offset, len);
        self.region.checksum(self.offset + offset, len, crc)
    }

    pub(super) fn copy_from(&self, offset: usize, from: &Self, from_offset: usize, len: usize) {
        self.require(offset, len);
        from.require(from_offset, len);
        let source = from.offset + from_offset;
        self.region.copy_from(self.offset + offset, &from.region, source, len);
    }

    fn require(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} are not within the {} bytes of a slice",
            self.len
        );
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.writable { "" } else { ", read-only" };
        write!(f, "Slice({} bytes at {}{access})", self.len, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_the_bytes_of_their_buffer() {
        let buffer = Buffer::new(5000);
        let slice = buffer.slice(4096..).slice(1..=3);
        slice.write_at(0, b"abc");
        assert_eq!(buffer.to_vec(4096, 5), b"\0abc\0");
        let mut bytes = [0; 2];
        slice.read_only().read_at(1, &mut bytes);
        assert_eq!((&bytes, slice.len(), slice.is_writable()), (b"bc", 3, true));
        assert!(!buffer.read_only().slice(..2).is_writable(), "parts of it are read-only too");
    }

    #[test]
    fn a_buffer_is_shared_as_long_as_others_have_its_bytes() {
        let buffer = Buffer::new(8);
        let slice = buffer.slice(..4);
        assert!(buffer.is_shared());
        drop(slice);
        assert!(!buffer.is_shared());
    }

    #[test]
    #[should_panic(expected = "read-only")]
    fn a_read_only_slice_is_not_written() {
        Buffer::new(8).read_only().write_at(0, b"a");
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn a_slice_is_not_left_by_its_offsets() {
        Buffer::new(8).slice(..4).write_at(3, b"ab");
    }

    #[test]
    fn an_empty_buffer_is_a_buffer() {
        let buffer = Buffer::new(0);
        assert!(buffer.is_empty() && buffer.slice(..).is_empty());
        buffer.write_at(0, b"");
        assert_eq!(buffer.to_vec(0, 0), b"");
    }
}
