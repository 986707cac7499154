//! The words in which the machine and its owner talk.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{BufferId, Span};
use fulmar_lnet_wire::selftest::Check;
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_wire::Order;

use crate::console::Answer;
use crate::notice::Notice;

/// Settings of the machine. Defaults are those of the module's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long an RPC of a test may take; zero for ever.
    pub rpc_timeout: Duration,
    /// After how long a silence of its console a node leaves a session; zero for never.
    pub session_timeout: Duration,
    /// How many words this node damages on purpose, to see them found.
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
    /// Returns how long an RPC of a test may take; `None` for ever.
    pub(crate) fn load_timeout(&self) -> Option<Duration> {
        (!self.rpc_timeout.is_zero()).then_some(self.rpc_timeout)
    }
}

/// Something that LNet does for the machine. It ends with exactly one
/// [`handle_done`](crate::Selftest::handle_done), and is then never named again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// A question to the owner, answered once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u64);

/// A command of an administrator, answered once by [`Output::Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// What others may do with memory that is offered to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Store into it.
    Put,
    /// Fetch from it.
    Get,
}

/// What memory holds when it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contents {
    /// Zeros, which are no good data, and later whatever comes.
    Zeros,
    /// Words of good data.
    Good,
}

/// A request that somebody sent to one of our services.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The match bits: the number of the service.
    pub service: u64,
    /// Who sent it: where the reply goes. The NID in the header, not a primary one.
    pub from: ProcessId,
    /// Our NID that it was sent to: where the reply comes from.
    pub to: Nid,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Accept one message of up to 160 bytes, no longer, by PUT from a process at the bulk portal.
    /// Done with its bytes.
    OfferReply {
        /// Names the offer.
        id: OperationId,
        /// Who may.
        from: ProcessId,
        /// Its match bits.
        match_bits: u64,
    },
    /// Let a process store into or fetch from memory at the bulk portal, once. Done with how many
    /// bytes.
    OfferBulk {
        /// Names the offer.
        id: OperationId,
        /// Who may.
        from: ProcessId,
        /// Its match bits.
        match_bits: u64,
        /// What it may.
        access: Access,
        /// The memory.
        span: Span,
    },
    /// Let a process fetch a few bytes at the bulk portal, once. Done with how many.
    OfferBytes {
        /// Names the offer.
        id: OperationId,
        /// Who may.
        from: ProcessId,
        /// Its match bits.
        match_bits: u64,
        /// What it gets.
        bytes: Arc<[u8]>,
    },
    /// Give an operation up. It is done when its memory is no longer touched: with ECANCELED, or
    /// as if it had not been given up. Never of an operation that is done.
    Withdraw {
        /// Which.
        id: OperationId,
    },
    /// Store 160 bytes at a portal of a process, without acknowledgement. Done when they are sent.
    Send {
        /// Names it.
        id: OperationId,
        /// Our NID, if it must be this one.
        source: Option<Nid>,
        /// To whom.
        target: ProcessId,
        /// At which portal.
        portal: u32,
        /// Its match bits.
        match_bits: u64,
        /// The message.
        bytes: Arc<[u8]>,
    },
    /// Store memory at the bulk portal of a process, without acknowledgement. Done when it is sent.
    PutBulk {
        /// Names it.
        id: OperationId,
        /// Our NID.
        source: Nid,
        /// To whom.
        target: ProcessId,
        /// Its match bits.
        match_bits: u64,
        /// The memory.
        span: Span,
    },
    /// Fetch memory from the bulk portal of a process. Done with how many bytes came.
    GetBulk {
        /// Names it.
        id: OperationId,
        /// Our NID.
        source: Nid,
        /// From whom.
        target: ProcessId,
        /// Its match bits.
        match_bits: u64,
        /// The memory.
        span: Span,
    },
    /// Fetch a few bytes from the bulk portal of a process. Done with the bytes.
    GetBytes {
        /// Names it.
        id: OperationId,
        /// Our NID.
        source: Nid,
        /// From whom.
        target: ProcessId,
        /// Its match bits.
        match_bits: u64,
        /// How many at most.
        len: u32,
    },
    /// Tell what LNet has counted, by [`handle_counted`](crate::Selftest::handle_counted).
    Count {
        /// Names the question.
        id: QuestionId,
    },
    /// Do something that LNet has no part in.
    Task(Task),
    /// A command has ended.
    Answer {
        /// Which.
        command: CommandId,
        /// How.
        answer: Answer,
    },
    /// Something for the log.
    Notice(Notice),
}

/// What the owner does for the machine without LNet. The highest bit is set in the names of the
/// buffers, so that the owner can have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Allocate memory. Its name was never used before.
    Allocate {
        /// Its name.
        buffer: BufferId,
        /// Bytes.
        len: u32,
        /// What is in it.
        contents: Contents,
    },
    /// Free memory that nothing touches any more.
    Release {
        /// Which.
        buffer: BufferId,
    },
    /// Damage one word of memory that holds good data: add to it.
    Damage {
        /// Which 8 bytes.
        span: Span,
        /// How much.
        add: u64,
    },
    /// Compare memory with good data, then poison it; tell by
    /// [`handle_checked`](crate::Selftest::handle_checked).
    Check {
        /// Names the question.
        id: QuestionId,
        /// The memory.
        span: Span,
        /// How much of it.
        check: Check,
        /// The byte order of who filled it.
        order: Order,
    },
    /// Tell what this node has cost, by [`handle_measured`](crate::Selftest::handle_measured).
    Measure {
        /// Names the question.
        id: QuestionId,
    },
}

/// How an operation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that were moved.
    pub len: u32,
    /// The bytes themselves, of [`Output::OfferReply`] and [`Output::GetBytes`].
    pub bytes: Vec<u8>,
}
