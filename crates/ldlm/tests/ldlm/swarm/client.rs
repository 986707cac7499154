//! A client node: for each target an import, its locks, and a cache that they protect.

use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_ldlm::client::{
    Answer, Callback, CallbackKind, Convert, Coverage, LockId, Namespace, Output, Settings, Start,
};
use fulmar_lnet_wire::{Net, Nid, ProcessId};
use fulmar_lustre_wire::format::{
    CANCEL, CONVERT, ENQUEUE, ENQUEUE_EXTENT, LOCK_REPLY, LOCK_REQUEST, MDS_STATFS, OST_LVB,
    REINT_SETATTR, STATFS,
};
use fulmar_lustre_wire::ldlm::{LockMode, LockRequest, LockType};
use fulmar_lustre_wire::message::{Flavor, Message};
use fulmar_lustre_wire::{Opcode, Status, Uuid, portal};
use fulmar_rpc::XidSource;
use fulmar_rpc::both::{Both, HostRequest as ReplyContext};
use fulmar_rpc::client::{Client, Notice};
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::{Request, RequestId, State};
use fulmar_rpc::service::{self, Task};

use super::check::{Key, Ledger, number_of};
use super::files::{Wish, parts_of};
use super::mount::{CachedVersion, Flush, Mount, Purpose, Use, callbacks, connection, target_of};
use super::node::Node;
use super::plan::{Fault, Plan};
use super::target;

/// Returns the NID of a client.
pub(crate) fn nid(client: usize) -> Nid {
    Nid::small(Net::TCP, 0x0a00_0101 + client as u32)
}

/// Returns the UUID of a client.
pub(crate) fn uuid_of(client: usize) -> Uuid {
    Uuid::new(&format!("client-{client}")).unwrap()
}

/// Returns the client with a UUID.
pub(crate) fn place(uuid: Uuid) -> usize {
    (0..8).find(|&client| uuid_of(client) == uuid).expect("a client has this UUID")
}

pub(crate) struct ClientNode {
    number: usize,
    fault: Fault,
    hold: Duration,
    pub(crate) node: Node<Both>,
    mounts: Vec<Mount>,
    next: u64,
    pub(crate) is_gone: bool,
}

impl ClientNode {
    pub(crate) fn new(now: Time, number: usize, plan: &Plan, fault: Fault, rng: &mut Rng) -> Self {
        let both = Both {
            client: Client::new(XidSource::new(1_700_000_000)),
            callbacks: callbacks(number),
        };
        let mut node = Node::new(nid(number), 10 + number as u64, Client::CONFIG, both);
        let mounts = (0..plan.targets).map(|target| {
            let import = node.service.client.connect(now, target_of(number, target));
            let settings = Settings {
                convert: [Convert::Never, Convert::Data, Convert::Always][rng.below(3) as usize],
                unused_max: rng.between(1, 6) as usize,
                age_max: Duration::from_secs(rng.between(5, 600)),
                early_cancel: rng.one_in(2),
                ..Settings::new(rng.u64())
            };
            Mount::new(import, Namespace::new(settings))
        });
        let mounts = mounts.collect();
        let has_fault = !matches!(fault, Fault::IgnoresBlocking | Fault::IgnoresBlockingForEver)
            || number + 1 == plan.clients;
        let fault = if has_fault { fault } else { Fault::None };
        Self { number, fault, hold: plan.hold, node, mounts, next: 0, is_gone: false }
    }

    fn key(&self, target: usize, lock: LockId) -> Key {
        (self.number, target, lock)
    }

    /// Acquires a lock at random.
    pub(crate) fn acquire(&mut self, now: Time, rng: &mut Rng, ledger: &mut Ledger) {
        let target = rng.below(self.mounts.len() as u64) as usize;
        let wish = Wish::any(rng);
        match self.mounts[target].locks.acquire(now, wish.wanted()).expect("the wish is valid") {
            Start::Held(lock) => {
                ledger.seen.matched += 1;
                self.begin_use(now, target, lock, wish, rng, ledger);
            }
            Start::Sent(lock) => {
                ledger.begin_acquire(self.key(target, lock), now);
                self.mounts[target].wishes.insert(lock, wish);
            }
        }
    }

    fn begin_use(
        &mut self,
        now: Time,
        target: usize,
        lock: LockId,
        wish: Wish,
        rng: &mut Rng,
        ledger: &mut Ledger,
    ) {
        self.next += 1;
        let id = self.next;
        let mount = &mut self.mounts[target];
        let mut reads = 0;
        for part in wish.parts(target) {
            match mount.cache.get(&part) {
                _ if wish.writes => mount.write(self.number, part, ledger),
                Some(cached) => {
                    ledger.seen.cached_reads += 1;
                    ledger.see(self.number, part, cached.version);
                }
                None => {
                    reads += 1;
                    let mut message = Message::request(&MDS_STATFS);
                    message.body.project = number_of(part);
                    let purpose = Purpose::Read { use_id: id, part };
                    let request = Request::new(message, 1024);
                    mount.send(&mut self.node.service.client, now, request, purpose);
                }
            }
        }
        mount.uses.insert(id, Use { lock, wish, reads });
        if reads == 0 {
            self.plan_end(now, target, id, rng);
        }
    }

    fn plan_end(&mut self, now: Time, target: usize, id: u64, rng: &mut Rng) {
        let after = Duration::from_nanos(rng.below(self.hold.as_nanos() as u64));
        self.mounts[target].ends.insert((now + after, id), ());
    }

    /// Ends a use, in which the user looks or writes again.
    fn end_use(&mut self, now: Time, target: usize, id: u64, ledger: &mut Ledger) {
        let (number, mount) = (self.number, &mut self.mounts[target]);
        // It has ended if the lock is lost.
        let Some(Use { lock, wish, .. }) = mount.uses.remove(&id) else { return };
        for part in wish.parts(target) {
            match mount.cache.get(&part) {
                _ if wish.writes => mount.write(number, part, ledger),
                Some(cached) => ledger.see(number, part, cached.version),
                None => ledger.fail(format!("{part:?} is not cached in the use of {lock:?}")),
            }
        }
        assert!(mount.locks.release(now, lock), "{lock:?} has this use");
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let of_mount = |mount: &Mount| {
            let end = mount.ends.keys().next().map(|(at, _)| *at);
            [mount.locks.poll_timeout(), end].into_iter().flatten().min()
        };
        self.mounts.iter().filter_map(of_mount).chain(self.node.poll_timeout()).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, ledger: &mut Ledger) {
        self.node.handle_timeout(now);
        for target in 0..self.mounts.len() {
            let mount = &mut self.mounts[target];
            if mount.locks.poll_timeout().is_some_and(|at| at <= now) {
                mount.locks.handle_timeout(now);
            }
            if let Some(entry) = mount.ends.first_entry().filter(|entry| entry.key().0 <= now) {
                let (_, id) = *entry.key();
                entry.remove();
                self.end_use(now, target, id, ledger);
            }
        }
    }

    /// Does what the imports and the locks want, until they want nothing.
    pub(crate) fn settle(&mut self, now: Time, rng: &mut Rng, ledger: &mut Ledger) {
        loop {
            self.follow_locks(now, rng, ledger);
            self.node.settle(now);
            match self.node.requests.pop_front() {
                Some(ReplyContext::Notice(notice)) => self.notice(now, notice, rng, ledger),
                Some(ReplyContext::Task(Task::Execute(request))) => self.called(now, &request),
                Some(ReplyContext::Task(task)) => panic!("{task:?}"),
                None => break,
            }
            self.node.service.callbacks.check_invariants().unwrap();
        }
    }

    fn follow_locks(&mut self, now: Time, rng: &mut Rng, ledger: &mut Ledger) {
        for target in 0..self.mounts.len() {
            while let Some(output) = self.mounts[target].locks.poll_output() {
                self.follow(now, target, output, rng, ledger);
                self.mounts[target].locks.check_invariants();
            }
        }
    }

    fn notice(&mut self, now: Time, notice: Notice, rng: &mut Rng, ledger: &mut Ledger) {
        let target_of = |import| self.mounts.iter().position(|mount| mount.import == import);
        match notice {
            Notice::Done { import, request, result, .. } => {
                let target = target_of(import).expect("the import is known");
                self.done(now, target, request, result, rng, ledger);
            }
            Notice::State { import, state } => {
                let target = target_of(import).expect("the import is known");
                self.changed(now, target, state, ledger);
            }
            Notice::Replayed { .. } | Notice::Released { .. } => panic!("{notice:?}"),
        }
    }

    fn changed(&mut self, now: Time, target: usize, state: State, ledger: &mut Ledger) {
        let (number, mount) = (self.number, &mut self.mounts[target]);
        match state {
            State::Evicted => mount.locks.evict(),
            State::ReplayLocks => mount.locks.replay(now),
            _ => {}
        }
        let is_connected = matches!(
            state,
            State::Full | State::Replay | State::ReplayLocks | State::ReplayWait | State::Evicted
        );
        if is_connected {
            if !std::mem::replace(&mut mount.was_connected, true) {
                ledger.first_connected(number, target);
            }
            let Both { client, callbacks } = &mut self.node.service;
            let granted = client.import(mount.import).expect("it has an import").granted();
            let server = ProcessId::lustre(target::nid(target));
            let connection = connection(number, target);
            callbacks.admit_server(now, TargetId(0), connection, server, Flavor::NULL, granted);
        }
    }

    fn done(
        &mut self,
        now: Time,
        target: usize,
        request: RequestId,
        result: Result<Box<Message<'static>>, Errno>,
        rng: &mut Rng,
        ledger: &mut Ledger,
    ) {
        let mount = &mut self.mounts[target];
        let purpose = mount.requests.remove(&request).expect("the request is known");
        match purpose {
            Purpose::Enqueue(lock) => {
                let lvb = lvb_of(&result);
                let result = result.map(|reply| answer(&reply, &lvb));
                mount.locks.handle_enqueued(now, lock, result);
            }
            Purpose::Replay(lock) => {
                let result = result.map(|reply| answer(&reply, &[]));
                mount.locks.handle_replayed(now, lock, result);
            }
            Purpose::Convert(lock) => {
                let reply = result.map(|reply| reply.get(&LOCK_REPLY).ok().flatten());
                mount.locks.handle_converted(now, lock, reply);
            }
            Purpose::Cancel(id) => mount.locks.handle_cancelled(id, result.map(drop)),
            Purpose::Read { use_id, part } => {
                let (Some(user), Ok(reply)) = (mount.uses.get_mut(&use_id), result) else { return };
                let version = reply.require(&STATFS).expect("a read has a version").blocks;
                // Another user may have written under the same lock.
                let read = CachedVersion { version, is_dirty: false };
                let cached = *mount.cache.entry(part).or_insert(read);
                ledger.seen.reads += 1;
                ledger.see(self.number, part, cached.version);
                user.reads -= 1;
                if user.reads == 0 {
                    self.plan_end(now, target, use_id, rng);
                }
            }
            Purpose::Write { lock, part, version } => {
                let Some(flushing) = mount.flushing.get_mut(&lock) else { return };
                if let Err(errno) = result {
                    return ledger.fail(format!("write {version} of {part:?}: {errno:?}"));
                }
                flushing.writes -= 1;
                self.continue_flush(now, target, lock, ledger);
            }
        }
    }

    /// Gives a lock up when all is written back.
    fn continue_flush(&mut self, now: Time, target: usize, lock: LockId, ledger: &mut Ledger) {
        let key = self.key(target, lock);
        let mount = &mut self.mounts[target];
        if mount.flushing.get(&lock).is_none_or(|flushing| flushing.writes > 0) {
            return;
        }
        let Flush { covered, .. } = mount.flushing.remove(&lock).expect("it is being flushed");
        mount.drop_cache(target, lock, &covered);
        ledger.give_up(key, &covered);
        assert!(mount.locks.flushed(now, lock), "{lock:?} is being flushed");
    }

    fn follow(
        &mut self,
        now: Time,
        target: usize,
        output: Output,
        rng: &mut Rng,
        ledger: &mut Ledger,
    ) {
        let number = self.number;
        match output {
            Output::Granted { lock, covered, .. } => {
                ledger.seen.granted += 1;
                ledger.end_acquire((number, target, lock));
                ledger.hold((number, target, lock), *covered);
                let mount = &mut self.mounts[target];
                let wish = mount.wishes.remove(&lock).expect("a user waits");
                mount.held.insert(lock, (wish.file, *covered));
                self.begin_use(now, target, lock, wish, rng, ledger);
            }
            Output::Failed { lock, errno } => {
                ledger.seen.failed += 1;
                ledger.end_acquire((number, target, lock));
                let mount = &mut self.mounts[target];
                mount.wishes.remove(&lock);
                if mount.evictions == 0 && !ledger.is_stale(number, target) {
                    ledger.fail(format!("client {number} gets no lock: {errno:?}"));
                }
            }
            Output::Flush { lock, covered, .. } => self.flush(now, target, lock, *covered, ledger),
            Output::Answer { callback, status, .. } => {
                let found = self.mounts[target].callbacks.remove(&callback);
                let (request, format) = found.expect("the callback is known");
                self.node.service.callbacks.reply(now, request, Message::reply(format, status));
            }
            Output::Evicted => {
                ledger.told(number, target);
                let mount = &mut self.mounts[target];
                mount.evictions += 1;
                mount.uses.clear();
                mount.flushing.clear();
                mount.cache.clear();
                mount.held.clear();
            }
            Output::Replayed => {
                let import = self.mounts[target].import;
                self.node.service.client.locks_replayed(now, import);
            }
            Output::Reconnect => ledger.seen.reconnects += 1,
            other => self.send_for(now, target, other, ledger),
        }
    }

    /// Sends a request about locks.
    fn send_for(&mut self, now: Time, target: usize, output: Output, ledger: &mut Ledger) {
        let enqueue = |request: &LockRequest| match request.lock.resource.kind {
            LockType::EXTENT => Message::request(&ENQUEUE_EXTENT).with(&LOCK_REQUEST, request),
            _ => Message::request(&ENQUEUE).with(&LOCK_REQUEST, request),
        };
        let other = |format, lock: &LockRequest| {
            let message = Message::request(format).with(&LOCK_REQUEST, lock);
            Request::new(message, 1024).at(portal::LDLM_CANCEL_REQUEST)
        };
        let (request, purpose) = match output {
            Output::Enqueue { lock, request } => {
                (Request::new(enqueue(&request), 1024), Purpose::Enqueue(lock))
            }
            Output::Replay { lock, request } => {
                ledger.seen.lock_replays += 1;
                let request = Request::new(enqueue(&request), 1024).replaying_lock();
                (request, Purpose::Replay(lock))
            }
            Output::Convert { lock, request } => {
                ledger.seen.converts += 1;
                (other(&CONVERT, &request), Purpose::Convert(lock))
            }
            Output::Cancel { id, request } => {
                (other(&CANCEL, &request).once(), Purpose::Cancel(id))
            }
            other => panic!("{other:?}"),
        };
        self.mounts[target].send(&mut self.node.service.client, now, request, purpose);
    }

    /// Writes back what a lock covers.
    fn flush(
        &mut self,
        now: Time,
        target: usize,
        lock: LockId,
        covered: Coverage,
        ledger: &mut Ledger,
    ) {
        let mount = &mut self.mounts[target];
        let mut writes = 0;
        for part in parts_of(target, mount.held[&lock].0, &covered) {
            let Some(cached) = mount.cache.get(&part).copied().filter(|one| one.is_dirty) else {
                continue;
            };
            if self.fault == Fault::LosesWrites || covered.mode != LockMode::PW {
                continue;
            }
            writes += 1;
            ledger.seen.writes += 1;
            let mut message = Message::request(&REINT_SETATTR);
            message.body.project = cached.version as u32;
            let request = Request::new(message, 1024).modifying();
            let purpose = Purpose::Write { lock, part, version: cached.version };
            mount.send(&mut self.node.service.client, now, request, purpose);
        }
        mount.flushing.insert(lock, Flush { covered, writes });
        self.continue_flush(now, target, lock, ledger);
    }

    /// Handles a callback.
    fn called(&mut self, now: Time, request: &service::Request) {
        let is = |target: &usize| connection(self.number, *target) == request.export;
        let target = (0..self.mounts.len()).find(is).expect("the connection is known");
        let mount = &mut self.mounts[target];
        let kind = match request.message.body.opcode {
            Opcode::LDLM_BL_CALLBACK => CallbackKind::Blocking,
            _ => CallbackKind::Completion,
        };
        let ignores = matches!(self.fault, Fault::IgnoresBlocking | Fault::IgnoresBlockingForEver);
        let format = request.message.format();
        if ignores && kind == CallbackKind::Blocking {
            let reply = Message::reply(format, Status::OK);
            return self.node.service.callbacks.reply(now, request.id, reply);
        }
        mount.callbacks.insert(request.id.0, (request.id, format));
        let lock = request.message.require(&LOCK_REQUEST).expect("a callback is about a lock");
        let lvb = request.message.bytes(&OST_LVB).unwrap_or_default().to_vec();
        let callback = Callback { id: request.id.0, kind, request: &lock, lvb: &lvb };
        mount.locks.handle_callback(now, callback);
    }

    /// Returns whether no user waits for or uses a lock, and all imports are connected.
    pub(crate) fn rests(&self) -> bool {
        self.mounts.iter().all(|mount| {
            let import = self.node.service.client.import(mount.import);
            mount.uses.is_empty()
                && mount.wishes.is_empty()
                && import.is_some_and(|import| import.state() == State::Full)
        })
    }

    /// Gives up all locks.
    pub(crate) fn give_up(&mut self, now: Time) {
        for mount in &mut self.mounts {
            let all: Vec<LockId> = mount.locks.locks().collect();
            for lock in all {
                mount.locks.cancel(now, lock);
            }
        }
    }

    /// Ends all connections, after all locks were given up.
    ///
    /// # Errors
    /// What is left of them.
    pub(crate) fn disconnect(&mut self, now: Time) -> Result<(), String> {
        for mount in &self.mounts {
            let import = self.node.service.client.import(mount.import).expect("it has an import");
            let kept = [
                mount.locks.len(),
                mount.cache.len(),
                mount.requests.len(),
                mount.callbacks.len(),
                import.kept(),
            ];
            if kept.iter().any(|&count| count > 0) {
                return Err(format!("client {} keeps {kept:?}", self.number));
            }
        }
        for mount in &self.mounts {
            self.node.service.client.disconnect(now, mount.import);
        }
        Ok(())
    }

    /// Checks that nothing is left, after the connections have ended.
    ///
    /// # Errors
    /// What is left.
    pub(crate) fn is_idle(&mut self) -> Result<(), String> {
        let Both { client, callbacks } = &mut self.node.service;
        for (target, mount) in self.mounts.iter().enumerate() {
            if !callbacks.dismiss_server(connection(self.number, target)) {
                return Err(format!("client {} has no callbacks of {target}", self.number));
            }
            if !client.remove(mount.import) {
                return Err(format!("client {} keeps its import of {target}", self.number));
            }
        }
        match callbacks.exports().len() {
            0 => callbacks.is_idle(),
            count => Err(format!("client {} keeps {count} connections", self.number)),
        }
    }
}

fn answer<'a>(reply: &Message<'_>, lvb: &'a [u8]) -> Answer<'a> {
    let status = reply.body.status;
    Answer { status, reply: reply.get(&LOCK_REPLY).ok().flatten(), lvb }
}

fn lvb_of(result: &Result<Box<Message<'static>>, Errno>) -> Vec<u8> {
    let reply = result.as_ref().ok();
    reply.and_then(|reply| reply.bytes(&OST_LVB)).unwrap_or_default().to_vec()
}
