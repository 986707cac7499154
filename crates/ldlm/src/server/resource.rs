//! A resource: its granted locks in groups, and its queue.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{OstLvb, ResourceId};

use super::api::{Enqueue, RequestId};
use super::lock::{Claim, Kind, Lock, Mode};
use super::tree;
use crate::slab::{NIL, Slab};

/// A resource with locks or requests. Others are not kept.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) id: ResourceId,
    pub(super) kind: Kind,
    /// Locks, granted and waiting.
    pub(super) locks: u32,
    /// Locks that conflict with the same locks are together, so that a search sees few groups.
    pub(super) groups: Vec<Group>,
    /// The attributes of an object.
    pub(super) lvb: Option<Box<Lvb>>,
    /// What most resources do not have.
    pub(super) more: Option<Box<More>>,
}

/// Granted locks of one mode; inodebits also of the same bits, group locks of the same group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) value: u64,
    pub(super) root: u32,
    pub(super) count: u32,
    pub(super) mode: Mode,
}

#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) waiting: VecDeque<Waiter>,
    /// Waiting locks by mode.
    pub(super) waiting_modes: [u32; Mode::COUNT],
    /// How often something was granted, to know which locks a waiter has asked back.
    pub(super) grants: u32,
    /// What waits until the LVB is read.
    pub(super) pending: Vec<LvbWaiter>,
    pub(super) contention: Contention,
}

/// A waiting lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) lock: u32,
    /// [`More::grants`] when it last asked those back that are in its way.
    pub(super) asked: Option<u32>,
}

/// The attributes of an object as a namespace knows them.
#[derive(Debug, Default)]
pub(super) struct Lvb {
    pub(super) value: Option<OstLvb>,
    pub(super) state: LvbState,
}

/// Whether they are those of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LvbState {
    /// They have to be read.
    #[default]
    Stale,
    /// The host reads them.
    Reading,
    /// The host reads them, and what it finds may be outdated.
    ReadingStale,
    /// The host reads them, but has said meanwhile what they are.
    ReadingKnown,
    Fresh,
}

/// What waits for the LVB.
#[derive(Debug)]
pub(super) enum LvbWaiter {
    Enqueue(Box<Enqueue>),
    /// The answer to a glimpse.
    Glimpsed(RequestId, Handle),
}

/// Whether a resource is contended. Spec: ptlrpc-ldlm-mgs §24.3.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention {
    since: Time,
    conflicts: u32,
    until: Time,
}

impl Contention {
    const WINDOW: Duration = Duration::from_secs(4);
    const CONFLICTS: u32 = 16;
    /// More conflicts of one request make no difference.
    pub(super) const COUNT_MAX: u32 = Self::CONFLICTS + 1;
    const LASTS: Duration = Duration::from_secs(30);

    pub(super) fn count(&mut self, now: Time, conflicts: u32) {
        if now.since(self.since) > Self::WINDOW {
            (self.since, self.conflicts) = (now, 0);
        }
        self.conflicts = self.conflicts.saturating_add(conflicts);
        if self.conflicts > Self::CONFLICTS {
            self.until = now + Self::LASTS;
        }
    }

    pub(super) fn is_contended(&self, now: Time) -> bool {
        now < self.until
    }
}

impl More {
    /// Returns whether it says nothing about the resource.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pending.is_empty() && self.contention.conflicts == 0
    }
}

impl Resource {
    pub(super) fn new(id: ResourceId, kind: Kind) -> Self {
        Self { id, kind, locks: 0, groups: Vec::new(), lvb: None, more: None }
    }

    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiter> {
        self.more.iter().flat_map(|more| &more.waiting)
    }

    pub(super) fn waiting_len(&self) -> usize {
        self.more.as_ref().map_or(0, |more| more.waiting.len())
    }

    pub(super) fn lvb(&self) -> Option<OstLvb> {
        self.lvb.as_ref().and_then(|lvb| lvb.value)
    }

    pub(super) fn lvb_state(&self) -> LvbState {
        self.lvb.as_ref().map_or(LvbState::Stale, |lvb| lvb.state)
    }

    pub(super) fn is_unused(&self) -> bool {
        let is_read = matches!(self.lvb_state(), LvbState::Stale | LvbState::Fresh);
        is_read && self.locks == 0 && self.more.as_ref().is_none_or(|more| more.pending.is_empty())
    }

    /// Notes that the object may have changed: its LVB is to be read when it is needed next.
    pub(super) fn outdate_lvb(&mut self) {
        if let Some(lvb) = &mut self.lvb {
            lvb.state = match lvb.state {
                LvbState::Fresh | LvbState::Stale => LvbState::Stale,
                LvbState::Reading | LvbState::ReadingStale | LvbState::ReadingKnown => {
                    LvbState::ReadingStale
                }
            };
        }
    }

    /// Adds a lock to the granted ones.
    pub(super) fn grant(&mut self, locks: &mut Slab<Lock>, id: u32) {
        locks[id].is_granted = true;
        let key = self.key(&locks[id]);
        let found = self.groups.iter().position(|group| (group.mode, group.value) == key);
        let at = found.unwrap_or_else(|| {
            let (mode, value) = key;
            // Most resources have one group.
            self.groups.reserve_exact(usize::from(self.groups.is_empty()));
            self.groups.push(Group { value, root: NIL, count: 0, mode });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.root = tree::insert(locks, group.root, id);
        group.count += 1;
    }

    /// Removes a lock from the granted ones.
    pub(super) fn ungrant(&mut self, locks: &mut Slab<Lock>, id: u32) {
        let key = self.key(&locks[id]);
        let found = self.groups.iter().position(|group| (group.mode, group.value) == key);
        let at = found.expect("a granted lock is in a group");
        let group = &mut self.groups[at];
        group.root = tree::remove(locks, group.root, id);
        group.count -= 1;
        if group.count == 0 {
            self.groups.swap_remove(at);
        }
        locks[id].is_granted = false;
    }

    fn key(&self, lock: &Lock) -> (Mode, u64) {
        let value = match self.kind {
            Kind::Inodebits => lock.part.value,
            Kind::Plain | Kind::Extent if lock.requested == Mode::GROUP => lock.part.value,
            Kind::Plain | Kind::Extent | Kind::Flock => 0,
        };
        (lock.requested, value)
    }

    /// Visits the granted locks that conflict with a claim, until `visit` breaks.
    pub(super) fn conflicting(
        &self,
        locks: &Slab<Lock>,
        claim: &Claim,
        visit: &mut dyn FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for group in &self.groups {
            if claim.mode.is_compatible(group.mode) && group.mode != Mode::GROUP {
                continue;
            }
            let is_group = claim.mode == Mode::GROUP || group.mode == Mode::GROUP;
            if matches!(self.kind, Kind::Extent | Kind::Flock) && !is_group {
                let range = (claim.part.start, claim.part.end);
                tree::overlapping(locks, group.root, range, &mut |id| {
                    if claim.conflicts(&locks[id].claim(self.kind)) {
                        visit(id)
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
            } else if claim.conflicts(&locks[group.root].claim(self.kind)) {
                // Without ranges all locks of a group conflict, or none.
                tree::overlapping(locks, group.root, (0, u64::MAX), visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the granted locks that conflict with a claim.
    pub(super) fn conflicts(&self, locks: &Slab<Lock>, claim: &Claim) -> Vec<u32> {
        let mut found = Vec::new();
        let _ = self.conflicting(locks, claim, &mut |id| {
            found.push(id);
            ControlFlow::Continue(())
        });
        found
    }

    /// Returns how many granted locks conflict with a claim, at most `most`.
    pub(super) fn count_conflicts(&self, locks: &Slab<Lock>, claim: &Claim, most: u32) -> u32 {
        let mut count = 0;
        let _ = self.conflicting(locks, claim, &mut |_| {
            count += 1;
            if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        count
    }

    /// Returns a granted lock that conflicts with a claim.
    pub(super) fn conflict(&self, locks: &Slab<Lock>, claim: &Claim) -> Option<u32> {
        let mut found = None;
        let _ = self.conflicting(locks, claim, &mut |id| {
            found = Some(id);
            ControlFlow::Break(())
        });
        found
    }

    /// Returns whether a waiting lock is before a claim that comes last. Flocks do not wait for
    /// waiting ones, as in POSIX.
    pub(super) fn waits_behind(&self, locks: &Slab<Lock>, claim: &Claim) -> bool {
        self.kind != Kind::Flock
            && self.waiting().any(|waiter| claim.conflicts(&locks[waiter.lock].claim(self.kind)))
    }

    /// Returns whether a group lock of this group is granted: others of it join.
    pub(super) fn has_group(&self, claim: &Claim) -> bool {
        let is_same = |group: &Group| group.mode == Mode::GROUP && group.value == claim.part.value;
        claim.mode == Mode::GROUP && self.kind != Kind::Plain && self.groups.iter().any(is_same)
    }

    /// Queues a lock: at the end, but group locks before others and beside those of their group.
    /// Spec: ptlrpc-ldlm-mgs §24.4.
    pub(super) fn queue(&mut self, locks: &Slab<Lock>, id: u32) {
        let lock = &locks[id];
        let more = self.more.get_or_insert_default();
        let group = |waiter: &Waiter| {
            let other = &locks[waiter.lock];
            (other.requested == Mode::GROUP).then_some(other.part.value)
        };
        let at = if lock.requested == Mode::GROUP {
            let groups = more.waiting.iter().take_while(|waiter| group(waiter).is_some());
            let values: Vec<_> = groups.map(group).collect();
            let last = values.iter().rposition(|&value| value == Some(lock.part.value));
            last.map_or(values.len(), |last| last + 1)
        } else {
            more.waiting.len()
        };
        more.waiting.insert(at, Waiter { lock: id, asked: None });
        more.waiting_modes[usize::from(lock.requested.0)] += 1;
    }

    /// Removes a lock from the queue.
    pub(super) fn unqueue(&mut self, locks: &Slab<Lock>, id: u32) {
        let more = self.more.as_mut().expect("a waiting lock is in a queue");
        let at = more.waiting.iter().position(|waiter| waiter.lock == id);
        more.waiting.remove(at.expect("a waiting lock is in the queue"));
        more.waiting_modes[usize::from(locks[id].requested.0)] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::lock::{Flags, Part};
    use super::*;

    #[test]
    fn a_count_of_conflicts_ends_at_its_bound() {
        let id = ResourceId { name: [1, 0, 0, 0] };
        let (mut locks, mut resource) = (Slab::default(), Resource::new(id, Kind::Extent));
        let claim = |mode, start, end| {
            let part = Part { start, end, value: 0, more: 0 };
            Claim { kind: Kind::Extent, mode, part, export: 1 }
        };
        for start in 0..30 {
            let held = claim(Mode::PR, start, start);
            let lock = locks.insert(Lock::new(Handle(1), Handle(1), &held, Flags(0)));
            resource.grant(&mut locks, lock);
        }
        let count = |end, most| resource.count_conflicts(&locks, &claim(Mode::PW, 0, end), most);
        assert_eq!([count(4, 17), count(16, 17), count(29, 17), count(29, 40)], [5, 17, 17, 30]);
        assert_eq!(resource.count_conflicts(&locks, &claim(Mode::PR, 0, 29), 17), 0);
    }

    #[test]
    fn a_resource_is_small() {
        assert!(size_of::<Resource>() <= 88, "{}", size_of::<Resource>());
        assert!(size_of::<Group>() <= 24, "{}", size_of::<Group>());
        assert!(size_of::<Lvb>() <= 72, "{}", size_of::<Lvb>());
    }
}
