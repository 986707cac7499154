//! Granting, and looking at the queue of a resource.

use fulmar_base::Time;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{LockFlags, LockRequest};

use super::ahead::Ahead;
use super::api::{CallbackKind, Output};
use super::lock::{Claim, Flags, Kind, Mode, Part};
use super::namespace::{LOCAL, Namespace};
use super::resource::More;

impl Namespace {
    /// Grants the waiting locks of a resource that are free now, in order, and asks back what is in
    /// the way of the others. `without_lvb`: the attributes of the object cannot be read.
    /// Spec: ptlrpc-ldlm-mgs §21.2.
    pub(super) fn reprocess(&mut self, now: Time, place: u32, without_lvb: bool) {
        let Some(resource) = self.resources.get(place) else { return };
        let kind = resource.kind;
        if resource.waiting_len() == 0 {
            return;
        }
        if self.is_recovering {
            return self.grant_local(now, place);
        }
        let (mut ahead, mut granted, mut index) = (Ahead::default(), Vec::new(), 0);
        while let Some(id) = self.waiter(place, index) {
            let claim = self.locks[id].claim(kind);
            if self.is_free(place, &claim, &ahead) {
                if claim.has_lvb() && !without_lvb && !self.is_lvb_fresh(place) {
                    self.read_lvb(place);
                    break;
                }
                self.unwait(id);
                self.grant_waiting(now, place, id);
                granted.push(id);
                continue;
            }
            self.ask_back(now, place, index, &claim);
            ahead.add(&claim);
            index += 1;
            if self.is_all_covered(place, &ahead) {
                break;
            }
        }
        match kind {
            Kind::Flock if granted.is_empty() => {}
            Kind::Flock => self.end_deadlocks(now, place),
            _ => granted.into_iter().for_each(|id| self.complete(now, place, id)),
        }
    }

    /// Grants the waiting locks of the host that are free. While a target recovers no other client gets what was
    /// not granted before, but an operation that is replayed may wait for the end of an earlier one.
    fn grant_local(&mut self, now: Time, place: u32) {
        let (kind, mut index) = (self.resources[place].kind, 0);
        while let Some(id) = self.waiter(place, index) {
            let claim = self.locks[id].claim(kind);
            let is_free = self.resources[place].conflict(&self.locks, &claim).is_none();
            if claim.export != LOCAL || kind != Kind::Inodebits || !is_free {
                index += 1;
                continue;
            }
            self.unwait(id);
            self.grant_waiting(now, place, id);
            self.complete(now, place, id);
        }
    }

    fn waiter(&self, place: u32, index: usize) -> Option<u32> {
        let more = self.resources[place].more.as_ref()?;
        more.waiting.get(index).map(|waiter| waiter.lock)
    }

    fn is_free(&self, place: u32, claim: &Claim, ahead: &Ahead) -> bool {
        let resource = &self.resources[place];
        resource.has_group(claim)
            || !ahead.conflicts(claim) && resource.conflict(&self.locks, claim).is_none()
    }

    /// Returns whether nothing behind the locks `ahead` can be free.
    fn is_all_covered(&self, place: u32, ahead: &Ahead) -> bool {
        let resource = &self.resources[place];
        let Some(more) = &resource.more else { return true };
        let mut modes = more.waiting_modes.iter().enumerate();
        modes.all(|(mode, &count)| count == 0 || ahead.covers(resource.kind, Mode(mode as u8)))
    }

    /// Asks those locks back that are in the way of one that begins to wait. Of those, the ones that
    /// go by themselves may leave the way free.
    pub(super) fn ask_back_for(&mut self, now: Time, place: u32, id: u32) {
        let resource = &self.resources[place];
        let last = resource.waiting_len().saturating_sub(1);
        match self.waiter(place, last) {
            Some(lock) if lock == id && !self.is_recovering => {
                let claim = self.locks[id].claim(resource.kind);
                self.ask_back(now, place, last, &claim);
            }
            // It is before others.
            _ => drop(self.changed.insert(place)),
        }
    }

    /// Asks those locks back that are in the way of a waiting one, unless that was done.
    fn ask_back(&mut self, now: Time, place: u32, index: usize, claim: &Claim) {
        let resource = &mut self.resources[place];
        let kind = resource.kind;
        let More { grants, waiting, .. } = resource.more();
        let waiter = &mut waiting[index];
        if kind == Kind::Flock || waiter.asked == Some(*grants) {
            return;
        }
        waiter.asked = Some(*grants);
        let id = waiter.lock;
        for other in self.resources[place].conflicts(&self.locks, claim) {
            self.block(now, other, id);
        }
    }

    /// Grants a lock that is free. Returns whether it covers something else than was requested.
    pub(super) fn grant(&mut self, place: u32, id: u32) -> bool {
        let claim = self.locks[id].claim(self.resources[place].kind);
        let is_exact = self.locks[id].flags.has(Flags::NO_EXPANSION) || claim.export == LOCAL;
        let part = if is_exact && claim.kind != Kind::Inodebits {
            claim.part
        } else {
            self.part_granted(place, &claim)
        };
        self.locks[id].part = part;
        self.resources[place].grant(&mut self.locks, id);
        if let Some(more) = &mut self.resources[place].more {
            more.grants = more.grants.wrapping_add(1);
            // A group may have been joined although others wait: they ask this lock back too.
            if !more.waiting.is_empty() {
                self.changed.insert(place);
            }
        }
        (part.start, part.end, part.value) != (claim.part.start, claim.part.end, claim.part.value)
    }

    /// Returns what a lock gets that is free: extents grow, and optional bits that are free come
    /// along.
    pub(super) fn part_granted(&self, place: u32, claim: &Claim) -> Part {
        match claim.kind {
            Kind::Extent => self.grow(place, claim),
            Kind::Inodebits if claim.mode != Mode::GROUP => {
                let taken = self.bits_taken(place, claim);
                let more = u64::from(claim.part.more) & !taken;
                Part { value: claim.part.value | more, more: 0, ..claim.part }
            }
            _ => claim.part,
        }
    }

    /// Returns the bits that a lock cannot have, because of granted or of waiting locks.
    pub(super) fn bits_taken(&self, place: u32, claim: &Claim) -> u64 {
        let resource = &self.resources[place];
        let groups = resource.groups.iter().map(|group| &self.locks[group.root]);
        let waiting = resource.waiting().map(|waiter| &self.locks[waiter.lock]);
        let opposed =
            groups.chain(waiting).filter(|lock| !lock.requested.is_compatible(claim.mode));
        opposed.fold(0, |bits, lock| bits | lock.part.bits(lock.requested))
    }

    fn grant_waiting(&mut self, now: Time, place: u32, id: u32) {
        let lock = &mut self.locks[id];
        if self.resources[place].kind != Kind::Flock {
            lock.flags = lock.flags.with(Flags::GRANTING);
            self.grant(place, id);
            return;
        }
        // Its holder learns of it before it may become a part of another one.
        lock.is_granted = true;
        self.complete(now, place, id);
        self.grant_flock(place, id);
    }

    /// Tells the holder of a lock that it is granted.
    fn complete(&mut self, now: Time, place: u32, id: u32) {
        let lock = &mut self.locks[id];
        lock.flags = lock.flags.without(Flags::GRANTING);
        let is_asked_back = lock.flags.has(Flags::BLOCKS);
        let (export, client, handle) = (lock.export, lock.client, lock.handle);
        if export == LOCAL {
            self.outputs.push_back(Output::Local { cookie: client.0, result: Ok(handle) });
            if is_asked_back {
                self.outputs.push_back(Output::LocalBlocks { cookie: client.0 });
            }
            return;
        }
        let resource = &self.resources[place];
        let mut desc = self.locks[id].desc(resource.kind, resource.id);
        let has_lvb = self.locks[id].claim(resource.kind).has_lvb();
        let lvb = if has_lvb { resource.lvb() } else { None };
        let mut flags = LockFlags::NONE;
        if is_asked_back {
            flags = flags.with(LockFlags::AST_SENT);
            if self.locks[id].flags.has(Flags::DISCARDED) {
                flags = flags.with(LockFlags::DISCARD_DATA);
            }
            if resource.kind == Kind::Inodebits {
                desc.policy.words[1] = self.bits_wanted(id);
            }
        }
        let lock = LockRequest { flags, count: 0, lock: desc, handles: vec![client, handle] };
        let goes = is_asked_back && self.locks[id].flags.has(Flags::CANCEL_ON_BLOCK);
        self.call_back(now, export, CallbackKind::Completion, lock, (lvb, handle));
        if goes {
            self.remove(id);
        } else if is_asked_back {
            self.start_timer(now, id);
        }
    }

    /// Returns the names of a lock as callbacks carry them.
    pub(super) fn names(&self, id: u32) -> Vec<Handle> {
        let lock = &self.locks[id];
        vec![lock.client, lock.handle]
    }
}
