//! Extended attributes and lists of access.

use fulmar_base::Errno;
use fulmar_lustre_wire::acl::{Acl, AclEntry, AclPermissions, AclTag};
use fulmar_lustre_wire::format::EA_DATA;
use fulmar_lustre_wire::mdt::{AttrValid, OpenFlags, SetAttr, XattrFlags};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_mdt::{Caller, mode};

use crate::requests::{OTHER, ROOT, USER, chmod, create, getxattr, open, setattr, setxattr};
use crate::rig::Rig;

const TOP: Fid = Fid::ROOT;
const ANY: XattrFlags = XattrFlags::NONE;

impl Rig {
    pub(crate) fn xattr(&mut self, file: Fid, name: &str) -> Result<Vec<u8>, Errno> {
        let reply = self.ask(1, &getxattr(file, name, 65_536))?;
        Ok(reply.message.bytes(&EA_DATA).unwrap_or_default().to_vec())
    }
}

#[test]
fn values_are_set_replaced_and_removed() {
    let mut rig = Rig::new();
    let directory = for_all(&mut rig);
    let file = rig.touch(&USER, (directory, "file"));
    let set = |value, flags| setxattr(&USER, file, "user.a", value, flags);
    assert_eq!(rig.fails(&set(Some(b"1"), XattrFlags::REPLACE)), Errno::ENODATA);
    rig.must(&set(Some(b"1"), XattrFlags::CREATE));
    assert_eq!(rig.fails(&set(Some(b"2"), XattrFlags::CREATE)), Errno::EEXIST);
    rig.must(&set(Some(b"2"), XattrFlags::REPLACE));
    assert_eq!(rig.xattr(file, "user.a").unwrap(), b"2");
    assert_eq!(rig.fails(&getxattr(file, "user.none", 100)), Errno::ENODATA);
    rig.must(&set(Some(b"a longer value"), ANY));
    assert_eq!(rig.fails(&getxattr(file, "user.a", 5)), Errno::ERANGE);
    rig.must(&set(None, ANY));
    assert_eq!(rig.fails(&set(None, ANY)), Errno::ENODATA);
    rig.mdt.check().unwrap();
}

#[test]
fn names_of_servers_are_kept_and_others_need_rights() {
    let mut rig = Rig::new();
    let directory = for_all(&mut rig);
    let file = rig.touch(&USER, (directory, "file"));
    let set = |who: &Caller, name: &str| setxattr(who, file, name, Some(b"value"), ANY);
    let layout = rig.xattr(file, "trusted.lov").unwrap();
    for name in ["trusted.lov", "trusted.lma", "trusted.link", "trusted.som", "trusted.hsm"] {
        rig.must(&set(&ROOT, name));
    }
    assert_eq!(rig.fails(&set(&USER, "lustre.lov")), Errno::EINVAL, "it is no layout");
    rig.must(&setxattr(&USER, file, "lustre.lov", Some(&layout), ANY));
    assert_eq!(rig.xattr(file, "trusted.lov").unwrap(), layout);
    rig.must(&set(&ROOT, "trusted.a"));
    assert_eq!(rig.fails(&set(&USER, "trusted.a")), Errno::EPERM, "also of the owner");
    assert_eq!(rig.fails(&set(&OTHER, "security.a")), Errno::EPERM);
    assert_eq!(rig.fails(&set(&OTHER, "user.a")), Errno::EACCES);
    assert_eq!(rig.fails(&set(&ROOT, "other.a")), Errno::EOPNOTSUPP);
    assert_eq!(rig.fails(&set(&ROOT, &format!("user.{}", "x".repeat(251)))), Errno::ERANGE);
    let large = vec![0; 65_537];
    let large = setxattr(&ROOT, file, "user.a", Some(&large), ANY);
    assert_eq!(rig.fails(&large), Errno::E2BIG);
    rig.must(&chmod(&ROOT, directory, 0o1777));
    let on_directory = setxattr(&USER, directory, "user.a", Some(b"1"), ANY);
    assert_eq!(rig.fails(&on_directory), Errno::EPERM, "it is sticky");
    let fifo = rig.next_fid();
    rig.must(&create(&USER, (directory, "fifo"), fifo, mode::FIFO | 0o666));
    assert_eq!(rig.fails(&setxattr(&USER, fifo, "user.a", Some(b"1"), ANY)), Errno::EPERM);
    let fixed = SetAttr { valid: AttrValid::ATTR_FLAG, flags: 0x10, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, file, fixed));
    assert_eq!(rig.fails(&set(&ROOT, "user.a")), Errno::EPERM, "it is immutable");
    rig.mdt.check().unwrap();
}

/// Returns a list: of the owner, a user, the group, the mask and others.
fn list(user: u32, [owner, named, group, mask, other]: [u16; 5]) -> Vec<u8> {
    let entry =
        |tag, permissions, id| AclEntry { tag, permissions: AclPermissions(permissions), id };
    let entries = vec![
        entry(AclTag::USER_OBJ, owner, u32::MAX),
        entry(AclTag::USER, named, user),
        entry(AclTag::GROUP_OBJ, group, u32::MAX),
        entry(AclTag::MASK, mask, u32::MAX),
        entry(AclTag::OTHER, other, u32::MAX),
    ];
    Acl { version: Acl::VERSION, entries }.to_bytes()
}

#[test]
fn a_list_of_access_goes_with_the_mode() {
    const NAME: &str = "system.posix_acl_access";
    let mut rig = Rig::new();
    let directory = for_all(&mut rig);
    let file = rig.touch(&USER, (directory, "file"));
    let read = || open(&OTHER, (directory, "file"), file, OpenFlags::READ);
    rig.must(&chmod(&USER, file, 0o600));
    assert_eq!(rig.fails(&read()), Errno::EACCES);
    let access = list(OTHER.uid, [6, 4, 0, 4, 0]);
    assert_eq!(rig.fails(&setxattr(&OTHER, file, NAME, Some(&access), ANY)), Errno::EPERM);
    rig.must(&setxattr(&USER, file, NAME, Some(&access), ANY));
    assert_eq!(rig.getattr(file).unwrap().mode & 0o777, 0o640, "the mask is that of the group");
    rig.must(&read());
    rig.must(&chmod(&USER, file, 0o600));
    assert_eq!(rig.fails(&read()), Errno::EACCES, "the mask changes with the mode");
    let wrong = setxattr(&USER, file, NAME, Some(&access[..12]), ANY);
    assert_eq!(rig.fails(&wrong), Errno::EINVAL);
    rig.must(&setxattr(&USER, file, NAME, None, ANY));
    assert_eq!(rig.xattr(file, NAME), Err(Errno::ENODATA));
}

#[test]
fn new_files_inherit_the_default_list() {
    const NAME: &str = "system.posix_acl_default";
    let mut rig = Rig::new();
    let directory = for_all(&mut rig);
    let default = list(OTHER.uid, [7, 7, 5, 7, 0]);
    rig.must(&setxattr(&ROOT, directory, NAME, Some(&default), ANY));
    let file = rig.touch(&USER, (directory, "file"));
    assert_eq!(rig.getattr(file).unwrap().mode & 0o777, 0o640);
    rig.must(&open(&OTHER, (directory, "file"), file, OpenFlags::READ));
    assert_eq!(rig.fails(&setxattr(&USER, file, NAME, Some(&default), ANY)), Errno::EACCES);
    let inner = rig.mkdir((directory, "inner"));
    assert_eq!(rig.xattr(inner, NAME).unwrap(), default);
    assert_eq!(rig.getattr(inner).unwrap().mode & 0o777, 0o750);
}

/// Returns a directory in which everybody makes files.
fn for_all(rig: &mut Rig) -> Fid {
    let directory = rig.mkdir((TOP, "all"));
    rig.must(&chmod(&ROOT, directory, 0o777));
    directory
}
