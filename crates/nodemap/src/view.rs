//! What a target asks about one client.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::acl::{Acl, AclTag};
use fulmar_lustre_wire::mgs::{NodemapFlags, NodemapFlags2};

use crate::fileset::Fileset;
use crate::map::{IdKind, MappedId};
use crate::nodemap::{Nodemap, Role};

/// What a target asks about a client: with a nodemap, or as if there were none.
#[derive(Clone, Debug, Default)]
pub struct View {
    nodemap: Option<Arc<Nodemap>>,
    is_banned: bool,
}

impl View {
    pub(crate) fn new(nodemap: Arc<Nodemap>, is_banned: bool) -> Self {
        Self { nodemap: Some(nodemap), is_banned }
    }

    /// Returns the id in the file system of an id of the client.
    pub fn to_fs(&self, kind: IdKind, id: u32) -> MappedId {
        let same = MappedId { id, is_squashed: false };
        self.nodemap.as_ref().map_or(same, |nodemap| nodemap.to_fs(kind, id))
    }

    /// Returns the id of the client of an id in the file system.
    pub fn to_client(&self, kind: IdKind, id: u32) -> u32 {
        self.nodemap.as_ref().map_or(id, |nodemap| nodemap.to_client(kind, id).id)
    }

    /// Returns whether ids are the same on both sides.
    pub fn is_plain(&self) -> bool {
        self.nodemap.is_none()
    }

    /// Returns whether a user in the file system may do what an administrator may.
    pub fn is_local_root(&self, user: u32) -> bool {
        self.nodemap.as_ref().map_or(user == 0, |nodemap| nodemap.is_local_root(user))
    }

    /// Returns whether the client may do this.
    pub fn has_role(&self, role: Role) -> bool {
        self.nodemap.as_ref().is_none_or(|nodemap| nodemap.has_role(role))
    }

    /// Returns whether unknown users are refused, and not squashed.
    pub fn denies_unknown(&self) -> bool {
        self.has(NodemapFlags::DENY_UNKNOWN)
    }

    /// Returns whether the client may change nothing.
    pub fn is_read_only(&self) -> bool {
        self.has2(NodemapFlags2::READONLY_MOUNT)
    }

    /// Returns whether its users are not what they say: they are mapped, squashed or moved.
    pub fn is_mapped(&self) -> bool {
        let moves = self.nodemap.as_ref().is_some_and(|nodemap| nodemap.offset.is_some());
        !self.is_plain() && (moves || !self.has(NodemapFlags::TRUST_CLIENT_IDS))
    }

    /// Checks that the client may work.
    ///
    /// # Errors
    /// EPERM if its NID is banned.
    pub fn check(&self) -> Result<(), Errno> {
        if self.is_banned { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Checks that the client may connect. One that was connected before its nodemap denied it goes on.
    ///
    /// # Errors
    /// EPERM if its NID is banned, or it may mount nothing.
    pub fn check_connect(&self) -> Result<(), Errno> {
        if self.has2(NodemapFlags2::DENY_MOUNT) { Err(Errno::EPERM) } else { self.check() }
    }

    /// Returns the directory that the client gets that wants to mount `path`, and whether it may change
    /// nothing there.
    ///
    /// # Errors
    /// EPERM if it may mount nothing, EACCES if not this, ENAMETOOLONG.
    pub fn root_of(&self, path: &str) -> Result<Fileset, Errno> {
        let Some(nodemap) = &self.nodemap else {
            return Ok(Fileset { path: path.to_owned(), is_read_only: false });
        };
        if self.has2(NodemapFlags2::DENY_MOUNT) {
            return Err(Errno::EPERM);
        }
        nodemap.root_of(path)
    }

    /// Returns whether an administrator of the client may change quotas; of an id of a client, if
    /// it is that of a project. `is_default`: those of all.
    pub fn may_set_quota(&self, project: Option<u32>, is_default: bool) -> bool {
        let Some(nodemap) = &self.nodemap else { return true };
        let root = nodemap.to_fs(IdKind::User, 0).id;
        let is_known = project.is_none_or(|id| {
            !nodemap.to_fs(IdKind::Project, id).is_squashed || !self.denies_unknown()
        });
        self.has(NodemapFlags::ALLOW_ROOT_ACCESS)
            && nodemap.has_role(Role::QUOTA_OPS)
            && (!is_default || root == 0)
            && nodemap.is_local_root(root)
            && is_known
    }

    /// Returns a list of the file system as the client sees it: without those that it does not know.
    pub fn acl_to_client(&self, acl: &Acl) -> Acl {
        self.acl(acl, |nodemap, kind, id| nodemap.to_client(kind, id).id)
    }

    /// Returns a list of the client as it is in the file system: without those that are not known.
    pub fn acl_to_fs(&self, acl: &Acl) -> Acl {
        self.acl(acl, |nodemap, kind, id| nodemap.to_fs(kind, id).id)
    }

    fn acl(&self, acl: &Acl, map: impl Fn(&Nodemap, IdKind, u32) -> u32) -> Acl {
        let Some(nodemap) = &self.nodemap else { return acl.clone() };
        let mapped = acl.entries.iter().filter_map(|entry| {
            let kind = match entry.tag {
                AclTag::USER => IdKind::User,
                AclTag::GROUP => IdKind::Group,
                _ => return Some(*entry),
            };
            let id = map(nodemap, kind, entry.id);
            // As a kernel server: nobody has no entry.
            (id != nodemap.squash[kind as usize])
                .then_some(fulmar_lustre_wire::acl::AclEntry { id, ..*entry })
        });
        Acl { version: acl.version, entries: mapped.collect() }
    }

    fn has(&self, flag: NodemapFlags) -> bool {
        self.nodemap.as_ref().is_some_and(|nodemap| nodemap.has(flag))
    }

    fn has2(&self, flag: NodemapFlags2) -> bool {
        self.nodemap.as_ref().is_some_and(|nodemap| nodemap.flags2.has(flag))
    }
}
