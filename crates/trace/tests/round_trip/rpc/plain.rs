//! A client that uses the flavor plain with its management service. Spec: ptlrpc-ldlm-mgs §9.3.

use std::collections::BTreeMap;

use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::message::{BulkHash, HashKind, Part, Policy};

use super::with_calls;

#[test]
fn messages_of_the_flavor_plain_decode_and_encode() {
    with_calls("plain", |calls| {
        let mut counts = BTreeMap::<Opcode, usize>::new();
        for rpc in &calls.rpcs {
            let flavor = rpc.request.message.head.flavor;
            if flavor.policy() != Policy::PLAIN {
                continue;
            }
            *counts.entry(rpc.request.message.body.opcode).or_default() += 1;
            assert_eq!((flavor.part(), flavor.hash()), (Part::MGC, HashKind::ADLER32));
            let packets = [&rpc.request].into_iter().chain(&rpc.replies);
            for packet in packets {
                assert_eq!(packet.message.to_bytes(), packet.bytes, "{rpc:?}");
                assert_eq!(packet.message.bulk.is_some(), !rpc.bulk.is_empty());
            }
            let Some(reply) = rpc.replies.first() else { continue };
            assert_eq!(reply.message.head.flavor, flavor.of_reply());
            let is_connect = rpc.request.message.body.opcode == Opcode::MGS_CONNECT;
            let offset = if is_connect { 0 } else { flavor.reply_offset() };
            assert_eq!(reply.offset as usize, offset, "{rpc:?}");
            if !rpc.bulk.is_empty() {
                let data = rpc.bulk.iter().map(|part| part.bytes);
                assert_eq!(reply.message.bulk, BulkHash::of(flavor.hash(), data));
            }
        }
        let expected = [
            (Opcode::LDLM_ENQUEUE, 4),
            (Opcode::LDLM_CANCEL, 3),
            (Opcode::MGS_CONNECT, 1),
            (Opcode::MGS_DISCONNECT, 1),
            (Opcode::MGS_CONFIG_READ, 1),
            (Opcode::LLOG_CREATE, 3),
            (Opcode::LLOG_NEXT_BLOCK, 2),
            (Opcode::LLOG_READ_HEADER, 2),
        ];
        assert_eq!(counts, BTreeMap::from(expected));
    });
}
