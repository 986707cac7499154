//! Clients and a metadata target over LNet, in virtual time, with a plan of what goes wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{BufferId, Rng, Time};
use fulmar_lnd::SendRequest;
use fulmar_lnet_wire::{Net, Nid};
use fulmar_lustre_wire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{self, CLIENT_UUID};
use fulmar_lustre_wire::ldlm::LockRequest;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, Opcode, Uuid, portal};
use fulmar_rpc::RELEASE;
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::export::ExportLimits;
use fulmar_rpc::import::{Request, RequestId, State, Target, TargetKind};
use fulmar_rpc::service::{
    PartitionConfig, Request as Received, Server, ServerConfig, TargetConfig, TargetState, Task,
};
use fulmar_rpc::timeouts::Limits;

use super::check::{Coverage, Ledger};
use super::host::{Fault, Host, TARGET};
use super::writes::{self, Writes};
use crate::node::Node;
use crate::pair::SERVER;

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    seed: u64,
    clients: usize,
    /// How many operations each client begins, without closes.
    operations: u64,
    /// One message in so many is lost; 0 for none.
    loss: u64,
    restarts: u64,
    /// How long the host has not written at most, and how long a request takes at most.
    commit: Duration,
    work: Duration,
    /// Whether the last client disappears.
    has_gone: bool,
    /// For how many seconds the first client cannot communicate.
    cut: u64,
}

impl Plan {
    /// Returns a plan without loss, with one restart of a target that has written nothing since its clients
    /// connected.
    pub(crate) fn one_restart(seed: u64) -> Self {
        let (loss, commit, work) = (0, Duration::from_secs(1000), Duration::from_millis(50));
        let (clients, operations, restarts) = (3, 20, 1);
        let (has_gone, cut) = (false, 0);
        Self { seed, clients, operations, loss, restarts, commit, work, has_gone, cut }
    }

    pub(crate) fn with_gone(self) -> Self {
        Self { has_gone: true, ..self }
    }

    /// Loses one message in `loss`, while the target writes often.
    pub(crate) fn losing(self, loss: u64) -> Self {
        Self { loss, commit: Duration::from_millis(300), ..self }
    }

    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seed,
            clients: rng.between(2, 4) as usize,
            operations: rng.between(10, 30),
            loss: if rng.one_in(3) { 0 } else { rng.between(10, 60) },
            restarts: rng.between(1, 3),
            commit: Duration::from_millis(rng.between(200, 20_000)),
            work: Duration::from_millis(rng.between(5, 2_000)),
            has_gone: rng.one_in(4),
            cut: if rng.one_in(4) { rng.between(50, 600) } else { 0 },
        }
    }
}

/// What the plan does at a time.
#[derive(Clone, Debug)]
enum Action {
    Begin(usize),
    Close(usize, RequestId),
    Commit,
    Restart,
    Open,
    Gone(usize),
    /// The first client cannot communicate, or can again.
    Cut(bool),
    Calm,
}

/// When nothing goes wrong any more, and when all requests must have ended.
const CALM: Time = Time::from_secs(200);
const END: Time = Time::from_secs(3000);

struct OneClient {
    node: Node<Client>,
    import: ImportId,
    /// What its requests are: the operation, and the open that it closes.
    requests: BTreeMap<RequestId, (u32, Option<RequestId>, bool)>,
    /// The memory of data that the server may fetch.
    data: BTreeMap<RequestId, BufferId>,
    is_gone: bool,
}

pub(crate) struct Cluster {
    plan: Plan,
    fault: Fault,
    now: Time,
    rng: Rng,
    clients: Vec<OneClient>,
    server: Node<Server>,
    host: Host,
    /// Messages under way, by the time of their arrival, with the NID that they go to.
    wire: BTreeMap<(Time, u64), (Nid, SendRequest, Vec<u8>)>,
    working: BTreeMap<(Time, u64), Box<Received>>,
    script: BTreeMap<(Time, u64), Action>,
    count: u64,
    is_cut: bool,
    operations: u32,
    ledger: Ledger,
    seen: Coverage,
    writes: Writes,
}

impl Cluster {
    /// Runs a plan.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) fn run(plan: Plan, fault: Fault) -> Result<Coverage, String> {
        let mut this = Self::new(plan, fault);
        this.run_until(CALM)?;
        while this.now < END && !this.have_all_ended() {
            this.run_until(this.now + Duration::from_secs(10))?;
        }
        let gone: BTreeSet<usize> = this
            .clients
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_gone)
            .map(|(n, _)| n)
            .collect();
        this.ledger.check_end(&this.host.now, &gone)?;
        this.check_memory()?;
        this.note_repeated();
        this.seen.replays = this.host.replays;
        this.seen.replayed_writes = this.host.replayed_writes;
        this.seen.acknowledged = this.host.acknowledged;
        this.seen.opens = this.host.opens;
        this.seen.locks = this.host.locks;
        this.seen.evictions = this.ledger.evictions();
        this.seen.ended = this.ledger.ended();
        this.seen.gone = gone.len() as u64;
        Ok(this.seen)
    }

    fn new(plan: Plan, fault: Fault) -> Self {
        let now = Time::from_secs(1);
        let mut rng = Rng::new(plan.seed ^ 0x5eed);
        let clients = (0..plan.clients).map(|n| OneClient::new(now, n)).collect();
        let mut server = server(1);
        server.service.set_state(TARGET, TargetState::Open);
        let mut this = Self {
            now,
            clients,
            server,
            host: Host::new(fault),
            wire: BTreeMap::new(),
            working: BTreeMap::new(),
            script: BTreeMap::new(),
            count: 0,
            is_cut: false,
            operations: 0,
            ledger: Ledger::default(),
            seen: Coverage::default(),
            writes: Writes::default(),
            rng: Rng::new(plan.seed),
            plan,
            fault,
        };
        let mut second = |from, to| Time::ZERO + Duration::from_millis(rng.between(from, to));
        for client in 0..this.plan.clients {
            for _ in 0..this.plan.operations {
                this.plan_at(second(2_000, 100_000), Action::Begin(client));
            }
        }
        for _ in 0..this.plan.restarts {
            this.plan_at(second(5_000, 150_000), Action::Restart);
        }
        if this.plan.has_gone {
            this.plan_at(second(5_000, 100_000), Action::Gone(this.plan.clients - 1));
        }
        if this.plan.cut > 0 {
            let at = second(5_000, 100_000);
            this.plan_at(at, Action::Cut(true));
            this.plan_at(at + Duration::from_secs(this.plan.cut), Action::Cut(false));
        }
        this.plan_at(CALM, Action::Calm);
        this.plan_commit();
        this
    }

    fn plan_at(&mut self, at: Time, action: Action) {
        self.count += 1;
        self.script.insert((at, self.count), action);
    }

    fn plan_commit(&mut self) {
        let after = Duration::from_nanos(self.rng.below(self.plan.commit.as_nanos() as u64) + 1);
        self.plan_at(self.now + after, Action::Commit);
    }

    fn have_all_ended(&self) -> bool {
        let is_pending = |action: &Action| matches!(action, Action::Close(..) | Action::Cut(_));
        let is_full = |one: &OneClient| {
            let import = one.node.service.import(one.import);
            import.is_some_and(|import| import.state() == State::Full)
        };
        let mut alive = self.clients.iter().filter(|one| !one.is_gone);
        alive.all(|one| one.requests.is_empty() && is_full(one))
            && !self.script.values().any(is_pending)
    }

    fn run_until(&mut self, until: Time) -> Result<(), String> {
        loop {
            self.settle();
            self.host.error.take().map_or(Ok(()), Err)?;
            self.ledger.check_store(&self.host.now)?;
            let alive = self.clients.iter().filter(|one| !one.is_gone);
            let times = [
                self.wire.keys().next().map(|(at, _)| *at),
                self.working.keys().next().map(|(at, _)| *at),
                self.script.keys().next().map(|(at, _)| *at),
                alive.filter_map(|one| one.node.poll_timeout()).min(),
                self.server.poll_timeout(),
            ];
            match times.into_iter().flatten().min() {
                Some(at) if at <= until => self.now = self.now.max(at),
                _ => {
                    self.now = until;
                    return Ok(());
                }
            }
            self.step()?;
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let now = self.now;
        if let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, request, bytes) = entry.remove();
            if to == SERVER {
                self.server.receive_whole(now, request, bytes);
            } else if let Some(one) = self.clients.get_mut(place(to)).filter(|one| !one.is_gone) {
                one.node.receive_whole(now, request, bytes);
            }
        }
        if let Some(entry) = self.working.first_entry().filter(|entry| entry.key().0 <= now) {
            let request = entry.remove();
            if self.host.writing.contains(&request.message.body.project) {
                self.writes.fetch(now, &mut self.server, request)
            } else {
                self.execute(&request)
            }
        }
        if let Some(entry) = self.script.first_entry().filter(|entry| entry.key().0 <= now) {
            let action = entry.remove();
            self.act(action)?;
        }
        for one in self.clients.iter_mut().filter(|one| !one.is_gone) {
            one.node.handle_timeout(now);
        }
        self.server.handle_timeout(now);
        Ok(())
    }

    fn execute(&mut self, request: &Received) {
        let client = request.message.get(&CLIENT_UUID).ok().flatten().unwrap_or_default();
        let reply = self.host.execute(request, client);
        self.host.reply(self.now, &mut self.server.service, request, reply);
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Begin(client) => self.begin(client),
            Action::Close(client, open) => self.send(client, &format::CLOSE, Some(open), false),
            Action::Commit => {
                self.host.commit(&mut self.server.service);
                self.ledger.commit(&self.host.disk);
                self.plan_commit();
            }
            Action::Restart => {
                self.restart();
                self.ledger.check_store(&self.host.now)?;
            }
            Action::Open => self.server.service.set_state(TARGET, TargetState::Open),
            Action::Gone(client) => self.clients[client].is_gone = true,
            Action::Cut(is_cut) => self.is_cut = is_cut,
            Action::Calm => self.plan.loss = 0,
        }
        Ok(())
    }

    fn begin(&mut self, client: usize) {
        let is_open = self.rng.one_in(4);
        let format = if self.rng.one_in(5) { &format::MDS_STATFS } else { &format::REINT_SETATTR };
        self.send(client, format, None, is_open);
    }

    fn send(
        &mut self,
        client: usize,
        format: &'static format::Format,
        closes: Option<RequestId>,
        is_open: bool,
    ) {
        let one = &mut self.clients[client];
        if one.is_gone {
            return;
        }
        let mut message = Message::request(format);
        let modifies = message.body.opcode != Opcode::MDS_STATFS;
        self.operations += 1;
        message.body.project = self.operations;
        let mut request = Request::new(message, 1024);
        if modifies {
            request = request.modifying();
            self.ledger.begin(self.operations, client);
        }
        let buffer = BufferId(self.operations.into());
        let has_data = modifies && closes.is_none() && !is_open && self.rng.one_in(2);
        if has_data {
            request = request.with_bulk(writes::bulk(buffer));
            one.node.buffers.insert(buffer, writes::content(self.operations));
            self.host.writing.insert(self.operations);
        }
        let is_open = is_open && modifies;
        if is_open {
            request = request.opening();
            self.host.opening.insert(self.operations);
        }
        let id = one.node.service.request(self.now, one.import, request).expect("it has an import");
        if has_data {
            one.data.insert(id, buffer);
        }
        one.requests.insert(id, (if modifies { self.operations } else { 0 }, closes, is_open));
    }

    fn restart(&mut self) {
        self.note_repeated();
        self.seen.restarts += 1;
        let on_disk: BTreeSet<u32> = self.host.disk.applied.iter().map(|&(_, one)| one).collect();
        let waiting = self.clients.iter().filter(|one| !one.is_gone);
        let waiting = waiting.flat_map(|one| one.requests.values());
        self.seen.restored += waiting.filter(|(one, ..)| on_disk.contains(one)).count() as u64;
        self.count += 1;
        self.server = server(self.count);
        self.writes.forget();
        self.working.clear();
        self.wire.retain(|_, (to, ..)| *to != SERVER);
        self.host.restart(self.now, &mut self.server.service);
        let down = Duration::from_millis(self.rng.below(10_000));
        self.plan_at(self.now + down, Action::Open);
    }

    fn note_repeated(&mut self) {
        self.seen.repeated += self.server.service.stats(0).map_or(0, |stats| stats.repeated);
    }

    fn settle(&mut self) {
        for client in 0..self.clients.len() {
            loop {
                let one = &mut self.clients[client];
                one.node.settle(self.now);
                let Some(notice) = one.node.requests.pop_front() else { break };
                self.take(client, notice);
            }
        }
        self.server.settle(self.now);
        while let Some(task) = self.server.requests.pop_front() {
            match task {
                Task::Execute(request) => {
                    self.host.begin(&request);
                    let work = self.rng.below(self.plan.work.as_nanos() as u64);
                    self.count += 1;
                    let at = self.now + Duration::from_nanos(work);
                    self.working.insert((at, self.count), request);
                }
                Task::Confirmed { request } => self.host.confirm(request),
                Task::Evicted { export, .. } => self.host.forget(export),
                Task::Recovered { .. } | Task::PortalFailed { .. } => {}
                Task::Transferred { request, result } => {
                    let (request, is_there) =
                        self.writes.fetched(&mut self.server, request, result);
                    if is_there {
                        self.execute(&request)
                    } else {
                        self.host.give_up(&request);
                        self.server.service.discard(self.now, request.id);
                    }
                }
                Task::Called { .. } => panic!("{task:?}"),
            }
        }
        self.server.settle(self.now);
        let mut sends = self.server.write_all(self.now);
        for one in self.clients.iter_mut() {
            let sent = one.node.write_all(self.now);
            sends.extend(sent.into_iter().filter(|_| !one.is_gone));
        }
        for (request, bytes) in sends {
            self.count += 1;
            if self.plan.loss > 0 && self.rng.one_in(self.plan.loss) {
                continue;
            }
            let latency = Duration::from_micros(self.rng.between(100, 200_000));
            let to = request.next_hop;
            let first = Nid::small(Net::TCP, FIRST);
            if self.is_cut && [to, request.ni].contains(&first) {
                continue;
            }
            let bytes = if to == SERVER { self.tamper(bytes) } else { bytes };
            self.wire.insert((self.now + latency, self.count), (to, request, bytes));
        }
        self.server.service.check_invariants().unwrap();
    }

    /// Changes the tags of requests, if that is the fault.
    fn tamper(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.fault != Fault::OneTag {
            return bytes;
        }
        let Ok(mut message) = Message::decode(&bytes) else { return bytes };
        message.body.tag = message.body.tag.min(1);
        message.to_bytes()
    }

    fn take(&mut self, client: usize, notice: Notice) {
        let now = self.now;
        match notice {
            Notice::Released { request, .. } => {
                self.clients[client].free(request);
                self.seen.released += 1;
            }
            Notice::Done { request, result, keeps_data, .. } => {
                let one = &mut self.clients[client];
                if !keeps_data || self.fault == Fault::FreesEarly {
                    one.free(request);
                }
                let found = one.requests.remove(&request).expect("the request is known");
                let (operation, closes, is_open) = found;
                let import = one.import;
                let transno = result.as_ref().map_or(0, |reply| reply.body.transno);
                if let Some(open) = closes {
                    one.node.service.release(import, open, transno);
                }
                if is_open && result.is_ok() {
                    let held = Duration::from_millis(self.rng.below(30_000));
                    self.plan_at(now + held, Action::Close(client, request));
                }
                if operation != 0 {
                    self.ledger.end(operation, result.map(drop));
                }
            }
            Notice::Replayed { import, request, .. } => {
                self.clients[client].node.service.continue_replay(now, import, request);
            }
            Notice::State { state: State::Evicted, .. } => self.ledger.evict(client),
            Notice::State { state: State::ReplayLocks, .. } => self.replay_locks(client),
            Notice::State { .. } => {}
        }
    }

    /// Replays some locks.
    fn replay_locks(&mut self, client: usize) {
        let count = self.rng.below(12);
        let OneClient { node, import, requests, .. } = &mut self.clients[client];
        for _ in 0..count {
            let lock = LockRequest { handles: vec![Handle(1)], ..LockRequest::default() };
            let message = Message::request(&format::ENQUEUE).with(&format::LOCK_REQUEST, &lock);
            let lock = Request::new(message, 1024).replaying_lock();
            let id = node.service.request(self.now, *import, lock).expect("it has an import");
            requests.insert(id, (0, None, false));
        }
        node.service.locks_replayed(self.now, *import);
    }

    /// Checks that nothing is left of requests and clients.
    fn check_memory(&mut self) -> Result<(), String> {
        self.act(Action::Commit)?;
        self.run_until(self.now + Duration::from_secs(120))?;
        for (n, one) in self.clients.iter_mut().enumerate().filter(|(_, one)| !one.is_gone) {
            let kept = one.node.service.import(one.import).map_or(0, |import| import.kept());
            if kept > 0 {
                return Err(format!("client {n} keeps {kept} requests"));
            }
            if !one.data.is_empty() {
                return Err(format!("client {n} has no memory back of {:?}", one.data));
            }
            one.node.service.disconnect(self.now, one.import);
        }
        self.run_until(self.now + Duration::from_secs(600))?;
        if let Some((request, transno)) = self.host.difficult.first_key_value() {
            return Err(format!("{request:?}, transaction {transno:#x}, is not confirmed"));
        }
        let exports = self.server.service.exports().len();
        match exports {
            0 => self.server.service.is_idle(),
            _ => Err(format!("{exports} exports are left")),
        }
    }
}

impl OneClient {
    fn new(now: Time, place: usize) -> Self {
        let flags = ConnectFlags::FULL20
            | ConnectFlags::FID
            | ConnectFlags::AT
            | ConnectFlags::VERSION
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::MULTIMODRPCS
            | ConnectFlags::FLAGS2;
        let flags2 = ConnectFlags2::REP_MBITS | ConnectFlags2::INC_XID;
        let data = ConnectData { flags, flags2, version: RELEASE, ..ConnectData::default() };
        let target = Target {
            client: uuid(&format!("client-{place}")),
            connection: Handle(0x77 + place as u64),
            replays_locks: place > 0,
            ..Target::new(TargetKind::Mdt, uuid("fs-MDT0000_UUID"), vec![SERVER], data)
        };
        let client = Client::new(XidSource::new(1_700_000_000));
        let nid = Nid::small(Net::TCP, FIRST + place as u32);
        let mut node = Node::new(nid, 10 + place as u64, Client::CONFIG, client);
        let import = node.service.connect(now, target);
        let (requests, data) = Default::default();
        Self { node, import, requests, data, is_gone: false }
    }

    /// Frees the memory of a request that had data.
    fn free(&mut self, request: RequestId) {
        if let Some(buffer) = self.data.remove(&request) {
            self.node.buffers.remove(&buffer).expect("the memory was there");
        }
    }
}

/// The address of the first client.
const FIRST: u32 = 0x0a00_0101;

fn place(nid: Nid) -> usize {
    (0..8).find(|&n| Nid::small(Net::TCP, FIRST + n as u32) == nid).expect("a client has this NID")
}

fn uuid(text: &str) -> Uuid {
    Uuid::new(text).unwrap()
}

fn server(key: u64) -> Node<Server> {
    let operations =
        &[Opcode::MDS_REINT, Opcode::MDS_CLOSE, Opcode::MDS_STATFS, Opcode::LDLM_ENQUEUE];
    let partition = PartitionConfig::new("mdt", &[portal::MDS_REQUEST], 1 << 16);
    let (name, uuid) = (uuid("fs-MDT0000"), uuid("fs-MDT0000_UUID"));
    let server = Server::new(ServerConfig {
        key: key.into(),
        partitions: vec![partition],
        targets: vec![TargetConfig { kind: TargetKind::Mdt, name, uuid, operations }],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    Node::new(SERVER, key + 100, Server::CONFIG, server)
}
