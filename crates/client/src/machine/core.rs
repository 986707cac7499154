//! The state of the machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{BufferId, Errno, Rng, Time, Timers};
use fulmar_data::RpcId;
use fulmar_ldlm::client::{Callback, CallbackKind, CancelId, Convert, LockId, Namespace, Settings};
use fulmar_lnet::Service;
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{Format, LOCK_REQUEST};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid};
use fulmar_net::Memory;
use fulmar_rpc::both::{Both, HostRequest};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::{ExportLimits, TargetId};
use fulmar_rpc::import::{Request, RequestId, Sender, State, Target, TargetKind};
use fulmar_rpc::service::{
    self, PartitionConfig, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_tasks::Task as Operation;
use futures_channel::oneshot;

use super::batch::PartOfBatch;
use super::debug_log;
use super::flush::Upcall;
use super::peer::Peer;
use super::{MountId, MountsConfig};
use crate::data::drive::Errand;
use crate::files::figures::Moment;
use crate::files::mount::MountState;

/// The state of the machine.
pub(crate) struct Core {
    pub(crate) now: Time,
    epoch: Duration,
    pub(super) both: Both,
    pub(crate) random: Rng,
    sender: Sender,
    pub(super) peers: BTreeMap<ImportId, Peer>,
    connections: BTreeMap<Handle, ImportId>,
    /// Whose locks may want something.
    pub(super) touched: BTreeSet<ImportId>,
    /// When the locks of each target have something to do.
    deadlines: Timers<ImportId>,
    pub(super) requests: BTreeMap<(ImportId, RequestId), RequestWaiter>,
    /// Those that the debug log tells of, and when they began.
    told: BTreeMap<(ImportId, RequestId), (Opcode, Time)>,
    /// Callbacks without an answer.
    pub(super) callbacks: BTreeMap<(ImportId, u64), (service::RequestId, &'static Format)>,
    sleepers: BTreeMap<(Time, u64), oneshot::Sender<()>>,
    /// When long waits for locks are looked for next, as long as there are waits.
    pub(super) long_waits_due: Option<Time>,
    numbers: u64,
    spawned: Vec<Operation>,
    buffers: BTreeMap<BufferId, Memory>,
    /// The memory of requests that are kept for replay.
    kept: BTreeMap<(ImportId, RequestId), ReplayMemory>,
    /// Its length in bytes.
    pub(crate) kept_len: u64,
    pub(crate) mounts: BTreeMap<MountId, MountState>,
    /// The mounts whose data may want something.
    pub(crate) touched_data: BTreeSet<MountId>,
    /// What their data want of targets.
    pub(crate) errands: Vec<(MountId, Errand)>,
    /// What others have to drop.
    pub(super) upcalls: VecDeque<Upcall>,
}

/// The memory of a request that is kept for replay.
struct ReplayMemory {
    buffer: BufferId,
    /// The write that it is of.
    write: Option<(MountId, RpcId)>,
}

/// Who waits for a request.
pub(super) enum RequestWaiter {
    /// An operation; the memory of the bulk data.
    Operation(oneshot::Sender<RequestResult>, Option<BufferId>),
    Enqueue(LockId),
    Batch(Vec<PartOfBatch>),
    Convert(LockId),
    Replay(LockId),
    Cancel(CancelId),
}

/// How a request has ended.
pub(crate) struct RequestResult {
    pub(crate) result: Result<Box<Message<'static>>, Errno>,
    /// The bytes of bulk data that were moved.
    pub(crate) moved: u64,
}

/// How many locks without users are kept of each target: as many files stay cached, here and in a kernel in front.
const UNUSED_MAX: usize = 50_000;

impl Core {
    pub(super) fn new(config: MountsConfig) -> Self {
        let MountsConfig { xids, mut random, epoch, sender } = config;
        let key = u128::from(random.u64()) << 64 | u128::from(random.u64());
        Self {
            now: Time::ZERO,
            epoch,
            both: Both { client: Client::new(xids), callbacks: callbacks(key) },
            random,
            sender,
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            touched: BTreeSet::new(),
            deadlines: Timers::default(),
            requests: BTreeMap::new(),
            told: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            sleepers: BTreeMap::new(),
            long_waits_due: None,
            numbers: 0,
            spawned: Vec::new(),
            buffers: BTreeMap::new(),
            kept: BTreeMap::new(),
            kept_len: 0,
            mounts: BTreeMap::new(),
            touched_data: BTreeSet::new(),
            errands: Vec::new(),
            upcalls: VecDeque::new(),
        }
    }

    pub(super) fn both(&mut self) -> &mut Both {
        &mut self.both
    }

    /// Sets the time since 1970 when the machine's time was 0.
    pub(crate) fn set_epoch(&mut self, epoch: Duration) {
        self.epoch = epoch;
    }

    /// Returns the time of the world in seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        (self.epoch + Duration::from_nanos(self.now.0)).as_secs() as i64
    }

    /// Returns the time of the world, and that of the start of this machine.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.epoch + Duration::from_nanos(self.now.0), begun: self.epoch }
    }

    /// Returns a number that was not used before.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Begins to connect to a target.
    pub(crate) fn connect(&mut self, mount: MountId, target: Target) -> ImportId {
        let connection = Handle(self.random.u64() | 1);
        let settings = Settings {
            unused_max: UNUSED_MAX,
            convert: Convert::Never,
            early_cancel: false,
            ..Settings::new(self.random.u64())
        };
        let (kind, nids) = (target.kind, target.nids.len());
        let target = Target { connection, sender: self.sender, ..target };
        let import = self.both.client.connect(self.now, target);
        let locks = Namespace::new(settings);
        let peer = Peer::new(mount, kind, connection, locks, nids);
        self.peers.insert(import, peer);
        self.connections.insert(connection, import);
        import
    }

    /// Returns a target whose locks are looked at.
    pub(crate) fn peer(&self, import: ImportId) -> Option<&Peer> {
        self.peers.get(&import)
    }

    /// Returns a target whose locks may want something afterwards.
    pub(crate) fn peer_mut(&mut self, import: ImportId) -> Option<&mut Peer> {
        self.touched.insert(import);
        self.peers.get_mut(&import)
    }

    /// Returns the imports of the node.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.both.client
    }

    /// Sends a request.
    pub(super) fn send(
        &mut self,
        import: ImportId,
        request: Request,
        waiting: RequestWaiter,
    ) -> Option<RequestId> {
        let traced = self.traced(import, request.message());
        let opcode = request.message().body.opcode;
        if debug_log::tells_locks() {
            debug_log::asked(&self.name_of(import), request.message());
        }
        let id = self.both.client.request(self.now, import, request)?;
        if debug_log::tells_requests() {
            self.told.insert((import, id), (opcode, self.now));
            debug_log::sent(&self.name_of(import), opcode, id);
        }
        if let Some(entry) = traced {
            self.trace_sent(import, id, entry);
        }
        self.requests.insert((import, id), waiting);
        Some(id)
    }

    /// Sends a request of an operation. The name of the memory of its bulk data is forgotten as soon as
    /// the import does not need it any more.
    pub(crate) fn request(
        &mut self,
        import: ImportId,
        request: Request,
        buffer: Option<BufferId>,
    ) -> Option<(RequestId, oneshot::Receiver<RequestResult>)> {
        let (sender, waiting) = oneshot::channel();
        let id = self.send(import, request, RequestWaiter::Operation(sender, buffer))?;
        Some((id, waiting))
    }

    /// Withdraws a request; see [`Client::withdraw_request`].
    pub(crate) fn withdraw(&mut self, import: ImportId, request: RequestId) -> bool {
        self.both.client.withdraw_request(self.now, import, request)
    }

    /// The same for the request for a lock.
    pub(super) fn withdraw_enqueue(&mut self, import: ImportId, lock: LockId) -> bool {
        let all = (import, RequestId(0))..=(import, RequestId(u64::MAX));
        let is_of_lock = |waiting: &RequestWaiter| matches!(waiting, RequestWaiter::Enqueue(other) if *other == lock);
        let found = self.requests.range(all).find(|(_, waiting)| is_of_lock(waiting));
        found.map(|(key, _)| key.1).is_some_and(|request| self.withdraw(import, request))
    }

    /// Begins an operation without a waiting caller.
    pub(crate) fn spawn(&mut self, operation: Operation) {
        self.spawned.push(operation);
    }

    pub(super) fn take_spawned(&mut self) -> Vec<Operation> {
        std::mem::take(&mut self.spawned)
    }

    pub(super) fn take_errands(&mut self) -> Vec<(MountId, Errand)> {
        let mut errands = std::mem::take(&mut self.errands);
        for (id, mount) in &mut self.mounts {
            let closing = mount.kept.closing.drain(..);
            errands.extend(closing.map(|(key, open)| (*id, Errand::Close(key, open))));
        }
        errands
    }

    /// Wakes somebody at a time.
    pub(crate) fn sleep(&mut self, time: Duration) -> oneshot::Receiver<()> {
        let (sender, waiting) = oneshot::channel();
        let key = (self.now + time, self.number());
        self.sleepers.insert(key, sender);
        waiting
    }

    /// Returns memory of bulk data by its name.
    pub(crate) fn buffer(&self, id: BufferId) -> Option<Memory> {
        self.buffers.get(&id).cloned()
    }

    /// Gives memory of bulk data a name.
    pub(crate) fn add_buffer(&mut self, memory: impl Into<Memory>) -> BufferId {
        let id = BufferId(self.number());
        self.buffers.insert(id, memory.into());
        id
    }

    /// Forgets memory of bulk data.
    pub(crate) fn drop_buffer(&mut self, id: BufferId) {
        self.buffers.remove(&id);
    }

    /// Keeps memory until [`Notice::Released`].
    fn keep(&mut self, request: (ImportId, RequestId), buffer: BufferId) {
        self.kept_len += self.buffers.get(&buffer).map_or(0, |one| one.len() as u64);
        self.kept.insert(request, ReplayMemory { buffer, write: None });
    }

    /// Says which write a request is that has ended. Returns whether its memory is kept: the data of
    /// the mount are told when it is not any more.
    pub(crate) fn is_kept(
        &mut self,
        request: (ImportId, RequestId),
        write: (MountId, RpcId),
    ) -> bool {
        let kept = self.kept.get_mut(&request);
        kept.map(|kept| kept.write = Some(write)).is_some()
    }

    /// The memory of a request is not kept any more.
    fn released(&mut self, request: (ImportId, RequestId)) {
        let Some(ReplayMemory { buffer, write }) = self.kept.remove(&request) else { return };
        self.kept_len -= self.buffers.get(&buffer).map_or(0, |one| one.len() as u64);
        self.drop_buffer(buffer);
        if let Some((mount, rpc)) = write {
            let now = self.now;
            self.with_data(mount, |data| data.cache.handle_released(now, rpc));
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.both.handle_timeout(now);
        while let Some(import) = self.deadlines.pop_due(now) {
            if let Some(peer) = self.peer_mut(import) {
                peer.locks.handle_timeout(now);
            }
        }
        self.data_timeout();
        self.report_long_waits();
        while let Some(entry) = self.sleepers.first_entry().filter(|one| one.key().0 <= now) {
            let _ = entry.remove().send(());
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let sleeper = self.sleepers.keys().next().map(|(at, _)| *at);
        let data = self.mounts.values().filter_map(|mount| mount.data.cache.poll_timeout()).min();
        let both = self.both.poll_timeout();
        let all = [both, self.deadlines.next(), self.long_waits_due, sleeper, data];
        all.into_iter().flatten().min()
    }

    /// Does what imports, locks and callbacks want, until they want nothing. Returns whether they wanted
    /// something.
    pub(super) fn settle(&mut self, now: Time) -> bool {
        self.now = now;
        let mut was_busy = false;
        loop {
            while let Some(import) = self.touched.pop_first() {
                was_busy = true;
                self.follow_locks(import);
            }
            while let Some(mount) = self.touched_data.pop_first() {
                was_busy = true;
                self.follow_data(mount);
            }
            match self.both.poll_wanted() {
                Some(HostRequest::Notice(notice)) => self.notice(notice),
                Some(HostRequest::Task(Task::Execute(request))) => self.called(&request),
                // Nothing else concerns callbacks.
                Some(HostRequest::Task(_)) => {}
                None if self.touched.is_empty() && self.touched_data.is_empty() => {
                    return was_busy;
                }
                None => {}
            }
            was_busy = true;
        }
    }

    fn follow_locks(&mut self, import: ImportId) {
        while let Some(output) = self.peers.get_mut(&import).and_then(|one| one.locks.poll_output())
        {
            self.lock_output(import, output);
        }
        self.send_batches(import);
        match self.peers.get(&import).and_then(|peer| peer.locks.poll_timeout()) {
            Some(at) => self.deadlines.set(import, at),
            None => self.deadlines.clear(import),
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Done { import, request, result, moved, keeps_data } => {
                self.trace_done((import, request), &result);
                if let Some((opcode, sent)) = self.told.remove(&(import, request)) {
                    let took = self.now.since(sent);
                    debug_log::done(&self.name_of(import), opcode, request, &result, took);
                }
                match self.requests.remove(&(import, request)) {
                    Some(RequestWaiter::Operation(waiting, buffer)) => {
                        match buffer {
                            Some(buffer) if keeps_data => self.keep((import, request), buffer),
                            Some(buffer) => self.drop_buffer(buffer),
                            None => {}
                        }
                        let _ = waiting.send(RequestResult { result, moved });
                    }
                    Some(RequestWaiter::Batch(parts)) => {
                        self.batch_reply((import, request), parts, result)
                    }
                    Some(waiting) => self.lock_reply((import, request), waiting, result),
                    None => {}
                }
            }
            Notice::Released { import, request } => self.released((import, request)),
            Notice::Replayed { import, request, reply } => self.replayed(import, request, &reply),
            Notice::State { import, state } => self.changed(import, state),
        }
    }

    /// Handles a change of the state of an import.
    fn changed(&mut self, import: ImportId, state: State) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&import) else { return };
        peer.set_state(state);
        self.touched.insert(import);
        let (connection, is_connected) = (peer.connection, peer.is_connected());
        debug_log::state(self.both.client.import(import), state);
        if is_connected && let Some(one) = self.both.client.import(import) {
            let (granted, flavor) = (*one.granted(), one.target().flavor);
            let server = ProcessId::lustre(one.nid());
            let callbacks = &mut self.both.callbacks;
            callbacks.admit_server(now, TargetId(0), connection, server, flavor, &granted);
            peer.locks.configure(|settings| {
                settings.early_cancel = granted.flags.has(ConnectFlags::CANCELSET);
                settings.convert = if granted.flags2.has(ConnectFlags2::LOCK_CONVERT) {
                    Convert::Data
                } else {
                    Convert::Never
                };
            });
        }
        match state {
            State::Evicted => {
                peer.locks.evict();
                self.data_evicted(import);
            }
            State::Full => self.data_connected(import),
            State::ReplayLocks => peer.locks.replay(now),
            State::Closed(_) => {
                self.both.callbacks.dismiss_server(connection);
            }
            _ => {}
        }
    }

    /// Handles a callback.
    fn called(&mut self, request: &service::Request) {
        let (now, format) = (self.now, request.message.format());
        let refuse = |this: &mut Self, errno| {
            let reply = Message::error(format, Status::failed(errno));
            this.both.callbacks.reply(now, request.id, reply);
        };
        let Some(&import) = self.connections.get(&request.export) else {
            return refuse(self, Errno::ENOTCONN);
        };
        self.trace_called(import, &request.message);
        if debug_log::tells_locks() {
            debug_log::called(&self.name_of(import), &request.message);
        }
        let Ok(lock) = request.message.require(&LOCK_REQUEST) else {
            return refuse(self, Errno::EPROTO);
        };
        let kind = match request.message.body.opcode {
            Opcode::LDLM_BL_CALLBACK => CallbackKind::Blocking,
            Opcode::LDLM_CP_CALLBACK => CallbackKind::Completion,
            _ => CallbackKind::Glimpse,
        };
        // The value block has the same place in each format, whatever it is called.
        let lvb = request.message.buffers().nth(1).map_or(Vec::new(), |(_, bytes)| bytes.to_vec());
        let lvb = if kind == CallbackKind::Completion { lvb } else { Vec::new() };
        let id = request.id.0;
        self.callbacks.insert((import, id), (request.id, format));
        if let Some(peer) = self.peer_mut(import) {
            let callback = Callback { id, kind, request: &lock, lvb: &lvb };
            peer.locks.handle_callback(now, callback);
        }
    }

    /// Returns the name of a target, such as `lv-OST0000`.
    pub(crate) fn name_of(&self, import: ImportId) -> String {
        self.both.client.import(import).map_or_else(String::new, debug_log::name)
    }

    /// Returns whether cancels of locks are under way.
    pub(crate) fn has_cancels(&self) -> bool {
        self.requests.values().any(|waiting| matches!(waiting, RequestWaiter::Cancel(_)))
    }

    /// Forgets a target whose import is closed.
    pub(crate) fn forget(&mut self, import: ImportId) {
        if let Some(peer) = self.peers.remove(&import) {
            self.connections.remove(&peer.connection);
            self.deadlines.clear(import);
        }
        self.both.client.remove(import);
    }
}

/// Returns the service of callbacks.
fn callbacks(key: u128) -> Server {
    let name = Uuid::new("callbacks").expect("it is short");
    let operations =
        &[Opcode::LDLM_BL_CALLBACK, Opcode::LDLM_CP_CALLBACK, Opcode::LDLM_GL_CALLBACK];
    let mut server = Server::new(ServerConfig {
        key,
        partitions: vec![PartitionConfig::callbacks()],
        targets: vec![TargetConfig { kind: TargetKind::Client, name, uuid: name, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    server.set_state(TargetId(0), TargetState::Open);
    server
}
