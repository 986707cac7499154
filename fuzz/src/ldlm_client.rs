//! A client's locks between users and a server that sends what it likes: replies and callbacks with
//! arbitrary handles, modes, resources, policies and flags. After each input the tables agree; every
//! acquire ends once; no lock with uses is flushed; when all have ended, nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_ldlm::client::{
    Answer, Callback, CallbackKind, CancelId, Convert, Coverage, LockId, Namespace, Output,
    Settings, Start, LockSpec,
};
use fulmar_lustre_wire::ldlm::{
    LockDesc, LockFlags, LockMode, LockReply, LockRequest, LockType, Policy, ResourceDesc,
    ResourceId,
};
use fulmar_lustre_wire::{Handle, Status};

use crate::Choices;

/// Runs the operations that the bytes encode.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut world = World::new(&mut choices);
    while !choices.is_empty() {
        world.step(&mut choices);
        world.drain();
    }
    world.finish();
}

struct World {
    namespace: Namespace,
    now: Time,
    pending: BTreeSet<LockId>,
    uses: BTreeMap<LockId, u32>,
    flushing: BTreeSet<LockId>,
    replays: BTreeSet<LockId>,
    cancels: Vec<CancelId>,
    /// Requests that were sent, for replies that are nearly right.
    requests: BTreeMap<LockId, LockRequest>,
    /// Locks that a server may name, whether they exist or not.
    known: Vec<LockId>,
}

const KINDS: [LockType; 8] = [
    LockType::EXTENT,
    LockType::EXTENT,
    LockType::EXTENT,
    LockType::IBITS,
    LockType::IBITS,
    LockType::FLOCK,
    LockType::PLAIN,
    LockType(9),
];
const MODES: [LockMode; 9] = [
    LockMode::PR,
    LockMode::PW,
    LockMode::CR,
    LockMode::CW,
    LockMode::EX,
    LockMode::NL,
    LockMode::GROUP,
    LockMode(0),
    LockMode(0x1_0001),
];
const NUMBERS: [u64; 8] = [0, 1, 2, 0x40, 0x1b, 4095, u64::MAX - 1, u64::MAX];

impl World {
    fn new(choices: &mut Choices<'_>) -> Self {
        let settings = Settings {
            early_cancel: choices.flag(),
            convert: choices.of(&[Convert::Never, Convert::Data, Convert::Always]),
            unused_max: choices.below(6),
            replays_max: choices.below(3),
            ..Settings::new(choices.byte().into())
        };
        Self {
            namespace: Namespace::new(settings),
            now: Time::from_secs(9),
            pending: BTreeSet::new(),
            uses: BTreeMap::new(),
            flushing: BTreeSet::new(),
            replays: BTreeSet::new(),
            cancels: Vec::new(),
            requests: BTreeMap::new(),
            known: vec![LockId(0), LockId(u64::MAX)],
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        // Mostly one of the last.
        let reach = if choices.below(8) == 7 { self.known.len() } else { 4 };
        let back = choices.below(reach);
        let place = self.known.len().saturating_sub(1 + back);
        let lock = self.known[place];
        match choices.below(18) {
            0..=2 => self.acquire(choices),
            3..=6 => self.reply(lock, choices),
            7..=9 => self.callback(lock, choices),
            10 | 11 => self.release(lock, choices),
            12 | 13 => {
                let is_expected = self.flushing.remove(&lock);
                assert_eq!(self.namespace.flushed(self.now, lock), is_expected);
            }
            14 => self.end_request(lock, choices),
            15 => {
                let LockSpec { resource, mode, policy, .. } = wanted(choices);
                let conflict = Coverage { resource, mode, policy };
                self.namespace.early_cancel(self.now, &[conflict], choices.below(5));
            }
            16 => {
                self.now = self.now + Duration::from_secs(choices.below(700) as u64);
                self.namespace.handle_timeout(self.now);
            }
            _ => self.rare(lock, choices),
        }
    }

    fn acquire(&mut self, choices: &mut Choices<'_>) {
        match self.namespace.acquire(self.now, wanted(choices)) {
            Ok(Start::Held(lock)) => *self.uses.get_mut(&lock).expect("it was granted") += 1,
            Ok(Start::Sent(lock)) => {
                assert!(self.pending.insert(lock), "{lock:?} is new");
                self.known.push(lock);
            }
            Err(_) => {}
        }
    }

    /// A reply: that to its request, with some fields changed.
    fn reply(&mut self, lock: LockId, choices: &mut Choices<'_>) {
        let request = self.requests.get(&lock).map(|request| request.lock).unwrap_or_default();
        let mut reply = LockReply { lock: request, handle: Handle(7), ..LockReply::default() };
        reply.lock.granted = request.requested;
        match choices.below(8) {
            0 => reply.flags = flags(choices),
            1 => (reply.flags, reply.lock) = (LockFlags::LOCK_CHANGED, desc(choices)),
            2 => reply.handle = Handle(choices.byte().into()),
            3 => reply.flags = LockFlags::BLOCK_GRANTED,
            _ => {}
        }
        let wrong = [301, 303, -5, i32::MIN];
        let status = Status(if choices.below(8) == 7 { choices.of(&wrong) } else { 0 });
        let lvb = vec![1; choices.of(&[0, 0, 40, 56, 56, 55])];
        let reply = Some(reply).filter(|_| choices.below(16) != 15);
        let answer = Ok(Answer { status, reply, lvb: &lvb });
        if self.replays.remove(&lock) { self.namespace.handle_replayed(self.now, lock, answer) } else { self.namespace.handle_enqueued(self.now, lock, answer) }
    }

    fn callback(&mut self, lock: LockId, choices: &mut Choices<'_>) {
        let cookie = self.namespace.cookie(lock);
        let kinds = [CallbackKind::Blocking, CallbackKind::Completion, CallbackKind::Glimpse];
        let lock = match (self.requests.get(&lock), choices.flag()) {
            (Some(request), true) => LockDesc { granted: request.lock.requested, ..request.lock },
            _ => desc(choices),
        };
        let mut handles = vec![cookie, Handle(choices.byte().into())];
        handles.truncate(choices.of(&[2, 2, 2, 2, 2, 2, 1, 0]));
        let flags = if choices.below(8) == 7 { flags(choices) } else { LockFlags::NONE };
        let request = LockRequest { flags, count: 0, lock, handles };
        let lvb = vec![2; choices.of(&[0, 0, 40, 56, 56, 55])];
        let callback = Callback { id: 1, kind: choices.of(&kinds), request: &request, lvb: &lvb };
        self.namespace.handle_callback(self.now, callback);
    }

    fn release(&mut self, lock: LockId, choices: &mut Choices<'_>) {
        let uses = self.uses.get(&lock).copied().unwrap_or_default();
        let (is_used, choice) = (uses > 0, choices.below(4));
        let done = match choice {
            0 => self.namespace.hold(lock),
            1 => self.namespace.release_and_cancel(self.now, lock),
            _ => self.namespace.release(self.now, lock),
        };
        assert_eq!(done, is_used, "{lock:?}");
        if is_used {
            self.uses.insert(lock, if choice == 0 { uses + 1 } else { uses - 1 });
        }
    }

    fn end_request(&mut self, lock: LockId, choices: &mut Choices<'_>) {
        let errno = choices.of(&[Errno::ETIMEDOUT, Errno::EIO]);
        match choices.below(4) {
            0 => self.namespace.handle_enqueued(self.now, lock, Err(errno)),
            1 => {
                self.replays.remove(&lock);
                self.namespace.handle_replayed(self.now, lock, Err(errno));
            }
            2 => self.namespace.handle_converted(self.now, lock, Ok(None)),
            _ => {
                if let Some(id) = self.cancels.pop() {
                    let result = if choices.flag() { Ok(()) } else { Err(errno) };
                    self.namespace.handle_cancelled(id, result);
                }
            }
        }
    }

    fn rare(&mut self, lock: LockId, choices: &mut Choices<'_>) {
        match choices.below(8) {
            0 if choices.below(8) == 7 => self.namespace.evict(),
            0 | 1 => {
                self.replays.clear();
                self.namespace.replay(self.now);
            }
            2 => drop(self.namespace.interrupt(lock)),
            3 => drop(self.namespace.cancel(self.now, lock)),
            4 => self.namespace.set_limits(self.now, choices.byte().into(), choices.byte().into()),
            5 => drop(self.namespace.give_up_unused(self.now, choices.below(4))),
            6 => self.namespace.attributes(self.now, 1, lock, choices.flag().then(Vec::new)),
            _ => self.namespace.cancel_early(vec![Handle(choices.byte().into())]),
        }
    }

    fn drain(&mut self) {
        self.namespace.check_invariants();
        while let Some(output) = self.namespace.poll_output() {
            match output {
                Output::Enqueue { lock, request } => drop(self.requests.insert(lock, *request)),
                Output::Granted { lock, covered, .. } => {
                    self.ended(lock);
                    let is_used = covered.resource.kind != LockType::FLOCK;
                    assert_eq!(self.uses.insert(lock, u32::from(is_used)), None);
                }
                Output::NoLock { lock, .. }
                | Output::Failed { lock, .. }
                | Output::Tested { lock, .. } => self.ended(lock),
                Output::Flush { lock, .. } => {
                    assert_eq!(self.uses.get(&lock), Some(&0), "{lock:?} has no uses");
                    assert!(self.flushing.insert(lock), "{lock:?} is flushed once");
                }
                Output::Cancel { id, request } => {
                    assert!(request.valid_handles().iter().all(|handle| !handle.is_none()));
                    self.cancels.push(id);
                }
                Output::Replay { lock, .. } => drop(self.replays.insert(lock)),
                Output::Evicted => {
                    self.uses.clear();
                    self.flushing.clear();
                    self.replays.clear();
                }
                _ => {}
            }
        }
        self.namespace.check_invariants();
    }

    fn ended(&mut self, lock: LockId) {
        assert!(self.pending.remove(&lock), "{lock:?} ends once");
        self.requests.remove(&lock);
    }

    fn finish(&mut self) {
        self.namespace.evict();
        self.drain();
        assert!(self.pending.is_empty(), "every acquire has ended: {:?}", self.pending);
        assert!(self.namespace.is_empty());
        assert_eq!(self.namespace.poll_timeout(), None);
    }
}

fn wanted(choices: &mut Choices<'_>) -> LockSpec {
    let LockDesc { resource, requested, policy, .. } = desc(choices);
    let wanted = LockSpec::new(resource, requested, policy).with(flags(choices));
    LockSpec { permanent: choices.below(4) == 1, match_held: choices.below(4) != 1, ..wanted }
}

fn desc(choices: &mut Choices<'_>) -> LockDesc {
    let kind = choices.of(&KINDS);
    let id = ResourceId { name: [choices.below(3) as u64, 0, 0, 0] };
    let mut words = [choices.of(&NUMBERS), choices.of(&NUMBERS), choices.of(&NUMBERS[..2])];
    let mut policy = Policy { words, halves: [0, 3] };
    if choices.below(16) != 15 {
        words[..2].sort_unstable();
        policy =
            if kind == LockType::PLAIN { Policy::default() } else { Policy { words, ..policy } };
    }
    let resource = ResourceDesc { kind, id, ..ResourceDesc::default() };
    LockDesc { resource, requested: mode(choices), granted: mode(choices), policy }
}

fn mode(choices: &mut Choices<'_>) -> LockMode {
    let is_usual = choices.below(8) != 7;
    choices.of(if is_usual { &MODES[..5] } else { &MODES })
}

fn flags(choices: &mut Choices<'_>) -> LockFlags {
    let some = LockFlags::KNOWN;
    match choices.below(8) {
        0..=5 => LockFlags::NONE,
        6 => some[choices.below(some.len())].0,
        _ => some[choices.below(some.len())].0 | some[choices.below(some.len())].0,
    }
}
