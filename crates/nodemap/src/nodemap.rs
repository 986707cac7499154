//! A nodemap: what it does with the ids of its clients, and what they may do.

use std::collections::BTreeMap;

use fulmar_lustre_wire::Padding;
use fulmar_lustre_wire::mgs::{NodemapFlags, NodemapFlags2, NodemapRoles};

use crate::fileset::Fileset;
use crate::map::{IdKind, IdMap, MappedId};

/// The user, group and project of nobody.
const NOBODY: u32 = 65534;

/// What a client may do beside files: a bit of the roles of its nodemap.
#[doc(alias = "nodemap_rbac_roles")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role(pub u32);

#[allow(missing_docs)]
impl Role {
    pub const FILE_PERMS: Self = Self(1 << 0);
    pub const DNE_OPS: Self = Self(1 << 1);
    pub const QUOTA_OPS: Self = Self(1 << 2);
    pub const BYFID_OPS: Self = Self(1 << 3);
    pub const CHLG_OPS: Self = Self(1 << 4);
    pub const FSCRYPT_ADMIN: Self = Self(1 << 5);
    pub const SERVER_UPCALL: Self = Self(1 << 6);
    pub const IGNORE_ROOT_PRJQUOTA: Self = Self(1 << 7);
    pub const HSM_OPS: Self = Self(1 << 8);
    pub const LOCAL_ADMIN: Self = Self(1 << 9);
    pub const POOL_QUOTA_OPS: Self = Self(1 << 10);
    pub const LQA_QUOTA_OPS: Self = Self(1 << 11);
    pub const PROJID_SET: Self = Self(1 << 12);
    pub const FOREIGN_OPS: Self = Self(1 << 13);
    pub const IMMUTABLE_FLAGS: Self = Self(1 << 14);

    /// All roles, each with its name.
    pub const KNOWN: [(Self, &str); 15] = [
        (Self::FILE_PERMS, "file_perms"),
        (Self::DNE_OPS, "dne_ops"),
        (Self::QUOTA_OPS, "quota_ops"),
        (Self::BYFID_OPS, "byfid_ops"),
        (Self::CHLG_OPS, "chlg_ops"),
        (Self::FSCRYPT_ADMIN, "fscrypt_admin"),
        (Self::SERVER_UPCALL, "server_upcall"),
        (Self::IGNORE_ROOT_PRJQUOTA, "ignore_root_prjquota"),
        (Self::HSM_OPS, "hsm_ops"),
        (Self::IMMUTABLE_FLAGS, "immutable_flags"),
        (Self::LOCAL_ADMIN, "local_admin"),
        (Self::POOL_QUOTA_OPS, "pool_quota_ops"),
        (Self::LQA_QUOTA_OPS, "lqa_quota_ops"),
        (Self::PROJID_SET, "projid_set"),
        (Self::FOREIGN_OPS, "foreign_ops"),
    ];
    /// Those of a nodemap that says nothing, with all that will be known.
    pub const ALL: u32 = u32::MAX;
}

/// A nodemap. Spec: ptlrpc-ldlm-mgs §32.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodemap {
    pub(crate) name: String,
    pub(crate) flags: NodemapFlags,
    pub(crate) flags2: NodemapFlags2,
    /// Who an unknown user, group or project is.
    pub(crate) squash: [u32; 3],
    pub(crate) roles: NodemapRoles,
    /// The first id in the file system of those of its clients, and how many it has.
    pub(crate) offset: Option<(u32, u32)>,
    pub(crate) ids: [IdMap; 3],
    /// The first one is the root of its clients.
    pub(crate) filesets: BTreeMap<u32, Fileset>,
    /// What is not known here.
    pub(crate) others: BTreeMap<u32, Padding<32>>,
}

impl Nodemap {
    /// The longest name in bytes.
    pub const NAME_MAX: usize = 16;
    /// The name of the one of all clients that have no other.
    pub const DEFAULT: &str = "default";

    /// Returns one that maps all ids to nobody.
    pub(crate) fn new(name: &str) -> Self {
        let flags = NodemapFlags::MAP_UID
            | NodemapFlags::MAP_GID
            | NodemapFlags::MAP_PROJID
            | NodemapFlags::ENABLE_AUDIT;
        Self {
            name: name.to_owned(),
            flags,
            flags2: NodemapFlags2::FILESET_USE_IAM,
            squash: [NOBODY; 3],
            roles: NodemapRoles { roles: Role::ALL.into(), ..NodemapRoles::default() },
            offset: None,
            ids: Default::default(),
            filesets: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn has(&self, flag: NodemapFlags) -> bool {
        self.flags.has(flag)
    }

    /// Returns whether its clients may do this.
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.roles & u64::from(role.0) != 0
    }

    /// Returns the id in the file system of an id of a client.
    pub fn to_fs(&self, kind: IdKind, id: u32) -> MappedId {
        let found = if self.passes(kind, id) { Some(id) } else { self.map(kind).to_fs(id) };
        let within = |id: &u32| self.offset.is_none_or(|(_, limit)| *id < limit);
        let known = found.filter(within);
        let is_squashed = known.is_none();
        let id = known.unwrap_or(self.squash[kind as usize]);
        // An id of nobody outside of the range stays what it is.
        let start = self.offset.filter(|_| within(&id)).map_or(0, |(start, _)| start);
        MappedId { id: id.wrapping_add(start), is_squashed }
    }

    /// Returns the id of a client of an id in the file system.
    pub fn to_client(&self, kind: IdKind, id: u32) -> MappedId {
        let squashed = MappedId { id: self.squash[kind as usize], is_squashed: true };
        let own = match self.offset {
            None => Some(id),
            Some((start, limit)) => id.checked_sub(start).filter(|id| *id < limit),
        };
        let Some(id) = own else { return squashed };
        let found = if self.passes(kind, id) { Some(id) } else { self.map(kind).to_client(id) };
        found.map_or(squashed, |id| MappedId { id, is_squashed: false })
    }

    /// Returns whether an id is the same on both sides, but for the offset.
    fn passes(&self, kind: IdKind, id: u32) -> bool {
        let maps = match kind {
            IdKind::User => NodemapFlags::MAP_UID,
            IdKind::Group => NodemapFlags::MAP_GID,
            IdKind::Project => NodemapFlags::MAP_PROJID,
        };
        match (kind, id) {
            (IdKind::User | IdKind::Group, 0) => self.has(NodemapFlags::ALLOW_ROOT_ACCESS),
            _ => !self.has(maps) || self.has(NodemapFlags::TRUST_CLIENT_IDS),
        }
    }

    pub(crate) fn map(&self, kind: IdKind) -> &IdMap {
        &self.ids[kind as usize]
    }

    /// Returns whether a user in the file system is an administrator of its clients.
    pub fn is_local_root(&self, user: u32) -> bool {
        let root = self.to_fs(IdKind::User, 0);
        let nobody = self.to_fs(IdKind::User, self.squash[IdKind::User as usize]).id;
        let is_mapped = user == root.id && user != nobody && self.has_role(Role::LOCAL_ADMIN);
        user == 0 || is_mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodemap() -> Nodemap {
        let mut nodemap = Nodemap::new("site");
        nodemap.ids[IdKind::User as usize].insert(1000, 500);
        nodemap.ids[IdKind::Group as usize].insert(1000, 600);
        nodemap
    }

    fn pair(mapped: MappedId) -> (u32, bool) {
        (mapped.id, mapped.is_squashed)
    }

    #[test]
    fn known_ids_are_mapped_and_others_squashed() {
        let mut nodemap = nodemap();
        nodemap.squash = [11, 12, 13];
        let to_fs = |kind, id| pair(nodemap.to_fs(kind, id));
        let to_client = |kind, id| pair(nodemap.to_client(kind, id));
        assert_eq!(to_fs(IdKind::User, 1000), (500, false));
        assert_eq!(to_client(IdKind::User, 500), (1000, false));
        assert_eq!(to_fs(IdKind::Group, 1000), (600, false));
        assert_eq!(to_fs(IdKind::User, 7), (11, true));
        assert_eq!(to_client(IdKind::Group, 7), (12, true));
        assert_eq!(to_fs(IdKind::Project, 7), (13, true));
        assert_eq!(to_fs(IdKind::User, 0), (11, true), "root is nobody");
        assert_eq!(to_client(IdKind::User, 0), (11, true));
    }

    #[test]
    fn trusted_clients_are_what_they_say_but_for_root() {
        let mut nodemap = nodemap();
        nodemap.flags = nodemap.flags | NodemapFlags::TRUST_CLIENT_IDS;
        assert_eq!(pair(nodemap.to_fs(IdKind::User, 1000)), (1000, false));
        assert_eq!(pair(nodemap.to_fs(IdKind::User, 0)), (NOBODY, true));
        assert_eq!(pair(nodemap.to_fs(IdKind::Project, 0)), (0, false));
        nodemap.flags = nodemap.flags | NodemapFlags::ALLOW_ROOT_ACCESS;
        assert_eq!(pair(nodemap.to_fs(IdKind::User, 0)), (0, false));
    }

    #[test]
    fn only_the_chosen_kinds_are_mapped() {
        let mut nodemap = nodemap();
        nodemap.flags = nodemap.flags.without(NodemapFlags::MAP_GID);
        assert_eq!(pair(nodemap.to_fs(IdKind::Group, 77)), (77, false));
        assert_eq!(pair(nodemap.to_fs(IdKind::User, 77)), (NOBODY, true));
        assert_eq!(pair(nodemap.to_fs(IdKind::Group, 0)), (NOBODY, true), "root is root's matter");
    }

    #[test]
    fn an_offset_shifts_all_ids_also_root() {
        let mut nodemap = nodemap();
        nodemap.offset = Some((100_000, 70_000));
        nodemap.flags = nodemap.flags | NodemapFlags::TRUST_CLIENT_IDS;
        let to_fs = |nodemap: &Nodemap, id| pair(nodemap.to_fs(IdKind::User, id));
        let to_client = |nodemap: &Nodemap, id| pair(nodemap.to_client(IdKind::User, id));
        assert_eq!(to_fs(&nodemap, 5), (100_005, false));
        assert_eq!(to_client(&nodemap, 100_005), (5, false));
        assert_eq!(to_fs(&nodemap, 70_000), (100_000 + NOBODY, true), "beyond the limit");
        assert_eq!(to_client(&nodemap, 99_999), (NOBODY, true));
        assert_eq!(to_client(&nodemap, 170_000), (NOBODY, true));
        assert_eq!(to_fs(&nodemap, 0), (100_000 + NOBODY, true));
        nodemap.flags = nodemap.flags | NodemapFlags::ALLOW_ROOT_ACCESS;
        assert_eq!(to_fs(&nodemap, 0), (100_000, false));
        assert_eq!(to_client(&nodemap, 100_000), (0, false));
        // Ids of users that are mapped are shifted afterwards.
        nodemap.flags = nodemap.flags.without(NodemapFlags::TRUST_CLIENT_IDS);
        assert_eq!(to_fs(&nodemap, 1000), (100_500, false));
        assert_eq!(to_client(&nodemap, 100_500), (1000, false));
        // A nobody outside of the range is not shifted.
        nodemap.squash = [80_000; 3];
        assert_eq!(to_fs(&nodemap, 5), (80_000, true));
    }

    #[test]
    fn root_of_a_site_is_its_administrator() {
        let mut nodemap = nodemap();
        nodemap.offset = Some((100_000, 70_000));
        assert!(nodemap.is_local_root(0) && !nodemap.is_local_root(100_000));
        nodemap.flags = nodemap.flags | NodemapFlags::ALLOW_ROOT_ACCESS;
        assert!(nodemap.is_local_root(100_000) && !nodemap.is_local_root(100_001));
        nodemap.roles.roles &= !u64::from(Role::LOCAL_ADMIN.0);
        assert!(!nodemap.is_local_root(100_000));
    }
}
