//! How locks are given up. Spec: ptlrpc-ldlm-mgs §21.5, §23.1, §23.2.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{InodeBits, LockDesc, LockFlags, LockReply, LockType, Policy};

use super::lock::{Lock, Marks, State};
use super::{CancelId, Convert, Namespace, Output, request};

/// The most handles of a cancel: what kernel servers accept.
pub(super) const CANCEL_MAX: usize = 409;

impl Namespace {
    /// Ends the use of a lock for new users. `marks` says more.
    pub(super) fn call(&mut self, place: u32, marks: Marks) {
        if self.locks.at(place).is_usable() {
            self.unlist(place);
            self.unindex(place);
        }
        let lock = self.locks.at_mut(place);
        lock.marks.set(Marks::CALLED);
        lock.marks.set(marks);
    }

    /// Has some bits of an inodebits lock given up, or the whole of another lock. Flocks are never
    /// called back.
    pub(super) fn call_bits(&mut self, place: u32, bits: InodeBits) {
        match self.kind(place) {
            LockType::FLOCK => return,
            LockType::IBITS if bits != InodeBits::NONE => {}
            _ => return self.call(place, Marks::WHOLE),
        }
        self.call(place, Marks::CALLED);
        let lock = self.locks.at_mut(place);
        match lock.state {
            State::Sent | State::Waiting => lock.busy().called |= bits.0,
            _ => lock.words[1] |= bits.0,
        }
    }

    /// Begins to give up a granted lock that is called and has no uses.
    pub(super) fn flush(&mut self, now: Time, place: u32) {
        let (is_bits, convert) = (self.kind(place) == LockType::IBITS, self.settings.convert);
        let lock = self.locks.at_mut(place);
        assert!(lock.state == State::Granted && lock.uses == 0, "{lock:?} is given up");
        let [bits, called, _] = lock.words;
        let kept = InodeBits(bits & !called);
        let is_part = match convert {
            _ if !is_bits || lock.marks.has(Marks::WHOLE) => false,
            Convert::Never => false,
            Convert::Data => kept.has(InodeBits::DOM),
            Convert::Always => kept != InodeBits::NONE,
        };
        let converting = if is_part { bits & called } else { 0 };
        if is_part && converting == 0 {
            // The bits were given up before the callback came.
            return self.keep(now, place);
        }
        lock.state = State::Flushing;
        lock.busy().converting = converting;
        let discard = lock.marks.has(Marks::DISCARD);
        let mut covered = Box::new(self.cover(place));
        if is_part {
            covered.policy.words[0] = converting;
        }
        let id = self.locks.id(place);
        self.outputs.push_back(Output::Flush { lock: id, covered, discard });
    }

    /// The host has written back and dropped what [`Output::Flush`] named. False if that is not
    /// expected: the lock may have been lost.
    pub fn flushed(&mut self, now: Time, id: super::LockId) -> bool {
        let place = self.locks.place(id);
        let place = place.filter(|&place| self.locks.at(place).state == State::Flushing);
        let Some(place) = place else { return false };
        let lock = self.locks.at_mut(place);
        match std::mem::take(&mut lock.busy().converting) {
            0 => self.finish(place),
            converting => {
                lock.words[0] &= !converting;
                lock.words[1] &= lock.words[0];
                lock.state = State::Granted;
                self.send_convert(place);
                let lock = self.locks.at(place);
                if lock.marks.has(Marks::WHOLE) || lock.words[1] != 0 {
                    self.flush(now, place)
                } else {
                    self.keep(now, place)
                }
            }
        }
        true
    }

    /// Lets new users have a lock that was called and is not given up as a whole.
    fn keep(&mut self, now: Time, place: u32) {
        let lock = self.locks.at_mut(place);
        lock.words[1] = 0;
        lock.marks.clear(Marks::CALLED);
        lock.marks.clear(Marks::DISCARD);
        lock.state = State::Granted;
        lock.busy = None;
        lock.used_at = now;
        self.index(place);
        self.settle(now, place);
    }

    /// Gives up a lock that covers nothing in the cache.
    pub(super) fn give_up(&mut self, place: u32) {
        self.call(place, Marks::WHOLE);
        self.finish(place);
    }

    /// Removes a lock whose cache is flushed, and has its handle cancelled.
    pub(super) fn finish(&mut self, place: u32) {
        self.waits.clear(self.locks.id(place));
        let lock = self.locks.at_mut(place);
        if lock.marks.has(Marks::REPLAYING) {
            // The server will name its new lock in the reply.
            lock.state = State::Flushed;
            return;
        }
        let id = self.locks.id(place);
        let Lock { server, marks, busy, .. } = self.forget(place);
        let handle = if marks.has(Marks::CANCEL_ON_BLOCK) { Handle::NONE } else { server };
        match busy.and_then(|busy| busy.early) {
            Some(early) => self.early_done(early, id, handle),
            None => self.cancel_handle(handle),
        }
    }

    /// Cancels a lock of the server, if there is one.
    pub(super) fn cancel_handle(&mut self, handle: Handle) {
        if !handle.is_none() {
            self.ready.push_back(handle);
        }
    }

    /// Returns a cancel with as many handles as fit.
    pub(super) fn next_cancel(&mut self) -> Option<Output> {
        let max = if self.settings.early_cancel { CANCEL_MAX } else { 1 };
        let count = self.ready.len().min(max);
        if count == 0 {
            return None;
        }
        let handles: Vec<Handle> = self.ready.drain(..count).collect();
        let id = CancelId(self.next_cancel);
        self.next_cancel += 1;
        self.cancels.insert(id, handles.clone());
        let request = request(LockFlags::NONE, count as u32, LockDesc::default(), handles);
        Some(Output::Cancel { id, request })
    }

    /// Handles the end of a cancel. The status of a reply does not matter: a server that does not know the
    /// locks has dropped them. Without a reply in time the cancel is sent again.
    pub fn handle_cancelled(&mut self, id: CancelId, result: Result<(), Errno>) {
        let handles = self.cancels.remove(&id).unwrap_or_default();
        if result == Err(Errno::ETIMEDOUT) {
            self.ready.extend(handles);
        }
    }

    /// Tells the server which bits are left.
    pub(super) fn send_convert(&mut self, place: u32) {
        let (id, lock) = (self.locks.id(place), self.locks.at_mut(place));
        if lock.server.is_none() {
            // The replay will, unless it is under way.
            if lock.marks.has(Marks::REPLAYING) {
                lock.marks.set(Marks::REDUCED);
            }
            return;
        }
        lock.marks.clear(Marks::REDUCED);
        let policy = Policy { words: [lock.words[0], 0, 0], ..Policy::default() };
        let (requested, granted) = (lock.mode(), lock.mode());
        let desc = LockDesc { requested, granted, policy, ..LockDesc::default() };
        let request = request(LockFlags::NONE, 1, desc, vec![lock.server]);
        self.outputs.push_back(Output::Convert { lock: id, request });
    }

    /// Handles the reply to a convert. A server that does not know the lock has dropped it: the client
    /// gives it up too.
    pub fn handle_converted(
        &mut self,
        now: Time,
        id: super::LockId,
        reply: Result<Option<LockReply>, Errno>,
    ) {
        let place = self.locks.place(id);
        let place = place.filter(|&place| self.kind(place) == LockType::IBITS);
        let Some(place) = place else { return };
        let is_known = match reply {
            Ok(reply) => reply.is_some_and(|reply| reply.handle == self.cookie(id)),
            // Lost with its connection: a replay or an eviction follows.
            Err(_) => true,
        };
        if !is_known && matches!(self.locks.at(place).state, State::Granted | State::Flushing) {
            self.call(place, Marks::WHOLE);
            self.settle(now, place);
        }
    }
}
