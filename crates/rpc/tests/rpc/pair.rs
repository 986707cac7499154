//! A client and a server on two nodes with LNet, in virtual time. A trivial LND of the test's
//! carries messages, and loses some.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fulmar_base::{ConnId, Payload, Rng, Sink, Time};
use fulmar_lnd::{NiConfig, NiTunables, Received, SendRequest, Verdict};
use fulmar_lnet::{
    Batch, Config, Globals, Lnet, Output, RoutingConfig, Service, ServiceConfig, ServiceId,
};
use fulmar_lnet_wire::{Net, Nid, Pid};
use fulmar_lustre_wire::Uuid;
use fulmar_lustre_wire::format::{CONNECT_DATA, Format};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, Status};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::{ExportLimits, Offer, TargetId};
use fulmar_rpc::import::{RequestId, State, TargetKind};
use fulmar_rpc::service::{
    PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

pub(crate) const CLIENT: Nid = Nid::small(Net::TCP, 0x0a00_0001);
pub(crate) const SERVER: Nid = Nid::small(Net::TCP, 0x0a00_0002);

/// A service of RPC over its LNet.
struct Node<S: Service> {
    lnet: Lnet,
    id: ServiceId,
    service: S,
    /// What the service wants of its host.
    requests: VecDeque<S::Request>,
    /// Messages to send.
    sends: Vec<(SendRequest, Vec<u8>)>,
    /// The payload of the message that is being received.
    arriving: Vec<u8>,
}

impl<S: Service> Node<S> {
    fn new(nid: Nid, cookie: u64, config: ServiceConfig, service: S) -> Self {
        let globals = Globals { discovery: false, ..Globals::default() };
        let routing = RoutingConfig::default();
        let config_of_node =
            Config { pid: Pid::LUSTRE, interface_cookie: cookie, globals, routing };
        let mut lnet = Lnet::new(config_of_node);
        let tunables = NiTunables::default();
        let ni = NiConfig { nid, tunables, incarnation: cookie, conns_per_peer: 1, conns_max: 1 };
        lnet.add_ni(Time::ZERO, ni, Duration::from_secs(50)).unwrap();
        lnet.start(Time::ZERO);
        let id = lnet.open_service(config);
        let (requests, sends, arriving) = Default::default();
        Self { lnet, id, service, requests, sends, arriving }
    }

    /// Does what the service and LNet want, until they want nothing.
    fn settle(&mut self, now: Time) {
        loop {
            if let Some(mut batch) = Batch::take(&mut self.service) {
                let (ops, mut results) = (std::mem::take(&mut batch.ops), Vec::new());
                self.lnet.post(now, self.id, ops, |result| results.push(result));
                batch.report(now, &mut self.service, results);
                self.requests.extend(batch.request);
            } else if let Some(output) = self.lnet.poll_output() {
                self.handle(now, output);
            } else {
                return;
            }
        }
    }

    fn handle(&mut self, now: Time, output: Output) {
        match output {
            Output::Send(request) => {
                let bytes = match &request.payload {
                    Payload::Empty => Vec::new(),
                    Payload::Inline(bytes) => bytes.to_vec(),
                    Payload::Span(span) => panic!("{span:?} is no message of RPC"),
                };
                self.lnet.handle_sent(now, request.message, Ok(()));
                self.sends.push((request, bytes));
            }
            Output::Verdict { rx, verdict: Verdict::Receive(sink), .. } => {
                let bytes = std::mem::take(&mut self.arriving);
                let bytes = match sink {
                    Sink::Inline { len } => bytes[..len as usize].to_vec(),
                    Sink::Discard { .. } => Vec::new(),
                    Sink::Span(span) => panic!("{span:?} is no message of RPC"),
                };
                self.lnet.handle_receive_done(now, rx, Ok(bytes));
            }
            Output::Event { event, bytes, .. } => {
                self.service.handle_event(now, &event, bytes);
                if let Some(done) = event.done {
                    self.lnet.handle_event_done(now, done);
                }
            }
            Output::Verdict { .. } | Output::Copy { .. } => panic!("{output:?}"),
            _ => {}
        }
    }

    fn receive(&mut self, now: Time, request: SendRequest, bytes: Vec<u8>) {
        let SendRequest { ni, next_hop, header, .. } = request;
        self.arriving = bytes;
        let received = Received { conn: ConnId(1), ni: next_hop, from: ni, header };
        self.lnet.handle_received(now, received);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.lnet.poll_timeout().is_some_and(|at| at <= now) {
            self.lnet.handle_timeout(now);
        }
        if self.service.poll_timeout().is_some_and(|at| at <= now) {
            self.service.handle_timeout(now);
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.lnet.poll_timeout(), self.service.poll_timeout()].into_iter().flatten().min()
    }
}

/// A client, a management service, and what is between them.
pub(crate) struct Pair {
    pub(crate) now: Time,
    rng: Rng,
    client: Node<Client>,
    server: Node<Server>,
    /// Messages under way, by the time of their arrival: to the server, or else to the client.
    wire: BTreeMap<(Time, u64), (bool, SendRequest, Vec<u8>)>,
    count: u64,
    /// One message in so many is lost; 0 for none.
    pub(crate) loss: u64,
    /// How long the host takes at most.
    pub(crate) work: Duration,
    working: BTreeMap<(Time, u64), Box<Request>>,
    /// Replies carry transaction numbers: they are saved.
    pub(crate) saves: bool,
    /// The XIDs that the host has executed, in order.
    pub(crate) executed: Vec<u64>,
    /// How many requests the client has begun.
    pub(crate) asked: usize,
    pub(crate) done: Vec<(RequestId, Result<Status, fulmar_base::Errno>)>,
    pub(crate) states: Vec<State>,
    /// All that happened.
    pub(crate) log: Vec<String>,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let client = Node::new(CLIENT, 1, Client::CONFIG, Client::new(1_700_000_000));
        Self {
            now: Time::from_secs(1),
            rng: Rng::new(seed),
            client,
            server: server(1),
            wire: BTreeMap::new(),
            count: 0,
            loss: 0,
            work: Duration::from_millis(10),
            working: BTreeMap::new(),
            saves: false,
            executed: Vec::new(),
            asked: 0,
            done: Vec::new(),
            states: Vec::new(),
            log: Vec::new(),
        }
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client.service
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server.service
    }

    /// The server starts again and has forgotten all; what is under way to it is lost.
    pub(crate) fn restart_server(&mut self, key: u64) {
        self.server = server(key);
        self.working.clear();
        self.wire.retain(|_, (is_to_server, ..)| !*is_to_server);
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
            let (is_to_server, request, bytes) = entry.remove();
            match is_to_server {
                true => self.server.receive(now, request, bytes),
                false => self.client.receive(now, request, bytes),
            }
        }
        if let Some(entry) = self.working.first_entry().filter(|entry| entry.key().0 <= now) {
            let request = entry.remove();
            self.finish(&request);
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
                Notice::Done { request, result, .. } => {
                    self.done.push((request, result.map(|reply| reply.body.status)));
                }
                Notice::State { state, .. } => self.states.push(state),
            }
        }
        while let Some(task) = self.server.requests.pop_front() {
            self.log.push(format!("{} {task:?}", self.now));
            if let Task::Execute(request) = task {
                self.executed.push(request.xid);
                let work = Duration::from_nanos(self.rng.below(self.work.as_nanos() as u64));
                self.count += 1;
                self.working.insert((self.now + work, self.count), request);
            }
        }
        let to_server = self.client.sends.drain(..).map(|(request, bytes)| (true, request, bytes));
        let to_client = self.server.sends.drain(..).map(|(request, bytes)| (false, request, bytes));
        for (is_to_server, request, bytes) in to_server.chain(to_client) {
            self.count += 1;
            if self.loss > 0 && self.rng.one_in(self.loss) {
                self.log.push(format!("{} lost {:?}", self.now, request.header));
                continue;
            }
            let latency = Duration::from_micros(self.rng.between(100, 2000));
            self.wire.insert((self.now + latency, self.count), (is_to_server, request, bytes));
        }
        self.server.service.check_invariants().unwrap();
    }

    /// Answers a request as the host of the server.
    fn finish(&mut self, request: &Request) {
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
    }

    pub(crate) fn import(&self, import: ImportId) -> Option<State> {
        self.client.service.import(import).map(|import| import.state())
    }
}

fn server(key: u64) -> Node<Server> {
    let mgs = Uuid::new("MGS").unwrap();
    let operations = &[Opcode::LLOG_CREATE];
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
