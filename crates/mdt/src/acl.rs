//! POSIX access control lists: who may do what, and what new files inherit. Spec: mdt-ost §10.2.

use fulmar_base::Errno;
use fulmar_lustre_wire::Content;
use fulmar_lustre_wire::acl::{Acl, AclEntry, AclPermissions, AclTag};
use fulmar_wire::Order;

use crate::access::{AccessMode, Caller};

/// The most entries of a list.
const ENTRIES_MAX: usize = 8191;

/// Reads a list that somebody wants to set.
///
/// # Errors
/// EINVAL if it is no list, or not one that POSIX allows; EOPNOTSUPP if it is of another version.
pub(crate) fn decode(value: &[u8]) -> Result<Acl, Errno> {
    let acl = Acl::decode(value, Order::Little).map_err(|_| Errno::EINVAL)?;
    if acl.version != Acl::VERSION {
        return Err(Errno::EOPNOTSUPP);
    }
    if is_valid(&acl) { Ok(acl) } else { Err(Errno::EINVAL) }
}

/// Returns whether each entry that must be there is there once, in order.
fn is_valid(acl: &Acl) -> bool {
    let entries = &acl.entries;
    let rank = |entry: &AclEntry| match entry.tag {
        AclTag::USER_OBJ => Some(0),
        AclTag::USER => Some(1),
        AclTag::GROUP_OBJ => Some(2),
        AclTag::GROUP => Some(3),
        AclTag::MASK => Some(4),
        AclTag::OTHER => Some(5),
        _ => None,
    };
    let Some(ranks) = entries.iter().map(rank).collect::<Option<Vec<u8>>>() else { return false };
    let count = |rank| ranks.iter().filter(|&&found| found == rank).count();
    let names = count(1) + count(3);
    let known = entries.iter().all(|entry| entry.permissions.0 & !7 == 0);
    known
        && entries.len() <= ENTRIES_MAX
        && ranks.is_sorted()
        && [count(0), count(2), count(5)] == [1, 1, 1]
        && (count(4) == 1 || count(4) == 0 && names == 0)
}

/// Returns whether a caller may do what is wanted. As in POSIX 1003.1e.
pub(crate) fn permits(
    acl: &Acl,
    owner: u32,
    group: u32,
    caller: &Caller,
    wanted: AccessMode,
) -> bool {
    let mask = find(acl, AclTag::MASK).map_or(7, |entry| entry.permissions.0);
    let grants = |entry: &AclEntry, mask: u16| wanted.is_in(u32::from(entry.permissions.0 & mask));
    if caller.uid == owner {
        return find(acl, AclTag::USER_OBJ).is_some_and(|entry| grants(entry, 7));
    }
    let is_user = |entry: &&AclEntry| entry.tag == AclTag::USER && entry.id == caller.uid;
    if let Some(entry) = acl.entries.iter().find(is_user) {
        return grants(entry, mask);
    }
    let is_group = |entry: &&AclEntry| match entry.tag {
        AclTag::GROUP_OBJ => caller.is_in(group),
        AclTag::GROUP => caller.is_in(entry.id),
        _ => false,
    };
    let mut groups = acl.entries.iter().filter(is_group).peekable();
    if groups.peek().is_some() {
        return groups.any(|entry| grants(entry, mask));
    }
    find(acl, AclTag::OTHER).is_some_and(|entry| grants(entry, 7))
}

/// Returns the list of a new file in a directory with the default list `default`, and its mode: what the
/// caller wants, limited by the list. The list is empty if the mode says all.
pub(crate) fn inherit(default: &Acl, mode: u32) -> (Vec<u8>, u32) {
    let mut acl = default.clone();
    let has_mask = find(&acl, AclTag::MASK).is_some();
    for entry in &mut acl.entries {
        let bits = match entry.tag {
            AclTag::USER_OBJ => mode >> 6,
            AclTag::GROUP_OBJ if !has_mask => mode >> 3,
            AclTag::MASK => mode >> 3,
            AclTag::OTHER => mode,
            _ => 7,
        };
        entry.permissions = AclPermissions(entry.permissions.0 & (bits & 7) as u16);
    }
    let limited = mode & !0o777 | mode & 0o777 & mode_of(&acl);
    (stored(&acl), limited)
}

/// Returns a list after a change of the mode.
pub(crate) fn after_chmod(acl: &Acl, mode: u32) -> Vec<u8> {
    let mut acl = acl.clone();
    let has_mask = find(&acl, AclTag::MASK).is_some();
    for entry in &mut acl.entries {
        let bits = match entry.tag {
            AclTag::USER_OBJ => mode >> 6,
            AclTag::GROUP_OBJ if !has_mask => mode >> 3,
            AclTag::MASK => mode >> 3,
            AclTag::OTHER => mode,
            _ => continue,
        };
        entry.permissions = AclPermissions((bits & 7) as u16);
    }
    stored(&acl)
}

/// Returns the permissions of a mode that say as much as a list can say.
pub(crate) fn mode_of(acl: &Acl) -> u32 {
    let bits = |tag| find(acl, tag).map(|entry| u32::from(entry.permissions.0));
    let group = bits(AclTag::MASK).or(bits(AclTag::GROUP_OBJ)).unwrap_or_default();
    let [user, other] = [AclTag::USER_OBJ, AclTag::OTHER].map(|tag| bits(tag).unwrap_or_default());
    user << 6 | group << 3 | other
}

/// Returns the bytes that are kept: none if the mode says all.
pub(crate) fn stored(acl: &Acl) -> Vec<u8> {
    if acl.entries.len() > 3 { acl.to_bytes() } else { vec![] }
}

fn find(acl: &Acl, tag: AclTag) -> Option<&AclEntry> {
    acl.entries.iter().find(|entry| entry.tag == tag)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a list of `(tag, permissions, id)`.
    pub(crate) fn list(entries: &[(AclTag, u16, u32)]) -> Acl {
        let entry = |&(tag, permissions, id)| {
            let permissions = AclPermissions(permissions);
            AclEntry { tag, permissions, id }
        };
        Acl { version: Acl::VERSION, entries: entries.iter().map(entry).collect() }
    }

    const NONE: u32 = u32::MAX;

    fn example() -> Acl {
        list(&[
            (AclTag::USER_OBJ, 7, NONE),
            (AclTag::USER, 6, 1000),
            (AclTag::GROUP_OBJ, 5, NONE),
            (AclTag::GROUP, 2, 77),
            (AclTag::MASK, 4, NONE),
            (AclTag::OTHER, 0, NONE),
        ])
    }

    #[test]
    fn users_and_groups_have_what_the_mask_leaves() {
        let caller = |uid, gid| Caller { uid, gid, ..Caller::default() };
        let may = |caller: &Caller, wanted| permits(&example(), 1, 50, caller, wanted);
        assert!(may(&caller(1, 9), AccessMode::WRITE), "the owner");
        assert!(may(&caller(1000, 9), AccessMode::READ), "the user");
        assert!(!may(&caller(1000, 9), AccessMode::WRITE), "the mask");
        assert!(may(&caller(2, 50), AccessMode::READ), "the group");
        assert!(!may(&caller(2, 77), AccessMode::READ), "a group without it");
        assert!(!may(&caller(2, 3), AccessMode::READ), "others");
    }

    #[test]
    fn only_lists_in_order_are_accepted() {
        let acl = example();
        assert_eq!(decode(&acl.to_bytes()), Ok(acl.clone()));
        for remove in [0, 2, 4, 5] {
            let mut wrong = acl.clone();
            wrong.entries.remove(remove);
            assert_eq!(decode(&wrong.to_bytes()), Err(Errno::EINVAL), "without {remove}");
        }
        let mut wrong = acl.clone();
        wrong.entries.swap(0, 1);
        assert_eq!(decode(&wrong.to_bytes()), Err(Errno::EINVAL));
        wrong = Acl { version: 3, ..acl };
        assert_eq!(decode(&wrong.to_bytes()), Err(Errno::EOPNOTSUPP));
        assert_eq!(decode(b"\x02\0"), Err(Errno::EINVAL));
    }

    #[test]
    fn new_files_have_at_most_what_their_creator_wants() {
        let (stored, mode) = inherit(&example(), 0o100_640);
        let inherited = decode(&stored).unwrap();
        assert_eq!((mode, mode_of(&inherited)), (0o100_640, 0o640));
        let (stored, mode) = inherit(&example(), 0o100_222);
        assert_eq!((mode, mode_of(&decode(&stored).unwrap())), (0o100_200, 0o200));
        let plain = list(&[
            (AclTag::USER_OBJ, 7, NONE),
            (AclTag::GROUP_OBJ, 5, NONE),
            (AclTag::OTHER, 1, NONE),
        ]);
        assert_eq!(inherit(&plain, 0o100_666), (vec![], 0o100_640));
    }

    #[test]
    fn a_new_mode_changes_the_mask() {
        let changed = decode(&after_chmod(&example(), 0o723)).unwrap();
        assert_eq!(mode_of(&changed), 0o723);
        assert_eq!(changed.entries[2].permissions.0, 5, "the group keeps its own");
    }
}
