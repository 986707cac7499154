//! What a cache keeps: files, objects, targets, operations, RPCs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use fulmar_base::{BufferId, Errno, Time};

use super::api::{FileId, LockKey, OpId, OpenId, RpcId};
use crate::dirty::{Dirty, Extent};
use crate::grants::{Grants, Terms};
use crate::pages::{Memory, Pages};
use crate::reader::Reader;
use crate::stripes::{Layout, Object, Target};
use crate::window::{Ticket, Window};
use crate::writer::Busy;

#[derive(Debug)]
pub(super) struct File {
    pub(super) layout: Layout,
    /// All objects that it has, or has had.
    pub(super) objects: BTreeSet<Object>,
    /// Where its objects are.
    pub(super) targets: BTreeSet<Target>,
    /// How many times it is open.
    pub(super) opens: u32,
    pub(super) size: u64,
    /// Whether writes wait until they are on disk: the owner is over its quota.
    pub(super) is_synchronous: bool,
    /// How many writes have failed, and the last error.
    pub(super) failed: (u64, Option<Errno>),
}

impl File {
    pub(super) fn new(size: u64) -> Self {
        Self {
            layout: Layout::none(),
            objects: BTreeSet::new(),
            targets: BTreeSet::new(),
            opens: 0,
            size,
            is_synchronous: false,
            failed: (0, None),
        }
    }
}

#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: FileId,
    pub(super) reader: Reader,
    /// How many failed writes it has been told of.
    pub(super) seen: u64,
}

/// How urgent the dirty data of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// A lock waits for them.
    High,
    /// Somebody waits for them.
    Urgent,
    /// They fill an RPC.
    Full,
}

/// What is cached of an object.
#[derive(Debug)]
pub(super) struct CachedObject {
    pub(super) file: FileId,
    pub(super) pages: Pages,
    pub(super) dirty: Dirty,
    /// The end of what was written and accepted, under locks that are held.
    pub(super) end: u64,
    /// The same of what is at the target.
    pub(super) stored: u64,
    pub(super) busy: Busy,
    /// The writes in flight, with the number of the oldest data in each.
    pub(super) writing: BTreeMap<RpcId, u64>,
    pub(super) locks: BTreeMap<LockKey, Lock>,
    /// What was written up to these numbers is urgent, or waited for by a lock.
    pub(super) urgent: u64,
    pub(super) high: u64,
    /// The operations that wait until what was written up to a number is at the target.
    pub(super) flushes: Vec<(OpId, u64)>,
    pub(super) arena: Option<Arena>,
    /// The size of the last arena.
    pub(super) arena_len: u64,
    /// Its places in the queue and in the order of age of its target.
    pub(super) queued: Option<(Priority, u64)>,
    pub(super) aged: Option<u64>,
}

impl CachedObject {
    pub(super) fn new(file: FileId) -> Self {
        Self {
            file,
            pages: Pages::default(),
            dirty: Dirty::default(),
            end: 0,
            stored: 0,
            busy: Busy::default(),
            writing: BTreeMap::new(),
            locks: BTreeMap::new(),
            urgent: 0,
            high: 0,
            flushes: Vec::new(),
            arena: None,
            arena_len: 0,
            queued: None,
            aged: None,
        }
    }

    /// Returns the part of a range from its start that locks cover.
    pub(super) fn covered(&self, range: Range<u64>) -> Range<u64> {
        let mut end = range.start;
        // Each round extends it by one lock at least.
        while let Some(lock) = self.locks.values().find(|lock| lock.range.contains(&end)) {
            end = lock.range.end;
            if end >= range.end {
                return range;
            }
        }
        range.start..end
    }

    /// Returns the parts of a range that no lock covers, or with `writes`, no lock for writing.
    pub(super) fn uncovered(&self, range: Range<u64>, writes: bool) -> Vec<Range<u64>> {
        let locks = self.locks.values().filter(|lock| lock.is_write || !writes);
        let mut locks: Vec<_> = locks.map(|lock| lock.range.clone()).collect();
        locks.sort_by_key(|lock| lock.start);
        let (mut at, mut parts) = (range.start, Vec::new());
        for lock in locks {
            if at < lock.start.min(range.end) {
                parts.push(at..lock.start.min(range.end));
            }
            at = at.max(lock.end);
        }
        if at < range.end {
            parts.push(at..range.end);
        }
        parts
    }

    /// Returns whether all that was written up to a number is at the target, or is dropped.
    pub(super) fn is_settled(&self, order: u64, only_sent: bool) -> bool {
        let sent = self.writing.values().all(|&oldest| oldest > order);
        sent && (only_sent || self.dirty.oldest().is_none_or(|(oldest, _)| oldest > order))
    }

    /// What was written is known up to this byte at most.
    pub(super) fn limit(&mut self, end: u64) {
        (self.end, self.stored) = (self.end.min(end), self.stored.min(end));
    }

    /// Returns whether something is dirty or being written.
    pub(super) fn is_dirty(&self) -> bool {
        !self.writing.is_empty() || self.dirty.oldest().is_some()
    }
}

/// A lock that covers data.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) range: Range<u64>,
    /// Whether data under it may be dirty.
    pub(super) is_write: bool,
}

/// A buffer that small writes fill one after the other, wherever they go in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    pub(super) buffer: BufferId,
    pub(super) used: u64,
    pub(super) len: u64,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) is_connected: bool,
    pub(super) grants: Grants,
    pub(super) reads: Window,
    pub(super) writes: Window,
    /// Reads to be sent; those that somebody waits for come first.
    pub(super) to_read: BTreeSet<(bool, RpcId)>,
    /// The objects with data to be written at once, in turn.
    pub(super) to_write: BTreeSet<(Priority, u64, Object)>,
    /// All objects with dirty data, by their oldest.
    pub(super) aged: BTreeSet<(u64, Object)>,
    /// Writers that wait, in order.
    pub(super) waiters: VecDeque<OpId>,
    /// What is dirty, being written, or about to be filled, in bytes.
    pub(super) dirty: u64,
    /// When it was used last.
    pub(super) used: Time,
}

/// The size of RPCs of a target that was never connected.
const RPC_SIZE: u64 = 1 << 20;

impl Server {
    pub(super) fn new(fixed: Option<u32>) -> Self {
        let terms = Terms::pages(RPC_SIZE);
        Self {
            is_connected: false,
            grants: Grants::new(terms),
            reads: Window::new(RPC_SIZE, fixed),
            writes: Window::new(RPC_SIZE, fixed),
            to_read: BTreeSet::new(),
            to_write: BTreeSet::new(),
            aged: BTreeSet::new(),
            waiters: VecDeque::new(),
            dirty: 0,
            used: Time::ZERO,
        }
    }

    /// Returns what all writes in flight and one more carry, in bytes.
    pub(super) fn in_window(&self) -> u64 {
        self.grants.terms().rpc_size * (self.writes.rpcs() + 1)
    }
}

/// What a read or a flush waits for, or what a write does.
#[derive(Debug)]
pub(super) enum Op {
    Read(Read),
    Write(Write),
    Flush(Flush),
}

#[derive(Debug)]
pub(super) struct Read {
    pub(super) open: OpenId,
    pub(super) file: FileId,
    pub(super) range: Range<u64>,
    /// Whether what it has read may be read again.
    pub(super) again: bool,
    pub(super) waits: BTreeSet<RpcId>,
    /// Whether it waits for memory.
    pub(super) is_queued: bool,
    /// The buffers that it needs.
    pub(super) pins: Vec<BufferId>,
    pub(super) error: Option<Errno>,
}

#[derive(Debug)]
pub(super) struct Write {
    pub(super) open: OpenId,
    pub(super) file: FileId,
    /// What is left.
    pub(super) range: Range<u64>,
    pub(super) filling: Option<Fragment>,
    pub(super) is_durable: bool,
    /// The end of what was accepted from its start on without waiting, and the start.
    pub(super) accepted: u64,
    pub(super) start: u64,
    /// The objects that it has to wait for.
    pub(super) waits: BTreeSet<Object>,
    /// How many writes of the file had failed before it.
    pub(super) failures: u64,
}

impl Write {
    /// Returns how many bytes from the start on were accepted.
    pub(super) fn len(&self) -> u64 {
        self.accepted - self.start
    }
}

/// A part of a write that has its memory.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) object: Object,
    pub(super) range: Range<u64>,
    pub(super) memory: Memory,
    pub(super) reserved: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Flush {
    pub(super) then: AfterFlush,
    pub(super) pending: BTreeSet<Object>,
}

/// What follows a flush.
#[derive(Clone, Debug)]
pub(super) enum AfterFlush {
    /// Nothing.
    Nothing,
    /// The open file is told of failed writes.
    Report(OpenId),
    /// A write has ended, of this range, of which so many bytes were accepted before.
    Write {
        open: OpenId,
        range: Range<u64>,
        accepted: u64,
        /// How many writes of the file had failed before it.
        failures: u64,
    },
    /// A write goes on with its next part.
    Part(OpId),
    /// What a lock protected is dropped.
    Drop(Object, Range<u64>),
    /// What was in a range of the file is dropped, of which only what was sent already is waited for.
    Cut(FileId, Range<u64>),
    /// The same after all of it is written.
    Punch(FileId, Range<u64>),
}

impl AfterFlush {
    /// Returns the open file that waits for it.
    pub(super) fn open(&self) -> Option<OpenId> {
        match self {
            Self::Report(open) | Self::Write { open, .. } => Some(*open),
            _ => None,
        }
    }
}

/// An RPC.
#[derive(Debug)]
pub(super) struct RpcState {
    pub(super) object: Object,
    pub(super) ticket: Option<Ticket>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Read {
        range: Range<u64>,
        /// One for each MiB.
        buffers: Vec<(Range<u64>, BufferId)>,
        /// Whether it had no reader.
        is_ahead: bool,
        waiters: Vec<OpId>,
    },
    Write {
        extents: Vec<(Range<u64>, Extent)>,
        pins: Vec<BufferId>,
    },
    /// A write that is not on disk.
    Kept {
        cost: u64,
        bytes: u64,
        pins: Vec<BufferId>,
    },
}

/// What happens later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Age(Target),
    Shrink(Target),
}
