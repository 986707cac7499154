//! Messages of a real client, made again.

use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECTION, TARGET_UUID};
use fulmar_lustre_wire::message::MessageFlags;
use fulmar_lustre_wire::{Opcode, portal};
use fulmar_trace::rpc::{Calls, Rpc};

use fulmar_trace::lnet;

use super::*;
use crate::Xid;
use crate::import::Sender;
use crate::import::replay_list::ReplayRequest;

const MOUNT: &[u8] = include_bytes!("../../../../../testdata/traces/mount.pcapng.gz");
const RECOVERY: &[u8] = include_bytes!("../../../../../testdata/traces/recovery.pcapng.gz");

/// Calls `check` with the RPCs of a capture.
fn with_calls(capture: &[u8], check: impl FnOnce(&Calls<'_>)) {
    let items = lnet::items(capture).unwrap();
    check(&Calls::of(&items));
}

/// Calls `check` with the first request for each of these operations, in the order of the capture.
fn recorded(opcodes: &[Opcode], check: impl Fn(&Rpc<'_>)) {
    with_calls(MOUNT, |calls| {
        for opcode in opcodes {
            let found = calls.rpcs.iter().find(|rpc| rpc.request.message.body.opcode == *opcode);
            check(found.unwrap_or_else(|| panic!("no {opcode:?}")));
        }
    });
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

/// An import that was connected before the capture, with all transactions of the client up to `connect`.
fn earlier(calls: &Calls<'_>, connect: &Rpc<'_>) -> Import {
    let mut import = Import::new(target(connect));
    let body = &connect.request.message.body;
    import.export = body.handle;
    import.connection_count = body.connection_count - 1;
    import.granted = import.target.data;
    import.state = State::Full;
    (import.is_known, import.is_replayable) = (true, true);
    let portals = [portal::MDS_REQUEST, portal::MDS_READPAGE];
    let of_client = calls.rpcs.iter().filter(|rpc| {
        let is_before = rpc.request.time < connect.request.time;
        rpc.client == connect.client && portals.contains(&rpc.portal) && is_before
    });
    let mut open = RequestId(0);
    for (n, rpc) in of_client.enumerate() {
        let reply = &rpc.replies[0].message.body;
        let (id, transno) = (RequestId(1000 + n as u64), reply.transno);
        let request = Request::new(rpc.request.message.clone().into_owned(), 1000);
        let is_open = reply.opcode == Opcode::LDLM_ENQUEUE;
        if transno != 0 {
            let kept = ReplayRequest { id, request, is_open };
            import.kept.keep((transno, Xid(rpc.xid)), kept);
        }
        match reply.opcode {
            Opcode::LDLM_ENQUEUE if transno != 0 => open = id,
            Opcode::MDS_CLOSE => import.kept.release(open, transno),
            _ => {}
        }
        import.kept.commit(reply.last_committed);
    }
    import
}

#[test]
fn a_client_of_a_restarted_target_says_what_a_real_one_said() {
    with_calls(RECOVERY, |calls| {
        let is_connect = |rpc: &&Rpc<'_>| {
            rpc.request.message.body.opcode == Opcode::MDS_CONNECT
                && rpc.client.to_string() == "10.99.0.1@tcp"
        };
        let connects: Vec<&Rpc<'_>> = calls.rpcs.iter().filter(is_connect).collect();
        let mut rig = Rig::new();
        rig.import = earlier(calls, connects[0]);
        assert!(rig.import.kept() > 10, "the target writes every few seconds");
        rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
        // The target stops, and is back after some seconds.
        let connect = rig.sent();
        assert_eq!(connect.bytes, connects[0].request.bytes);
        let data = message(&connect).answering(&format::MDS_CONNECT);
        assert_eq!(data.require(&CONNECT_DATA).unwrap().transno, 0x1_0000_0264);
        rig.reply(&connect, 0, connects[0].reply().unwrap().bytes);
        rig.wait();
        let connect = rig.sent();
        assert_eq!(connect.bytes, connects[1].request.bytes);
        let unanswered = Xid(0x6_b005_7673_c900);
        rig.import.unreplied.insert(unanswered);
        rig.xids = XidSource::new((unanswered.0 >> 20) + 1);
        rig.reply(&connect, 0, connects[1].reply().unwrap().bytes);
        assert_eq!((rig.import.kept(), rig.import.committed()), (0, 0x1_0000_0277));
        let ping = rig.sent();
        assert_eq!(rig.import.state(), State::ReplayWait);
        let recorded = calls.rpcs.iter().find(|rpc| {
            let flags = rpc.request.message.body.flags;
            flags.has(MessageFlags::LOCK_REPLAY_DONE) && rpc.client == connects[1].client
        });
        let (ours, recorded) = (message(&ping).body, recorded.unwrap().request.message.body);
        assert_eq!((ours.flags, ours.last_xid), (recorded.flags, unanswered.0 - 1));
        assert_eq!(ours.last_xid, recorded.last_xid);
        assert_eq!((ours.handle, ours.connection_count), (recorded.handle, 3));
        assert_eq!((ours.timeout, ours.opcode), (recorded.timeout, recorded.opcode));
    });
}
