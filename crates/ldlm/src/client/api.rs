//! What goes into a namespace and what comes out.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::{
    Flock, LockFlags, LockMode, LockReply, LockRequest, Policy, ResourceDesc,
};
use fulmar_lustre_wire::{Handle, Status};

/// A lock of a namespace. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u64);

/// A cancel request. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CancelId(pub u64);

/// A search for locks to give up with another request. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EarlyId(pub u64);

/// What a client and its target have agreed on, and what the administrator has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Drawn at random by the owner: handles differ from those of an earlier start.
    pub key: u64,
    /// Whether a request may give up several locks (`CANCELSET`).
    pub early_cancel: bool,
    /// Which inodebits locks give up single bits.
    pub convert: Convert,
    /// The most unused locks that are kept.
    pub unused_max: usize,
    /// How long an unused lock is kept.
    pub age_max: Duration,
    /// The bound of the wait for a completion callback, after which it is presumed lost.
    pub wait_max: Duration,
    /// How many locks are replayed at the same time.
    pub replays_max: usize,
}

impl Settings {
    /// The values of a kernel client of one core. Spec: ptlrpc-ldlm-mgs §21.3, §21.6, §23.4.
    pub fn new(key: u64) -> Self {
        Self {
            key,
            early_cancel: true,
            convert: Convert::Data,
            unused_max: 100,
            age_max: Duration::from_secs(600),
            wait_max: Duration::from_secs(100),
            replays_max: 8,
        }
    }
}

/// Which inodebits locks give up only the bits that another client needs. Spec: ptlrpc-ldlm-mgs
/// §23.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convert {
    /// None: the target does not know conversions (`LOCK_CONVERT`).
    Never,
    /// Those that keep the bit of the data, as kernel clients do.
    Data,
    /// All.
    Always,
}

/// What a user needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The resource and the type of the lock.
    pub resource: ResourceDesc,
    /// The mode.
    pub mode: LockMode,
    /// What of the resource.
    pub policy: Policy,
    /// Flags of the request: those of the first column of ptlrpc-ldlm-mgs §18.1.
    pub flags: LockFlags,
    /// Whether a lock that is held already will do. Flocks are always requested.
    pub match_held: bool,
    /// Whether the lock is kept until it is called back, regardless of its age.
    pub permanent: bool,
    /// Locks of the server that the request gives up: from [`Output::Early`].
    pub early: Vec<Handle>,
}

impl LockSpec {
    /// Returns a request without flags, for which a held lock will do.
    pub fn new(resource: ResourceDesc, mode: LockMode, policy: impl Into<Policy>) -> Self {
        let (policy, flags, early) = (policy.into(), LockFlags::NONE, Vec::new());
        Self { resource, mode, policy, flags, match_held: true, permanent: false, early }
    }

    /// Adds flags.
    #[must_use]
    pub fn with(self, flags: LockFlags) -> Self {
        Self { flags: self.flags | flags, ..self }
    }

    /// Requests a lock even if one is held: an intent whose object is not known yet.
    #[must_use]
    pub fn always(self) -> Self {
        Self { match_held: false, ..self }
    }
}

/// How a lock is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// This lock was held already, and has one more use.
    Held(LockId),
    /// This lock is requested: one of [`Output::Granted`], [`Output::NoLock`], [`Output::Tested`] and
    /// [`Output::Failed`] follows.
    Sent(LockId),
}

/// The reply to an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The status of the reply.
    pub status: Status,
    /// The first buffer.
    pub reply: Option<LockReply>,
    /// The lock value block, empty without one.
    pub lvb: &'a [u8],
}

/// A callback of the server. The host names it by a number, which its answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback<'a> {
    /// The number.
    pub id: u64,
    /// Which callback.
    pub kind: CallbackKind,
    /// The request.
    pub request: &'a LockRequest,
    /// The lock value block of a completion, empty without one.
    pub lvb: &'a [u8],
}

/// What a server tells a client about its lock. Spec: ptlrpc-ldlm-mgs §22.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackKind {
    /// Another client needs what the lock excludes.
    Blocking,
    /// The lock is granted, or never will be.
    Completion,
    /// The attributes that the lock protects are needed.
    Glimpse,
}

/// What a lock covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Coverage {
    pub resource: ResourceDesc,
    pub mode: LockMode,
    pub policy: Policy,
}

/// What came with a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// The lock value block.
    pub lvb: Vec<u8>,
    /// The flags of the reply: whether the resource is contended (`CONTENTION`).
    pub flags: LockFlags,
    /// How far an intent went, or the error of a glimpse: [`LockReply::result1`].
    pub result1: u64,
    /// The error of an intent: [`LockReply::result2`].
    pub result2: i64,
}

/// What the host must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send an enqueue, with its intent if it has one.
    Enqueue {
        /// The lock that its reply is for.
        lock: LockId,
        /// The first buffer.
        request: Box<LockRequest>,
    },
    /// A lock is granted and has one use; a flock has none, and is held until it is unlocked.
    Granted {
        /// Which.
        lock: LockId,
        /// What it covers, which may be more or something else than requested.
        covered: Box<Coverage>,
        /// What came with it.
        extra: Box<Extra>,
    },
    /// The request was executed and gave no lock.
    NoLock {
        /// The lock that it was for, which is gone.
        lock: LockId,
        /// What came with the reply.
        extra: Box<Extra>,
    },
    /// The result of a test for a flock.
    Tested {
        /// The lock that it was for, which is gone.
        lock: LockId,
        /// The mode and the range of a flock that is in the way.
        conflict: Option<(LockMode, Flock)>,
    },
    /// There is no lock.
    Failed {
        /// The lock that was requested, which is gone.
        lock: LockId,
        /// Why.
        errno: Errno,
    },
    /// Write back what is covered and drop it from the cache, then call
    /// [`Namespace::flushed`](super::Namespace::flushed). The lock has no uses; what
    /// [another lock](super::Namespace::find) covers may stay.
    Flush {
        /// Which lock.
        lock: LockId,
        /// What: of inodebits, the bits.
        covered: Box<Coverage>,
        /// Drop without writing.
        discard: bool,
    },
    /// Send a cancel.
    Cancel {
        /// Its name.
        id: CancelId,
        /// The buffer.
        request: Box<LockRequest>,
    },
    /// Send a convert.
    Convert {
        /// Which lock.
        lock: LockId,
        /// The buffer.
        request: Box<LockRequest>,
    },
    /// Answer a callback.
    Answer {
        /// Its number.
        callback: u64,
        /// The status.
        status: Status,
        /// The attributes, for a glimpse.
        lvb: Vec<u8>,
    },
    /// Report the attributes of the object of a lock by
    /// [`Namespace::attributes`](super::Namespace::attributes).
    Glimpse {
        /// The number of the callback.
        callback: u64,
        /// The lock.
        lock: LockId,
    },
    /// Locks are flushed and gone; a request can give them up.
    Early {
        /// Which search.
        id: EarlyId,
        /// The locks of the server, for the request.
        handles: Vec<Handle>,
    },
    /// Send an enqueue as a replay.
    Replay {
        /// The lock.
        lock: LockId,
        /// The buffer.
        request: Box<LockRequest>,
    },
    /// All locks are replayed.
    Replayed,
    /// Connect again: the server does not keep to what it has promised.
    Reconnect,
    /// All locks are lost. Drop everything that they covered, without writing it.
    Evicted,
}
