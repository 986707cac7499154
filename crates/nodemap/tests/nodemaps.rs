//! Nodemaps as an administrator changes them, as their records, and as targets use them.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::acl::{Acl, AclEntry, AclPermissions, AclTag};
use fulmar_lustre_wire::mgs::{NodemapKind, NodemapRecord};
use fulmar_nodemap::{Change, IdKind, MappedId, Nodemaps, Property, Role, View};

fn set(name: &str, value: &str) -> Change {
    Change::Set(Property::parse(name, value).unwrap())
}

fn nids(text: &str) -> Change {
    Change::AddNids(Change::nids(text).unwrap())
}

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Returns a file system of two sites: `east` has an offset, `west` has ids of its own.
fn sites() -> Nodemaps {
    let mut maps = Nodemaps::default();
    let east = [
        Change::Add,
        nids("10.1.0.[1-254]@tcp"),
        Change::AddOffset(100_000, 100_000),
        set("admin", "1"),
        set("trusted", "1"),
        Change::SetFileset(Some("/east/".to_owned())),
    ];
    let west = [
        Change::Add,
        nids("10.2.0.0/16@tcp"),
        nids("fd00:2::/32@tcp"),
        Change::AddIds(IdKind::User, 1000, 500, 3),
        Change::AddIds(IdKind::Group, 1000, 600, 1),
        set("squash_uid", "99"),
        set("squash_gid", "98"),
        set("rbac", "-file_perms,-quota_ops"),
    ];
    for (name, changes) in [("east", &east[..]), ("west", &west[..])] {
        for change in changes {
            maps.change(name, change).unwrap_or_else(|errno| panic!("{name} {change:?}: {errno}"));
        }
    }
    maps.activate(true);
    maps
}

fn user(view: &View, id: u32) -> u32 {
    view.to_fs(IdKind::User, id).id
}

#[test]
fn a_client_has_the_nodemap_of_its_nid() {
    let mut maps = sites();
    let name = |maps: &Nodemaps, text| maps.of_nid(nid(text)).name().to_owned();
    assert_eq!(name(&maps, "10.1.0.7@tcp"), "east");
    assert_eq!(name(&maps, "10.2.255.255@tcp"), "west");
    assert_eq!(name(&maps, "fd00:2::1@tcp"), "west");
    assert_eq!(name(&maps, "10.3.0.1@tcp"), "default");
    let east = maps.view(nid("10.1.0.7@tcp"));
    assert_eq!((user(&east, 0), user(&east, 1000)), (100_000, 101_000));
    assert_eq!(east.to_client(IdKind::Group, 100_005), 5);
    let west = maps.view(nid("10.2.0.1@tcp"));
    assert_eq!((user(&west, 1002), user(&west, 1003)), (502, 99));
    assert_eq!(west.to_fs(IdKind::Group, 7), MappedId { id: 98, is_squashed: true });
    let other = maps.view(nid("10.3.0.1@tcp"));
    assert_eq!((user(&other, 0), user(&other, 1000)), (65534, 65534));
    maps.activate(false);
    let off = maps.view(nid("10.2.0.1@tcp"));
    assert!(off.is_plain());
    assert_eq!((user(&off, 0), user(&off, 1003)), (0, 1003));
}

#[test]
fn records_give_the_same_nodemaps() {
    let maps = sites();
    let entries = maps.entries();
    let again = Nodemaps::of(&entries).unwrap();
    assert_eq!(again.entries(), entries);
    assert_eq!(again.files(), maps.files());
    let mut backwards = entries.clone();
    backwards.reverse();
    assert_eq!(Nodemaps::of(&backwards).unwrap().entries(), entries, "in any order");
    let first = entries.iter().position(|entry| entry.key.part != 0).unwrap();
    let are_first = |entry: &&fulmar_lustre_wire::mgs::NodemapEntry| {
        matches!(entry.record, NodemapRecord::Nodemap(_))
    };
    assert_eq!(entries[..first].iter().filter(are_first).count(), 3, "nodemaps come first");
    // A record whose nodemap is missing, and one of a kind that is not known.
    let mut missing = entries.clone();
    missing.retain(|entry| !are_first(&entry) || entry.key.nodemap != 2);
    assert!(Nodemaps::of(&missing).is_err());
    let mut unknown = entries;
    unknown[first].key.kind = NodemapKind(9);
    assert!(Nodemaps::of(&unknown).is_ok());
    assert_eq!(Nodemaps::of(&[]).unwrap().entries(), Nodemaps::default().entries());
}

#[test]
fn what_an_administrator_cannot_do_is_refused() {
    let mut maps = sites();
    let before = maps.entries();
    let ids = |kind| Change::RemoveIds(kind, 1000, 500, 4);
    for (name, change, errno) in [
        ("east", Change::Add, Errno::EEXIST),
        ("no-dash", Change::Add, Errno::EINVAL),
        ("seventeen_letters", Change::Add, Errno::ENAMETOOLONG),
        ("north", Change::Remove, Errno::ENOENT),
        ("default", Change::Remove, Errno::EINVAL),
        ("default", nids("10.9.0.1@tcp"), Errno::EINVAL),
        ("default", Change::AddOffset(1, 1), Errno::EINVAL),
        ("west", nids("10.1.0.254@tcp"), Errno::EEXIST),
        ("east", Change::AddOffset(300_000, 5), Errno::ERANGE),
        ("west", Change::AddOffset(199_999, 5), Errno::ERANGE),
        ("west", Change::AddOffset(0, 5), Errno::EINVAL),
        ("west", Change::AddOffset(u32::MAX - 5, 5), Errno::EINVAL),
        ("west", ids(IdKind::User), Errno::EINVAL),
        ("west", Change::SetFileset(Some("west".to_owned())), Errno::EINVAL),
        ("west", Change::SetFileset(Some("/x".repeat(2048))), Errno::ENAMETOOLONG),
    ] {
        assert_eq!(maps.change(name, &change), Err(errno), "{name} {change:?}");
        assert_eq!(maps.entries(), before);
    }
    maps.change("west", &Change::AddOffset(200_000, 5)).unwrap();
    maps.change("west", &Change::RemoveIds(IdKind::User, 1000, 500, 3)).unwrap();
    maps.change("east", &Change::Remove).unwrap();
    assert_eq!(maps.of_nid(nid("10.1.0.7@tcp")).name(), "default");
}

#[test]
fn a_new_nodemap_is_like_the_default_one() {
    let mut maps = Nodemaps::default();
    maps.change("default", &set("squash_uid", "77")).unwrap();
    maps.change("default", &set("trusted", "1")).unwrap();
    maps.change("new", &Change::Add).unwrap();
    maps.change("new", &nids("*@tcp")).unwrap();
    maps.activate(true);
    let view = maps.view(nid("10.0.0.1@tcp"));
    assert_eq!((user(&view, 0), user(&view, 5)), (77, 5));
}

#[test]
fn texts_of_an_administrator_are_read() {
    assert_eq!(Change::ids("500:1000"), Ok((500, 1000, 1)));
    assert_eq!(Change::ids("500-509:1000"), Ok((500, 1000, 10)));
    assert_eq!(Change::ids("500-509:1000-1009"), Ok((500, 1000, 10)));
    for wrong in ["500", "a:1", "5-1:9", "1-9:1-5", "1:", "1-2:4294967295", "0-99999:0"] {
        assert!(Change::ids(wrong).is_err(), "{wrong}");
    }
    assert!(Property::parse("squash_uid", "0").is_err());
    assert!(Property::parse("admin", "yes").is_err());
    assert!(Property::parse("sepol", "1").unwrap_err().0.contains("admin, audit_mode"));
    assert!(Property::parse("map_mode", "uid,nid").is_err());
    assert!(Property::parse("rbac", "+hsm_ops,file_perms").is_err());
    assert!(Property::parse("rbac", "root").unwrap_err().0.contains("byfid_ops"));
}

#[test]
fn lists_lose_those_that_the_other_side_does_not_know() {
    let maps = sites();
    let west = maps.view(nid("10.2.0.1@tcp"));
    let entry = |tag, id| AclEntry { tag, permissions: AclPermissions(7), id };
    let of = |entries: Vec<AclEntry>| Acl { version: Acl::VERSION, entries };
    let ids = |acl: &Acl| acl.entries.iter().map(|entry| entry.id).collect::<Vec<_>>();
    let own = of(vec![
        entry(AclTag::USER_OBJ, u32::MAX),
        entry(AclTag::USER, 1001),
        entry(AclTag::USER, 2000),
        entry(AclTag::GROUP, 1000),
        entry(AclTag::MASK, u32::MAX),
    ]);
    let kept = west.acl_to_fs(&own);
    assert_eq!(ids(&kept), [u32::MAX, 501, 600, u32::MAX]);
    assert_eq!(ids(&west.acl_to_client(&kept)), [u32::MAX, 1001, 1000, u32::MAX]);
    assert_eq!(View::default().acl_to_fs(&own), own);
}

#[test]
fn clients_may_do_what_their_nodemap_says() {
    let mut maps = sites();
    let east = maps.view(nid("10.1.0.7@tcp"));
    let west = maps.view(nid("10.2.0.1@tcp"));
    assert!(east.has_role(Role::FILE_PERMS) && !west.has_role(Role::FILE_PERMS));
    assert!(west.has_role(Role::BYFID_OPS));
    assert!(east.is_local_root(100_000) && !east.is_local_root(100_001));
    assert!(east.may_set_quota(None, false) && !east.may_set_quota(None, true));
    assert!(!west.may_set_quota(None, false));
    assert_eq!(east.root_of("").unwrap().path, "/east");
    assert_eq!(west.root_of("").unwrap().path, "");
    for change in [set("deny_mount", "1"), set("readonly_mount", "1"), set("deny_unknown", "1")] {
        maps.change("east", &change).unwrap();
    }
    let east = maps.view(nid("10.1.0.7@tcp"));
    assert_eq!(east.root_of(""), Err(Errno::EPERM));
    assert!(east.is_read_only() && east.denies_unknown() && !west.denies_unknown());
    assert_eq!(east.check(), Ok(()));
}

#[test]
fn files_are_those_of_a_kernel_node() {
    let files: Vec<(String, String)> =
        sites().files().into_iter().map(|(name, text)| (name.join("."), text)).collect();
    let text = |name: &str| &*files.iter().find(|(known, _)| known == name).unwrap().1;
    assert_eq!(text("active"), "1\n");
    assert_eq!(text("default.squash_uid"), "65534\n");
    assert_eq!(text("default.ranges"), "[]\n");
    assert_eq!(text("default.map_mode"), "all\n");
    assert_eq!(
        text("east.ranges"),
        "[\n { id: 1, start_nid: 10.1.0.1@tcp, end_nid: 10.1.0.254@tcp }\n]\n"
    );
    assert_eq!(
        text("east.offset"),
        "{\n start_uid: 100000,\n limit_uid: 100000,\n start_gid: 100000,\n limit_gid: 100000,\n \
         start_projid: 100000,\n limit_projid: 100000\n}\n"
    );
    assert_eq!(text("east.fileset"), "[\n { primary:     /east }\n]\n");
    assert_eq!(
        text("west.idmap"),
        "[\n { idtype: uid, client_id: 1000, fs_id: 500 },\n { idtype: uid, client_id: 1001, fs_id: \
         501 },\n { idtype: uid, client_id: 1002, fs_id: 502 },\n { idtype: gid, client_id: 1000, \
         fs_id: 600 }\n]\n"
    );
    assert!(text("west.rbac").starts_with("dne_ops,byfid_ops,"));
}
