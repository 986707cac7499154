//! The memory that the machine refers to: that of descriptors, and the buffers of a router.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Span};
use slab::Slab;

use crate::memory::{Buffer, Memory, Piece};

/// The memories of a node, by their names.
#[derive(Default)]
pub(crate) struct Memories {
    descriptors: Slab<Descriptor>,
    /// Counts descriptors, so that a name is not used again soon.
    made: u32,
    router: BTreeMap<BufferId, Memory>,
}

/// The state of a memory descriptor in the driver.
struct Descriptor {
    key: DescriptorKey,
    /// The service's value for it.
    user: u64,
    /// Held as long as the descriptor; `None` for bytes of the machine.
    memory: Option<Memory>,
}

/// Names a descriptor and its memory to the machine: in [`Md::user`](fulmar_lnet::Md::user), and in
/// [`Md::buffer`](fulmar_lnet::Md::buffer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorKey(pub(crate) u64);

impl DescriptorKey {
    fn place(self) -> usize {
        (self.0 as u32) as usize
    }
}

impl Memories {
    /// Adds the memory of a new descriptor.
    pub(crate) fn add(&mut self, user: u64, memory: Option<Memory>) -> DescriptorKey {
        let entry = self.descriptors.vacant_entry();
        let place = u32::try_from(entry.key()).expect("descriptors are far fewer");
        // Names of router buffers have bits above these.
        self.made = (self.made + 1) % MADE_MAX;
        let key = DescriptorKey(u64::from(self.made) << 32 | u64::from(place));
        entry.insert(Descriptor { key, user, memory });
        key
    }

    /// Returns the service's value for a descriptor.
    ///
    /// # Panics
    /// If the machine names a descriptor that does not exist.
    pub(crate) fn user(&self, key: DescriptorKey) -> u64 {
        self.descriptor(key).user
    }

    /// Removes a descriptor and returns its memory, to be dropped without the lock.
    ///
    /// # Panics
    /// If the machine names a descriptor that does not exist.
    pub(crate) fn remove(&mut self, key: DescriptorKey) -> Option<Memory> {
        let descriptor = self.descriptors.remove(key.place());
        assert_eq!(descriptor.key, key, "a descriptor is removed once");
        descriptor.memory
    }

    /// Makes a router buffer.
    pub(crate) fn allocate(&mut self, name: BufferId, len: u32) {
        self.router.insert(name, Buffer::new(len as usize).into());
    }

    /// Returns a router buffer, to be dropped without the lock.
    pub(crate) fn release(&mut self, name: BufferId) -> Option<Memory> {
        self.router.remove(&name)
    }

    /// Returns the memory of a span that the machine has named.
    ///
    /// # Panics
    /// If there is none: a descriptor holds its memory, so the machine has a defect.
    pub(crate) fn piece(&self, span: Span) -> Piece {
        let memory = match self.router.get(&span.buffer) {
            Some(memory) => memory,
            None => {
                let memory = &self.descriptor(DescriptorKey(span.buffer.0)).memory;
                memory.as_ref().unwrap_or_else(|| panic!("{span:?} has no memory"))
            }
        };
        Piece::new(memory.clone(), span.offset as usize, span.len as usize)
    }

    fn descriptor(&self, key: DescriptorKey) -> &Descriptor {
        let found = self.descriptors.get(key.place()).filter(|found| found.key == key);
        found.unwrap_or_else(|| panic!("{key:?} is not a descriptor"))
    }
}

/// The number of descriptors that are created before a name may be reused.
const MADE_MAX: u32 = 1 << 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_reused_soon() {
        let mut memories = Memories::default();
        let first = memories.add(7, None);
        memories.remove(first);
        let second = memories.add(8, Some(Buffer::new(10).into()));
        assert_eq!(first.place(), second.place());
        assert_ne!(first, second);
        assert_eq!(memories.user(second), 8);
        let span = Span { buffer: BufferId(second.0), offset: 2, len: 8 };
        assert_eq!(memories.piece(span).len(), 8);
    }

    #[test]
    #[should_panic(expected = "not a descriptor")]
    fn an_old_name_is_refused() {
        let mut memories = Memories::default();
        let first = memories.add(7, None);
        memories.remove(first);
        memories.add(8, None);
        memories.user(first);
    }

    #[test]
    fn router_buffers_have_names_of_their_own() {
        let mut memories = Memories::default();
        let name = BufferId(1 << 62 | 5);
        memories.allocate(name, 4096);
        assert_eq!(memories.piece(Span { buffer: name, offset: 0, len: 4096 }).len(), 4096);
        assert!(memories.release(name).is_some() && memories.release(name).is_none());
    }
}
