//! Callbacks of the server. Spec: ptlrpc-ldlm-mgs §22.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Status;
use fulmar_lustre_wire::ldlm::{InodeBits, LockFlags, LockMode, LockType};

use super::grant::{called_bits, check_lvb};
use super::lock::{Marks, State};
use super::{Callback, CallbackKind, Coverage, Extra, LockId, Namespace, Output};

/// The flags that callbacks may have. Spec: ptlrpc-ldlm-mgs §18.1.
const FLAGS: u32 = LockFlags::FLOCK_DEADLOCK.0 | LockFlags::DISCARD_DATA.0 | LockFlags::AST_SENT.0;

/// A write lock that was not used for longer is given up after a glimpse.
const GLIMPSED_UNUSED: Duration = Duration::from_secs(10);

impl Namespace {
    /// Handles a callback. [`Output::Answer`] follows: for a glimpse after
    /// [`attributes`](Namespace::attributes), otherwise at once.
    pub fn handle_callback(&mut self, now: Time, callback: Callback<'_>) {
        let cookie = callback.request.handles.first().copied().unwrap_or_default();
        let place = self.place_of(cookie);
        // A lock whose cache is flushed is gone.
        let place = place.filter(|&place| self.locks.at(place).state != State::Flushed);
        match place {
            _ if callback.request.flags.0 & !FLAGS != 0 => {
                self.answer(callback.id, Status::failed(Errno::EPROTO));
            }
            None => self.answer(callback.id, Status::failed(Errno::EINVAL)),
            Some(place) => match callback.kind {
                CallbackKind::Blocking => self.handle_blocking(now, place, callback),
                CallbackKind::Completion => self.handle_completion(now, place, callback),
                CallbackKind::Glimpse => self.handle_glimpse(place, callback.id),
            },
        }
    }

    fn answer(&mut self, callback: u64, status: Status) {
        self.outputs.push_back(Output::Answer { callback, status, lvb: Vec::new() });
    }

    fn handle_blocking(&mut self, now: Time, place: u32, callback: Callback<'_>) {
        self.answer(callback.id, Status::OK);
        let request = callback.request;
        self.learn_handle(place, request.handles.get(1));
        if request.flags.has(LockFlags::DISCARD_DATA) {
            self.locks.at_mut(place).marks.set(Marks::DISCARD);
        }
        self.call_bits(place, called_bits(&request.lock));
        self.settle(now, place);
    }

    fn handle_completion(&mut self, now: Time, place: u32, callback: Callback<'_>) {
        let lock = self.locks.at(place);
        let is_repeated =
            !matches!(lock.state, State::Sent | State::Waiting) || lock.marks.has(Marks::COMPLETED);
        let result = if is_repeated { Ok(()) } else { self.complete(now, place, callback) };
        let status = match result {
            Ok(()) => Status::OK,
            Err(errno) => {
                // The server takes a lock whose callback fails for cancelled.
                self.fail(place, errno);
                Status::failed(Errno::EINVAL)
            }
        };
        self.answer(callback.id, status);
    }

    fn complete(&mut self, now: Time, place: u32, callback: Callback<'_>) -> Result<(), Errno> {
        let Callback { request, lvb, .. } = callback;
        let (kind, granted) = (self.kind(place), request.lock.granted);
        self.learn_handle(place, request.handles.get(1));
        if kind == LockType::FLOCK {
            let is_deadlock = request.flags.has(LockFlags::FLOCK_DEADLOCK);
            if is_deadlock || granted == LockMode(0) {
                let errno = if is_deadlock { Errno::EDEADLK } else { Errno::ECANCELED };
                self.fail(place, errno);
                return Ok(());
            }
        }
        if granted == LockMode(0) {
            return Err(Errno::EPROTO);
        }
        check_lvb(kind, lvb)?;
        let (resource, lock) = (self.resource(place), self.locks.at(place));
        let requested = Coverage { resource, mode: lock.mode(), policy: lock.policy() };
        self.adopt(place, granted, &request.lock)?;
        if request.flags.has(LockFlags::AST_SENT) {
            if request.flags.has(LockFlags::DISCARD_DATA) {
                self.locks.at_mut(place).marks.set(Marks::DISCARD);
            }
            self.call_bits(place, called_bits(&request.lock));
        }
        let lock = self.locks.at_mut(place);
        if lock.state == State::Sent {
            lock.marks.set(Marks::COMPLETED);
            lock.busy().lvb = lvb.to_vec();
            lock.busy().requested = Some(requested);
            return Ok(());
        }
        self.grant(now, place, Extra { lvb: lvb.to_vec(), ..Extra::default() })
    }

    fn handle_glimpse(&mut self, place: u32, callback: u64) {
        match self.locks.at(place).state {
            State::Granted | State::Flushing => {
                let lock = self.locks.id(place);
                self.outputs.push_back(Output::Glimpse { callback, lock });
            }
            _ => self.answer(callback, Status::NO_LOCK_DATA),
        }
    }

    /// Handles the attributes for [`Output::Glimpse`]; `None` if the object is not cached. A write lock
    /// that has not been used for 10 s is given up. Spec: ptlrpc-ldlm-mgs §22.3.
    pub fn attributes(&mut self, now: Time, callback: u64, id: LockId, lvb: Option<Vec<u8>>) {
        let status = if lvb.is_some() { Status::OK } else { Status::NO_LOCK_DATA };
        let lvb = lvb.unwrap_or_default();
        self.outputs.push_back(Output::Answer { callback, status, lvb });
        let Some(place) = self.locks.place(id) else { return };
        let lock = self.locks.at(place);
        let is_old = now.since(lock.used_at) > GLIMPSED_UNUSED;
        if lock.is_usable() && lock.uses == 0 && lock.mode() == LockMode::PW && is_old {
            self.call_bits(place, InodeBits::DOM);
            self.settle(now, place);
        }
    }
}
