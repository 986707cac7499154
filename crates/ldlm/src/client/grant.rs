//! Replies to enqueues. Spec: ptlrpc-ldlm-mgs §21.3.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{
    InodeBits, LockDesc, LockFlags, LockMode, LockReply, LockType, OstLvb, Policy, ResourceDesc,
};
use fulmar_lustre_wire::{Handle, Status};

use super::lock::{Marks, State};
use super::{Answer, Coverage, Extra, LockId, Namespace, Output};
use crate::mode;

impl Namespace {
    /// Handles the reply to an enqueue, or why there is none. A reply to a lock that is not expected is
    /// ignored.
    pub fn handle_enqueued(&mut self, now: Time, id: LockId, result: Result<Answer<'_>, Errno>) {
        let place = self.locks.place(id);
        let place = place.filter(|&place| self.locks.at(place).state == State::Sent);
        let Some(place) = place else { return };
        let Answer { status, reply, lvb } = match result {
            Ok(answer) => answer,
            Err(errno) => return self.refuse(place, errno),
        };
        let extra = reply.map_or_else(Extra::default, |reply| Extra {
            lvb: lvb.to_vec(),
            flags: reply.flags,
            result1: reply.result1,
            result2: reply.result2,
        });
        match (status, reply) {
            (Status::LOCK_ABORTED, Some(_)) => self.end_without_lock(place, extra),
            (Status::OK, Some(reply)) => {
                if let Err(errno) = self.take_reply(now, place, &reply, extra) {
                    self.refuse(place, errno);
                }
            }
            (status, _) => self.refuse(place, status.errno().unwrap_or(Errno::EPROTO)),
        }
    }

    fn take_reply(
        &mut self,
        now: Time,
        place: u32,
        reply: &LockReply,
        mut extra: Extra,
    ) -> Result<(), Errno> {
        let kind = self.kind(place);
        let lock = self.locks.at_mut(place);
        if !reply.handle.is_none() {
            lock.server = reply.handle;
        }
        if reply.flags.has(LockFlags::CANCEL_ON_BLOCK) && kind != LockType::FLOCK {
            lock.marks.set(Marks::CANCEL_ON_BLOCK);
        }
        if lock.server.is_none() && kind != LockType::FLOCK {
            return Err(Errno::EPROTO);
        }
        let is_completed = lock.marks.has(Marks::COMPLETED);
        if is_completed {
            extra.lvb = std::mem::take(&mut lock.busy().lvb);
        } else {
            check_lvb(kind, &extra.lvb)?;
            if reply.flags.has(LockFlags::LOCK_CHANGED) {
                self.adopt(place, reply.lock.requested, &reply.lock)?;
            } else if lock.marks.has(Marks::TEST) {
                // Only what is in the way is described as a change.
                lock.set_mode(LockMode::NL);
            }
        }
        if reply.flags.has(LockFlags::AST_SENT) {
            self.call_bits(place, reply.lock.policy.inodebits().try_bits);
        }
        if is_blocked(reply.flags) && !is_completed {
            self.wait(now, place, reply.flags)
        } else {
            self.grant(now, place, extra)?
        }
        Ok(())
    }

    /// Waits for the completion callback.
    fn wait(&mut self, now: Time, place: u32, flags: LockFlags) {
        // An application may hold a flock for any time.
        let is_bounded = !flags.has(LockFlags::NO_TIMEOUT) && self.kind(place) != LockType::FLOCK;
        let lock = self.locks.at_mut(place);
        lock.state = State::Waiting;
        if lock.marks.has(Marks::ABANDONED) {
            self.give_up(place);
        } else if is_bounded {
            self.waits.set(self.locks.id(place), now + self.settings.wait_max);
        }
    }

    /// The server has granted a lock.
    ///
    /// # Errors
    /// EPROTO if it covers nothing. The lock is as before.
    pub(super) fn grant(&mut self, now: Time, place: u32, extra: Extra) -> Result<(), Errno> {
        let (kind, id) = (self.kind(place), self.locks.id(place));
        let lock = self.locks.at_mut(place);
        if lock.marks.has(Marks::TEST) {
            self.tested(place);
            return Ok(());
        }
        if kind == LockType::IBITS {
            if lock.words[0] == 0 {
                return Err(Errno::EPROTO);
            }
            lock.words[1] = lock.busy().called;
        }
        lock.state = State::Granted;
        lock.used_at = now;
        lock.busy = None;
        self.waits.clear(id);
        if self.locks.at(place).marks.has(Marks::ABANDONED) {
            // Nothing was cached under it.
            self.locks.at_mut(place).marks.set(Marks::CALLED);
            self.give_up(place);
            return Ok(());
        }
        if self.locks.at(place).is_usable() {
            self.index(place);
            self.shrink_equal(now, place);
        }
        let covered = Box::new(self.cover(place));
        self.outputs.push_back(Output::Granted { lock: id, covered, extra: Box::new(extra) });
        match kind {
            LockType::FLOCK => self.merge_flock(place),
            _ => self.locks.at_mut(place).uses = 1,
        }
        Ok(())
    }

    /// Ends a test for a flock, which the server does not keep.
    fn tested(&mut self, place: u32) {
        let id = self.locks.id(place);
        let lock = self.forget(place);
        let conflict = (lock.mode() != LockMode::NL).then(|| (lock.mode(), lock.policy().flock()));
        if !lock.marks.has(Marks::ABANDONED) {
            self.outputs.push_back(Output::Tested { lock: id, conflict });
        }
    }

    fn end_without_lock(&mut self, place: u32, extra: Extra) {
        let kind = self.kind(place);
        if let Err(errno) = check_lvb(kind, &extra.lvb) {
            return self.refuse(place, errno);
        }
        let id = self.locks.id(place);
        let lock = self.forget(place);
        self.cancel_handle(lock.server);
        if !lock.marks.has(Marks::ABANDONED) {
            self.outputs.push_back(Output::NoLock { lock: id, extra: Box::new(extra) });
        }
    }

    /// Ends a lock that is not granted, and what the server has of it.
    pub(super) fn refuse(&mut self, place: u32, errno: Errno) {
        let handle = self.locks.at(place).server;
        self.fail(place, errno);
        self.cancel_handle(handle);
    }

    /// Ends a lock that is not granted, and of which the server has nothing.
    pub(super) fn fail(&mut self, place: u32, errno: Errno) {
        let id = self.locks.id(place);
        if !self.forget(place).marks.has(Marks::ABANDONED) {
            self.outputs.push_back(Output::Failed { lock: id, errno });
        }
    }

    /// Adopts what the server has made of a request.
    ///
    /// # Errors
    /// EPROTO if that is not what was requested. Nothing has changed then.
    pub(super) fn adopt(
        &mut self,
        place: u32,
        changed: LockMode,
        desc: &LockDesc,
    ) -> Result<(), Errno> {
        let (own, lock) = (self.resource(place), self.locks.at(place));
        let flags = lock.busy.as_ref().map_or(LockFlags::NONE, |busy| busy.flags);
        let is_intent = own.kind != LockType::EXTENT && flags.has(LockFlags::HAS_INTENT);
        let is_test = lock.marks.has(Marks::TEST);
        let mode = if changed == LockMode(0) { lock.mode() } else { changed };
        let is_right_mode = mode::is_valid(mode)
            && (is_test || is_intent && mode != LockMode::GROUP || mode::covers(mode, lock.mode()));
        let is_right_resource =
            desc.resource.kind == own.kind && (desc.resource.id == own.id || is_intent && !is_test);
        let is_right_part = match own.kind {
            LockType::EXTENT => contains(desc.policy, lock.policy()),
            LockType::FLOCK => is_test || contains(desc.policy, lock.policy()),
            LockType::IBITS => {
                let bits = |policy: Policy| policy.inodebits().bits;
                is_intent || bits(desc.policy).has(bits(lock.policy()))
            }
            _ => true,
        };
        if !(is_right_mode && is_right_resource && is_right_part) {
            return Err(Errno::EPROTO);
        }
        self.move_to(place, ResourceDesc { id: desc.resource.id, ..own });
        let lock = self.locks.at_mut(place);
        lock.set_mode(mode);
        match own.kind {
            LockType::PLAIN => {}
            // Until it is granted, the other bits are wanted too.
            LockType::IBITS => lock.words[0] = desc.policy.words[0],
            _ => lock.set_policy(desc.policy),
        }
        Ok(())
    }

    /// Makes a lock that cannot be matched one of a resource.
    fn move_to(&mut self, place: u32, desc: ResourceDesc) {
        let before = self.locks.at(place).resource;
        self.locks.at_mut(place).resource = self.resources.take(&desc);
        self.resources.give_back(before);
    }

    /// Forgets a completion that came before the reply: the server has forgotten it too.
    pub(super) fn forget_completion(&mut self, place: u32) {
        let lock = self.locks.at_mut(place);
        lock.marks.clear(Marks::COMPLETED);
        lock.busy().lvb = Vec::new();
        let Some(Coverage { resource, mode, policy }) = lock.busy().requested.take() else {
            return;
        };
        lock.set_mode(mode);
        lock.set_policy(policy);
        self.move_to(place, resource);
    }

    /// Notes the server's handle, if it was not known.
    pub(super) fn learn_handle(&mut self, place: u32, server: Option<&Handle>) {
        let lock = self.locks.at_mut(place);
        if let Some(&server) = server
            && lock.server.is_none()
            && lock.state == State::Sent
        {
            lock.server = server;
        }
    }
}

/// Returns whether a lock is not granted yet.
pub(super) fn is_blocked(flags: LockFlags) -> bool {
    flags.has(LockFlags::BLOCK_GRANTED) || flags.has(LockFlags::BLOCK_WAIT)
}

/// Returns whether a granted range contains the requested one and is of the same group or owner.
fn contains(granted: Policy, wanted: Policy) -> bool {
    let ([start, end, whose], [first, last, own]) = (granted.words, wanted.words);
    start <= first && last <= end && whose == own
}

/// # Errors
/// EINVAL if the value block of an object has another length than either form.
pub(super) fn check_lvb(kind: LockType, lvb: &[u8]) -> Result<(), Errno> {
    match (kind, lvb.len()) {
        (LockType::EXTENT, 0 | OstLvb::LEN_SHORT | OstLvb::LEN) => Ok(()),
        (LockType::EXTENT, _) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Returns the bits that a callback wants.
pub(super) fn called_bits(desc: &LockDesc) -> InodeBits {
    desc.policy.inodebits().try_bits
}
