//! Clients of several sites: who their users are in the file system. Spec: ptlrpc-ldlm-mgs §32.4.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::acl::{Acl, AclEntry, AclPermissions, AclTag};
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{ACL, EA_DATA, GET_ROOT, MDS_QUOTACTL, NAME, OST_BODY, QUOTACTL};
use fulmar_lustre_wire::mdt::{AttrValid, Create, OpenFlags, SetAttr, Valid, XattrFlags};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_lustre_wire::{Bytes, Content, Fid};
use fulmar_mdt::{Caller, mode};
use fulmar_nodemap::{Change, IdKind, Nodemaps, Property};
use fulmar_wire::Order;

use crate::data;
use crate::requests::{
    self, ROOT, USER, asked, connect, create, create_as, getxattr, link, lookup, mkdir, name, open,
    setattr, setxattr, user,
};
use crate::rig::{NID, Reply, Rig};

const TOP: Fid = Fid::ROOT;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn east() -> Nid {
    nid("10.1.0.7@tcp")
}

fn west() -> Nid {
    nid("10.2.0.7@tcp")
}

fn set(maps: &mut Nodemaps, site: &str, property: &str, value: &str) {
    maps.change(site, &Change::Set(Property::parse(property, value).unwrap())).unwrap();
}

/// Returns the nodemaps of two sites, beside clients that are what they say. `east` has an offset and its
/// own root, `west` knows two users.
fn sites() -> Nodemaps {
    let mut maps = Nodemaps::default();
    let nids = |text| Change::AddNids(Change::nids(text).unwrap());
    for (site, change) in [
        ("east", Change::Add),
        ("east", nids("10.1.0.0/16@tcp")),
        ("east", Change::AddOffset(100_000, 100_000)),
        ("west", Change::Add),
        ("west", nids("10.2.0.0/16@tcp")),
        ("west", Change::AddIds(IdKind::User, 1000, 500, 2)),
        ("west", Change::AddIds(IdKind::Group, 1000, 600, 1)),
    ] {
        maps.change(site, &change).unwrap();
    }
    for (site, property) in [("default", "admin"), ("default", "trusted"), ("east", "admin")] {
        set(&mut maps, site, property, "1");
    }
    set(&mut maps, "east", "trusted", "1");
    set(&mut maps, "west", "squash_uid", "99");
    set(&mut maps, "west", "squash_gid", "98");
    maps.activate(true);
    maps
}

/// Returns an MDT with these nodemaps, and a directory in which everybody may create files.
fn rig(maps: Nodemaps) -> (Rig, Fid) {
    let mut rig = Rig::new();
    let all = rig.mkdir((TOP, "all"));
    let bits = SetAttr { valid: AttrValid::MODE, mode: 0o777, ..SetAttr::default() };
    rig.must(&setattr(&ROOT, all, bits));
    rig.mdt.set_nodemaps(maps);
    (rig, all)
}

impl Rig {
    fn from(&mut self, nid: Nid, request: &Message<'_>) -> Result<Reply, Errno> {
        let reply = self.send_from(nid, 1, request)?;
        reply.result.map(|()| reply)
    }

    /// Returns the owner of a file as a client sees it.
    fn owner(&mut self, nid: Nid, file: Fid) -> (u32, u32) {
        let body = self.from(nid, &requests::getattr(file)).unwrap().body();
        (body.uid, body.gid)
    }

    fn created(&mut self, nid: Nid, who: &Caller, place: (Fid, &str)) -> Fid {
        let fid = self.next_fid();
        let reply = self.from(nid, &create(who, place, fid, mode::REGULAR | 0o644)).unwrap();
        assert_eq!((reply.body().uid, reply.body().gid), self.owner(nid, fid));
        fid
    }
}

#[test]
fn a_site_with_an_offset_has_its_own_ids_and_its_own_root() {
    let (mut rig, all) = rig(sites());
    let of_root = rig.created(east(), &ROOT, (all, "root"));
    let of_user = rig.created(east(), &USER, (all, "user"));
    assert_eq!(rig.owner(east(), of_root), (0, 0));
    assert_eq!(rig.owner(NID, of_root), (100_000, 100_000));
    assert_eq!(rig.owner(east(), of_user), (1000, 1000));
    assert_eq!(rig.owner(NID, of_user), (101_000, 101_000));
    // What is not of the site has the unknown owner, for its administrator too.
    let other = rig.created(NID, &USER, (all, "other"));
    assert_eq!(rig.owner(east(), other), (65534, 65534));
    let chown =
        SetAttr { valid: AttrValid::UID | AttrValid::GID, uid: 5, gid: 6, ..SetAttr::default() };
    assert_eq!(rig.from(east(), &setattr(&USER, of_user, chown)).unwrap_err(), Errno::EPERM);
    let reply = rig.from(east(), &setattr(&ROOT, of_user, chown)).unwrap();
    assert_eq!((reply.body().uid, reply.body().gid), (5, 6));
    assert_eq!(rig.owner(NID, of_user), (100_005, 100_006));
    let opened = open(&ROOT, (all, "user"), of_user, OpenFlags::READ);
    assert_eq!(rig.from(east(), &opened).unwrap().body().uid, 5);
}

#[test]
fn replies_to_writes_name_the_owner_as_the_client_sees_it() {
    let (mut rig, all) = rig(sites());
    data::keep_on_mdt(&mut rig, 1);
    let file = rig.touch(&user(101_000), (all, "user"));
    let write = data::write(data::about(file), 0, b"data");
    let body = rig.from(east(), &write).unwrap().message.require(&OST_BODY).unwrap();
    assert_eq!((body.uid, body.gid), (1000, 1000));
}

#[test]
fn known_users_are_mapped_and_others_are_squashed_without_groups() {
    let (mut rig, all) = rig(sites());
    let of_user = rig.created(west(), &USER, (all, "user"));
    assert_eq!(rig.owner(west(), of_user), (1000, 1000));
    assert_eq!(rig.owner(NID, of_user), (500, 600));
    let unknown = rig.created(west(), &user(2000), (all, "unknown"));
    assert_eq!(rig.owner(NID, unknown), (99, 98));
    assert_eq!(rig.owner(west(), unknown), (99, 98));
    let of_root = rig.created(west(), &ROOT, (all, "root"));
    assert_eq!(rig.owner(NID, of_root), (99, 98));
    // Root of the site has no capability, and an unknown user no group.
    let private = rig.next_fid();
    rig.from(NID, &mkdir(&user(600), (all, "private"), private)).unwrap();
    let bits = SetAttr { valid: AttrValid::MODE, mode: 0o770, ..SetAttr::default() };
    rig.from(NID, &setattr(&ROOT, private, bits)).unwrap();
    let find = |who: &Caller| lookup(who, (private, "x"));
    assert_eq!(rig.from(west(), &find(&ROOT)).unwrap_err(), Errno::EACCES);
    rig.from(west(), &find(&USER)).unwrap();
    let grouped = Caller { groups: [1000, u32::MAX], ..user(2000) };
    assert_eq!(rig.from(west(), &find(&grouped)).unwrap_err(), Errno::EACCES);
    let grouped = Caller { gid: 1000, groups: [1000, u32::MAX], ..user(1001) };
    rig.from(west(), &find(&grouped)).unwrap();
}

#[test]
fn unknown_users_are_refused_if_the_administrator_wants_it() {
    let mut maps = sites();
    set(&mut maps, "west", "deny_unknown", "1");
    let (mut rig, all) = rig(maps);
    let file = rig.created(NID, &user(500), (all, "user"));
    let unknown = user(2000);
    let body = requests::body(&unknown, file, Valid::NONE);
    let getattr = requests::getattr(file).with(&fulmar_lustre_wire::format::MDT_BODY, &body);
    let child = rig.next_fid();
    for request in [
        getattr,
        lookup(&unknown, (all, "user")),
        open(&unknown, (all, "user"), file, OpenFlags::READ),
        create(&unknown, (all, "new"), child, mode::REGULAR | 0o644),
        // Root is not known either: a mount begins so.
        requests::getattr(TOP),
    ] {
        assert_eq!(rig.from(west(), &request).unwrap_err(), Errno::EACCES);
    }
    rig.from(west(), &open(&USER, (all, "user"), file, OpenFlags::READ)).unwrap();
}

#[test]
fn access_control_lists_are_mapped_both_ways() {
    let (mut rig, all) = rig(sites());
    let file = rig.created(west(), &USER, (all, "user"));
    let entry = |tag, id| AclEntry { tag, permissions: AclPermissions(6), id };
    let list = Acl {
        version: Acl::VERSION,
        entries: vec![
            entry(AclTag::USER_OBJ, u32::MAX),
            entry(AclTag::USER, 1001),
            entry(AclTag::USER, 3000),
            entry(AclTag::GROUP_OBJ, u32::MAX),
            entry(AclTag::GROUP, 1000),
            entry(AclTag::MASK, u32::MAX),
            entry(AclTag::OTHER, u32::MAX),
        ],
    };
    let access = "system.posix_acl_access";
    rig.from(west(), &setxattr(&USER, file, access, Some(&list.to_bytes()), XattrFlags::NONE))
        .unwrap();
    let ids = |bytes: &[u8]| -> Vec<u32> {
        let list = Acl::decode(bytes, Order::Little).unwrap();
        list.entries.iter().map(|one| one.id).filter(|id| *id != u32::MAX).collect()
    };
    for (from, expected) in [(west(), [1001, 1000]), (NID, [501, 600])] {
        let read = rig.from(from, &getxattr(file, access, 256)).unwrap();
        assert_eq!(ids(read.message.bytes(&EA_DATA).unwrap()), expected);
        let shown = rig.from(from, &requests::getattr(file)).unwrap();
        if let Some(list) = shown.message.bytes(&ACL).filter(|list| !list.is_empty()) {
            assert_eq!(ids(list), expected);
        }
    }
}

#[test]
fn clients_get_the_root_of_their_site() {
    let mut maps = sites();
    maps.change("east", &Change::SetFileset(Some("/all".to_owned()))).unwrap();
    let (mut rig, all) = rig(maps.clone());
    let below = rig.next_fid();
    rig.from(NID, &mkdir(&ROOT, (all, "below"), below)).unwrap();
    let root = |rig: &mut Rig, from, path: &str| {
        let request = Message::request(&GET_ROOT).with(&NAME, &name(path));
        rig.from(from, &request).map(|reply| reply.body().fid)
    };
    assert_eq!(root(&mut rig, east(), ""), Ok(all));
    assert_eq!(root(&mut rig, east(), "/below"), Ok(below));
    assert_eq!(root(&mut rig, NID, ""), Ok(TOP));
    set(&mut maps, "east", "readonly_mount", "1");
    set(&mut maps, "west", "deny_mount", "1");
    rig.mdt.set_nodemaps(maps);
    assert_eq!(root(&mut rig, west(), ""), Err(Errno::EPERM));
    assert_eq!(rig.from(west(), &connect("client8", &asked())).unwrap_err(), Errno::EPERM);
    let mut wanted = asked();
    let refused = rig.from(east(), &connect("client7", &wanted));
    assert_eq!(refused.unwrap_err(), Errno::EROFS);
    wanted.flags = wanted.flags.with(ConnectFlags::RDONLY);
    rig.from(east(), &connect("client7", &wanted)).unwrap();
}

#[test]
fn mapped_clients_make_no_devices_and_no_links_to_what_they_may_not_change() {
    let (mut rig, all) = rig(sites());
    let private = rig.created(NID, &user(100_001), (all, "private"));
    let shared = rig.created(NID, &user(100_001), (all, "shared"));
    for (file, mode) in [(private, 0o600), (shared, 0o666)] {
        let bits = SetAttr { valid: AttrValid::MODE, mode, ..SetAttr::default() };
        rig.from(NID, &setattr(&ROOT, file, bits)).unwrap();
    }
    let device = |rig: &mut Rig, from, (kind, rdev): (u32, u64), name: &str| {
        let child = rig.next_fid();
        let record = Create { mode: kind | 0o666, rdev, child, ..Create::default() };
        rig.from(from, &create_as(&ROOT, (all, name), record)).map(drop)
    };
    for site in [east(), west()] {
        for kind in [mode::BLOCK, mode::CHARACTER] {
            assert_eq!(device(&mut rig, site, (kind, 0x801), "disk"), Err(Errno::EPERM));
        }
        assert_eq!(rig.from(site, &link(&USER, private, (all, "own"))).unwrap_err(), Errno::EPERM);
    }
    device(&mut rig, east(), (mode::CHARACTER, 0), "gone in an overlay").unwrap();
    device(&mut rig, NID, (mode::BLOCK, 0x801), "disk").unwrap();
    rig.from(west(), &link(&USER, shared, (all, "shared too"))).unwrap();
    rig.from(NID, &link(&USER, private, (all, "private too"))).unwrap();
    // Who is its owner here may do it.
    rig.from(east(), &link(&user(1), private, (all, "own"))).unwrap();
}

#[test]
fn quotas_are_of_the_ids_of_the_file_system() {
    let (mut rig, all) = rig(sites());
    rig.created(east(), &USER, (all, "user"));
    let control = |command| QuotaControl {
        command,
        kind: QuotaKind::USER,
        id: 1000,
        status: 0,
        times: QuotaTimes::default(),
        limits: QuotaLimits { inode_hard: 1, valid: 0x4, ..QuotaLimits::default() },
        pool: None,
        rest: Bytes::default(),
    };
    let ask = |rig: &mut Rig, from, command| {
        let request = Message::request(&MDS_QUOTACTL).with(&QUOTACTL, &control(command));
        rig.from(from, &request).map(|reply| reply.message.require(&QUOTACTL).unwrap())
    };
    let used = ask(&mut rig, east(), QuotaCommand::GETOQUOTA).unwrap();
    assert_eq!((used.id, used.limits.inodes), (1000, 1));
    assert_eq!(ask(&mut rig, NID, QuotaCommand::GETOQUOTA).unwrap().limits.inodes, 0);
    assert_eq!(ask(&mut rig, west(), QuotaCommand::SETQUOTA).unwrap_err(), Errno::EPERM);
    ask(&mut rig, east(), QuotaCommand::SETQUOTA).unwrap();
    let child = rig.next_fid();
    let more = create(&USER, (all, "more"), child, mode::REGULAR | 0o644);
    assert_eq!(rig.from(east(), &more).unwrap_err(), Errno::EDQUOT);
    rig.from(NID, &more).unwrap();
}

#[test]
fn roles_limit_administrators_of_a_site() {
    let mut maps = sites();
    set(&mut maps, "east", "rbac", "-file_perms");
    let (mut rig, all) = rig(maps.clone());
    let file = rig.created(east(), &USER, (all, "user"));
    let bits = SetAttr { valid: AttrValid::MODE, mode: 0o600, ..SetAttr::default() };
    assert_eq!(rig.from(east(), &setattr(&ROOT, file, bits)).unwrap_err(), Errno::EPERM);
    // Without this role root of the site is a user like others.
    set(&mut maps, "east", "rbac", "all");
    set(&mut maps, "east", "rbac", "-local_admin");
    rig.mdt.set_nodemaps(maps);
    assert_eq!(rig.from(east(), &setattr(&ROOT, file, bits)).unwrap_err(), Errno::EPERM);
    rig.from(east(), &setattr(&USER, file, bits)).unwrap();
}
