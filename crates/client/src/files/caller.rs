//! On whose behalf an operation is. Spec: mdt-ost §14.1.

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
