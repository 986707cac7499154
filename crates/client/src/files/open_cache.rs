//! Opens that are kept: under a lock on the bit OPEN of a file it is opened for reading and closed without a request.
//! Spec: mdt-ost §5.6, §8.3, §22.4.
//!
//! An open is kept as long as a lock protects its OPEN bit, the name and the permissions: who opens the file must still
//! be allowed to. Then its handle is closed, or by the last who uses it.
//!
//! An open with `MDS_OPEN_LOCK` gives a lock in the mode CR on the bit `OPEN`: under it the file is
//! opened for reading and closed here. The open stays at the MDT, and its users share the handle;
//! each has its own streams of data. It is kept as long as locks protect `OPEN`, the name and the
//! permissions: a remove, a rename or a change of the mode has it closed, by the client or by its
//! last user, and a file that is removed while it is in use stays there. The open is shared with
//! the user that has opened it at the MDT, and with users that the mode lets read the file; others
//! ask the MDT. An open is kept if the file is opened for the fifth time within a minute each, or
//! again within 100 ms, as by a kernel's client; files with data on the MDT are not, since their
//! data come with an open that asks for no such lock. `fulmar warmup` reads the attribute
//! `lustre.warm.data` of each file, which brings attributes, layout, open and data into the cache,
//! with the permissions of its process. A mount keeps 4,096 opens; the least recently used one
//! gives way. After a restart of the MDT they are replayed as any open; an eviction drops them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_data::Settings;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::RequestId;

use super::caller::Caller;
use super::close::CloseReport;
use super::inode::{Inode, is_regular};
use super::mount::Open;
use super::open::{OpenOptions, OpenResult};
use crate::data::state::{OpenKey, Part};
use crate::machine::context::Context;

/// The most opens that are kept of a mount. Those that were not used for longest give way.
const KEPT_MAX: usize = 4096;
/// A file that is opened so often, each time within [`WITHIN`], is kept open.
const OPENS: u32 = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// And one that is opened again so soon after it was closed.
const SOON: Duration = Duration::from_millis(100);
/// What has to be protected.
const NEEDED: InodeBits = InodeBits(InodeBits::OPEN.0 | InodeBits::LOOKUP.0 | InodeBits::PERM.0);

/// By which an import keeps an open for replay.
pub(crate) type HandleKey = (ImportId, RequestId);

/// When a file was opened and closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenHistory {
    /// How often, each time within [`WITHIN`].
    count: u32,
    opened: Option<Time>,
    closed: Option<Time>,
}

impl OpenHistory {
    /// The file is opened. Returns whether it is worth while to keep that.
    fn open(&mut self, now: Time) -> bool {
        let is_within = |at: Option<Time>, time| at.is_some_and(|at| now.since(at) <= time);
        self.count = if is_within(self.opened, WITHIN) { self.count.saturating_add(1) } else { 1 };
        self.opened = Some(now);
        self.count >= OPENS || is_within(self.closed, SOON)
    }

    pub(crate) fn close(&mut self, now: Time) {
        self.closed = Some(now);
    }
}

/// The opens that are kept of a mount.
#[derive(Debug, Default)]
pub(crate) struct OpenCache {
    opens: BTreeMap<Fid, IdleHandle>,
    /// Their files by their last use.
    order: BTreeMap<u64, Fid>,
    clock: u64,
    /// What is not kept any more and has no user: to be closed.
    pub(crate) closing: Vec<(HandleKey, Arc<Open>)>,
}

#[derive(Debug)]
struct IdleHandle {
    open: Arc<Open>,
    key: HandleKey,
    /// Who has opened it: the server has checked that.
    caller: Caller,
    used: u64,
}

impl OpenCache {
    fn add(&mut self, open: Arc<Open>, key: HandleKey, caller: &Caller) {
        let fid = open.fid;
        self.drop(fid);
        open.keep();
        self.clock += 1;
        self.order.insert(self.clock, fid);
        let caller = Caller { umask: 0, ..caller.clone() };
        self.opens.insert(fid, IdleHandle { open, key, caller, used: self.clock });
        if self.opens.len() > KEPT_MAX
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            self.drop(*oldest);
        }
    }

    /// An open is kept no more.
    pub(crate) fn drop(&mut self, fid: Fid) {
        let Some(kept) = self.opens.remove(&fid) else { return };
        self.order.remove(&kept.used);
        if kept.open.unkeep() {
            self.closing.push((kept.key, kept.open));
        }
    }

    /// Uses an open, if there is one and `caller` may.
    fn reuse(
        &mut self,
        fid: Fid,
        inode: &Inode,
        caller: &Caller,
    ) -> Option<(HandleKey, Arc<Open>)> {
        let kept = self.opens.get_mut(&fid)?;
        let is_same = kept.caller == Caller { umask: 0, ..caller.clone() };
        let may = is_same || inode.acl.is_empty() && may_read(&inode.body, caller);
        if !may || !kept.open.reuse() {
            return None;
        }
        self.order.remove(&kept.used);
        self.clock += 1;
        kept.used = self.clock;
        self.order.insert(self.clock, fid);
        Some((kept.key, kept.open.clone()))
    }
}

/// Returns whether the permissions of a file let somebody read it, without capabilities: whether these count is
/// the server's.
fn may_read(body: &MdtBody, caller: &Caller) -> bool {
    const READ: u32 = 0o4;
    let shift = match () {
        () if caller.uid == body.uid => 6,
        () if caller.is_in(body.gid) => 3,
        () => 0,
    };
    body.mode >> shift & READ != 0
}

impl Context {
    /// Opens a file by an open that is kept. No round trip.
    pub(crate) fn reopen(
        &self,
        caller: &Caller,
        fid: Fid,
        options: &OpenOptions,
    ) -> Option<OpenResult> {
        if *options != OpenOptions::read() {
            return None;
        }
        let mut core = self.core();
        let number = OpenKey(core.number());
        let mount = core.mounts.get_mut(&self.mount)?;
        let inode = mount.inodes.get(&fid).filter(|inode| inode.bits.has(NEEDED))?;
        let (key, open) = mount.kept.reuse(fid, inode, caller)?;
        Some(OpenResult { open, body: inode.body, key, number, is_new: false })
    }

    /// Notes that a file is opened. Returns whether to keep that.
    pub(crate) fn is_reopened(&self, fid: Fid, options: &OpenOptions) -> bool {
        let mut core = self.core();
        let now = core.now;
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return false };
        let Some(inode) = mount.inodes.get_mut(&fid) else { return false };
        // Data on the MDT come with an open that asks for no such lock.
        let is_on_mdt = |inode: &Inode| {
            inode.inline.is_some()
                || inode
                    .layout
                    .as_ref()
                    .is_some_and(|one| one.components.iter().any(|part| part.is_on_mdt()))
        };
        let is_often = inode.reopened.open(now);
        is_often
            && *options == OpenOptions::read()
            && inode.bits.has(InodeBits::PERM)
            && is_regular(inode.body.mode)
            && !is_on_mdt(inode)
    }

    /// Keeps an open that has just been made, if locks protect what it needs. Their uses have not ended.
    pub(crate) fn keep_open(&self, caller: &Caller, key: HandleKey, open: &Arc<Open>) {
        let mut core = self.core();
        let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
        let Some(inode) = mount.inodes.get(&open.fid) else { return };
        if inode.bits.has(NEEDED) && is_regular(inode.body.mode) {
            mount.kept.add(open.clone(), key, caller);
        }
    }

    /// Brings what a file is, and its data if that is wanted, into the cache, and keeps it open. Returns how many bytes
    /// are cached, and whether it is kept open. Three round trips, and those for the data.
    ///
    /// # Errors
    /// EACCES if the caller may not read the file, and what the servers say.
    pub(crate) async fn warm(
        &self,
        caller: &Caller,
        fid: Fid,
        with_data: bool,
    ) -> Result<(u64, bool), Errno> {
        let found = self.getattr(caller, fid, true).await?;
        if !is_regular(found.mode) {
            return Ok((0, false));
        }
        let opened = self.open_to_keep(caller, fid).await?;
        let read = if with_data {
            self.read_whole(caller, (opened.number, fid), found.size).await
        } else {
            Ok(0)
        };
        let _ = self.close_data(opened.number).await;
        self.close(opened.key, &opened.open, CloseReport::default()).await?;
        Ok((read?, opened.open.is_kept()))
    }

    async fn open_to_keep(&self, caller: &Caller, fid: Fid) -> Result<OpenResult, Errno> {
        let options = OpenOptions::read();
        if let Some(opened) = self.reopen(caller, fid, &options) {
            return Ok(opened);
        }
        self.open_at_mdt(caller, fid, (&options, true)).await
    }

    /// Reads a file into the cache.
    async fn read_whole(
        &self,
        caller: &Caller,
        file: (OpenKey, Fid),
        size: u64,
    ) -> Result<u64, Errno> {
        let mut at = 0;
        while at < size {
            let parts = self.read_at(caller, file, (at, Settings::READ_MAX), None).await?;
            let found: usize = parts.iter().map(Part::len).sum();
            if found == 0 {
                break;
            }
            at += found as u64;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::Handle;

    use super::*;

    #[test]
    fn what_is_opened_often_or_again_soon_is_kept() {
        let at = |millis: u64| Time::ZERO + Duration::from_millis(millis);
        let mut often = OpenHistory::default();
        let opens = [0, 50_000, 100_000, 150_000, 200_000, 261_000];
        assert_eq!(
            opens.map(|time| often.open(at(time))),
            [false, false, false, false, true, false]
        );
        let mut soon = OpenHistory::default();
        assert!(!soon.open(at(0)));
        soon.close(at(10));
        assert!(soon.open(at(110)) && !soon.open(at(111)));
    }

    #[test]
    fn permissions_are_those_of_the_first_class_that_fits() {
        let body =
            |mode: u32| MdtBody { mode: 0o100_000 | mode, uid: 5, gid: 6, ..MdtBody::default() };
        let member = Caller { groups: vec![6], ..Caller::new(7, 7) };
        assert!(
            may_read(&body(0o400), &Caller::new(5, 1))
                && !may_read(&body(0o044), &Caller::new(5, 6))
        );
        assert!(may_read(&body(0o040), &member) && !may_read(&body(0o404), &member));
        assert!(may_read(&body(0o004), &Caller::new(1, 1)));
        assert!(!may_read(&body(0o000), &Caller::ROOT), "the server may not let it");
    }

    #[test]
    fn the_opens_that_are_kept_are_bounded() {
        let mut kept = OpenCache::default();
        let fid = |oid| Fid { seq: 0x2_0000_0401, oid, version: 0 };
        let key = (ImportId(1), RequestId(1));
        for oid in 0..KEPT_MAX as u32 + 2 {
            let open = Arc::new(Open::new(fid(oid), key.0, 0, Handle(oid.into())));
            kept.add(open.clone(), key, &Caller::ROOT);
            // The user of the open closes it.
            assert!(!open.release());
        }
        assert_eq!(kept.opens.len(), KEPT_MAX);
        let closing: Vec<u32> = kept.closing.iter().map(|(_, open)| open.fid.oid).collect();
        assert_eq!(closing, [0, 1]);
        let inode = Inode::default();
        let (_, open) = kept.reuse(fid(2), &inode, &Caller::ROOT).unwrap();
        assert!(kept.reuse(fid(3), &inode, &Caller::new(1, 1)).is_none());
        kept.drop(fid(2));
        assert_eq!(kept.closing.len(), 2, "somebody uses it");
        assert!(open.release(), "the last user closes it");
    }
}
