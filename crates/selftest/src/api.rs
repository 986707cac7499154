//! Inputs and outputs of the machine.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{BufferId, Span};
use fulmar_lnet_wire::selftest::Check;
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use crate::console::Answer;
use crate::notice::Notice;

/// Settings of the machine. Defaults are those of the module parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Timeout of an RPC of a test; zero for none.
    pub rpc_timeout: Duration,
    /// A node leaves a session after this silence of its console; zero for never.
    pub session_timeout: Duration,
    /// How many words this node damages deliberately, to test their detection.
    #[doc(alias = "brw_inject_errors")]
    pub inject_errors: u32,
    /// Nanoseconds of wall clock since 1970 at [`Time::ZERO`](fulmar_base::Time::ZERO).
    pub wall_clock: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rpc_timeout: Duration::from_secs(64),
            session_timeout: Duration::from_secs(100),
            inject_errors: 0,
            wall_clock: 0,
        }
    }
}

impl Config {
    /// Returns the timeout of an RPC of a test; `None` for none.
    pub(crate) fn load_timeout(&self) -> Option<Duration> {
        (!self.rpc_timeout.is_zero()).then_some(self.rpc_timeout)
    }
}

/// An LNet operation of the machine. It ends with exactly one
/// [`handle_done`](crate::Selftest::handle_done); its ID is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// A query to the owner, answered once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// A command of an administrator, answered once by [`Output::Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Access that offered memory allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Store data.
    Put,
    /// Fetch data.
    Get,
}

/// Initial contents of allocated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contents {
    /// Zeros, which fail every check; later any received data.
    Zeros,
    /// Words that pass every check.
    Good,
}

/// A request received by one of the services.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The match bits: the number of the service.
    pub service: u64,
    /// Sender and target of the reply. Its NID is that of the header, not a primary NID.
    pub from: ProcessId,
    /// Local NID that received the request: the source of the reply.
    pub to: Nid,
    /// The message.
    pub bytes: &'a [u8],
}

/// Actions and information for the owner, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Accept one message of up to 160 bytes by PUT from a process at the bulk portal. Done with
    /// the bytes of the message.
    OfferReply {
        /// ID of the offer.
        id: OperationId,
        /// The allowed process.
        from: ProcessId,
        /// Match bits.
        match_bits: u64,
    },
    /// Let a process store into or fetch from memory at the bulk portal, once. Done with the
    /// number of bytes.
    OfferBulk {
        /// ID of the offer.
        id: OperationId,
        /// The allowed process.
        from: ProcessId,
        /// Match bits.
        match_bits: u64,
        /// The allowed access.
        access: Access,
        /// The memory.
        span: Span,
    },
    /// Let a process fetch a few bytes at the bulk portal, once. Done with the number of bytes.
    OfferBytes {
        /// ID of the offer.
        id: OperationId,
        /// The allowed process.
        from: ProcessId,
        /// Match bits.
        match_bits: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// Cancel an operation. It is done when its memory is no longer used: with ECANCELED, or as
    /// if it had not been cancelled. Never for a completed operation.
    Withdraw {
        /// The operation.
        id: OperationId,
    },
    /// PUT 160 bytes to a portal of a process, without acknowledgement. Done when sent.
    Send {
        /// ID of the operation.
        id: OperationId,
        /// The source NID, if it must be this one.
        source: Option<Nid>,
        /// The target.
        target: ProcessId,
        /// The portal.
        portal: u32,
        /// Match bits.
        match_bits: u64,
        /// The message.
        bytes: Arc<[u8]>,
    },
    /// PUT memory to the bulk portal of a process, without acknowledgement. Done when sent.
    PutBulk {
        /// ID of the operation.
        id: OperationId,
        /// The source NID.
        source: Nid,
        /// The target.
        target: ProcessId,
        /// Match bits.
        match_bits: u64,
        /// The memory.
        span: Span,
    },
    /// GET memory from the bulk portal of a process. Done with the number of bytes received.
    GetBulk {
        /// ID of the operation.
        id: OperationId,
        /// The source NID.
        source: Nid,
        /// The target.
        target: ProcessId,
        /// Match bits.
        match_bits: u64,
        /// The memory.
        span: Span,
    },
    /// GET a few bytes from the bulk portal of a process. Done with the bytes.
    GetBytes {
        /// ID of the operation.
        id: OperationId,
        /// The source NID.
        source: Nid,
        /// The target.
        target: ProcessId,
        /// Match bits.
        match_bits: u64,
        /// Maximum number of bytes.
        len: u32,
    },
    /// Report the counters of LNet with [`handle_counted`](crate::Selftest::handle_counted).
    Count {
        /// ID of the query.
        id: QuestionId,
    },
    /// Perform a task that does not involve LNet.
    Task(Task),
    /// A command has ended.
    Answer {
        /// ID of the command.
        command: CommandId,
        /// The answer.
        answer: Answer,
    },
    /// A notice for the log.
    Notice(Notice),
}

/// Tasks of the owner that do not involve LNet. The highest bit is set in the buffer IDs of the
/// machine, so that the owner can use others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Allocate memory, with an ID that was never used before.
    Allocate {
        /// ID of the buffer.
        buffer: BufferId,
        /// Length in bytes.
        len: u32,
        /// Initial contents.
        contents: Contents,
    },
    /// Free memory that is no longer in use.
    Release {
        /// ID of the buffer.
        buffer: BufferId,
    },
    /// Damage one word of memory with good data, by addition.
    Damage {
        /// The 8 bytes of the word.
        span: Span,
        /// The number to add.
        add: u64,
    },
    /// Compare memory with good data, then poison it; report with
    /// [`handle_checked`](crate::Selftest::handle_checked).
    Check {
        /// ID of the query.
        id: QuestionId,
        /// The memory.
        span: Span,
        /// Extent of the check.
        check: Check,
        /// The byte order of the sender of the data.
        order: Order,
    },
    /// Report the resource usage of the node with
    /// [`handle_measured`](crate::Selftest::handle_measured).
    Measure {
        /// ID of the query.
        id: QuestionId,
    },
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationResult {
    /// Number of bytes transferred.
    pub len: u32,
    /// The bytes, for [`Output::OfferReply`] and [`Output::GetBytes`].
    pub bytes: Vec<u8>,
}
