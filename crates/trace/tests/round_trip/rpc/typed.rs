//! Every buffer has a type, and its value encodes to the same bytes.

use std::collections::BTreeMap;

use fulmar_lustre_wire::format::{ENQUEUE_GETXATTR, UNKNOWN};
use fulmar_lustre_wire::message::{Kind, Message};
use fulmar_trace::rpc::Packet;

use super::{NAMES, with_calls};

#[test]
fn every_message_encodes_to_the_same_bytes() {
    let mut wrong = BTreeMap::<String, usize>::new();
    for name in NAMES {
        with_calls(name, |calls| {
            for rpc in &calls.rpcs {
                let all = [&rpc.request].into_iter().chain(&rpc.resends).chain(&rpc.early);
                for packet in all.chain(&rpc.replies) {
                    for problem in problems(packet) {
                        *wrong.entry(problem).or_default() += 1;
                    }
                }
            }
        });
    }
    assert_eq!(wrong, BTreeMap::new());
}

/// Returns what is unknown in a message, or changes when it is decoded and encoded.
fn problems(packet: &Packet<'_>) -> Vec<String> {
    let message = &packet.message;
    let format = message.format();
    let kind = message.body.kind;
    let mut problems = Vec::new();
    let mut add = |what: String| problems.push(format!("{format} {kind:?}: {what}"));
    if *format == UNKNOWN {
        add("has no format".to_owned());
    }
    let mut again = Vec::new();
    message.encode(&mut again);
    // After a buffer that was shortened, a server leaves bytes of the longer one.
    let is_shortened = kind == Kind::REPLY && *format == ENQUEUE_GETXATTR;
    if again != packet.bytes && !(is_shortened && again.len() == packet.bytes.len()) {
        add("encodes to other bytes".to_owned());
    }
    assert_eq!(Message::decode(&again).map(|m| m.answering(format)).as_ref(), Ok(message));
    for (place, (field, bytes)) in message.buffers().enumerate() {
        match field {
            _ if bytes.is_empty() => {}
            None => add(format!("buffer {place} is unknown")),
            Some(field) => match field.recode(bytes, message.order) {
                Ok(again) if again == bytes => {}
                Ok(again) => {
                    let len = bytes.len();
                    add(format!("{} of {len} bytes becomes {}", field.name(), again.len()));
                }
                Err(error) => add(format!("{}: {error}", field.name())),
            },
        }
    }
    problems
}
