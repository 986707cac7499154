//! What the workload meant to happen, and what has happened of it.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Span};
use fulmar_lnet::{Event, EventDone, Md, MdId};
use fulmar_lnet_wire::Nid;

use crate::HostId;

/// A memory descriptor of one life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MdKey {
    /// The node.
    pub host: HostId,
    /// Which life of it.
    pub life: u32,
    /// The descriptor.
    pub md: MdId,
}

/// A descriptor as it was made, and what became of it.
#[derive(Clone, Debug)]
pub struct MdRecord {
    /// As it was made.
    pub made: Md,
    /// The operation that it is for, if it is for one only.
    pub operation: Option<usize>,
    /// How many operation events it has had.
    pub events: u32,
    /// It has had its last event.
    pub unlinked: bool,
    /// The workload has unlinked it.
    pub unlink_asked: bool,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A PUT, and whether it wants an ACK.
    Put {
        /// Whether it does.
        ack: bool,
    },
    /// A GET.
    Get,
}

/// What must become of an operation if nothing goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// So many bytes are moved.
    Moved(u32),
    /// The target takes the message and drops it.
    Dropped,
    /// It is cancelled on the way: anything may be.
    Anything,
}

/// One PUT or GET.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it does.
    pub action: Action,
    /// The initiator's descriptor.
    pub md: MdKey,
    /// The target.
    pub target: HostId,
    /// It goes to `0@lo`.
    pub loopback: bool,
    /// The portal.
    pub portal: u32,
    /// What must match.
    pub match_bits: u64,
    /// Unique in the run.
    pub header_data: u64,
    /// The initiator's memory.
    pub local: Span,
    /// Where a GET reads: the beginning of what it asks for.
    pub remote: Option<(BufferId, u64)>,
    /// What must become of it.
    pub expect: Expect,
    /// Whether an ACK or a REPLY must come.
    pub answer: bool,
    /// The NID that it must come from, if one is given, and the NID that was addressed.
    pub pair: Option<(Option<Nid>, Nid)>,
    /// What has become of it.
    pub seen: Seen,
}

/// What has become of an operation.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// SEND events.
    pub sends: u32,
    /// Whether the SEND succeeded.
    pub send_ok: bool,
    /// ACKs or REPLYs seen by the initiator.
    pub responses: u32,
    /// Whether the response was good.
    pub response_ok: bool,
    /// Events at the target.
    pub served: u32,
    /// Bytes that the target took.
    pub accepted: u32,
    /// What the target's handler is to be done with before the ACK.
    pub handling: Option<EventDone>,
    /// The initiator's descriptor has had its last event.
    pub over: bool,
    /// The initiator died.
    pub lost: bool,
}

impl Seen {
    /// Returns whether nothing more can come of the operation.
    pub fn is_over(&self) -> bool {
        self.over || self.lost
    }
}

/// Everything that was begun.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The operations, in the order in which they were begun.
    pub operations: Vec<Operation>,
    /// The descriptors.
    pub mds: BTreeMap<MdKey, MdRecord>,
    by_header_data: BTreeMap<u64, usize>,
    by_match_bits: BTreeMap<u64, usize>,
}

impl Ledger {
    /// Records a descriptor.
    pub(crate) fn declare_md(&mut self, key: MdKey, made: Md, operation: Option<usize>) {
        let record = MdRecord { made, operation, events: 0, unlinked: false, unlink_asked: false };
        self.mds.insert(key, record);
    }

    /// Records an operation under the next number.
    pub fn declare(&mut self, operation: Operation) -> usize {
        let number = self.operations.len();
        self.by_header_data.insert(operation.header_data, number);
        self.by_match_bits.insert(operation.match_bits, number);
        self.operations.push(operation);
        number
    }

    /// Returns the PUT with that header data.
    pub(crate) fn put_of(&self, header_data: u64) -> Option<usize> {
        self.by_header_data.get(&header_data).copied()
    }

    /// Returns the operation with those match bits.
    pub(crate) fn operation_of(&self, match_bits: u64) -> Option<usize> {
        self.by_match_bits.get(&match_bits).copied()
    }

    /// Returns the operation whose initiator has this event.
    pub(crate) fn own_operation(&self, host: HostId, life: u32, event: &Event) -> Option<usize> {
        self.mds.get(&MdKey { host, life, md: event.md })?.operation
    }

    /// Forgets what a node that died had begun.
    pub(crate) fn crashed(&mut self, host: HostId) {
        for operation in self.operations.iter_mut().filter(|operation| !operation.seen.over) {
            operation.seen.lost |= operation.md.host == host;
        }
        for (_, record) in self.mds.iter_mut().filter(|(key, _)| key.host == host) {
            record.unlinked = true;
        }
    }

    /// Returns how many operations are still under way.
    pub fn pending(&self) -> usize {
        self.operations.iter().filter(|operation| !operation.seen.is_over()).count()
    }
}
