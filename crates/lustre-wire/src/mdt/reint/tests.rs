//! The records of mdt-ost §26.2, and each kind with any bytes.

use fulmar_wire::testing::hex;

use super::*;
use crate::testing::{check_any, check_example, check_fixed};

crate::testing::sizes! { ReintHead = 56, Reint = 136 }

#[test]
fn every_kind_of_change_has_80_bytes() {
    check_fixed::<SetAttr>(80);
    check_fixed::<Create>(80);
    check_fixed::<Link>(80);
    check_fixed::<Unlink>(80);
    check_fixed::<Rename>(80);
    check_fixed::<SetXattr>(80);
    check_fixed::<Resync>(80);
}

#[test]
fn every_kind_of_record_keeps_its_bytes() {
    for op in 0..12u32 {
        let mut bytes = vec![0x5a; Reint::LEN];
        bytes[..4].copy_from_slice(&op.to_le_bytes());
        let reint: Reint = check_example(&bytes);
        assert_eq!(Reint::new(reint.head, reint.change), Some(reint));
        check_any::<Reint>(&bytes);
    }
}

#[test]
fn a_record_has_one_kind() {
    let head = |op| ReintHead { op, ..ReintHead::default() };
    let unlink = ReintChange::Unlink(Unlink::default());
    assert!(Reint::new(head(ReintOp::RMENTRY), unlink).is_some());
    assert_eq!(Reint::new(head(ReintOp::LINK), unlink), None);
    assert_eq!(Reint::new(head(ReintOp(11)), unlink), None);
}

/// The creation of a file by open, mdt-ost §26.2.
const OPEN: &str = "06 00 00 00 ff ff ff ff 00 00 00 00 01 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff ff ff ff 00 00 00 00
    01 04 00 00 02 00 00 00 01 00 00 00 00 00 00 00
    01 04 00 00 02 00 00 00 03 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 b1 57 00 6b 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    b6 81 00 00 00 00 00 00 42 02 00 00 00 02 00 00
    12 00 00 00 00 00 00 00";

#[test]
fn an_open_creates_a_file_with_a_fid_of_the_client() {
    let reint: Reint = check_example(&hex(OPEN));
    assert_eq!((reint.head.op, reint.head.layout_version), (ReintOp::OPEN, 1));
    assert_eq!((reint.head.suppgid1, reint.head.suppgid2), (0, u32::MAX));
    let ReintChange::Create(create) = reint.change else { panic!("{reint:?}") };
    assert_eq!(create.child, Fid { seq: 0x2_0000_0401, oid: 3, version: 0 });
    assert_eq!((create.mode, create.umask, create.time), (0o100_666, 0o22, 0x6b00_57b1));
    let flags = [OpenFlags::CREAT, OpenFlags::TRUNC, OpenFlags::DEFAULT_LMV];
    assert_eq!(create.flags.0, flags.iter().fold(OpenFlags::WRITE, |all, flag| all.with(*flag)));
}

#[test]
fn a_record_serialises_as_one_object() {
    let json = serde_json::json!(check_example::<Reint>(&hex(OPEN)));
    assert_eq!(json["op"], "OPEN");
    assert_eq!(json["child"], "[0x200000401:0x3:0x0]");
    assert_eq!(json["flags"], serde_json::json!(["WRITE", "CREAT", "TRUNC", "DEFAULT_LMV"]));
}
