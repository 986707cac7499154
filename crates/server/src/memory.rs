//! Memory of bulk data.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::{BufferId, Errno};
use fulmar_lnet_wire::Nid;
use fulmar_ost::Room;
use fulmar_store::Source;

/// Memory that LNet fills or sends. The driver's is that of its buffers.
pub trait Memory: Send + Sync + 'static {
    /// Returns the length in bytes.
    fn size(&self) -> usize;

    /// Writes bytes.
    fn write_at(&self, offset: usize, bytes: &[u8]);

    /// Reads bytes.
    fn read_at(&self, offset: usize, bytes: &mut [u8]);

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
}

/// Memory that an operation has until it is dropped.
pub struct Moved<M: Memory> {
    memories: Arc<Memories<M>>,
    node: Nid,
    buffer: BufferId,
    memory: Arc<M>,
}

impl<M: Memory> Memories<M> {
    /// Returns memory of at most `limit` bytes, made by `make` of a length. One node gets at most a
    /// quarter.
    pub fn new(limit: usize, make: fn(usize) -> M) -> Arc<Self> {
        let (made, taken) = (0, 0);
        let state = State { made, taken, by_node: BTreeMap::new(), buffers: BTreeMap::new() };
        Arc::new(Self { make, state: Mutex::new(state), limit })
    }

    /// Allocates memory for data of a node.
    ///
    /// # Errors
    /// EINPROGRESS if too much is in use: the client sends the request again.
    pub fn allocate(self: &Arc<Self>, node: Nid, len: usize) -> Result<Moved<M>, Errno> {
        let buffer = self.state().take(node, len, self.limit)?;
        let memory = Arc::new((self.make)(len));
        self.state().buffers.insert(buffer, memory.clone());
        Ok(Moved { memories: self.clone(), node, buffer, memory })
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

impl<M> State<M> {
    fn take(&mut self, node: Nid, len: usize, limit: usize) -> Result<BufferId, Errno> {
        let of_node = self.by_node.get(&node).copied().unwrap_or(0);
        if len > limit - self.taken || len > limit / 4 - of_node {
            return Err(Errno::EINPROGRESS);
        }
        self.taken += len;
        self.by_node.insert(node, of_node + len);
        self.made += 1;
        Ok(BufferId(self.made))
    }

    fn give_back(&mut self, node: Nid, len: usize, buffer: BufferId) {
        self.taken -= len;
        self.buffers.remove(&buffer);
        if let Entry::Occupied(mut of_node) = self.by_node.entry(node) {
            *of_node.get_mut() -= len;
            if *of_node.get() == 0 {
                of_node.remove();
            }
        }
    }
}

impl<M: Memory> Moved<M> {
    /// Returns the name, the beginning and the length, as bulk data have them.
    pub fn span(&self) -> (BufferId, u64, u64) {
        (self.buffer, 0, self.memory.size() as u64)
    }

    /// Returns the memory.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }
}

impl<M: Memory> Drop for Moved<M> {
    fn drop(&mut self) {
        self.memories.state().give_back(self.node, self.memory.size(), self.buffer);
    }
}

impl<M> fmt::Debug for Memories<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memories of {} bytes", self.limit)
    }
}

impl<M: Memory> fmt::Debug for Moved<M> {
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

        fn part(&self, _: Range<usize>) -> Box<dyn Part> {
            unreachable!("nothing is moved")
        }
    }

    #[test]
    fn memory_is_bounded_for_all_and_for_each_node() {
        let memories = Memories::new(400, |len| vec![0_u8; len]);
        let node = |n| Nid::small(Net::TCP, n);
        let first = memories.allocate(node(1), 100).unwrap();
        assert_eq!(memories.allocate(node(1), 1).unwrap_err(), Errno::EINPROGRESS);
        let others: Vec<_> = (2..5).map(|n| memories.allocate(node(n), 100).unwrap()).collect();
        assert_eq!(memories.allocate(node(9), 1).unwrap_err(), Errno::EINPROGRESS);
        assert_eq!(memories.get(first.span().0).unwrap().len(), 100);
        let name = first.span().0;
        drop(first);
        assert!(memories.get(name).is_none());
        memories.allocate(node(9), 100).unwrap();
        drop(others);
        assert_eq!((memories.taken(), memories.state().by_node.len()), (0, 0));
    }
}
