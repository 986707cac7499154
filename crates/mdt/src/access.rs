//! Who asks, and what they may do. Spec: mdt-ost §14.1.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::acl::Acl;
use fulmar_lustre_wire::mdt::{MdtBody, ReintHead};
use fulmar_nodemap::{IdKind, View};
use fulmar_wire::{Order, wire_flags};

use crate::groups::Groups;
use crate::inode::{Extra, Inode};
use crate::{acl, mode};

/// No further group.
const NO_GROUP: u32 = u32::MAX;

wire_flags! {
    /// What root may do on a client, as far as an MDT asks.
    pub struct Capabilities(u32) {
        CHOWN = 1 << 0,
        DAC_OVERRIDE = 1 << 1,
        DAC_READ_SEARCH = 1 << 2,
        FOWNER = 1 << 3,
        FSETID = 1 << 4,
        LINUX_IMMUTABLE = 1 << 9,
        SYS_ADMIN = 1 << 21,
        SYS_RESOURCE = 1 << 24,
    }
}

/// The process on a client for which a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user that owns what it creates.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// More groups that the request names, or `u32::MAX`.
    pub groups: [u32; 2],
    /// The groups in which the machine of the MDT knows the user to be.
    pub known_groups: Option<Arc<[u32]>>,
    /// What it may do beside.
    pub capabilities: Capabilities,
}

impl Caller {
    /// Returns the caller of a change.
    pub fn of_reint(head: &ReintHead) -> Self {
        Self {
            uid: head.fsuid,
            gid: head.fsgid,
            groups: [head.suppgid1, head.suppgid2],
            known_groups: None,
            capabilities: Capabilities(head.capability),
        }
    }

    /// Returns the caller of another request.
    pub fn of_body(body: &MdtBody) -> Self {
        Self {
            uid: body.fsuid,
            gid: body.fsgid,
            groups: [body.suppgid, NO_GROUP],
            known_groups: None,
            capabilities: Capabilities(body.capability),
        }
    }

    /// Returns the same, if it is root on a client whose root is somebody else here.
    #[must_use]
    pub fn squashed(self, to: Option<(u32, u32)>) -> Self {
        match to {
            Some((uid, gid)) if self.uid == 0 => {
                Self { uid, gid, groups: [NO_GROUP; 2], ..Self::default() }
            }
            _ => self,
        }
    }

    /// Returns the same as it is in the file system, with the groups that are known here. Who is not known has neither
    /// groups nor capabilities.
    ///
    /// # Errors
    /// EACCES if it is not known and unknown ones are refused, EPERM if its node is banned.
    pub(crate) fn mapped(self, view: &View, known: Option<&dyn Groups>) -> Result<Self, Errno> {
        view.check()?;
        let user = view.to_fs(IdKind::User, self.uid);
        let group = view.to_fs(IdKind::Group, self.gid);
        if user.is_squashed && view.denies_unknown() {
            return Err(Errno::EACCES);
        }
        let is_known = !user.is_squashed && !group.is_squashed;
        let further = |group| {
            if is_known && group != NO_GROUP {
                view.to_fs(IdKind::Group, group).id
            } else {
                NO_GROUP
            }
        };
        let capabilities = if is_known { self.capabilities } else { Capabilities::NONE };
        let known_groups = known.filter(|_| is_known).and_then(|known| known.of(user.id));
        let groups = self.groups.map(further);
        Ok(Self { uid: user.id, gid: group.id, groups, known_groups, capabilities })
    }

    /// Returns the same with no capabilities but these.
    #[must_use]
    pub(crate) fn limited(self, mask: Capabilities) -> Self {
        Self { capabilities: Capabilities(self.capabilities.0 & mask.0), ..self }
    }

    /// Returns whether it is in a group.
    pub fn is_in(&self, group: u32) -> bool {
        let is_known = || self.known_groups.as_ref().is_some_and(|known| known.contains(&group));
        group != NO_GROUP && (self.groups.contains(&group) || is_known()) || self.gid == group
    }

    /// Returns whether it may do this as root may.
    pub fn has(&self, capability: Capabilities) -> bool {
        self.capabilities.has(capability)
    }

    /// Returns whether it owns a file, or may do as if.
    pub(crate) fn owns(&self, inode: &Inode) -> bool {
        self.uid == inode.attributes.uid || self.has(Capabilities::FOWNER)
    }
}

/// What a caller wants of a file: the bits of `access(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode(u32);

impl AccessMode {
    /// Nothing.
    pub const NOTHING: Self = Self(0);
    /// To read, or list.
    pub const READ: Self = Self(4);
    /// To write, or change entries.
    pub const WRITE: Self = Self(2);
    /// To execute, or search.
    pub const EXECUTE: Self = Self(1);
    /// To change entries by name.
    pub const CHANGE_ENTRIES: Self = Self(3);

    /// Returns both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether three permission bits grant all of it.
    pub(crate) fn is_in(self, bits: u32) -> bool {
        self.0 & !bits == 0
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The flag of a file that cannot be changed.
pub(crate) const IMMUTABLE: u32 = 0x10;
/// The flag of a file that is only extended, or a directory from which nothing is removed.
pub(crate) const APPEND_ONLY: u32 = 0x20;

/// Checks that a caller may do what is wanted with a file.
///
/// # Errors
/// EACCES if not.
pub(crate) fn check(inode: &Inode, caller: &Caller, wanted: AccessMode) -> Result<(), Errno> {
    let attributes = &inode.attributes;
    if wanted.has(AccessMode::WRITE) && attributes.flags & IMMUTABLE != 0 {
        return Err(Errno::EACCES);
    }
    if is_permitted(inode, caller, wanted) || is_overridden(inode, caller, wanted) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

fn is_permitted(inode: &Inode, caller: &Caller, wanted: AccessMode) -> bool {
    let attributes = &inode.attributes;
    let bits = attributes.mode;
    if caller.uid == attributes.uid {
        return wanted.is_in(bits >> 6 & 7);
    }
    // The mode has no bits for a group with which the list could permit anything.
    if bits & 0o070 != 0
        && let Ok(acl) = Acl::decode(inode.extra(Extra::Acl), Order::Little)
    {
        return acl::permits(&acl, attributes.uid, attributes.gid, caller, wanted);
    }
    if caller.is_in(attributes.gid) { wanted.is_in(bits >> 3 & 7) } else { wanted.is_in(bits & 7) }
}

/// Returns whether a capability grants what the mode does not.
fn is_overridden(inode: &Inode, caller: &Caller, wanted: AccessMode) -> bool {
    let is_directory = inode.is_directory();
    let is_executable = inode.attributes.mode & mode::EXECUTE != 0 || is_directory;
    let only_read = wanted == AccessMode::READ || is_directory && !wanted.has(AccessMode::WRITE);
    caller.has(Capabilities::DAC_OVERRIDE) && (!wanted.has(AccessMode::EXECUTE) || is_executable)
        || caller.has(Capabilities::DAC_READ_SEARCH) && only_read
}

/// Checks that a caller may remove, or replace, `child` in `parent`.
///
/// # Errors
/// EACCES or EPERM if not.
pub(crate) fn check_removal(parent: &Inode, child: &Inode, caller: &Caller) -> Result<(), Errno> {
    check(parent, caller, AccessMode::CHANGE_ENTRIES)?;
    let is_sticky = parent.attributes.mode & mode::STICKY != 0;
    let is_owner = [parent, child].iter().any(|inode| inode.attributes.uid == caller.uid);
    if parent.attributes.flags & APPEND_ONLY != 0
        || child.attributes.flags & (APPEND_ONLY | IMMUTABLE) != 0
        || is_sticky && !is_owner && !caller.has(Capabilities::FOWNER)
    {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Checks that a caller may give a file another name, as `protected_hardlinks` of Linux does on the client: it owns the
/// file, or may read and write it, and no program executes with its rights.
///
/// # Errors
/// EPERM if not.
pub(crate) fn check_link_source(inode: &Inode, caller: &Caller) -> Result<(), Errno> {
    let bits = inode.attributes.mode;
    let group = mode::SGID | mode::GROUP_EXECUTE;
    let is_program = bits & mode::SUID != 0 || bits & group == group;
    let changes = AccessMode::READ.and(AccessMode::WRITE);
    let may_change = || check(inode, caller, changes).is_ok();
    if caller.owns(inode) || inode.is_regular() && !is_program && may_change() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::Attributes;

    fn file(mode: u32) -> Inode {
        Inode::new(Attributes { mode, uid: 1, gid: 50, ..Attributes::default() })
    }

    fn caller(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, groups: [NO_GROUP, 60], ..Caller::default() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let may = |mode, caller: &Caller, wanted| check(&file(mode), caller, wanted).is_ok();
        assert!(!may(0o100_077, &caller(1, 50), AccessMode::READ), "the owner");
        assert!(may(0o100_040, &caller(2, 50), AccessMode::READ));
        assert!(!may(0o100_007, &caller(2, 50), AccessMode::READ), "the group");
        assert!(may(0o100_004, &caller(2, 3), AccessMode::READ));
        assert!(!caller(2, 3).is_in(NO_GROUP) && caller(2, 3).is_in(60));
    }

    #[test]
    fn capabilities_override_but_do_not_execute_data() {
        let root = Caller { capabilities: Capabilities::DAC_OVERRIDE, ..caller(0, 0) };
        assert_eq!(check(&file(0o100_000), &root, AccessMode::WRITE), Ok(()));
        assert_eq!(check(&file(0o100_600), &root, AccessMode::EXECUTE), Err(Errno::EACCES));
        assert_eq!(check(&file(0o040_000), &root, AccessMode::CHANGE_ENTRIES), Ok(()));
        let reader = Caller { capabilities: Capabilities::DAC_READ_SEARCH, ..caller(0, 0) };
        assert_eq!(check(&file(0o100_000), &reader, AccessMode::READ), Ok(()));
        assert_eq!(check(&file(0o100_000), &reader, AccessMode::WRITE), Err(Errno::EACCES));
        let squashed = root.clone().squashed(Some((99, 99)));
        assert_eq!(check(&file(0o100_700), &squashed, AccessMode::READ), Err(Errno::EACCES));
        let mut fixed = file(0o100_777);
        fixed.attributes.flags = IMMUTABLE;
        assert_eq!(check(&fixed, &root, AccessMode::WRITE), Err(Errno::EACCES));
    }

    #[test]
    fn only_what_a_caller_may_change_gets_other_names() {
        let may = |mode, caller: &Caller| check_link_source(&file(mode), caller).is_ok();
        let other = caller(2, 3);
        assert!(may(0o100_600, &caller(1, 3)), "its owner");
        assert!(may(0o100_666, &other) && may(0o102_666, &other));
        assert!(!may(0o100_644, &other) && !may(0o100_662, &other));
        assert!(!may(0o104_777, &other) && !may(0o102_777, &other), "a program with rights");
        assert!(!may(0o120_777, &other), "a symbolic link");
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let mut parent = file(0o041_777);
        let child = Inode::new(Attributes { mode: 0o100_666, uid: 7, ..Attributes::default() });
        assert_eq!(check_removal(&parent, &child, &caller(7, 9)), Ok(()));
        assert_eq!(check_removal(&parent, &child, &caller(1, 9)), Ok(()));
        assert_eq!(check_removal(&parent, &child, &caller(8, 9)), Err(Errno::EPERM));
        parent.attributes.mode = 0o040_755;
        assert_eq!(check_removal(&parent, &child, &caller(8, 9)), Err(Errno::EACCES));
    }
}
