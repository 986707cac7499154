//! Clients and a server, whose messages arrive in any order: no two clients have what excludes each
//! other, and everybody gets a lock in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{Rng, Time};
use fulmar_ldlm::client::{self, Convert, Coverage, LockId, LockSpec, Settings, Start};
use fulmar_ldlm::mode::are_compatible;
use fulmar_ldlm::server::{self, Config, Enqueue, Features, Outcome, RequestId};
use fulmar_lustre_wire::ldlm::{
    Extent, Flock, InodeBits, InodebitsPolicy, LockFlags, LockMode, LockReply, LockRequest,
    LockType, Policy, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::{Fid, Handle, Status};

#[test]
fn clients_never_have_what_excludes_each_other() {
    let mut counts = Counts::default();
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
        }
        world.finish();
        counts.granted += world.counts.granted;
        counts.cancels += world.counts.cancels;
        counts.converts += world.counts.converts;
        counts.blocking += world.counts.blocking;
        counts.completions += world.counts.completions;
        counts.restarts += world.counts.restarts;
    }
    let Counts { granted, cancels, converts, blocking, completions, restarts } = counts;
    let all = [granted, cancels, converts, blocking, completions, restarts];
    assert!(all.iter().all(|&count| count >= SEEDS / 4), "{counts:?} happened");
}

/// How often the clients and the server begin.
const SEEDS: u64 = 40;

#[derive(Debug, Default)]
struct Counts {
    granted: u64,
    cancels: u64,
    converts: u64,
    blocking: u64,
    completions: u64,
    restarts: u64,
}

/// What is under way. The first is the number of the client.
#[derive(Debug)]
enum Message {
    Enqueue(usize, LockId, LockRequest),
    Replay(usize, LockId, LockRequest),
    Replayed(usize, LockId, Status, LockReply),
    Cancel(usize, client::CancelId, LockRequest),
    Convert(usize, LockId, LockRequest),
    Enqueued(usize, LockId, Status, LockReply, bool),
    Cancelled(usize, client::CancelId),
    Converted(usize, LockId, LockReply),
    Callback(usize, Box<server::Callback>),
    Answer(server::CallbackId, Status),
}

struct Client {
    namespace: client::Namespace,
    pending: BTreeSet<LockId>,
    uses: BTreeMap<LockId, u32>,
    /// What it has in its cache.
    held: BTreeMap<LockId, Coverage>,
    flushing: BTreeMap<LockId, Coverage>,
}

/// What a request of a client is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Enqueue,
    Convert,
    Replay,
}

struct World {
    /// The clients that replay their locks to a server that has restarted.
    recovering: BTreeSet<usize>,
    /// What is sent again after a restart.
    unanswered: BTreeMap<(usize, LockId), LockRequest>,
    rng: Rng,
    now: Time,
    clients: Vec<Client>,
    server: server::Namespace,
    messages: Vec<Message>,
    requests: BTreeMap<RequestId, (usize, LockId, Kind)>,
    next: u64,
    callbacks: BTreeMap<u64, server::CallbackId>,
    /// Whether applications lock too: the server then has locks that clients do not name.
    has_flocks: bool,
    counts: Counts,
}

const FEATURES: Features = Features { is_server: false, contention: false, flock_deadlock: true };

fn new_server(start: u64) -> server::Namespace {
    let mut issued = 1 << 40 | start << 20;
    let types = &[LockType::EXTENT, LockType::IBITS, LockType::FLOCK];
    server::Namespace::new(Config { types, ..Config::ost() }, move || {
        issued += 1;
        Handle(issued)
    })
}

const MODES: [LockMode; 5] = [LockMode::PR, LockMode::PW, LockMode::CR, LockMode::CW, LockMode::EX];
const FLOCK_MODES: [LockMode; 3] = [LockMode::PR, LockMode::PW, LockMode::NL];

fn export(client: usize) -> Handle {
    Handle(1000 + client as u64)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut server = new_server(0);
        let count = rng.between(2, 4) as usize;
        let clients = (0..count)
            .map(|number| {
                server.handle_connect(export(number), FEATURES);
                let settings = Settings {
                    convert: [Convert::Never, Convert::Data, Convert::Always]
                        [rng.below(3) as usize],
                    unused_max: rng.between(1, 6) as usize,
                    ..Settings::new(rng.u64())
                };
                Client {
                    namespace: client::Namespace::new(settings),
                    pending: BTreeSet::new(),
                    uses: BTreeMap::new(),
                    held: BTreeMap::new(),
                    flushing: BTreeMap::new(),
                }
            })
            .collect();
        Self {
            recovering: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            has_flocks: rng.one_in(3),
            rng,
            now: Time::from_secs(1000),
            clients,
            server,
            messages: Vec::new(),
            requests: BTreeMap::new(),
            next: 0,
            callbacks: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    fn step(&mut self) {
        let client = self.rng.below(self.clients.len() as u64) as usize;
        match self.rng.below(12) {
            0 | 1 => self.acquire(client),
            2 => self.release(client),
            3 | 4 => self.flushed(client),
            5 if self.rng.one_in(4) => {
                self.now = self.now + Duration::from_secs(self.rng.below(5));
                self.server.handle_timeout(self.now);
                self.clients[client].namespace.handle_timeout(self.now);
            }
            6 if self.rng.one_in(60) => self.restart(),
            _ => self.deliver(),
        }
        self.drain();
    }

    /// The server begins again without locks.
    fn restart(&mut self) {
        self.counts.restarts += 1;
        self.server = new_server(self.counts.restarts);
        self.server.begin_recovery();
        self.messages.clear();
        self.requests.clear();
        self.callbacks.clear();
        for number in 0..self.clients.len() {
            self.recovering.insert(number);
            self.server.handle_connect(export(number), FEATURES);
            self.clients[number].namespace.replay(self.now);
        }
    }

    /// All clients have replayed their locks.
    fn recovered(&mut self) {
        self.server.end_recovery(self.now);
        for (&(client, lock), request) in &self.unanswered {
            self.messages.push(Message::Enqueue(client, lock, request.clone()));
        }
    }

    fn wanted(&mut self) -> LockSpec {
        let rng = &mut self.rng;
        let (start, file) =
            (rng.below(6) * 4096, Fid { seq: 7, oid: rng.below(2) as u32, version: 0 });
        let end = start + rng.between(1, 4) * 4096 - 1;
        let (kind, id, policy) = match rng.below(5) {
            0 if self.has_flocks => {
                let flock = Flock { start, end, owner: rng.between(1, 2), pid: 1 };
                (LockType::FLOCK, ResourceId::of_flock(file), flock.into())
            }
            0..=2 => {
                let object = ResourceId::of_fid(Fid { seq: 8, ..file });
                (LockType::EXTENT, object, Extent { start, end, gid: 0 }.into())
            }
            _ => {
                let bits = InodeBits(rng.between(1, 127));
                let bits =
                    InodebitsPolicy { bits, try_bits: InodeBits::NONE, gid: 0, initiator: 0 };
                (LockType::IBITS, ResourceId::of_fid(file), Policy::from(bits))
            }
        };
        let is_flock = kind == LockType::FLOCK;
        let modes = if is_flock { &FLOCK_MODES[..] } else { &MODES };
        let mode = modes[rng.below(modes.len() as u64) as usize];
        let resource = ResourceDesc { kind, id, ..ResourceDesc::default() };
        // Those that wait could wait for each other.
        let flags = if is_flock && mode != LockMode::NL {
            LockFlags::BLOCK_NOWAIT
        } else {
            LockFlags::NONE
        };
        LockSpec::new(resource, mode, policy).with(flags)
    }

    fn acquire(&mut self, client: usize) {
        let wanted = self.wanted();
        let client = &mut self.clients[client];
        match client.namespace.acquire(self.now, wanted).unwrap() {
            Start::Held(lock) => *client.uses.get_mut(&lock).unwrap() += 1,
            Start::Sent(lock) => drop(client.pending.insert(lock)),
        }
    }

    fn release(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let used: Vec<LockId> =
            client.uses.iter().filter(|(_, uses)| **uses > 0).map(|(lock, _)| *lock).collect();
        if used.is_empty() {
            return;
        }
        let lock = used[self.rng.below(used.len() as u64) as usize];
        *client.uses.get_mut(&lock).unwrap() -= 1;
        assert!(client.namespace.release(self.now, lock));
    }

    fn flushed(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let all: Vec<LockId> = client.flushing.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let lock = all[self.rng.below(all.len() as u64) as usize];
        let covered = client.flushing.remove(&lock).unwrap();
        let held = client.held.get_mut(&lock).unwrap();
        if covered.policy == held.policy {
            client.held.remove(&lock);
            client.uses.remove(&lock);
        } else {
            held.policy.words[0] &= !covered.policy.words[0];
        }
        assert!(client.namespace.flushed(self.now, lock));
    }

    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let mut place = self.rng.below(self.messages.len() as u64) as usize;
        if !self.recovering.is_empty() {
            let is_replay = |message: &Message| {
                matches!(
                    message,
                    Message::Replay(..)
                        | Message::Replayed(..)
                        | Message::Callback(..)
                        | Message::Answer(..)
                )
            };
            let Some(found) = self.messages.iter().position(is_replay) else { return };
            place = found;
        }
        match self.messages.swap_remove(place) {
            Message::Callback(client, callback) => self.call(client, &callback),
            message @ (Message::Enqueue(..)
            | Message::Replay(..)
            | Message::Cancel(..)
            | Message::Convert(..)
            | Message::Answer(..)) => self.give_server(message),
            message => self.give_client(message),
        }
    }

    fn give_server(&mut self, message: Message) {
        let now = self.now;
        match message {
            Message::Enqueue(client, id, lock) => {
                let request = self.request(client, id, Kind::Enqueue);
                let outcome = Outcome::Ordinary;
                let enqueue =
                    Enqueue { request, export: export(client), lock, is_resent: false, outcome };
                self.server.handle_enqueue(now, enqueue);
            }
            Message::Replay(client, id, lock) => {
                let request = self.request(client, id, Kind::Replay);
                let outcome = Outcome::Ordinary;
                let enqueue =
                    Enqueue { request, export: export(client), lock, is_resent: false, outcome };
                self.server.handle_enqueue(now, enqueue);
            }
            Message::Cancel(client, id, request) => {
                self.server.handle_cancel(now, export(client), &request).unwrap();
                self.messages.push(Message::Cancelled(client, id));
            }
            Message::Convert(client, id, lock) => {
                let request = self.request(client, id, Kind::Convert);
                self.server.handle_convert(now, request, export(client), &lock);
            }
            Message::Answer(id, status) => {
                self.server.handle_answer(now, id, server::Answer::Answered(status, None));
            }
            other => panic!("{other:?}"),
        }
    }

    fn give_client(&mut self, message: Message) {
        let now = self.now;
        match message {
            Message::Replayed(client, id, status, reply) => {
                let answer = client::Answer { status, reply: Some(reply), lvb: &[] };
                self.clients[client].namespace.handle_replayed(now, id, Ok(answer));
            }
            Message::Enqueued(client, id, status, reply, has_lvb) => {
                self.unanswered.remove(&(client, id));
                let lvb = vec![0; if has_lvb { 56 } else { 0 }];
                let answer = client::Answer { status, reply: Some(reply), lvb: &lvb };
                self.clients[client].namespace.handle_enqueued(now, id, Ok(answer));
            }
            Message::Cancelled(client, id) => {
                self.clients[client].namespace.handle_cancelled(id, Ok(()));
            }
            Message::Converted(client, id, reply) => {
                self.clients[client].namespace.handle_converted(now, id, Ok(Some(reply)));
            }
            other => panic!("{other:?}"),
        }
    }

    fn call(&mut self, client: usize, callback: &server::Callback) {
        let now = self.now;
        self.next += 1;
        if callback.has_answer {
            self.callbacks.insert(self.next, callback.id);
        }
        let kind = match callback.kind {
            server::CallbackKind::Blocking => client::CallbackKind::Blocking,
            server::CallbackKind::Completion => client::CallbackKind::Completion,
            server::CallbackKind::Glimpse => client::CallbackKind::Glimpse,
        };
        match kind {
            client::CallbackKind::Completion => self.counts.completions += 1,
            _ => self.counts.blocking += 1,
        }
        let lvb = vec![0; if callback.lvb.is_some() { 56 } else { 0 }];
        let callback = client::Callback { id: self.next, kind, request: &callback.lock, lvb: &lvb };
        self.clients[client].namespace.handle_callback(now, callback);
    }

    fn request(&mut self, client: usize, lock: LockId, kind: Kind) -> RequestId {
        self.next += 1;
        self.requests.insert(RequestId(self.next), (client, lock, kind));
        RequestId(self.next)
    }

    fn drain(&mut self) {
        loop {
            let mut idle = true;
            while let Some(output) = self.server.poll_output() {
                idle = false;
                self.take_server(output);
            }
            self.server.check_invariants().unwrap();
            for number in 0..self.clients.len() {
                while let Some(output) = self.clients[number].namespace.poll_output() {
                    idle = false;
                    self.take_client(number, output);
                }
                self.clients[number].namespace.check_invariants();
            }
            if idle {
                break;
            }
        }
        self.check_exclusion();
    }

    fn take_server(&mut self, output: server::Output) {
        match output {
            server::Output::Reply { request, status, reply, lvb } => {
                let (client, lock, kind) = self.requests.remove(&request).unwrap();
                let message = match kind {
                    Kind::Convert => Message::Converted(client, lock, *reply),
                    Kind::Enqueue => Message::Enqueued(client, lock, status, *reply, lvb.is_some()),
                    Kind::Replay => Message::Replayed(client, lock, status, *reply),
                };
                if kind != Kind::Enqueue {
                    assert_eq!(status, Status::OK, "a convert is accepted");
                }
                self.messages.push(message);
            }
            server::Output::Callback(callback) => {
                let client = (callback.export.0 - 1000) as usize;
                self.messages.push(Message::Callback(client, callback));
            }
            server::Output::ReadLvb { resource } => {
                self.server.handle_lvb(self.now, resource, Ok(Default::default()));
            }
            other => panic!("{other:?}"),
        }
    }

    fn take_client(&mut self, number: usize, output: client::Output) {
        let client = &mut self.clients[number];
        match output {
            client::Output::Enqueue { lock, request } => {
                self.unanswered.insert((number, lock), (*request).clone());
                if self.recovering.is_empty() {
                    self.messages.push(Message::Enqueue(number, lock, *request));
                }
            }
            client::Output::Granted { lock, covered, .. } => {
                self.counts.granted += 1;
                assert!(client.pending.remove(&lock));
                if covered.resource.kind != LockType::FLOCK {
                    client.uses.insert(lock, 1);
                    client.held.insert(lock, *covered);
                }
            }
            client::Output::Failed { lock, errno } => {
                assert_eq!(errno, fulmar_base::Errno::EAGAIN, "{lock:?}");
                assert!(client.pending.remove(&lock));
            }
            client::Output::Flush { lock, covered, .. } => {
                client.flushing.insert(lock, *covered);
            }
            client::Output::Cancel { id, request } => {
                self.counts.cancels += 1;
                self.messages.push(Message::Cancel(number, id, *request));
            }
            client::Output::Convert { lock, request } => {
                self.counts.converts += 1;
                self.messages.push(Message::Convert(number, lock, *request));
            }
            client::Output::Answer { callback, status, .. } => {
                if let Some(id) = self.callbacks.remove(&callback) {
                    self.messages.push(Message::Answer(id, status));
                }
            }
            client::Output::Replay { lock, request } => {
                self.messages.push(Message::Replay(number, lock, *request));
            }
            client::Output::Replayed => {
                self.recovering.remove(&number);
                if self.recovering.is_empty() {
                    self.recovered();
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn check_exclusion(&self) {
        let all: Vec<(usize, &Coverage)> = self
            .clients
            .iter()
            .enumerate()
            .flat_map(|(number, client)| client.held.values().map(move |held| (number, held)))
            .collect();
        for (place, (a, first)) in all.iter().enumerate() {
            for (b, second) in &all[place + 1..] {
                let overlap = match first.resource.kind {
                    LockType::EXTENT => {
                        first.policy.words[0] <= second.policy.words[1]
                            && second.policy.words[0] <= first.policy.words[1]
                    }
                    _ => first.policy.words[0] & second.policy.words[0] != 0,
                };
                let conflict = first.resource == second.resource
                    && overlap
                    && !are_compatible(first.mode, second.mode);
                assert!(!conflict, "{a} {first:?} and {b} {second:?}");
            }
        }
    }

    fn finish(&mut self) {
        for _ in 0..3_000 {
            for client in 0..self.clients.len() {
                self.release(client);
                self.drain();
                self.flushed(client);
                self.drain();
            }
            self.deliver();
            self.drain();
            let is_idle = self.messages.is_empty()
                && self.clients.iter().all(|client| {
                    client.flushing.is_empty() && client.uses.values().all(|uses| *uses == 0)
                });
            if is_idle {
                break;
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            assert!(client.pending.is_empty(), "{number} waits for {:?}", client.pending);
        }
        assert!(self.messages.is_empty(), "{:?}", self.messages);
        let held: usize = self.clients.iter().map(|client| client.held.len()).sum();
        if !self.has_flocks {
            assert_eq!(self.server.len(), held, "both ends have the same locks");
        }
    }
}
