//! What the cache of a mount wants, and what it is told of targets and of locks.

use std::pin::pin;
use std::sync::Arc;

use fulmar_base::{Errno, Time};
use fulmar_data::grants::Terms;
use fulmar_data::stripes::{self, Target};
use fulmar_data::{Direction, LockKey, OpId, Output, Reply, Rpc, RpcId};
use fulmar_ldlm::client::{Coverage, LockId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::ldlm::{InodeBits, LockMode, LockType, OstLvb};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_rpc::client::ImportId;
use futures_channel::oneshot::Receiver;
use futures_util::future::{Either, select};

use super::object::{BRW_MAX, Object};
use super::state::{CacheWaiter, MountData, PendingCancel};
use crate::files::mount::Open;
use crate::files::open_cache::HandleKey;
use crate::machine::MountId;
use crate::machine::context::{Context, LockAnswer};
use crate::machine::core::Core;
use crate::machine::requester::Requester;

/// What is sent to a target.
pub(crate) enum Errand {
    /// A read or a write.
    Transfer(Box<Rpc>),
    /// Grant is given back.
    Shrink(Target, u64),
    /// What was kept open is closed.
    Close(HandleKey, Arc<Open>),
}

impl Core {
    /// Uses the data of a mount; what they want is done afterwards.
    pub(crate) fn with_data<R>(
        &mut self,
        mount: MountId,
        call: impl FnOnce(&mut MountData) -> R,
    ) -> Option<R> {
        let data = &mut self.mounts.get_mut(&mount)?.data;
        self.touched_data.insert(mount);
        Some(call(data))
    }

    /// Does what the cache of a mount wants.
    pub(crate) fn follow_data(&mut self, mount: MountId) {
        let now = self.now;
        while let Some(state) = self.mounts.get_mut(&mount) {
            let data = &mut state.data;
            let Some(output) = data.cache.poll_output() else { return };
            match output {
                Output::Allocate { buffer, len } => data.allocate(buffer, len),
                Output::Release { buffer } => data.release(buffer),
                Output::Rpc(rpc) => self.errands.push((mount, Errand::Transfer(rpc))),
                Output::Shrink { target, bytes } => {
                    self.errands.push((mount, Errand::Shrink(target, bytes)));
                    self.tell_grant(mount, target);
                }
                Output::Fill { op, offset, memory } => {
                    data.fill(op, offset, memory);
                    data.cache.handle_filled(now, op);
                }
                Output::Ready { op, bytes } => {
                    // The parts keep their bytes, which never change.
                    let parts = data.parts(&bytes);
                    data.cache.handle_read_end(now, op);
                    if let Some(CacheWaiter::Read(waiting)) = data.waiting.remove(&op) {
                        let _ = waiting.send(parts);
                    }
                }
                Output::Written { op, result } => {
                    if let Some(CacheWaiter::Write(_, _, waiting)) = data.waiting.remove(&op) {
                        let _ = waiting.send(result);
                    }
                }
                Output::Done { op, result } => match data.waiting.remove(&op) {
                    Some(CacheWaiter::Read(waiting)) => {
                        let _ = waiting.send(result.map(|()| Vec::new()));
                    }
                    Some(CacheWaiter::Flush(waiting)) => {
                        let _ = waiting.send(result);
                    }
                    Some(CacheWaiter::Cancel(cancelled)) => self.cancelled(mount, *cancelled),
                    Some(CacheWaiter::Write(..)) | None => {}
                },
            }
        }
    }

    /// Lets the caches do what is due.
    pub(crate) fn data_timeout(&mut self) {
        let now = self.now;
        for (id, mount) in &mut self.mounts {
            if mount.data.cache.poll_timeout().is_some_and(|at| at <= now) {
                mount.data.cache.handle_timeout(now);
                self.touched_data.insert(*id);
            }
        }
    }

    /// Returns the mount of an import, and which target it is, if that has data.
    fn target_of(&self, import: ImportId) -> Option<(MountId, Target)> {
        let id = self.peer(import)?.mount;
        let mount = self.mounts.get(&id)?;
        let osts = mount.osts.iter().map(|(index, ost)| (Target::Ost(*index), *ost));
        let mdts = mount.mdts.iter().map(|(index, mdt)| (Target::Mdt(*index), *mdt));
        let (target, _) = osts.chain(mdts).find(|(_, other)| *other == import)?;
        Some((id, target))
    }

    /// A target is connected.
    pub(crate) fn data_connected(&mut self, import: ImportId) {
        let Some((mount, target)) = self.target_of(import) else { return };
        let granted = self.client().import(import).map(|one| *one.granted()).unwrap_or_default();
        let (now, terms) = (self.now, terms(&granted));
        let first = if granted.flags.has(ConnectFlags::GRANT) { granted.grant.into() } else { 0 };
        self.with_data(mount, |data| data.cache.handle_connected(now, target, terms, first));
        self.tell_grant(mount, target);
    }

    /// Has the connection to a target know what the mount holds of its grant.
    pub(super) fn tell_grant(&mut self, mount: MountId, target: Target) {
        let Some(state) = self.mounts.get(&mount) else { return };
        let import = match target {
            Target::Mdt(index) => state.mdts.get(&index),
            Target::Ost(index) => state.osts.get(&index),
        };
        let Some(import) = import.copied() else { return };
        let held = u32::try_from(state.data.cache.wanted_grant(target)).unwrap_or(u32::MAX);
        self.client().hold_grant(import, held);
    }

    /// A target has forgotten this client.
    pub(crate) fn data_evicted(&mut self, import: ImportId) {
        let Some((mount, target)) = self.target_of(import) else { return };
        let now = self.now;
        self.with_data(mount, |data| {
            data.lose_locks(target);
            data.cache.handle_evicted(now, target);
        });
        self.tell_grant(mount, target);
    }

    /// An RPC of the cache has ended.
    pub(super) fn data_done(
        &mut self,
        mount: MountId,
        (rpc, object, direction): (RpcId, stripes::Object, Direction),
        reply: Reply,
    ) {
        let now = self.now;
        let file = self.with_data(mount, |data| {
            data.cache.handle_done(now, rpc, reply);
            data.objects.get(&object).map(|known| known.object.file)
        });
        self.tell_grant(mount, object.target);
        // The space that the file has, and the size of one that has failed.
        if let Some(file) = file.flatten().filter(|_| direction == Direction::Write) {
            self.attributes_changed(mount, file);
        }
    }

    /// Writes what is dirty under a lock that is given up. Returns whether it covers data;
    /// [`Core::drop_all`] follows then.
    pub(crate) fn cancel_data(
        &mut self,
        (import, lock): (ImportId, LockId),
        covered: &Coverage,
        discard: bool,
    ) -> bool {
        let resource = covered.resource;
        let has_data = match resource.kind {
            LockType::EXTENT => true,
            LockType::IBITS => covered.policy.inodebits().bits.has(InodeBits::DOM),
            _ => false,
        };
        let (now, key) = (self.now, (import, resource.id));
        let Some(mount) = self.peer(import).map(|peer| peer.mount).filter(|_| has_data) else {
            return false;
        };
        let begun = self.with_data(mount, |data| {
            let object = *data.keys.get(&key)?;
            let op = data.cache.handle_cancel(now, object, LockKey(lock.0), discard);
            let cancelled = PendingCancel { import, lock, covered: *covered, object };
            data.waiting.insert(op, CacheWaiter::Cancel(Box::new(cancelled)));
            Some(())
        });
        begun.flatten().is_some()
    }

    /// What a lock covers is written.
    fn cancelled(&mut self, mount: MountId, cancelled: PendingCancel) {
        let PendingCancel { import, lock, covered, object } = cancelled;
        let file = self.with_data(mount, |data| {
            let known = data.objects.get_mut(&object)?;
            known.locks.remove(&lock);
            let (file, is_last) = (known.object.file, known.locks.is_empty());
            if is_last {
                data.forget(file);
            }
            Some(file)
        });
        self.drop_all((import, lock), &covered, file.flatten());
    }

    /// Returns the attributes of an object that others ask this client for, since it has a lock on it.
    /// Spec: mdt-ost §21.1.
    pub(crate) fn glimpsed(&mut self, import: ImportId, lock: LockId) -> Option<Vec<u8>> {
        let peer = self.peer(import)?;
        let (mount, key) = (peer.mount, (import, peer.locks.covered(lock)?.resource.id));
        let mount = self.mounts.get_mut(&mount)?;
        let known = mount.objects.get_mut(&key)?;
        known.tell();
        Some(OstLvb::to_bytes(&mount.data.shown(key, &known.lvb)))
    }
}

/// Returns what a target has said about grants and transfers. Spec: mdt-ost §19.2.
fn terms(granted: &ConnectData) -> Terms {
    // No more than was asked for.
    let brw_size = granted.brw_size.min(BRW_MAX as u32);
    let terms = if granted.flags.has(ConnectFlags::GRANT_PARAM) {
        Terms::announced(
            brw_size,
            granted.grant_block_bits,
            granted.grant_tax_kib,
            granted.grant_blocks_max,
        )
    } else {
        Terms::pages(brw_size.into())
    };
    let has_max = granted.flags.has(ConnectFlags::MAXBYTES) && granted.bytes_max > 0;
    Terms { object_max: if has_max { granted.bytes_max } else { u64::MAX }, ..terms }
}

impl Context {
    /// Data of an object are cached under a lock from now on.
    pub(super) fn caches_under(&self, object: &Object, acquired: &LockAnswer) {
        let (Some(held), Some(covered)) = (&acquired.held, &acquired.covered) else { return };
        let is_write = covered.mode != LockMode::PR;
        let range = if object.is_on_mdt() {
            0..u64::MAX
        } else {
            let extent = covered.policy.extent();
            extent.start..extent.end.saturating_add(1)
        };
        let lock = held.id();
        self.core().with_data(self.mount, |data| {
            let Some(known) = data.objects.get_mut(&object.cached) else { return };
            if known.locks.insert(lock, range.clone()).is_none() {
                data.cache.handle_lock(object.cached, LockKey(lock.0), range, is_write);
            }
        });
    }

    /// Notes in the attributes of a file and of objects that something was written to them now.
    pub(super) fn wrote(&self, fid: Fid, objects: impl Iterator<Item = Object>) {
        let mut core = self.core();
        let now = core.seconds();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        for object in objects {
            if let Some(known) = mount.objects.get_mut(&object.key()) {
                (known.lvb.mtime, known.lvb.ctime) = (now, now);
            }
        }
        if let Some(inode) = mount.inodes.get_mut(&fid) {
            inode.written = Some(now);
        }
    }

    /// Notes in the attributes of an object up to where it is at its target.
    pub(super) fn stored(&self, object: &Object, end: u64, blocks: Option<u64>) {
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        if let Some(known) = mount.objects.get_mut(&object.key()) {
            known.lvb.size = known.lvb.size.max(end);
            known.lvb.blocks = blocks.unwrap_or(known.lvb.blocks);
        }
        if object.is_on_mdt()
            && let Some(inode) = mount.inodes.get_mut(&object.file)
            && let Some(dom) = &mut inode.dom
        {
            dom.size = dom.size.max(end);
        }
    }

    /// Waits for an operation of the cache. One that waits for room or for a target is given up when its requester
    /// goes away.
    pub(super) async fn data_op<T>(
        &self,
        begin: impl FnOnce(&mut MountData, Time) -> Result<(OpId, Receiver<Result<T, Errno>>), Errno>,
    ) -> Result<T, Errno> {
        let (op, mut waiting) = {
            let mut core = self.core();
            let now = core.now;
            core.with_data(self.mount, |data| begin(data, now)).ok_or(Errno::ESHUTDOWN)??
        };
        if let Some(requester) = Requester::current() {
            match select(waiting, pin!(requester.interrupted())).await {
                Either::Left((ended, _)) => return ended.map_err(|_| Errno::EIO)?,
                Either::Right(((), left)) => waiting = left,
            }
            let mut core = self.core();
            let now = core.now;
            // If it is not given up, it ends by itself.
            core.with_data(self.mount, |data| data.cache.handle_interrupt(now, op));
        }
        waiting.await.map_err(|_| Errno::EIO)?
    }
}
