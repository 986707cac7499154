use fulmar_wire::testing::{hex, round_trip};
use proptest::prelude::*;

use super::*;
use crate::{Handle, Service};

/// The ping of ptlrpc-ldlm-mgs §5.1, with its fields filled in.
fn ping() -> Vec<u8> {
    let mut bytes = hex("01000000 00000000 d30bd00b e0000000 00000000 03000000 0000000000000000
        b8000000 00000000 | one buffer
        1122334455667788 67120000 03000100 90010000 dd000000 7f00000000000000");
    bytes.resize(96, 0);
    bytes.extend(hex("0002000000000000 01000000 0b000000"));
    bytes.resize(160, 0);
    bytes.extend(hex("8000000000000000"));
    bytes.resize(224, 0);
    bytes
}

fn encode(message: &Message<'_>, out: &mut Vec<u8>) {
    message.encode(out);
}

#[test]
fn a_ping_is_a_body_alone() {
    let bytes = ping();
    let message =
        round_trip(&bytes, |bytes| Message::decode(bytes).map(Message::into_owned), encode);
    let body = Body {
        handle: Handle(0x8877_6655_4433_2211),
        status: Status(221),
        last_xid: 127,
        flags: MessageFlags::PACK_UID_GID,
        connection_count: 1,
        timeout: 11,
        match_bits: 128,
        ..Body::request(Opcode::OBD_PING)
    };
    let flags = HeaderFlags::AT_SUPPORT | HeaderFlags::CKSUM_INCOMPAT18;
    let head = Head { reply_room: 224, flags, ..Head::default() };
    assert_eq!((message.head, message.body, message.buffers.len()), (head, body, 0));
    assert_eq!((bytes.len(), body.service), (EARLY_LEN, Service::OBD));
}

#[test]
fn a_body_of_an_old_peer_has_no_job() {
    let mut bytes = ping();
    bytes[32] = 152;
    bytes.truncate(40 + 152);
    let message =
        round_trip(&bytes, |bytes| Message::decode(bytes).map(Message::into_owned), encode);
    assert_eq!(message.body.job, None);
    bytes[32] = 151;
    assert!(matches!(Message::decode(&bytes), Err(DecodeError::Short { .. })));
}

#[test]
fn a_message_that_breaks_a_limit_is_an_error() {
    let with = |at: usize, value: u32| {
        let mut bytes = ping();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Message::decode(&bytes).unwrap_err()
    };
    let range = |field, got| DecodeError::Range { field, got };
    assert_eq!(with(0, 0), range("message.buffer_count", 0));
    assert_eq!(with(0, 33), range("message.buffer_count", 33));
    assert_eq!(with(4, 0x2_1001), range("flavor", 0x2_1001));
    assert_eq!(with(8, 0x0bd0_0bd0), DecodeError::Magic { got: 0x0bd0_0bd0 });
    assert_eq!(with(32, u32::MAX), range("message.lengths", u32::MAX.into()));
    assert_eq!(with(32, 1000 << 10), range("message.lengths", 1000 << 10));
    assert!(matches!(with(32, 900 << 10), DecodeError::Short { field: "message.buffer", .. }));
    assert_eq!(with(52, 0x1_0002), DecodeError::Version { got: 0x1_0002 });
}

#[test]
fn bytes_after_a_message_are_ignored() {
    let bytes = ping();
    let longer = [bytes.as_slice(), &[1; 9]].concat();
    assert_eq!(Message::decode(&longer), Message::decode(&bytes));
}

#[test]
fn an_early_reply_has_the_checksum_of_its_body() {
    let mut message = Message::early_reply(Opcode::OBD_PING, 36, 6);
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    assert_eq!(bytes.len(), EARLY_LEN);
    assert!(Message::decode(&bytes).unwrap().has_early_checksum());
    message.body.timeout += 1;
    assert!(!message.has_early_checksum());
}

#[test]
fn the_flavor_plain_wraps_a_message() {
    let user = User { ids: [1, 2, 3, 4], capabilities: 5, groups: vec![6, 7] };
    let bulk = BulkHash { kind: 2, len: 4096, hash: [9; 8], ..BulkHash::default() };
    let message: Cow<'_, [u8]> = Cow::Owned(ping());
    for (user, bulk) in [(None, None), (Some(user), Some(bulk))] {
        let plain = Plain { part: Part::MDT, bulk_hash: 2, message: message.clone(), user, bulk };
        let mut bytes = Vec::new();
        plain.clone().wrap().encode(&mut bytes);
        let again = Plain::of(Container::decode(&bytes).unwrap()).unwrap();
        assert_eq!(again, plain);
        assert!(Message::decode(&again.message).is_ok());
    }
    assert_eq!(len_with(&[8, 224, 0, 0]), 280);
    assert!(Plain::of(Container::decode(&ping()).unwrap()).is_err());
}

/// Values for any word.
fn words() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(any::<u32>(), 60)
}

proptest! {
    #[test]
    fn any_container_comes_back(
        words in words(),
        big in any::<bool>(),
        buffers in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..32),
    ) {
        let head = Head {
            flavor: Flavor(words[0]),
            reply_room: words[1],
            checksum: words[2],
            flags: HeaderFlags(words[3]),
            part: words[4],
        };
        let order = if big { Order::Big } else { Order::Little };
        let buffers = buffers.into_iter().map(Cow::Owned).collect();
        let container = Container { head, order, buffers };
        let mut bytes = Vec::new();
        container.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), container.len());
        prop_assert_eq!(Container::decode(&bytes), Ok(container));
    }

    #[test]
    fn any_body_comes_back(
        mut bytes in proptest::collection::vec(any::<u8>(), Body::LEN),
        big in any::<bool>(),
    ) {
        let order = if big { Order::Big } else { Order::Little };
        bytes[12..16].copy_from_slice(if big { &[7, 7, 0, 3] } else { &[3, 0, 7, 7] });
        for len in [Body::LEN, Body::LEN_OLD] {
            let body = Body::read(&mut Reader::new(&bytes[..len], order), "body").unwrap();
            for order in [Order::Little, Order::Big] {
                let mut again = Vec::new();
                body.write(&mut Writer::new(&mut again, order));
                prop_assert_eq!(again.len(), len);
                prop_assert_eq!(Body::read(&mut Reader::new(&again, order), "body"), Ok(body));
            }
        }
    }

    #[test]
    fn damaged_messages_do_not_panic(
        damage in proptest::collection::vec((0usize..224, any::<u8>()), 0..6),
        len in 0usize..=224,
    ) {
        let mut bytes = ping();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        bytes.truncate(len);
        if let Ok(container) = Container::decode(&bytes) {
            let _ = Plain::of(container);
        }
        let _ = Message::decode(&bytes);
    }
}
