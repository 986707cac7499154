//! The layouts of files, from the cache or by intents. Spec: mdt-ost §8.5.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{ENQUEUE_LAYOUT, INTENT, LAYOUT_INTENT, LOCK_REQUEST, NEW_LAYOUT};
use fulmar_lustre_wire::ldlm::{
    InodeBits, Intent, IntentOps, LayoutIntent, LayoutIntentFlags, LayoutIntentOp, LockFlags,
    LockMode, LockRequest,
};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::import::Request;

use super::caller::Caller;
use super::layout::FileLayout;
use super::request::{bits, excludes, intent_room, resource};
use crate::machine::context::Context;
use crate::machine::peer::Build;

/// How often a layout that the server is changing is asked for again.
const TRIES: u64 = 60;

impl Context {
    /// Returns the layout of a file. No round trip if it is cached, else one.
    pub(crate) async fn layout(&self, caller: &Caller, fid: Fid) -> Result<Arc<FileLayout>, Errno> {
        if let Some(layout) = self.known_layout(fid)? {
            return Ok(layout);
        }
        let intent = LayoutIntent {
            op: LayoutIntentOp::ACCESS,
            flags: LayoutIntentFlags::NONE,
            start: 0,
            end: 0,
        };
        self.layout_intent(caller, fid, intent).await
    }

    /// Returns the layout of a file, if it is cached.
    pub(super) fn known_layout(&self, fid: Fid) -> Result<Option<Arc<FileLayout>>, Errno> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        Ok(mount.inodes.get(&fid).and_then(|inode| inode.layout.clone()))
    }

    /// Gives the components of a range the objects that a write or a truncation needs. Returns the layout
    /// with them. One round trip.
    pub(crate) async fn instantiate(
        &self,
        caller: &Caller,
        fid: Fid,
        (op, start, end): (LayoutIntentOp, u64, u64),
    ) -> Result<Arc<FileLayout>, Errno> {
        let flags = LayoutIntentFlags::NONE;
        self.layout_intent(caller, fid, LayoutIntent { op, flags, start, end }).await
    }

    async fn layout_intent(
        &self,
        caller: &Caller,
        fid: Fid,
        intent: LayoutIntent,
    ) -> Result<Arc<FileLayout>, Errno> {
        let mdt = self.mdt(fid).await?;
        let changes = intent.op != LayoutIntentOp::ACCESS;
        for attempt in 1..=TRIES {
            let mode = if changes { LockMode::EX } else { LockMode::CR };
            let early = if changes {
                self.early(mdt, &[excludes(fid, InodeBits::LAYOUT)]).await
            } else {
                Vec::new()
            };
            let wanted = LockSpec::new(resource(fid), mode, bits(InodeBits::LAYOUT)).always();
            let wanted = LockSpec { early, ..wanted.with(LockFlags::HAS_INTENT) };
            let build = move |lock: &LockRequest| {
                let message = Message::request(&ENQUEUE_LAYOUT)
                    .with(&LOCK_REQUEST, lock)
                    .with(&INTENT, &Intent { ops: IntentOps::LAYOUT })
                    .with(&LAYOUT_INTENT, &intent)
                    .with_bytes(&NEW_LAYOUT, vec![]);
                let request = Request::new(message, intent_room());
                if changes { request.modifying() } else { request }
            };
            let acquired = self.acquire(mdt, wanted, Some(Build::alone(build))).await?;
            let extra = acquired.extra.as_ref().ok_or(Errno::EPROTO)?;
            match extra.result2 as i32 {
                result if result == -Errno::EINPROGRESS.0 => {
                    drop(acquired);
                    self.sleep(Duration::from_secs(attempt)).await;
                    continue;
                }
                result if result < 0 => return Err(Errno(result.saturating_neg())),
                _ => {}
            }
            // A lock that was granted late has no layout with it.
            let bytes = if extra.lvb.is_empty() {
                self.layout_attribute(caller, fid).await?
            } else {
                extra.lvb.clone()
            };
            let layout = Arc::new(FileLayout::decode(&bytes)?.unwrap_or_else(FileLayout::none));
            let held = acquired.covered.map_or(InodeBits::NONE, |one| one.policy.inodebits().bits);
            let is_held = acquired.held.is_some() && held.has(InodeBits::LAYOUT);
            if let Some(mount) = self.core().mounts.get_mut(&self.mount).filter(|_| is_held) {
                let inode = mount.inodes.entry(fid).or_default();
                // A lock that came with an intent may have more, but not what it protects.
                inode.bits = inode.bits | InodeBits::LAYOUT;
                inode.layout = Some(layout.clone());
            }
            return Ok(layout);
        }
        Err(Errno::EINPROGRESS)
    }

    /// Reads the layout as an extended attribute; nothing if the file has none.
    async fn layout_attribute(&self, caller: &Caller, fid: Fid) -> Result<Vec<u8>, Errno> {
        match self.read_xattr(caller, fid, b"trusted.lov").await {
            Err(Errno::ENODATA) => Ok(Vec::new()),
            read => read,
        }
    }
}
