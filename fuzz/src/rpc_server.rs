//! Arbitrary requests of several clients, replies of the host, times and evictions on one RPC server.
//! After each its tables agree; when all has ended, it is idle.

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Bound, Event, EventKind, MdId, Op, Service, ServiceOutput};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{self, Format};
use fulmar_lustre_wire::message::{ConnectOpFlags, HeaderFlags, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_rpc::export::{Eviction, ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    Bounds, KnownClient, PartitionConfig, Request, SavedReply, Server, ServerConfig, TargetConfig,
    TargetState, Task, Window,
};
use fulmar_rpc::timeouts::Limits;

use crate::Choices;

/// The first byte of an input whose rest is one message.
pub const RAW: u8 = 0xff;

/// Runs the operations that the bytes encode, or delivers them as one message.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut world = World::new(&mut choices);
    match bytes.split_first() {
        Some((&RAW, message)) => world.deliver(1, 128, message.to_vec()),
        _ => {
            while !choices.is_empty() {
                world.step(&mut choices);
            }
        }
    }
    world.finish();
}

struct World {
    server: Server,
    now: Time,
    running: Vec<Request>,
    /// Replies under way.
    sending: Vec<u64>,
    /// Handles that a client may name.
    handles: Vec<Handle>,
}

const FORMATS: [&Format; 7] = [
    &format::MDS_CONNECT,
    &format::MDS_DISCONNECT,
    &format::PING,
    &format::REINT_CREATE,
    &format::GETATTR,
    &format::ENQUEUE,
    &format::CANCEL,
];
const FLAGS: [u32; 8] = [0, 0, 0, 2, 2, 4, 0x40, 0xc0];

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let mdt = Uuid::new("fs-MDT0000").expect("it is short");
        let bounds = Bounds { requests: 20, of_node: 12, of_node_crowded: 3, bytes: 64 << 10 };
        let running_max = 1 + choices.below(4) as u32;
        let portals = [portal::MDS_REQUEST, portal::MDS_READPAGE];
        let partition = PartitionConfig {
            running_max,
            bounds,
            ..PartitionConfig::new("mdt", &portals, 64 << 10)
        };
        let operations =
            &[Opcode::MDS_REINT, Opcode::MDS_GETATTR, Opcode::LDLM_ENQUEUE, Opcode::LDLM_CANCEL];
        let mut server = Server::new(ServerConfig {
            key: 1,
            partitions: vec![partition],
            targets: vec![TargetConfig { kind: TargetKind::Mdt, name: mdt, uuid: mdt, operations }],
            exports: ExportLimits { whole: 6, of_node: 3 },
            timeouts: Limits::default(),
        });
        server.set_state(TargetId(0), TargetState::Open);
        if choices.below(2) == 1 {
            server.set_last_committed(TargetId(0), 3);
            server.recover(Time::from_secs(9), TargetId(0), &known(), Window::default());
        }
        let (running, sending) = Default::default();
        let mut world =
            Self { server, now: Time::from_secs(9), running, sending, handles: vec![Handle(1)] };
        world.drain();
        world
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(12) {
            0..=5 => self.request(choices),
            6 | 7 => self.reply(choices),
            8 => self.finish_send(choices),
            9 => {
                self.now = self.now + Duration::from_secs(choices.below(80) as u64);
                self.server.handle_timeout(self.now);
            }
            10 => {
                let why = Eviction::Administrator;
                self.server.evict(self.now, choices.of(&self.handles), why);
            }
            _ => {
                let states = [TargetState::Open, TargetState::Starting, TargetState::Stopping];
                self.server.set_state(TargetId(0), choices.of(&states));
            }
        }
        self.drain();
    }

    fn request(&mut self, choices: &mut Choices<'_>) {
        let format = choices.of(&FORMATS);
        let mut message = Message::request(format);
        if *format == format::MDS_CONNECT {
            message = connect(message, choices);
        }
        message.head.flags = HeaderFlags(choices.below(4) as u32);
        let body = &mut message.body;
        body.handle = choices.of(&self.handles);
        body.connection_count = choices.below(4) as u32;
        body.timeout = choices.below(16) as u32;
        body.tag = choices.below(4) as u16;
        body.last_xid = 128 * choices.below(8) as u64;
        body.flags = MessageFlags(choices.of(&FLAGS));
        body.match_bits = choices.below(3) as u64;
        body.transno = choices.of(&[0, 0, 0, 0, 2, 4, 5, 6]);
        let (node, xid) = (choices.below(3) as u32, 128 * choices.below(12) as u64);
        let mut bytes = message.to_bytes();
        if choices.below(8) == 0 {
            let at = choices.below(bytes.len());
            bytes[at] = choices.byte();
        }
        self.deliver(node, xid, bytes);
    }

    fn deliver(&mut self, node: u32, xid: u64, bytes: Vec<u8>) {
        let from = ProcessId::lustre(Nid::small(Net::TCP, node));
        let event = Event {
            kind: EventKind::Put,
            target: ProcessId::lustre(Nid::small(Net::TCP, 9)),
            initiator: from,
            source: from,
            sender: from.nid,
            portal: portal::MDS_REQUEST,
            match_bits: xid,
            rlength: bytes.len() as u32,
            mlength: bytes.len() as u32,
            unlinked: false,
            ..Event::unlinked(MdId(0), 0)
        };
        self.server.handle_event(self.now, &event, bytes);
        self.drain();
    }

    fn reply(&mut self, choices: &mut Choices<'_>) {
        if self.running.is_empty() {
            return;
        }
        let request = self.running.swap_remove(choices.below(self.running.len()));
        let format = request.message.format();
        let mut reply = Message::reply(format, Status::OK);
        if let Ok(Some(data)) = request.message.get(&format::CONNECT_DATA) {
            reply = reply.with(&format::CONNECT_DATA, &data);
        }
        // A replay keeps its transaction.
        reply.body.transno = match request.message.body.transno {
            0 => choices.below(2) as u64,
            transno => transno,
        };
        match choices.below(6) {
            0 => self.server.discard(self.now, request.id),
            1 => {
                let error = Message::error(format, Status::failed(Errno::EIO));
                self.server.reply(self.now, request.id, error);
            }
            _ => self.server.reply(self.now, request.id, reply),
        }
    }

    fn finish_send(&mut self, choices: &mut Choices<'_>) {
        if !self.sending.is_empty() {
            let user = self.sending.swap_remove(choices.below(self.sending.len()));
            let status = if choices.flag() { Ok(()) } else { Err(Errno::EHOSTUNREACH) };
            let event = Event { kind: EventKind::Send, status, ..Event::unlinked(MdId(1), user) };
            self.server.handle_event(self.now, &event, Vec::new());
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServiceOutput::Post(Op::Put { from: Bound::New(md, _), .. }) => {
                    self.sending.push(md.user);
                }
                ServiceOutput::Post(_) => {}
                ServiceOutput::Host(Task::Execute(request)) => self.running.push(*request),
                ServiceOutput::Host(_) => {}
            }
        }
        self.handles.truncate(1);
        self.handles.extend(self.server.exports().iter().map(|(handle, _)| handle));
        self.server.check_invariants().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Ends everything: what the host executes, what is sent, and the clients, which are silent.
    fn finish(&mut self) {
        self.server.abort_recovery(self.now, TargetId(0));
        self.drain();
        while !self.running.is_empty() || !self.sending.is_empty() {
            let mut none = Choices::new(&[]);
            self.reply(&mut none);
            self.drain();
            self.finish_send(&mut none);
            self.drain();
        }
        self.server.is_idle().unwrap_or_else(|error| panic!("{error}"));
        while let Some(next) = self.server.poll_timeout() {
            self.now = self.now.max(next);
            self.server.handle_timeout(self.now);
            self.drain();
        }
        let is_timed = |flags: ConnectFlags| {
            !flags.has(ConnectFlags::PINGLESS) && !flags.has(ConnectFlags::MDS_MDS)
        };
        let left = self.server.exports().iter().filter(|(_, export)| is_timed(export.flags));
        assert_eq!(left.count(), 0, "silent clients are evicted");
    }
}

/// The clients that the target knows from its disk.
fn known() -> Vec<KnownClient> {
    let client = |name| Uuid::new(name).expect("it is short");
    let reply = Message::reply(&format::REINT_CREATE, Status::OK);
    let replies = vec![SavedReply { tag: 1, xid: 512, reply }];
    vec![
        KnownClient { client: client("one"), replies },
        KnownClient { client: client("two"), replies: Vec::new() },
    ]
}

fn connect(message: Message<'static>, choices: &mut Choices<'_>) -> Message<'static> {
    let some = [
        ConnectFlags::NONE,
        ConnectFlags::MDS_MDS,
        ConnectFlags::MDS,
        ConnectFlags::LIGHTWEIGHT,
        ConnectFlags::PINGLESS,
    ];
    let flags = ConnectFlags::FULL20 | ConnectFlags::AT | choices.of(&some);
    let flags2 = ConnectFlags2::REP_MBITS | ConnectFlags2(0x200 * choices.below(2) as u64);
    let data = ConnectData { flags, flags2, ..ConnectData::default() };
    let target = choices.of(&["fs-MDT0000", "fs-MDT0000", "fs-MDT0000", "other"]);
    let client = choices.of(&["one", "two", "three", "four"]);
    let uuid = |text| Uuid::new(text).expect("it is short");
    let mut message = message
        .with(&format::TARGET_UUID, &uuid(target))
        .with(&format::CLIENT_UUID, &uuid(client))
        .with(&format::CONNECTION, &Handle(choices.below(2) as u64))
        .with(&format::CONNECT_DATA, &data);
    message.body.connect_flags =
        ConnectOpFlags(ConnectOpFlags::INITIAL.0 * choices.below(2) as u32);
    message
}
