//! A server node with one target: its files, which it writes to disk late, and its locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_ldlm::server::{
    Answer, Callback, CallbackId, CallbackKind, Config, Enqueue, EvictReason, Features, Namespace,
    Outcome, Output, RequestId,
};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::format::{
    BLOCKING, CLIENT_UUID, COMPLETION, COMPLETION_EXTENT, CONNECT_DATA, LOCK_REPLY, LOCK_REQUEST,
    OST_LVB, STATFS,
};
use fulmar_lustre_wire::ldlm::{LockFlags, LockReply, LockType};
use fulmar_lustre_wire::mdt::Statfs;
use fulmar_lustre_wire::message::{ConnectOpFlags, Message, MessageFlags};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid, portal};
use fulmar_rpc::HandleSource;
use fulmar_rpc::export::{Eviction, ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::reverse::{Call, CallId};
use fulmar_rpc::service::{
    KnownClient, PartitionConfig, Request, SavedReply, Server, ServerConfig, TargetConfig,
    TargetState, Task, Window,
};
use fulmar_rpc::timeouts::Limits;

use super::check::{Ledger, Part, part_of};
use super::client::{place, uuid_of};
use super::node::Node;
use super::plan::{Fault, Plan};

const TARGET: TargetId = TargetId(0);
/// How long a client may take for a callback.
const CALLBACK_LIMIT: Duration = Duration::from_secs(100);

/// Returns the NID of the node of a target.
pub(crate) fn nid(target: usize) -> Nid {
    Nid::small(Net::TCP, 0x0a00_0201 + target as u32)
}

/// Returns the UUID of a target.
pub(crate) fn uuid(target: usize) -> Uuid {
    Uuid::new(&format!("fs-MDT{target:04x}_UUID")).unwrap()
}

/// What survives a restart once it is on disk.
#[derive(Clone, Debug, Default)]
struct Store {
    /// The writes that were applied, with their transactions.
    applied: Vec<(u64, u64)>,
    versions: BTreeMap<Part, u64>,
    clients: BTreeMap<usize, BTreeMap<u16, SavedReply>>,
}

impl Store {
    fn writes(&self) -> BTreeSet<u64> {
        self.applied.iter().map(|&(_, version)| version).collect()
    }

    fn last(&self) -> u64 {
        self.applied.last().map_or(0, |&(transno, _)| transno)
    }
}

pub(crate) struct Target {
    number: usize,
    fault: Fault,
    pub(crate) node: Node<Server>,
    locks: Namespace,
    now: Store,
    disk: Store,
    /// How often the target has started.
    start: u64,
    transno: u64,
    exports: BTreeMap<Handle, usize>,
    work: Duration,
    pub(crate) working: BTreeMap<(Time, u64), Box<Request>>,
    worked: u64,
    /// Requests for locks without an answer.
    enqueues: BTreeMap<RequestId, Box<Request>>,
    callbacks: BTreeMap<CallId, CallbackId>,
}

impl Target {
    pub(crate) fn new(number: usize, plan: &Plan, fault: Fault) -> Self {
        let mut this = Self {
            number,
            fault,
            node: node(number, 1),
            locks: namespace(number, 1),
            now: Store::default(),
            disk: Store::default(),
            start: 1,
            transno: 1 << 32,
            exports: BTreeMap::new(),
            work: plan.work,
            working: BTreeMap::new(),
            worked: 0,
            enqueues: BTreeMap::new(),
            callbacks: BTreeMap::new(),
        };
        this.open();
        this
    }

    pub(crate) fn open(&mut self) {
        self.node.service.set_state(TARGET, TargetState::Open);
    }

    /// The target starts again with what is on disk.
    pub(crate) fn restart(&mut self, now: Time, ledger: &mut Ledger) {
        self.start += 1;
        self.now = self.disk.clone();
        self.transno = self.start << 32;
        (self.node, self.locks) =
            (node(self.number, self.start), namespace(self.number, self.start));
        self.working.clear();
        self.enqueues.clear();
        self.callbacks.clear();
        let known = self.disk.clients.iter().map(|(&client, replies)| {
            let replies = replies.values().cloned().collect();
            KnownClient { client: uuid_of(client), replies }
        });
        let known: Vec<KnownClient> = known.collect();
        let server = &mut self.node.service;
        server.set_last_committed(TARGET, self.disk.last());
        let exports = server.recover(now, TARGET, &known, Window::default());
        self.exports = exports.into_iter().zip(self.disk.clients.keys().copied()).collect();
        if !known.is_empty() {
            self.locks.begin_recovery();
        }
        ledger.restarted(self.number, &self.disk.writes());
    }

    /// Writes everything to disk.
    pub(crate) fn commit(&mut self) {
        self.disk = self.now.clone();
        self.node.service.set_last_committed(TARGET, self.disk.last());
    }

    pub(crate) fn version(&self, part: Part) -> u64 {
        self.now.versions.get(&part).copied().unwrap_or(0)
    }

    /// Does what the server and the locks want, until they want nothing.
    pub(crate) fn settle(&mut self, now: Time, rng: &mut Rng, ledger: &mut Ledger) {
        self.node.settle(now);
        while let Some(task) = self.node.requests.pop_front() {
            match task {
                Task::Execute(request) => {
                    let work = Duration::from_nanos(rng.below(self.work.as_nanos() as u64));
                    self.worked += 1;
                    self.working.insert((now + work, self.worked), request);
                }
                Task::Called { call, result, .. } => self.called(now, call, result),
                Task::Evicted { export, why, .. } => {
                    self.locks.handle_disconnect(now, export);
                    if let Some(client) = self.forget(export) {
                        let was_silent = why == Eviction::Silence;
                        if !(was_silent && ledger.was_silent(now, client, self.number)) {
                            ledger.check_eviction(client);
                        }
                        ledger.evicted(client, self.number, &self.now.writes());
                    }
                }
                Task::Recovered { .. } => self.locks.end_recovery(now),
                Task::Confirmed { .. } | Task::PortalFailed { .. } | Task::Transferred { .. } => {
                    panic!("{task:?}")
                }
            }
            self.follow_locks(now, ledger);
            self.node.settle(now);
            self.node.service.check_invariants().unwrap();
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let working = self.working.keys().next().map(|(at, _)| *at);
        [self.node.poll_timeout(), self.locks_timeout(), working].into_iter().flatten().min()
    }

    fn locks_timeout(&self) -> Option<Time> {
        let evicts = self.fault != Fault::IgnoresBlockingForEver;
        self.locks.poll_timeout().filter(|_| evicts)
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, ledger: &mut Ledger) {
        if let Some(entry) = self.working.first_entry().filter(|entry| entry.key().0 <= now) {
            let request = entry.remove();
            self.execute(now, request, ledger);
        }
        self.node.handle_timeout(now);
        if self.locks_timeout().is_some_and(|at| at <= now) {
            self.locks.handle_timeout(now);
        }
        self.follow_locks(now, ledger);
    }

    /// Forgets a client, unless it has another export.
    fn forget(&mut self, export: Handle) -> Option<usize> {
        let client = self.exports.remove(&export)?;
        if !self.exports.values().any(|other| *other == client) {
            self.now.clients.remove(&client);
            self.disk.clients.remove(&client);
        }
        Some(client)
    }

    fn execute(&mut self, now: Time, request: Box<Request>, ledger: &mut Ledger) {
        let reply = |status| Message::reply(request.message.format(), status);
        let answer = match request.message.body.opcode {
            Opcode::MDS_CONNECT => return self.connect(now, &request, ledger),
            Opcode::LDLM_ENQUEUE => return self.enqueue(now, request),
            Opcode::LDLM_CONVERT => {
                let lock = request.message.require(&LOCK_REQUEST).unwrap();
                let (id, export) = (RequestId(request.id.0), request.export);
                self.enqueues.insert(id, request);
                return self.locks.handle_convert(now, id, export, &lock);
            }
            Opcode::LDLM_CANCEL => {
                let lock = request.message.require(&LOCK_REQUEST).unwrap();
                match self.locks.handle_cancel(now, request.export, &lock) {
                    Ok(0) => reply(Status(Errno::ESTALE.0)),
                    Ok(_) => reply(Status::OK),
                    Err(errno) => reply(Status::failed(errno)),
                }
            }
            Opcode::MDS_DISCONNECT => {
                self.locks.handle_disconnect(now, request.export);
                self.forget(request.export);
                reply(Status::OK)
            }
            Opcode::MDS_STATFS => {
                let part = part_of(self.number, request.message.body.project);
                reply(Status::OK)
                    .with(&STATFS, &Statfs { blocks: self.version(part), ..Statfs::default() })
            }
            _ => self.apply(&request, ledger),
        };
        self.node.service.reply(now, request.id, answer);
    }

    fn connect(&mut self, now: Time, request: &Request, ledger: &mut Ledger) {
        let asked: ConnectData = request.message.require(&CONNECT_DATA).unwrap();
        let client = place(request.message.require(&CLIENT_UUID).unwrap());
        self.exports.insert(request.export, client);
        // The record of a client is written before it may have transactions.
        self.now.clients.entry(client).or_default();
        self.disk.clients.entry(client).or_default();
        let granted = ConnectData { instance: self.start as u32, modify_rpcs_max: 8, ..asked };
        let mut reply = Message::reply(request.message.format(), Status::OK);
        reply.body.connect_flags = ConnectOpFlags::REPLAYABLE;
        self.node.service.reply(now, request.id, reply.with(&CONNECT_DATA, &granted));
        match self.node.service.exports().get(request.export) {
            Some(_) => {
                self.locks.handle_connect(request.export, Features::default());
                ledger.connected(client, self.number);
            }
            None => drop(self.forget(request.export)),
        }
    }

    fn enqueue(&mut self, now: Time, request: Box<Request>) {
        let lock = request.message.require(&LOCK_REQUEST).unwrap();
        let (id, export) = (RequestId(request.id.0), request.export);
        let is_resent = request.message.body.flags.has(MessageFlags::RESENT);
        self.enqueues.insert(id, request);
        let outcome = Outcome::Ordinary;
        let enqueue = Enqueue { request: id, export, lock, is_resent, outcome };
        self.locks.handle_enqueue(now, enqueue);
    }

    /// Executes a write.
    fn apply(&mut self, request: &Request, ledger: &mut Ledger) -> Message<'static> {
        let mut reply = Message::reply(request.message.format(), Status::OK);
        let body = &request.message.body;
        let Some(&client) = self.exports.get(&request.export) else { return reply };
        if body.transno != 0 {
            ledger.seen.replays += 1;
            reply.body.transno = body.transno;
        } else {
            self.transno += 1;
            reply.body.transno = self.transno;
        }
        let version = u64::from(body.project);
        let part = ledger.part(version);
        let old = self.now.versions.get(&part).copied();
        ledger.apply(version, old);
        self.now.versions.insert(part, version);
        self.now.applied.push((reply.body.transno, version));
        if self.fault == Fault::WritesTwice {
            self.transno += 1;
            self.now.applied.push((self.transno, version));
        }
        ledger.check_applied(&self.now.applied);
        let saved = SavedReply { tag: body.tag, xid: request.xid, reply: reply.clone() };
        if let Some(replies) = self.now.clients.get_mut(&client) {
            replies.insert(body.tag, saved);
        }
        reply
    }

    fn called(&mut self, now: Time, call: CallId, result: Result<Box<Message<'static>>, Errno>) {
        let Some(callback) = self.callbacks.remove(&call) else { return };
        let answer = match result {
            Ok(reply) => Answer::Answered(reply.body.status, None),
            Err(_) => Answer::Failed,
        };
        self.locks.handle_answer(now, callback, answer);
    }

    fn follow_locks(&mut self, now: Time, ledger: &mut Ledger) {
        while let Some(output) = self.locks.poll_output() {
            match output {
                Output::Reply { request, status, mut reply, lvb } => {
                    let Some(request) = self.enqueues.remove(&request) else { continue };
                    self.tamper(&mut reply);
                    let mut message = Message::reply(request.message.format(), status);
                    message = message.with(&LOCK_REPLY, &reply);
                    if let Some(lvb) = lvb {
                        message = message.with(&OST_LVB, &lvb);
                    }
                    self.node.service.reply(now, request.id, message);
                }
                Output::Callback(callback) => self.call(now, &callback, ledger),
                Output::ReadLvb { resource } => {
                    self.locks.handle_lvb(now, resource, Ok(Default::default()));
                }
                Output::Evict { export, why, .. } => {
                    let why = match why {
                        EvictReason::NotCancelled => Eviction::NotCancelled,
                        EvictReason::NotAnswered => Eviction::NotAnswered,
                    };
                    self.node.service.evict(now, export, why);
                }
                Output::Local { .. } | Output::LocalBlocks { .. } => panic!("{output:?}"),
            }
            self.locks.check_invariants().unwrap();
        }
    }

    /// Says that a lock is granted that is not, if that is the fault.
    fn tamper(&self, reply: &mut LockReply) {
        if self.fault == Fault::GrantsInConflict && reply.flags.has(LockFlags::BLOCK_GRANTED) {
            reply.flags = reply.flags.without(LockFlags::BLOCK_GRANTED);
            reply.lock.granted = reply.lock.requested;
        }
    }

    fn call(&mut self, now: Time, callback: &Callback, ledger: &mut Ledger) {
        let is_extent = callback.lock.lock.resource.kind == LockType::EXTENT;
        let format = match callback.kind {
            CallbackKind::Blocking => &BLOCKING,
            CallbackKind::Completion if is_extent => &COMPLETION_EXTENT,
            CallbackKind::Completion => &COMPLETION,
            CallbackKind::Glimpse => panic!("attributes were not requested: {callback:?}"),
        };
        match callback.kind {
            CallbackKind::Completion => ledger.seen.completions += 1,
            _ => ledger.seen.blocking += 1,
        }
        if callback.kind == CallbackKind::Completion && self.fault == Fault::LosesCompletion {
            return self.locks.handle_answer(now, callback.id, Answer::Answered(Status::OK, None));
        }
        let mut message = Message::request(format).with(&LOCK_REQUEST, &callback.lock);
        if let Some(lvb) = callback.lvb {
            message = message.with(&OST_LVB, &lvb);
        }
        let call = Call::new(message, 1024, CALLBACK_LIMIT);
        match self.node.service.call(now, callback.export, call) {
            Some(call) if callback.has_answer => drop(self.callbacks.insert(call, callback.id)),
            None if callback.has_answer => {
                self.locks.handle_answer(now, callback.id, Answer::Failed)
            }
            _ => {}
        }
    }

    /// Checks that nothing is left of clients.
    ///
    /// # Errors
    /// What is left.
    pub(crate) fn is_idle(&self) -> Result<(), String> {
        let kept = [
            self.node.service.exports().len(),
            self.exports.len(),
            self.enqueues.len(),
            self.callbacks.len(),
            self.now.clients.len(),
        ];
        if kept.iter().any(|&count| count > 0) {
            return Err(format!("target {} keeps {kept:?}", self.number));
        }
        self.node.service.is_idle()?;
        self.locks.is_idle()
    }
}

fn namespace(target: usize, start: u64) -> Namespace {
    let types = &[LockType::EXTENT, LockType::IBITS];
    let mut handles = HandleSource::new((u128::from(start) << 64) + target as u128 + 7);
    Namespace::new(Config { types, ..Config::mdt() }, move || handles.issue())
}

fn node(target: usize, start: u64) -> Node<Server> {
    let operations = &[
        Opcode::MDS_REINT,
        Opcode::MDS_STATFS,
        Opcode::LDLM_ENQUEUE,
        Opcode::LDLM_CONVERT,
        Opcode::LDLM_CANCEL,
    ];
    let (name, uuid) = (Uuid::new(&format!("fs-MDT{target:04x}")).unwrap(), uuid(target));
    let server = Server::new(ServerConfig {
        key: (u128::from(start) << 64) + target as u128,
        partitions: vec![
            PartitionConfig::new("mdt", &[portal::MDS_REQUEST], 1 << 16),
            PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], 5 << 10),
        ],
        targets: vec![TargetConfig { kind: TargetKind::Mdt, name, uuid, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    Node::new(nid(target), start + 100, Server::CONFIG, server)
}
