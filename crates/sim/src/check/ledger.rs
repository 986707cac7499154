//! The operations of the workload: what is expected, and what was observed.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Span, Time};
use fulmar_lnet::{Event, EventDone, Md, MdId};
use fulmar_lnet_wire::Nid;

use crate::HostId;

/// An MD of one incarnation of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MdKey {
    /// The node.
    pub host: HostId,
    /// The incarnation of the node.
    pub incarnation: u32,
    /// The MD.
    pub md: MdId,
}

/// An MD as it was created, and its state.
#[derive(Clone, Debug)]
pub struct MdRecord {
    /// The MD as it was created.
    pub made: Md,
    /// The operation of its initiator, if any.
    pub operation: Option<usize>,
    /// Number of its operation events.
    pub events: u32,
    /// Whether it is unlinked.
    pub unlinked: bool,
    /// Whether the workload has unlinked it.
    pub unlink_asked: bool,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A PUT.
    Put {
        /// Whether it requests an ACK.
        ack: bool,
    },
    /// A GET.
    Get,
}

/// The expected result of an operation without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// So many bytes are transferred.
    Moved(u32),
    /// The target receives the message and drops it.
    Dropped,
    /// It is cancelled while in progress: any result is allowed.
    Anything,
}

/// One PUT or GET.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its kind.
    pub action: Action,
    /// The initiator's MD.
    pub md: MdKey,
    /// The target.
    pub target: HostId,
    /// Whether the target is a node, and not a hostile host.
    pub honest: bool,
    /// When it started.
    pub started: Time,
    /// It goes to `0@lo`.
    pub loopback: bool,
    /// The portal.
    pub portal: u32,
    /// The match bits.
    pub match_bits: u64,
    /// The header data, unique in the run.
    pub header_data: u64,
    /// The initiator's memory.
    pub local: Span,
    /// The buffer and offset from which a GET reads.
    pub remote: Option<(BufferId, u64)>,
    /// The expected result.
    pub expect: Expect,
    /// Whether an ACK or a REPLY must arrive.
    pub answer: bool,
    /// The source NID, if one is given, and the target NID.
    pub pair: Option<(Option<Nid>, Nid)>,
    /// The observed state.
    pub seen: Observation,
}

/// The observed state of an operation.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Number of SEND events.
    pub sends: u32,
    /// Whether the SEND succeeded.
    pub send_ok: bool,
    /// Number of ACKs or REPLYs at the initiator.
    pub responses: u32,
    /// Whether the response succeeded.
    pub response_ok: bool,
    /// Number of events at the target.
    pub served: u32,
    /// Bytes that the target accepted.
    pub accepted: u32,
    /// The target's event that must be handled before the ACK.
    pub handling: Option<EventDone>,
    /// Whether the initiator's MD is unlinked.
    pub over: bool,
    /// Whether the initiator has crashed.
    pub lost: bool,
}

impl Observation {
    /// Returns whether the operation is over.
    pub fn is_over(&self) -> bool {
        self.over || self.lost
    }
}

/// All operations and MDs.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The operations, in the order in which they started.
    pub operations: Vec<Operation>,
    /// The MDs.
    pub mds: BTreeMap<MdKey, MdRecord>,
    by_header_data: BTreeMap<u64, usize>,
    by_match_bits: BTreeMap<u64, usize>,
}

impl Ledger {
    /// Records an MD.
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

    /// Returns the operation of an event at its initiator.
    pub(crate) fn own_operation(
        &self,
        host: HostId,
        incarnation: u32,
        event: &Event,
    ) -> Option<usize> {
        self.mds.get(&MdKey { host, incarnation, md: event.md })?.operation
    }

    /// Marks the operations of a crashed node as lost, and its MDs as unlinked.
    pub(crate) fn crashed(&mut self, host: HostId) {
        for operation in self.operations.iter_mut().filter(|operation| !operation.seen.over) {
            operation.seen.lost |= operation.md.host == host;
        }
        for (_, record) in self.mds.iter_mut().filter(|(key, _)| key.host == host) {
            record.unlinked = true;
        }
    }

    /// Returns the number of operations in progress.
    pub fn pending(&self) -> usize {
        self.operations.iter().filter(|operation| !operation.seen.is_over()).count()
    }
}

#[cfg(test)]
impl Ledger {
    /// Returns a ledger with PUTs between the first two nodes, by their header data.
    pub(crate) fn with_puts(all: &[u64]) -> Self {
        let mut ledger = Self::default();
        for &header_data in all {
            let md = MdKey { host: HostId(0), incarnation: 0, md: MdId(header_data) };
            ledger.declare(Operation {
                action: Action::Put { ack: false },
                md,
                target: HostId(1),
                honest: true,
                started: Time::ZERO,
                loopback: false,
                portal: 12,
                match_bits: header_data,
                header_data,
                local: Span { buffer: BufferId(1), offset: 0, len: 10 },
                remote: None,
                expect: Expect::Moved(10),
                answer: false,
                pair: None,
                seen: Observation::default(),
            });
        }
        ledger
    }
}
