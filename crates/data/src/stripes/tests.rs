use fulmar_lustre_wire::Bytes;
use fulmar_lustre_wire::layout::{
    Component as Entry, ComponentFlags, CompositeHeader, CompositeMd, Layout as Wire, LayoutMagic,
    LovHeader, LovMd, LovObject, Pattern,
};
use fulmar_lustre_wire::ost::OstId;
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const FILE: Fid = Fid { seq: 0x2_0000_0401, oid: 7, version: 0 };

fn object(ost: u32) -> Object {
    let fid = Fid { seq: 0x2_4000_0400, oid: ost + 1, version: 0 };
    Object { target: Target::Ost(ost), fid }
}

fn plain(pattern: Pattern, stripe_size: u64, count: u16, objects: u16) -> LovMd {
    let header = LovHeader {
        magic: LayoutMagic::LOV_V1,
        pattern,
        object: 7,
        seq: FILE.seq,
        stripe_size: stripe_size as u32,
        stripe_count: count,
        generation: 0,
    };
    let place = |ost: u16| LovObject {
        id: OstId::Fid(object(ost.into()).fid),
        generation: 0,
        ost: ost.into(),
    };
    LovMd { header, pool: None, objects: (0..objects).map(place).collect(), rest: Bytes(vec![]) }
}

fn composite(parts: Vec<(Entry, LovMd)>) -> Wire {
    let header = CompositeHeader::new(1);
    Wire::Composite(CompositeMd::new(header, parts))
}

fn entry(id: u32, flags: ComponentFlags, start: u64, end: u64) -> Entry {
    Entry { id, flags, start, end, ..Entry::default() }
}

/// Data on the MDT up to 1 MiB, one object up to 4 MiB, then two stripes that do not exist.
fn progressive() -> Layout {
    let wire = composite(vec![
        (entry(1, ComponentFlags::INIT, 0, MIB), plain(Pattern::MDT, MIB, 0, 0)),
        (entry(2, ComponentFlags::INIT, MIB, 4 * MIB), plain(Pattern::RAID0, MIB, 1, 1)),
        (entry(3, ComponentFlags(0), 4 * MIB, u64::MAX), plain(Pattern::RAID0, MIB, 2, 1)),
    ]);
    Layout::from_wire(&wire, FILE, 3).unwrap()
}

#[test]
fn stripes_follow_one_another() {
    let layout = Layout::plain(MIB, vec![object(0), object(1)]);
    let pieces: Vec<_> = layout.pieces(MIB / 2..3 * MIB).collect();
    let place = |ost, at| Place::Object { object: object(ost), at };
    assert_eq!(
        pieces,
        [
            Piece { file: MIB / 2..MIB, place: place(0, MIB / 2) },
            Piece { file: MIB..2 * MIB, place: place(1, 0) },
            Piece { file: 2 * MIB..3 * MIB, place: place(0, MIB) },
        ]
    );
    assert_eq!(
        layout.objects(MIB / 2..3 * MIB),
        [(object(0), MIB / 2..2 * MIB), (object(1), 0..MIB)]
    );
    let all = [(object(0), MIB..u64::MAX), (object(1), MIB..u64::MAX)];
    assert_eq!(layout.objects(2 * MIB..u64::MAX), all);
    assert_eq!(layout.file_offset(object(1), MIB + 5), Some(3 * MIB + 5));
    assert_eq!(layout.file_offset(object(2), 0), None);
}

#[test]
fn the_size_of_a_file_is_that_of_its_last_stripe() {
    let layout = Layout::plain(MIB, vec![object(0), object(1)]);
    let size = |first, second| layout.size(|o| if o == object(0) { first } else { second });
    assert_eq!((size(0, 0), size(5, 0), size(MIB, 0)), (0, 5, MIB));
    assert_eq!(
        (size(5, MIB), size(MIB + 1, MIB), size(2 * MIB, 7)),
        (2 * MIB, 2 * MIB + 1, 3 * MIB)
    );
    let layout = progressive();
    let on_mdt = Object { target: Target::Mdt(3), fid: FILE };
    assert_eq!(layout.size(|o| if o == on_mdt { 2 * MIB } else { 0 }), MIB);
    assert_eq!(layout.size(|o| if o == on_mdt { 9 } else { 3 * MIB }), 3 * MIB);
}

#[test]
fn a_cut_concerns_the_last_byte_and_all_that_follows() {
    let layout = progressive();
    let on_mdt = Object { target: Target::Mdt(3), fid: FILE };
    for (size, expected) in [
        (0, vec![(on_mdt, 0), (object(0), 0)]),
        (4, vec![(on_mdt, 4), (object(0), 4)]),
        (MIB, vec![(on_mdt, MIB), (object(0), MIB)]),
        (2 * MIB, vec![(object(0), 2 * MIB)]),
        (4 * MIB, vec![(object(0), 4 * MIB)]),
        (5 * MIB, vec![]),
    ] {
        assert_eq!(layout.cut(size), expected, "{size}");
    }
    // The part behind the first one has no bytes of its object then.
    assert_eq!(layout.size(|_| 4), 4);
    let part = plain(Pattern::RAID0, MIB, 1, 1);
    let short = composite(vec![(entry(1, ComponentFlags::INIT, 0, MIB), part)]);
    let short = Layout::from_wire(&short, FILE, 0).unwrap();
    assert_eq!(short.cut(MIB), [(object(0), MIB)], "nothing follows it");
}

#[test]
fn components_have_objects_of_their_own_or_none() {
    let layout = progressive();
    let pieces: Vec<_> = layout.pieces(MIB - 1..9 * MIB).collect();
    let on_mdt = Object { target: Target::Mdt(3), fid: FILE };
    assert_eq!(
        pieces,
        [
            Piece { file: MIB - 1..MIB, place: Place::Object { object: on_mdt, at: MIB - 1 } },
            Piece { file: MIB..4 * MIB, place: Place::Object { object: object(0), at: MIB } },
            Piece { file: 4 * MIB..9 * MIB, place: Place::None },
        ]
    );
    assert_eq!(layout.missing(0..4 * MIB), None);
    assert_eq!(layout.missing(0..4 * MIB + 1), Some(4 * MIB..4 * MIB + 1));
    assert_eq!(Layout::none().missing(3..9), Some(3..9));
    assert_eq!(Layout::none().pieces(3..9).count(), 1);
    assert!(layout.is_writable());
}

#[test]
fn a_mirror_that_is_not_stale_is_read_and_none_is_written() {
    let mirror = |number: u32, flags| {
        let wire = plain(Pattern::RAID0, MIB, 1, 1);
        (entry(number << 16 | 1, ComponentFlags::INIT | flags, 0, u64::MAX), wire)
    };
    let (mut old, mut new) = (mirror(1, ComponentFlags::STALE), mirror(2, ComponentFlags(0)));
    new.1.objects[0].ost = 5;
    let layout = Layout::from_wire(&composite(vec![old.clone(), new.clone()]), FILE, 0).unwrap();
    assert_eq!(layout.objects(0..1)[0].0.target, Target::Ost(5));
    assert!(!layout.is_writable());
    new.0.flags = ComponentFlags::INIT | ComponentFlags::STALE;
    let all_stale = composite(vec![old.clone(), new]);
    let error = Layout::from_wire(&all_stale, FILE, 0).unwrap_err();
    assert_eq!(error, LayoutError::Damaged("all mirrors are stale"));
    old.0.flags = ComponentFlags::INIT;
    assert!(Layout::from_wire(&composite(vec![old]), FILE, 0).unwrap().is_writable());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let of = |wire: &LovMd| Layout::from_wire(&Wire::File(wire.clone()), FILE, 0);
    let released = plain(Pattern::RAID0 | Pattern::RELEASED, MIB, 1, 0);
    assert_eq!(of(&released), Err(LayoutError::Released));
    let few = plain(Pattern::RAID0, MIB, 3, 2);
    assert!(matches!(of(&few), Err(LayoutError::Damaged(_))));
    let small = plain(Pattern::RAID0, 512, 2, 2);
    assert!(matches!(of(&small), Err(LayoutError::Damaged(_))));
    let none = Layout::from_wire(&Wire::Other(Bytes(vec![0; 8])), FILE, 0);
    assert_eq!(none, Ok(Layout::none()));
    let overlap = composite(vec![
        (entry(1, ComponentFlags(0), 0, MIB), plain(Pattern::RAID0, MIB, 1, 0)),
        (entry(2, ComponentFlags(0), 5, MIB), plain(Pattern::RAID0, MIB, 1, 0)),
    ]);
    assert!(matches!(Layout::from_wire(&overlap, FILE, 0), Err(LayoutError::Damaged(_))));
}

proptest! {
    #[test]
    fn each_byte_of_a_file_has_one_place(
        count in 1..7_u32,
        stripe in 1..5_u64,
        start in 0..100_u64,
        len in 1..100_u64,
    ) {
        let layout = Layout::plain(stripe, (0..count).map(object).collect());
        let mut at = start;
        for piece in layout.pieces(start..start + len) {
            prop_assert_eq!(piece.file.start, at);
            at = piece.file.end;
            let Place::Object { object, at: first } = piece.place else { panic!("an object") };
            for (n, byte) in piece.file.enumerate() {
                prop_assert_eq!(layout.file_offset(object, first + n as u64), Some(byte));
                // The file ends at the byte if the object does.
                let end = first + n as u64 + 1;
                prop_assert_eq!(layout.size(|o| if o == object { end } else { 0 }), byte + 1);
            }
        }
        prop_assert_eq!(at, start + len);
        let sum: u64 = layout.objects(start..start + len).iter().map(|(_, r)| r.end - r.start).sum();
        prop_assert_eq!(sum, len);
    }
}
