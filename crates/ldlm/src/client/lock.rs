//! A lock as a client keeps it.

use fulmar_base::Time;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{LockFlags, LockMode, Policy};

use super::{Coverage, EarlyId};
use crate::slab::NIL;
use crate::treap::Links;

/// What happens to a lock.
///
/// ```text
///  Sent ──► Waiting ──► Granted ──► Flushing ──► gone, and its cancel is sent
///   │  └───────────────► ▲   ▲          │ └────► Flushed ──► the same, when it is replayed
///   └──► gone            └───│─ bits ───┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The enqueue has no reply.
    Sent,
    /// The server will say when it is granted.
    Waiting,
    Granted,
    /// The host writes back what is covered.
    Flushing,
    /// It is gone, but the new handle of the server is not known yet.
    Flushed,
}

/// A lock: small, since there are a million at rest.
#[derive(Debug)]
pub(super) struct Lock {
    /// The server's name for it; none if it is not known.
    pub(super) server: Handle,
    /// The policy, as on the wire. The second word of an inodebits lock has the bits to give up.
    pub(super) words: [u64; 3],
    /// When it was last used.
    pub(super) used_at: Time,
    /// What a lock at rest does not have.
    pub(super) busy: Option<Box<Busy>>,
    pub(super) links: Links,
    /// The neighbours in the list of unused locks.
    pub(super) older: u32,
    pub(super) newer: u32,
    pub(super) resource: u32,
    /// The process of a flock.
    pub(super) pid: u32,
    pub(super) uses: u32,
    /// A [`LockMode`] that is valid for clients, which has 8 bits.
    mode: u8,
    pub(super) state: State,
    pub(super) marks: Marks,
}

/// What a lock has until it rests.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// The flags of the request.
    pub(super) flags: LockFlags,
    /// The bits of a lock that is not granted yet, to give up when it is.
    pub(super) called: u64,
    /// The value block of a completion that came before the reply.
    pub(super) lvb: Vec<u8>,
    /// What was requested, before that completion changed it.
    pub(super) requested: Option<Coverage>,
    /// The bits that are being flushed, to be converted away; none to cancel the lock.
    pub(super) converting: u64,
    /// Who waits for the end.
    pub(super) early: Option<EarlyId>,
}

/// Facts about a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u16);

impl Marks {
    /// It is given up when it has no uses: the whole, or some bits.
    pub(super) const CALLED: Self = Self(1);
    /// The whole lock is given up.
    pub(super) const WHOLE: Self = Self(2);
    /// What it covers is dropped without writing.
    pub(super) const DISCARD: Self = Self(4);
    /// Neither age nor number end it.
    pub(super) const PERMANENT: Self = Self(8);
    /// The server drops it by itself.
    pub(super) const CANCEL_ON_BLOCK: Self = Self(16);
    /// Its user does not want it any more.
    pub(super) const ABANDONED: Self = Self(64);
    /// The completion came before the reply.
    pub(super) const COMPLETED: Self = Self(128);
    /// Its replay has no reply.
    pub(super) const REPLAYING: Self = Self(256);
    /// It is a test.
    pub(super) const TEST: Self = Self(512);
    /// The server must learn that it has fewer bits than its replay said.
    pub(super) const REDUCED: Self = Self(2048);
    /// It is in the list of unused locks.
    pub(super) const LISTED: Self = Self(1024);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl Lock {
    pub(super) fn new(resource: u32, mode: LockMode, policy: Policy) -> Self {
        let Policy { words, halves: [_, pid] } = policy;
        Self {
            server: Handle::NONE,
            words,
            used_at: Time::ZERO,
            busy: None,
            links: Links::default(),
            older: NIL,
            newer: NIL,
            resource,
            pid,
            uses: 0,
            mode: mode.0 as u8,
            state: State::Sent,
            marks: Marks::default(),
        }
    }

    pub(super) fn mode(&self) -> LockMode {
        LockMode(self.mode.into())
    }

    /// Changes the mode to one that is valid for clients.
    pub(super) fn set_mode(&mut self, mode: LockMode) {
        self.mode = mode.0 as u8;
    }

    pub(super) fn policy(&self) -> Policy {
        Policy { words: self.words, halves: [0, self.pid] }
    }

    pub(super) fn set_policy(&mut self, Policy { words, halves: [_, pid] }: Policy) {
        (self.words, self.pid) = (words, pid);
    }

    pub(super) fn busy(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Returns whether the search for a lock that is held may find it.
    pub(super) fn is_usable(&self) -> bool {
        self.state == State::Granted && !self.marks.has(Marks::CALLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_small() {
        assert!(size_of::<Lock>() <= 104, "{}", size_of::<Lock>());
    }
}
