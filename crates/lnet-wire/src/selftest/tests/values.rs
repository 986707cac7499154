//! Valid and invalid messages.

use fulmar_wire::{DecodeError, Field, Reader, Writer};
use proptest::prelude::*;

use super::*;
use crate::Pid;

const SESSION: SessionId = SessionId { nid: Nid::small(Net::TCP, 0x0a00_0001), stamp: -7 };

fn refused(bytes: &[u8]) -> DecodeError {
    Message::decode(bytes).expect_err("the message is refused")
}

/// Returns a message with other bytes at `offset`.
fn spoilt(message: &Message, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut spoilt = message.to_bytes();
    spoilt[offset..offset + bytes.len()].copy_from_slice(bytes);
    spoilt
}

/// Encodes a message in both byte orders and requires that it decodes to the same.
fn round_trips(message: &Message) {
    for order in [Order::Little, Order::Big] {
        let mut bytes = Vec::new();
        message.encode(order, &mut bytes);
        assert_eq!(bytes.len(), LEN);
        assert_eq!(Message::decode(&bytes), Ok((message.clone(), order)));
    }
}

fn test(kind: TestKind) -> Test {
    Test {
        reply_id: 1,
        bulk_id: 2,
        session: SESSION,
        batch: BatchId(3),
        loops: LOOP_FOREVER,
        concurrency: 4,
        is_client: true,
        stop_on_error: false,
        destinations: 5,
        kind,
    }
}

fn debug() -> Message {
    Message::new(FEATURES, Body::Debug(DebugRequest { reply_id: 1, session: SESSION, flags: 0 }))
}

#[test]
fn every_message_round_trips_in_both_byte_orders() {
    let group = name("clients");
    let (status, session, timeout) = (71, SESSION, 100);
    let measured = MeasureReply {
        status,
        session,
        rpcs: 1 << 40,
        bytes: 1 << 50,
        min_ns: 1,
        max_ns: u64::MAX,
        usage: Usage { cpu_ns: 5, retransmits: 6, window: 7 },
        slice: Slice { first: 8, counts: [9; Slice::LEN] },
    };
    let bodies = [
        Body::Debug(DebugRequest { reply_id: 1, session, flags: 2 }),
        Body::DebugReply(DebugReply { status, session, timeout, batches: 3, name: group }),
        Body::Join(JoinRequest { reply_id: 1, session: SessionId::INVALID, group }),
        Body::JoinReply(JoinReply { status, session, timeout, name: group }),
        Body::MakeSessionReply(MakeSessionReply { status, session, timeout, name: group }),
        Body::Test(test(TestKind::Ping { size: 6, flags: 7 })),
        Body::Test(test(TestKind::Unknown { service: 99, parameters: [8; 12] })),
        Body::Measured(measured),
    ];
    for body in bodies {
        round_trips(&Message::new(FEATURES, body));
    }
}

#[test]
fn the_features_decide_the_parameters_of_a_brw_test() {
    let bytes = TestKind::Brw { direction: Direction::READ, flags: 3, len: 4096, offset: 8 };
    round_trips(&Message::new(FEATURES, Body::Test(test(bytes))));
    let pages = TestKind::BrwPages { direction: Direction(0x0002_0001), pages: 16, flags: 1 << 20 };
    round_trips(&Message::new(0, Body::Test(test(pages))));

    let message = Message::new(FEATURES, Body::Test(test(bytes)));
    let (old, _) = Message::decode(&spoilt(&message, 20, &[0; 4])).unwrap();
    let Body::Test(Test { kind: TestKind::BrwPages { direction, pages, flags }, .. }) = old.body
    else {
        panic!("{old:?} has no pages")
    };
    assert_eq!((direction, pages, flags), (Direction(0x0003_0001), 4096, 8));
}

#[test]
fn an_unknown_version_is_decoded() {
    let bytes = spoilt(&debug(), 4, &[2, 0, 0, 0]);
    assert_eq!(Message::decode(&bytes), Ok((Message { version: 2, ..debug() }, Order::Little)));
}

#[test]
fn invalid_messages_are_refused() {
    let long = [debug().to_bytes(), vec![0]].concat();
    assert!(matches!(refused(&long), DecodeError::Trailing { got: 1, .. }));
    assert!(matches!(refused(&long[..LEN - 1]), DecodeError::Short { missing: 1, .. }));
    assert_eq!(refused(&spoilt(&debug(), 0, b"LNET")), DecodeError::Magic { got: 0x5445_4e4c });
    for kind in [18, 19, u32::MAX] {
        let error = refused(&spoilt(&debug(), 8, &kind.to_le_bytes()));
        assert_eq!(error, DecodeError::Range { field: "selftest.type", got: kind.into() });
    }
}

#[test]
fn a_nid_has_one_encoding() {
    // A wildcard that is not all ones, and a network with more than 24 bits.
    for got in [0x00ff_0001_0000_0002_u64, 0x0100_0000_0a00_0001] {
        let error = refused(&spoilt(&debug(), 32, &got.to_le_bytes()));
        assert_eq!(error, DecodeError::Range { field: "DebugRequest.session", got });
        let entry = [&got.to_le_bytes()[..], &[0; 4]].concat();
        let list = Destination::decode_list(&entry, 1, Order::Little);
        assert_eq!(list, Err(DecodeError::Range { field: "destination", got }));
    }
    // A reply without a session.
    let (reply, _) = Message::decode(&spoilt(&debug(), 32, &[0; 16])).unwrap();
    assert_eq!(reply.to_bytes(), spoilt(&debug(), 32, &[0; 16]));
}

#[test]
fn a_flag_is_zero_or_one() {
    let message = Message::new(FEATURES, Body::Test(test(TestKind::Ping { size: 0, flags: 0 })));
    for (offset, field) in [(76, "Test.is_client"), (77, "Test.stop_on_error")] {
        let error = refused(&spoilt(&message, offset, &[2]));
        assert_eq!(error, DecodeError::Range { field, got: 2 });
    }
}

#[test]
fn portal_and_type_of_a_service_differ_from_its_number() {
    for service in Service::KNOWN {
        let kind = service.request_type().unwrap();
        assert_eq!(kind.0 % 2, 0, "{service:?}");
        let is_load = [MessageType::BRW, MessageType::PING].contains(&kind);
        let portal = if is_load { REQUEST_PORTAL } else { FRAMEWORK_PORTAL };
        assert_eq!(service.portal(), portal, "{service:?}");
    }
    assert_eq!(Service(7).request_type(), None);
    assert_eq!(Service(10).portal(), REQUEST_PORTAL);
}

#[test]
fn a_name_has_up_to_31_bytes() {
    for text in ["c", "rs@client", &"n".repeat(31), "Grün"] {
        let name = name(text);
        assert_eq!((name.bytes(), name.to_string().as_str()), (text.as_bytes(), text));
    }
    for text in ["", &"n".repeat(32), "a\0b"] {
        assert_eq!(text.parse::<Name>(), Err(NameError), "{text:?}");
    }
    assert_eq!(format!("{:>3}{:?}{}", name("a"), name("b"), Name::EMPTY), "  a\"b\"");
}

#[test]
fn a_received_name_ends_at_its_first_zero_or_at_its_length() {
    let read = |bytes: &[u8; 32]| Name::read(&mut Reader::new(bytes, Order::Big), "name").unwrap();
    let mut bytes = [0xff; 32];
    assert_eq!(read(&bytes).bytes(), [0xff; 31]);
    bytes[..3].copy_from_slice(b"ab\0");
    assert_eq!(read(&bytes), name("ab"));
    let mut written = Vec::new();
    read(&bytes).write(&mut Writer::new(&mut written, Order::Big));
    assert_eq!(written, [&b"ab"[..], &[0; 30]].concat());
}

fn destinations(count: u32) -> Vec<ProcessId> {
    let process = |n| ProcessId { nid: Nid::small(Net::TCP, 0x0a00_0000 + n), pid: Pid(n) };
    (0..count).map(process).collect()
}

#[test]
fn a_list_of_destinations_round_trips() {
    for count in [0, 1, 2, 340, Destination::COUNT_MAX] {
        let list = destinations(count);
        let bytes = Destination::encode_list(&list, FEATURES);
        assert_eq!(bytes.len(), (count * Destination::LEN) as usize);
        assert_eq!(Destination::decode_list(&bytes, count, Order::Little), Ok(list.clone()));
        // Without the feature the list is whole pages, of which a node may fetch less.
        let page = Destination::encode_list(&list, 0);
        assert_eq!(page.len(), if count == 0 { 0 } else { 4096 });
        assert_eq!(page[..bytes.len()], bytes);
        assert_eq!(Destination::decode_list(&page, count, Order::Little), Ok(list));
    }
}

#[test]
fn a_list_continues_at_the_start_of_each_page() {
    let list = destinations(700);
    let pages: Vec<u8> = list
        .chunks(Destination::COUNT_MAX as usize)
        .flat_map(|page| Destination::encode_list(page, 0))
        .collect();
    assert_eq!(pages.len(), 3 * 4096);
    assert_eq!(Destination::decode_list(&pages, 700, Order::Little), Ok(list));
    // With lengths in bytes a node does not fetch the end.
    let fetched = &pages[..700 * Destination::LEN as usize];
    let cut = Destination::decode_list(fetched, 700, Order::Little);
    assert!(matches!(cut, Err(DecodeError::Short { field: "destination", .. })), "{cut:?}");
}

#[test]
fn a_list_that_is_too_short_is_refused_for_any_count() {
    for (count, bytes) in [(1, 0), (2, 23), (u32::MAX, 24), (342, 341 * 12)] {
        let list = Destination::decode_list(&vec![0; bytes], count, Order::Big);
        assert!(matches!(list, Err(DecodeError::Short { .. })), "{count} in {bytes}: {list:?}");
    }
    let pid = |order| Destination::decode_list(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 1, order);
    assert_eq!(pid(Order::Big).unwrap()[0].pid, Pid(1));
    assert_eq!(pid(Order::Little).unwrap()[0].pid, Pid(1 << 24));
}

#[test]
#[should_panic(expected = "342 destinations")]
fn a_list_is_not_longer_than_every_node_understands() {
    Destination::encode_list(&destinations(342), FEATURES);
}

/// Bytes that have a valid header more often than random bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let body = prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()];
    let body = proptest::collection::vec(body, LEN);
    let service = prop_oneof![Just(11_u32), Just(12), any::<u32>()];
    (0..20_u32, any::<bool>(), service, 0..4_u32, body).prop_map(
        |(kind, is_big, service, features, mut bytes)| {
            let number =
                |number: u32| if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
            let fields = [(0, MAGIC), (8, kind), (20, features)];
            let test = [(64, service), (76, 1)].into_iter().filter(|_| kind == 8);
            for (offset, value) in fields.into_iter().chain(test) {
                bytes[offset..offset + 4].copy_from_slice(&number(value));
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Message::decode(&bytes).is_err());
    }

    #[test]
    fn decoded_messages_round_trip(bytes in bytes()) {
        let Ok((message, order)) = Message::decode(&bytes) else { return Ok(()) };
        let mut again = Vec::new();
        message.encode(order, &mut again);
        prop_assert_eq!(again.len(), LEN);
        prop_assert_eq!(Message::decode(&again), Ok((message, order)));
    }

    #[test]
    fn any_list_is_decoded_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..9000),
        count in 0..800_u32,
    ) {
        if let Ok(list) = Destination::decode_list(&bytes, count, Order::Little) {
            prop_assert_eq!(list.len(), count as usize);
        }
    }
}
