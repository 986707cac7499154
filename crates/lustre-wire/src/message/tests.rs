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
    assert_eq!(with(4, 0x2_0222), range("flavor", 0x2_0222));
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
fn the_flavor_plain_wraps_a_message() {
    let bare = Message::decode(&ping()).unwrap().into_owned();
    let user = User { ids: [1, 2, 3, 4], capabilities: 5, groups: vec![6, 7] };
    let bulk = BulkHash { service: 2, len: 4096, hash: [9; 8], ..BulkHash::default() };
    for (user, bulk) in [(None, None), (Some(Box::new(user)), Some(bulk))] {
        let mut message = Message { user, bulk, ..bare.clone() };
        message.head.flavor = Flavor::plain(HashKind::CRC32).from_part(Part::MDT);
        let bytes = message.to_bytes();
        let container = Container::decode(&bytes).unwrap();
        assert_eq!((container.head.flavor, container.buffers.len()), (Flavor::PLAIN, 4));
        assert_eq!(container.head.reply_room, 0);
        assert_eq!(&container.buffers[0][..4], [0, if bulk.is_some() { 3 } else { 0 }, 1, 2]);
        assert_eq!(container.buffers[1], ping());
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
    let lens =
        |flavor: Flavor| (flavor.reply_offset(), flavor.early_len(), flavor.wrapped_len(224));
    assert_eq!(lens(Flavor::NULL), (224, 224, 224));
    assert_eq!(lens(Flavor::PLAIN), (272, 280, 296));
}

#[test]
fn a_wrapped_message_must_be_a_valid_one() {
    let mut message = Message::decode(&ping()).unwrap().into_owned();
    message.head.flavor = Flavor::PLAIN;
    let bytes = message.to_bytes();
    let change = |place: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[place] = value;
        Message::decode(&bytes).map(Message::into_owned)
    };
    // The version, the algorithm, the magic number of the message inside, a user that is missing.
    for (place, value) in [(48, 1), (51, 8), (48 + 8 + 8, 0), (49, 1)] {
        assert!(change(place, value).is_err(), "{place}");
    }
    assert!(change(49, 0).is_ok());
    // Plain in plain, and the flavors of GSS.
    let mut twice = Container::decode(&bytes).unwrap();
    twice.buffers[1] = bytes.clone().into();
    let mut out = Vec::new();
    twice.encode(&mut out);
    assert!(Message::decode(&out).is_err());
    assert!(change(4, 2).is_err());
}

#[test]
fn an_early_reply_has_a_checksum_in_either_flavor() {
    for flavor in [Flavor::NULL, Flavor::PLAIN] {
        let early = Message::early_reply(flavor, Opcode::OBD_PING, 30, 6);
        let bytes = early.to_bytes();
        assert_eq!(bytes.len(), flavor.early_len());
        let decoded = Message::decode(&bytes).unwrap();
        assert!(decoded.has_early_checksum());
        let mut damaged = decoded.clone();
        damaged.body.timeout = 600;
        assert!(!damaged.has_early_checksum());
        let reply = Message::reply(Format::of(Opcode::OBD_PING), Status::OK);
        assert!(!reply.has_early_checksum());
    }
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
        len in 0usize..=296,
        is_wrapped in any::<bool>(),
    ) {
        let mut bytes = ping();
        if is_wrapped {
            let mut message = Message::decode(&bytes).unwrap().into_owned();
            message.head.flavor = Flavor::PLAIN;
            bytes = message.to_bytes();
        }
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        bytes.truncate(len);
        let _ = Message::decode(&bytes);
    }
}
