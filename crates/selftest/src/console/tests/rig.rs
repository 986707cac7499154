//! A console, and simulated nodes that behave like kernel nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::{
    BatchOperation, BatchReply, Body, DebugReply, FEATURES, Histogram, LEN, MEASURE,
    MakeSessionReply, MeasureReply, Message, MessageType, Name, RemoveSessionReply, RpcCounters,
    SessionId, StatReply, Test, TestReply,
};
use fulmar_lnet_wire::{Net, Nid, ProcessId};

use crate::api::{CommandId, Config, OperationId, OperationResult, Output};
use crate::console::machine::Console;
use crate::console::{Answer, Command, KeyedCommand, NodeAnswer, NodeState, NodesReply, Reply};
use crate::rpc::{Caller, Rpcs};

pub(super) const KEY: u32 = 4711;

pub(super) fn nid(number: u32) -> Nid {
    Nid::small(Net::TCP, 0x0a00_0000 + number)
}

/// A node with scripted answers.
#[derive(Debug)]
pub(super) struct Fake {
    pub(super) alive: bool,
    /// Its session, its name, and the number of requests to enter it.
    pub(super) session: Option<(SessionId, Name, u32)>,
    pub(super) features: u32,
    /// Timeout in seconds.
    pub(super) timeout: u32,
    /// The running units that it reports.
    pub(super) active: u32,
    pub(super) tests: Vec<Test>,
    /// The destination lists that it fetched.
    pub(super) lists: Vec<Vec<ProcessId>>,
    /// The requests that it refuses, with the status.
    pub(super) refuses: BTreeMap<MessageType, Errno>,
    /// Whether it is a Fulmar node.
    pub(super) measured: Option<Histogram>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            alive: true,
            session: None,
            features: FEATURES,
            timeout: 100,
            active: 0,
            tests: Vec::new(),
            lists: Vec::new(),
            refuses: BTreeMap::new(),
            measured: None,
        }
    }
}

impl Fake {
    fn session_id(&self) -> SessionId {
        self.session.map_or(SessionId::INVALID, |(id, ..)| id)
    }

    fn answer(&mut self, request: &Message) -> Message {
        let refusal = self.refuses.get(&request.body.message_type()).map(|errno| errno.0 as u32);
        let body = match &request.body {
            Body::MakeSession(make) => {
                let mut name = Name::EMPTY;
                let status = match &mut self.session {
                    _ if refusal.is_some() => refusal.unwrap_or_default(),
                    Some((id, _, entered)) if *id == make.session => {
                        *entered += 1;
                        0
                    }
                    Some((_, theirs, _)) if make.force == 0 => {
                        name = *theirs;
                        Errno::EBUSY.0 as u32
                    }
                    session => {
                        *session = Some((make.session, make.name, 1));
                        0
                    }
                };
                let (session, timeout) = (self.session_id(), self.timeout);
                Body::MakeSessionReply(MakeSessionReply { status, session, timeout, name })
            }
            Body::RemoveSession(remove) => {
                let status = match &mut self.session {
                    None => Errno::ESRCH.0 as u32,
                    Some((id, ..)) if *id != remove.session => Errno::EBUSY.0 as u32,
                    Some((_, _, entered)) if *entered > 1 => {
                        *entered -= 1;
                        0
                    }
                    session => {
                        *session = None;
                        0
                    }
                };
                let session = self.session_id();
                Body::RemoveSessionReply(RemoveSessionReply { status, session })
            }
            Body::Debug(_) => Body::DebugReply(DebugReply {
                status: if self.session.is_some() { 0 } else { Errno::ESRCH.0 as u32 },
                session: self.session_id(),
                timeout: self.timeout,
                batches: 0,
                name: self.session.map_or(Name::EMPTY, |(_, name, _)| name),
            }),
            Body::Test(test) => {
                self.tests.push(*test);
                let (status, session) = (self.status(test.session, refusal), self.session_id());
                Body::TestReply(TestReply { status, session })
            }
            Body::Batch(batch) => Body::BatchReply(BatchReply {
                status: self.status(batch.session, refusal),
                session: self.session_id(),
                active: if batch.operation == BatchOperation::QUERY { self.active } else { 0 },
                time: 0,
            }),
            Body::Stat(stat) => self.stat(self.status(stat.session, refusal), stat.kind),
            other => panic!("{other:?} is not a request of a console"),
        };
        Message::new(self.features, body)
    }

    fn stat(&self, status: u32, kind: u32) -> Body {
        let session = self.session_id();
        match &self.measured {
            Some(histogram) if kind & 0xffff_0000 == MEASURE => Body::Measured(MeasureReply {
                status,
                session,
                rpcs: histogram.count(),
                bytes: 0,
                min_ns: 1,
                max_ns: 2,
                usage: Default::default(),
                slice: histogram.slice((kind & 0xffff) as usize),
            }),
            _ => Body::StatReply(StatReply {
                status,
                session,
                framework: Default::default(),
                rpc: RpcCounters { rpcs_sent: 7, ..Default::default() },
                lnet: Default::default(),
            }),
        }
    }

    fn status(&self, session: SessionId, refusal: Option<u32>) -> u32 {
        if session != self.session_id() {
            return Errno::ESRCH.0 as u32;
        }
        refusal.unwrap_or(0)
    }
}

/// An offer of the console to a node.
struct Offer {
    id: OperationId,
    /// The bytes to fetch; `None` if the node stores a reply.
    bytes: Option<Arc<[u8]>>,
}

/// The console, its RPCs, and the network.
pub(super) struct Rig {
    pub(super) console: Console,
    pub(super) now: Time,
    pub(super) nodes: BTreeMap<Nid, Fake>,
    /// All requests, in the order in which they were sent.
    pub(super) log: Vec<(Nid, Message)>,
    rpcs: Rpcs,
    /// By match bits.
    offers: BTreeMap<u64, Offer>,
    commands: u64,
    answers: BTreeMap<CommandId, Answer>,
}

impl Rig {
    /// Creates a console without a session, and nodes 1 to `count`.
    pub(super) fn new(count: u32) -> Self {
        let config = Config::default();
        Self {
            console: Console::new(&config),
            now: Time::from_secs(1),
            nodes: (1..=count).map(|number| (nid(number), Fake::default())).collect(),
            log: Vec::new(),
            rpcs: Rpcs::new(&config),
            offers: BTreeMap::new(),
            commands: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Creates the same with a session, in which group `c` has the nodes of `clients` and `s` those
    /// of `servers`.
    pub(super) fn with_groups(clients: &[u32], servers: &[u32]) -> Self {
        let count = clients.iter().chain(servers).max().copied().unwrap_or(0);
        let mut rig = Self::new(count);
        rig.new_session(false).expect("a first session");
        for (group, numbers) in [("c", clients), ("s", servers)] {
            rig.add_group(group, numbers);
        }
        rig
    }

    pub(super) fn node(&mut self, number: u32) -> &mut Fake {
        self.nodes.get_mut(&nid(number)).expect("a node of the test")
    }

    pub(super) fn new_session(&mut self, force: bool) -> Answer {
        let (name, features) = ("far".to_owned(), FEATURES);
        self.run(Command::NewSession { name, timeout: 300, force, features })
    }

    /// Creates a group with these nodes, and returns their answers.
    pub(super) fn add_group(&mut self, group: &str, numbers: &[u32]) -> Vec<NodeAnswer<()>> {
        self.run(Command::AddGroup { group: group.to_owned() }).expect("a new group");
        self.add_nodes(group, numbers)
    }

    pub(super) fn add_nodes(&mut self, group: &str, numbers: &[u32]) -> Vec<NodeAnswer<()>> {
        let nodes = numbers.iter().map(|number| nid(*number)).collect();
        self.ask(Command::AddNodes { group: group.to_owned(), nodes })
    }

    /// Executes a command that nodes answer, and returns the answers.
    pub(super) fn ask(&mut self, command: Command) -> Vec<NodeAnswer<()>> {
        match self.run(command) {
            Ok(Reply::Nodes(NodesReply { nodes, .. })) => nodes,
            other => panic!("no answers of nodes: {other:?}"),
        }
    }

    /// Executes a command that is answered at once, or when all nodes have answered or failed.
    pub(super) fn run(&mut self, command: Command) -> Answer {
        let id = self.begin(command);
        for _ in 0..31 {
            if let Some(answer) = self.answer(id) {
                return answer;
            }
            self.pass(Duration::from_secs(1));
        }
        panic!("command {id:?} has no answer after 30 s")
    }

    pub(super) fn begin(&mut self, command: Command) -> CommandId {
        self.begin_with(KEY, command)
    }

    pub(super) fn begin_with(&mut self, key: u32, command: Command) -> CommandId {
        self.commands += 1;
        let id = CommandId(self.commands);
        let command = KeyedCommand { key, command };
        self.console.begin(self.now, id, Some(nid(1)), command, &mut self.rpcs);
        self.settle();
        id
    }

    pub(super) fn answer(&mut self, id: CommandId) -> Option<Answer> {
        self.answers.remove(&id)
    }

    /// Advances time, and processes all events until then.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.console.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.console.handle_timeout(self.now, &mut self.rpcs);
            self.settle();
        }
        self.now = end;
    }

    /// Returns the targets of the requests of a kind so far, in order.
    pub(super) fn sent(&self, kind: MessageType) -> Vec<Nid> {
        let of_kind = |(_, message): &&(Nid, Message)| message.body.message_type() == kind;
        self.log.iter().filter(of_kind).map(|(to, _)| *to).collect()
    }

    pub(super) fn states(&mut self, group: &str) -> Vec<NodeState> {
        match self.run(Command::ShowGroup { group: group.to_owned() }) {
            Ok(Reply::Group(info)) => info.nodes.iter().map(|node| node.state).collect(),
            other => panic!("no group: {other:?}"),
        }
    }

    /// Ends the session, and checks that nothing is left.
    pub(super) fn finish(mut self) {
        let _: Answer = self.run(Command::EndSession {});
        self.pass(Duration::from_secs(31));
        self.console.is_idle().expect("nothing is left");
        assert_eq!(self.rpcs.len(), 0, "no call is left");
        assert_eq!(self.offers.len(), 0, "no offer is left");
    }

    fn settle(&mut self) {
        loop {
            if let Some(output) = self.rpcs.poll_output() {
                self.carry(output);
            } else if let Some(finished) = self.rpcs.poll_finished() {
                let Caller::Console(tag) = finished.caller else {
                    panic!("not a call of the console")
                };
                self.console.handle_finished(self.now, tag, finished, &mut self.rpcs);
            } else {
                break;
            }
        }
        self.console.check_invariants().expect("the invariants hold");
        while let Some((id, answer)) = self.console.poll_answer() {
            let before = self.answers.insert(id, answer);
            assert!(before.is_none() && id.0 <= self.commands, "{id:?} is answered once");
        }
    }

    fn carry(&mut self, output: Output) {
        match output {
            Output::OfferReply { id, match_bits, .. } => {
                self.offers.insert(match_bits, Offer { id, bytes: None });
            }
            Output::OfferBytes { id, match_bits, bytes, .. } => {
                self.offers.insert(match_bits, Offer { id, bytes: Some(bytes) });
            }
            Output::Withdraw { id } => {
                self.offers.retain(|_, offer| offer.id != id);
                self.done(id, Err(Errno::ECANCELED));
            }
            Output::Send { id, target, bytes, .. } => self.deliver(id, target, &bytes),
            other => panic!("{other:?} is not an output of a console"),
        }
    }

    fn deliver(&mut self, id: OperationId, target: ProcessId, bytes: &[u8]) {
        let (request, _) = Message::decode(bytes).expect("the console sends valid messages");
        self.log.push((target.nid, request.clone()));
        let Some(node) = self.nodes.get_mut(&target.nid) else {
            return self.done(id, Err(Errno::EHOSTUNREACH));
        };
        let reply = node.alive.then(|| node.answer(&request));
        self.done(id, Ok(OperationResult { len: LEN as u32, bytes: Vec::new() }));
        let Some(reply) = reply else { return };
        if let Body::Test(test) = &request.body
            && test.is_client
        {
            self.fetch(target.nid, test);
        }
        let offer = self.offers.remove(&reply_id(&request.body)).expect("offered before");
        self.done(offer.id, Ok(OperationResult { len: LEN as u32, bytes: reply.to_bytes() }));
    }

    fn fetch(&mut self, client: Nid, test: &Test) {
        let offer = self.offers.remove(&test.bulk_id).expect("a list is offered");
        let bytes = offer.bytes.expect("a list has bytes");
        let order = fulmar_wire::Order::Little;
        let list =
            fulmar_lnet_wire::selftest::Destination::decode_list(&bytes, test.destinations, order);
        let node = self.nodes.get_mut(&client).expect("it has just answered");
        node.lists.push(list.expect("a list of NIDs"));
        self.done(offer.id, Ok(OperationResult { len: bytes.len() as u32, bytes: Vec::new() }));
    }

    fn done(&mut self, id: OperationId, result: Result<OperationResult, Errno>) {
        self.rpcs.handle_done(self.now, id, result);
    }
}

fn reply_id(request: &Body) -> u64 {
    match request {
        Body::MakeSession(body) => body.reply_id,
        Body::RemoveSession(body) => body.reply_id,
        Body::Debug(body) => body.reply_id,
        Body::Batch(body) => body.reply_id,
        Body::Test(body) => body.reply_id,
        Body::Stat(body) => body.reply_id,
        other => panic!("{other:?} is not a request"),
    }
}
