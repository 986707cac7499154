//! The requests that kernel clients sent to kernel servers, played to a server of ours. Its host
//! answers what kernel servers answered; all that the server adds is what they added.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Time};
use fulmar_lnet::{Bound, Event, EventKind, MdId, Memory, Op, Put, Service, ServiceOutput};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, CONNECTION, Format, IO_OBJECTS, NIOBUFS, PING, TARGET_UUID,
};
use fulmar_lustre_wire::message::{Body, ConnectOpFlags, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    KnownClient, PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState, Task,
    Window,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_trace::lnet;
use fulmar_trace::rpc::{Calls, Rpc};

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
    for (name, count, moved) in
        [("mount", 30, 2), ("meta", 731, 11), ("data", 359, 18), ("contend", 103, 3)]
    {
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
            assert_eq!((played, playback.moved), (count, moved), "{name}");
            playback.server.is_idle().unwrap();
        });
    }
}

#[test]
fn a_metadata_target_recovers_as_the_recorded_one() {
    with_calls("recovery", |calls| {
        let mdt = TargetId(1);
        let opcode = |rpc: &Rpc<'_>| rpc.request.message.body.opcode;
        let of_recovery = calls.rpcs.iter().filter(|rpc| {
            let is_last = rpc.request.message.body.flags.has(MessageFlags::LOCK_REPLAY_DONE);
            let recovers = rpc.reply().is_some_and(|reply| {
                reply.message.body.connect_flags.has(ConnectOpFlags::RECOVERING)
            });
            rpc.portal == portal::MDS_REQUEST && (is_last || recovers)
        });
        let rpcs: Vec<&Rpc<'_>> = of_recovery.collect();
        let opcodes: Vec<Opcode> = rpcs.iter().map(|rpc| opcode(rpc)).collect();
        let each = [Opcode::MDS_CONNECT, Opcode::OBD_PING];
        assert_eq!(opcodes, [each, each].concat());

        let mut playback = Playback::new();
        playback.server.set_last_committed(mdt, 0x1_0000_0277);
        let connects = rpcs.iter().filter(|rpc| opcode(rpc) == Opcode::MDS_CONNECT);
        let client = |rpc: &&Rpc<'_>| rpc.request.message.require(&CLIENT_UUID).unwrap();
        let known = connects.map(|rpc| KnownClient { client: client(rpc), replies: Vec::new() });
        let known: Vec<KnownClient> = known.collect();
        playback.server.recover(rpcs[0].request.time, mdt, &known, Window::default());

        for connect_and_ping in rpcs.chunks(2) {
            let [connect, ping] = connect_and_ping else { unreachable!("there are four") };
            let recorded = &connect.reply().unwrap().message;
            let reply = playback.connect_again(connect);
            assert_eq!(reply.connect_flags, recorded.body.connect_flags);
            // A kernel says what of this client is on disk, ours what of the target is.
            assert_eq!(reply.last_committed, 0x1_0000_0277);
            assert!(recorded.body.last_committed <= reply.last_committed);
            playback.now = ping.request.time;
            let mut message = ping.request.message.clone();
            message.body.handle = reply.handle;
            playback.deliver(ping, ping.xid, &message);
            for early in &ping.early {
                assert!(playback.sent.is_empty(), "it waits for the other client");
                playback.now = early.time;
                playback.server.handle_timeout(playback.now);
                playback.drain();
                let sent = playback.sent.pop().expect("there is an early reply");
                let (ours, recorded) = (sent.message(&PING).body, early.message.body);
                assert_eq!(sent.put.offset, early.offset);
                assert_eq!((ours.timeout, ours.service_time), (36, 6));
                assert_eq!((recorded.timeout, recorded.service_time), (36, 6));
            }
        }
        assert_eq!(playback.tasks, [Task::Recovered { target: mdt }]);
        let sent = playback.sent.iter().map(|one| one.message(&PING).body.service_time);
        let mut times: Vec<u32> = sent.collect();
        let pings = rpcs.iter().filter(|rpc| opcode(rpc) == Opcode::OBD_PING);
        let recorded = pings.map(|rpc| rpc.reply().unwrap().message.body.service_time);
        let mut recorded: Vec<u32> = recorded.collect();
        recorded.sort_unstable();
        times.sort_unstable();
        assert_eq!(times, recorded);
        playback.server.is_idle().unwrap();
    });
}

/// Calls `check` with the RPCs of a trace.
pub(crate) fn with_calls(name: &str, check: impl FnOnce(Calls<'_>)) {
    let path = format!("{}/../../testdata/traces/{name}.pcapng.gz", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let items = lnet::items(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
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
    /// Operations of bulk data, and how many transfers there were.
    moves: Vec<Op>,
    moved: usize,
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
        let (handles, sent, tasks, moves) = Default::default();
        let now = Time::ZERO;
        Self { server, now, handles, sent, tasks, moves, moved: 0, earlier: 0 }
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
            if !rpc.bulk.is_empty() {
                self.transfer(rpc, &request);
            }
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

    /// Moves the bulk data of a request as the recorded server did.
    fn transfer(&mut self, rpc: &Rpc<'_>, request: &Request) {
        let mut recorded: Vec<_> = (rpc.bulk.iter())
            .map(|part| (part.from_server, part.match_bits, part.bytes.len() as u64))
            .collect();
        recorded.sort_unstable();
        let direction = if recorded[0].0 { Direction::ToClient } else { Direction::ToServer };
        let len = recorded.iter().map(|(_, _, len)| len).sum();
        let objects = request.message.get(&IO_OBJECTS).unwrap().map(|objects| objects.0);
        let ranges = request.message.get(&NIOBUFS).unwrap().map(|ranges| ranges.0);
        let parts_max = objects.map_or(1, |objects| objects[0].max_brw.transfers());
        let offset = ranges.map_or(0, |ranges| ranges[0].offset);
        let memory = (BufferId(1), 0, len);
        let bulk = Bulk::new(direction, portal::OST_BULK, memory, (offset % 4096) as u32);
        self.server.transfer(self.now, request.id, bulk, parts_max);
        self.drain();
        let ops = std::mem::take(&mut self.moves);
        let moved = ops.iter().map(|op| match op {
            Op::Put { from: Bound::New(md, _), put } => (true, put.match_bits, md.len),
            Op::Get { into: Bound::New(md, _), get } => (false, get.match_bits, md.len),
            op => panic!("{op:?}"),
        });
        assert_eq!(moved.collect::<Vec<_>>(), recorded, "{:#x}", rpc.xid);
        for (op, &(from_server, _, len)) in ops.iter().zip(&recorded) {
            let user = op.user().unwrap();
            let kind = if from_server { EventKind::Ack } else { EventKind::Reply };
            let event = Event { kind, mlength: len as u32, ..Event::unlinked(MdId(9), user) };
            self.server.handle_event(self.now, &event, Vec::new());
        }
        self.drain();
        let transferred = Task::Transferred { request: request.id, result: Ok(len) };
        assert_eq!(self.tasks.pop(), Some(transferred));
        self.moved += 1;
    }

    /// Plays the connect of a client that the target knows. Returns the body of the reply.
    fn connect_again(&mut self, rpc: &Rpc<'_>) -> Body {
        self.now = rpc.request.time;
        self.deliver(rpc, rpc.xid, &rpc.request.message);
        let Some(Task::Execute(request)) = self.tasks.pop() else { panic!("{:?}", self.tasks) };
        let recorded = &rpc.reply().expect("it was answered").message;
        let mut reply = hosts_part(recorded);
        reply.body.connect_flags = reply.body.connect_flags.without(ConnectOpFlags::RECOVERING);
        self.server.reply(self.now, request.id, reply);
        self.drain();
        self.sent.pop().expect("there is a reply").message(recorded.format()).body
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
        let flags = ConnectFlags::FULL20
            | ConnectFlags::AT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::FLAGS2;
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
                ServiceOutput::Post(op) if is_bulk(&op) => self.moves.push(op),
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

/// Returns whether an operation is one of bulk data.
fn is_bulk(op: &Op) -> bool {
    match op {
        Op::Put { put, .. } => portal::is_bulk(put.portal),
        Op::Get { .. } => true,
        Op::Attach { .. } | Op::Unlink(_) => false,
    }
}

/// Returns a recorded reply without what the server fills in.
pub(crate) fn hosts_part(recorded: &Message<'_>) -> Message<'static> {
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
