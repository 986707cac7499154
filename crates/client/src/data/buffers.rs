//! The memory of cached data, used again.
//!
//! New memory costs more than moving data into it, since the system makes its pages one after the other.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Span};
use fulmar_net::{Buffer, Slice};

/// What is kept to be used again, in bytes.
const FREE_MAX: usize = 32 << 20;

/// The buffers of a cache, by the names it has for them.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    used: BTreeMap<BufferId, Buffer>,
    /// By length.
    free: BTreeMap<usize, Vec<Buffer>>,
    free_len: usize,
}

impl Buffers {
    /// Makes a buffer, whose bytes may be anything.
    pub(super) fn allocate(&mut self, id: BufferId, len: usize) {
        let used_before = self.free.get_mut(&len).and_then(Vec::pop);
        if used_before.is_some() {
            self.free_len -= len;
        }
        self.used.insert(id, used_before.unwrap_or_else(|| Buffer::new(len)));
    }

    /// Gives a buffer up. It is used again if there is no other handle to its bytes.
    pub(super) fn release(&mut self, id: BufferId) {
        let Some(buffer) = self.used.remove(&id) else { return };
        let len = buffer.len();
        if !buffer.is_shared() && self.free_len + len <= FREE_MAX {
            self.free_len += len;
            self.free.entry(len).or_default().push(buffer);
        }
    }

    /// Returns a part of a buffer, which shares its bytes.
    pub(super) fn slice(&self, span: Span) -> Option<Slice> {
        let from = usize::try_from(span.offset).ok()?;
        Some(self.used.get(&span.buffer)?.slice(from..from + span.len as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn whole(buffers: &Buffers, id: u64) -> Slice {
        buffers.slice(Span { buffer: BufferId(id), offset: 0, len: 1 << 20 }).unwrap()
    }

    #[test]
    fn a_buffer_is_used_again_unless_somebody_has_its_bytes() {
        let mut buffers = Buffers::default();
        buffers.allocate(BufferId(1), MIB);
        whole(&buffers, 1).write_at(0, b"old");
        buffers.release(BufferId(1));
        buffers.allocate(BufferId(2), MIB);
        let mut bytes = [0; 3];
        let reader = whole(&buffers, 2);
        reader.read_at(0, &mut bytes);
        assert_eq!(&bytes, b"old", "it is the same memory");
        buffers.release(BufferId(2));
        buffers.allocate(BufferId(3), MIB);
        whole(&buffers, 3).write_at(0, b"new");
        reader.read_at(0, &mut bytes);
        assert_eq!(&bytes, b"old", "what a reader has does not change");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut buffers = Buffers::default();
        let ids = || (0..64).map(BufferId);
        ids().for_each(|id| buffers.allocate(id, MIB));
        ids().for_each(|id| buffers.release(id));
        assert_eq!(buffers.free_len, FREE_MAX);
        assert_eq!(buffers.free[&MIB].len(), FREE_MAX / MIB);
        ids().for_each(|id| buffers.allocate(id, MIB));
        assert_eq!(buffers.free_len, 0);
    }
}
