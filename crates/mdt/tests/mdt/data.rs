//! Data on the MDT: what clients read and write there, what becomes of it, and who pays for it.

use fulmar_base::Errno;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags};
use fulmar_lustre_wire::format::{
    CONNECT_DATA, FIEMAP, FIEMAP_KEY, Format, GETATTR, INLINE_DATA, IO_OBJECTS, MDS_FIEMAP,
    MDT_BODY, NIOBUFS, OST_BODY, OST_FALLOCATE, OST_PUNCH, OST_READ, OST_SEEK, OST_SYNC, OST_WRITE,
    RESULTS, SHORT_IO,
};
use fulmar_lustre_wire::layout::{
    Component, CompositeHeader, CompositeMd, LayoutMagic, LovHeader, LovMd, Pattern,
};
use fulmar_lustre_wire::ldlm::{OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::{AttrValid, OpenFlags, SetAttr, Valid, XattrFlags};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{
    ChecksumKind, FiemapHeader, FiemapKey, FlagWord, IoObject, MaxBrw, Niobuf, NiobufFlags, Obdo,
    ObdoFlags, OstId,
};
use fulmar_lustre_wire::quota::{QuotaCommand, QuotaKind};
use fulmar_lustre_wire::{Bytes, Content, Fid, List, Status, Text};
use fulmar_mdt::{IntentReply, Settings};
use fulmar_wire::Order;

use crate::quota::control;
use crate::requests::{self, ROOT};
use crate::rig::{NOW, Reply, Rig, call};

const MIB: u64 = 1 << 20;
/// The most data of a short read or write.
const SHORT: u32 = 64 << 10;

/// Returns a layout that somebody wants: so many bytes on the MDT, the others on an OST.
fn wanted(on_mdt: u64) -> Vec<u8> {
    let layout = |pattern, stripe_size, stripe_count| LovMd {
        header: LovHeader {
            magic: LayoutMagic::LOV_V1,
            pattern,
            object: 0,
            seq: 0,
            stripe_size,
            stripe_count,
            generation: 0xffff,
        },
        pool: None,
        objects: vec![],
        rest: Bytes::default(),
    };
    let part = |start, end, layout| (Component { start, end, ..Component::default() }, layout);
    let header = CompositeHeader::new(0);
    let first = part(0, on_mdt, layout(Pattern::MDT, on_mdt as u32, 0));
    let second = part(on_mdt, u64::MAX, layout(Pattern::RAID0, 0, 1));
    CompositeMd::new(header, vec![first, second]).to_bytes()
}

/// Has new files begin on the MDT.
pub(crate) fn keep_on_mdt(rig: &mut Rig, export: u64) {
    let layout = wanted(MIB);
    let value = Some(&layout[..]);
    let request = requests::setxattr(&ROOT, Fid::ROOT, "lustre.lov", value, XattrFlags::NONE);
    rig.ask(export, &request).unwrap();
}

/// Returns the body of a request about the data of a file.
pub(crate) fn about(file: Fid) -> Obdo {
    Obdo { valid: Valid::FLID | Valid::FLGROUP, id: OstId::Fid(file), ..Obdo::default() }
}

fn transfer(format: &'static Format, body: Obdo, offset: u64, len: u32) -> Message<'static> {
    let flags = FlagWord { flags: body.flags.flags | ObdoFlags::SHORT_IO, ..body.flags };
    let body = Obdo { valid: body.valid | Valid::FLFLAGS, flags, ..body };
    let object = IoObject { id: body.id, max_brw: MaxBrw(0xffff_0000), ranges: 1 };
    let range = Niobuf { offset, len, flags: NiobufFlags::ASYNC };
    Message::request(format)
        .with(&OST_BODY, &body)
        .with(&IO_OBJECTS, &List(vec![object]))
        .with(&NIOBUFS, &List(vec![range]))
}

pub(crate) fn write(body: Obdo, offset: u64, data: &[u8]) -> Message<'static> {
    transfer(&OST_WRITE, body, offset, data.len() as u32).with_bytes(&SHORT_IO, data.to_vec())
}

pub(crate) fn cut(file: Fid, size: u64) -> Message<'static> {
    let body = about(file);
    let valid = body.valid | Valid::FLSIZE | Valid::FLBLOCKS;
    Message::request(&OST_PUNCH).with(&OST_BODY, &Obdo { valid, size, blocks: u64::MAX, ..body })
}

/// Returns what a client reads from the beginning of a file, up to its size.
pub(crate) fn contents(rig: &mut Rig, file: Fid) -> Vec<u8> {
    let size = rig.mdt.lvb(ResourceId::of_fid(file)).unwrap().size;
    let reply = rig.send(1, &transfer(&OST_READ, about(file), 0, SHORT)).unwrap();
    assert_eq!(reply.message.body.status.0 as u64, size.next_multiple_of(4096));
    let mut data = reply.message.bytes(&SHORT_IO).unwrap_or_default().to_vec();
    assert!(data[size as usize..].iter().all(|byte| *byte == 0));
    data.truncate(size as usize);
    data
}

fn body_of(reply: &Reply) -> Obdo {
    reply.message.require(&OST_BODY).unwrap()
}

/// Returns an MDT with a file that has data on it, and is closed.
fn rig_with_file() -> (Rig, Fid) {
    let mut rig = Rig::new();
    keep_on_mdt(&mut rig, 1);
    let file = rig.touch(&ROOT, (Fid::ROOT, "file"));
    (rig, file)
}

fn lvb(rig: &Rig, file: Fid) -> Result<OstLvb, Errno> {
    rig.mdt.lvb(ResourceId::of_fid(file))
}

/// Returns the bytes that root uses on the MDT.
fn used(rig: &mut Rig) -> u64 {
    let asked = control(QuotaCommand::GETOQUOTA, QuotaKind::USER, 0);
    rig.quotactl(&asked).unwrap().limits.space
}

#[test]
fn what_is_written_is_read_and_paid_for_until_the_file_goes() {
    let (mut rig, file) = rig_with_file();
    let times = Valid::FLMTIME | Valid::FLCTIME;
    let body = Obdo { mtime: NOW + 5, ctime: NOW + 6, ..about(file) };
    let body = Obdo { valid: body.valid | times, ..body };
    let reply = rig.must(&write(body, 0, b"hello"));
    assert!(reply.transno() > 0);
    assert_eq!(reply.message.require(&RESULTS).unwrap(), List(vec![Status::OK]));
    let shown = body_of(&reply);
    assert_eq!((shown.size, shown.blocks, shown.mode & 0o777), (5, 8, 0o644));
    let reply = rig.must(&write(about(file), 8190, b"world"));
    assert_eq!((body_of(&reply).size, body_of(&reply).blocks), (8195, 24));
    let data = contents(&mut rig, file);
    assert_eq!(
        (&data[..5], &data[5..8190], &data[8190..]),
        (&b"hello"[..], &[0; 8185][..], &b"world"[..])
    );
    let found = lvb(&rig, file).unwrap();
    assert_eq!((found.size, found.blocks, found.mtime, found.ctime), (8195, 24, NOW, NOW + 6));
    assert_eq!(used(&mut rig), 3 * 4096);
    rig.mdt.check().unwrap();

    let reply = rig.must(&cut(file, 4096));
    assert_eq!((body_of(&reply).size, body_of(&reply).blocks, used(&mut rig)), (4096, 8, 4096));
    rig.must(&requests::unlink(&ROOT, (Fid::ROOT, "file")));
    assert_eq!((used(&mut rig), rig.store.objects().unwrap().len()), (0, 0));
    assert_eq!(lvb(&rig, file), Err(Errno::ENOENT));
    assert_eq!(rig.fails(&write(about(file), 0, b"late")), Errno::ENOENT);
    rig.mdt.check().unwrap();
}

#[test]
fn a_file_that_is_open_keeps_its_data_without_a_name() {
    let (mut rig, file) = rig_with_file();
    rig.must(&write(about(file), 0, b"kept"));
    let handle = rig.open((Fid::ROOT, "file"), OpenFlags::READ);
    let xid = rig.next_xid();
    let unlink = requests::unlink(&ROOT, (Fid::ROOT, "file"));
    assert_eq!(rig.mdt.reint(&call(1, xid, &unlink)).unwrap().gone, None);
    rig.must(&write(about(file), 4, b" too"));
    assert_eq!(contents(&mut rig, file), b"kept too");
    rig.mdt.check().unwrap();
    let close = requests::close(file, handle, SetAttr::default());
    let gone = rig.mdt.execute(&call(1, xid + 512, &close)).unwrap().gone;
    assert_eq!(gone, Some(ResourceId::of_fid(file)), "clients may still have some of it");
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn a_file_that_replaces_another_one_frees_its_data() {
    let (mut rig, file) = rig_with_file();
    let other = rig.touch(&ROOT, (Fid::ROOT, "other"));
    rig.must(&write(about(file), 0, b"old"));
    rig.must(&write(about(other), 0, b"new"));
    rig.must(&requests::rename(&ROOT, (Fid::ROOT, "other"), (Fid::ROOT, "file")));
    assert_eq!((contents(&mut rig, other), used(&mut rig)), (b"new".to_vec(), 4096));
    assert_eq!(rig.store.objects().unwrap().len(), 1);
    // Another owner pays for them from now on.
    let change = SetAttr { valid: AttrValid::UID, uid: 1000, ..SetAttr::default() };
    rig.must(&requests::setattr(&ROOT, other, change));
    assert_eq!(used(&mut rig), 0);
    rig.mdt.check().unwrap();
}

#[test]
fn data_are_only_where_the_layout_says() {
    let (mut rig, file) = rig_with_file();
    rig.must(&write(about(file), MIB - 4, b"last"));
    assert_eq!(rig.fails(&write(about(file), MIB - 3, b"last")), Errno::EFBIG);
    let reply = rig.must(&cut(file, 3 * MIB));
    assert_eq!(body_of(&reply).size, MIB, "the rest is not here");
    let other = rig.mkdir((Fid::ROOT, "directory"));
    assert_eq!(rig.fails(&write(about(other), 0, b"data")), Errno::ENOENT);
    let missing = Fid { oid: 99, ..file };
    assert_eq!(rig.fails(&cut(missing, 0)), Errno::ENOENT);
    assert_eq!(rig.fails(&write(Obdo::default(), 0, b"data")), Errno::EPROTO);
    // A file whose layout has no part here.
    let mut without = Rig::new();
    let plain = without.touch(&ROOT, (Fid::ROOT, "plain"));
    assert_eq!(without.fails(&write(about(plain), 0, b"data")), Errno::ENOENT);
    assert_eq!(lvb(&without, plain), Err(Errno::ENOENT));
    // The size that others see is that of its object, not what a client says at the close.
    let handle = rig.open((Fid::ROOT, "file"), OpenFlags::READ);
    let lazy = AttrValid::LSIZE | AttrValid::LBLOCKS;
    let change = SetAttr { valid: lazy, size: 7, blocks: 1, ..SetAttr::default() };
    rig.must(&requests::close(file, handle, change));
    let valid = rig.getattr(file).unwrap().valid;
    assert!(!valid.has(Valid::FLLAZYSIZE) && !valid.has(Valid::FLSIZE));
}

#[test]
fn ranges_are_allocated_punched_and_found() {
    let (mut rig, file) = rig_with_file();
    let body = about(file);
    let ranged = |start, end, mode| {
        let valid = body.valid | Valid::FLSIZE | Valid::FLBLOCKS;
        let body = Obdo { valid, size: start, blocks: end, nlink: mode, ..body };
        Message::request(&OST_FALLOCATE).with(&OST_BODY, &body)
    };
    let reply = rig.must(&ranged(0, 16_384, 0));
    assert_eq!((body_of(&reply).size, body_of(&reply).blocks), (16_384, 32));
    rig.must(&write(body, 0, &[7; 16_384]));
    let reply = rig.must(&ranged(4096, 8192, 3));
    assert_eq!((body_of(&reply).size, body_of(&reply).blocks), (16_384, 24));
    assert_eq!(rig.fails(&ranged(0, MIB + 1, 0)), Errno::EFBIG);
    let mut seek = |from, mode| {
        let body = Obdo { size: from, mode, ..body };
        body_of(&rig.must(&Message::request(&OST_SEEK).with(&OST_BODY, &body))).size as i64
    };
    let (data, hole) = (3, 4);
    assert_eq!((seek(0, hole), seek(4096, data), seek(9000, data)), (4096, 8192, 9000));
    assert_eq!(seek(16_384, data), -i64::from(Errno::ENXIO.0));
    let sync = Message::request(&OST_SYNC).with(&OST_BODY, &body);
    let call = call(1, 1 << 50, &sync);
    let answer = rig.mdt.execute(&call).unwrap();
    assert_eq!(answer.durable, Some(rig.store.applied()));
    rig.mdt.check().unwrap();
}

#[test]
fn a_map_says_where_data_are_and_a_version_when_they_change() {
    let (mut rig, file) = rig_with_file();
    rig.must(&write(about(file), 8192, &[1; 5000]));
    let range = FiemapHeader { start: 0, len: u64::MAX, count: 10, ..FiemapHeader::default() };
    let key = FiemapKey { name: Text::new("fiemap").unwrap(), object: about(file), range };
    let reply = rig.must(&Message::request(&MDS_FIEMAP).with(&FIEMAP_KEY, &key));
    let found = reply.message.require(&FIEMAP).unwrap().extents;
    assert_eq!((found.len(), found[0].logical), (1, 8192));
    let version = |rig: &mut Rig| {
        let body = requests::body(&ROOT, file, Valid::FLID | Valid::FLDATAVERSION);
        let body = rig.must(&Message::request(&GETATTR).with(&MDT_BODY, &body)).body();
        assert!(body.valid.has(Valid::FLDATAVERSION | Valid::LAYOUT_VERSION));
        (body.version, body.layout_generation)
    };
    let before = version(&mut rig);
    assert_eq!((version(&mut rig), before.1), (before, 2));
    rig.must(&write(about(file), 0, b"new"));
    assert!(version(&mut rig).0 > before.0);
}

#[test]
fn clients_get_grants_and_without_room_nothing_is_lost() {
    let flags = requests::asked().flags;
    let flags = flags
        .with(ConnectFlags::GRANT)
        .with(ConnectFlags::GRANT_PARAM)
        .with(ConnectFlags::BRW_SIZE)
        .with(ConnectFlags::CKSUM);
    let asked = ConnectData { flags, grant: 128 << 20, brw_size: 1 << 20, ..requests::asked() };
    let granted = |rig: &mut Rig| -> ConnectData {
        let reply = rig.send(3, &requests::connect("client3", &asked)).unwrap();
        reply.message.require(&CONNECT_DATA).unwrap()
    };
    let (mut rig, file) = rig_with_file();
    let first = granted(&mut rig);
    assert_eq!((first.grant, first.grant_block_bits, first.grant_tax_kib), (2_146_304, 12, 24));
    rig.must(&write(about(file), 0, b"data"));
    rig.mdt.check().unwrap();

    let mut full = Rig::with(Settings { reserved: u64::MAX, ..Settings::default() });
    keep_on_mdt(&mut full, 1);
    assert_eq!(granted(&mut full).grant, 0);
    let file = full.touch(&ROOT, (Fid::ROOT, "file"));
    let reply = full.must(&write(about(file), 0, b"data"));
    let failed = List(vec![Status::failed(Errno::ENOSPC)]);
    assert_eq!(reply.message.require(&RESULTS).unwrap(), failed);
    assert_eq!((lvb(&full, file).unwrap().size, used(&mut full)), (0, 0));
}

#[test]
fn writes_have_checksums_and_do_not_undo_times_that_were_set_later() {
    let (mut rig, file) = rig_with_file();
    let flags = FlagWord { checksum_kind: ChecksumKind::ADLER, ..FlagWord::default() };
    let valid = about(file).valid | Valid::FLCKSUM | Valid::FLFLAGS;
    let reply = rig.must(&write(Obdo { valid, flags, nlink: 1, ..about(file) }, 0, b"a"));
    assert_eq!(body_of(&reply).nlink, 0x62 << 16 | 0x62);
    let times = AttrValid::MTIME | AttrValid::MTIME_SET;
    let change = SetAttr { valid: times, mtime: 1000, ..SetAttr::default() };
    let (write_xid, set_xid) = (rig.next_xid(), rig.next_xid());
    let set = requests::setattr(&ROOT, file, change);
    let call = |xid, message| call(1, xid, message);
    let answer = rig.mdt.reint(&call(set_xid, &set)).unwrap();
    assert_eq!(answer.changed, Some(ResourceId::of_fid(file)), "locks learn of the times");
    let written = write(about(file), 0, b"b");
    rig.mdt.execute(&call(write_xid, &written)).unwrap();
    assert_eq!(lvb(&rig, file).unwrap().mtime, 1000);
    rig.must(&write(about(file), 0, b"c"));
    assert_eq!(lvb(&rig, file).unwrap().mtime, NOW);
}

#[test]
fn an_open_brings_what_fits_into_the_reply() {
    let (mut rig, file) = rig_with_file();
    let data: Vec<u8> = (0..60_000u32).map(|n| (n % 251) as u8).collect();
    rig.must(&write(about(file), 0, &data));
    let opened = |rig: &mut Rig, room: u32, size: u64| {
        let flags = OpenFlags::READ;
        let mut request = requests::open(&ROOT, (Fid::ROOT, "file"), Fid::default(), flags);
        request.head.reply_room = room;
        let xid = rig.next_xid();
        let call = call(1, xid, &request);
        let mut done: IntentReply = rig.mdt.open(&call);
        assert_eq!(done.reply.bytes(&INLINE_DATA), Some(&[0; 16][..]));
        assert!(rig.mdt.show_data(&call, &mut done, true));
        let body = Reply::from(done.clone()).body();
        assert!(body.valid.has(Valid::DOM_SIZE));
        assert_eq!((body.dom_size, body.dom_blocks), (size, size.div_ceil(4096) * 8));
        let inline = done.reply.bytes(&INLINE_DATA).unwrap().to_vec();
        let (head, rest) = inline.split_at(16);
        let List(ranges) = List::<Niobuf>::decode(head, Order::Little).unwrap();
        (ranges[0].offset, ranges[0].len, rest.to_vec())
    };
    assert_eq!(opened(&mut rig, 128 << 10, 60_000), (0, 60_000, data.clone()));
    assert_eq!(opened(&mut rig, 32 << 10, 60_000).1, 0);
    // The end, from a place where a page begins on every client: whoever appends needs it.
    rig.must(&write(about(file), 60_000, &data[..10_000]));
    let tail = data[5536..10_000].to_vec();
    assert_eq!(opened(&mut rig, 128 << 10, 70_000), (65_536, 4464, tail));
    assert_eq!(opened(&mut rig, 4096, 70_000), (0, 0, vec![]));

    let directory = rig.mkdir((Fid::ROOT, "directory"));
    let request = requests::getattr(directory);
    let call = call(1, 1 << 50, &request);
    let reply = rig.mdt.execute(&call).unwrap().reply;
    let disposition = fulmar_lustre_wire::ldlm::Disposition::NONE;
    let mut done = IntentReply { reply, disposition, result: Ok(()) };
    assert!(!rig.mdt.show_data(&call, &mut done, false), "it has no data");
}

#[test]
fn an_administrator_reserves_room_of_the_medium() {
    let mut rig = Rig::new();
    keep_on_mdt(&mut rig, 1);
    let file = rig.touch(&ROOT, (Fid::ROOT, "file"));
    assert_eq!(rig.shown("mdt.*.reserved_mb"), "512\n");
    rig.tune("mdt.*.reserved_mb", "4294967295").unwrap();
    let written = rig.must(&write(about(file), 0, b"data"));
    let results: List<Status> = written.message.require(&RESULTS).unwrap();
    assert_eq!(results.0, [Status::failed(Errno::ENOSPC)]);
    rig.tune("mdt.*.reserved_mb", "512").unwrap();
    let written = rig.must(&write(about(file), 0, b"data"));
    let results: List<Status> = written.message.require(&RESULTS).unwrap();
    assert_eq!(results.0, [Status::OK]);
    assert!(rig.tune("mdt.*.reserved_mb", "much").is_err());
}

#[test]
fn an_administrator_limits_the_data_of_new_files() {
    let mut rig = Rig::new();
    keep_on_mdt(&mut rig, 1);
    rig.tune("lod.*.dom_stripesize", "128K").unwrap();
    assert_eq!(rig.shown("lod.*.dom_stripesize"), "131072\n");
    assert_eq!(rig.shown("lod.*.dom_stripesize_cur_kb"), "128\n");
    let small = rig.touch(&ROOT, (Fid::ROOT, "small"));
    rig.must(&write(about(small), 128 * 1024 - 4, b"data"));
    assert_eq!(rig.fails(&write(about(small), 128 * 1024, b"data")), Errno::EFBIG);
    rig.tune("lod.*.dom_stripesize_max_kb", "0").unwrap();
    let none = rig.touch(&ROOT, (Fid::ROOT, "none"));
    assert_eq!(lvb(&rig, none), Err(Errno::ENOENT));
    assert!(rig.tune("lod.*.dom_stripesize", "2G").is_err());
}
