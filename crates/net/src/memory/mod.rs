//! Memory for payload: buffers, slices, and the lists of segments that descriptors cover.
//!
//! **The memory of a descriptor** is one buffer, a part of one, or a list of up to 4,096 segments
//! of several, such as the pages of a 16 MiB bulk. The core has only its name and its length. A
//! message carries at most 1 MiB of it.
//!
//! **A buffer** is page-aligned. A slice of it shares it; a read-only slice can be sent from by any
//! number of descriptors and received into by none. `read_from` and `write_to` move a range of a
//! file straight into or out of it (`preadv`, `pwritev`, with `O_DIRECT` where offset and length
//! are aligned), and a payload goes between the socket and all its segments in one vectored call.
//! Buffers of up to 64 KiB are pages of shared chunks (`places`): an allocator for any alignment
//! takes a page more for each, and a system call. No Rust reference to the bytes is formed, since
//! the kernel writes them while handles exist.

mod buffer;
mod file;
mod places;
mod region;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use fulmar_base::Errno;

pub use buffer::{Buffer, Slice};
#[cfg(test)]
pub(crate) use region::PAGE;

/// What a memory descriptor covers: one slice, or a list of up to [`SEGMENTS_MAX`] slices of any
/// buffers, one after the other. Clones share it.
#[derive(Clone)]
pub struct Memory(Segments);

#[derive(Clone)]
enum Segments {
    One(Slice),
    Many(Arc<List>),
}

struct List {
    slices: Vec<Slice>,
    /// Where each slice ends, counted from the start of the memory.
    ends: Vec<usize>,
}

/// The most segments of a memory: the pages of a bulk transfer of 16 MiB.
pub const SEGMENTS_MAX: usize = 4096;

impl Memory {
    /// Puts slices together, in order.
    ///
    /// # Errors
    /// EINVAL if there are more than [`SEGMENTS_MAX`].
    pub fn gather(slices: impl IntoIterator<Item = Slice>) -> Result<Self, Errno> {
        let slices: Vec<Slice> = slices.into_iter().filter(|slice| !slice.is_empty()).collect();
        if slices.len() > SEGMENTS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut end = 0;
        let ends = slices.iter().map(|slice| {
            end += slice.len();
            end
        });
        let ends = ends.collect();
        Ok(Self(Segments::Many(Arc::new(List { slices, ends }))))
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Segments::One(slice) => slice.len(),
            Segments::Many(list) => list.ends.last().copied().unwrap_or(0),
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns part of the memory, which shares its bytes.
    ///
    /// # Panics
    /// If the range is not within the memory.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let mut slices = Vec::new();
        self.visit(range.start, range.len(), |slice, from, len| {
            slices.push(slice.slice(from..from + len));
            true
        });
        match &mut slices[..] {
            [slice] => slice.clone().into(),
            _ => Self::gather(slices).expect("a part has no more segments than the whole"),
        }
    }

    /// Returns whether bytes may be received into it: into every segment, or it may not.
    pub fn is_writable(&self) -> bool {
        match &self.0 {
            Segments::One(slice) => slice.is_writable(),
            Segments::Many(list) => list.slices.iter().all(Slice::is_writable),
        }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If that is beyond the end, or read-only.
    pub fn write_at(&self, offset: usize, mut bytes: &[u8]) {
        self.visit(offset, bytes.len(), |slice, from, len| {
            let (now, rest) = bytes.split_at(len);
            slice.write_at(from, now);
            bytes = rest;
            true
        });
    }

    /// Copies what is at `offset` to `bytes`.
    ///
    /// # Panics
    /// If that is beyond the end.
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) {
        let mut at = 0;
        self.visit(offset, bytes.len(), |slice, from, len| {
            slice.read_at(from, &mut bytes[at..at + len]);
            at += len;
            true
        });
    }

    /// Calls `each` with the parts of segments that make up `len` bytes at `offset`, in order: the
    /// segment, where the part begins in it, and its length. Stops when `each` returns false.
    ///
    /// # Panics
    /// If they are not all within the memory.
    fn visit(&self, offset: usize, len: usize, mut each: impl FnMut(&Slice, usize, usize) -> bool) {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let end = end.unwrap_or_else(|| {
            panic!("{len} bytes at {offset} are not within the {} bytes of a memory", self.len())
        });
        let list = match &self.0 {
            Segments::One(slice) => {
                if len > 0 {
                    each(slice, offset, len);
                }
                return;
            }
            Segments::Many(list) => list,
        };
        let first = list.ends.partition_point(|end| *end <= offset);
        let mut at = offset;
        for (slice, slice_end) in list.slices.iter().zip(&list.ends).skip(first) {
            if at >= end {
                return;
            }
            let (from, to) = (at - (slice_end - slice.len()), end.min(*slice_end));
            if !each(slice, from, to - at) {
                return;
            }
            at = to;
        }
    }

    /// Calls `each` with the address and the length of each part of what is left after `skip`
    /// bytes, until it returns false. The addresses are valid as long as the memory.
    pub(crate) fn for_each_range(&self, skip: usize, mut each: impl FnMut(*mut u8, usize) -> bool) {
        let left = self.len() - skip;
        self.visit(skip, left, |slice, from, len| each(slice.pointer(from, len), len));
    }
}

impl From<Buffer> for Memory {
    fn from(buffer: Buffer) -> Self {
        Self(Segments::One(buffer.slice(..)))
    }
}

impl From<&Buffer> for Memory {
    fn from(buffer: &Buffer) -> Self {
        Self(Segments::One(buffer.slice(..)))
    }
}

impl From<Slice> for Memory {
    fn from(slice: Slice) -> Self {
        Self(Segments::One(slice))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Segments::One(slice) => slice.fmt(f),
            Segments::Many(list) => {
                write!(f, "Memory({} bytes in {} segments)", self.len(), list.slices.len())
            }
        }
    }
}

/// A range of a memory, known to be within it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    memory: Memory,
    offset: usize,
    len: usize,
}

impl Piece {
    /// # Panics
    /// If the range is not within the memory.
    pub(crate) fn new(memory: Memory, offset: usize, len: usize) -> Self {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= memory.len()), "{len} at {offset} of {memory:?}");
        Self { memory, offset, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Calls `each` with the address and the length of each part of what is left after `skip`
    /// bytes, until it returns false. The addresses are valid as long as the piece.
    pub(crate) fn for_each_range(&self, skip: usize, mut each: impl FnMut(*mut u8, usize) -> bool) {
        let (offset, left) = (self.offset + skip, self.len - skip);
        self.memory.visit(offset, left, |slice, from, len| each(slice.pointer(from, len), len));
    }

    /// Copies `bytes` to `offset`.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.memory.write_at(self.offset + offset, bytes);
    }

    /// Continues a checksum over `len` bytes at `offset`.
    pub(crate) fn checksum(&self, offset: usize, len: usize, mut crc: u32) -> u32 {
        self.memory.visit(self.offset + offset, len, |slice, from, len| {
            crc = slice.checksum(from, len, crc);
            true
        });
        crc
    }

    /// Copies as many bytes as the piece has from the start of `from`, which has no fewer.
    pub(crate) fn copy_from(&self, from: &Self) {
        let mut at = from.offset;
        self.memory.visit(self.offset, self.len, |to, start, len| {
            let mut filled = start;
            from.memory.visit(at, len, |source, begin, len| {
                to.copy_from(filled, source, begin, len);
                filled += len;
                true
            });
            at += len;
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` segments of `len` bytes, each in a buffer of its own, with other bytes around them.
    fn gathered(count: usize, len: usize) -> (Vec<Buffer>, Memory) {
        let buffers: Vec<Buffer> = (0..count).map(|_| Buffer::new(len + 10)).collect();
        let slices = buffers.iter().map(|buffer| buffer.slice(5..5 + len));
        let memory = Memory::gather(slices.collect::<Vec<_>>()).unwrap();
        (buffers, memory)
    }

    #[test]
    fn pieces_cross_segments_wherever_they_begin_and_end() {
        let (buffers, memory) = gathered(5, 7);
        assert_eq!(memory.len(), 35);
        let bytes: Vec<u8> = (1..=35).collect();
        Piece::new(memory.clone(), 0, 35).write(0, &bytes);
        for (number, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.to_vec(0, 5), [0; 5], "nothing before the segment");
            assert_eq!(buffer.to_vec(5, 7), bytes[7 * number..][..7]);
            assert_eq!(buffer.to_vec(12, 5), [0; 5], "nothing after it");
        }
        for start in 0..=35 {
            for end in start..=35 {
                let piece = Piece::new(memory.clone(), start, end - start);
                let mut read = vec![0; end - start];
                memory.read_at(start, &mut read);
                assert_eq!(read, bytes[start..end]);
                let (mut total, mut ranges) = (0, 0);
                piece.for_each_range((end - start) / 2, |_, len| {
                    total += len;
                    ranges += 1;
                    true
                });
                assert_eq!(total, end - start - (end - start) / 2);
                assert!(ranges <= 5 && (ranges > 0) == (total > 0), "{start}..{end}: {ranges}");
                let part = memory.slice(start..end);
                part.read_at(0, &mut read);
                assert_eq!((part.len(), &read[..]), (end - start, &bytes[start..end]));
            }
        }
    }

    #[test]
    fn copies_and_checksums_do_not_depend_on_the_segments() {
        let (_many, from) = gathered(9, 100);
        let (_few, target) = gathered(4, 250);
        let bytes: Vec<u8> = (0..900_u32).map(|n| (n % 251) as u8).collect();
        let from = Piece::new(from, 0, 900);
        from.write(0, &bytes);
        let to = Piece::new(target.clone(), 50, 850);
        to.copy_from(&from);
        let mut copied = vec![0; 850];
        target.read_at(50, &mut copied);
        assert_eq!(copied, bytes[..850]);
        let crc = fulmar_socklnd::checksum::update(7, &bytes[3..700]);
        assert_eq!(from.checksum(3, 697, 7), crc);
        assert_eq!(to.checksum(3, 697, 7), crc);
    }

    #[test]
    fn a_memory_has_a_bounded_number_of_segments() {
        let buffer = Buffer::new(SEGMENTS_MAX + 1);
        let bytes = |count: usize| (0..count).map(|n| buffer.slice(n..=n)).collect::<Vec<_>>();
        assert_eq!(Memory::gather(bytes(SEGMENTS_MAX)).unwrap().len(), SEGMENTS_MAX);
        assert!(Memory::gather(bytes(SEGMENTS_MAX + 1)).is_err());
        assert!(Memory::gather([]).unwrap().is_empty());
    }

    #[test]
    fn a_memory_is_as_writable_as_its_segments() {
        let buffer = Buffer::new(8);
        assert!(Memory::from(&buffer).is_writable());
        assert!(!Memory::from(buffer.read_only()).is_writable());
        let mixed = Memory::gather([buffer.slice(..4), buffer.slice(4..).read_only()]).unwrap();
        assert!(!mixed.is_writable());
    }
}
