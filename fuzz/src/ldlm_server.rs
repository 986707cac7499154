//! Arbitrary requests of several clients, answers, times and locks of the host on one lock namespace.
//! After each its tables agree; each request is answered once; when all have gone, nothing is kept.

use std::collections::BTreeSet;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_ldlm::server::{
    Answer, CallbackId, Config, Enqueue, Features, IntentResult, Limits, LocalEnqueue, Namespace,
    Outcome, Output, RequestId,
};
use fulmar_lustre_wire::ldlm::{
    Extent, LockDesc, LockFlags, LockMode, LockRequest, LockType, OstLvb, Policy, ResourceDesc,
    ResourceId,
};
use fulmar_lustre_wire::{Content, Handle, Status};
use fulmar_wire::Order;

use crate::Choices;

/// Runs the operations that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut world = World::new(&mut choices);
    while !choices.is_empty() {
        world.step(&mut choices);
        world.drain(&mut choices);
    }
    world.finish();
}

struct World {
    namespace: Namespace,
    now: Time,
    requests: u64,
    unanswered: BTreeSet<RequestId>,
    callbacks: Vec<CallbackId>,
    reads: Vec<ResourceId>,
    /// Handles that a client may name, and those of the host.
    handles: Vec<Handle>,
    local: Vec<Handle>,
}

const TYPES: [LockType; 5] =
    [LockType::PLAIN, LockType::EXTENT, LockType::FLOCK, LockType::IBITS, LockType(9)];
const EXPORTS: usize = 4;

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let limits = Limits {
            locks: 200,
            of_export: 60,
            of_export_crowded: 30,
            waiting_of_export: 20,
            waiting: 30,
            pending: 8,
        };
        let types = &TYPES[..4];
        let mut issued = 1000;
        let mut namespace = Namespace::new(Config { types, limits, ..Config::mgs() }, move || {
            issued += 1;
            Handle(issued)
        });
        for export in 0..EXPORTS {
            let features =
                Features { is_server: export == 0, contention: true, flock_deadlock: true };
            namespace.handle_connect(Handle(export as u64), features);
        }
        if choices.flag() {
            namespace.begin_recovery();
        }
        let (unanswered, callbacks, reads, handles, local) = Default::default();
        let now = Time::from_secs(9);
        Self { namespace, now, requests: 0, unanswered, callbacks, reads, handles, local }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let export = Handle(choices.below(EXPORTS) as u64);
        let now = self.now;
        match choices.below(16) {
            0..=5 => self.enqueue(export, choices),
            6 | 7 => {
                let request = self.request(choices);
                let _ = self.namespace.handle_cancel(now, export, &request);
            }
            8 => {
                let lock = self.request(choices);
                let request = self.next_request();
                self.namespace.handle_convert(now, request, export, &lock);
            }
            9 | 10 => self.answer(choices),
            11 => self.read(choices),
            12 => self.local(choices),
            13 => self.end_local(choices),
            14 => self.pass(choices),
            _ => {
                self.namespace.handle_disconnect(now, export);
                self.namespace.handle_connect(export, Features::default());
            }
        }
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.unanswered.insert(request);
        request
    }

    fn enqueue(&mut self, export: Handle, choices: &mut Choices<'_>) {
        let lock = self.request(choices);
        let result = IntentResult { disposition: 1, status: -2 };
        let outcome = match choices.below(16) {
            0 => Outcome::Aborted(result),
            1 => Outcome::Failed(Errno::EIO),
            2 | 3 if !self.local.is_empty() => Outcome::Replaced(choices.of(&self.local), result),
            4 => Outcome::Replaced(self.handle(choices), result),
            5 => Outcome::Executed(result),
            _ => Outcome::Ordinary,
        };
        let is_resent = choices.below(8) == 0;
        let request = self.next_request();
        let enqueue = Enqueue { request, export, lock, is_resent, outcome };
        self.namespace.handle_enqueue(self.now, enqueue);
    }

    fn handle(&self, choices: &mut Choices<'_>) -> Handle {
        if self.handles.is_empty() || choices.below(4) == 0 { Handle(choices.below(20) as u64) } else { choices.of(&self.handles) }
    }

    /// Returns a request that is mostly valid; or what the bytes encode.
    fn request(&mut self, choices: &mut Choices<'_>) -> LockRequest {
        if choices.below(32) == 0 {
            let bytes: Vec<u8> = (0..104).map(|_| choices.byte()).collect();
            return LockRequest::decode(&bytes, Order::Little).expect("its length is right");
        }
        let kind = choices.of(&TYPES);
        let requested = LockMode(1 << choices.below(8));
        let lock = LockDesc {
            resource: resource(kind, choices),
            requested,
            policy: policy(choices),
            ..Default::default()
        };
        let flag = |choices: &mut Choices<'_>| LockFlags(1 << choices.below(32));
        let flags = match choices.below(4) {
            0 => flag(choices),
            1 => flag(choices).with(flag(choices)),
            _ => LockFlags::NONE,
        };
        let flags = match choices.below(4) {
            0 => LockFlags(flags.0 & 0xe08c_131a),
            1 => LockFlags::REPLAY.with(LockFlags(flags.0 & 0xa)),
            _ => flags,
        };
        let handles = (0..1 + choices.below(3)).map(|_| self.handle(choices)).collect();
        LockRequest { flags, count: choices.below(4) as u32, lock, handles }
    }

    fn answer(&mut self, choices: &mut Choices<'_>) {
        if self.callbacks.is_empty() {
            return;
        }
        let id = self.callbacks.swap_remove(choices.below(self.callbacks.len()));
        let lvb = OstLvb { size: choices.below(65_536) as u64, ..Default::default() };
        let answer = match choices.below(8) {
            0 => Answer::Failed,
            1 => Answer::Answered(Status::failed(Errno::EINVAL), None),
            2 => Answer::Answered(Status(-303), None),
            3 => Answer::Answered(Status(choices.byte().into()), None),
            _ => Answer::Answered(Status::OK, Some(lvb)),
        };
        self.namespace.handle_answer(self.now, id, answer);
    }

    fn read(&mut self, choices: &mut Choices<'_>) {
        let lvb = OstLvb { size: choices.below(65_536) as u64, ..Default::default() };
        match self.reads.pop() {
            Some(id) if choices.below(4) == 0 => {
                self.namespace.handle_lvb(self.now, id, Err(Errno::ENOENT));
            }
            Some(id) => self.namespace.handle_lvb(self.now, id, Ok(lvb)),
            None => self.namespace.set_lvb(resource(LockType::EXTENT, choices).id, lvb),
        }
    }

    fn local(&mut self, choices: &mut Choices<'_>) {
        let kind = choices.of(&TYPES);
        self.namespace.handle_local_enqueue(
            self.now,
            LocalEnqueue {
                cookie: choices.below(4) as u64,
                resource: resource(kind, choices).id,
                kind,
                mode: LockMode(1 << choices.below(8)),
                policy: policy(choices),
                is_immediate: choices.flag(),
                discards_data: choices.flag(),
            },
        );
    }

    fn end_local(&mut self, choices: &mut Choices<'_>) {
        match self.local.pop() {
            Some(handle) if choices.flag() => {
                self.namespace.handle_local_cancel(self.now, &[handle]);
            }
            _ => self.namespace.handle_local_withdraw(self.now, choices.below(4) as u64),
        }
    }

    fn pass(&mut self, choices: &mut Choices<'_>) {
        self.now = self.now + Duration::from_secs(choices.below(200) as u64);
        match choices.below(4) {
            0 => self.namespace.end_recovery(self.now),
            1 => {
                let export = Handle(choices.below(EXPORTS) as u64);
                let id = resource(LockType::EXTENT, choices).id;
                let extent = Extent { start: 0, end: choices.below(65_536) as u64, gid: 0 };
                let more = Duration::from_secs(choices.below(200) as u64);
                self.namespace.handle_io(self.now, export, id, extent, more);
            }
            _ => self.namespace.handle_timeout(self.now),
        }
    }

    fn drain(&mut self, choices: &mut Choices<'_>) {
        while let Some(output) = self.namespace.poll_output() {
            match output {
                Output::Reply { request, reply, .. } => {
                    assert!(self.unanswered.remove(&request), "{request:?} is answered twice");
                    self.handles.push(reply.handle);
                }
                Output::Callback(callback) if callback.has_answer => {
                    self.callbacks.push(callback.id)
                }
                Output::Local { result: Ok(handle), .. } => self.local.push(handle),
                Output::ReadLvb { resource } if choices.below(4) == 0 => self.reads.push(resource),
                Output::ReadLvb { resource } => {
                    self.namespace.handle_lvb(self.now, resource, Ok(OstLvb::default()));
                }
                Output::Evict { export, .. } => {
                    self.namespace.handle_connect(export, Features::default());
                }
                _ => {}
            }
        }
        self.namespace.check_invariants().unwrap_or_else(|error| panic!("{error}"));
    }

    /// All clients go, and the host gives up its locks.
    fn finish(&mut self) {
        let mut none = Choices::new(&[1; 4096]);
        self.namespace.end_recovery(self.now);
        for cookie in 0..4 {
            self.namespace.handle_local_withdraw(self.now, cookie);
        }
        self.drain(&mut none);
        for export in 0..EXPORTS {
            self.namespace.handle_disconnect(self.now, Handle(export as u64));
        }
        while !self.reads.is_empty() {
            self.read(&mut none);
            self.drain(&mut none);
        }
        self.drain(&mut none);
        self.namespace.is_idle().unwrap_or_else(|error| panic!("{error}"));
        assert!(self.unanswered.is_empty(), "not answered: {:?}", self.unanswered);
    }
}

fn resource(kind: LockType, choices: &mut Choices<'_>) -> ResourceDesc {
    let number = choices.below(8) as u64;
    // Mostly each type has resources of its own.
    let name = if number == 0 { 0 } else { u64::from(kind.0) << 8 | number & 1 };
    ResourceDesc { kind, id: ResourceId { name: [name, 0, 0, 0] }, ..Default::default() }
}

/// Returns a policy: for each type the words have a meaning.
fn policy(choices: &mut Choices<'_>) -> Policy {
    let start = choices.below(64) as u64;
    let end = match choices.below(8) {
        0 => u64::MAX,
        1 => choices.below(64) as u64,
        len => start.saturating_add(len as u64 - 2),
    };
    let unit = if choices.flag() { 4096 } else { 1 };
    let end = end.saturating_mul(unit).saturating_add(unit - 1);
    Policy { words: [start * unit, end, choices.below(4) as u64], halves: [0, 1] }
}
