//! Requests for locks. Spec: ptlrpc-ldlm-mgs §21.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{InodeBits, LockFlags, LockRequest};

use super::api::{Enqueue, IntentResult, Outcome, RequestId};
use super::lock::{Claim, Flags, Kind, Lock, Mode, Part};
use super::namespace::{HolderKey, LOCAL, Namespace};
use super::resource::{Contention, LvbWaiter};

/// The flags that requests may have. Spec: ptlrpc-ldlm-mgs §18.1.
const REQUEST_FLAGS: LockFlags = LockFlags(0xe08c_131a);

/// What a reply needs to know of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyContext {
    pub(super) request: RequestId,
    /// The client's name of the lock.
    pub(super) client: Handle,
    pub(super) flags: LockFlags,
    pub(super) result: IntentResult,
}

impl Namespace {
    /// A client requests a lock. A repeated request finds the lock of the first.
    pub fn handle_enqueue(&mut self, now: Time, enqueue: Enqueue) {
        let result = match self.by_export.get(&enqueue.export) {
            Some(&export) => {
                self.cancel_early(now, export, &enqueue.lock);
                self.begin(now, export, &enqueue)
            }
            None => Err(Errno::ENOTCONN),
        };
        if let Outcome::Replaced(lock, _) = enqueue.outcome {
            // If the client did not get it, it is not known any more.
            self.cancel_all(now, LOCAL, &[lock]);
        }
        if let Err(errno) = result {
            self.refuse(enqueue.request, errno);
        }
        self.settle(now);
    }

    /// Cancels the locks that a request gives up, before the host executes its intent.
    /// [`Namespace::handle_enqueue`] does so too, in case that it was not called.
    pub fn handle_early_cancels(&mut self, now: Time, export: Handle, lock: &LockRequest) {
        if let Some(&export) = self.by_export.get(&export) {
            self.cancel_early(now, export, lock);
            self.settle(now);
        }
    }

    fn cancel_early(&mut self, now: Time, export: u32, lock: &LockRequest) {
        let is_whole = lock.count as usize <= lock.handles.len();
        if !lock.flags.has(LockFlags::REPLAY) && is_whole {
            let gone = lock.valid_handles().get(1..).unwrap_or_default();
            self.cancel_all(now, export, gone);
        }
    }

    fn begin(&mut self, now: Time, export: u32, enqueue: &Enqueue) -> Result<(), Errno> {
        let (claim, asked) = self.check_request(export, enqueue)?;
        let ReplyContext { request, client, flags, result } = asked;
        let is_replay = flags.has(LockFlags::REPLAY);
        if (enqueue.is_resent || is_replay)
            && let Some(id) = self.find_lock(export, client)
        {
            self.reply_lock(now, id, &asked.with(LockFlags::LOCK_CHANGED));
            return Ok(());
        }
        // Otherwise a client could have locks without a check for conflicts.
        if is_replay && !self.is_recovering {
            return Err(Errno::EPROTO);
        }
        match enqueue.outcome {
            Outcome::Failed(errno) => return Err(errno),
            Outcome::Replaced(lock, _) => return self.hand_over(now, export, lock, &asked),
            Outcome::Aborted(_) => {
                self.abort(request, result, None);
                return Ok(());
            }
            Outcome::Ordinary | Outcome::Executed(_) if flags.has(LockFlags::INTENT_ONLY) => {
                self.abort(request, result, None);
                return Ok(());
            }
            Outcome::Ordinary | Outcome::Executed(_) => {}
        }
        let limits = self.config.limits;
        // A flock may split another one of its owner.
        let more = 1 + u32::from(claim.kind == Kind::Flock);
        let is_crowded = self.locks.len() > limits.locks / 2 && !is_replay;
        let of_export = if is_crowded { limits.of_export_crowded } else { limits.of_export };
        let is_full = self.locks.len().saturating_add(more) > limits.locks
            || self.exports[export].locks.saturating_add(more) > of_export;
        if is_full && !(claim.kind == Kind::Flock && claim.mode == Mode::NL) {
            return Err(Errno::EINPROGRESS);
        }
        let place = self.resource(enqueue.lock.lock.resource.id, claim.kind)?;
        let result = if is_replay {
            self.replay(now, place, &claim, &asked)
        } else {
            self.prepare(now, place, enqueue, &claim, &asked)
        };
        self.drop_unused(place);
        result
    }

    /// Checks flags, type, mode and policy, in the order of a kernel server.
    fn check_request(
        &self,
        export: u32,
        enqueue: &Enqueue,
    ) -> Result<(Claim, ReplyContext), Errno> {
        let LockRequest { flags, ref lock, ref handles, .. } = enqueue.lock;
        if flags.0 & !REQUEST_FLAGS.0 != 0 {
            return Err(Errno::EPROTO);
        }
        let kind = Kind::of(lock.resource.kind).ok_or(Errno::EFAULT)?;
        let mode = Mode::of(lock.requested).ok_or(Errno::EFAULT)?;
        if !self.config.types.contains(&lock.resource.kind) {
            return Err(Errno::EPROTO);
        }
        let part = Part::of(kind, mode, lock.policy)?;
        if kind == Kind::Flock && ![Mode::PR, Mode::PW, Mode::NL].contains(&mode) {
            return Err(Errno::EINVAL);
        }
        let client = handles.first().copied().ok_or(Errno::EPROTO)?;
        let result = match enqueue.outcome {
            Outcome::Executed(result) | Outcome::Replaced(_, result) | Outcome::Aborted(result) => {
                result
            }
            Outcome::Ordinary | Outcome::Failed(_) => IntentResult::default(),
        };
        let asked = ReplyContext { request: enqueue.request, client, flags, result };
        Ok((Claim { kind, mode, part, export }, asked))
    }

    /// Decides about a request now, or when the attributes of the object are read.
    fn prepare(
        &mut self,
        now: Time,
        place: u32,
        enqueue: &Enqueue,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        if !claim.has_lvb() || self.is_lvb_fresh(place) {
            return self.decide(now, place, enqueue, claim, asked);
        }
        self.postpone(place, LvbWaiter::Enqueue(Box::new(enqueue.clone())))
    }

    /// Decides about a request that has waited for the attributes: its client may be gone.
    pub(super) fn decide_postponed(&mut self, now: Time, place: u32, enqueue: &Enqueue) {
        let export = self.by_export.get(&enqueue.export).copied().ok_or(Errno::ENOTCONN);
        let checked = export.and_then(|export| self.check_request(export, enqueue));
        let decided =
            checked.and_then(|(claim, asked)| self.decide(now, place, enqueue, &claim, &asked));
        if let Err(errno) = decided {
            self.refuse(enqueue.request, errno);
        }
    }

    /// Decides about a request whose checks have passed.
    fn decide(
        &mut self,
        now: Time,
        place: u32,
        enqueue: &Enqueue,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        match claim.kind {
            _ if is_glimpse(claim, enqueue) => {
                self.glimpse(now, place, enqueue.export, claim, asked)
            }
            Kind::Flock => self.enqueue_flock(now, place, claim, asked),
            _ => self.enqueue_other(now, place, claim, asked),
        }
    }

    fn enqueue_other(
        &mut self,
        now: Time,
        place: u32,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        if self.is_free_now(place, claim) {
            if claim.kind == Kind::Inodebits && self.part_granted(place, claim).value == 0 {
                self.abort(asked.request, asked.result, None);
                return Ok(());
            }
            let id = self.add_new(place, claim, asked.client, asked.flags);
            let is_changed = self.grant(place, id);
            let changed = if is_changed { LockFlags::LOCK_CHANGED } else { LockFlags::NONE };
            self.reply_lock(now, id, &asked.with(changed));
            return Ok(());
        }
        self.check_wait(now, place, claim, asked.flags)?;
        let id = self.add_new(place, claim, asked.client, asked.flags);
        self.wait(id);
        self.reply_lock(now, id, asked);
        self.ask_back_for(now, place, id);
        Ok(())
    }

    /// Returns whether nothing granted and nothing waiting excludes a claim.
    pub(super) fn is_free_now(&self, place: u32, claim: &Claim) -> bool {
        let resource = &self.resources[place];
        resource.has_group(claim)
            || resource.conflict(&self.locks, claim).is_none()
                && !resource.waits_behind(&self.locks, claim)
    }

    /// Decides whether a lock that is not free may wait.
    pub(super) fn check_wait(
        &mut self,
        now: Time,
        place: u32,
        claim: &Claim,
        flags: LockFlags,
    ) -> Result<(), Errno> {
        let is_immediate = flags.has(LockFlags::BLOCK_NOWAIT) && self.waits_for_group(place, claim);
        if claim.kind == Kind::Extent && !(claim.part.is_all() && claim.mode == Mode::PR) {
            let resource = &mut self.resources[place];
            let conflicts = resource.count_conflicts(&self.locks, claim, Contention::COUNT_MAX);
            let contention = &mut resource.more().contention;
            contention.count(now, conflicts);
            if contention.is_contended(now) && flags.has(LockFlags::DENY_ON_CONTENTION) {
                return Err(Errno::EUSERS);
            }
        }
        if is_immediate || flags.has(LockFlags::SPECULATIVE) {
            return Err(Errno::EAGAIN);
        }
        let limits = self.config.limits;
        let is_full = self.resources[place].waiting_len() >= limits.waiting as usize
            || self.exports[claim.export].waiting >= limits.waiting_of_export;
        if is_full && claim.export != LOCAL { Err(Errno::EINPROGRESS) } else { Ok(()) }
    }

    /// Returns whether a group lock is in the way of a claim, or is behind the same as it.
    fn waits_for_group(&self, place: u32, claim: &Claim) -> bool {
        let resource = &self.resources[place];
        let granted = resource.groups.iter().map(|group| &self.locks[group.root]);
        let waiting = resource.waiting().map(|waiter| &self.locks[waiter.lock]);
        let mut groups = granted.chain(waiting).filter(|lock| lock.requested == Mode::GROUP);
        groups.any(|lock| claim.mode == Mode::GROUP || claim.conflicts(&lock.claim(resource.kind)))
    }

    pub(super) fn add_new(
        &mut self,
        place: u32,
        claim: &Claim,
        client: Handle,
        flags: LockFlags,
    ) -> u32 {
        let handle = self.issue();
        self.add(place, Lock::new(handle, client, claim, Flags::of(flags)))
    }

    /// Restores a lock that a client had before the target was restarted.
    /// Spec: ptlrpc-ldlm-mgs §21.6.
    fn replay(
        &mut self,
        now: Time,
        place: u32,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        let ReplyContext { client, flags, .. } = *asked;
        let is_granted = flags.has(LockFlags::BLOCK_GRANTED);
        if !is_granted && !flags.has(LockFlags::BLOCK_WAIT) {
            return match claim.kind {
                Kind::Flock => self.enqueue_flock(now, place, claim, asked),
                _ => self.enqueue_other(now, place, claim, asked),
            };
        }
        let mut claim = *claim;
        if claim.kind == Kind::Inodebits && is_granted {
            claim.part.more = 0;
            if claim.part.value == 0 {
                return Err(Errno::EPROTO);
            }
        }
        if !is_granted {
            let waiting = self.exports[claim.export].waiting;
            if waiting >= self.config.limits.waiting_of_export {
                return Err(Errno::EINPROGRESS);
            }
        }
        let id = self.add_new(place, &claim, client, flags);
        if is_granted {
            self.resources[place].grant(&mut self.locks, id)
        } else {
            self.wait(id)
        }
        self.reply_lock(now, id, asked);
        self.changed.insert(place);
        Ok(())
    }

    /// Gives a lock of the host to the client that it was requested for.
    fn hand_over(
        &mut self,
        now: Time,
        export: u32,
        lock: Handle,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        let found = self.by_handle.get(&lock).copied();
        let found = found.filter(|&id| self.locks[id].export == LOCAL && self.locks[id].is_granted);
        let id = found.ok_or(Errno::EINVAL)?;
        let lock = &mut self.locks[id];
        self.by_holder.remove(&HolderKey::new(LOCAL, lock.client, id));
        (lock.client, lock.export) = (asked.client, export);
        lock.flags = lock.flags.with(Flags::of(asked.flags));
        self.by_holder.insert(HolderKey::new(export, asked.client, id));
        self.exports[LOCAL].locks -= 1;
        self.exports[export].locks += 1;
        self.reply_lock(now, id, &asked.with(LockFlags::LOCK_CHANGED));
        Ok(())
    }
}

impl ReplyContext {
    /// Returns the same with more flags for the reply.
    pub(super) fn with(self, flags: LockFlags) -> Self {
        Self { flags: self.flags.with(flags), ..self }
    }
}

/// Returns whether a request is a glimpse: it wants the size, and a lock only if that is free.
/// Spec: ptlrpc-ldlm-mgs §27.3.
fn is_glimpse(claim: &Claim, enqueue: &Enqueue) -> bool {
    enqueue.lock.flags.has(LockFlags::HAS_INTENT)
        && enqueue.outcome == Outcome::Ordinary
        && match claim.kind {
            Kind::Extent => true,
            Kind::Inodebits => claim.mode == Mode::PR && claim.part.value == InodeBits::DOM.0,
            Kind::Flock | Kind::Plain => false,
        }
}
