//! Flock and POSIX locks. Spec: ptlrpc-ldlm-mgs §25.2.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{
    LockDesc, LockFlags, LockMode, LockReply, LockRequest, ResourceDesc,
};
use fulmar_lustre_wire::{Handle, Status};

use super::api::{CallbackKind, RequestId};
use super::enqueue::ReplyContext;
use super::lock::{Claim, Kind, Lock, Mode, Part};
use super::namespace::Namespace;

/// How many owners and locks a search for deadlocks visits. What it does not find then is none.
const SEARCH_MAX: u32 = 100_000;

impl Namespace {
    pub(super) fn enqueue_flock(
        &mut self,
        now: Time,
        place: u32,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        let ReplyContext { request, client, flags, .. } = *asked;
        if claim.mode == Mode::NL {
            return self.unlock(now, place, request, claim, flags);
        }
        if flags.has(LockFlags::TEST_LOCK) {
            let conflict = self.first_conflict(place, claim);
            self.reply_test(place, request, claim, flags, conflict);
            return Ok(());
        }
        if self.resources[place].conflict(&self.locks, claim).is_some() {
            if flags.has(LockFlags::BLOCK_NOWAIT) {
                return Err(Errno::EAGAIN);
            }
            if self.is_deadlock(place, claim, &mut { SEARCH_MAX }) {
                return Err(Errno::EDEADLK);
            }
            self.check_wait(now, place, claim, flags)?;
            let id = self.add_new(place, claim, client, flags);
            self.wait(id);
            self.reply_lock(now, id, asked);
            return Ok(());
        }
        let id = self.add_new(place, claim, client, flags);
        self.grant_flock(place, id);
        let handle = self.locks[id].handle;
        let reply = LockReply {
            flags,
            lock: self.flock_desc(place, claim, claim.mode),
            handle,
            ..Default::default()
        };
        self.reply(request, Status::OK, reply, None);
        Ok(())
    }

    /// Describes what was requested, since the lock may have become part of a larger one.
    fn flock_desc(&self, place: u32, claim: &Claim, granted: Mode) -> LockDesc {
        let id = self.resources[place].id;
        LockDesc {
            resource: ResourceDesc { kind: Kind::Flock.wire(), id, ..Default::default() },
            requested: claim.mode.wire(),
            granted: granted.wire(),
            policy: claim.part.policy(Kind::Flock, claim.mode),
        }
    }

    /// Returns the first lock in the way by its range, as `F_GETLK` of a local file system does.
    fn first_conflict(&self, place: u32, claim: &Claim) -> Option<u32> {
        let conflicts = self.resources[place].conflicts(&self.locks, claim);
        conflicts.into_iter().min_by_key(|id| {
            let Part { start, end, .. } = self.locks[*id].part;
            (start, end)
        })
    }

    /// Tells which lock is in the way, or none.
    fn reply_test(
        &mut self,
        place: u32,
        request: RequestId,
        claim: &Claim,
        flags: LockFlags,
        conflict: Option<u32>,
    ) {
        let found = match conflict {
            Some(id) => self.locks[id].claim(Kind::Flock),
            None => Claim { mode: Mode::NL, ..*claim },
        };
        let changed = flags.with(LockFlags::LOCK_CHANGED);
        let flags = if conflict.is_some() { changed } else { flags };
        let mut lock = self.flock_desc(place, &found, found.mode);
        lock.granted = LockMode(0);
        self.reply(request, Status::OK, LockReply { flags, lock, ..Default::default() }, None);
    }

    fn unlock(
        &mut self,
        now: Time,
        place: u32,
        request: RequestId,
        claim: &Claim,
        flags: LockFlags,
    ) -> Result<(), Errno> {
        if flags.has(LockFlags::TEST_LOCK) {
            self.reply_test(place, request, claim, flags, None);
            return Ok(());
        }
        self.refuse_waiting(now, place, claim);
        let limits = self.config.limits;
        let is_full = self.exports[claim.export].locks >= limits.of_export
            || self.locks.len() >= limits.locks;
        let splits = |id: &u32| {
            let part = self.locks[*id].part;
            part.start < claim.part.start && part.end > claim.part.end
        };
        if is_full && self.of_owner(place, claim).iter().any(splits) {
            return Err(Errno::ENOMEM);
        }
        self.carve(place, claim);
        self.changed.insert(place);
        let handle = self.issue();
        let lock = self.flock_desc(place, claim, Mode::NL);
        self.reply(
            request,
            Status::OK,
            LockReply { flags, lock, handle, ..Default::default() },
            None,
        );
        Ok(())
    }

    /// An owner that unlocks exactly what it waits for, does not wait any more.
    fn refuse_waiting(&mut self, now: Time, place: u32, claim: &Claim) {
        let waiting = self.flocks_waiting.get(&(claim.export, claim.part.value));
        let is_same = |id: &u32| {
            let lock = &self.locks[*id];
            (lock.resource, lock.part.start, lock.part.end)
                == (place, claim.part.start, claim.part.end)
        };
        let found: Vec<u32> = waiting.into_iter().flatten().copied().filter(is_same).collect();
        for id in found {
            self.end_waiting(now, id, LockFlags::NONE);
        }
    }

    /// Ends a waiting flock without granting it.
    fn end_waiting(&mut self, now: Time, id: u32, flags: LockFlags) {
        let lock = &self.locks[id];
        let (export, handle) = (lock.export, lock.handle);
        let resource = &self.resources[lock.resource];
        let desc = lock.desc(resource.kind, resource.id);
        let request = LockRequest { flags, count: 0, lock: desc, handles: self.names(id) };
        self.remove(id);
        self.call_back(now, export, CallbackKind::Completion, request, (None, handle));
    }

    /// Grants a flock that is free: it replaces what its owner has of the range, and joins locks of
    /// the same mode beside it.
    pub(super) fn grant_flock(&mut self, place: u32, id: u32) {
        let claim = self.locks[id].claim(Kind::Flock);
        self.carve(place, &claim);
        let Part { start, end, .. } = claim.part;
        let beside =
            Part { start: start.saturating_sub(1), end: end.saturating_add(1), ..claim.part };
        let mut part = claim.part;
        for other in self.of_owner(place, &Claim { part: beside, ..claim }) {
            if self.locks[other].requested == claim.mode {
                let Part { start, end, .. } = self.locks[other].part;
                (part.start, part.end) = (part.start.min(start), part.end.max(end));
                self.remove(other);
            }
        }
        self.locks[id].part = part;
        self.resources[place].grant(&mut self.locks, id);
        // A lower mode of the same owner may set others free.
        self.changed.insert(place);
    }

    /// Returns the granted locks of the owner that overlap its range.
    fn of_owner(&self, place: u32, claim: &Claim) -> Vec<u32> {
        let mut found = Vec::new();
        for group in &self.resources[place].groups {
            let range = (claim.part.start, claim.part.end);
            let _ = super::tree::overlapping(&self.locks, group.root, range, &mut |id| {
                if self.locks[id].claim(Kind::Flock).has_owner_of(claim) {
                    found.push(id);
                }
                ControlFlow::Continue(())
            });
        }
        found
    }

    /// Cuts a range from the granted locks of its owner.
    fn carve(&mut self, place: u32, claim: &Claim) {
        let Part { start, end, .. } = claim.part;
        for id in self.of_owner(place, claim) {
            let part = self.locks[id].part;
            let (has_before, has_after) = (part.start < start, part.end > end);
            if !has_before && !has_after {
                self.remove(id);
                continue;
            }
            self.resources[place].ungrant(&mut self.locks, id);
            let lock = &mut self.locks[id];
            if has_before {
                lock.part.end = start - 1
            } else {
                lock.part.start = end + 1
            }
            let (mode, flags) = (lock.requested, lock.flags);
            self.resources[place].grant(&mut self.locks, id);
            if has_before && has_after {
                let rest = Claim { mode, part: Part { start: end + 1, ..part }, ..*claim };
                let handle = self.issue();
                let rest = self.add(place, Lock::new(handle, Handle::NONE, &rest, flags));
                self.resources[place].grant(&mut self.locks, rest);
            }
        }
    }

    /// Returns whether an owner that waits for this would wait for itself. `left` is how much may
    /// still be visited.
    fn is_deadlock(&self, place: u32, claim: &Claim, left: &mut u32) -> bool {
        let me = (claim.export, claim.part.value);
        let mut visited = BTreeSet::new();
        let mut owners: Vec<_> = self.owners_in_way(place, claim, left).into_iter().collect();
        while let Some(owner) = owners.pop() {
            if owner == me {
                return true;
            }
            if !visited.insert(owner) {
                continue;
            }
            for &id in self.flocks_waiting.get(&owner).into_iter().flatten() {
                let lock = &self.locks[id];
                let claim = lock.claim(Kind::Flock);
                owners.extend(self.owners_in_way(lock.resource, &claim, left));
            }
        }
        false
    }

    fn owners_in_way(&self, place: u32, claim: &Claim, left: &mut u32) -> BTreeSet<(u32, u64)> {
        let mut owners = BTreeSet::new();
        *left = left.saturating_sub(1);
        let _ = self.resources[place].conflicting(&self.locks, claim, &mut |id| {
            if *left == 0 {
                return ControlFlow::Break(());
            }
            *left -= 1;
            let lock = &self.locks[id];
            owners.insert((lock.export, lock.part.value));
            ControlFlow::Continue(())
        });
        owners
    }

    /// Ends waiting flocks that wait for themselves since others were granted.
    pub(super) fn end_deadlocks(&mut self, now: Time, place: u32) {
        let waiting: Vec<u32> = self.resources[place].waiting().map(|waiter| waiter.lock).collect();
        let mut left = SEARCH_MAX;
        for id in waiting {
            let lock = &self.locks[id];
            let knows = self.exports[lock.export].features.flock_deadlock;
            if knows && self.is_deadlock(place, &lock.claim(Kind::Flock), &mut left) {
                let flags = LockFlags::AST_SENT.with(LockFlags::FLOCK_DEADLOCK);
                self.end_waiting(now, id, flags);
            }
        }
    }
}
