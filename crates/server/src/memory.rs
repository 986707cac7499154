//! Memory of bulk data.
//!
//! Memory for bulk data is used again, by powers of two, as soon as there is no other handle to it:
//! pages that the kernel makes for each request cost more than moving the data. For that the driver
//! gives up its handles before it reports that memory is free. `make bench ONLY=ost` compares reads
//! and writes of a file in memory with a TCP stream and with `pread` and `pwrite` of the same file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::{BufferId, Errno};
use fulmar_lnet_wire::Nid;
use fulmar_store::Source;
use fulmar_target::data::Room;

/// Memory that LNet fills or sends. The driver's is that of its buffers.
pub trait Memory: Send + Sync + 'static {
    /// Returns the length in bytes.
    fn size(&self) -> usize;

    /// Writes bytes.
    fn write_at(&self, offset: usize, bytes: &[u8]);

    /// Reads bytes.
    fn read_at(&self, offset: usize, bytes: &mut [u8]);

    /// Returns whether LNet or anybody else still has a handle to the bytes.
    fn is_shared(&self) -> bool;

    /// Returns a part of the memory that moves itself to and from objects.
    ///
    /// # Panics
    /// If it is not within the memory.
    fn part(&self, range: Range<usize>) -> Box<dyn Part>;
}

/// A part of the memory of bulk data.
pub trait Part: Source + Room + Send {}

impl<T: Source + Room + Send> Part for T {}

/// The memory of all bulk data under way, by the name that LNet's descriptors have for it.
///
/// Memory that is given back is used again: new memory costs more than moving the data into it, since
/// the system makes its pages, one after the other.
pub struct Memories<M> {
    make: fn(usize) -> M,
    state: Mutex<State<M>>,
    limit: usize,
}

struct State<M> {
    made: u64,
    taken: usize,
    /// What each node has of it.
    by_node: BTreeMap<Nid, usize>,
    buffers: BTreeMap<BufferId, Arc<M>>,
    /// What is to be used again, by its length.
    free: BTreeMap<usize, Vec<Arc<M>>>,
    free_len: usize,
}

/// Memory that an operation has until it is dropped.
pub struct OperationMemory<M: Memory> {
    memories: Arc<Memories<M>>,
    node: Nid,
    buffer: BufferId,
    memory: Arc<M>,
    len: usize,
}

/// The share of all memory that is kept for later.
const FREE_SHARE: usize = 16;

impl<M: Memory> Memories<M> {
    /// Returns memory of at most `limit` bytes, made by `make` of a length. One node gets at most a
    /// quarter.
    pub fn new(limit: usize, make: fn(usize) -> M) -> Arc<Self> {
        let state = State {
            made: 0,
            taken: 0,
            by_node: BTreeMap::new(),
            buffers: BTreeMap::new(),
            free: BTreeMap::new(),
            free_len: 0,
        };
        Arc::new(Self { make, state: Mutex::new(state), limit })
    }

    /// Allocates memory for data of a node. What it has before they are written is not defined.
    ///
    /// # Errors
    /// EINPROGRESS if too much is in use: the client sends the request again.
    pub fn allocate(self: &Arc<Self>, node: Nid, len: usize) -> Result<OperationMemory<M>, Errno> {
        let whole = len.next_power_of_two();
        let (buffer, used_before) = self.state().take(node, whole, self.limit)?;
        let memory = used_before.unwrap_or_else(|| Arc::new((self.make)(whole)));
        self.state().buffers.insert(buffer, memory.clone());
        Ok(OperationMemory { memories: self.clone(), node, buffer, memory, len })
    }

    /// Returns memory that is in use.
    pub fn get(&self, buffer: BufferId) -> Option<Arc<M>> {
        self.state().buffers.get(&buffer).cloned()
    }

    /// Returns how many bytes are in use.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: Memory> State<M> {
    fn take(
        &mut self,
        node: Nid,
        len: usize,
        limit: usize,
    ) -> Result<(BufferId, Option<Arc<M>>), Errno> {
        let of_node = self.by_node.get(&node).copied().unwrap_or(0);
        if len > limit - self.taken || len > limit / 4 - of_node {
            return Err(Errno::EINPROGRESS);
        }
        self.taken += len;
        self.by_node.insert(node, of_node + len);
        self.made += 1;
        Ok((BufferId(self.made), self.take_free(len)))
    }

    fn take_free(&mut self, len: usize) -> Option<Arc<M>> {
        let memory = self.free.get_mut(&len)?.pop()?;
        self.free_len -= len;
        Some(memory)
    }

    /// Returns what is not kept.
    fn give_back(&mut self, node: Nid, buffer: BufferId, limit: usize) -> Vec<Arc<M>> {
        let Some(memory) = self.buffers.remove(&buffer) else { return vec![] };
        let len = memory.size();
        self.taken -= len;
        if let Entry::Occupied(mut of_node) = self.by_node.entry(node) {
            *of_node.get_mut() -= len;
            if *of_node.get() == 0 {
                of_node.remove();
            }
        }
        // Its operation has one handle to it. There is no other one, unless the target ends.
        if memory.is_shared() || Arc::strong_count(&memory) > 2 {
            return vec![memory];
        }
        let mut dropped = vec![];
        while self.free_len + len > limit / FREE_SHARE {
            // What has another length was not used lately.
            let others = self.free.iter().find(|(other, free)| **other != len && !free.is_empty());
            let Some(other) = others.map(|(other, _)| *other) else {
                dropped.push(memory);
                return dropped;
            };
            dropped.extend(self.take_free(other));
        }
        self.free_len += len;
        self.free.entry(len).or_default().push(memory);
        dropped
    }
}

impl<M: Memory> OperationMemory<M> {
    /// Returns the name, the beginning and the length, as bulk data have them.
    pub fn span(&self) -> (BufferId, u64, u64) {
        (self.buffer, 0, self.len as u64)
    }

    /// Returns the memory, which may be longer.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }
}

impl<M: Memory> Drop for OperationMemory<M> {
    fn drop(&mut self) {
        let Self { memories, node, buffer, .. } = self;
        let dropped = memories.state().give_back(*node, *buffer, memories.limit);
        drop(dropped);
    }
}

impl<M> fmt::Debug for Memories<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memories of {} bytes", self.limit)
    }
}

impl<M: Memory> fmt::Debug for OperationMemory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {:?}", self.memory.size(), self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lnet_wire::Net;

    use super::*;

    impl Memory for Vec<u8> {
        fn size(&self) -> usize {
            self.len()
        }

        fn write_at(&self, _: usize, _: &[u8]) {}

        fn read_at(&self, _: usize, _: &mut [u8]) {}

        fn is_shared(&self) -> bool {
            self[0] == SHARED
        }

        fn part(&self, _: Range<usize>) -> Box<dyn Part> {
            unreachable!("nothing is moved")
        }
    }

    /// Of memory that is in use somewhere.
    const SHARED: u8 = 77;
    const KIB: usize = 1 << 10;

    fn node(n: u32) -> Nid {
        Nid::small(Net::TCP, n)
    }

    fn memories(limit: usize) -> Arc<Memories<Vec<u8>>> {
        Memories::new(limit, |len| vec![0_u8; len])
    }

    #[test]
    fn memory_is_bounded_for_all_and_for_each_node() {
        let memories = memories(512);
        let first = memories.allocate(node(1), 100).unwrap();
        assert_eq!(memories.allocate(node(1), 1).unwrap_err(), Errno::EINPROGRESS);
        let others: Vec<_> = (2..5).map(|n| memories.allocate(node(n), 128).unwrap()).collect();
        assert_eq!(memories.allocate(node(9), 1).unwrap_err(), Errno::EINPROGRESS);
        assert_eq!((first.span().2, memories.get(first.span().0).unwrap().len()), (100, 128));
        let name = first.span().0;
        drop(first);
        assert!(memories.get(name).is_none());
        memories.allocate(node(9), 100).unwrap();
        drop(others);
        assert_eq!((memories.taken(), memories.state().by_node.len()), (0, 0));
    }

    #[test]
    fn memory_is_used_again_when_there_is_no_other_handle() {
        let memories = memories(256 * KIB);
        let place = |memory: &OperationMemory<Vec<u8>>| Arc::as_ptr(memory.memory());
        let first = memories.allocate(node(1), KIB).unwrap();
        let (name, was) = (first.span().0, place(&first));
        drop(first);
        let again = memories.allocate(node(2), KIB - 1).unwrap();
        assert_eq!(place(&again), was);
        assert_ne!(again.span().0, name, "a late post does not find it by the old name");
        let held = again.memory().clone();
        drop(again);
        assert_ne!(place(&memories.allocate(node(1), KIB).unwrap()), Arc::as_ptr(&held));
        assert_eq!(memories.state().free_len, KIB, "what somebody holds is not kept");
    }

    #[test]
    fn memory_that_lnet_has_is_not_used_again() {
        let memories = Memories::new(256 * KIB, |len| vec![SHARED; len]);
        drop(memories.allocate(node(1), KIB).unwrap());
        assert_eq!(memories.taken(), 0);
        assert_eq!(memories.state().free_len, 0);
    }

    #[test]
    fn a_part_of_the_memory_is_kept_and_the_lengths_in_use_displace_others() {
        let memories = memories(256 * KIB);
        let use_some = |count: u32, len| {
            let some: Vec<_> =
                (0..count).map(|n| memories.allocate(node(n), len).unwrap()).collect();
            drop(some);
            let state = memories.state();
            let free = |len| state.free.get(&len).map_or(0, Vec::len);
            let kept = free(KIB) * KIB + free(4 * KIB) * 4 * KIB;
            assert_eq!(kept, state.free_len);
            (free(KIB), free(4 * KIB))
        };
        assert_eq!(use_some(30, KIB), (16, 0));
        assert_eq!(use_some(2, 4 * KIB), (8, 2));
        assert_eq!(use_some(9, 4 * KIB), (0, 4));
        assert_eq!(use_some(30, KIB), (16, 0));
    }
}
