//! Cancels and converts. Spec: ptlrpc-ldlm-mgs §23.

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{InodeBits, LockDesc, LockReply, LockRequest};
use fulmar_lustre_wire::{Handle, Status};

use super::api::RequestId;
use super::lock::{BITS_ALL, Flags, Kind, Mode};
use super::namespace::{LOCAL, Namespace};

impl Namespace {
    /// A client cancels locks. Returns how many of them it had; with 0 the status of the reply is a
    /// positive ESTALE. Spec: ptlrpc-ldlm-mgs §23.1.
    ///
    /// # Errors
    /// ENOTCONN without the export; EPROTO if there are fewer handles than the request says.
    pub fn handle_cancel(
        &mut self,
        now: Time,
        export: Handle,
        request: &LockRequest,
    ) -> Result<usize, Errno> {
        let &export = self.by_export.get(&export).ok_or(Errno::ENOTCONN)?;
        let count = request.count.max(1) as usize;
        let handles = request.handles.get(..count).ok_or(Errno::EPROTO)?;
        let known = self.cancel_all(now, export, handles);
        self.settle(now);
        Ok(known)
    }

    /// Cancels locks of a list in another request, such as the removal of a file.
    /// Spec: ptlrpc-ldlm-mgs §23.3.
    pub fn handle_cancel_list(&mut self, now: Time, export: Handle, handles: &[Handle]) {
        if let Some(&export) = self.by_export.get(&export) {
            self.cancel_all(now, export, handles);
            self.settle(now);
        }
    }

    /// Cancels those of the locks that belong to an export.
    pub(super) fn cancel_all(&mut self, now: Time, export: u32, handles: &[Handle]) -> usize {
        let mut known = 0;
        for handle in handles {
            let found = self.by_handle.get(handle).copied();
            let Some(id) = found.filter(|&id| self.locks[id].export == export) else { continue };
            if let Some(since) = self.stop_timer(id) {
                // The estimate follows slow cancels at once and fast ones in a few steps.
                self.cancel_time = now.since(since).max(self.cancel_time * 7 / 8);
            }
            self.remove(id);
            known += 1;
        }
        known
    }

    /// A client gives up bits of a lock. Spec: ptlrpc-ldlm-mgs §23.2.
    pub fn handle_convert(
        &mut self,
        now: Time,
        request: RequestId,
        export: Handle,
        lock: &LockRequest,
    ) {
        let Some(&export) = self.by_export.get(&export) else {
            return self.refuse(request, Errno::ENOTCONN);
        };
        match self.convert(export, lock) {
            Ok(reply) => self.reply(request, Status::OK, reply, None),
            Err(errno) => self.refuse(request, errno),
        }
        self.settle(now);
    }

    /// The host gives up all bits but some of a lock that it has.
    pub fn handle_local_convert(&mut self, now: Time, handle: Handle, keep: InodeBits) {
        let found = self.by_handle.get(&handle).copied();
        if let Some(id) = found.filter(|&id| self.locks[id].export == LOCAL)
            && self.locks[id].is_granted
        {
            self.reduce(id, keep.0);
            let place = self.locks[id].resource;
            if let Some(more) = &mut self.resources[place].more {
                more.grants = more.grants.wrapping_add(1);
            }
            self.changed.insert(place);
        }
        self.settle(now);
    }

    /// Returns the bits of a granted lock; none if there is no such lock.
    pub fn bits(&self, handle: Handle) -> InodeBits {
        let lock = self.by_handle.get(&handle).map(|&id| &self.locks[id]);
        let lock = lock.filter(|lock| lock.is_granted);
        InodeBits(lock.map_or(0, |lock| lock.part.bits(lock.requested)))
    }

    /// Removes all bits but some from a granted lock.
    fn reduce(&mut self, id: u32, keep: u64) {
        let lock = &self.locks[id];
        let resource = &mut self.resources[lock.resource];
        let loses_data = lock.part.value & !keep & InodeBits::DOM.0 != 0;
        if lock.requested.writes() && loses_data {
            resource.outdate_lvb();
        }
        resource.ungrant(&mut self.locks, id);
        self.locks[id].part.value &= keep;
        resource.grant(&mut self.locks, id);
    }

    fn convert(&mut self, export: u32, request: &LockRequest) -> Result<LockReply, Errno> {
        let handle = request.handles.first().ok_or(Errno::EPROTO)?;
        let found = self.by_handle.get(handle).copied();
        // A cancel, or an eviction, was first.
        let Some(id) = found.filter(|&id| self.locks[id].export == export) else {
            return Ok(LockReply::default());
        };
        let lock = &self.locks[id];
        let (place, mode, part) = (lock.resource, lock.requested, lock.part);
        let keep = request.lock.policy.inodebits().bits.0 & BITS_ALL;
        let is_valid = self.resources[place].kind == Kind::Inodebits
            && lock.is_granted
            && mode != Mode::GROUP
            && request.lock.requested == mode.wire()
            && keep & part.value != 0;
        if !is_valid {
            return Err(Errno::EPROTO);
        }
        self.stop_timer(id);
        self.reduce(id, keep);
        let lock = &mut self.locks[id];
        lock.flags = lock.flags.without(Flags::BLOCKS);
        let (policy, client) = (lock.part.policy(Kind::Inodebits, mode), lock.client);
        let resource = &mut self.resources[place];
        // What still waits for it asks again.
        if let Some(more) = &mut resource.more {
            more.grants = more.grants.wrapping_add(1);
        }
        self.changed.insert(place);
        let lock = LockDesc { policy, ..Default::default() };
        Ok(LockReply { lock, handle: client, ..Default::default() })
    }
}
