//! Glimpses: how large is an object that others write? Spec: ptlrpc-ldlm-mgs §27.3.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{InodeBits, LockFlags, LockRequest};

use super::api::{CallbackKind, IntentResult, RequestId};
use super::enqueue::ReplyContext;
use super::lock::{Claim, Flags, Kind, Mode};
use super::namespace::{LOCAL, Namespace};
use super::resource::LvbWaiter;
use super::tree;

/// A glimpse whose callbacks are under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glimpse {
    request: RequestId,
    export: Handle,
    place: u32,
    callbacks: u32,
}

impl Glimpse {
    pub(super) fn is_at(&self, place: u32) -> bool {
        self.place == place
    }
}

impl Namespace {
    /// Grants the lock if it is free; or else asks the holders that may know more.
    pub(super) fn glimpse(
        &mut self,
        now: Time,
        place: u32,
        export: Handle,
        claim: &Claim,
        asked: &ReplyContext,
    ) -> Result<(), Errno> {
        let ReplyContext { request, client, flags, .. } = *asked;
        if self.is_free_now(place, claim) {
            let id = self.add_new(place, claim, client, flags);
            self.grant(place, id);
            self.reply_lock(now, id, &asked.with(LockFlags::LOCK_CHANGED));
            return Ok(());
        }
        let is_ahead = flags.has(LockFlags::BLOCK_NOWAIT);
        let holders = if is_ahead { Vec::new() } else { self.holders(place) };
        if holders.is_empty() {
            self.abort(request, IntentResult::default(), self.resources[place].lvb());
            return Ok(());
        }
        if self.pending >= self.config.limits.pending {
            return Err(Errno::EINPROGRESS);
        }
        self.pending += 1;
        // The resource stays as long as the glimpse.
        self.resources[place].locks += 1;
        let callbacks = holders.len() as u32;
        let number = self.glimpses.insert(Glimpse { request, export, place, callbacks });
        for id in holders {
            self.ask(now, id, number);
        }
        Ok(())
    }

    fn ask(&mut self, now: Time, id: u32, glimpse: u64) {
        let lock = &self.locks[id];
        let resource = &self.resources[lock.resource];
        let desc = lock.desc(resource.kind, resource.id);
        let (export, handle) = (lock.export, lock.handle);
        let handles = vec![lock.client, Handle::NONE];
        let request = LockRequest { flags: LockFlags::NONE, count: 0, lock: desc, handles };
        let id = self.call_back(now, export, CallbackKind::Glimpse, request, (None, handle));
        if let Some(under_way) = self.callbacks.get_mut(&(id.export, id.number)) {
            under_way.glimpse = Some(glimpse);
        }
    }

    /// Returns the locks whose holders may know of a larger object, one for each client.
    fn holders(&self, place: u32) -> Vec<u32> {
        let resource = &self.resources[place];
        let size = resource.lvb().map_or(0, |lvb| lvb.size);
        let (mut clients, mut found) = (BTreeSet::new(), Vec::new());
        for group in resource.groups.iter().filter(|group| group.mode != Mode::PR) {
            let bits = self.locks[group.root].part.bits(group.mode);
            let is_other = resource.kind == Kind::Inodebits && bits & InodeBits::DOM.0 == 0;
            if is_other {
                continue;
            }
            // A lock that ends at EOF reaches beyond any size.
            let beyond = size.min(u64::MAX - 1);
            let _ = tree::beyond(&self.locks, group.root, beyond, &mut |id| {
                let lock = &self.locks[id];
                if lock.export != LOCAL && clients.insert(lock.export) {
                    found.push(id);
                }
                if lock.flags.has(Flags::NO_EXPANSION) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
        found
    }

    /// A callback of a glimpse has ended.
    pub(super) fn end_callback_of(&mut self, number: u64) {
        let Some(glimpse) = self.glimpses.get_mut(number) else { return };
        glimpse.callbacks -= 1;
        if glimpse.callbacks > 0 {
            return;
        }
        let Glimpse { request, export, place, .. } = *glimpse;
        self.glimpses.remove(number);
        self.pending -= 1;
        self.resources[place].locks -= 1;
        self.changed.insert(place);
        if self.is_lvb_fresh(place) {
            self.end_glimpse(place, request, export);
        } else if let Err(errno) = self.postpone(place, LvbWaiter::Glimpsed(request, export)) {
            self.refuse(request, errno);
        }
    }

    /// Answers a glimpse with what is known now.
    pub(super) fn end_glimpse(&mut self, place: u32, request: RequestId, export: Handle) {
        if self.by_export.contains_key(&export) {
            self.abort(request, IntentResult::default(), self.resources[place].lvb())
        } else {
            self.refuse(request, Errno::ENOTCONN)
        }
    }
}
