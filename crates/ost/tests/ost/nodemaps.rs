//! Clients of several sites: whose the objects are that they write. Spec: ptlrpc-ldlm-mgs §32.4.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, Format, OST_BODY, OST_CONNECT, OST_DESTROY, OST_GETATTR, OST_PUNCH,
    OST_QUOTACTL, OST_SETATTR, OST_WRITE, QUOTACTL,
};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{NiobufFlags, Obdo};
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_lustre_wire::{Bytes, Handle, Uuid};
use fulmar_nodemap::{Change, IdKind, Nodemaps, Property};
use fulmar_ost::{Answer, Call};

use crate::rig::{NOW, Rig, about, asked, range, transfer};

/// User, group and project.
type Ids = [u32; 3];

const NOBODY: u32 = 65534;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A client whose ids are those of the file system.
fn home() -> Nid {
    Nid::LOOPBACK
}

/// A client whose ids have an offset.
fn east() -> Nid {
    nid("10.1.0.7@tcp")
}

/// A client of which a user, a group and a project are known.
fn west() -> Nid {
    nid("10.2.0.7@tcp")
}

fn sites() -> Nodemaps {
    let mut maps = Nodemaps::default();
    let nids = |text| Change::AddNids(Change::nids(text).unwrap());
    let set = |name, value| Change::Set(Property::parse(name, value).unwrap());
    for (site, change) in [
        ("east", Change::Add),
        ("east", nids("10.1.0.0/16@tcp")),
        ("east", Change::AddOffset(100_000, 100_000)),
        ("east", set("admin", "1")),
        ("east", set("trusted", "1")),
        ("west", Change::Add),
        ("west", nids("10.2.0.0/16@tcp")),
        ("west", Change::AddIds(IdKind::User, 1000, 500, 1)),
        ("west", Change::AddIds(IdKind::Group, 1001, 600, 1)),
        ("west", Change::AddIds(IdKind::Project, 1002, 700, 1)),
        ("west", set("squash_uid", "99")),
        ("west", set("squash_gid", "98")),
        // A new nodemap is like the default one.
        ("default", set("admin", "1")),
        ("default", set("trusted", "1")),
    ] {
        maps.change(site, &change).unwrap();
    }
    maps.activate(true);
    maps
}

/// Returns an OST with these sites, and with objects.
fn rig() -> Rig {
    let rig = Rig::with_objects(8);
    rig.ost.set_nodemaps(sites());
    rig
}

/// Returns a body that says whose an object is.
fn owned(oid: u32, [uid, gid, projid]: Ids) -> Obdo {
    let valid = about(oid).valid | Valid::FLUID | Valid::FLGID | Valid::FLPROJID;
    Obdo { valid, uid, gid, projid, ..about(oid) }
}

/// Returns whose the object is as a reply says it.
fn owner(answer: &Answer) -> Ids {
    let body = answer.reply.require(&OST_BODY).unwrap();
    let all = Valid::FLUID | Valid::FLGID | Valid::FLPROJID;
    assert!(body.valid.has(all), "{body:?}");
    [body.uid, body.gid, body.projid]
}

impl Rig {
    fn call<'a>(&mut self, nid: Nid, message: &'a Message<'a>) -> Call<'a> {
        Call { export: Handle(2), nid, xid: self.next_xid(), now: NOW, message }
    }

    fn from(&mut self, nid: Nid, format: &'static Format, body: &Obdo) -> Result<Answer, Errno> {
        let message = Message::request(format).with(&OST_BODY, body);
        let call = self.call(nid, &message);
        self.ost.execute(&call)
    }

    /// Writes an object on behalf of its owner, and returns this as the reply says it.
    fn written(&mut self, nid: Nid, oid: u32, ids: Ids) -> Ids {
        let message = transfer(&OST_WRITE, &owned(oid, ids), &[range(0, 10, NiobufFlags::ASYNC)]);
        let call = self.call(nid, &message);
        owner(&self.write_call(&call, &[7; 10]).unwrap())
    }

    /// Returns whose an object is as a client sees it.
    fn owner(&mut self, nid: Nid, oid: u32) -> Ids {
        owner(&self.from(nid, &OST_GETATTR, &about(oid)).unwrap())
    }
}

#[test]
fn the_first_write_of_a_client_says_whose_the_object_is_in_the_file_system() {
    let mut rig = rig();
    let user = [1000, 1001, 1002];
    assert_eq!(rig.written(east(), 1, user), user);
    assert_eq!(rig.owner(home(), 1), [101_000, 101_001, 101_002]);
    assert_eq!(rig.owner(east(), 1), user);
    assert_eq!(rig.written(west(), 2, user), user);
    assert_eq!(rig.owner(home(), 2), [500, 600, 700]);
    assert_eq!(rig.owner(west(), 2), user);
    // An unknown user has the unknown id, and so has one of another site.
    assert_eq!(rig.written(west(), 3, [2000, 2001, 2002]), [99, 98, NOBODY]);
    assert_eq!(rig.owner(home(), 3), [99, 98, NOBODY]);
    assert_eq!(rig.owner(west(), 1), [99, 98, NOBODY]);
    assert_eq!(rig.owner(east(), 2), [NOBODY; 3]);
    // A later write changes nothing, whoever it is of, and its reply says it as that client sees it.
    assert_eq!(rig.written(west(), 1, user), [99, 98, NOBODY]);
    assert_eq!(rig.written(home(), 1, user), [101_000, 101_001, 101_002]);
    let used = |kind, id| rig.ost.used(kind, id).objects;
    assert_eq!((used(QuotaKind::USER, 101_000), used(QuotaKind::USER, 1000)), (1, 0));
    assert_eq!((used(QuotaKind::GROUP, 600), used(QuotaKind::PROJECT, 700)), (1, 1));
    rig.ost.check().unwrap();
}

#[test]
fn an_owner_that_a_client_sets_is_one_of_the_file_system() {
    let mut rig = rig();
    for (site, ids, found) in [
        (east(), [5, 6, 7], [100_005, 100_006, 100_007]),
        (west(), [1000, 1001, 1002], [500, 600, 700]),
        (home(), [5, 6, 7], [5, 6, 7]),
    ] {
        let answer = rig.from(site, &OST_SETATTR, &owned(1, ids)).unwrap();
        assert_eq!((owner(&answer), rig.owner(home(), 1)), (ids, found));
    }
    // What is not said is not changed.
    let body = Obdo { valid: about(1).valid | Valid::FLGID, gid: 9, ..about(1) };
    let answer = rig.from(east(), &OST_SETATTR, &body).unwrap();
    assert_eq!((owner(&answer), rig.owner(home(), 1)), ([NOBODY, 9, NOBODY], [5, 100_009, 7]));
}

#[test]
fn clients_of_a_nodemap_that_is_read_only_change_no_object() {
    let mut rig = rig();
    rig.written(west(), 1, [1000, 1001, 1002]);
    let set = |property| Change::Set(Property::parse(property, "1").unwrap());
    let mut maps = sites();
    maps.change("west", &set("readonly_mount")).unwrap();
    maps.change("east", &set("deny_mount")).unwrap();
    rig.ost.set_nodemaps(maps);
    let write = transfer(&OST_WRITE, &about(1), &[range(0, 10, NiobufFlags::ASYNC)]);
    let call = rig.call(west(), &write);
    assert_eq!(rig.write_call(&call, &[8; 10]).unwrap_err(), Errno::EROFS);
    for format in [&OST_SETATTR, &OST_PUNCH, &OST_DESTROY] {
        assert_eq!(rig.from(west(), format, &about(1)).unwrap_err(), Errno::EROFS);
    }
    rig.owner(west(), 1);
    rig.written(home(), 1, [0; 3]);
    // One that may mount nothing cannot connect.
    let connect = Message::request(&OST_CONNECT)
        .with(&CLIENT_UUID, &Uuid::new("client").unwrap())
        .with(&CONNECT_DATA, &asked());
    for (site, expected) in [(east(), Some(Errno::EPERM)), (home(), None)] {
        let call = rig.call(site, &connect);
        assert_eq!(rig.ost.execute(&call).err(), expected);
    }
}

#[test]
fn a_write_that_is_repeated_is_answered_with_the_ids_of_the_client() {
    let mut rig = rig();
    let user = [1000, 1001, 1002];
    let message = transfer(&OST_WRITE, &owned(1, user), &[range(0, 10, NiobufFlags::ASYNC)]);
    let call = rig.call(east(), &message);
    let first = rig.write_call(&call, &[7; 10]).unwrap();
    // As after a restart that has kept it.
    let store = rig.store.clone();
    store.commit().unwrap();
    rig.restart(store, fulmar_ost::Settings::default());
    rig.ost.set_nodemaps(sites());
    rig.connect(2, "client", asked()).unwrap();
    let mut again = message.clone();
    again.body.transno = first.reply.body.transno;
    let call = Call { message: &again, ..call };
    assert_eq!(owner(&rig.write_call(&call, &[7; 10]).unwrap()), user);
}

#[test]
fn the_use_of_space_is_asked_by_the_ids_of_the_client() {
    let mut rig = rig();
    rig.written(east(), 1, [1000, 1001, 1002]);
    let mut used = |site, kind| {
        let control = QuotaControl {
            command: QuotaCommand::GETOQUOTA,
            kind,
            id: if kind == QuotaKind::USER { 1000 } else { 1002 },
            status: 0,
            times: QuotaTimes::default(),
            limits: QuotaLimits::default(),
            pool: None,
            rest: Bytes::default(),
        };
        let message = Message::request(&OST_QUOTACTL).with(&QUOTACTL, &control);
        let call = rig.call(site, &message);
        let found = rig.ost.execute(&call).unwrap().reply.require(&QUOTACTL).unwrap();
        assert_eq!(found.id, control.id);
        found.limits.inodes
    };
    for kind in [QuotaKind::USER, QuotaKind::PROJECT] {
        assert_eq!([east(), west(), home()].map(|site| used(site, kind)), [1, 0, 0]);
    }
}
