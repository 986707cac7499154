//! A client and a server on two nodes with LNet, in virtual time. A trivial LND of the test's
//! carries messages, and loses some.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Rng, Sink, Time};
use fulmar_lnd::{RxId, SendRequest};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::format::{CONNECT_DATA, Format};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Status};
use fulmar_rpc::XidSource;
use fulmar_rpc::both::{Both, HostRequest};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::{RequestId, State, TargetKind};
use fulmar_rpc::service::{
    PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

use crate::data::Data;
use crate::node::Node;

pub(crate) const CLIENT: Nid = Nid::small(Net::TCP, 0x0a00_0001);
/// The connection of the client.
pub(crate) const CONNECTION: Handle = Handle(0x77);
pub(crate) const SERVER: Nid = Nid::small(Net::TCP, 0x0a00_0002);

/// A client, a management service, and what is between them.
pub(crate) struct Pair {
    pub(crate) now: Time,
    rng: Rng,
    pub(crate) client: Node<Both>,
    pub(crate) server: Node<Server>,
    /// What happens to messages, by its time.
    wire: BTreeMap<(Time, u64), Step>,
    count: u64,
    /// One message in so many is lost; 0 for none.
    pub(crate) loss: u64,
    /// Which messages are lost in any case.
    pub(crate) mute: Option<fn(&SendRequest) -> bool>,
    /// One connection in so many messages breaks; 0 for none.
    pub(crate) resets: u64,
    /// How long the host takes at most.
    pub(crate) work: Duration,
    /// What the hosts execute: that of the server, or else that of the client.
    working: BTreeMap<(Time, u64), (bool, Box<Request>)>,
    /// Replies carry transaction numbers: they are saved.
    pub(crate) saves: bool,
    /// The XIDs that the host has executed, in order.
    pub(crate) executed: Vec<u64>,
    /// How many requests the client has begun.
    pub(crate) asked: usize,
    /// The bulk data of both.
    pub(crate) data: Data,
    /// The results of callbacks, and how many the client has answered.
    pub(crate) called: Vec<Result<Status, fulmar_base::Errno>>,
    pub(crate) answered: usize,
    pub(crate) done: Vec<(RequestId, Result<Status, fulmar_base::Errno>)>,
    pub(crate) states: Vec<State>,
    /// All that happened.
    pub(crate) log: Vec<String>,
}

/// What happens to a message next: at the server, or else at the client.
enum Step {
    Write { at_server: bool, request: SendRequest },
    Arrive { at_server: bool, request: SendRequest, bytes: Vec<u8> },
    Store { at_server: bool, rx: RxId, sink: Sink, bytes: Vec<u8> },
}

impl Step {
    fn is_at_server(&self) -> bool {
        match self {
            Self::Write { at_server, .. }
            | Self::Arrive { at_server, .. }
            | Self::Store { at_server, .. } => *at_server,
        }
    }
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let client =
            Both { client: Client::new(XidSource::new(1_700_000_000)), callbacks: callbacks() };
        let client = Node::new(CLIENT, 1, Client::CONFIG, client);
        Self {
            now: Time::from_secs(1),
            rng: Rng::new(seed),
            client,
            server: server(1),
            wire: BTreeMap::new(),
            count: 0,
            loss: 0,
            mute: None,
            resets: 0,
            work: Duration::from_millis(10),
            working: BTreeMap::new(),
            saves: false,
            executed: Vec::new(),
            asked: 0,
            data: Data::default(),
            called: Vec::new(),
            answered: 0,
            done: Vec::new(),
            states: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client.service.client
    }

    pub(crate) fn callbacks(&mut self) -> &mut Server {
        &mut self.client.service.callbacks
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server.service
    }

    /// The server starts again and has forgotten all; what is under way to it is lost.
    pub(crate) fn restart_server(&mut self, key: u64) {
        self.server = server(key);
        self.working.retain(|_, (is_at_server, _)| !*is_at_server);
        self.data.forget();
        self.wire.retain(|_, step| !step.is_at_server());
    }

    /// Runs until nothing more happens before `until`, or `end` is true.
    pub(crate) fn run(&mut self, until: Time, end: impl Fn(&Self) -> bool) -> bool {
        loop {
            self.settle();
            if end(self) {
                return true;
            }
            let times = [
                self.wire.keys().next().map(|(at, _)| *at),
                self.working.keys().next().map(|(at, _)| *at),
                self.client.poll_timeout(),
                self.server.poll_timeout(),
            ];
            match times.into_iter().flatten().min() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => {
                    self.now = until;
                    return false;
                }
            }
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let step = entry.remove();
            self.carry(step);
        }
        if let Some(entry) = self.working.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                (true, request) => self.finish(&request),
                (false, request) => self.answer(&request),
            }
        }
        self.client.handle_timeout(now);
        self.server.handle_timeout(now);
    }

    fn settle(&mut self) {
        self.client.settle(self.now);
        self.server.settle(self.now);
        while let Some(notice) = self.client.requests.pop_front() {
            self.log.push(format!("{} {notice:?}", self.now));
            match notice {
                HostRequest::Notice(Notice::Done { request, result, moved, .. }) => {
                    let status = result.map(|reply| reply.body.status);
                    self.data.done(&mut self.client, request, status, moved);
                    self.done.push((request, status));
                }
                HostRequest::Notice(Notice::State { state, .. }) => self.states.push(state),
                HostRequest::Notice(Notice::Replayed { .. } | Notice::Released { .. }) => {}
                HostRequest::Task(Task::Execute(request)) => {
                    let at = self.now + self.time_of_work();
                    self.working.insert((at, self.count), (false, request));
                }
                HostRequest::Task(task) => panic!("{task:?}"),
            }
        }
        while let Some(task) = self.server.requests.pop_front() {
            self.log.push(format!("{} {task:?}", self.now));
            match task {
                Task::Execute(request) => {
                    self.executed.push(request.xid);
                    let at = self.now + self.time_of_work();
                    self.working.insert((at, self.count), (true, request));
                }
                Task::Transferred { request, result } => {
                    self.data.transferred(self.now, &mut self.server, request, result);
                }
                Task::Called { result, .. } => {
                    self.called.push(result.map(|reply| reply.body.status));
                }
                _ => {}
            }
            self.server.settle(self.now);
        }
        let at_client = self.client.sends.drain(..).map(|request| (false, request));
        let at_server = self.server.sends.drain(..).map(|request| (true, request));
        for (at_server, request) in at_client.chain(at_server).collect::<Vec<_>>() {
            self.schedule(500, Step::Write { at_server, request });
        }
        let at_client = self.client.stores.drain(..).map(|store| (false, store));
        let at_server = self.server.stores.drain(..).map(|store| (true, store));
        for (at_server, (rx, sink, bytes)) in at_client.chain(at_server).collect::<Vec<_>>() {
            self.schedule(500, Step::Store { at_server, rx, sink, bytes });
        }
        self.server.service.check_invariants().unwrap();
        self.client.service.callbacks.check_invariants().unwrap();
    }

    /// Does something within some microseconds.
    fn schedule(&mut self, micros: u64, step: Step) {
        self.count += 1;
        let latency = Duration::from_micros(self.rng.between(10, micros));
        self.wire.insert((self.now + latency, self.count), step);
    }

    fn carry(&mut self, step: Step) {
        let now = self.now;
        let breaks = self.resets > 0 && self.rng.one_in(self.resets);
        match step {
            Step::Write { at_server, request } if breaks => {
                if at_server {
                    self.server.fail(now, &request)
                } else {
                    self.client.fail(now, &request)
                }
            }
            Step::Write { at_server, request } => {
                let bytes = if at_server {
                    self.server.write(now, &request)
                } else {
                    self.client.write(now, &request)
                };
                let is_muted = self.mute.is_some_and(|mute| mute(&request));
                if is_muted || self.loss > 0 && self.rng.one_in(self.loss) {
                    return self.log.push(format!("{now} lost {:?}", request.header));
                }
                self.schedule(2000, Step::Arrive { at_server: !at_server, request, bytes });
            }
            Step::Arrive { at_server: true, request, bytes } => {
                self.server.receive(now, request, bytes);
            }
            Step::Arrive { at_server: false, request, bytes } => {
                self.client.receive(now, request, bytes);
            }
            Step::Store { at_server: true, rx, sink, bytes } => {
                self.server.store(now, rx, sink, &bytes, breaks);
            }
            Step::Store { at_server: false, rx, sink, bytes } => {
                self.client.store(now, rx, sink, &bytes, breaks);
            }
        }
    }

    /// Returns how long a host takes for its next request.
    fn time_of_work(&mut self) -> Duration {
        self.count += 1;
        Duration::from_nanos(self.rng.below(self.work.as_nanos() as u64))
    }

    /// Answers a callback as the host of the client.
    fn answer(&mut self, request: &Request) {
        assert_eq!(request.export, CONNECTION);
        self.answered += 1;
        let reply = Message::reply(request.message.format(), Status::OK);
        self.client.service.callbacks.reply(self.now, request.id, reply);
    }

    /// Answers a request as the host of the server.
    fn finish(&mut self, request: &Request) {
        if self.data.begin(self.now, &mut self.server, request) {
            return;
        }
        let format: &'static Format = request.message.format();
        let mut reply = Message::reply(format, Status::OK);
        if let Ok(Some(asked)) = request.message.get(&CONNECT_DATA) {
            reply = reply.with(&CONNECT_DATA, &Offer::MGS.grant(&asked));
        } else if self.saves {
            reply.body.transno = self.executed.len() as u64;
        }
        self.server.service.reply(self.now, request.id, reply);
    }

    /// Checks that neither node holds anything for the other, but for the import.
    pub(crate) fn assert_idle(&self) {
        self.server.service.is_idle().unwrap();
        assert!(self.wire.is_empty() && self.working.is_empty());
        assert!(self.client.buffers.is_empty() && self.server.buffers.is_empty());
    }

    pub(crate) fn import(&self, import: ImportId) -> Option<State> {
        self.client.service.client.import(import).map(|import| import.state())
    }
}

/// Returns the service of callbacks of the client.
fn callbacks() -> Server {
    let name = Uuid::new("callbacks").unwrap();
    let operations = &[Opcode::LDLM_BL_CALLBACK];
    let mut server = Server::new(ServerConfig {
        key: 99,
        partitions: vec![PartitionConfig::callbacks()],
        targets: vec![TargetConfig { kind: TargetKind::Client, name, uuid: name, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    server
}

fn server(key: u64) -> Node<Server> {
    let mgs = Uuid::new("MGS").unwrap();
    let operations = &[Opcode::LLOG_CREATE, Opcode::OST_READ, Opcode::OST_WRITE];
    let mut server = Server::new(ServerConfig {
        key: key.into(),
        partitions: vec![PartitionConfig::mgs()],
        targets: vec![TargetConfig { kind: TargetKind::Mgs, name: mgs, uuid: mgs, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    Node::new(SERVER, key, Server::CONFIG, server)
}
