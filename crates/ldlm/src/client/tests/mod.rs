//! A namespace, and a server played by hand.

mod callbacks;
mod early;
mod enqueue;
mod flock;
mod model;
mod recorded;
mod recovery;
mod unused;

use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_lustre_wire::ldlm::{
    Extent, Flock, InodeBits, InodebitsPolicy, LockDesc, LockFlags, LockMode, LockReply,
    LockRequest, LockType, Policy, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::{Handle, Status};

use super::*;

pub(super) const LVB: [u8; 56] = [7; 56];

/// A namespace with the checks after each step.
pub(super) struct World {
    pub(super) ns: Namespace,
    pub(super) now: Time,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::new(0x1234_5678_9abc_def0);
        change(&mut settings);
        Self { ns: Namespace::new(settings), now: Time::from_secs(1000) }
    }

    pub(super) fn outputs(&mut self) -> Vec<Output> {
        self.ns.check_invariants();
        std::iter::from_fn(|| self.ns.poll_output()).collect()
    }

    /// Returns the only output.
    pub(super) fn output(&mut self) -> Output {
        let mut outputs = self.outputs();
        assert_eq!(outputs.len(), 1, "{outputs:?}");
        outputs.remove(0)
    }

    pub(super) fn no_output(&mut self) {
        assert_eq!(self.outputs(), []);
    }

    /// Requests a lock, and returns it with the request.
    pub(super) fn send(&mut self, wanted: LockSpec) -> (LockId, LockRequest) {
        let Start::Sent(lock) = self.ns.acquire(self.now, wanted).unwrap() else {
            panic!("a request is sent")
        };
        let Output::Enqueue { lock: sent, request } = self.output() else { panic!("an enqueue") };
        assert_eq!(sent, lock);
        (lock, *request)
    }

    pub(super) fn reply(&mut self, lock: LockId, reply: LockReply, lvb: &[u8]) -> Vec<Output> {
        let answer = Answer { status: Status::OK, reply: Some(reply), lvb };
        self.ns.handle_enqueued(self.now, lock, Ok(answer));
        self.outputs()
    }

    /// Requests a lock that is granted as requested, with `server` as the server's handle.
    pub(super) fn granted(&mut self, wanted: LockSpec, server: u64) -> LockId {
        let (lock, request) = self.send(wanted);
        let outputs = self.reply(lock, grants(&request, server), &[]);
        assert!(matches!(outputs[..], [Output::Granted { .. }]), "{outputs:?}");
        lock
    }

    /// The same, and the use ends.
    pub(super) fn cached(&mut self, wanted: LockSpec, server: u64) -> LockId {
        let lock = self.granted(wanted, server);
        assert!(self.ns.release(self.now, lock));
        self.no_output();
        lock
    }

    pub(super) fn call(
        &mut self,
        kind: CallbackKind,
        flags: LockFlags,
        lock: LockDesc,
        handles: [Handle; 2],
        lvb: &[u8],
    ) -> Vec<Output> {
        let request = LockRequest { flags, count: 0, lock, handles: handles.to_vec() };
        let callback = Callback { id: 5, kind, request: &request, lvb };
        self.ns.handle_callback(self.now, callback);
        self.outputs()
    }

    /// Another client needs `bits` of a lock, or all of it.
    pub(super) fn block(&mut self, lock: LockId, bits: InodeBits) -> Vec<Output> {
        let policy = ibits(bits, bits);
        let desc = LockDesc { requested: LockMode::EX, policy, ..LockDesc::default() };
        let handles = [self.ns.cookie(lock), Handle(1)];
        self.call(CallbackKind::Blocking, LockFlags::NONE, desc, handles, &[])
    }

    /// Flushes a lock, and returns the handles of the cancel.
    pub(super) fn cancelled(&mut self, lock: LockId) -> Vec<u64> {
        assert!(self.ns.flushed(self.now, lock));
        let Output::Cancel { request, .. } = self.output() else { panic!("a cancel") };
        request.valid_handles().iter().map(|handle| handle.0).collect()
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.ns.handle_timeout(self.now);
    }
}

pub(super) fn resource(kind: LockType, name: u64) -> ResourceDesc {
    ResourceDesc { kind, id: ResourceId { name: [name, 1, 0, 0] }, ..ResourceDesc::default() }
}

pub(super) fn ibits(bits: InodeBits, try_bits: InodeBits) -> Policy {
    InodebitsPolicy { bits, try_bits, gid: 0, initiator: 0 }.into()
}

pub(super) fn extent(start: u64, end: u64) -> Policy {
    Extent { start, end, gid: 0 }.into()
}

/// Bytes of object 1.
pub(super) fn bytes(mode: LockMode, start: u64, end: u64) -> LockSpec {
    LockSpec::new(resource(LockType::EXTENT, 1), mode, extent(start, end))
}

/// Bits of file 1.
pub(super) fn bits(mode: LockMode, bits: InodeBits) -> LockSpec {
    LockSpec::new(resource(LockType::IBITS, 1), mode, ibits(bits, InodeBits::NONE))
}

/// Bytes of file 1 for an application.
pub(super) fn flock(mode: LockMode, owner: u64, start: u64, end: u64) -> LockSpec {
    let flock = Flock { start, end, owner, pid: 9 };
    LockSpec::new(resource(LockType::FLOCK, 1), mode, flock)
}

/// Returns the reply that grants what was requested.
pub(super) fn grants(request: &LockRequest, server: u64) -> LockReply {
    let lock = LockDesc { granted: request.lock.requested, ..request.lock };
    LockReply { flags: LockFlags::NONE, lock, handle: Handle(server), ..LockReply::default() }
}

/// Returns the reply that makes a request wait.
pub(super) fn blocks(request: &LockRequest, server: u64, flags: LockFlags) -> LockReply {
    let flags = LockFlags::BLOCK_GRANTED | flags;
    LockReply { flags, lock: request.lock, handle: Handle(server), ..LockReply::default() }
}

/// Returns the names of outputs.
pub(super) fn names(outputs: &[Output]) -> Vec<String> {
    let name = |output: &Output| {
        let text = format!("{output:?}");
        text.split([' ', '{']).next().unwrap_or_default().to_owned()
    };
    outputs.iter().map(name).collect()
}

pub(super) fn is_answer(output: &Output, expected: Status) -> bool {
    matches!(output, Output::Answer { callback: 5, status, .. } if *status == expected)
}

pub(super) const INVAL: Status = Status::failed(Errno::EINVAL);
