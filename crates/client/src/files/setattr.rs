//! Changes of attributes. Spec: mdt-ost §4.2, §22.6, §22.11.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{
    LOCK_REQUEST, MDT_BODY, NEW_LAYOUT, OST_BODY, OST_SETATTR, REINT, REINT_SETATTR,
};
use fulmar_lustre_wire::ldlm::{Extent, InodeBits, LayoutIntentOp, LockMode, ResourceId};
use fulmar_lustre_wire::mdt::{AttrValid, Bias, MdtBody, ReintChange, ReintOp, SetAttr, Valid};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::ost::Obdo;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::Request;
use futures_util::future::{join, join_all};

use super::attributes::{Attributes, Change, SetTime};
use super::caller::{CAP_FOWNER, Caller};
use super::close::CloseReport;
use super::inode::is_regular;
use super::layout::FileLayout;
use super::open::OpenOptions;
use super::request::{body_room, given_up, record};
use super::size::extent_resource;
use crate::data::object::{OBDO_LEN, described};
use crate::machine::context::Context;
use crate::machine::enqueue::plain;
use crate::machine::peer::Build;

/// What a reply has that tells all attributes on the MDT.
pub(super) const ATTRIBUTES: Valid = Valid(
    Valid::FLID.0
        | Valid::FLTYPE.0
        | Valid::FLMODE.0
        | Valid::FLUID.0
        | Valid::FLGID.0
        | Valid::FLNLINK.0
        | Valid::FLMTIME.0
        | Valid::FLATIME.0
        | Valid::FLCTIME.0,
);

/// Times for the objects of a file.
#[derive(Clone, Copy)]
struct Times {
    mtime: Option<i64>,
    atime: Option<i64>,
    ctime: i64,
    /// Whether no other client can have set others.
    is_own: bool,
    /// Whether other clients may know newer ones, or write while they are set.
    needs_lock: bool,
}

impl Context {
    /// Changes attributes. One round trip; if times of a regular file are set, another one, in which its
    /// objects get them; for a new size two, for locks on the objects and to cut them.
    ///
    /// # Errors
    /// EPERM, EACCES, and what the servers say.
    pub(crate) async fn setattr(
        &self,
        caller: &Caller,
        fid: Fid,
        change: Change,
    ) -> Result<Attributes, Errno> {
        let drops = change.drops_privileges && self.has_privileges(caller, fid).await?;
        let change = Change { drops_privileges: drops, ..change };
        let now = self.core().seconds();
        let [mtime, atime] =
            [change.mtime, change.atime].map(|time| time.map(|one| one.seconds(now)));
        // The change gives up the lock on the attributes, which may be the one on the layout too.
        let (known, is_own) = (self.known_layout(fid)?, self.is_own(fid));
        let mut times = [mtime, atime].into_iter().flatten();
        let needs_lock = times.any(|time| time != now || self.is_future(fid, now));
        // No write of data on the MDT may run while a time is set to the past, nor be known to others with its own.
        let held = match &known {
            Some(layout) if needs_lock => Some(self.lock_on_mdt(fid, layout).await?),
            _ => None,
        };
        let set = self.set_on_mdt(caller, fid, &change, now);
        let asks = known.is_none() && change.size.is_none() && self.is_regular(fid);
        // The size after the change is that of the objects. Who needs the layout asks again, and gets the error.
        let ask = async {
            if asks {
                let _ = self.layout(caller, fid).await;
            }
        };
        let (set, ()) = join(set, ask).await;
        let (mut body, mut is_whole) = set?;
        let mut held = held.unwrap_or_default();
        if needs_lock && known.is_none() && is_regular(body.mode) {
            held = self.lock_on_mdt(fid, &self.layout(caller, fid).await?).await?;
            if !held.is_empty() {
                // Others may have written since the layout was asked for, and with it.
                (body, is_whole) = self.set_on_mdt(caller, fid, &change, now).await?;
            }
        }
        if change.atime.is_some() {
            self.forget_access(fid);
        }
        let mut layout = known.filter(|_| change.size.is_none());
        if is_regular(body.mode) {
            if let Some(size) = change.size {
                self.truncate(caller, fid, size, &body).await?;
            }
            if change.atime.is_some() || change.mtime.is_some() {
                let times = Times { mtime, atime, ctime: body.ctime, is_own, needs_lock };
                layout = Some(self.set_times(caller, fid, layout, times).await?);
            }
        }
        drop(held);
        // The reply to a change has the attributes after it, but for those of stripes.
        let is_striped = self.seen(&[fid]).is_striped();
        if !is_whole || is_striped {
            return self.getattr(caller, fid, true).await;
        }
        if !is_regular(body.mode) || body.valid.has(Valid::FLSIZE) {
            return Ok(self.with_access(Attributes::new(&body, None)));
        }
        if let Some(layout) = &layout
            && let Ok(size) = self.size(fid, layout).await
        {
            return Ok(self.with_access(Attributes::new(&body, Some(size))));
        }
        let layout = self.layout(caller, fid).await?;
        let size = self.size(fid, &layout).await?;
        Ok(self.with_access(Attributes::new(&body, Some(size))))
    }

    /// Returns whether a file was a regular one when its attributes were read last.
    fn is_regular(&self, fid: Fid) -> bool {
        let core = self.core();
        let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
        inode.is_some_and(|inode| is_regular(inode.body.mode))
    }

    /// Gives the objects of a file its times. Returns its layout: the one that was known when the change began, unless
    /// the file has other objects now.
    async fn set_times(
        &self,
        caller: &Caller,
        fid: Fid,
        known: Option<Arc<FileLayout>>,
        times: Times,
    ) -> Result<Arc<FileLayout>, Errno> {
        if let Some(layout) = known {
            match self.set_on_osts(fid, &layout, times).await {
                Err(Errno::ENOENT | Errno::ESTALE) => {}
                done => return done.map(|()| layout),
            }
        }
        let layout = self.layout(caller, fid).await?;
        self.set_on_osts(fid, &layout, times).await?;
        Ok(layout)
    }

    /// Removes the privileges that a file gives to a program that runs it, if it has some.
    pub(crate) async fn drop_privileges(&self, caller: &Caller, fid: Fid) -> Result<(), Errno> {
        if self.has_privileges(caller, fid).await? {
            let change = Change { drops_privileges: true, ..Change::default() };
            let now = self.core().seconds();
            self.set_on_mdt(caller, fid, &change, now).await?;
        }
        Ok(())
    }

    /// Returns whether a file gives the process that runs it the rights of its owner or its group, or capabilities.
    async fn has_privileges(&self, caller: &Caller, fid: Fid) -> Result<bool, Errno> {
        const SUID: u32 = 0o4000;
        const SGID: u32 = 0o2000;
        /// Without this it does not execute with its group: members of that may leave it.
        const GROUP_EXECUTE: u32 = 0o010;
        /// What it may do more than others.
        const CAPABILITIES: &[u8] = b"security.capability";
        let MdtBody { mode, gid, .. } = self.attributes(caller, fid).await?;
        if !is_regular(mode) {
            return Ok(false);
        }
        if mode & SUID != 0 || mode & SGID != 0 && (mode & GROUP_EXECUTE != 0 || !caller.is_in(gid))
        {
            return Ok(true);
        }
        // Who has made the file knows that it has none.
        if self.is_own(fid) {
            return Ok(false);
        }
        match self.get_xattr(caller, fid, CAPABILITIES).await {
            Ok(_) => Ok(true),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Changes attributes at the MDT. Returns those after the change, if the reply has all of them; else what is
    /// known of the file.
    async fn set_on_mdt(
        &self,
        caller: &Caller,
        fid: Fid,
        change: &Change,
        now: i64,
    ) -> Result<(MdtBody, bool), Errno> {
        let mdt = self.mdt(fid).await?;
        let known = self.before(caller, fid, change).await?;
        check_times(caller, &known, change)?;
        let drops = change.uid.is_some() || change.gid.is_some() || change.drops_privileges;
        let mut lost = InodeBits::UPDATE;
        if drops || change.mode.is_some() {
            lost = lost | InodeBits::LOOKUP | InodeBits::PERM;
        }
        if drops {
            lost = lost | InodeBits::XATTR;
        }
        // Who gives a file another group has to be in that one.
        let group = change.gid.or_else(|| self.group_for(caller, fid)).unwrap_or(known.gid);
        let early = self.give_up(mdt, &[(Some(fid), lost)]).await;
        let set = set_attributes(change, known.mode, now);
        let change = ReintChange::SetAttr(set);
        let record = record(caller, ReintOp::SETATTR, (fid, [Some(group), None]), change);
        let message = Message::request(&REINT_SETATTR)
            .with(&REINT, &record)
            .with_bytes(&NEW_LAYOUT, vec![])
            .with(&LOCK_REQUEST, &given_up(early));
        let request = Request::new(message, body_room()).modifying();
        let reply = self.request(mdt, request).await?;
        let body = reply.get(&MDT_BODY).map_err(|_| Errno::EPROTO)?.unwrap_or_default();
        let is_whole = body.fid == fid && body.valid.has(ATTRIBUTES);
        if let Some(mount) = self.core().mounts.get_mut(&self.mount)
            && let Some(inode) = mount.inodes.get_mut(&fid)
        {
            inode.is_changed = true;
            if is_whole && !inode.has_attributes() {
                inode.body = body;
            }
        }
        Ok(if is_whole { (body, true) } else { (known, false) })
    }

    /// Returns what a change of attributes needs to know before it: those that were read last, unless it depends
    /// on who has the file now.
    async fn before(&self, caller: &Caller, fid: Fid, change: &Change) -> Result<MdtBody, Errno> {
        let depends = sets_times(change) && !caller.has(CAP_FOWNER);
        if !depends {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            if let Some(inode) = inode.filter(|one| one.body.valid.has(ATTRIBUTES)) {
                return Ok(inode.body);
            }
        }
        self.attributes(caller, fid).await
    }

    /// Gives the objects of a file its times: otherwise the newest of them would count.
    async fn set_on_osts(
        &self,
        fid: Fid,
        layout: &FileLayout,
        Times { mtime, atime, ctime, is_own, needs_lock }: Times,
    ) -> Result<(), Errno> {
        if layout.components.iter().any(|one| one.is_on_mdt()) {
            // The MDT has them; what is dirty is written with them.
            let key = (self.mdt(fid).await?, ResourceId::of_fid(fid));
            self.note_times(key, [Some(ctime), mtime, atime]);
        }
        // The clock of another client may be ahead of this one.
        let is_past = [mtime, atime].into_iter().flatten().any(|time| time < ctime);
        let needs_lock = needs_lock || is_past;
        let all = layout.objects().map(|(component, stripe, object)| async move {
            let (ost, id) = (self.ost(object.ost).await?, object.id.resource());
            let whole = Extent { start: 0, end: Extent::EOF, gid: 0 };
            // No write may run while a time is set to the past, and of what others know the newest would count.
            let held = if needs_lock {
                let wanted = LockSpec::new(extent_resource(id), LockMode::PW, whole);
                let acquired = self.acquire(ost, wanted, Some(Build::alone(plain))).await?;
                self.object_lvb(fid, (ost, id), &acquired)?;
                Some(acquired)
            } else {
                None
            };
            // Before the request: who is told the times before while it is executed takes them for newer ones.
            let key = (ost, id);
            let before = self.note_times(key, [Some(ctime), mtime, atime]);
            if is_own && atime.is_none() && self.goes_with_write(key) {
                return Ok(());
            }
            let mut obdo = described(fid, layout, (component, stripe), object.id);
            obdo.valid = obdo.valid | Valid::FLCTIME;
            obdo.ctime = ctime;
            if let Some(mtime) = mtime {
                (obdo.valid, obdo.mtime) = (obdo.valid | Valid::FLMTIME, mtime);
            }
            if let Some(atime) = atime {
                (obdo.valid, obdo.atime) = (obdo.valid | Valid::FLATIME, atime);
            }
            let message = Message::request(&OST_SETATTR).with(&OST_BODY, &obdo);
            let request = Request::new(message, len_with(&[Body::LEN, OBDO_LEN]));
            let done = self.request(ost, request).await;
            if let (Err(_), Some(before)) = (&done, before) {
                self.note_times(key, before.map(Some));
            }
            let _: Obdo = done?.require(&OST_BODY).map_err(|_| Errno::EPROTO)?;
            drop(held);
            Ok::<(), Errno>(())
        });
        join_all(all).await.into_iter().collect()
    }

    /// Notes the times of an object, those of changes, of changes of its data and of reads. Returns those before.
    fn note_times(
        &self,
        object: (ImportId, ResourceId),
        [ctime, mtime, atime]: [Option<i64>; 3],
    ) -> Option<[i64; 3]> {
        let mut core = self.core();
        let lvb = &mut core.mounts.get_mut(&self.mount)?.objects.get_mut(&object)?.lvb;
        let before = [lvb.ctime, lvb.mtime, lvb.atime];
        lvb.ctime = ctime.unwrap_or(lvb.ctime);
        lvb.mtime = mtime.unwrap_or(lvb.mtime);
        lvb.atime = atime.unwrap_or(lvb.atime);
        Some(before)
    }

    /// Returns whether a time of a file was in the future when it was read last.
    fn is_future(&self, fid: Fid, now: i64) -> bool {
        let core = self.core();
        let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
        inode.is_some_and(|inode| inode.body.mtime.max(inode.body.atime) > now)
    }

    /// Returns whether this client has created a file, and no other client has set its times since.
    fn is_own(&self, fid: Fid) -> bool {
        let core = self.core();
        let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
        inode.is_some_and(|inode| inode.is_own)
    }

    /// Returns whether a write will tell the target the time of the last write, and this client has not told it a newer
    /// one, which others would see until then.
    fn goes_with_write(&self, object: (ImportId, ResourceId)) -> bool {
        let core = self.core();
        let Some(mount) = core.mounts.get(&self.mount) else { return false };
        let known = mount.objects.get(&object).filter(|_| mount.data.is_unsent(object));
        known.is_some_and(|known| known.told <= known.lvb.mtime)
    }

    /// Cuts the objects of a file, whose MDT has agreed.
    async fn truncate(
        &self,
        caller: &Caller,
        fid: Fid,
        size: u64,
        body: &MdtBody,
    ) -> Result<(), Errno> {
        let mut layout: Arc<FileLayout> = self.layout(caller, fid).await?;
        if size > 0 && layout.components.is_empty() {
            layout = self.give_layout(caller, fid).await?;
        }
        // Also of what begins at the size: it has the end of the file.
        let end = size.saturating_add(1);
        if size > 0 && layout.needs_objects(0, end) {
            let range = (LayoutIntentOp::TRUNC, 0, end);
            layout = self.instantiate(caller, fid, range).await?;
        }
        self.cut(fid, &layout, size, body).await
    }

    /// Gives a file its first objects, as who opens it to write does: otherwise no client could read how long it is.
    /// Three round trips.
    async fn give_layout(&self, caller: &Caller, fid: Fid) -> Result<Arc<FileLayout>, Errno> {
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let opened = self.open_at_mdt(caller, fid, (&options, false)).await?;
        self.close(opened.key, &opened.open, CloseReport::default()).await?;
        self.layout(caller, fid).await
    }
}

/// Checks that a caller may set times: the MDT does not know whether they are those of now.
fn check_times(caller: &Caller, known: &MdtBody, change: &Change) -> Result<(), Errno> {
    let owns = caller.uid == known.uid || caller.has(CAP_FOWNER);
    if sets_times(change) && !owns { Err(Errno::EPERM) } else { Ok(()) }
}

/// Returns whether a change sets times which only the owner may set.
fn sets_times(change: &Change) -> bool {
    [change.atime, change.mtime].iter().any(|time| matches!(time, Some(SetTime::At(_))))
}

/// Returns what a request sets.
fn set_attributes(change: &Change, mode: u32, now: i64) -> SetAttr {
    let mut set = SetAttr { ctime: now, ..SetAttr::default() };
    let mut valid = AttrValid::CTIME | AttrValid::CTIME_SET;
    if let Some(wanted) = change.mode {
        set.mode = mode & 0o170_000 | wanted & 0o7777;
        valid = valid | AttrValid::MODE;
    }
    if change.drops_privileges {
        valid = valid | AttrValid::KILL_SUID | AttrValid::KILL_SGID | AttrValid::FORCE;
    }
    if (change.uid.is_some() || change.gid.is_some()) && is_regular(mode) {
        valid = valid | AttrValid::KILL_SUID | AttrValid::KILL_SGID;
    }
    if let Some(uid) = change.uid {
        (set.uid, valid) = (uid, valid | AttrValid::UID);
    }
    if let Some(gid) = change.gid {
        (set.gid, valid) = (gid, valid | AttrValid::GID);
    }
    if let Some(project) = change.project {
        (set.projid, valid) = (project, valid | AttrValid::PROJID);
    }
    if let Some(flags) = change.flags {
        (set.flags, valid) = (flags, valid | AttrValid::ATTR_FLAG);
    }
    if let Some(size) = change.size {
        set.size = size;
        set.bias = Bias::DATA_MODIFIED;
        valid = valid | AttrValid::SIZE | AttrValid::OVERRIDE;
    }
    if let Some(atime) = change.atime {
        (set.atime, valid) = (atime.seconds(now), valid | AttrValid::ATIME | AttrValid::ATIME_SET);
    }
    if let Some(mtime) = change.mtime.or(change.size.map(|_| SetTime::Now)) {
        (set.mtime, valid) = (mtime.seconds(now), valid | AttrValid::MTIME | AttrValid::MTIME_SET);
    }
    SetAttr { valid, ..set }
}
