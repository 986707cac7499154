//! What goes into a namespace and what comes out.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::{
    LockMode, LockReply, LockRequest, LockType, OstLvb, Policy, ResourceId,
};
use fulmar_lustre_wire::{Handle, Status};

/// How a namespace begins.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The types of locks that clients may request. Spec: ptlrpc-ldlm-mgs §21.2.
    pub types: &'static [LockType],
    /// How much it keeps.
    pub limits: Limits,
    /// How long holders may take.
    pub times: Times,
}

impl Config {
    /// Returns the configuration of a management service.
    pub fn mgs() -> Self {
        Self { types: &[LockType::PLAIN], limits: Limits::default(), times: Times::default() }
    }

    /// Returns the configuration of a metadata target.
    pub fn mdt() -> Self {
        Self { types: &[LockType::IBITS, LockType::FLOCK, LockType::PLAIN], ..Self::mgs() }
    }

    /// Returns the configuration of an object storage target.
    pub fn ost() -> Self {
        Self { types: &[LockType::EXTENT], ..Self::mgs() }
    }
}

/// What a namespace keeps at most. Beyond it a request fails with EINPROGRESS: the client repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Locks, granted and waiting.
    pub locks: u32,
    /// Locks of one client.
    pub of_export: u32,
    /// New locks of one client while more than half of all places are taken.
    pub of_export_crowded: u32,
    /// Waiting locks of one client.
    pub waiting_of_export: u32,
    /// Waiting locks of one resource.
    pub waiting: u32,
    /// Requests that wait for the host or for a glimpse.
    pub pending: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            locks: 4 << 20,
            of_export: 1 << 20,
            of_export_crowded: 1 << 16,
            waiting_of_export: 4096,
            waiting: 16_384,
            pending: 16_384,
        }
    }
}

/// How long holders may take. Spec: ptlrpc-ldlm-mgs §22.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// From a blocking callback to the cancel, at least.
    pub cancel_min: Duration,
    /// The same, when cancels are slow.
    pub cancel_max: Duration,
    /// The same, when the client's reads and writes prolong it.
    pub prolonged_max: Duration,
    /// From another callback to its answer.
    pub answer: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            cancel_min: Duration::from_secs(100),
            cancel_max: Duration::from_secs(600),
            prolonged_max: Duration::from_secs(3600),
            answer: Duration::from_secs(100),
        }
    }
}

/// What was negotiated with a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// It is a server, which is not evicted for being late.
    pub is_server: bool,
    /// It knows contended resources (`LOCK_CONTENTION`).
    pub contention: bool,
    /// It can be told of a deadlock after its request (`FLOCK_DEAD`).
    pub flock_deadlock: bool,
}

/// A request of a client, named by the host. Each gets one [`Output::Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// Names it.
    pub request: RequestId,
    /// The client's export.
    pub export: Handle,
    /// What it requests.
    pub lock: LockRequest,
    /// Whether it was sent before. A lock that the client replays has a flag of its own.
    pub is_resent: bool,
    /// What the host has done about its intent.
    pub outcome: Outcome,
}

/// What the host has done about an intent. Spec: ptlrpc-ldlm-mgs §26.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is none, or it is a glimpse: the namespace does all.
    Ordinary,
    /// It was executed. The client gets the lock that it requested, if that is free, or waits for it.
    Executed(IntentResult),
    /// It was executed. The client gets a granted lock of the host instead of the one it requested.
    Replaced(Handle, IntentResult),
    /// It was executed. The client gets no lock.
    Aborted(IntentResult),
    /// It was not executed.
    Failed(Errno),
}

/// What a reply says about an intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntentResult {
    /// How far it went.
    pub disposition: u64,
    /// 0 or a negative error number.
    pub status: i64,
}

/// A lock that the host requests for itself, without a bound and without a timer.
#[derive(Clone, Copy, Debug)]
pub struct LocalEnqueue {
    /// The host's name for it.
    pub cookie: u64,
    /// The resource.
    pub resource: ResourceId,
    /// The type.
    pub kind: LockType,
    /// The mode.
    pub mode: LockMode,
    /// The part of the resource.
    pub policy: Policy,
    /// Whether to fail instead of waiting.
    pub is_immediate: bool,
    /// Whether the holders of other locks drop their data: the object goes.
    pub discards_data: bool,
}

/// A callback under way. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallbackId {
    pub(super) export: u32,
    pub(super) number: u64,
}

/// What a callback tells or asks. Spec: ptlrpc-ldlm-mgs §22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackKind {
    /// Another lock waits for this one.
    Blocking,
    /// The lock is granted, or refused for good.
    Completion,
    /// What does the holder know of the object?
    Glimpse,
}

/// A request to a client, by its reverse import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Names it.
    pub id: CallbackId,
    /// The client's export.
    pub export: Handle,
    /// What it is.
    pub kind: CallbackKind,
    /// The lock.
    pub lock: LockRequest,
    /// The attributes, in a completion of an extent lock.
    pub lvb: Option<OstLvb>,
    /// Whether [`handle_answer`](super::Namespace::handle_answer) must follow.
    pub has_answer: bool,
}

/// The end of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client answered; a glimpse with what it knows.
    Answered(Status, Option<OstLvb>),
    /// It did not, although the request was repeated.
    Failed,
}

/// Why a namespace evicts a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictReason {
    /// It kept a lock that others wait for.
    NotCancelled,
    /// It did not answer a callback, or with an error.
    NotAnswered,
}

/// What a namespace requests of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer an enqueue or a convert.
    Reply {
        /// Which.
        request: RequestId,
        /// The status.
        status: Status,
        /// The reply.
        reply: Box<LockReply>,
        /// The attributes of the object, which follow it.
        lvb: Option<OstLvb>,
    },
    /// Send this to a client.
    Callback(Box<Callback>),
    /// Find out the attributes of an object, for [`handle_lvb`](super::Namespace::handle_lvb).
    ReadLvb {
        /// Which.
        resource: ResourceId,
    },
    /// A lock of the host is granted, or not.
    Local {
        /// The host's name for it.
        cookie: u64,
        /// The lock.
        result: Result<Handle, Errno>,
    },
    /// Another lock waits for a lock of the host.
    LocalBlocks {
        /// The host's name for it.
        cookie: u64,
    },
    /// Remove a client. Its locks are gone already.
    Evict {
        /// Its export.
        export: Handle,
        /// Why.
        why: EvictReason,
        /// For how long it was waited for.
        after: Duration,
    },
}
