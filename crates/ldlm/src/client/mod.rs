//! The locks that a client holds of one target. Spec: ptlrpc-ldlm-mgs §21.3, §21.5, §22, §23.
//!
//! A user acquires a lock and gets one that is held already, or the namespace requests one. A lock
//! without uses is kept until the server calls it back, until it is the oldest of too many, or until it
//! is too old. Then the host writes back what it covers, and only after that the server gets it back:
//!
//! ```text
//!  acquire ──► Enqueue ──► Granted ──► release ──► Flush ──► flushed ──► Cancel
//!                │ ▲          ▲                      ▲
//!           reply, completion │                  blocking callback, number, age
//!                             └─ hold
//! ```
//!
//! A namespace belongs to one import: the host sends its requests there, hands it the replies, and
//! tells it when the import was [evicted](Namespace::evict) or the target [lost all
//! locks](Namespace::replay). Pure: drain [`Namespace::poll_output`] after each input. Cancels come last,
//! so those of locks that were flushed meanwhile share a request.
//!
//! `acquire` finds a lock that is held and covers what is wanted, or requests one, and names it
//! before the server knows it, since callbacks may overtake the reply. Requests, replies and
//! callbacks go through the host, which adds intents and reads their results.
//!
//! ```text
//! Sent ──► Waiting ──► Granted ──► Flushing ──► gone, and its handle is cancelled
//!   └─────────────────►  ▲ ▲ uses     │
//!                        │ └──────────┘ only some bits were given up: convert
//!                     matched, as long as it is not called back
//! ```
//!
//! * Each intent, such as an open, brings a lock. Of those on the same bits of a file in the same
//!   mode 16 are kept: with the next one all that are unused are given up, in one request. So a
//!   client that changes a file that was opened thousands of times has few locks called back.
//! * A lock is called back by the server, because it is too old or one too many, or because a
//!   request is about to conflict with it. From then on only its present users have it. After the
//!   last use the host writes back and drops what it covers (`Flush`), and only then the server
//!   gets it back, so no other client sees old data. A callback is answered at once, a glimpse when
//!   the host has reported the attributes.
//! * Handles to cancel are collected and sent when all other outputs are drained: those of locks
//!   that were flushed meanwhile share a request. A request that conflicts with cached locks
//!   carries their handles instead (`early_cancel`).
//! * When the server has lost its locks, each is replayed, and cancels under way are forgotten;
//!   after an eviction all locks are gone, with one output.
//! * What a server changes must contain what was requested. Otherwise the request fails and the
//!   server's lock is cancelled.
//!
//! *Memory.* A cached lock takes 190 bytes (`make bench ONLY=ldlm`): its place in a table
//! (`slots`), a resource, and an entry of the tree of resources. The place and its generation are
//! the name of the lock and, with a key of each start, the handle for the server: no table of
//! handles is necessary. Resources are found by a keyed hash of their names in an ordered tree. The
//! locks of a resource are nodes of a treap, ordered by mode and start, that knows the largest end
//! below each node: a range that contains another is found in logarithmic time, however many locks
//! an object has. Unused locks are a list through the table, the oldest first, so their age needs
//! one timer.

mod api;
mod callbacks;
mod cancel;
mod check;
mod early;
mod flock;
mod grant;
mod held;
mod lock;
mod replay;
mod resources;
mod slots;
mod tree;
mod unused;

use std::collections::{BTreeMap, VecDeque};

use fulmar_base::{Errno, Time, Timers};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{
    LockDesc, LockFlags, LockMode, LockRequest, LockType, Policy, ResourceDesc,
};

use crate::mode;
pub use api::{
    Answer, Callback, CallbackKind, CancelId, Convert, Coverage, EarlyId, Extra, LockId, LockSpec,
    Output, Settings, Start,
};
use lock::{Lock, Marks, State};
use resources::Resources;
use slots::Slots;

/// The locks of one target.
#[derive(Debug)]
pub struct Namespace {
    settings: Settings,
    locks: Slots<Lock>,
    resources: Resources,
    unused: unused::UnusedLocks,
    /// The bounds of waits for completions.
    waits: Timers<LockId>,
    /// Locks of the server to cancel.
    ready: VecDeque<Handle>,
    /// The cancels without reply.
    cancels: BTreeMap<CancelId, Vec<Handle>>,
    next_cancel: u64,
    early: BTreeMap<EarlyId, early::Early>,
    next_early: u64,
    replay: Option<replay::Replay>,
    outputs: VecDeque<Output>,
}

impl Namespace {
    /// Returns a namespace without locks.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            locks: Slots::default(),
            resources: Resources::new(settings.key),
            unused: unused::UnusedLocks::default(),
            waits: Timers::default(),
            ready: VecDeque::new(),
            cancels: BTreeMap::new(),
            next_cancel: 0,
            early: BTreeMap::new(),
            next_early: 0,
            replay: None,
            outputs: VecDeque::new(),
        }
    }

    /// Changes what was agreed on or set: the connection is a new one, or estimates have changed. Locks
    /// keep their handles.
    pub fn configure(&mut self, change: impl FnOnce(&mut Settings)) {
        let key = self.settings.key;
        change(&mut self.settings);
        self.settings.key = key;
    }

    /// Acquires a lock for one use: one that is held and covers what is wanted, or a new one.
    ///
    /// # Errors
    /// EINVAL if the type or the mode is not valid, or what is wanted is empty.
    pub fn acquire(&mut self, now: Time, wanted: LockSpec) -> Result<Start, Errno> {
        if !is_valid(&wanted) {
            self.cancel_early(wanted.early);
            return Err(Errno::EINVAL);
        }
        let LockSpec { resource, mode, policy, flags, .. } = wanted;
        if wanted.match_held
            && let Some(place) = self.search(&resource, mode, policy)
        {
            self.cancel_early(wanted.early);
            self.add_use(place);
            return Ok(Start::Held(self.locks.id(place)));
        }
        let in_resource = self.resources.take(&resource);
        let mut lock = Lock::new(in_resource, mode, policy);
        lock.used_at = now;
        lock.busy().flags = flags;
        let is_flock = resource.kind == LockType::FLOCK;
        let marks = [
            (wanted.permanent, Marks::PERMANENT),
            (is_flock && flags.has(LockFlags::TEST_LOCK), Marks::TEST),
            (!is_flock && flags.has(LockFlags::CANCEL_ON_BLOCK), Marks::CANCEL_ON_BLOCK),
        ];
        marks.into_iter().filter(|(is_set, _)| *is_set).for_each(|(_, mark)| lock.marks.set(mark));
        let place = self.locks.insert(lock);
        self.send_enqueue(place, resource, wanted.early);
        Ok(Start::Sent(self.locks.id(place)))
    }

    fn send_enqueue(&mut self, place: u32, resource: ResourceDesc, early: Vec<Handle>) {
        let (id, lock) = (self.locks.id(place), self.locks.at_mut(place));
        let (flags, policy) = (lock.busy().flags, lock.policy());
        let desc = LockDesc { resource, requested: lock.mode(), granted: LockMode(0), policy };
        let mut handles = vec![self.cookie(id)];
        handles.extend(early);
        let count = if self.settings.early_cancel { handles.len() as u32 } else { 0 };
        let request = request(flags, count, desc, handles);
        self.outputs.push_back(Output::Enqueue { lock: id, request });
    }

    /// Adds a use to a lock that its caller has a use of, even if it is called back. Returns whether
    /// there is one: without it the caller must acquire.
    pub fn hold(&mut self, id: LockId) -> bool {
        let place = self.locks.place(id).filter(|&place| self.locks.at(place).uses > 0);
        place.inspect(|&place| self.add_use(place)).is_some()
    }

    fn add_use(&mut self, place: u32) {
        self.unlist(place);
        let lock = self.locks.at_mut(place);
        lock.uses = lock.uses.checked_add(1).expect("fewer than 2^32 uses");
    }

    /// Ends one use of a lock. False if it has none: it may have been lost.
    pub fn release(&mut self, now: Time, id: LockId) -> bool {
        let place = self.locks.place(id).filter(|&place| self.locks.at(place).uses > 0);
        let Some(place) = place else { return false };
        let lock = self.locks.at_mut(place);
        lock.uses -= 1;
        lock.used_at = now;
        self.settle(now, place);
        true
    }

    /// Ends one use of a lock, and gives it up when it has no others. False if it has none.
    pub fn release_and_cancel(&mut self, now: Time, id: LockId) -> bool {
        if let Some(place) = self.locks.place(id)
            && self.locks.at(place).uses > 0
        {
            self.call(place, Marks::WHOLE);
        }
        self.release(now, id)
    }

    /// Gives up a granted lock when it has no uses. False if it is not granted, or is given up already,
    /// or is a flock.
    pub fn cancel(&mut self, now: Time, id: LockId) -> bool {
        let place = self.locks.place(id).filter(|&place| self.locks.at(place).is_usable());
        let Some(place) = place.filter(|&place| self.kind(place) != LockType::FLOCK) else {
            return false;
        };
        self.call(place, Marks::WHOLE);
        self.settle(now, place);
        true
    }

    /// Decides what becomes of a granted lock that may have no uses.
    fn settle(&mut self, now: Time, place: u32) {
        let (kind, lock) = (self.kind(place), self.locks.at(place));
        if lock.uses > 0 || lock.state != State::Granted || kind == LockType::FLOCK {
            return;
        }
        if lock.mode() == LockMode::GROUP {
            self.call(place, Marks::WHOLE);
        }
        match self.locks.at(place).marks {
            marks if marks.has(Marks::CALLED) => self.flush(now, place),
            marks if marks.has(Marks::PERMANENT) => {}
            _ => {
                self.list(place);
                self.shrink(now);
            }
        }
    }

    /// Ends the wait of a user: [`Output::Failed`] with EINTR follows. When the lock is granted later, it
    /// is given up. False if no user waits for it.
    pub fn interrupt(&mut self, id: LockId) -> bool {
        let Some(place) = self.locks.place(id) else { return false };
        let lock = self.locks.at_mut(place);
        let is_waiting = matches!(lock.state, State::Sent | State::Waiting);
        if !is_waiting || lock.marks.has(Marks::ABANDONED) {
            return false;
        }
        lock.marks.set(Marks::ABANDONED);
        self.outputs.push_back(Output::Failed { lock: id, errno: Errno::EINTR });
        if self.locks.at(place).state == State::Waiting {
            self.give_up(place);
        }
        true
    }

    /// All locks are lost: the server has evicted the client. Requests that are not answered fail
    /// with EIO. Spec: ptlrpc-ldlm-mgs §14.7.
    pub fn evict(&mut self) {
        self.outputs.push_back(Output::Evicted);
        self.replay = None;
        self.ready.clear();
        self.cancels.clear();
        self.waits = Timers::default();
        for id in std::mem::take(&mut self.early).into_keys() {
            self.outputs.push_back(Output::Early { id, handles: Vec::new() });
        }
        for place in self.locks.places(0) {
            let lock = self.locks.at(place);
            let has_user = matches!(lock.state, State::Sent | State::Waiting);
            if has_user && !lock.marks.has(Marks::ABANDONED) {
                let lock = self.locks.id(place);
                self.outputs.push_back(Output::Failed { lock, errno: Errno::EIO });
            }
        }
        // All at once, since there may be a million.
        self.locks.clear();
        self.resources = Resources::new(self.settings.key);
        self.unused.forget_all();
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.waits.pop_due(now) {
            self.waits.set(id, now + self.settings.wait_max);
            self.outputs.push_back(Output::Reconnect);
        }
        self.shrink(now);
    }

    /// Returns when to call [`Namespace::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.waits.next().into_iter().chain(self.next_too_old()).min()
    }

    /// Returns the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front().or_else(|| self.next_cancel())
    }

    /// Returns what a lock covers, if it is granted.
    pub fn covered(&self, id: LockId) -> Option<Coverage> {
        let place = self.locks.place(id)?;
        let is_granted = matches!(self.locks.at(place).state, State::Granted | State::Flushing);
        is_granted.then(|| self.cover(place))
    }

    /// Returns the handle of a lock, by which the server calls it.
    pub fn cookie(&self, id: LockId) -> Handle {
        // The highest bit of a place is not used, so that no handle is zero.
        Handle(id.0 ^ (self.settings.key | 1 << 31))
    }

    /// Returns the server's handle of a lock, none if it is not known.
    pub fn server_handle(&self, id: LockId) -> Handle {
        self.locks.place(id).map_or(Handle::NONE, |place| self.locks.at(place).server)
    }

    fn place_of(&self, cookie: Handle) -> Option<u32> {
        self.locks.place(LockId(cookie.0 ^ (self.settings.key | 1 << 31)))
    }

    /// Returns the locks of all states.
    pub fn locks(&self) -> impl Iterator<Item = LockId> {
        self.locks.places(0).map(|place| self.locks.id(place))
    }

    /// Returns how many locks there are, of all states.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Returns whether there are no locks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self, place: u32) -> LockType {
        self.resource(place).kind
    }

    fn resource(&self, place: u32) -> ResourceDesc {
        self.resources.at(self.locks.at(place).resource).desc
    }

    fn cover(&self, place: u32) -> Coverage {
        let (lock, resource) = (self.locks.at(place), self.resource(place));
        let mut policy = lock.policy();
        if resource.kind == LockType::IBITS {
            policy.words[1] = 0;
        }
        Coverage { resource, mode: lock.mode(), policy }
    }

    /// Removes a lock without a word to the server or the user.
    fn forget(&mut self, place: u32) -> Lock {
        self.unlist(place);
        self.waits.clear(self.locks.id(place));
        if self.locks.at(place).is_usable() {
            self.unindex(place);
        }
        let lock = self.locks.remove(place);
        self.resources.give_back(lock.resource);
        lock
    }
}

/// Returns whether a server may accept a request.
fn is_valid(wanted: &LockSpec) -> bool {
    let [first, second, _] = wanted.policy.words;
    let has_policy = match wanted.resource.kind {
        LockType::PLAIN => wanted.policy == Policy::default(),
        LockType::EXTENT | LockType::FLOCK => first <= second,
        LockType::IBITS => first | second != 0,
        _ => false,
    };
    has_policy && mode::is_valid(wanted.mode)
}

/// Returns a request, with the room for handles that kernel nodes send.
fn request(
    flags: LockFlags,
    count: u32,
    lock: LockDesc,
    mut handles: Vec<Handle>,
) -> Box<LockRequest> {
    handles.resize(handles.len().max(LockRequest::HANDLES_MIN), Handle::NONE);
    Box::new(LockRequest { flags, count, lock, handles })
}

#[cfg(test)]
mod tests;
