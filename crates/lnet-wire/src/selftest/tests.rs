//! Tests of the codec with the bytes of the specification, and with random bytes.

mod data;
mod examples;
mod histogram;
mod recorded;
mod values;

use fulmar_wire::testing::{hex, round_trip};

use super::*;
use crate::{Net, Nid, ProcessId};

/// Decodes a message that is padded with zeros; requires that it encodes to the same bytes, and
/// round-trips in the other byte order.
fn message(text: &str) -> Message {
    let mut bytes = hex(text);
    assert!(bytes.len() <= LEN);
    bytes.resize(LEN, 0);
    let little = |message: &Message, out: &mut Vec<u8>| message.encode(Order::Little, out);
    let (message, order) = round_trip(&bytes, Message::decode, |(message, _), out| {
        little(message, out);
    });
    assert_eq!(order, Order::Little);
    assert_eq!(message.to_bytes(), bytes);
    let mut big = Vec::new();
    message.encode(Order::Big, &mut big);
    assert_eq!(big.first_chunk(), Some(&MAGIC.to_be_bytes()));
    assert_eq!(Message::decode(&big), Ok((message.clone(), Order::Big)));
    message
}

/// Decodes a message with the only version and the only feature.
fn body(text: &str) -> Body {
    let message = message(text);
    assert_eq!((message.version, message.features), (VERSION, FEATURES));
    message.body
}

fn nid(a: u8, b: u8, c: u8, d: u8) -> Nid {
    Nid::small(Net::TCP, u32::from_be_bytes([a, b, c, d]))
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}
