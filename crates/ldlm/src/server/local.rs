//! Locks of the host itself: for the operations that it executes.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::LockFlags;

use super::api::{LocalEnqueue, Output};
use super::lock::{Claim, Kind, Mode, Part};
use super::namespace::{LOCAL, Namespace};

impl Namespace {
    /// The host requests a lock. [`Output::Local`] follows once: with EAGAIN if it wanted only optional bits,
    /// and none is free.
    pub fn handle_local_enqueue(&mut self, now: Time, enqueue: LocalEnqueue) {
        let cookie = enqueue.cookie;
        match self.enqueue_local(now, &enqueue) {
            Ok(Some(handle)) => {
                self.outputs.push_back(Output::Local { cookie, result: Ok(handle) });
            }
            Ok(None) => {}
            Err(errno) => self.outputs.push_back(Output::Local { cookie, result: Err(errno) }),
        }
        self.settle(now);
    }

    fn enqueue_local(
        &mut self,
        now: Time,
        enqueue: &LocalEnqueue,
    ) -> Result<Option<Handle>, Errno> {
        let kind = Kind::of(enqueue.kind).ok_or(Errno::EINVAL)?;
        let mode = Mode::of(enqueue.mode).ok_or(Errno::EINVAL)?;
        if kind == Kind::Flock {
            return Err(Errno::EINVAL);
        }
        let part = Part::of(kind, mode, enqueue.policy)?;
        let mut claim = Claim { kind, mode, part, export: LOCAL };
        let place = self.resource(enqueue.resource, kind)?;
        let flag = |is_set, flag| if is_set { flag } else { LockFlags::NONE };
        let flags = flag(enqueue.is_immediate, LockFlags::SPECULATIVE)
            .with(flag(enqueue.discards_data, LockFlags::AST_DISCARD_DATA));
        let is_free = self.is_free_now(place, &claim);
        let is_empty = || self.part_granted(place, &claim).value == 0;
        if is_free && kind == Kind::Inodebits && is_empty() {
            self.drop_unused(place);
            return Err(Errno::EAGAIN);
        }
        if !is_free && let Err(errno) = self.check_wait(now, place, &claim, flags) {
            self.drop_unused(place);
            return Err(errno);
        }
        if !is_free && kind == Kind::Inodebits {
            // Optional bits are those that are free now, not those that holders give back meanwhile.
            claim.part.more &= !(self.bits_taken(place, &claim) as u32);
        }
        let id = self.add_new(place, &claim, Handle(enqueue.cookie), flags);
        if is_free {
            self.grant(place, id);
            return Ok(Some(self.locks[id].handle));
        }
        self.wait(id);
        self.ask_back_for(now, place, id);
        Ok(None)
    }

    /// The host gives locks of its own up, or requests for them, by their handles.
    pub fn handle_local_cancel(&mut self, now: Time, handles: &[Handle]) {
        self.cancel_all(now, LOCAL, handles);
        self.settle(now);
    }

    /// The host gives up what it requested with this cookie, granted or not.
    pub fn handle_local_withdraw(&mut self, now: Time, cookie: u64) {
        while let Some(id) = self.find_lock(LOCAL, Handle(cookie)) {
            self.remove(id);
        }
        self.settle(now);
    }
}
