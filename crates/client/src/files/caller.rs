//! On whose behalf an operation is. Spec: mdt-ost §14.1.

use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::acl::{Acl, AclEntry, AclTag};
use fulmar_wire::Order;

/// A user, whom operations are on behalf of. The servers decide what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
    /// The first 32 capabilities of the process.
    pub capabilities: u32,
    /// The permissions that new files do not get.
    pub umask: u32,
}

/// The capability to search directories without the permission to do so.
pub(crate) const CAP_DAC_READ_SEARCH: u32 = 2;
/// The capability to be treated as the owner of each file.
pub(crate) const CAP_FOWNER: u32 = 3;
/// The capability to exceed quotas.
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;
/// A further group that a request does not name.
pub(crate) const NO_GROUP: u32 = u32::MAX;

impl Caller {
    /// The superuser.
    pub const ROOT: Self =
        Self { uid: 0, gid: 0, groups: Vec::new(), capabilities: u32::MAX, umask: 0o022 };

    /// Returns the user of this process, with the usual umask.
    pub fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Self::new(uid.as_raw(), gid.as_raw())
    }

    /// Returns a user and its group, with the usual umask and without other groups.
    pub fn new(uid: u32, gid: u32) -> Self {
        let capabilities = if uid == 0 { u32::MAX } else { 0 };
        Self { uid, gid, groups: Vec::new(), capabilities, umask: 0o022 }
    }

    /// Returns whether the process has a capability.
    pub(crate) fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 != 0
    }

    /// Returns whether the caller is in a group.
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Returns the group of the caller that gives it most with a file of this group and this access control list. Without
    /// one, it is the group of the file.
    pub(crate) fn group_in(&self, gid: u32, acl: &[u8]) -> u32 {
        let Ok(acl) = Acl::decode(acl, Order::Little) else { return gid };
        let group = |entry: &AclEntry| match entry.tag {
            AclTag::GROUP_OBJ => Some((entry.permissions.0.count_ones(), gid)),
            AclTag::GROUP => Some((entry.permissions.0.count_ones(), entry.id)),
            _ => None,
        };
        let own = acl.entries.iter().filter_map(group);
        let own = own.filter(|(_, gid)| self.is_in(*gid));
        own.max_by_key(|(granted, _)| *granted).map_or(gid, |(_, gid)| gid)
    }

    /// Returns the group of a file if the caller is in it besides its own one: a request names it, since
    /// servers may not know the groups of a user.
    pub(crate) fn further_group(&self, gid: Option<u32>) -> u32 {
        gid.filter(|gid| self.groups.contains(gid)).unwrap_or(NO_GROUP)
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::of_process()
    }
}

#[cfg(test)]
mod tests {
    use fulmar_lustre_wire::acl::AclPermissions;

    use super::*;

    #[test]
    fn a_request_names_the_group_that_gives_most() {
        let list = |entries: &[(AclTag, u32, u16)]| {
            let entry = |&(tag, id, bits)| AclEntry { tag, id, permissions: AclPermissions(bits) };
            Acl { version: Acl::VERSION, entries: entries.iter().map(entry).collect() }.to_bytes()
        };
        let caller = Caller { groups: vec![6, 7, 8], ..Caller::new(5, 5) };
        assert_eq!(caller.group_in(6, b""), 6);
        assert_eq!(caller.group_in(9, b""), 9, "the server decides");
        let all = [
            (AclTag::GROUP_OBJ, u32::MAX, 4),
            (AclTag::GROUP, 7, 6),
            (AclTag::GROUP, 8, 1),
            (AclTag::GROUP, 9, 7),
        ];
        assert_eq!(caller.group_in(6, &list(&all)), 7);
        assert_eq!(caller.group_in(6, &list(&all[..1])), 6);
        assert_eq!(caller.group_in(10, &list(&all[2..])), 8);
        assert_eq!(caller.further_group(Some(caller.group_in(10, &list(&all[3..])))), NO_GROUP);
    }
}
