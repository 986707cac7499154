//! The requests that kernel clients sent to kernel servers, played to a server of ours. Its host
//! answers what kernel servers answered; all that the server adds is what they added.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lnet::{Bound, Event, EventKind, MdId, Memory, Op, Put, Service, ServiceOutput};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLIENT_UUID, CONNECT_DATA, CONNECTION, Format, TARGET_UUID};
use fulmar_lustre_wire::message::{ConnectOpFlags, Message};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Task};
use fulmar_rpc::timeouts::Limits;
use fulmar_trace::lnet::parse;
use fulmar_trace::rpc::{Calls, Rpc};
use fulmar_trace::{Capture, Conversation, decompress};

#[test]
fn the_management_service_answers_a_mount_as_the_recorded_one() {
    with_calls("mount", |calls| {
        let mut playback = Playback::new();
        let at_mgs = |rpc: &&Rpc<'_>| rpc.portal == portal::MGS_REQUEST;
        let rpcs: Vec<&Rpc<'_>> = calls.rpcs.iter().filter(at_mgs).collect();
        for rpc in &rpcs {
            let sent = playback.play(rpc);
            let recorded = rpc.reply().unwrap();
            let expected = &recorded.message;
            let reply = sent.message(expected.format());
            assert_eq!(reply.body.status, expected.body.status);
            if rpc.request.message.body.opcode == Opcode::MGS_CONNECT {
                assert_granted_alike(rpc, &reply);
            }
        }
        let operations = &playback.server.stats(0).unwrap().operations;
        let count = |opcode| operations.get(&opcode).map_or(0, |one| one.count);
        assert_eq!((count(Opcode::MGS_CONNECT), count(Opcode::MGS_DISCONNECT)), (1, 1));
        assert_eq!(operations.values().map(|one| one.count).sum::<u64>(), rpcs.len() as u64);
        assert!(playback.server.exports().is_empty());
        playback.server.is_idle().unwrap();
    });
}

/// What our offer grants is what the recorded service granted, but for the release.
fn assert_granted_alike(rpc: &Rpc<'_>, reply: &Message<'_>) {
    let asked = rpc.request.message.require(&CONNECT_DATA).unwrap();
    let recorded = rpc.reply().unwrap().message.require(&CONNECT_DATA).unwrap();
    let offered = Offer::MGS.grant(&asked);
    assert_eq!(ConnectData { version: recorded.version, ..offered }, recorded);
    assert_eq!(reply.require(&CONNECT_DATA).unwrap(), recorded);
    assert!(!reply.body.handle.is_none());
}

#[test]
fn every_recorded_reply_comes_again_with_the_same_bytes() {
    for (name, count) in [("mount", 30), ("meta", 731), ("data", 359), ("contend", 103)] {
        with_calls(name, |calls| {
            let mut playback = Playback::new();
            let to_servers = |rpc: &&Rpc<'_>| rpc.portal != portal::LDLM_CALLBACK_REQUEST;
            let mut played = 0;
            for rpc in calls.rpcs.iter().filter(to_servers) {
                let recorded = rpc.reply().unwrap();
                let sent = playback.play(rpc);
                assert_eq!(sent.put.offset, recorded.offset, "{name} {:#x}", rpc.xid);
                let mut reply = sent.message(recorded.message.format()).into_owned();
                // Each server issues handles of its own.
                reply.body.handle = recorded.message.body.handle;
                assert_eq!(reply, recorded.message, "{name} {:#x}", rpc.xid);
                played += 1;
            }
            assert_eq!(played, count, "{name}");
            playback.server.is_idle().unwrap();
        });
    }
}

/// Calls `check` with the RPCs of a trace.
fn with_calls(name: &str, check: impl FnOnce(Calls<'_>)) {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = decompress(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let capture = Capture::read(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items: Vec<_> = Conversation::of(&capture).connections.iter().flat_map(parse).collect();
    check(Calls::of(&items));
}

/// A message of the server.
struct Sent {
    put: Put,
    bytes: Vec<u8>,
}

impl Sent {
    fn message(&self, format: &'static Format) -> Message<'_> {
        Message::decode(&self.bytes).unwrap().answering(format)
    }
}

/// A server with the targets of the recorded file system.
struct Playback {
    server: Server,
    now: Time,
    /// Our handle for each recorded one.
    handles: BTreeMap<Handle, Handle>,
    sent: Vec<Sent>,
    tasks: Vec<Task>,
    /// The number of a client that was connected before the recording.
    earlier: u64,
}

impl Playback {
    fn new() -> Self {
        let target = |kind, name: &str, uuid: &str| TargetConfig {
            kind,
            name: Uuid::new(name).unwrap(),
            uuid: Uuid::new(uuid).unwrap(),
            operations: Opcode::KNOWN,
        };
        let targets = vec![
            target(TargetKind::Mgs, "MGS", "MGS"),
            target(TargetKind::Mdt, "lv-MDT0000", "lv-MDT0000_UUID"),
            target(TargetKind::Ost, "lv-OST0000", "lv-OST0000_UUID"),
            target(TargetKind::Ost, "lv-OST0001", "lv-OST0001_UUID"),
        ];
        let others: Vec<u32> = (1..64)
            .filter(|&one| one != portal::MGS_REQUEST && portal::reply_to(one).is_some())
            .collect();
        let partitions =
            vec![PartitionConfig::mgs(), PartitionConfig::new("others", &others, 1 << 20)];
        let mut server = Server::new(ServerConfig {
            key: 1,
            partitions,
            targets,
            exports: ExportLimits::default(),
            timeouts: Limits::default(),
        });
        for target in 0..4 {
            server.set_state(TargetId(target), TargetState::Open);
        }
        let (handles, sent, tasks) = Default::default();
        Self { server, now: Time::ZERO, handles, sent, tasks, earlier: 0 }
    }

    /// Plays a request, and returns the reply.
    fn play(&mut self, rpc: &Rpc<'_>) -> Sent {
        self.now = rpc.request.time;
        let recorded = rpc.reply().expect("it was answered");
        let mut request = rpc.request.message.clone();
        let known = request.body.handle;
        if !known.is_none() && !self.handles.contains_key(&known) {
            self.connect_earlier(rpc);
        }
        request.body.handle = self.handles.get(&known).copied().unwrap_or_default();
        self.deliver(rpc, rpc.xid, &request);
        if let Some(Task::Execute(request)) = self.tasks.pop() {
            self.server.set_last_committed(request.target, recorded.message.body.last_committed);
            self.server.reply(self.now, request.id, hosts_part(&recorded.message));
            self.drain();
        }
        assert!(self.tasks.is_empty());
        let sent = self.sent.pop().expect("there is a reply");
        assert!(self.sent.is_empty());
        assert_eq!((sent.put.target.nid, sent.put.match_bits), (rpc.client, reply_bits(rpc)));
        assert_eq!(Some(sent.put.portal), portal::reply_to(rpc.portal));
        let handle = sent.message(recorded.message.format()).body.handle;
        if !handle.is_none() {
            self.handles.insert(recorded.message.body.handle, handle);
        }
        sent
    }

    /// Connects a client that was connected before the recording began.
    fn connect_earlier(&mut self, rpc: &Rpc<'_>) {
        self.earlier += 1;
        let (name, format) = match rpc.portal {
            portal::MGS_REQUEST => ("MGS", &fulmar_lustre_wire::format::MGS_CONNECT),
            portal::OST_REQUEST | portal::OST_IO | portal::OST_CREATE => {
                ("lv-OST0000", &fulmar_lustre_wire::format::OST_CONNECT)
            }
            _ => ("lv-MDT0000", &fulmar_lustre_wire::format::MDS_CONNECT),
        };
        let flags = ConnectFlags::FULL20 | ConnectFlags::AT | ConnectFlags::FLAGS2;
        let flags2 = ConnectFlags2::REP_MBITS | ConnectFlags2::INC_XID;
        let data = ConnectData { flags, flags2, ..ConnectData::default() };
        let client = Uuid::new(&format!("earlier-{}", self.earlier)).unwrap();
        let mut connect = Message::request(format)
            .with(&TARGET_UUID, &Uuid::new(name).unwrap())
            .with(&CLIENT_UUID, &client)
            .with(&CONNECTION, &Handle(self.earlier))
            .with(&CONNECT_DATA, &data);
        connect.body.timeout = 5;
        connect.body.connection_count = rpc.request.message.body.connection_count;
        connect.body.connect_flags = ConnectOpFlags::INITIAL;
        self.deliver(rpc, 128, &connect);
        let Some(Task::Execute(request)) = self.tasks.pop() else { panic!("{:?}", self.tasks) };
        let reply = Message::reply(format, Status::OK).with(&CONNECT_DATA, &data);
        self.server.reply(self.now, request.id, reply);
        self.drain();
        let sent = self.sent.pop().expect("there is a reply");
        self.handles.insert(rpc.request.message.body.handle, sent.message(format).body.handle);
    }

    fn deliver(&mut self, rpc: &Rpc<'_>, xid: u64, message: &Message<'_>) {
        let bytes = message.to_bytes();
        let from = ProcessId::lustre(rpc.client);
        let user = if rpc.portal == portal::MGS_REQUEST { 0 } else { 4 };
        let event = Event {
            kind: EventKind::Put,
            target: ProcessId::lustre(rpc.server),
            initiator: from,
            source: from,
            sender: from.nid,
            portal: rpc.portal,
            match_bits: xid,
            rlength: bytes.len() as u32,
            mlength: bytes.len() as u32,
            unlinked: false,
            ..Event::unlinked(MdId(0), user)
        };
        self.server.handle_event(self.now, &event, bytes);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServiceOutput::Post(Op::Put { from: Bound::New(md, memory), put }) => {
                    let Memory::Bytes(bytes) = memory else { panic!("{memory:?}") };
                    self.sent.push(Sent { put, bytes: bytes.to_vec() });
                    let kind = EventKind::Send;
                    let event = Event { kind, ..Event::unlinked(MdId(9), md.user) };
                    self.server.handle_event(self.now, &event, Vec::new());
                }
                ServiceOutput::Post(_) => {}
                ServiceOutput::Host(task) => self.tasks.push(task),
            }
        }
        self.server.check_invariants().unwrap();
    }
}

/// Returns a recorded reply without what the server fills in.
fn hosts_part(recorded: &Message<'_>) -> Message<'static> {
    let mut reply = recorded.clone().into_owned();
    reply.body.handle = Handle::NONE;
    reply.body.connect_flags = recorded.body.connect_flags.without(ConnectOpFlags::RECONNECT);
    (reply.body.service_time, reply.body.timeout, reply.body.last_committed) = (0, 0, 0);
    reply
}

/// Returns the match bits that a client expects. Spec: ptlrpc-ldlm-mgs §3.2.
fn reply_bits(rpc: &Rpc<'_>) -> u64 {
    let body = &rpc.request.message.body;
    match body.match_bits {
        bits if bits != 0 && !body.opcode.is_connect() => bits,
        _ => rpc.xid,
    }
}
