//! A server whose test plays LNet, the clients and the host.

mod bulk;
mod bulk_random;
mod calls;
mod checks;
mod hostile;
mod imports;
mod recovery;
mod replies;
mod targets;

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Bound, Event, EventKind, MdId, Memory, Op, Put, Service, ServiceOutput};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{
    CLIENT_UUID, CONNECT_DATA, CONNECTION, MGS_CONNECT, PING, TARGET_REG, TARGET_UUID,
};
use fulmar_lustre_wire::message::{HeaderFlags, Kind, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};

use super::*;
use crate::export::Offer;

const MGS: TargetId = TargetId(0);

fn node(n: u32) -> ProcessId {
    ProcessId::lustre(Nid::small(Net::TCP, n))
}

fn uuid(text: &str) -> Uuid {
    Uuid::new(text).unwrap()
}

fn config() -> ServerConfig {
    ServerConfig {
        key: 5,
        partitions: vec![PartitionConfig::mgs()],
        targets: vec![TargetConfig {
            kind: TargetKind::Mgs,
            name: uuid("MGS"),
            uuid: uuid("MGS"),
            operations: &[Opcode::MGS_TARGET_REG],
        }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    }
}

/// A message that the server sent.
struct Sent {
    put: Put,
    bytes: Vec<u8>,
    user: u64,
}

impl Sent {
    fn message(&self) -> Message<'_> {
        Message::decode(&self.bytes).unwrap()
    }

    fn status(&self) -> (Kind, i32) {
        let body = self.message().body;
        (body.kind, body.status.0)
    }
}

struct Rig {
    server: Server,
    now: Time,
    attached: usize,
    sent: VecDeque<Sent>,
    tasks: VecDeque<Task>,
    /// The operations of bulk data, and the descriptors that were unlinked.
    moves: VecDeque<Op>,
    unlinked: Vec<MdId>,
    /// Whether each PUT is reported as sent at once.
    sends: bool,
}

impl Rig {
    fn new(config: ServerConfig) -> Self {
        let mut server = Server::new(config);
        server.set_state(MGS, TargetState::Open);
        let now = Time::from_secs(1000);
        let (sent, tasks, moves, unlinked) = Default::default();
        let mut this = Self { server, now, attached: 0, sent, tasks, moves, unlinked, sends: true };
        this.drain();
        this
    }

    /// Drains the outputs of the server, and checks its tables.
    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServiceOutput::Post(Op::Attach { md, .. }) => {
                    self.attached += 1;
                    self.server.handle_posted(self.now, md.user, Ok(MdId(md.user)));
                }
                ServiceOutput::Post(op) if op.user().is_some_and(bulk::is_bulk) => {
                    self.moves.push_back(op);
                }
                ServiceOutput::Post(Op::Unlink(md)) => self.unlinked.push(md),
                ServiceOutput::Post(Op::Put { from: Bound::New(md, memory), put }) => {
                    let Memory::Bytes(bytes) = memory else { panic!("{memory:?}") };
                    self.sent.push_back(Sent { put, bytes: bytes.to_vec(), user: md.user });
                    if self.sends {
                        self.finish_send(md.user, Ok(()));
                    }
                }
                ServiceOutput::Post(op) => panic!("{op:?}"),
                ServiceOutput::Host(task) => self.tasks.push_back(task),
            }
        }
    }

    fn finish_send(&mut self, user: u64, status: Result<(), Errno>) {
        let event = Event { kind: EventKind::Send, status, ..Event::unlinked(MdId(9), user) };
        self.server.handle_event(self.now, &event, Vec::new());
    }

    /// Delivers the acknowledgement of a message, before the event that it was sent.
    fn acknowledge(&mut self, user: u64) {
        let (kind, status, unlinked) = (EventKind::Ack, Ok(()), false);
        let event = Event { kind, status, unlinked, ..Event::unlinked(MdId(9), user) };
        self.server.handle_event(self.now, &event, Vec::new());
    }

    /// Delivers bytes from a node.
    fn deliver(&mut self, from: ProcessId, portal: u32, xid: u64, bytes: Vec<u8>) {
        let event = Event {
            kind: EventKind::Put,
            target: node(0),
            initiator: from,
            source: from,
            sender: from.nid,
            portal,
            match_bits: xid,
            rlength: bytes.len() as u32,
            mlength: bytes.len() as u32,
            unlinked: false,
            ..Event::unlinked(MdId(0), 0)
        };
        self.server.handle_event(self.now, &event, bytes);
        self.drain();
        self.server.check_invariants().unwrap();
    }

    fn send(&mut self, from: ProcessId, xid: u64, message: &Message<'_>) {
        self.deliver(from, portal::MGS_REQUEST, xid, message.to_bytes());
    }

    /// Sends a request that is answered at once.
    fn ask(&mut self, from: ProcessId, xid: u64, message: &Message<'_>) -> Sent {
        self.send(from, xid, message);
        let sent = self.sent.pop_front().expect("there is a reply");
        assert!(self.sent.is_empty() && self.tasks.is_empty());
        sent
    }

    /// Removes and returns the next request for the host.
    fn request(&mut self) -> Request {
        match self.tasks.pop_front() {
            Some(Task::Execute(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn reply(&mut self, id: RequestId, reply: Message<'_>) -> Sent {
        self.server.reply(self.now, id, reply);
        self.drain();
        self.server.check_invariants().unwrap();
        self.sent.pop_front().expect("there is a reply")
    }

    /// Grants a CONNECT.
    fn grant(&mut self) -> Sent {
        let request = self.request();
        let asked = request.message.require(&CONNECT_DATA).unwrap();
        let reply = Message::reply(&MGS_CONNECT, Status::OK);
        self.reply(request.id, reply.with(&CONNECT_DATA, &Offer::MGS.grant(&asked)))
    }

    /// Connects a client, and returns its export.
    fn connect(&mut self, from: ProcessId, name: &str) -> Handle {
        self.send(from, 128, &connect(name));
        let sent = self.grant();
        assert_eq!(sent.status(), (Kind::REPLY, 0));
        let handle = sent.message().body.handle;
        assert!(self.server.exports().get(handle).is_some());
        handle
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.server.handle_timeout(self.now);
        self.drain();
        self.server.check_invariants().unwrap();
    }

    fn stats(&self) -> &Stats {
        self.server.stats(0).unwrap()
    }

    fn dropped(&self, why: DropReason) -> u64 {
        self.stats().dropped.get(&why).copied().unwrap_or(0)
    }
}

/// The first CONNECT of a client of the management service.
fn connect(name: &str) -> Message<'static> {
    let wanted = ConnectFlags::FULL20 | ConnectFlags::AT | ConnectFlags::FLAGS2;
    let flags2 = ConnectFlags2::REP_MBITS;
    let data = ConnectData { flags: wanted, flags2, ..ConnectData::default() };
    let mut message = Message::request(&MGS_CONNECT)
        .with(&TARGET_UUID, &uuid("MGS"))
        .with(&CLIENT_UUID, &uuid(name))
        .with(&CONNECTION, &Handle(77))
        .with(&CONNECT_DATA, &data);
    message.body.timeout = 5;
    message.body.connection_count = 1;
    message.body.connect_flags = fulmar_lustre_wire::message::ConnectOpFlags::INITIAL;
    message
}

/// A request of a connected client.
fn request(
    format: &'static fulmar_lustre_wire::format::Format,
    export: Handle,
) -> Message<'static> {
    let mut message = Message::request(format);
    message.head.flags = HeaderFlags::AT_SUPPORT;
    message.body.handle = export;
    message.body.connection_count = 1;
    message.body.timeout = 11;
    message
}

fn ping(export: Handle) -> Message<'static> {
    request(&PING, export)
}

/// A request that the host executes.
fn modify(export: Handle) -> Message<'static> {
    request(&TARGET_REG, export)
}

fn flagged(mut message: Message<'static>, flags: MessageFlags) -> Message<'static> {
    message.body.flags = flags;
    message
}
