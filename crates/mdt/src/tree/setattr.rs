//! Attributes. Spec: mdt-ost §7.6, §14.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::acl::Acl;
use fulmar_lustre_wire::changelog::ChangeKind;
use fulmar_lustre_wire::mdt::{AttrValid, SetAttr};
use fulmar_nodemap::{Role, View};
use fulmar_wire::Order;

use crate::access::{APPEND_ONLY, AccessMode, Caller, Capabilities, IMMUTABLE, check};
use crate::change::Change;
use crate::changelog::Note;
use crate::inode::{Extra, Inode};
use crate::layout::objects_of;
use crate::objects::Owner;
use crate::records::Failure;
use crate::{acl, mode};

/// The flags that users set: those of `chattr` that an MDT keeps.
const FLAGS_SET: u32 = 0x2000_00ff;

/// Attributes as the changelog knows them. Spec: mdt-ost §14.10.
pub(crate) const ATIME: u16 = 0x1;
pub(crate) const MTIME: u16 = 0x2;
pub(crate) const CTIME: u16 = 0x4;
const SIZE: u16 = 0x8;
const MODE: u16 = 0x10;
const PROJECT: u16 = 0x8000;

impl Change<'_> {
    /// Sets attributes of a file. `is_writer`: the client has it open to write it.
    pub(crate) fn setattr(
        &mut self,
        fid: Fid,
        asked: &SetAttr,
        (caller, view): (&Caller, &View),
        is_writer: bool,
    ) -> Result<Inode, Failure> {
        let before = self.existing(fid)?;
        check_roles(&before, asked, view)?;
        check_setattr(&before, asked, (caller, is_writer))?;
        if asked.valid.has(AttrValid::SIZE) && before.is_directory() {
            return Err(Errno::EISDIR.into());
        }
        self.limit(caller);
        let after = apply(&before, asked, caller);
        let owner = |inode: &Inode| {
            let attributes = &inode.attributes;
            let (uid, gid, projid) = (attributes.uid, attributes.gid, attributes.projid);
            Owner { uid, gid, projid }
        };
        if after.is_regular() && owner(&after) != owner(&before) {
            let objects = objects_of(after.extra(Extra::Layout));
            self.mdt.objects.set_owner(&mut self.transaction, &objects, owner(&after));
        }
        if drops_capabilities(&before, asked) {
            self.drop_capabilities(fid)?;
        }
        self.set(fid, after.clone())?;
        self.note_attributes(fid, &after, changed(&before, &after, asked));
        Ok(after)
    }

    /// Notes which attributes of a file have changed, as bits of the changelog.
    pub(crate) fn note_attributes(&mut self, fid: Fid, inode: &Inode, bits: u16) {
        let kinds = [
            (SIZE, ChangeKind::TRUNC),
            (!(ATIME | MTIME | CTIME), ChangeKind::SATTR),
            (MTIME, ChangeKind::MTIME),
            (CTIME, ChangeKind::CTIME),
            (ATIME, ChangeKind::ATIME),
        ];
        let wanted = |(of_kind, kind): &(u16, ChangeKind)| {
            bits & of_kind != 0 && self.mdt.changelog.wants(*kind)
        };
        let Some((_, kind)) = kinds.into_iter().find(wanted) else { return };
        let with_parent = bits & MTIME != 0 && inode.is_regular();
        let parent = inode.parent().filter(|_| with_parent).unwrap_or_default();
        self.note(Note { parent, ..Note::new(kind, fid).with_flags(bits) });
    }
}

/// Returns whether a program loses its capabilities: it gets another owner, or its data change.
fn drops_capabilities(before: &Inode, asked: &SetAttr) -> bool {
    type A = AttrValid;
    let losing = A::UID | A::GID | A::KILL_SUID | A::KILL_SGID;
    before.is_regular() && asked.valid.0 & losing.0 != 0
}

/// Returns which attributes a request changes, as bits of the changelog.
fn changed(before: &Inode, after: &Inode, asked: &SetAttr) -> u16 {
    type A = AttrValid;
    let of = [
        (A::ATIME_SET, ATIME),
        (A::MTIME_SET, MTIME),
        (A::CTIME_SET, CTIME),
        (A::SIZE, SIZE),
        (A::MODE, MODE),
        (A::UID, 0x20),
        (A::GID, 0x40),
        (A::BLOCKS, 0x80),
        (A::ATTR_FLAG, 0x200),
        (A::PROJID, PROJECT),
    ];
    let asked = of.iter().filter(|(flag, _)| asked.valid.has(*flag));
    let bits = asked.fold(0, |bits, (_, bit)| bits | bit);
    if before.attributes.mode == after.attributes.mode { bits } else { bits | MODE }
}

/// Checks that the nodemap of a client allows it to set attributes, whoever the caller is.
fn check_roles(inode: &Inode, asked: &SetAttr, view: &View) -> Result<(), Errno> {
    type A = AttrValid;
    let wants = |bits: A| asked.valid.0 & bits.0 != 0;
    if wants(A::MODE | A::UID | A::GID | A::PROJID) && !view.has_role(Role::FILE_PERMS) {
        return Err(Errno::EPERM);
    }
    if wants(A::PROJID) && !view.has_role(Role::PROJID_SET) {
        return Err(Errno::EACCES);
    }
    let changed = (inode.attributes.flags ^ asked.flags) & (IMMUTABLE | APPEND_ONLY);
    if wants(A::ATTR_FLAG) && changed != 0 && !view.has_role(Role::IMMUTABLE_FLAGS) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Checks that a caller may set attributes. Nothing that the request says of itself gives a right: FORCE and FROM_OPEN
/// only say for what the client sends it.
fn check_setattr(
    inode: &Inode,
    asked: &SetAttr,
    (caller, is_writer): (&Caller, bool),
) -> Result<(), Errno> {
    type A = AttrValid;
    let attributes = &inode.attributes;
    let valid = asked.valid;
    let wants = |bits: A| valid.0 & bits.0 != 0;
    // Whoever has it open to write it was checked then.
    let check_writes = || if is_writer { Ok(()) } else { check(inode, caller, AccessMode::WRITE) };
    if wants(A::ATTR_FLAG) {
        if !caller.owns(inode) {
            return Err(Errno::EPERM);
        }
        let changed = (attributes.flags ^ asked.flags) & (IMMUTABLE | APPEND_ONLY);
        if changed != 0 && !caller.has(Capabilities::LINUX_IMMUTABLE) {
            return Err(Errno::EPERM);
        }
    } else if attributes.flags & IMMUTABLE != 0
        || attributes.flags & APPEND_ONLY != 0 && !is_touch(asked)
    {
        return Err(Errno::EPERM);
    }
    let sets_times = wants(A::ATIME | A::MTIME | A::ATIME_SET | A::MTIME_SET);
    if (sets_times || sets_only_times(asked)) && !caller.owns(inode) {
        check_writes()?;
    }
    let drops_privileges = is_loss_of_privileges(inode, asked);
    if drops_privileges && !caller.owns(inode) {
        check_writes()?;
    }
    if wants(A::MODE) && !drops_privileges && !caller.owns(inode) {
        return Err(Errno::EPERM);
    }
    let may_chown = caller.has(Capabilities::CHOWN);
    let is_owner = caller.uid == attributes.uid;
    if wants(A::UID) && !may_chown && !(is_owner && asked.uid == attributes.uid) {
        return Err(Errno::EPERM);
    }
    let is_member = caller.is_in(asked.gid) || asked.gid == attributes.gid;
    if wants(A::GID) && !may_chown && !(is_owner && is_member) {
        return Err(Errno::EPERM);
    }
    let changes_project = wants(A::PROJID) && asked.projid != attributes.projid;
    let changed_flags = if wants(A::ATTR_FLAG) { attributes.flags ^ asked.flags } else { 0 };
    let changes_heirs = changed_flags & Inode::PROJECT_INHERIT != 0;
    if (changes_project || changes_heirs) && !caller.has(Capabilities::SYS_RESOURCE) {
        return Err(Errno::EPERM);
    }
    let overrides = valid.has(A::OVERRIDE) && is_owner;
    if wants(A::SIZE | A::BLOCKS) && !overrides {
        check_writes()?;
    }
    Ok(())
}

/// Returns whether a request takes away what a program executes with, because somebody else has written to it. It may
/// give the mode that is left.
fn is_loss_of_privileges(inode: &Inode, asked: &SetAttr) -> bool {
    type A = AttrValid;
    let wants = |bits: A| asked.valid.0 & bits.0 != 0;
    let left =
        (inode.attributes.mode ^ asked.mode) & mode::PERMISSIONS & !(mode::SUID | mode::SGID);
    let is_less = left == 0 && asked.mode & !inode.attributes.mode & mode::PERMISSIONS == 0;
    let kills = wants(A::KILL_SUID | A::KILL_SGID);
    if wants(A::MODE) {
        asked.valid.has(A::FORCE) && is_less
    } else {
        kills && !wants(A::UID | A::GID)
    }
}

/// Returns whether a request sets times and nothing else.
fn sets_only_times(asked: &SetAttr) -> bool {
    type A = AttrValid;
    let wants = |bits: A| asked.valid.0 & bits.0 != 0;
    let times = A::ATIME | A::MTIME | A::CTIME | A::ATIME_SET | A::MTIME_SET | A::CTIME_SET;
    let others = A::MODE | A::UID | A::GID | A::SIZE | A::ATTR_FLAG | A::PROJID;
    wants(times) && !wants(others)
}

/// Returns whether a request sets times to now, as `touch` does: who may append to a file may do that.
fn is_touch(asked: &SetAttr) -> bool {
    type A = AttrValid;
    let is_now = |set, time| !asked.valid.has(set) || time == asked.ctime;
    asked.valid.has(A::CTIME_SET)
        && sets_only_times(asked)
        && is_now(A::ATIME_SET, asked.atime)
        && is_now(A::MTIME_SET, asked.mtime)
}

/// Returns a file with other attributes.
fn apply(before: &Inode, asked: &SetAttr, caller: &Caller) -> Inode {
    type A = AttrValid;
    let mut inode = before.clone();
    let valid = asked.valid;
    let attributes = &mut inode.attributes;
    if valid.has(A::MODE) {
        let mut bits = asked.mode & mode::PERMISSIONS;
        let gid = if valid.has(A::GID) { asked.gid } else { attributes.gid };
        if !caller.is_in(gid) && !caller.has(Capabilities::FSETID) {
            bits &= !mode::SGID;
        }
        attributes.mode = attributes.mode & mode::FORMAT | bits;
    }
    if valid.has(A::UID) {
        attributes.uid = asked.uid;
    }
    if valid.has(A::GID) {
        attributes.gid = asked.gid;
    }
    if valid.has(A::PROJID) {
        attributes.projid = asked.projid;
    }
    if valid.has(A::ATTR_FLAG) {
        attributes.flags = asked.flags & FLAGS_SET;
    }
    // A new mode of the client says itself what is left, but for a file that is given away.
    // Without that it does not execute with its group, which members may leave.
    let drops_sgid = before.attributes.mode & mode::GROUP_EXECUTE != 0
        || !caller.is_in(before.attributes.gid) && !caller.has(Capabilities::FSETID);
    let is_given = |flag| valid.has(flag) && !before.is_directory();
    if valid.has(A::KILL_SUID) || is_given(A::UID) {
        attributes.mode &= !mode::SUID;
    }
    let kills_sgid = valid.has(A::KILL_SGID) && (valid.has(A::MODE) || drops_sgid);
    if kills_sgid || is_given(A::GID) && drops_sgid {
        attributes.mode &= !mode::SGID;
    }
    if valid.has(A::SIZE) {
        attributes.size = asked.size;
    }
    if valid.has(A::BLOCKS) {
        attributes.blocks = asked.blocks;
    }
    if valid.has(A::ATIME_SET) {
        attributes.atime = asked.atime;
    }
    if valid.has(A::MTIME_SET) {
        attributes.mtime = asked.mtime;
    }
    if valid.has(A::CTIME_SET) || valid.has(A::CTIME) {
        attributes.ctime = attributes.ctime.max(asked.ctime);
    }
    if valid.has(A::SIZE) {
        inode.cut_size(asked.size);
    }
    if inode.attributes.mode != before.attributes.mode
        && let Ok(acl) = Acl::decode(before.extra(Extra::Acl), Order::Little)
    {
        let acl = acl::after_chmod(&acl, inode.attributes.mode);
        inode.set_extra(Extra::Acl, acl);
    }
    inode
}
