//! Callbacks to the holders of locks, and the timers of those that others wait for.
//! Spec: ptlrpc-ldlm-mgs §22.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{Extent, LockFlags, LockMode, LockRequest, OstLvb, ResourceId};
use fulmar_lustre_wire::{Handle, Status};

use super::api::{Answer, Callback, CallbackId, CallbackKind, EvictReason, Output};
use super::lock::{Flags, Kind, Lock, Mode, Part};
use super::namespace::{LOCAL, Namespace, Timer};

/// A callback without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    kind: CallbackKind,
    lock: Handle,
    /// When it was made.
    pub(super) since: Time,
    /// The glimpse that waits for it.
    pub(super) glimpse: Option<u64>,
}

impl Namespace {
    /// The host reports the end of a callback that has an answer.
    /// Spec: ptlrpc-ldlm-mgs §22.5.
    pub fn handle_answer(&mut self, now: Time, id: CallbackId, answer: Answer) {
        let Some(under_way) = self.callbacks.remove(&(id.export, id.number)) else { return };
        self.timers.clear(Timer::Answer(id));
        let lock = self.by_handle.get(&under_way.lock).copied();
        let invalid = Status::failed(Errno::EINVAL);
        match answer {
            Answer::Answered(Status::OK, lvb) => {
                if let (CallbackKind::Glimpse, Some(lock), Some(lvb)) = (under_way.kind, lock, lvb)
                {
                    self.raise_lvb(self.locks[lock].resource, &lvb);
                }
            }
            Answer::Answered(Status::NO_LOCK_DATA, _)
                if under_way.kind == CallbackKind::Glimpse =>
            {
                if let Some(lock) = lock {
                    self.resources[self.locks[lock].resource].outdate_lvb();
                }
            }
            Answer::Answered(status, _) if status == invalid => {
                if let Some(lock) = lock {
                    self.remove(lock);
                }
            }
            Answer::Answered(..) | Answer::Failed => {
                if lock.is_some() {
                    let after = now.since(under_way.since);
                    self.evict(id.export, EvictReason::NotAnswered, after);
                }
            }
        }
        if let Some(glimpse) = under_way.glimpse {
            self.end_callback_of(glimpse);
        }
        self.settle(now);
    }

    /// The host has found that a client is silent, as at another target. If something is awaited from it here too, it
    /// is evicted at once, unless it is a server. Returns whether it is.
    pub fn handle_silence(&mut self, now: Time, export: Handle) -> bool {
        let place = self.by_export.get(&export).copied();
        let Some(place) = place.filter(|&place| !self.exports[place].features.is_server) else {
            return false;
        };
        let answers = self.callbacks.range((place, 0)..=(place, u64::MAX));
        let cancels = self.timed.range((place, 0, 0)..=(place, u32::MAX, u32::MAX));
        let since = answers.map(|(_, one)| one.since).chain(cancels.map(|(_, since)| *since)).min();
        if let Some(since) = since {
            self.evict(place, EvictReason::NotAnswered, now.since(since));
            self.settle(now);
        }
        since.is_some()
    }

    /// A client reads or writes under its locks: it gets `more` time for those that others wait for.
    /// Spec: ptlrpc-ldlm-mgs §22.6.
    pub fn handle_io(
        &mut self,
        now: Time,
        export: Handle,
        resource: ResourceId,
        extent: Extent,
        more: Duration,
    ) {
        let export = self.by_export.get(&export);
        let (Some(&export), Some(&place)) = (export, self.by_id.get(&resource)) else { return };
        let range = (export, place, 0)..=(export, place, u32::MAX);
        let part = Part { start: extent.start, end: extent.end, value: 0, more: 0 };
        for (&(_, _, id), &since) in self.timed.range(range) {
            let last = since + self.config.times.prolonged_max;
            let timer = Timer::Cancel(id);
            let until = self.timers.get(timer).unwrap_or(now).max((now + more).min(last));
            if self.locks[id].part.overlaps(&part) {
                self.timers.set(timer, until);
            }
        }
    }

    /// Asks all clients for all their locks back, but those of applications on files: what they cover has
    /// become something else. While the target recovers nothing is called back.
    pub fn handle_revocation(&mut self, now: Time) {
        if self.is_recovering {
            return;
        }
        let is_cached = |lock: &Lock| {
            let kind = self.resources[lock.resource].kind;
            lock.is_granted && lock.export != LOCAL && kind != Kind::Flock
        };
        let cached = self.locks.iter().filter(|(_, lock)| is_cached(lock)).map(|(id, _)| id);
        for id in cached.collect::<Vec<u32>>() {
            self.block(now, id, id);
        }
        self.settle(now);
    }

    /// Tells the holder of `id` that the lock `waiter` waits for it, unless it knows.
    /// Spec: ptlrpc-ldlm-mgs §22.1.
    pub(super) fn block(&mut self, now: Time, id: u32, waiter: u32) {
        let Some(lock) = self.locks.get(id) else { return };
        let resource = &self.resources[lock.resource];
        let (kind, resource) = (resource.kind, resource.id);
        let is_group = kind == Kind::Extent && lock.requested == Mode::GROUP;
        if lock.flags.has(Flags::BLOCKS) || is_group {
            return;
        }
        let discards = self.locks[waiter].flags.has(Flags::DISCARDS);
        let mut desc = self.locks[waiter].desc(kind, resource);
        let names = self.names(id);
        let lock = &mut self.locks[id];
        lock.flags = lock.flags.with(Flags::BLOCKS);
        if discards {
            lock.flags = lock.flags.with(Flags::DISCARDED);
        }
        if lock.flags.has(Flags::GRANTING) {
            return;
        }
        let (export, handle, flags) = (lock.export, lock.handle, lock.flags);
        if export == LOCAL {
            let cookie = lock.client.0;
            return self.outputs.push_back(Output::LocalBlocks { cookie });
        }
        // As kernel servers do for all types.
        desc.policy.words[1] = desc.policy.words[0];
        desc.granted = LockMode(0);
        let data = if discards { LockFlags::DISCARD_DATA } else { LockFlags::NONE };
        let lock = LockRequest { flags: data, count: 0, lock: desc, handles: names };
        if flags.has(Flags::CANCEL_ON_BLOCK) {
            let id = self.next_callback(export);
            let export = self.exports[export].handle;
            let kind = CallbackKind::Blocking;
            let callback = Callback { id, export, kind, lock, lvb: None, has_answer: false };
            self.outputs.push_back(Output::Callback(Box::new(callback)));
        } else {
            self.call_back(now, export, CallbackKind::Blocking, lock, (None, handle));
        }
        if flags.has(Flags::CANCEL_ON_BLOCK) { self.remove(id) } else { self.start_timer(now, id) }
    }

    /// Sends a callback that has an answer. `about` is the LVB and the server's lock.
    pub(super) fn call_back(
        &mut self,
        now: Time,
        export: u32,
        kind: CallbackKind,
        lock: LockRequest,
        about: (Option<OstLvb>, Handle),
    ) -> CallbackId {
        let id = self.next_callback(export);
        let under_way = UnderWay { kind, lock: about.1, since: now, glimpse: None };
        self.callbacks.insert((export, id.number), under_way);
        // The timer of the lock is that of a blocking callback.
        if kind != CallbackKind::Blocking {
            self.timers.set(Timer::Answer(id), now + self.config.times.answer);
        }
        let export = self.exports[export].handle;
        let callback = Callback { id, export, kind, lock, lvb: about.0, has_answer: true };
        self.outputs.push_back(Output::Callback(Box::new(callback)));
        id
    }

    fn next_callback(&mut self, export: u32) -> CallbackId {
        self.callbacks_made += 1;
        CallbackId { export, number: self.callbacks_made }
    }

    /// Drops the callbacks to a client that is gone.
    pub(super) fn forget_callbacks(&mut self, export: u32) {
        let numbers = self.callbacks.range((export, 0)..=(export, u64::MAX));
        let numbers: Vec<u64> = numbers.map(|((_, number), _)| *number).collect();
        for number in numbers {
            self.timers.clear(Timer::Answer(CallbackId { export, number }));
            let under_way = self.callbacks.remove(&(export, number));
            if let Some(glimpse) = under_way.and_then(|one| one.glimpse) {
                self.end_callback_of(glimpse);
            }
        }
    }

    /// Begins the time within which a client has to cancel a lock.
    pub(super) fn start_timer(&mut self, now: Time, id: u32) {
        let lock = &self.locks[id];
        let key = (lock.export, lock.resource, id);
        if self.exports[lock.export].features.is_server || self.timed.contains_key(&key) {
            return;
        }
        let times = &self.config.times;
        let whole = self.cancel_time + self.cancel_time / 2;
        let deadline = now + whole.max(times.cancel_min).min(times.cancel_max);
        self.timed.insert(key, now);
        self.timers.set(Timer::Cancel(id), deadline);
    }

    /// Ends it.
    pub(super) fn stop_timer(&mut self, id: u32) -> Option<Time> {
        let lock = &self.locks[id];
        let since = self.timed.remove(&(lock.export, lock.resource, id))?;
        self.timers.clear(Timer::Cancel(id));
        Some(since)
    }
}
