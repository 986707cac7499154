//! Locks on the data of objects.

use std::ops::Range;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_ldlm::client::{Coverage, LockId, LockSpec};
use fulmar_lustre_wire::ldlm::{Extent, InodeBits, LockMode, OstLvb, Policy, ResourceDesc};
use fulmar_lustre_wire::{Content, Fid, Handle};
use fulmar_wire::Order;
use futures_util::future::join_all;

use super::object::Object;
use crate::files::layout::FileLayout;
use crate::files::mount::Object as KnownObject;
use crate::files::request::{bits, resource};
use crate::files::size::extent_resource;
use crate::machine::context::{Context, LockAnswer};
use crate::machine::enqueue::plain;
use crate::machine::peer::Build;

/// Locks are on whole pages, also those of servers with large ones. Spec: ptlrpc-ldlm-mgs §24.2.
const PAGE: u64 = 4096;

/// A range of an object.
pub(super) type Piece = (Object, Range<u64>);

impl Context {
    /// Locks ranges of objects, all of them at the end. One round trip, unless others have them.
    pub(super) async fn lock_all(
        &self,
        pieces: &[Piece],
        mode: LockMode,
    ) -> Result<Vec<LockAnswer>, Errno> {
        let missing = pieces.iter().filter(|piece| self.held_lock(piece, mode).is_none());
        let missing: Vec<&Piece> = missing.collect();
        if missing.len() > 1 {
            // All at the same time. None is kept while another one is waited for, since clients that
            // wait for each other would do so for ever.
            let asked = missing
                .into_iter()
                .map(|piece| async move { self.lock_range(piece, mode).await.map(drop) });
            join_all(asked).await.into_iter().collect::<Result<(), Errno>>()?;
        }
        let mut held = Vec::with_capacity(pieces.len());
        for piece in pieces {
            held.push(self.lock_range(piece, mode).await?);
        }
        Ok(held)
    }

    /// Locks a range of an object. No round trip if a lock is held, else one.
    pub(super) async fn lock_range(
        &self,
        piece: &Piece,
        mode: LockMode,
    ) -> Result<LockAnswer, Errno> {
        let object = &piece.0;
        let (resource, policy) = wanted(piece);
        // Locks of this client that are in the way need not be called back.
        let early = match self.held_lock(piece, mode) {
            Some(_) => Vec::new(),
            None => self.early(object.import, &[Coverage { resource, mode, policy }]).await,
        };
        let wanted = LockSpec { early, ..LockSpec::new(resource, mode, policy) };
        let acquired = self.acquire(object.import, wanted, Some(Build::alone(plain))).await?;
        if object.is_on_mdt() {
            self.dom_lvb(object, &acquired).await?
        } else {
            self.object_lvb(object.file, object.key(), &acquired)?;
        }
        self.caches_under(object, &acquired);
        Ok(acquired)
    }

    /// Locks the data of a file that are on the MDT, if some are. Meanwhile no other client writes them, and what others have
    /// written is there. No round trip if the lock is held, else one.
    pub(crate) async fn lock_on_mdt(
        &self,
        fid: Fid,
        layout: &Arc<FileLayout>,
    ) -> Result<Vec<LockAnswer>, Errno> {
        if !layout.components.iter().any(|one| one.is_on_mdt()) {
            return Ok(Vec::new());
        }
        let pass = self.share(fid).await;
        let file = self.cached(fid, layout.clone()).await?;
        let on_mdt = file.objects.iter().filter(|object| object.is_on_mdt());
        let pieces: Vec<Piece> = on_mdt.map(|object| (*object, 0..u64::MAX)).collect();
        let held = self.lock_all(&pieces, LockMode::PW).await;
        drop(pass);
        held
    }

    fn held_lock(&self, piece: &Piece, mode: LockMode) -> Option<LockId> {
        let (resource, policy) = wanted(piece);
        self.core().peer(piece.0.import)?.locks.find(&resource, mode, policy)
    }

    /// Notes the attributes of data on the MDT that a lock protects from now on.
    async fn dom_lvb(&self, object: &Object, acquired: &LockAnswer) -> Result<(), Errno> {
        let (key, fid) = (object.key(), object.file);
        let is_known = |core: &crate::machine::core::Core| {
            let mount = core.mounts.get(&self.mount);
            mount.is_some_and(|mount| mount.data.has_lock(key) && mount.objects.contains_key(&key))
        };
        if acquired.extra.is_none() && is_known(&self.core()) {
            return Ok(());
        }
        let sent = acquired.extra.as_ref().filter(|extra| extra.lvb.len() >= OstLvb::LEN_SHORT);
        let lvb = match sent {
            Some(extra) => OstLvb::decode(&extra.lvb, Order::Little).map_err(|_| Errno::EPROTO)?,
            None => self.size_on_mdt(fid).await?,
        };
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        mount.objects.insert(key, KnownObject::new(fid, lvb));
        Ok(())
    }

    /// Returns the target's handle of a lock that covers a place of an object, by which it gives more time for
    /// transfers under it.
    pub(super) fn server_handle(&self, object: &Object, at: u64) -> Handle {
        let core = self.core();
        let found = core.mounts.get(&self.mount).and_then(|mount| {
            let known = mount.data.objects.get(&object.cached)?;
            let (lock, _) = known.locks.iter().find(|(_, range)| range.contains(&at))?;
            Some(core.peer(object.import)?.locks.server_handle(*lock))
        });
        found.unwrap_or(Handle::NONE)
    }
}

/// Returns the resource and the policy of a lock on a range of an object.
fn wanted((object, range): &Piece) -> (ResourceDesc, Policy) {
    if object.is_on_mdt() {
        (resource(object.file), bits(InodeBits::DOM))
    } else {
        let end = match range.end {
            u64::MAX => u64::MAX,
            end => (end - 1) | (PAGE - 1),
        };
        let extent = Extent { start: range.start & !(PAGE - 1), end, gid: 0 };
        (extent_resource(object.id.resource()), extent.into())
    }
}
