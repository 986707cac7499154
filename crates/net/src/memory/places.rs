//! Places for short regions: pages in a row, taken from chunks of memory.
//!
//! An allocator for any alignment gives up a page for each such region, and the one of the system makes room with a system
//! call each time. A place has the length of its class; those of a class fill one chunk after the other, and a chunk
//! without regions is given back unless it is the only one.

use std::alloc::{Layout, handle_alloc_error};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};

use super::region::PAGE;
use crate::lock::Lock;
use crate::sys;

/// The longest region that has a place.
pub(super) const PLACE_MAX: usize = PAGE << (CLASSES - 1);
/// Lengths of places: a page, two pages, up to sixteen.
const CLASSES: usize = 5;
/// The length of a chunk.
const CHUNK: usize = 1 << 20;

static PLACES: [Lock<Class>; CLASSES] = [const { Lock::new(Class::NEW) }; CLASSES];

/// The chunks of places of one length, by their addresses.
struct Class {
    chunks: BTreeMap<usize, Chunk>,
    /// Those with places for more. The highest is used first: the system maps each below the ones before, and the
    /// last ones become free.
    with_room: BTreeSet<usize>,
}

struct Chunk {
    start: NonNull<u8>,
    /// Places that were used before, by number.
    free: Vec<u16>,
    /// The places from here on were never used: they are zero.
    fresh: u16,
}

// SAFETY: a chunk is an address; its bytes belong to the regions in it.
unsafe impl Send for Chunk {}

/// Returns a place for `len` bytes, at most [`PLACE_MAX`], which are zero.
pub(super) fn take(len: usize) -> NonNull<u8> {
    let (class, place_len) = class_of(len);
    let Some((start, was_used)) = PLACES[class].lock().take(place_len) else {
        handle_alloc_error(Layout::new::<[u8; CHUNK]>())
    };
    if was_used {
        // SAFETY: the place has room for `len` bytes, and no other region has it.
        unsafe { ptr::write_bytes(start.as_ptr(), 0, len) }
    }
    start
}

/// Gives a place back.
///
/// # Safety
/// It was taken for this length, and is no longer accessed.
pub(super) unsafe fn give_back(start: NonNull<u8>, len: usize) {
    let (class, place_len) = class_of(len);
    let unused = PLACES[class].lock().give_back(start, place_len);
    if let Some(chunk) = unused {
        // SAFETY: it was mapped with this length, and no place of it is in use.
        unsafe { sys::unmap_pages(chunk, CHUNK) }
    }
}

/// Returns the class of a length, and the length of its places.
fn class_of(len: usize) -> (usize, usize) {
    let place_len = len.next_power_of_two().max(PAGE);
    ((place_len / PAGE).trailing_zeros() as usize, place_len)
}

impl Class {
    const NEW: Self = Self { chunks: BTreeMap::new(), with_room: BTreeSet::new() };

    /// Allocates a place; returns whether it was used before. `None`: there is no memory.
    fn take(&mut self, place_len: usize) -> Option<(NonNull<u8>, bool)> {
        let at = match self.with_room.last() {
            Some(at) => *at,
            None => self.add_chunk()?,
        };
        let chunk = self.chunks.get_mut(&at)?;
        let (number, was_used) = match chunk.free.pop() {
            Some(number) => (number, true),
            None => {
                chunk.fresh += 1;
                (chunk.fresh - 1, false)
            }
        };
        if chunk.free.is_empty() && usize::from(chunk.fresh) == CHUNK / place_len {
            self.with_room.remove(&at);
        }
        // SAFETY: the number is below the count of places in the chunk.
        Some((unsafe { chunk.start.add(usize::from(number) * place_len) }, was_used))
    }

    fn add_chunk(&mut self) -> Option<usize> {
        let start = sys::map_pages(CHUNK).ok()?;
        let at = start.addr().get();
        self.chunks.insert(at, Chunk { start, free: Vec::new(), fresh: 0 });
        self.with_room.insert(at);
        Some(at)
    }

    /// Receives a place back; returns a chunk that is not needed any more.
    fn give_back(&mut self, start: NonNull<u8>, place_len: usize) -> Option<NonNull<u8>> {
        let place = start.addr().get();
        let (&at, chunk) = self.chunks.range_mut(..=place).next_back().expect("it has a chunk");
        chunk.free.push(((place - at) / place_len) as u16);
        let is_unused = chunk.free.len() == usize::from(chunk.fresh);
        self.with_room.insert(at);
        if !is_unused || self.with_room.len() == 1 {
            return None;
        }
        self.with_room.remove(&at);
        self.chunks.remove(&at).map(|chunk| chunk.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_apart_and_used_again() {
        let mut class = Class::NEW;
        let count = 2 * CHUNK / PAGE;
        let taken: Vec<_> = (0..count).map(|_| class.take(PAGE).unwrap()).collect();
        assert!(taken.iter().all(|(_, was_used)| !was_used));
        let addresses: BTreeSet<usize> =
            taken.iter().map(|(start, _)| start.addr().get()).collect();
        assert_eq!((addresses.len(), class.chunks.len(), class.with_room.len()), (count, 2, 0));
        assert!(addresses.iter().all(|address| address % PAGE == 0));
        assert_eq!(class.give_back(taken[5].0, PAGE), None);
        assert_eq!(class.take(PAGE), Some((taken[5].0, true)));
        let unused = taken.iter().filter_map(|(start, _)| class.give_back(*start, PAGE));
        // SAFETY: no place of them is in use.
        unused.collect::<Vec<_>>().into_iter().for_each(|chunk| unsafe {
            sys::unmap_pages(chunk, CHUNK);
        });
        assert_eq!((class.chunks.len(), class.with_room.len()), (1, 1), "one is kept");
    }

    #[test]
    fn a_place_is_as_long_as_its_region() {
        for (len, place) in [(0, 1), (1, 1), (4096, 1), (4097, 2), (8193, 4), (PLACE_MAX, 16)] {
            let (class, place_len) = class_of(len);
            assert_eq!((1 << class, place_len), (place, place * PAGE), "{len} bytes");
        }
    }
}
