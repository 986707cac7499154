//! What a lock protects is dropped before the target gets the lock back.

use std::fmt;
use std::sync::Arc;

use fulmar_base::Time;
use fulmar_ldlm::client::{Coverage, LockId};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::{InodeBits, InodebitsPolicy, LockMode, LockType};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::TargetKind;

use super::MountId;
use super::core::Core;
use crate::watch::{Stale, Watcher};

/// Somebody outside has to drop what it caches before a lock is given up.
pub(crate) struct Upcall {
    pub(crate) watcher: Arc<dyn Watcher>,
    pub(crate) stale: Vec<Stale>,
    /// The lock that is given up after that.
    pub(crate) lock: Option<(ImportId, LockId)>,
}

impl Core {
    /// Writes what is dirty under a lock, and drops what it covers.
    pub(super) fn flush(
        &mut self,
        import: ImportId,
        lock: LockId,
        covered: &Coverage,
        discard: bool,
    ) {
        if !self.cancel_data((import, lock), covered, discard) {
            self.drop_all((import, lock), covered, None);
        }
    }

    /// Drops what a lock covers, here and at the watcher of the mount. Its data are dropped already. `file`: of
    /// which they were, if that is known.
    pub(crate) fn drop_all(
        &mut self,
        (import, lock): (ImportId, LockId),
        covered: &Coverage,
        file: Option<Fid>,
    ) {
        let stale = self.drop_covered(import, covered, file);
        let now = self.now;
        let Some(peer) = self.peers.get(&import) else { return };
        let watcher = self.mounts.get(&peer.mount).and_then(|mount| mount.watcher.clone());
        match watcher.filter(|one| !stale.is_empty() && one.concerns(&stale)) {
            Some(watcher) => {
                self.upcalls.push_back(Upcall { watcher, stale, lock: Some((import, lock)) });
            }
            None => self.flushed(now, import, lock),
        }
    }

    /// The attributes of a file are other ones by what this client does: who keeps them drops them.
    pub(crate) fn attributes_changed(&mut self, mount: MountId, file: Fid) {
        let watcher = self.mounts.get(&mount).and_then(|mount| mount.watcher.clone());
        let stale = vec![Stale::Attributes(file)];
        if let Some(watcher) = watcher.filter(|one| one.concerns(&stale)) {
            self.upcalls.push_back(Upcall { watcher, stale, lock: None });
        }
    }

    /// What a lock covers is dropped everywhere.
    pub(crate) fn flushed(&mut self, now: Time, import: ImportId, lock: LockId) {
        if let Some(peer) = self.peer_mut(import) {
            peer.locks.flushed(now, lock);
        }
    }

    /// Drops what a lock covers here. Returns what others may have of it.
    fn drop_covered(
        &mut self,
        import: ImportId,
        covered: &Coverage,
        file: Option<Fid>,
    ) -> Vec<Stale> {
        let Some(peer) = self.peers.get(&import) else { return Vec::new() };
        let Some(mount) = self.mounts.get_mut(&peer.mount) else { return Vec::new() };
        let (resource, id) = (covered.resource, covered.resource.id);
        match (peer.kind, resource.kind) {
            (TargetKind::Mgs, _) => {
                mount.configuration_changed(id);
                Vec::new()
            }
            (_, LockType::IBITS) => {
                let gone = covered.policy.inodebits().bits;
                let mut lost = InodeBits::NONE;
                for bit in BITS.into_iter().filter(|bit| gone.has(*bit)) {
                    let policy = InodebitsPolicy {
                        bits: bit,
                        try_bits: InodeBits::NONE,
                        gid: 0,
                        initiator: 0,
                    };
                    if peer.locks.find(&resource, LockMode::CR, policy).is_none() {
                        lost = lost | bit;
                    }
                }
                if lost.has(InodeBits::DOM) {
                    mount.objects.remove(&(import, id));
                }
                mount.lose_bits(id.fid(), lost)
            }
            (_, LockType::EXTENT) => {
                let last = peer.locks.last_covered(&resource);
                mount.lose_extent(import, id, (file, last))
            }
            _ => Vec::new(),
        }
    }

    /// The target has evicted this client: nothing that it had granted holds any more.
    pub(super) fn evicted(&mut self, import: ImportId) {
        let Some(peer) = self.peers.get(&import) else { return };
        let kind = peer.kind;
        let Some(mount) = self.mounts.get_mut(&peer.mount) else { return };
        match kind {
            TargetKind::Mgs => mount.configuration_lost(),
            _ => mount.lose_all(import),
        }
        mount.data.forget_unused();
        if let Some(watcher) = mount.watcher.clone().filter(|_| kind != TargetKind::Mgs) {
            self.upcalls.push_back(Upcall { watcher, stale: vec![Stale::Everything], lock: None });
        }
    }
}

/// The bits of a lock on the state of a file.
const BITS: [InodeBits; 7] = [
    InodeBits::LOOKUP,
    InodeBits::UPDATE,
    InodeBits::OPEN,
    InodeBits::LAYOUT,
    InodeBits::PERM,
    InodeBits::XATTR,
    InodeBits::DOM,
];

impl fmt::Debug for Upcall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upcall about {:?}", self.stale)
    }
}
