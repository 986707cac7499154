//! The OST by itself.

use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::format::{OST_PUNCH, OST_READ, OST_WRITE};
use fulmar_lustre_wire::ost::{FlagWord, IoObject, OstId};

use super::*;

fn obdo() -> Obdo {
    let id = OstId::Fid(Fid { seq: 0x2_4000_0400, oid: 7, version: 0 });
    let flags = FlagWord { flags: ObdoFlags::SHORT_IO, ..FlagWord::default() };
    Obdo { valid: Valid::FLID | Valid::FLCKSUM, id, flags, ..Obdo::default() }
}

fn request(write: Option<&[u8]>, ranges: &[(u64, u32)]) -> Message<'static> {
    let format = if write.is_some() { &OST_WRITE } else { &OST_READ };
    let range = |&(offset, len): &_| Niobuf { offset, len, ..Niobuf::default() };
    Message::request(format)
        .with(&OST_BODY, &obdo())
        .with(&IO_OBJECTS, &List(vec![IoObject::default()]))
        .with(&NIOBUFS, &List(ranges.iter().map(range).collect()))
        .with(&SHORT_IO, &Bytes(write.unwrap_or_default().to_vec()))
}

#[test]
fn what_was_written_is_read_with_its_checksum() {
    let mut ost = Ost::default();
    let written = ost.execute(&request(Some(b"Wikipedia"), &[(0, 4), (10, 5)])).unwrap();
    assert_eq!(written.require(&RESULTS).unwrap(), List(vec![Status::OK; 2]));
    assert_eq!((written.body.transno, ost.lvb(obdo().id.resource()).size), (1, 15));
    let read = ost.execute(&request(None, &[(0, 4), (10, 4096)])).unwrap();
    assert_eq!(read.require(&SHORT_IO).unwrap().0, b"Wikipedia");
    assert_eq!(
        (read.body.status, read.require(&OST_BODY).unwrap().nlink),
        (Status(9), 0x11e6_0398)
    );
    let hole = ost.execute(&request(None, &[(2, 9)])).unwrap();
    assert_eq!(hole.require(&SHORT_IO).unwrap().0, b"ki\0\0\0\0\0\0p");
}

#[test]
fn an_object_ends_where_it_is_cut() {
    let mut ost = Ost::default();
    ost.execute(&request(Some(b"abcdef"), &[(0, 6)])).unwrap();
    let valid = Valid::FLID | Valid::FLSIZE | Valid::FLBLOCKS;
    let cut = Obdo { valid, size: 2, blocks: u64::MAX, ..obdo() };
    let punch = |cut: &Obdo| Message::request(&OST_PUNCH).with(&OST_BODY, cut);
    assert_eq!(ost.execute(&punch(&cut)).unwrap().require(&OST_BODY).unwrap().size, 2);
    let part = Obdo { blocks: 5, ..cut };
    assert_eq!(ost.execute(&punch(&part)).unwrap_err(), Errno::EPROTO);
}

#[test]
fn the_space_and_the_objects_are_limited() {
    let mut ost = Ost { used: SPACE - 5, ..Ost::default() };
    assert_eq!(ost.execute(&request(Some(b"abcdef"), &[(0, 6)])).unwrap_err(), Errno::ENOSPC);
    ost.execute(&request(Some(b"abcde"), &[(0, 5)])).unwrap();
    ost.execute(&request(Some(b"bcd"), &[(1, 3)])).unwrap();
    assert_eq!((ost.used, ost.statfs().free), (SPACE, 0));
    let object = |n| ResourceId { name: [n, 0, 0, 0] };
    ost.objects.extend((1..OBJECTS_MAX).map(|n| (object(n), Object::default())));
    assert_eq!(ost.object(object(OBJECTS_MAX), 0).unwrap_err(), Errno::ENOSPC);
    assert!(ost.object(object(7), 0).is_ok());
    assert_eq!(ost.statfs().free_files, 0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut ost = Ost::default();
    for (data, ranges, errno) in [
        (&b"abc"[..], &[(0, 4)][..], Errno::EPROTO),
        (b"abc", &[(4, 2), (0, 1)], Errno::EPROTO),
        (b"", &[], Errno::EPROTO),
        (b"a", &[(u64::MAX, 1)], Errno::EFBIG),
        (b"a", &[(0, u32::MAX)], Errno::EFBIG),
        (b"a", &[(0, 5 << 20)], Errno::EPROTO),
    ] {
        assert_eq!(ost.execute(&request(Some(data), ranges)).unwrap_err(), errno, "{ranges:?}");
    }
    assert!(ost.objects.is_empty());
}
