//! A host and its clients: they play their part of each conversation by hand.

mod callbacks;
mod extents;
mod flocks;
mod hostile;
mod inodebits;
mod model;
mod replays;

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_lustre_wire::ldlm::{
    Extent, Flock, InodeBits, InodebitsPolicy, LockDesc, LockFlags, LockMode, LockReply,
    LockRequest, LockType, OstLvb, Policy, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::{Handle, Status};

use super::*;

use LockFlags as Flags;
use LockMode as Modes;

const NONE: Flags = Flags::NONE;

/// What came out, sorted.
struct World {
    namespace: Namespace,
    now: Time,
    requests: u64,
    replies: BTreeMap<RequestId, (Status, LockReply, Option<OstLvb>)>,
    callbacks: Vec<Callback>,
    local: Vec<(u64, Result<Handle, fulmar_base::Errno>)>,
    local_blocks: Vec<u64>,
    evicted: Vec<(Handle, EvictReason)>,
    /// For how long the last of them was waited for.
    waited: Duration,
    /// What the host finds when it reads an object; without, it waits.
    lvb: Option<OstLvb>,
    reads: Vec<ResourceId>,
}

impl World {
    fn new(config: Config) -> Self {
        let mut issued = 1 << 32;
        let mut namespace = Namespace::new(config, move || {
            issued += 1;
            Handle(issued)
        });
        for export in 1..=5 {
            let features = Features { flock_deadlock: true, ..Features::default() };
            namespace.handle_connect(Handle(export), features);
        }
        let lvb = Some(OstLvb { size: 100, ..Default::default() });
        let (requests, replies, callbacks, local, local_blocks, evicted, reads) =
            Default::default();
        let now = Time::from_secs(1000);
        Self {
            namespace,
            now,
            requests,
            replies,
            callbacks,
            local,
            local_blocks,
            evicted,
            waited: Duration::ZERO,
            lvb,
            reads,
        }
    }

    fn ost() -> Self {
        Self::new(Config::ost())
    }

    fn mdt() -> Self {
        Self::new(Config::mdt())
    }

    /// Drains all outputs, and answers reads of attributes.
    fn drain(&mut self) {
        while let Some(output) = self.namespace.poll_output() {
            match output {
                Output::Reply { request, status, reply, lvb } => {
                    let old = self.replies.insert(request, (status, *reply, lvb));
                    assert!(old.is_none(), "{request:?} is answered twice");
                }
                Output::Callback(callback) => self.callbacks.push(*callback),
                Output::ReadLvb { resource } => match self.lvb {
                    Some(lvb) => self.namespace.handle_lvb(self.now, resource, Ok(lvb)),
                    None => self.reads.push(resource),
                },
                Output::Local { cookie, result } => self.local.push((cookie, result)),
                Output::LocalBlocks { cookie } => self.local_blocks.push(cookie),
                Output::Evict { export, why, after } => {
                    self.evicted.push((export, why));
                    self.waited = after;
                }
            }
        }
        self.namespace.check_invariants().unwrap_or_else(|error| panic!("{error}"));
    }

    fn send(
        &mut self,
        export: u64,
        lock: LockRequest,
        is_resent: bool,
        outcome: Outcome,
    ) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        let enqueue = Enqueue { request, export: Handle(export), lock, is_resent, outcome };
        self.namespace.handle_enqueue(self.now, enqueue);
        self.drain();
        request
    }

    /// Sends a request that is answered at once.
    fn call(&mut self, export: u64, lock: LockRequest) -> (Status, LockReply, Option<OstLvb>) {
        let request = self.send(export, lock, false, Outcome::Ordinary);
        self.replies.remove(&request).expect("it is answered")
    }

    /// Requests a lock and returns the status and the reply.
    fn enqueue(&mut self, export: u64, lock: LockDesc, flags: Flags) -> (Status, LockReply) {
        self.requests += 1;
        let client = Handle(export << 20 | self.requests);
        let (status, reply, _) = self.call(export, request(lock, flags, client));
        (status, reply)
    }

    /// Requests a lock that is granted at once.
    fn granted(&mut self, export: u64, lock: LockDesc) -> LockReply {
        let (status, reply) = self.enqueue(export, lock, NONE);
        assert_eq!((status, reply.lock.granted), (Status::OK, lock.requested), "{reply:?}");
        reply
    }

    /// Requests a lock that waits.
    fn waits(&mut self, export: u64, lock: LockDesc) -> LockReply {
        let (status, reply) = self.enqueue(export, lock, NONE);
        assert_eq!((status, reply.lock.granted), (Status::OK, Modes(0)), "{reply:?}");
        assert!(reply.flags.has(Flags::BLOCK_GRANTED));
        reply
    }

    fn cancel(&mut self, export: u64, handle: Handle) -> usize {
        let request = LockRequest { count: 1, handles: vec![handle], ..Default::default() };
        let known = self.namespace.handle_cancel(self.now, Handle(export), &request);
        self.drain();
        known.unwrap()
    }

    fn answer(&mut self, id: CallbackId, answer: Answer) {
        self.namespace.handle_answer(self.now, id, answer);
        self.drain();
    }

    /// Drains the callbacks: to whom, what, about which lock of the server. All are answered.
    fn called_back(&mut self) -> Vec<(u64, CallbackKind, Callback)> {
        let mut all = Vec::new();
        while !self.callbacks.is_empty() {
            let callback = self.callbacks.remove(0);
            if callback.has_answer {
                self.answer(callback.id, Answer::Answered(Status::OK, None));
            }
            all.push((callback.export.0, callback.kind, callback));
        }
        all
    }

    fn expect_blocking(&mut self, expected: &[(u64, Handle)]) {
        let found = self.called_back().into_iter().map(|(export, kind, callback)| {
            assert_eq!(kind, CallbackKind::Blocking);
            (export, callback.lock.handles[1])
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    /// Returns the locks that are granted by callbacks.
    fn expect_completions(&mut self, expected: &[(u64, Handle)]) -> Vec<Callback> {
        let all: Vec<_> = self.called_back();
        let found = all.iter().map(|(export, kind, callback)| {
            assert_eq!(*kind, CallbackKind::Completion, "{callback:?}");
            (*export, callback.lock.handles[1])
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
        all.into_iter().map(|(_, _, callback)| callback).collect()
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.namespace.handle_timeout(self.now);
        self.drain();
    }

    fn disconnect_all(&mut self) {
        for export in 1..=5 {
            self.namespace.handle_disconnect(self.now, Handle(export));
        }
        self.drain();
    }
}

fn request(lock: LockDesc, flags: Flags, client: Handle) -> LockRequest {
    LockRequest { flags, count: 1, lock, handles: vec![client, Handle::NONE] }
}

fn desc(kind: LockType, name: u64, mode: Modes, policy: impl Into<Policy>) -> LockDesc {
    let id = ResourceId { name: [name, 0, 0, 0] };
    let resource = ResourceDesc { kind, id, ..Default::default() };
    LockDesc { resource, requested: mode, granted: Modes(0), policy: policy.into() }
}

/// A range of object 1.
fn range(mode: Modes, start: u64, end: u64) -> LockDesc {
    desc(LockType::EXTENT, 1, mode, Extent { start, end, gid: 0 })
}

fn group(gid: u64) -> LockDesc {
    desc(LockType::EXTENT, 1, Modes::GROUP, Extent { start: 0, end: Extent::EOF, gid })
}

/// Bits of file 1.
fn bits(mode: Modes, bits: InodeBits, try_bits: InodeBits) -> LockDesc {
    let policy = InodebitsPolicy { bits, try_bits, gid: 0, initiator: 0 };
    desc(LockType::IBITS, 1, mode, policy)
}

/// A range of file 2.
fn flock(mode: Modes, start: u64, end: u64, owner: u64) -> LockDesc {
    desc(LockType::FLOCK, 2, mode, Flock { start, end, owner, pid: owner as u32 })
}

fn extent_of(reply: &LockReply) -> (u64, u64) {
    let Extent { start, end, .. } = reply.lock.policy.extent();
    (start, end)
}
