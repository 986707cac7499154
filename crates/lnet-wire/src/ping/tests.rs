//! The worked examples of lnet-wire §14.3 and §14.6, the captured ones of §17.4, and invalid ones.

use fulmar_wire::testing::hex;

use super::*;

/// Decodes complete info and requires that it encodes to the same bytes.
fn check(text: &str) -> PingInfo {
    let bytes = hex(text);
    let DecodedInfo { info, size, order } =
        PingInfo::decode(&bytes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((size as usize, order), (bytes.len(), Order::Little));
    assert_eq!(info.size(), size);
    let mut again = Vec::new();
    info.encode(order, &mut again);
    assert_eq!(again, bytes);
    info
}

fn entry(nid: &str, status: NiStatus) -> NiEntry {
    NiEntry { nid: nid.parse().unwrap_or_else(|error| panic!("{nid}: {error}")), status }
}

const TWO_NIDS: &str = "67 6e 69 70 1e 00 00 00 39 30 00 00 03 00 00 00
     00 00 00 00 00 00 09 00 07 00 00 00 00 00 00 00 | 0@lo, sequence 7
     02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00 | UP
     02 01 00 0a 01 00 02 00 ce fa ad de 00 00 00 00 | DOWN";

const MIXED: &str = "67 6e 69 70 3e 00 00 00 39 30 00 00 02 00 00 00
     00 00 00 00 00 00 09 00 09 00 00 00 48 00 00 00 | 0@lo, sequence 9, 72 bytes
     02 00 00 0a 00 00 02 00 de c0 aa 15 00 00 00 00
     de c0 aa 15 0c 02 00 00 20 01 0d b8 00 00 00 00
     00 00 00 00 00 00 00 02";

const LARGE_ONLY: &str = "67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00
     00 00 00 00 00 00 09 00 02 00 00 00 38 00 00 00 | 0@lo, sequence 2, 56 bytes
     de c0 aa 15 0c 02 00 00 fd 00 00 99 00 00 00 00
     00 00 00 00 00 00 00 04";

#[test]
fn a_node_lists_its_nids_and_their_status() {
    let info = check(TWO_NIDS);
    assert_eq!((info.features, info.pid, info.sequence), (Features(0x1e), Pid::LUSTRE, 7));
    let entries = [entry("10.0.0.2@tcp", NiStatus::UP), entry("10.0.1.2@tcp1", NiStatus::DOWN)];
    assert_eq!(info.entries, entries);
    assert_eq!(info.primary(), Some(entries[0].nid));
    assert!(info.features.has(Features::MULTI_RAIL.with(Features::DISCOVERY)));
}

#[test]
fn large_nids_follow_the_small_ones() {
    let info = check(MIXED);
    let entries = [entry("10.0.0.2@tcp", NiStatus::UP), entry("2001:db8::2@tcp", NiStatus::UP)];
    assert_eq!(info.entries, entries);
    assert_eq!(info.primary(), Some(entries[0].nid));
}

#[test]
fn a_large_nid_can_be_the_primary() {
    let info = check(LARGE_ONLY);
    assert_eq!(info.entries, [entry("fd00:99::4@tcp", NiStatus::UP)]);
    assert_eq!(info.primary(), Some(info.entries[0].nid));
}

#[test]
fn a_node_may_list_nothing_but_its_loopback() {
    let info = check(
        "67 6e 69 70 06 00 00 00 39 30 00 00 01 00 00 00
         00 00 00 00 00 00 09 00 de c0 aa 15 00 00 00 00 | a sequence that looks like UP",
    );
    assert_eq!((info.sequence, info.primary()), (0x15aa_c0de, None));
}

#[test]
fn a_big_endian_node_is_understood() {
    let info = check(MIXED);
    let mut bytes = Vec::new();
    info.encode(Order::Big, &mut bytes);
    assert_eq!(bytes[..8], [0x70, 0x69, 0x6e, 0x67, 0, 0, 0, 0x3e]);
    let decoded = PingInfo::decode(&bytes).unwrap();
    assert_eq!(decoded, DecodedInfo { info, size: 72, order: Order::Big });
}

#[test]
fn truncated_info_has_the_complete_length() {
    for (text, whole, starts) in [(TWO_NIDS, 64, [48, 64]), (MIXED, 72, [48, 72])] {
        let bytes = hex(text);
        for len in 32..bytes.len() {
            let decoded = PingInfo::decode(&bytes[..len]).unwrap();
            assert_eq!(decoded.size, whole, "{len} bytes");
            let complete = starts.iter().filter(|end| **end <= len).count();
            assert_eq!(decoded.info.entries.len(), complete, "{len} bytes");
        }
        for len in 0..32 {
            let error = PingInfo::decode(&bytes[..len]).unwrap_err();
            assert!(matches!(error, DecodeError::Short { .. }), "{len} bytes: {error}");
        }
    }
}

#[test]
fn zeros_and_metadata_after_the_entries_are_ignored() {
    for text in [TWO_NIDS, MIXED] {
        let mut bytes = hex(text);
        let info = check(text);
        bytes.extend([0; 40]);
        assert_eq!(PingInfo::decode(&bytes).unwrap().info, info);
        bytes[4] |= Features::METADATA.0 as u8;
        assert_eq!(PingInfo::decode(&bytes).unwrap().info.entries, info.entries);
    }
}

#[test]
fn a_nid_that_is_too_long_is_skipped() {
    let bytes = hex("67 6e 69 70 3e 00 00 00 39 30 00 00 01 00 00 00
         00 00 00 00 00 00 09 00 09 00 00 00 58 00 00 00 | 88 bytes
         de c0 aa 15 10 02 00 00 ff ff ff ff ff ff ff ff | 24 bytes of NID
         ff ff ff ff ff ff ff ff ff ff ff ff
         de c0 aa 15 0c 02 00 00 20 01 0d b8 00 00 00 00
         00 00 00 00 00 00 00 02
         00 00 00 00");
    let info = PingInfo::decode(&bytes).unwrap().info;
    assert_eq!(info.entries, [entry("2001:db8::2@tcp", NiStatus::UP)]);
}

#[test]
fn invalid_info_is_refused() {
    let refused = |at: usize, byte: u8| {
        let mut bytes = hex(TWO_NIDS);
        bytes[at] = byte;
        PingInfo::decode(&bytes).unwrap_err()
    };
    let range = |field, got| DecodeError::Range { field, got };
    assert_eq!(refused(0, 0), DecodeError::Magic { got: 0x7069_6e00 });
    assert_eq!(refused(4, 0x1c), range("ping.features", 0x1c), "no status");
    assert_eq!(refused(12, 0), range("ping.count", 0), "without the loopback");
    assert_eq!(refused(13, 0x10), range("ping.count", 0x1003), "more than 4096");
    assert_eq!(refused(22, 2), range("ping.loopback", 0x0002_0000_0000_0000), "0@lo missing");
}

#[test]
fn the_largest_list_is_accepted_and_limits_the_declared_length() {
    let mut bytes = hex(MIXED);
    bytes[12..16].copy_from_slice(&PingInfo::ENTRIES_MAX.to_le_bytes());
    bytes[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(PingInfo::decode(&bytes).unwrap().size, PingInfo::SIZE_MAX);
}

#[test]
fn a_small_nid_among_the_large_entries_is_omitted() {
    let bytes = hex("67 6e 69 70 7e 00 00 00 39 30 00 00 01 00 00 00
         00 00 00 00 00 00 09 00 02 00 00 00 44 00 00 00 | size 68
         de c0 aa 15 0c 02 00 00 fd 00 00 99 00 00 00 00
         00 00 00 00 00 00 00 04 |
         de c0 aa 15 00 02 00 00 0a 00 00 01 | 10.0.0.1@tcp");
    let decoded = PingInfo::decode(&bytes).unwrap();
    assert_eq!(decoded.size, 68);
    let nids: Vec<Nid> = decoded.info.entries.iter().map(|entry| entry.nid).collect();
    assert_eq!(nids, ["fd00:99::4@tcp".parse::<Nid>().unwrap()]);
}
