//! The callbacks of kernel servers: as our server sends them, and as our client node answers them.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet::{Bound, Event, EventKind, MdId, Memory, Op, Put, Service, ServiceOutput};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA, CONNECTION, MDS_CONNECT, TARGET_UUID};
use fulmar_lustre_wire::message::{Flavor, Message};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::reverse::Call;
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Task};
use fulmar_rpc::timeouts::Limits;
use fulmar_trace::rpc::Rpc;

use crate::recorded::{hosts_part, with_calls};

const NOW: Time = Time::from_secs(100);

/// A server, and what it wants.
struct Playback {
    server: Server,
    sent: Vec<(Put, Vec<u8>)>,
    tasks: Vec<Task>,
}

impl Playback {
    fn new(kind: TargetKind, partition: PartitionConfig) -> Self {
        let name = Uuid::new("target").unwrap();
        let operations = Opcode::KNOWN;
        let mut server = Server::new(ServerConfig {
            key: 7,
            partitions: vec![partition],
            targets: vec![TargetConfig { kind, name, uuid: name, operations }],
            exports: ExportLimits::default(),
            timeouts: Limits::default(),
        });
        server.set_state(TargetId(0), TargetState::Open);
        Self { server, sent: Vec::new(), tasks: Vec::new() }
    }

    fn deliver(&mut self, rpc: &Rpc<'_>, portal: u32, xid: u64, bytes: &[u8]) {
        let from = ProcessId::lustre(rpc.client);
        let len = bytes.len() as u32;
        let event = Event {
            kind: EventKind::Put,
            target: ProcessId::lustre(rpc.server),
            initiator: from,
            source: from,
            sender: from.nid,
            portal,
            match_bits: xid,
            rlength: len,
            mlength: len,
            unlinked: false,
            ..Event::unlinked(MdId(0), 0)
        };
        self.server.handle_event(NOW, &event, bytes.to_vec());
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServiceOutput::Post(Op::Put { from: Bound::New(_, memory), put }) => {
                    let Memory::Bytes(bytes) = memory else { panic!("{memory:?}") };
                    self.sent.push((put, bytes.to_vec()));
                }
                ServiceOutput::Post(_) => {}
                ServiceOutput::Host(task) => self.tasks.push(task),
            }
        }
        self.server.check_invariants().unwrap();
    }
}

/// What file clients are granted.
fn granted() -> ConnectData {
    let flags =
        ConnectFlags::FULL20 | ConnectFlags::AT | ConnectFlags::BULK_MBITS | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS;
    ConnectData { flags, flags2, ..ConnectData::default() }
}

#[test]
fn our_client_node_answers_recorded_callbacks_with_the_same_bytes() {
    with_calls("contend", |calls| {
        let mut played = 0;
        let mut playback = Playback::new(TargetKind::Client, PartitionConfig::callbacks());
        for rpc in calls.rpcs.iter().filter(|rpc| rpc.portal == portal::LDLM_CALLBACK_REQUEST) {
            let recorded = rpc.reply().unwrap();
            let body = &rpc.request.message.body;
            let server = ProcessId::lustre(rpc.client);
            let target = TargetId(0);
            playback.server.admit_server(
                NOW,
                target,
                body.handle,
                server,
                Flavor::NULL,
                &granted(),
            );
            playback.deliver(rpc, rpc.portal, rpc.xid, rpc.request.bytes);
            let Some(Task::Execute(request)) = playback.tasks.pop() else { panic!() };
            assert_eq!(request.export, body.handle);
            playback.server.reply(NOW, request.id, hosts_part(&recorded.message));
            playback.drain();
            let (put, bytes) = playback.sent.pop().expect("there is a reply");
            let reply = Message::decode(&bytes).unwrap().answering(recorded.message.format());
            let mut expected = recorded.message.clone();
            // The pool of the client's locks is its host's.
            expected.body.last_committed = reply.body.last_committed;
            assert_eq!(reply, expected, "{:#x}", rpc.xid);
            assert_eq!((put.match_bits, put.offset), (body.match_bits, recorded.offset));
            assert_eq!((put.portal, put.target), (portal::LDLM_CALLBACK_REPLY, server));
            played += 1;
        }
        assert_eq!(played, 28);
    });
}

#[test]
fn our_server_sends_callbacks_as_the_recorded_one() {
    with_calls("contend", |calls| {
        let mut played = 0;
        for rpc in calls.rpcs.iter().filter(|rpc| rpc.portal == portal::LDLM_CALLBACK_REQUEST) {
            let partition = PartitionConfig::new("mds", &[portal::MDS_REQUEST], 1 << 16);
            let mut playback = Playback::new(TargetKind::Mdt, partition);
            let recorded = &rpc.request.message;
            let export = connect(&mut playback, rpc, recorded.body.handle);
            let mut message = recorded.clone().into_owned();
            message.body = fulmar_lustre_wire::message::Body::request(recorded.body.opcode);
            let room = recorded.head.reply_room as usize;
            let call = Call::new(message, room, Duration::from_secs(100));
            playback.server.call(NOW, export, call).unwrap();
            playback.drain();
            let (put, bytes) = playback.sent.pop().expect("there is a request");
            let sent = Message::decode(&bytes).unwrap();
            assert_eq!((put.portal, put.target), (rpc.portal, ProcessId::lustre(rpc.client)));
            assert_eq!(sent.body.match_bits, put.match_bits);
            assert_eq!(sent.body.last_xid, put.match_bits - 1);
            let mut expected = recorded.clone();
            expected.body.status = Status::OK;
            expected.body.match_bits = sent.body.match_bits;
            expected.body.last_xid = sent.body.last_xid;
            assert_eq!(sent, expected, "{:#x}", rpc.xid);
            played += 1;
        }
        assert_eq!(played, 28);
    });
}

/// Connects the client of an export.
fn connect(playback: &mut Playback, rpc: &Rpc<'_>, connection: Handle) -> Handle {
    let data = granted();
    let mut connect = Message::request(&MDS_CONNECT)
        .with(&TARGET_UUID, &Uuid::new("target").unwrap())
        .with(&CLIENT_UUID, &Uuid::new("client").unwrap())
        .with(&CONNECTION, &connection)
        .with(&CONNECT_DATA, &data);
    (connect.body.timeout, connect.body.connection_count) = (5, 1);
    playback.deliver(rpc, portal::MDS_REQUEST, 128, &connect.to_bytes());
    let Some(Task::Execute(request)) = playback.tasks.pop() else { panic!("{:?}", playback.tasks) };
    let reply = Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &data);
    playback.server.reply(NOW, request.id, reply);
    playback.drain();
    let (_, bytes) = playback.sent.pop().expect("there is a reply");
    Message::decode(&bytes).unwrap().body.handle
}
