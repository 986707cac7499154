//! The machine: the RPC service, the locks and the operations of all targets of a node.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use fulmar_base::{Errno, Time};
use fulmar_lnet::{Event, MdId, Service, ServiceConfig, ServiceOutput};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Status};
use fulmar_rpc::export::{Eviction, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    KnownClient, Request, RequestId, Server, TargetConfig, TargetState, Task, Window,
};
use fulmar_store::StoreError;
use fulmar_tasks::Tasks;
use futures_channel::oneshot;
use tracing::{error, info, warn};

use crate::context::{Command, Commands, Context, Lock, Work};
use crate::debug_log;
use crate::locks::{LockNeed, Locks};
use crate::recovery::{self, TargetRecovery};
use crate::silent::Silent;
use crate::target::{Answer, Target, TargetsConfig};

/// The targets of a node, as a service of LNet.
pub struct Targets {
    server: Server,
    /// The first NID of the node.
    local: Nid,
    targets: BTreeMap<TargetId, Entry>,
    commands: Arc<Commands>,
    /// Requests whose operations are under way, with when these began.
    requests: BTreeMap<RequestId, (Time, Arc<Request>)>,
    transfers: BTreeMap<RequestId, oneshot::Sender<Result<u64, Errno>>>,
    /// The locks that protect difficult replies.
    protected: BTreeMap<RequestId, Vec<Lock>>,
    silent: Silent,
    work: VecDeque<Work>,
    has_ended: bool,
}

/// A target, and what the machine has of it.
struct Entry {
    name: String,
    target: Arc<dyn Target>,
    kind: TargetKind,
    locks: Locks,
    /// Its operations.
    tasks: Tasks,
    /// The last transaction of its store that is on disk, and who waits for later ones.
    committed: u64,
    durable: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
    recovering: Option<TargetRecovery>,
    /// Why it is not served any more.
    stopped: Option<String>,
}

impl Targets {
    /// Options of the service for LNet.
    pub const CONFIG: ServiceConfig = Server::CONFIG;

    /// Returns the machine of these targets, in the order of the server's.
    pub fn new(server: Server, targets: impl IntoIterator<Item = TargetsConfig>) -> Self {
        let targets = targets.into_iter().map(Entry::new);
        Self {
            server,
            local: Nid::LOOPBACK,
            targets: (0..).map(TargetId).zip(targets).collect(),
            commands: Arc::default(),
            requests: BTreeMap::new(),
            transfers: BTreeMap::new(),
            protected: BTreeMap::new(),
            silent: Silent::default(),
            work: VecDeque::new(),
            has_ended: false,
        }
    }

    /// Sets the first NID of the node. Clients on the node itself, which connect from `0@lo`, have this NID for nodemaps
    /// and for what an administrator has set for NIDs.
    pub fn set_local(&mut self, nid: Nid) {
        self.local = nid;
    }

    /// Adds a target, which starts: [`Server::set_state`] opens it. Its number is new.
    pub fn add(&mut self, config: TargetConfig, target: TargetsConfig) -> TargetId {
        let id = self.server.add_target(config);
        self.targets.insert(id, Entry::new(target));
        id
    }

    /// Returns whether nothing is under way at a target but operations that wait for locks. When it stops,
    /// no client can give these up.
    pub fn is_drained(&self, target: TargetId) -> bool {
        let entry = self.targets.get(&target);
        entry.is_none_or(|entry| entry.tasks.len() <= entry.locks.waiting())
    }

    /// Removes a target with its locks and its exports. Operations that are under way end without a
    /// result, and their clients send them to its next start. Work of them that a thread has goes on.
    /// Returns whether there was such a target.
    pub fn remove(&mut self, now: Time, target: TargetId) -> bool {
        let Some(entry) = self.targets.remove(&target) else { return false };
        let Self { requests, transfers, .. } = self;
        requests.retain(|id, (_, request)| {
            let is_kept = request.target != target;
            if !is_kept {
                transfers.remove(id);
            }
            is_kept
        });
        self.server.remove_target(now, target);
        // Its operations give up locks that are gone too.
        drop(entry);
        self.follow(now);
        true
    }

    /// Ends all operations, and forgets the targets. Nothing happens from now on.
    pub fn end(&mut self) {
        self.has_ended = true;
        self.targets.clear();
        self.requests.clear();
        self.transfers.clear();
        self.protected.clear();
        self.work.clear();
        while self.commands.pop().is_some() {}
    }

    /// Returns the RPC service.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Changes the RPC service: the state of a target, its last transaction on disk, an eviction.
    pub fn with_server<T>(&mut self, now: Time, call: impl FnOnce(&mut Server) -> T) -> T {
        let result = call(&mut self.server);
        self.follow(now);
        result
    }

    /// Asks the clients of a target for all their locks back.
    pub fn call_back_all(&mut self, now: Time, target: TargetId) {
        if let Some(entry) = self.targets.get_mut(&target) {
            entry.locks.namespace().handle_revocation(now);
        }
        self.follow(now);
    }

    /// Returns what an operation that no client has requested needs.
    pub fn context(&self, target: TargetId) -> Context {
        Context::new(self.commands.clone(), target)
    }

    /// Begins an operation of a target that no client has requested. One of a target that is gone is
    /// dropped.
    pub fn spawn(
        &mut self,
        now: Time,
        target: TargetId,
        operation: impl Future<Output = ()> + Send + 'static,
    ) {
        if let Some(entry) = self.targets.get_mut(&target) {
            entry.tasks.spawn(Box::pin(operation));
        }
        self.follow(now);
    }

    /// Handles a commit of the store of a target: its last transaction that is on disk now, or why the store
    /// has ended. Then the target has too: its clients wait for it as after a crash.
    pub fn committed(&mut self, now: Time, target: TargetId, committed: Result<u64, StoreError>) {
        let Some(entry) = self.targets.get_mut(&target) else { return };
        match committed {
            Ok(number) => {
                entry.committed = entry.committed.max(number);
                let later = entry.durable.split_off(&(number + 1));
                for waiting in std::mem::replace(&mut entry.durable, later).into_values().flatten()
                {
                    let _ = waiting.send(());
                }
            }
            Err(why) => return self.stop(now, target, &why),
        }
        if let Some(last) = entry.target.last_committed() {
            self.server.set_last_committed(target, last);
        }
        self.follow(now);
    }

    /// Begins the recovery of a target whose clients are known from its disk. Returns their exports.
    ///
    /// # Panics
    /// If there is no such target.
    pub fn recover(
        &mut self,
        now: Time,
        target: TargetId,
        clients: &[KnownClient],
        window: Window,
    ) -> Vec<Handle> {
        let entry = self.targets.get_mut(&target).expect("it was added");
        if let Some(last) = entry.target.last_committed() {
            self.server.set_last_committed(target, last);
        }
        if !clients.is_empty() {
            entry.locks.namespace().begin_recovery();
            let recovering = TargetRecovery::new(now, clients.len());
            info!("{} {}", entry.name, recovering.begins(window));
            entry.recovering = Some(recovering);
        }
        let exports = self.server.recover(now, target, clients, window);
        self.follow(now);
        exports
    }

    /// Ends a target whose storage has failed. The others are served.
    pub(crate) fn stop(&mut self, now: Time, target: TargetId, why: &StoreError) {
        let Some(entry) = self.targets.get_mut(&target) else { return };
        error!("{} is not served any more, and its clients wait: {why}", entry.name);
        entry.stopped = Some(why.to_string());
        // Waiting operations learn that no answer will come.
        entry.durable.clear();
        self.server.set_state(target, TargetState::Stopping);
        self.follow(now);
    }

    /// Returns why a target is not served any more.
    pub(crate) fn why_ended(&self, target: TargetId) -> Option<String> {
        self.targets.get(&target)?.stopped.clone()
    }

    /// Lets operations go on whose [`Work`] was done.
    pub fn resume(&mut self, now: Time) {
        self.follow(now);
    }

    /// Returns how many locks clients and operations have, or wait for.
    pub fn locks_len(&self) -> usize {
        self.targets.values().map(|entry| entry.locks.len()).sum()
    }

    /// Returns how many locks of a target are granted, and how many wait.
    pub(crate) fn locks_of(&self, target: TargetId) -> (usize, usize) {
        self.targets.get(&target).map_or((0, 0), |entry| {
            let waiting = entry.locks.waiting_len();
            (entry.locks.len() - waiting, waiting)
        })
    }

    /// Returns of each target how many operations of its requests are under way.
    pub(crate) fn in_hand(&self) -> BTreeMap<TargetId, usize> {
        count(self.requests.values().map(|(_, request)| request.target))
    }

    /// Returns of each target how many clients are connected, also other targets.
    pub(crate) fn clients(&self) -> BTreeMap<TargetId, usize> {
        let connected = self.server.exports().iter().filter(|(_, one)| one.is_connected());
        count(connected.map(|(_, one)| one.target))
    }

    /// Returns of each target how many of its requests wait to be executed.
    pub(crate) fn queued(&self) -> BTreeMap<TargetId, usize> {
        count(self.server.queued())
    }

    /// Checks the invariants of all tables.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.server.check_invariants()?;
        self.targets.values().try_for_each(|entry| entry.locks.check_invariants())
    }

    /// Checks that no operation is under way and nothing is kept for one.
    ///
    /// # Errors
    /// What is left.
    pub fn is_idle(&self) -> Result<(), String> {
        self.server.is_idle()?;
        let counts = [
            ("operations", self.targets.values().map(|entry| entry.tasks.len()).sum()),
            ("requests", self.requests.len()),
            ("transfers", self.transfers.len()),
            ("difficult replies", self.protected.len()),
            ("targets whose locks somebody waits for", self.waiting()),
        ];
        match counts.into_iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("{count} {what} are left")),
            None => Ok(()),
        }
    }

    fn waiting(&self) -> usize {
        self.targets.values().filter(|entry| !entry.locks.is_idle()).count()
    }

    /// Does what the parts want of each other, until they want nothing.
    fn follow(&mut self, now: Time) {
        while !self.has_ended {
            let mut is_done = true;
            while let Some((target, command)) = self.commands.pop() {
                self.obey(now, target, command);
                is_done = false;
            }
            for entry in self.targets.values_mut() {
                is_done &= !entry.follow_locks(now, &mut self.server, &self.silent);
            }
            while let Some(task) = self.server.poll_task() {
                self.take(now, task);
                is_done = false;
            }
            // Last, since all of these may let operations go on: locks that are granted, or answers of holders.
            for entry in self.targets.values_mut() {
                is_done &= !entry.tasks.poll();
            }
            if is_done {
                return;
            }
        }
    }

    /// Does what the RPC service wants of its host.
    fn take(&mut self, now: Time, task: Task) {
        match task {
            Task::Execute(request) => self.execute(now, request),
            Task::Transferred { request, result } => {
                if let Some(waiting) = self.transfers.remove(&request) {
                    let _ = waiting.send(result);
                }
            }
            Task::Called { call, result, .. } => {
                let mut entries = self.targets.values_mut();
                if let Some(entry) = entries.find(|entry| entry.locks.has_called(call)) {
                    entry.locks.called(now, call, result);
                }
            }
            Task::Confirmed { request } => drop(self.protected.remove(&request)),
            Task::Evicted { target, export, client, why } => {
                let Some(entry) = self.targets.get_mut(&target) else { return };
                match recovery::reason(why) {
                    Some(reason) => warn!("{} has evicted {client}: {reason}", entry.name),
                    None => self.silent.insert(now, client),
                }
                if let Some(recovering) = &mut entry.recovering {
                    recovering.evicted();
                }
                self.gone(now, target, export, Some(why));
                for (target, export) in self.silent.exports(now, client, self.server.exports()) {
                    if let Some(other) = self.targets.get_mut(&target) {
                        other.locks.namespace().handle_silence(now, export);
                    }
                }
            }
            Task::Recovered { target } => {
                let context = self.context(target);
                let Some(entry) = self.targets.get_mut(&target) else { return };
                entry.locks.namespace().end_recovery(now);
                if let Some(recovering) = entry.recovering.take() {
                    info!("{} {}", entry.name, recovering.ended(now));
                }
                entry.tasks.spawn(entry.target.clone().recovered(context));
            }
            Task::PortalFailed { portal, errno } => {
                error!("requests at portal {portal} are not served: {errno}");
            }
        }
    }

    /// Begins the operation of a request.
    fn execute(&mut self, now: Time, mut request: Box<Request>) {
        if request.peer.nid == Nid::LOOPBACK {
            request.peer.nid = self.local;
        }
        let target = request.target;
        let context = self.context(target);
        // The server has the same targets.
        let Some(entry) = self.targets.get_mut(&target) else { return };
        debug_log::begun(&entry.name, &request);
        if matches!(request.message.body.opcode, Opcode::LDLM_CANCEL | Opcode::LDLM_CONVERT) {
            return entry.locks.execute(now, &mut self.server, request);
        }
        let (id, request) = (request.id, Arc::new(*request));
        self.requests.insert(id, (now, request.clone()));
        if request.message.body.opcode.is_connect() {
            let features = entry.target.features(&request);
            entry.locks.namespace().handle_connect(request.export, features);
        }
        let operation = entry.target.clone().execute(context.clone(), request.clone());
        entry.tasks.spawn(Box::pin(async move {
            let answer = operation.await.unwrap_or_else(|errno| {
                let format = request.message.format();
                Answer::Reply(Message::error(format, Status::failed(errno)))
            });
            context.answer(id, answer);
        }));
    }

    /// Does what an operation wants.
    fn obey(&mut self, now: Time, target: TargetId, command: Command) {
        // What an operation of a target that is gone wants, it does not get.
        let Some(entry) = self.targets.get_mut(&target) else { return };
        let locks = &mut entry.locks;
        match command {
            Command::Lock(wanted, waiting) => locks.lock(now, wanted, waiting),
            Command::Reduce(handle, keep) => {
                locks.namespace().handle_local_convert(now, handle, keep);
            }
            Command::Unlock(handle) => locks.namespace().handle_local_cancel(now, &[handle]),
            Command::GiveUp(export, given_up) => locks.give_up(now, export, &given_up),
            Command::Enqueue(enqueue, waiting) => locks.enqueue(now, *enqueue, waiting),
            Command::Transfer(request, bulk, parts_max, waiting) => {
                self.transfers.insert(request, waiting);
                self.server.transfer(now, request, bulk, parts_max);
            }
            Command::Changed(resource, lvb) => locks.namespace().set_lvb(resource, lvb),
            Command::Used(export, resource, extent) => locks.used(now, export, resource, extent),
            Command::Answer(request, answer) => self.answer(now, target, request, answer),
            Command::Evict(export) => {
                self.server.evict(now, export, Eviction::Administrator);
            }
            Command::Run(work) => self.work.push_back(work),
            Command::Durable(number, waiting) => {
                if number <= entry.committed {
                    // A waiting operation does not go away.
                    let _ = waiting.send(());
                } else {
                    entry.durable.entry(number).or_default().push(waiting)
                }
            }
            Command::Spawn(operation) => entry.tasks.spawn(operation),
        }
    }

    fn answer(&mut self, now: Time, target: TargetId, id: RequestId, answer: Answer) {
        let Some((begun, request)) = self.requests.remove(&id) else { return };
        let Some(Entry { name, target: of, kind, .. }) = self.targets.get(&target) else { return };
        if of.ended().is_some() {
            // What was done may be lost: the client sends it again when the target is back.
            return self.server.discard(now, id);
        }
        let took = now.since(begun);
        let reply = match &answer {
            Answer::Reply(reply) | Answer::Difficult(reply, _) => Some(reply),
            Answer::None => None,
        };
        debug_log::answered(name, &request, reply.map(|reply| reply.body.status), took);
        let opcode = request.message.body.opcode;
        let is_disconnect = opcode == kind.disconnect().opcode;
        if let Some(reply) = reply {
            of.answered(&request, reply, took);
            if opcode.is_connect() || is_disconnect {
                let client = self.server.exports().get(request.export).map(|export| export.client);
                debug_log::connection(
                    name,
                    &request,
                    client.unwrap_or_default(),
                    reply.body.status,
                );
            }
        }
        match answer {
            Answer::Reply(reply) => {
                let is_ok = reply.body.status == Status::OK;
                self.server.reply(now, id, reply);
                if is_disconnect && is_ok {
                    self.gone(now, target, request.export, None);
                }
            }
            Answer::Difficult(reply, locks) => {
                self.protected.insert(id, locks);
                self.server.reply_difficult(now, id, reply);
            }
            Answer::None => self.server.discard(now, id),
        }
    }

    fn gone(&mut self, now: Time, target: TargetId, export: Handle, why: Option<Eviction>) {
        let context = self.context(target);
        let Some(entry) = self.targets.get_mut(&target) else { return };
        entry.locks.namespace().handle_disconnect(now, export);
        entry.tasks.spawn(entry.target.clone().gone(context, export, why));
    }
}

impl Entry {
    fn new(config: TargetsConfig) -> Self {
        let TargetsConfig { name, target, kind, locks, key } = config;
        Self {
            locks: Locks::new(name.clone(), locks, key),
            name,
            target,
            kind,
            tasks: Tasks::new(),
            committed: 0,
            durable: BTreeMap::new(),
            recovering: None,
            stopped: None,
        }
    }

    /// Does what the locks want. Returns whether they wanted something.
    fn follow_locks(&mut self, now: Time, server: &mut Server, silent: &Silent) -> bool {
        let mut was_busy = false;
        while let Some(LockNeed::Lvb(resource)) = self.locks.follow(now, server, silent) {
            self.locks.read(now, resource, self.target.lvb(resource));
            was_busy = true;
        }
        was_busy
    }
}

impl Service for Targets {
    type Request = Work;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        if self.has_ended {
            return;
        }
        self.server.handle_event(now, event, bytes);
        self.follow(now);
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        if self.has_ended {
            return;
        }
        self.server.handle_posted(now, user, result);
        self.follow(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.has_ended {
            return;
        }
        if self.server.poll_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
        for entry in self.targets.values_mut() {
            if entry.locks.poll_timeout().is_some_and(|at| at <= now) {
                entry.locks.namespace().handle_timeout(now);
            }
        }
        self.follow(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.has_ended {
            return None;
        }
        let locks = self.targets.values().filter_map(|entry| entry.locks.poll_timeout());
        locks.chain(self.server.poll_timeout()).min()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<Work>> {
        if self.has_ended {
            return None;
        }
        let work = self.work.pop_front().map(ServiceOutput::Host);
        work.or_else(|| match self.server.poll_output()? {
            ServiceOutput::Post(op) => Some(ServiceOutput::Post(op)),
            ServiceOutput::Host(task) => unreachable!("{task:?} was taken before"),
        })
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: usize = self.targets.values().map(|entry| entry.tasks.len()).sum();
        write!(f, "{} targets, {operations} operations", self.targets.len())
    }
}

/// Returns how often each target is among these.
fn count(targets: impl Iterator<Item = TargetId>) -> BTreeMap<TargetId, usize> {
    let mut counts = BTreeMap::new();
    for target in targets {
        *counts.entry(target).or_default() += 1;
    }
    counts
}
