//! The texts are those of Lustre's lfs for files of two OSTs.

use fulmar_lustre_wire::layout::{CompositeHeader, LovHeader, LovObject};
use fulmar_lustre_wire::{Bytes, Fid, Text};

use super::*;

fn part(count: u16, size: u32, objects: &[(u32, u64, u32)]) -> LovMd {
    let object = |&(ost, seq, oid): &(u32, u64, u32)| LovObject {
        id: OstId::Fid(Fid { seq, oid, version: 0 }),
        generation: 0,
        ost,
    };
    let header = LovHeader {
        magic: LayoutMagic::LOV_V1,
        pattern: Pattern::RAID0,
        object: 0xa,
        seq: 0x2_0000_0bd1,
        stripe_size: size,
        stripe_count: count,
        generation: if objects.is_empty() { 0xffff } else { 0 },
    };
    let objects = objects.iter().map(object).collect();
    LovMd { header, pool: None, objects, rest: Bytes(vec![]) }
}

fn progressive(flags: [ComponentFlags; 2], first: LovMd, second: LovMd) -> Layout {
    let header = CompositeHeader::new(2);
    let one = |id, flags, start, end| Component { id, flags, start, end, ..Component::default() };
    let parts =
        vec![(one(1, flags[0], 0, 1 << 20), first), (one(2, flags[1], 1 << 20, u64::MAX), second)];
    Layout::Composite(CompositeMd::new(header, parts))
}

#[test]
fn a_plain_layout_is_shown_as_by_lfs() {
    let layout = Layout::File(part(1, 4 << 20, &[(0, 0x2_4000_0400, 145)]));
    let expected = "\
lmm_stripe_count:  1
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 0
\tobdidx\t\t objid\t\t objid\t\t group
\t     0\t           145\t         0x91\t   0x240000400
";
    assert_eq!(shown(&layout, Kind::File).unwrap(), expected);
}

#[test]
fn a_progressive_layout_is_shown_as_by_lfs() {
    let first = part(1, 1 << 20, &[(1, 0x2_8000_0400, 0x92)]);
    let flags = [ComponentFlags::INIT, ComponentFlags::NONE];
    let layout = progressive(flags, first, part(2, 4 << 20, &[]));
    let expected = "  lcm_layout_gen:    2
  lcm_mirror_count:  1
  lcm_entry_count:   2
    lcme_id:             1
    lcme_mirror_id:      0
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   1048576
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: 1
      lmm_objects:
      -   0: { l_ost_idx:   1, l_fid: [0x280000400:0x92:0x0] }

    lcme_id:             2
    lcme_mirror_id:      0
    lcme_flags:          0
    lcme_extent.e_start: 1048576
    lcme_extent.e_end:   EOF
      lmm_stripe_count:  2
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1
";
    assert_eq!(shown(&layout, Kind::File).unwrap(), expected);
    let one = |show: Show| show.one(&layout).unwrap();
    assert_eq!(one(Show { stripe_size: true, ..Show::default() }), "1048576\n");
    assert_eq!(one(Show { stripe_index: true, ..Show::default() }), "1\n");
}

#[test]
fn layouts_of_directories_are_those_of_new_files() {
    let mut default = part(LovMd::ALL_STRIPES, 1 << 20, &[]);
    default.header.magic = LayoutMagic::LOV_V3;
    default.pool = Text::new("flash");
    let line = "stripe_count:  -1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1 \
                pool:          flash\n";
    assert_eq!(shown(&Layout::File(default.clone()), Kind::Directory).unwrap(), line);
    let mut on_mdt = part(0, 1 << 20, &[]);
    on_mdt.header.pattern = Pattern::MDT;
    let text = shown(&progressive([ComponentFlags::NONE; 2], on_mdt, default), Kind::Directory);
    let text = text.unwrap();
    assert!(text.contains("lcme_id:             N/A\n"), "{text}");
    let line = "      stripe_count:  0       stripe_size:   1048576       pattern:       mdt       \
                stripe_offset: 0\n";
    assert!(text.contains(line), "{text}");
}
