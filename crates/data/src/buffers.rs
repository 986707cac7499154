//! The buffers that contain the data, and who needs them.
//!
//! A buffer is *pinned* by what must not lose it: dirty data, an RPC, a reader, a write that is being filled.
//! Without pins it is kept as long as cached data are in it and the memory is not needed. Bytes of a
//! buffer are written once, by the network or by a writer, and never changed: so readers and RPCs can use them
//! together, also a replay. Something new gets new bytes.

use std::collections::{BTreeSet, VecDeque};

use fulmar_base::{BufferId, Table};

use crate::budget::{Budget, Class};
use crate::stripes::Object;

/// The largest buffer: one part of a transfer.
pub(crate) const BUFFER_MAX: u64 = 1 << 20;

/// What the host does about memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Allocate(BufferId, u64),
    Release(BufferId),
}

#[derive(Debug)]
struct Buffer {
    len: u64,
    class: Class,
    object: Object,
    pins: u32,
    /// How many cached pieces are in it.
    pieces: u32,
    /// Its place in the order of those without pins.
    rank: Rank,
}

/// Whether somebody may want it again, and when it was used last: the least is given up first.
type Rank = (bool, u64);

/// All buffers.
#[derive(Debug)]
pub(crate) struct Buffers {
    budget: Budget,
    table: Table<Buffer>,
    idle: BTreeSet<(Rank, BufferId)>,
    clock: u64,
    changes: VecDeque<Change>,
}

impl Buffers {
    pub(crate) fn new(total: u64) -> Self {
        let (table, idle, changes) = (Table::default(), BTreeSet::new(), VecDeque::new());
        Self { budget: Budget::new(total), table, idle, clock: 0, changes }
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(crate) fn resize(&mut self, total: u64) {
        self.budget.resize(total);
    }

    /// Returns a new buffer with one pin, unless the budget has no room for it.
    pub(crate) fn allocate(&mut self, class: Class, len: u64, object: Object) -> Option<BufferId> {
        if !self.budget.take(class, len) {
            return None;
        }
        self.clock += 1;
        let rank = (true, self.clock);
        let buffer = Buffer { len, class, object, pins: 1, pieces: 0, rank };
        let id = BufferId(self.table.insert(buffer));
        self.changes.push_back(Change::Allocate(id, len));
        Some(id)
    }

    pub(crate) fn pin(&mut self, id: BufferId) {
        let buffer = self.table.get_mut(id.0).expect("a pinned buffer exists");
        buffer.pins += 1;
        if buffer.pins == 1 {
            self.idle.remove(&(buffer.rank, id));
        }
    }

    pub(crate) fn unpin(&mut self, id: BufferId) {
        let buffer = self.table.get_mut(id.0).expect("a pinned buffer exists");
        buffer.pins = buffer.pins.checked_sub(1).expect("a pin ends once");
        if buffer.pins > 0 {
            return;
        }
        if buffer.pieces == 0 {
            return self.release(id);
        }
        if buffer.class != Class::Speculation {
            self.budget.demote(buffer.class, buffer.len);
            buffer.class = Class::Speculation;
        }
        self.idle.insert((buffer.rank, id));
    }

    pub(crate) fn add_piece(&mut self, id: BufferId) {
        self.table.get_mut(id.0).expect("the buffer of a piece exists").pieces += 1;
    }

    pub(crate) fn drop_piece(&mut self, id: BufferId) {
        let buffer = self.table.get_mut(id.0).expect("the buffer of a piece exists");
        buffer.pieces = buffer.pieces.checked_sub(1).expect("a piece ends once");
        if (buffer.pins, buffer.pieces) == (0, 0) {
            self.idle.remove(&(buffer.rank, id));
            self.release(id);
        }
    }

    /// Somebody has read it. `again`: it may be read again; otherwise it is the first to be given up.
    pub(crate) fn touch(&mut self, id: BufferId, again: bool) {
        self.clock += 1;
        let buffer = self.table.get_mut(id.0).expect("a used buffer exists");
        let is_idle = self.idle.remove(&(buffer.rank, id));
        buffer.rank = (again, self.clock);
        if is_idle {
            self.idle.insert((buffer.rank, id));
        }
    }

    /// Returns the buffer to be given up first. The pieces in it are to be dropped.
    pub(crate) fn coldest(&self) -> Option<(BufferId, Object)> {
        let (_, id) = self.idle.first()?;
        Some((*id, self.table.get(id.0).expect("an idle buffer exists").object))
    }

    fn release(&mut self, id: BufferId) {
        let buffer = self.table.remove(id.0).expect("a buffer is released once");
        self.budget.give(buffer.class, buffer.len);
        self.changes.push_back(Change::Release(id));
    }

    pub(crate) fn poll(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
