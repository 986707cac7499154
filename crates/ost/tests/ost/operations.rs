//! Each operation, with the statuses of a kernel OST.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{
    ADVICE_LIST, KEY, LAST_ID, OST_BODY, OST_CREATE, OST_DESTROY, OST_FALLOCATE, OST_GET_INFO,
    OST_GETATTR, OST_GRANT_SHRINK, OST_LADVISE, OST_LAST_ID, OST_PUNCH, OST_QUOTACTL, OST_READ,
    OST_SEEK, OST_SET_INFO, OST_SETATTR, OST_STATFS, OST_SYNC, OST_WRITE, QUOTACTL, RESULTS,
    SHORT_IO, STATFS,
};
use fulmar_lustre_wire::mdt::{StatfsState, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{
    AdviceList, ChecksumKind, ChecksumTypes, FlagWord, NiobufFlags, Obdo, ObdoFlags, OstId,
};
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaControl, QuotaKind, QuotaLimits, QuotaTimes};
use fulmar_lustre_wire::{Bytes, Fid, Handle, Key, Status};
use fulmar_ost::{Call, Holder, Ost};
use fulmar_target::parameters::{Moment, Parameter};

use crate::rig::{NOW, Rig, about, asked, asked_by_mdt, id, range, transfer};

const OK: Status = Status::OK;
const CACHED: NiobufFlags = NiobufFlags(NiobufFlags::ASYNC.0 | NiobufFlags::FROM_GRANT.0);

fn failed(errno: Errno) -> Status {
    Status::failed(errno)
}

/// Returns a body that says whose the object is.
fn owned(oid: u32, uid: u32) -> Obdo {
    let owner = Valid::FLUID | Valid::FLGID | Valid::FLPROJID;
    let body = about(oid);
    Obdo { valid: body.valid | owner, uid, gid: uid + 1, projid: uid + 2, ..body }
}

fn cut(oid: u32, size: u64) -> Obdo {
    let body = about(oid);
    let valid = body.valid | Valid::FLSIZE | Valid::FLBLOCKS;
    Obdo { valid, size, blocks: u64::MAX, ..body }
}

fn getattr(rig: &mut Rig, oid: u32) -> Obdo {
    let (status, body) = rig.ask(2, &OST_GETATTR, &about(oid));
    assert_eq!(status, OK);
    body
}

#[test]
fn requests_must_name_an_object_that_exists() {
    let mut rig = Rig::with_objects(8);
    for format in [&OST_GETATTR, &OST_SETATTR, &OST_SYNC] {
        assert_eq!(rig.ask(2, format, &about(9)).0, failed(Errno::ENOENT), "{format}");
    }
    assert_eq!(rig.ask(2, &OST_PUNCH, &cut(9, 0)).0, failed(Errno::ENOENT));
    let bad = |id| Obdo { id, ..about(1) };
    let named = [
        (OstId::Fid(Fid { seq: 0x2_0000_0007, oid: 1, version: 0 }), Errno::EPROTO),
        (OstId::Old(1 << 48), Errno::EBADF),
        (OstId::Old(0), Errno::EPROTO),
    ];
    for (id, errno) in named {
        assert_eq!(rig.ask(2, &OST_GETATTR, &bad(id)).0, failed(errno), "{id}");
    }
    let nameless = Obdo { valid: Valid::FLGROUP, ..about(1) };
    assert_eq!(rig.ask(2, &OST_GETATTR, &nameless).0, failed(Errno::EPROTO));
    // All of the file system.
    assert_eq!(rig.ask(2, &OST_SYNC, &Obdo::default()).0, OK);
    let empty = Message::request(&OST_GETATTR);
    assert_eq!(rig.send(2, &empty), Err(Errno::EPROTO));
    assert_eq!(rig.send(77, &empty), Err(Errno::ENOTCONN));
}

#[test]
fn a_new_object_has_no_owner_until_it_is_used() {
    let mut rig = Rig::with_objects(8);
    let new = getattr(&mut rig, 1);
    assert_eq!((new.mode, new.uid, new.size, new.blocks), (0o107_666, 0, 0, 0));
    assert_eq!(new.flags.flags, ObdoFlags::FLUSH);
    rig.write(&owned(1, 500), &[range(0, 10, CACHED)], &[7; 10]).unwrap();
    let used = getattr(&mut rig, 1);
    assert_eq!((used.mode, used.uid, used.gid, used.projid), (0o100_666, 500, 501, 502));
    assert_eq!((used.size, used.blocks, used.mtime), (10, 8, NOW));
    // Later writes do not change the owner, a chown does.
    rig.write(&owned(1, 600), &[range(0, 10, CACHED)], &[7; 10]).unwrap();
    assert_eq!(getattr(&mut rig, 1).uid, 500);
    assert_eq!(rig.ask(1, &OST_SETATTR, &owned(1, 700)).1.uid, 700);
    let used = |rig: &Rig, uid| {
        let used = rig.ost.used(QuotaKind::USER, uid);
        (used.bytes, used.objects)
    };
    assert_eq!([0, 500, 700].map(|uid| used(&rig, uid)), [(0, 7), (0, 0), (4096, 1)]);
    let used = rig.ost.used(QuotaKind::PROJECT, 702);
    assert_eq!((used.bytes, used.objects), (4096, 1));
    rig.ost.check().unwrap();
}

#[test]
fn times_are_set_and_older_writes_do_not_undo_it() {
    let mut rig = Rig::with_objects(1);
    let times = Valid::FLATIME | Valid::FLMTIME | Valid::FLCTIME;
    let old = rig.next_xid();
    let set = Obdo { valid: about(1).valid | times, mtime: 5, atime: 6, ctime: 7, ..about(1) };
    assert_eq!(rig.ask(2, &OST_SETATTR, &set).0, OK);
    let body = Obdo { valid: about(1).valid | times, mtime: 1, atime: 2, ctime: 3, ..about(1) };
    let message = transfer(&OST_WRITE, &body, &[range(0, 4, CACHED)]);
    rig.write_call(
        &Call { export: Handle(2), nid: Nid::LOOPBACK, xid: old, now: NOW, message: &message },
        b"data",
    )
    .unwrap();
    let found = getattr(&mut rig, 1);
    assert_eq!((found.mtime, found.atime, found.ctime, found.size), (5, 6, 7, 4));
    let size = Obdo { valid: about(1).valid | Valid::FLSIZE, size: 1, ..about(1) };
    assert_eq!(rig.ask(2, &OST_SETATTR, &size).0, failed(Errno::EPERM));
}

#[test]
fn a_layout_that_has_changed_makes_old_writers_stale() {
    let mut rig = Rig::with_objects(1);
    let body = |layout_version| {
        let valid = about(1).valid | Valid::LAYOUT_VERSION;
        Obdo { valid, layout_version, ..about(1) }
    };
    assert_eq!(rig.ask(1, &OST_SETATTR, &body(3)).0, OK);
    let written = rig.write(&body(2), &[range(0, 4, CACHED)], b"data");
    assert_eq!(written.unwrap_err(), Errno::ESTALE);
    assert!(rig.write(&body(3), &[range(0, 4, CACHED)], b"data").is_ok());
    assert_eq!(getattr(&mut rig, 1).layout_version, 3);
    rig.ost.check().unwrap();
}

#[test]
fn objects_are_cut_and_extended() {
    let mut rig = Rig::with_objects(1);
    rig.write(&owned(1, 5), &[range(0, 10_000, CACHED)], &[7; 10_000]).unwrap();
    let (status, body) = rig.ask(2, &OST_PUNCH, &cut(1, 5000));
    assert_eq!((status, body.valid, body.blocks), (OK, Valid::FLID | Valid::FLBLOCKS, 16));
    rig.ask(2, &OST_PUNCH, &cut(1, 6000));
    let (answer, data) = rig.read(&about(1), &[range(4990, 2000, CACHED)]).unwrap();
    // The page with the end is sent whole.
    assert_eq!(answer.reply.body.status, Status(2000));
    assert_eq!((&data[..10], &data[10..]), (&[7; 10][..], &[0; 1990][..]));
    rig.ask(2, &OST_PUNCH, &cut(1, 0));
    assert_eq!((getattr(&mut rig, 1).size, getattr(&mut rig, 1).blocks), (0, 0));
    assert_eq!(rig.ost.used(QuotaKind::USER, 5).bytes, 0);

    let whole = Obdo { blocks: 100, ..cut(1, 0) };
    assert_eq!(rig.ask(2, &OST_PUNCH, &whole).0, failed(Errno::EPROTO));
    assert_eq!(rig.ask(2, &OST_PUNCH, &about(1)).0, failed(Errno::EPROTO));
    assert_eq!(rig.ask(2, &OST_PUNCH, &cut(1, 1 << 60)).0, failed(Errno::EFBIG));
    rig.ost.check().unwrap();
}

#[test]
fn space_is_allocated_and_holes_are_made() {
    let mut rig = Rig::with_objects(1);
    let allocate = |start, end, mode| {
        let valid = about(1).valid | Valid::FLSIZE | Valid::FLBLOCKS;
        Obdo { valid, size: start, blocks: end, nlink: mode, ..about(1) }
    };
    let mut ask = |body: &Obdo| {
        let (status, body) = rig.ask(2, &OST_FALLOCATE, body);
        rig.ost.check().unwrap();
        (status, body.size, body.blocks)
    };
    assert_eq!(ask(&allocate(0, 1 << 20, 1)), (OK, 0, 2048));
    assert_eq!(ask(&allocate(0, 1 << 20, 0)), (OK, 1 << 20, 2048));
    assert_eq!(ask(&allocate(4096, 12288, 2)), (OK, 1 << 20, 2032));
    assert_eq!(ask(&allocate(0, 4096, 0x10)).0, OK);
    let wrong = [
        (allocate(10, 10, 0), Errno::EINVAL),
        (allocate(0, 10, 8), Errno::EOPNOTSUPP),
        (allocate(0, 1 << 60, 0), Errno::EFBIG),
        (Obdo { valid: about(1).valid, ..allocate(0, 10, 0) }, Errno::EOPNOTSUPP),
    ];
    for (body, errno) in wrong {
        assert_eq!(ask(&body).0, failed(errno));
    }
}

#[test]
fn data_and_holes_are_found() {
    let mut rig = Rig::with_objects(1);
    rig.write(&about(1), &[range(1 << 20, 4096, CACHED)], &[7; 4096]).unwrap();
    let mut seek = |size, mode| {
        let (status, body) = rig.ask(2, &OST_SEEK, &Obdo { size, mode, ..about(1) });
        (status, body.size as i64)
    };
    assert_eq!(seek(0, 3), (OK, 1 << 20));
    assert_eq!(seek(0, 4), (OK, 0));
    assert_eq!(seek(1 << 20, 4), (OK, (1 << 20) + 4096));
    assert_eq!(seek(2 << 20, 3), (OK, -6));
    assert_eq!(seek(0, 1).0, failed(Errno::EPROTO));
    assert_eq!(seek(u64::MAX, 3).0, failed(Errno::EPROTO));
}

#[test]
fn short_reads_and_writes_are_in_the_message() {
    let mut rig = Rig::with_objects(1);
    let valid = about(1).valid | Valid::FLFLAGS | Valid::FLCKSUM;
    let flags = FlagWord { flags: ObdoFlags::SHORT_IO, checksum_kind: ChecksumKind::ADLER };
    let body = Obdo { valid, flags, nlink: 99, ..about(1) };
    let request = transfer(&OST_WRITE, &body, &[range(0, 4, NiobufFlags::SYNC)]);
    let request = request.with(&SHORT_IO, &Bytes(b"data".to_vec()));
    let answer = rig.send(2, &request).unwrap();
    let reply = answer.reply.require(&OST_BODY).unwrap();
    // The client compares its checksum with ours.
    assert_eq!((reply.nlink, reply.flags), (adler2::adler32_slice(b"data"), flags));
    assert_eq!(answer.durable, Some(rig.store.applied()));
    assert_eq!(answer.changed, Some(id(1).resource()));

    let request = transfer(&OST_READ, &body, &[range(0, 8192, NiobufFlags::READ)]);
    let answer = rig.send(2, &request).unwrap();
    let data = answer.reply.require(&SHORT_IO).unwrap().0;
    assert_eq!(
        (answer.reply.body.status, data.len(), &data[..5]),
        (Status(4096), 4096, &b"data\0"[..])
    );
    let reply = answer.reply.require(&OST_BODY).unwrap();
    assert_eq!(reply.nlink, adler2::adler32_slice(&data));

    let request = transfer(&OST_WRITE, &body, &[range(0, 5, NiobufFlags::SYNC)]);
    let request = request.with(&SHORT_IO, &Bytes(b"data".to_vec()));
    assert_eq!(rig.send(2, &request), Err(Errno::EPROTO));
    rig.ost.check().unwrap();
}

#[test]
fn bulk_in_several_ranges() {
    let mut rig = Rig::with_objects(1);
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let ranges = [range(100, 1_000_000, CACHED), range(3 << 20, 2_000_000, CACHED)];
    let answer = rig.write(&about(1), &ranges, &data).unwrap();
    assert_eq!(answer.reply.require(&RESULTS).unwrap().0, [OK, OK]);
    assert_eq!(answer.durable, None);
    let (answer, read) = rig.read(&about(1), &ranges).unwrap();
    assert_eq!(answer.reply.body.status, Status(3_000_000));
    assert!(read == data);
    // A hole is zeros, and what is behind the end is not sent.
    let end = (3 << 20) + 2_000_000u64;
    let (answer, read) = rig.read(&about(1), &[range(1 << 20, 4 << 20, CACHED)]).unwrap();
    let sent = end.next_multiple_of(4096) - (1 << 20);
    assert_eq!((answer.reply.body.status, read.len() as u64), (Status(sent as i32), sent));
    assert!(read[..1 << 20].iter().all(|byte| *byte == 0));
    assert!(read[end as usize - (1 << 20)..].iter().all(|byte| *byte == 0));
    assert_eq!(rig.read(&about(2), &ranges).unwrap_err(), Errno::ENOENT);
}

#[test]
fn ranges_that_no_client_sends_are_refused() {
    let mut rig = Rig::with_objects(1);
    let locked = NiobufFlags::SRVLOCK;
    let wrong = [
        vec![],
        vec![range(0, 0, CACHED)],
        vec![range(4096, 10, CACHED), range(0, 10, CACHED)],
        vec![range(u64::MAX - 5, 10, CACHED)],
        vec![range(0, 5 << 20, CACHED)],
        vec![range(0, 10, locked), range(10, 10, CACHED)],
    ];
    for ranges in wrong {
        let len = ranges.iter().map(|range| range.len as usize).sum();
        let result = rig.write(&about(1), &ranges, &vec![0; len]);
        assert_eq!(result.unwrap_err(), Errno::EPROTO, "{ranges:?}");
    }
    assert!(rig.write(&about(1), &[range(0, 10, locked)], &[0; 10]).is_ok());
    let far = [range(1 << 60, 10, CACHED)];
    assert_eq!(rig.write(&about(1), &far, &[0; 10]).unwrap_err(), Errno::EFBIG);
    let request = Message::request(&OST_WRITE).with(&OST_BODY, &about(1));
    let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid: 1, now: NOW, message: &request };
    assert_eq!(rig.ost.prepare(&call).unwrap_err(), Errno::EPROTO);
    rig.ost.check().unwrap();
}

#[test]
fn objects_are_created_in_advance() {
    let mut rig = Rig::with_objects(33);
    let mut create = |oid, flags| {
        let flags = FlagWord { flags, ..FlagWord::default() };
        let valid = Valid::FLGROUP | Valid::FLFLAGS;
        let (status, body) =
            rig.ask(1, &OST_CREATE, &Obdo { valid, id: id(oid), flags, ..Obdo::default() });
        rig.ost.check().unwrap();
        let OstId::Fid(fid) = body.id else { panic!("{:?}", body.id) };
        (status, fid.oid)
    };
    let none = ObdoFlags::NONE;
    assert_eq!(create(64, none), (OK, 64));
    assert_eq!(create(64, none), (OK, 64));
    // An MDT that is behind is told so.
    assert_eq!(create(10, none), (OK, 65));
    // Orphans are removed, and their numbers are not used again.
    assert_eq!(create(40, ObdoFlags::DELORPHAN), (OK, 64));
    assert_eq!(create(70, ObdoFlags::DELORPHAN), (OK, 70));
    // Far above the last: only the last ones.
    assert_eq!(create(200_000, none), (OK, 200_000));
    assert_eq!(create(100, ObdoFlags::DELORPHAN), (OK, 200_001));
    assert_eq!(create(100, ObdoFlags::RECREATE_OBJS).0, failed(Errno::EINVAL));
    let exists = |rig: &mut Rig, oid| rig.ask(2, &OST_GETATTR, &about(oid)).0 == OK;
    let found = [40, 41, 64, 65, 70, 71, 180_000, 180_001].map(|oid| exists(&mut rig, oid));
    assert_eq!(found, [true, false, false, true, true, false, false, true]);
    let key = Message::request(&OST_LAST_ID).with(&KEY, &Key(b"last_id\0".to_vec()));
    assert_eq!(rig.send(1, &key).unwrap().reply.require(&LAST_ID), Ok(0));
    let other = Message::request(&OST_GET_INFO).with(&KEY, &Key(b"other\0".to_vec()));
    assert_eq!(rig.send(1, &other), Err(Errno::EOPNOTSUPP));
    let old = Obdo { valid: Valid::FLGROUP, id: OstId::Old(3), ..Obdo::default() };
    let (status, body) = rig.ask(1, &OST_CREATE, &old);
    let idif = Fid { seq: 0x1_0000_0000, oid: 3, version: 0 };
    assert_eq!((status, body.id, body.size), (OK, OstId::Fid(idif), 0x1ff_ffff));
}

#[test]
fn objects_that_an_mdt_gives_to_files_are_durable() {
    let mut rig = Rig::with_objects(1);
    let wanted = Obdo { valid: Valid::FLGROUP, id: id(32), ..Obdo::default() };
    let answer = rig.send(1, &Message::request(&OST_CREATE).with(&OST_BODY, &wanted)).unwrap();
    assert_eq!(answer.durable, Some(rig.store.applied()));
}

#[test]
fn objects_are_destroyed() {
    let mut rig = Rig::with_objects(10);
    rig.write(&owned(3, 5), &[range(0, 4096, CACHED)], &[7; 4096]).unwrap();
    let several = Obdo { valid: about(3).valid | Valid::FLOBJCOUNT, misc: 3, ..about(3) };
    let (status, body) = rig.ask(1, &OST_DESTROY, &several);
    assert_eq!((status, body.valid, body.id), (OK, Valid::NONE, id(6)));
    let used = rig.ost.used(QuotaKind::USER, 5);
    assert_eq!((used.bytes, used.objects), (0, 0));
    assert_eq!(rig.ost.lvb(id(3).resource()), Err(Errno::ENOENT));
    // Some of these are gone, but the others are removed.
    assert_eq!(rig.ask(1, &OST_DESTROY, &Obdo { misc: 8, ..several }).0, failed(Errno::ENOENT));
    assert_eq!(rig.ask(1, &OST_DESTROY, &about(10)).0, failed(Errno::ENOENT));
    let many = Obdo { misc: u32::MAX, ..several };
    assert_eq!(rig.ask(1, &OST_DESTROY, &many).0, failed(Errno::EINVAL));
    assert_eq!(rig.ost.used(QuotaKind::USER, 0).objects, 2);
    rig.ost.check().unwrap();
}

#[test]
fn locks_carry_the_attributes() {
    let mut rig = Rig::with_objects(1);
    rig.write(&owned(1, 5), &[range(0, 5000, CACHED)], &[7; 5000]).unwrap();
    let lvb = rig.ost.lvb(id(1).resource()).unwrap();
    assert_eq!((lvb.size, lvb.blocks, lvb.mtime, lvb.ctime), (5000, 16, NOW, NOW));
    assert_eq!(rig.ost.lvb(id(2).resource()), Err(Errno::ENOENT));
}

#[test]
fn what_a_client_may_not_do() {
    let mut rig = Rig::with_objects(1);
    let flags = |flag| ConnectData { flags: asked().flags | flag, ..asked() };
    rig.connect(3, "reader", flags(ConnectFlags::RDONLY)).unwrap();
    for (format, body) in
        [(&OST_PUNCH, cut(1, 0)), (&OST_SETATTR, about(1)), (&OST_CREATE, about(9))]
    {
        assert_eq!(rig.ask(3, format, &body).0, failed(Errno::EROFS));
    }
    assert_eq!(rig.ask(3, &OST_GETATTR, &about(1)).0, OK);
    let index = ConnectData { index: 7, ..flags(ConnectFlags::INDEX) };
    assert_eq!(rig.connect(4, "other", index), Err(Errno::EBADF));
    assert_eq!(rig.connect(4, "other", flags(ConnectFlags::SKIP_ORPHAN)), Err(Errno::EPROTO));
    let empty = ConnectData { brw_size: 0, ..asked() };
    assert_eq!(rig.connect(4, "other", empty), Err(Errno::EPROTO));
    let group = ConnectData { group: 1, ..asked_by_mdt() };
    assert_eq!(rig.connect(1, "mdt", group), Err(Errno::EPROTO));
    let odd = ConnectData { checksums: ChecksumTypes::T10CRC512, ..asked() };
    assert_eq!(rig.connect(5, "odd", odd).unwrap().checksums, ChecksumTypes::ADLER);
}

#[test]
fn questions_about_the_ost() {
    let mut rig = Rig::with_objects(100);
    let statfs =
        rig.send(2, &Message::request(&OST_STATFS)).unwrap().reply.require(&STATFS).unwrap();
    assert_eq!((statfs.files - statfs.free_files, statfs.block_size), (100, 4096));
    assert_ne!(statfs.kind, 0, "an MDT ignores the state of such an OST");
    rig.write(&owned(1, 5), &[range(0, 5000, CACHED)], &[7; 5000]).unwrap();
    let control = QuotaControl {
        command: QuotaCommand::GETOQUOTA,
        kind: QuotaKind::GROUP,
        id: 6,
        status: 0,
        times: QuotaTimes::default(),
        limits: QuotaLimits::default(),
        pool: None,
        rest: Bytes::default(),
    };
    let ask = |rig: &mut Rig, control: &QuotaControl| {
        let answer = rig.send(2, &Message::request(&OST_QUOTACTL).with(&QUOTACTL, control))?;
        Ok::<_, Errno>(answer.reply.require(&QUOTACTL).unwrap().limits)
    };
    let limits = ask(&mut rig, &control).unwrap();
    assert_eq!((limits.space, limits.inodes), (8192, 1));
    let set = QuotaControl { command: QuotaCommand::SETQUOTA, ..control };
    assert_eq!(ask(&mut rig, &set), Err(Errno::EOPNOTSUPP));

    let advice = |magic| {
        let list = AdviceList { magic, ..AdviceList::default() };
        Message::request(&OST_LADVISE).with(&OST_BODY, &about(1)).with(&ADVICE_LIST, &list)
    };
    assert_eq!(rig.send(2, &advice(AdviceList::MAGIC)).unwrap().reply.body.status, OK);
    assert_eq!(rig.send(2, &advice(1)), Err(Errno::EPROTO));
    let key = |format, key: &[u8]| Message::request(format).with(&KEY, &Key(key.to_vec()));
    let shrink = key(&OST_GRANT_SHRINK, b"grant_shrink\0").with(&OST_BODY, &about(1));
    assert_eq!(rig.send(2, &shrink).unwrap().reply.require(&OST_BODY).unwrap().grant, 0);
    assert_eq!(rig.send(2, &key(&OST_SET_INFO, b"evict_by_nid\0")), Err(Errno::EOPNOTSUPP));
}

#[test]
fn where_the_data_of_an_object_are() {
    use fulmar_lustre_wire::Text;
    use fulmar_lustre_wire::format::{FIEMAP, FIEMAP_KEY, OST_FIEMAP};
    use fulmar_lustre_wire::ost::{FiemapHeader, FiemapKey};
    let mut rig = Rig::with_objects(1);
    let ranges = [range(0, 4096, CACHED), range(1 << 20, 8192, CACHED)];
    rig.write(&about(1), &ranges, &[7; 12288]).unwrap();
    let mut map = |count, object| {
        let range = FiemapHeader { len: u64::MAX, count, ..FiemapHeader::default() };
        let key = FiemapKey { name: Text::new("fiemap").unwrap(), object, range };
        let room = vec![0; 32 + 72 * 56];
        let request = Message::request(&OST_FIEMAP).with(&FIEMAP_KEY, &key);
        let answer = rig.send(2, &request.with_bytes(&FIEMAP, room.clone()))?;
        assert_eq!(answer.reply.bytes(&FIEMAP).map(<[u8]>::len), Some(room.len()));
        let map = answer.reply.require(&FIEMAP).unwrap();
        let extents = map.extents.iter().filter(|one| one.len > 0);
        let extents = extents.map(|one| (one.logical, one.len, one.flags & 1));
        Ok::<_, Errno>((map.header.mapped, extents.collect::<Vec<_>>()))
    };
    assert_eq!(map(8, about(1)), Ok((2, vec![(0, 4096, 0), (1 << 20, 8192, 1)])));
    assert_eq!(map(1, about(1)), Ok((1, vec![(0, 4096, 0)])));
    assert_eq!(map(0, about(1)), Ok((2, vec![])));
    assert_eq!(map(8, about(2)), Err(Errno::ENOENT));
}

#[test]
fn clients_and_jobs_are_counted() {
    let mut rig = Rig::with_objects(1);
    rig.write(&about(1), &[range(0, 5000, CACHED)], &[7; 5000]).unwrap();
    let message = Message::request(&OST_PUNCH);
    let call = Call { export: Handle(2), nid: Nid::LOOPBACK, xid: 9, now: NOW, message: &message };
    rig.ost.spent(&call, Duration::from_micros(7));
    let counters = rig.ost.client_stats(Handle(2)).counters;
    assert_eq!((counters["write_bytes"].sum, counters["punch"].sum), (5000, 7));
    let now = Duration::from_secs(NOW as u64);
    let moment = Moment { now, started: now, exports: 2 };
    let files = || -> BTreeMap<&str, String> {
        let read = |one: &Parameter<Ost>| Some((one.name, (one.read)(&rig.ost, &moment)?));
        let files = Ost::PARAMETERS.iter().filter_map(read);
        files.map(|(name, text)| (name.trim_start_matches("obdfilter.*."), text)).collect()
    };
    assert!(Ost::PARAMETERS.is_sorted_by_key(|one| one.name));
    let before = files;
    let files = before();
    assert!(
        files["stats"]
            .contains("write_bytes                         1 samples [bytes] 5000 5000 5000")
    );
    assert_eq!((files["num_exports"].as_str(), files["brw_size"].as_str()), ("2\n", "4\n"));
    assert_eq!(files["tot_granted"], format!("{}\n", rig.ost.granted().granted));
    assert!(
        rig.ost
            .client_file(&[Handle(2)], now)
            .contains("punch                               1 samples [usecs]")
    );
    assert!(!rig.ost.client_file(&[Handle(1)], now).contains("samples"));
    assert_eq!(rig.ost.brw_stats().pages.writes[1], 1);
    assert!(rig.ost.job_stats(NOW).is_empty());
    let set = |name: &str, value: &str| {
        let one = Ost::PARAMETERS.iter().find(|one| one.name.ends_with(name)).unwrap();
        one.write.unwrap()(&rig.ost, value)
    };
    set(".stats", "clear").unwrap();
    set(".brw_stats", "clear").unwrap();
    set(".no_create", "1").unwrap();
    set(".job_cleanup_interval", "30").unwrap();
    assert!(set(".stats", "1").is_err() && set(".no_create", "2").is_err());
    assert!(set("quota.ost", "ug").is_err());
    let files = before();
    assert!(!files["stats"].contains("samples"));
    assert_eq!((&*files["no_create"], &*files["job_cleanup_interval"]), ("1\n", "30\n"));
    assert_eq!(rig.ost.brw_stats().pages.writes[1], 0);
    let reply = rig.send(2, &Message::request(&OST_STATFS)).unwrap().reply;
    assert!(reply.require(&STATFS).unwrap().state.has(StatfsState::NOCREATE));
}

#[test]
fn a_sequence_is_given_once_also_over_a_crash() {
    use std::sync::Arc;

    use fulmar_lustre_wire::format::{SEQ_OP, SEQ_QUERY, SEQ_RANGE};
    use fulmar_lustre_wire::seq::{SeqKind, SeqOp, SeqRange};
    use fulmar_ost::Settings;
    use fulmar_store::{Policy, SimulatedDisk, Store};

    let disk = SimulatedDisk::new(5);
    let policy = Policy { reserve: 0, cache: 1 << 20, ..Policy::default() };
    let store = Arc::new(Store::create(&disk, b"OST", policy).unwrap());
    let mut rig = Rig::on(store, Settings::default());
    rig.connect(1, "mdt", asked_by_mdt()).unwrap();
    let ask = |rig: &mut Rig, op| {
        let range = SeqRange { kind: SeqKind::OST, ..SeqRange::default() };
        let request = Message::request(&SEQ_QUERY).with(&SEQ_OP, &op).with(&SEQ_RANGE, &range);
        let answer = rig.send(1, &request)?;
        // The reply waits until no other server can get the sequence.
        assert_eq!(answer.durable, Some(rig.store.applied()));
        rig.store.commit().unwrap();
        Ok(answer.reply.require(&SEQ_RANGE).unwrap().start)
    };
    assert_eq!(ask(&mut rig, SeqOp::ALLOC_META), Err(Errno::EINPROGRESS));
    let range = SeqRange { start: 70, end: 72, index: 0, kind: SeqKind::OST };
    assert!(rig.ost.add_sequences(range).unwrap());
    assert!(!rig.ost.add_sequences(range).unwrap());
    assert_eq!(ask(&mut rig, SeqOp::ALLOC_META), Ok(70));
    disk.crash();
    rig.restart(Arc::new(Store::open(&disk, policy).unwrap()), Settings::default());
    rig.connect(1, "mdt", asked_by_mdt()).unwrap();
    assert_eq!(ask(&mut rig, SeqOp::ALLOC_META), Ok(71));
    assert_eq!(ask(&mut rig, SeqOp::ALLOC_META), Err(Errno::EINPROGRESS));
    assert!(rig.ost.needs_sequences().unwrap());
    assert_eq!(ask(&mut rig, SeqOp::ALLOC_SUPER), Err(Errno::EINVAL));
}
