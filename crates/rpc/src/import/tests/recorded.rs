//! Messages of a real client, made again.

use fulmar_lustre_wire::Opcode;
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECTION, TARGET_UUID};
use fulmar_trace::rpc::{Calls, Rpc};

use fulmar_trace::{Capture, Conversation, decompress, lnet};

use super::*;
use crate::import::Sender;

const MOUNT: &[u8] = include_bytes!("../../../../../testdata/traces/mount.pcapng.gz");

/// Calls `check` with the first request for each of these operations, in the order of the capture.
fn recorded(opcodes: &[Opcode], check: impl Fn(&Rpc<'_>)) {
    let file = decompress(MOUNT).unwrap();
    let capture = Capture::read(&file).unwrap();
    let conversation = Conversation::of(&capture);
    let items: Vec<lnet::Item> = conversation.connections.iter().flat_map(lnet::parse).collect();
    let calls = Calls::of(&items);
    for opcode in opcodes {
        let found = calls.rpcs.iter().find(|rpc| rpc.request.message.body.opcode == *opcode);
        check(found.unwrap_or_else(|| panic!("no {opcode:?}")));
    }
}

/// Returns the target of a recorded connect.
fn target(rpc: &Rpc<'_>) -> Target {
    let connect = &rpc.request.message;
    let kind = match connect.body.opcode {
        Opcode::MGS_CONNECT => TargetKind::Mgs,
        Opcode::MDS_CONNECT => TargetKind::Mdt,
        _ => TargetKind::Ost,
    };
    let uuid = connect.require(&TARGET_UUID).unwrap();
    let data = connect.require(&CONNECT_DATA).unwrap();
    Target {
        client: connect.require(&CLIENT_UUID).unwrap(),
        connection: connect.require(&CONNECTION).unwrap(),
        sender: Sender {
            pid: connect.body.status.0,
            uid: connect.body.uid,
            gid: connect.body.gid,
            job: connect.body.job.unwrap(),
        },
        ..Target::new(kind, uuid, vec![rpc.server], data)
    }
}

#[test]
fn connects_are_those_of_a_real_client() {
    let opcodes = [Opcode::MGS_CONNECT, Opcode::MDS_CONNECT, Opcode::OST_CONNECT];
    recorded(&opcodes, |rpc| {
        let mut rig = Rig::new();
        rig.import = Import::new(target(rpc));
        rig.connect();
        let connect = rig.sent();
        assert_eq!(connect.bytes, rpc.request.bytes);
        assert_eq!((connect.to.nid, connect.portal), (rpc.server, rpc.portal));

        let reply = rpc.reply().expect("it was answered");
        rig.reply(&connect, reply.offset as usize, reply.bytes);
        assert_eq!(rig.next(), Output::Withdraw(connect.id));
        assert_eq!(rig.states(), [State::Full]);
        let granted = reply.message.require(&CONNECT_DATA).unwrap();
        assert_eq!(rig.import.granted(), &granted);
    });
}
