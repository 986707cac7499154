//! Buffers: memory that sockets read and write in place.
//!
//! # Why this is sound
//!
//! The kernel writes a received payload into a buffer while the program may hold handles to it, so
//! no Rust reference to the bytes is ever formed: they are reached by raw pointers only, and every
//! access of the program is a copy in or out under the buffer's lock. The kernel's own accesses are
//! those of another process to shared memory: they race with nothing in Rust's memory model, and a
//! program that looks at bytes which are still being received sees some bytes, old or new.
//!
//! The memory lives as long as anything that may touch it: a handle of the application, a memory
//! descriptor, a connection in the middle of a payload. Each of them holds the [`Region`], and each
//! range is checked against it before a pointer is made.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use fulmar_base::{BufferId, Span};
use fulmar_socklnd::checksum;

use crate::lock::Lock;

/// A piece of memory for payload. Clones are handles to the same bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Buffer(pub(crate) Arc<Region>);

impl Buffer {
    /// Returns the name of the buffer in [`Md::buffer`](fulmar_lnet::Md::buffer).
    pub fn id(&self) -> BufferId {
        self.0.id
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
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
        let mut bytes = vec![0; len];
        self.read_at(offset, &mut bytes);
        bytes
    }

    /// Sets every byte to `byte`.
    pub fn fill(&self, byte: u8) {
        let _guard = self.0.write_guard();
        // SAFETY: the region owns `len` bytes at `start`, and the guard excludes other writers.
        unsafe { ptr::write_bytes(self.0.start.as_ptr(), byte, self.0.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.0.id.0, self.0.len)
    }
}

/// The memory behind a [`Buffer`].
pub(crate) struct Region {
    id: BufferId,
    start: NonNull<u8>,
    len: usize,
    /// Held while the program copies; the kernel knows nothing of it.
    copying: RwLock<()>,
    table: Weak<Table>,
}

// SAFETY: the bytes are reached by copies under `copying` and by the kernel only (see the module).
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(id: BufferId, len: usize, table: Weak<Table>) -> Self {
        let layout = layout(len);
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { id, start, len, copying: RwLock::new(()), table }
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

    pub(crate) fn len(&self) -> usize {
        self.len
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
        // In the order of the ids, so that two copies that cross do not wait for each other.
        let (_first, _second);
        if self.id == from.id {
            (_first, _second) = (Some(self.write_guard()), None);
        } else if self.id < from.id {
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
        if let Some(table) = self.table.upgrade() {
            table.regions.lock().known.remove(&self.id);
        }
        // SAFETY: allocated in `new` with the same layout; nothing holds the region any more.
        unsafe { dealloc(self.start.as_ptr(), layout(self.len)) }
    }
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl Eq for Region {}

/// The buffers of a node by their names.
#[derive(Default)]
pub(crate) struct Table {
    regions: Lock<Regions>,
}

#[derive(Default)]
struct Regions {
    next: u64,
    known: BTreeMap<BufferId, Weak<Region>>,
}

impl Table {
    /// Allocates a buffer of `len` zeros.
    pub(crate) fn allocate(self: &Arc<Self>, len: usize) -> Buffer {
        let mut regions = self.regions.lock();
        regions.next += 1;
        let id = BufferId(regions.next);
        drop(regions);
        self.allocate_named(id, len)
    }

    /// Allocates a buffer of `len` zeros, whose name nobody has.
    pub(crate) fn allocate_named(self: &Arc<Self>, id: BufferId, len: usize) -> Buffer {
        let region = Arc::new(Region::new(id, len, Arc::downgrade(self)));
        self.regions.lock().known.insert(id, Arc::downgrade(&region));
        Buffer(region)
    }

    /// Returns a buffer that somebody still holds.
    pub(crate) fn find(&self, id: BufferId) -> Option<Arc<Region>> {
        self.regions.lock().known.get(&id)?.upgrade()
    }

    /// Returns the memory of a span that a machine has named.
    ///
    /// # Panics
    /// If there is none: a descriptor holds its buffer, so the machine has lost count of one.
    pub(crate) fn resolve(&self, span: Span) -> Piece {
        let region = self.find(span.buffer).unwrap_or_else(|| panic!("{span:?} has no buffer"));
        let (offset, len) = (span.offset as usize, span.len as usize);
        region.pointer(offset, len);
        Piece { region, offset, len }
    }
}

/// A range of a region, known to be within it.
pub(crate) struct Piece {
    pub(crate) region: Arc<Region>,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Piece {
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.region.pointer(self.offset, self.len)
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len.max(1), ALIGNMENT).expect("a buffer is far smaller than the memory")
}

/// What an allocator grants unasked. Nothing needs more: bytes are copied, by the program and by
/// the kernel. More, and zeros are written by hand, page for page, where the allocator has pages at
/// hand that nobody has touched; a router makes its buffers while its node waits.
const ALIGNMENT: usize = 16;
/// Checksums are taken of a copy, a chunk at a time, since the bytes may not be borrowed.
const CHECKSUM_CHUNK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_the_table_forgets_with_the_last_handle() {
        let table = Arc::new(Table::default());
        let a = table.allocate(5000);
        assert_eq!(a.to_vec(4990, 10), [0; 10]);
        a.write_at(4997, b"end");
        assert_eq!(a.to_vec(4996, 4), b"\0end");
        let id = a.id();
        let held = table.find(id).unwrap();
        drop(a);
        assert!(table.find(id).is_some());
        drop(held);
        assert!(table.find(id).is_none());
    }

    #[test]
    fn copies_may_overlap_and_checksums_agree() {
        let table = Arc::new(Table::default());
        let a = table.allocate(100_000);
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        a.write_at(0, &bytes);
        let crc = checksum::update(checksum::INITIAL, &bytes[7..99_000]);
        assert_eq!(a.0.checksum(7, 98_993, checksum::INITIAL), crc);
        a.0.copy_from(10, &a.0, 0, 50_000);
        assert_eq!(a.to_vec(10, 50_000), bytes[..50_000]);
        let b = table.allocate(50_000);
        b.0.copy_from(0, &a.0, 10, 50_000);
        assert_eq!(b.to_vec(0, 50_000), bytes[..50_000]);
        b.fill(7);
        assert_eq!(b.to_vec(49_999, 1), [7]);
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn a_range_beyond_the_end_is_refused() {
        Arc::new(Table::default()).allocate(8).write_at(usize::MAX, b"ab");
    }

    #[test]
    fn a_new_buffer_costs_no_memory_before_it_is_used() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
            pages * 4096
        };
        // Larger than anything that an allocator keeps for later.
        let len = 256 << 20;
        let before = resident();
        let buffer = Arc::new(Table::default()).allocate(len);
        let made = resident().saturating_sub(before);
        assert!(made < len / 2, "{made} bytes were touched");
        assert_eq!(buffer.to_vec(len - 8, 8), [0; 8]);
    }

    #[test]
    fn an_empty_buffer_is_a_buffer() {
        let buffer = Arc::new(Table::default()).allocate(0);
        assert!(buffer.is_empty());
        buffer.write_at(0, b"");
        assert_eq!(buffer.to_vec(0, 0), b"");
    }
}
