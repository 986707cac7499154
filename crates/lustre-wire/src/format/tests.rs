use std::borrow::Cow;

use fulmar_base::Errno;
use fulmar_wire::{Field, Order, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ldlm::{Intent, IntentOps, LockFlags, LockRequest, LockType};
use crate::mdt::{BatchRequest, MdtBody};
use crate::message::{Body, Container, Head, Message};
use crate::testing::check_example;
use crate::{Bytes, Content, Fid, Status};

#[test]
fn every_operation_has_a_format() {
    for &opcode in Opcode::KNOWN {
        assert_eq!(Format::of(opcode).opcode, opcode);
    }
    assert_eq!(Format::of(Opcode(5000)), &UNKNOWN);
}

#[test]
fn the_requests_of_a_batch_are_in_buffers_of_4096_bytes() {
    let request =
        |count| BatchRequest { count, messages: Bytes(vec![0; 4088]), ..Default::default() };
    let requests = BatchRequests(vec![request(3), request(1)]);
    let bytes = requests.to_bytes();
    assert_eq!(bytes.len(), 2 * BatchRequests::BUFFER_LEN);
    assert_eq!(check_example::<BatchRequests>(&bytes), requests);
    assert_eq!(MDS_BATCH.bulk(&bytes).map(Buffer::name), Some("batch_requests"));
    assert!(OST_WRITE.bulk(&bytes).is_none());
}

#[test]
fn a_format_has_a_name_of_its_own() {
    let mut names: Vec<String> = Format::ALL.iter().map(ToString::to_string).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(ENQUEUE_OPEN.to_string(), "LDLM_ENQUEUE OPEN");
    // A message has at most 32 buffers, of which one is the body.
    assert!(Format::ALL.iter().all(|format| format.request.len().max(format.reply.len()) < 32));
}

#[test]
fn the_content_of_a_request_determines_its_format() {
    let formats = [
        (LockType::EXTENT, LockFlags::HAS_INTENT, None, &ENQUEUE_EXTENT),
        (LockType::FLOCK, LockFlags::NONE, None, &ENQUEUE_FLOCK),
        (LockType::PLAIN, LockFlags::NONE, None, &ENQUEUE),
        // The reading of a directory.
        (LockType::IBITS, LockFlags::HAS_INTENT, None, &ENQUEUE),
        (LockType::IBITS, LockFlags::HAS_INTENT, Some(IntentOps::LOOKUP), &ENQUEUE_GETATTR),
        (LockType::IBITS, LockFlags::HAS_INTENT, Some(IntentOps::CREAT), &ENQUEUE_CREATE),
        (LockType::IBITS, LockFlags::HAS_INTENT, Some(IntentOps(3)), &ENQUEUE_OPEN),
        (LockType::PLAIN, LockFlags::HAS_INTENT, Some(IntentOps::QUOTA_CONN), &ENQUEUE_QUOTA),
        (LockType::IBITS, LockFlags::HAS_INTENT, Some(IntentOps(1 << 40)), &ENQUEUE_INTENT),
    ];
    for (kind, flags, ops, expected) in formats {
        let mut lock = LockRequest { flags, ..LockRequest::default() };
        lock.lock.resource.kind = kind;
        let mut message = Message::request(&ENQUEUE_OPEN).with(&LOCK_REQUEST, &lock);
        if let Some(ops) = ops {
            message = message.with(&INTENT, &Intent { ops });
        }
        assert_eq!(Message::decode(&message.to_bytes()).unwrap().format(), expected);
    }
    let key = |key: &str| Message::request(&OST_GET_INFO).with_bytes(&KEY, key.as_bytes().to_vec());
    let format = |message: &Message<'_>| Message::decode(&message.to_bytes()).unwrap().format();
    assert_eq!(format(&key("last_fid\0")), &OST_LAST_FID);
    assert_eq!(format(&key("last_id")), &OST_LAST_ID);
    assert_eq!(format(&key("what")), &OST_GET_INFO);
    assert_eq!(format(&Message::request(&OST_GET_INFO)), &OST_GET_INFO);
}

#[test]
fn a_peer_of_the_other_byte_order_is_understood() {
    let fid = Fid { seq: 0x2_0000_0401, oid: 3, version: 0 };
    let encode = |order, value: &dyn Fn(&mut Writer<'_>)| {
        let mut bytes = Vec::new();
        value(&mut Writer::new(&mut bytes, order));
        Cow::Owned(bytes)
    };
    for order in [Order::Little, Order::Big] {
        let request = Body::request(Opcode::MDS_GETATTR);
        let attributes = MdtBody { fid, ..MdtBody::default() };
        let buffers =
            vec![encode(order, &|w| request.write(w)), encode(order, &|w| attributes.write(w))];
        let mut bytes = Vec::new();
        Container { head: Head::default(), order, buffers }.encode(&mut bytes);
        let message = Message::decode(&bytes).unwrap();
        assert_eq!((message.body, message.format()), (request, &GETATTR));
        assert_eq!(message.require(&MDT_BODY), Ok(attributes));
        assert_eq!(message.to_bytes(), bytes);
    }
}

#[test]
fn a_message_serialises_the_buffers_that_are_not_empty() {
    let message = Message::reply(&GETATTR, Status::failed(Errno::ENOENT))
        .with_bytes(&MDT_BODY, vec![1])
        .with(&ENCRYPTION, &Bytes(vec![0xab]));
    let value = serde_json::to_value(&message).unwrap();
    assert_eq!(value["body"]["status"], "ENOENT");
    assert_eq!(value["mdt_body"]["error"], "Fid.seq is cut off: 7 more bytes needed");
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["head", "body", "mdt_body", "encryption"]);
}

proptest! {
    #[test]
    fn no_content_makes_a_format_panic(
        place in 0..Format::ALL.len(),
        is_reply in any::<bool>(),
        buffers in vec(vec(any::<u8>(), 0..250), 0..14),
    ) {
        let format = Format::ALL[place];
        let fields = if is_reply { format.reply } else { format.request };
        for (field, bytes) in fields.iter().zip(&buffers) {
            for order in [Order::Little, Order::Big] {
                let _ = field.value(bytes, order);
                if let Ok(again) = field.recode(bytes, order) {
                    let value = field.value(&again, order);
                    prop_assert_eq!(value, field.value(bytes, order), "{:?}", field);
                }
            }
        }
        let buffers: Vec<Cow<'_, [u8]>> = buffers.into_iter().map(Cow::Owned).collect();
        let _ = Format::of_request(format.opcode, &buffers, Order::Little);
    }
}
