//! Arbitrary inputs, compared with a list of locks.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 1000, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn a_namespace_does_what_a_list_does(choices in prop::collection::vec(any::<u16>(), 1..900)) {
        let mut model = Model::new(&choices);
        while !model.choices.is_empty() {
            model.step();
        }
        model.finish();
    }
}

/// What is known of a lock from outputs alone.
#[derive(Debug, Default)]
struct LockRecord {
    covered: Option<Coverage>,
    uses: u32,
    /// Called back, or being flushed: not for new users.
    is_called: bool,
    is_flushing: bool,
    /// The bits of a flush that is not of the whole lock.
    flushing: u64,
}

struct Model<'a> {
    choices: &'a [u16],
    world: World,
    /// Requests without reply.
    sent: BTreeMap<LockId, LockRequest>,
    /// Requests that wait for a completion.
    waiting: BTreeMap<LockId, LockRequest>,
    /// Acquires whose users wait.
    pending: BTreeSet<LockId>,
    locks: BTreeMap<LockId, LockRecord>,
    /// The locks of the handles that the server has issued since its last start.
    handles: BTreeMap<Handle, LockId>,
    /// The handles that were given back since.
    given_back: BTreeSet<Handle>,
    cancels: BTreeMap<CancelId, Vec<Handle>>,
    replays: Vec<(LockId, LockRequest)>,
    early: BTreeSet<EarlyId>,
    next_handle: u64,
    answers: u64,
}

const KINDS: [LockType; 3] = [LockType::EXTENT, LockType::IBITS, LockType::FLOCK];
const HELD: [LockMode; 5] = [LockMode::PR, LockMode::PW, LockMode::CR, LockMode::CW, LockMode::EX];

impl<'a> Model<'a> {
    fn new(choices: &'a [u16]) -> Self {
        let (first, choices) = choices.split_first().expect("there is a choice");
        let convert = [Convert::Never, Convert::Data, Convert::Always][*first as usize % 3];
        let world = World::with(|settings| {
            settings.convert = convert;
            settings.unused_max = 1 + *first as usize % 7;
            settings.replays_max = 1 + *first as usize % 3;
        });
        Self {
            choices,
            world,
            sent: BTreeMap::new(),
            waiting: BTreeMap::new(),
            pending: BTreeSet::new(),
            locks: BTreeMap::new(),
            handles: BTreeMap::new(),
            given_back: BTreeSet::new(),
            cancels: BTreeMap::new(),
            replays: Vec::new(),
            early: BTreeSet::new(),
            next_handle: 1,
            answers: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        *first as usize % bound
    }

    fn one_of<T: Copy>(&mut self, of: impl IntoIterator<Item = T>) -> Option<T> {
        let all: Vec<T> = of.into_iter().collect();
        let place = self.below(all.len().max(1));
        all.get(place).copied()
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=4 => self.acquire(),
            5..=7 => self.reply(),
            8 => self.complete(),
            9 => self.block(),
            10..=12 => self.release(),
            13..=15 => self.flushed(),
            16 => self.cancelled(),
            17 => self.other_input(),
            18 => self.replayed(),
            _ => self.rare(),
        }
        self.drain();
    }

    fn wanted(&mut self) -> LockSpec {
        let kind = KINDS[self.below(KINDS.len())];
        let resource = resource(kind, 1 + self.below(2) as u64);
        let (start, len) = (self.below(8) as u64, self.below(8) as u64);
        let policy = match kind {
            LockType::EXTENT => extent(start, start + len),
            LockType::IBITS => ibits(InodeBits(1 << (start % 7) | 1 << (len % 7)), InodeBits::NONE),
            _ => Flock { start, end: start + len, owner: 1 + start % 2, pid: 1 }.into(),
        };
        let modes = if kind == LockType::FLOCK { &HELD[..2] } else { &HELD };
        let mode = modes[self.below(modes.len())];
        LockSpec::new(resource, mode, policy)
    }

    fn acquire(&mut self) {
        let wanted = self.wanted();
        let is_usable = |known: &&LockRecord| {
            !known.is_called
                && known.covered.is_some_and(|covered| {
                    covered.resource == wanted.resource
                        && mode::covers(covered.mode, wanted.mode)
                        && covers(wanted.resource.kind, covered.policy, wanted.policy)
                })
        };
        let is_held = self.locks.values().any(|known| is_usable(&known));
        match self.world.ns.acquire(self.world.now, wanted.clone()).unwrap() {
            Start::Held(lock) => {
                let known = self.locks.get_mut(&lock).expect("a held lock was granted");
                assert!(is_usable(&&*known), "{known:?} is used for {wanted:?}");
                known.uses += 1;
            }
            Start::Sent(lock) => {
                assert!(!is_held, "{wanted:?} is held");
                assert!(self.pending.insert(lock), "{lock:?} is new");
            }
        }
    }

    fn handle(&mut self, lock: LockId) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(handle, lock);
        handle
    }

    fn reply(&mut self) {
        let Some(lock) = self.one_of(self.sent.keys().copied().collect::<Vec<_>>()) else { return };
        let request = self.sent.remove(&lock).expect("it is sent");
        let known = self.world.ns.server_handle(lock);
        let status = [0, 0, 0, 0, 301, -11][self.below(6)];
        let mut reply = LockReply::default();
        if status == 0 {
            let handle = if known.is_none() { self.handle(lock) } else { known };
            reply = grants(&request, handle.0);
            match self.below(5) {
                4 => {
                    reply.flags = LockFlags::BLOCK_GRANTED;
                    self.waiting.insert(lock, request);
                }
                1 => {
                    reply.flags = LockFlags::LOCK_CHANGED;
                    reply.lock.policy.words[1] += self.below(9) as u64;
                }
                2 => reply.flags = LockFlags::AST_SENT,
                _ => {}
            }
        }
        let answer = Answer { status: Status(status), reply: Some(reply), lvb: &[] };
        let result = if self.below(12) == 11 { Err(Errno::EIO) } else { Ok(answer) };
        self.world.ns.handle_enqueued(self.world.now, lock, result);
        if reply.flags.has(LockFlags::AST_SENT) && self.pending.contains(&lock) {
            self.locks.entry(lock).or_default().is_called = true;
        }
    }

    fn callback(&mut self, kind: CallbackKind, lock: LockId, desc: LockDesc, server: Handle) {
        let handles = vec![self.world.ns.cookie(lock), server];
        let request = LockRequest { lock: desc, handles, ..LockRequest::default() };
        let callback = Callback { id: 5, kind, request: &request, lvb: &[] };
        self.world.ns.handle_callback(self.world.now, callback);
        self.answers += 1;
    }

    fn complete(&mut self) {
        let known = self.sent.keys().chain(self.waiting.keys()).copied().collect::<Vec<_>>();
        let Some(lock) = self.one_of(known) else { return };
        let known = self.world.ns.server_handle(lock);
        let server = if known.is_none() { self.handle(lock) } else { known };
        let waiting = self.waiting.remove(&lock);
        let Some(desc) = waiting.or_else(|| self.sent.get(&lock).cloned()) else { return };
        let desc = LockDesc { granted: desc.lock.requested, ..desc.lock };
        self.callback(CallbackKind::Completion, lock, desc, server);
    }

    fn block(&mut self) {
        let known = self.locks.keys().chain(&self.pending).copied().collect::<BTreeSet<_>>();
        let Some(lock) = self.one_of(known) else { return };
        let bits = InodeBits(self.below(128) as u64);
        let desc = LockDesc { policy: ibits(bits, bits), ..LockDesc::default() };
        self.callback(CallbackKind::Blocking, lock, desc, Handle::NONE);
        self.locks.entry(lock).or_default().is_called = true;
    }

    fn release(&mut self) {
        let used = self.locks.iter().filter(|(_, known)| known.uses > 0).map(|(lock, _)| *lock);
        let Some(lock) = self.one_of(used.collect::<Vec<_>>()) else { return };
        let choice = self.below(6);
        let known = self.locks.get_mut(&lock).expect("it is used");
        match choice {
            5 => {
                known.uses += 1;
                assert!(self.world.ns.hold(lock));
            }
            4 => {
                (known.uses, known.is_called) = (known.uses - 1, true);
                assert!(self.world.ns.release_and_cancel(self.world.now, lock));
            }
            _ => {
                known.uses -= 1;
                assert!(self.world.ns.release(self.world.now, lock));
            }
        }
    }

    fn flushed(&mut self) {
        let flushing = self.locks.iter().filter(|(_, known)| known.is_flushing);
        let Some(lock) = self.one_of(flushing.map(|(lock, _)| *lock).collect::<Vec<_>>()) else {
            return;
        };
        let known = self.locks.get_mut(&lock).expect("it is flushed");
        let covered = known.covered.as_mut().expect("it was granted");
        let is_whole = known.flushing == 0;
        if is_whole {
            self.locks.remove(&lock);
        } else {
            covered.policy.words[0] &= !known.flushing;
            (known.is_flushing, known.flushing) = (false, 0);
        }
        assert!(self.world.ns.flushed(self.world.now, lock));
        assert!(!is_whole || !self.world.ns.flushed(self.world.now, lock), "it is flushed once");
    }

    fn cancelled(&mut self) {
        let Some(id) = self.one_of(self.cancels.keys().copied().collect::<Vec<_>>()) else {
            return;
        };
        let handles = self.cancels.remove(&id).expect("it is sent");
        let result = [Ok(()), Ok(()), Err(Errno::ETIMEDOUT), Err(Errno::EIO)][self.below(4)];
        if result == Err(Errno::ETIMEDOUT) {
            self.given_back.retain(|handle| !handles.contains(handle));
        }
        self.world.ns.handle_cancelled(id, result);
    }

    fn other_input(&mut self) {
        let now = self.world.now;
        match self.below(6) {
            0 => {
                let LockSpec { resource, mode, policy, .. } = self.wanted();
                let conflict = Coverage { resource, mode, policy };
                let room = self.below(4);
                let id = self.world.ns.early_cancel(now, &[conflict], room);
                self.early.insert(id);
            }
            1 => {
                let pending = self.pending.iter().copied().collect::<Vec<_>>();
                if let Some(lock) = self.one_of(pending) {
                    self.world.ns.interrupt(lock);
                    self.waiting.remove(&lock);
                }
            }
            2 => {
                let count = self.below(3);
                self.world.ns.give_up_unused(now, count);
            }
            3 => {
                let seconds = self.below(400) as u64;
                self.world.wait(seconds);
            }
            4 => {
                let (limit, volume) = (self.below(5) as u32, self.below(1000) as u64);
                self.world.ns.set_limits(now, limit, volume);
            }
            _ => {
                let lock = LockId(self.below(99) as u64 | (self.below(4) as u64) << 32);
                self.world.ns.attributes(now, 5, lock, None);
                self.answers += 1;
            }
        }
    }

    fn replayed(&mut self) {
        if self.replays.is_empty() {
            return;
        }
        let place = self.below(self.replays.len());
        let (lock, request) = self.replays.swap_remove(place);
        let handle = self.handle(lock);
        let mut reply = grants(&request, handle.0);
        reply.flags = request.flags;
        let result = match self.below(8) {
            7 => Err(Errno::EIO),
            _ => Ok(Answer { status: Status::OK, reply: Some(reply), lvb: &[] }),
        };
        self.world.ns.handle_replayed(self.world.now, lock, result);
    }

    fn rare(&mut self) {
        match self.below(6) {
            0 => {
                self.world.ns.evict();
                self.forget_server();
                self.locks.clear();
                self.sent.clear();
                self.waiting.clear();
            }
            1 => {
                self.world.ns.replay(self.world.now);
                self.forget_server();
            }
            _ => {}
        }
    }

    /// The server and its handles are gone.
    fn forget_server(&mut self) {
        self.handles.clear();
        self.given_back.clear();
        self.cancels.clear();
        self.replays.clear();
    }

    fn give_back(&mut self, handles: &[Handle]) {
        for &handle in handles {
            assert!(self.given_back.insert(handle), "{handle:?} is given back twice");
            let lock = self.handles.get(&handle).expect("the server has issued it");
            let known = self.locks.get(lock).filter(|known| known.covered.is_some());
            assert!(known.is_none(), "{lock:?} is cancelled before it is flushed: {known:?}");
        }
    }

    fn ended(&mut self, lock: LockId) {
        assert!(self.pending.remove(&lock), "{lock:?} ends once");
    }

    fn drain(&mut self) {
        let outputs = self.world.outputs();
        self.world.ns.check_invariants();
        for output in outputs {
            self.take(output);
        }
        // A lock that was called back and is not flushed did not have the bits.
        for known in self.locks.values_mut() {
            known.is_called &= known.is_flushing || known.uses > 0 || known.covered.is_none();
        }
    }

    fn take(&mut self, output: Output) {
        match output {
            Output::Enqueue { lock, request } => drop(self.sent.insert(lock, *request)),
            Output::Granted { lock, covered, .. } => {
                self.ended(lock);
                let is_flock = covered.resource.kind == LockType::FLOCK;
                let known = self.locks.entry(lock).or_default();
                assert_eq!((known.covered, known.uses), (None, 0), "it is granted once");
                known.covered = Some(*covered);
                known.uses = u32::from(!is_flock);
                if is_flock {
                    self.locks.remove(&lock);
                }
            }
            Output::NoLock { lock, .. } | Output::Failed { lock, .. } => {
                self.locks.remove(&lock);
                self.ended(lock);
            }
            Output::Flush { lock, covered, .. } => {
                let known = self.locks.get_mut(&lock).expect("it was granted");
                assert!(known.uses == 0 && !known.is_flushing, "{known:?}");
                let before = known.covered.expect("it was granted");
                let is_whole = *covered == before;
                known.flushing = if is_whole { 0 } else { covered.policy.words[0] };
                assert_eq!(known.flushing & !before.policy.words[0], 0);
                (known.is_flushing, known.is_called) = (true, true);
            }
            Output::Cancel { id, request } => {
                self.give_back(request.valid_handles());
                self.cancels.insert(id, request.valid_handles().to_vec());
            }
            Output::Early { id, handles } => {
                assert!(self.early.remove(&id), "{id:?} ends once");
                self.give_back(&handles);
            }
            Output::Answer { .. } => self.answers -= 1,
            Output::Replay { lock, request } => self.replays.push((lock, *request)),
            Output::Convert { .. } | Output::Replayed | Output::Reconnect | Output::Evicted => {}
            Output::Tested { .. } | Output::Glimpse { .. } => panic!("{output:?} has no cause"),
        }
    }

    /// Ends everything: nothing is left.
    fn finish(&mut self) {
        self.world.ns.replay(self.world.now);
        self.forget_server();
        self.drain();
        for _ in 0..10_000 {
            let has_work = !(self.sent.is_empty() && self.replays.is_empty())
                || self.locks.values().any(|known| known.uses > 0 || known.is_flushing);
            self.reply();
            self.drain();
            self.complete();
            self.drain();
            self.replayed();
            self.drain();
            self.release();
            self.drain();
            self.flushed();
            self.drain();
            if !has_work && self.waiting.is_empty() {
                break;
            }
        }
        self.world.ns.give_up_unused(self.world.now, usize::MAX);
        self.drain();
        while self.locks.values().any(|known| known.is_flushing) {
            self.flushed();
            self.drain();
        }
        assert!(self.pending.is_empty(), "every acquire has ended: {:?}", self.pending);
        assert!(self.early.is_empty() && self.locks.is_empty(), "{:?}", self.locks);
        assert_eq!(self.answers, 0, "every callback is answered");
        self.world.ns.evict();
        assert!(self.world.ns.is_empty());
    }
}

fn covers(kind: LockType, held: Policy, wanted: Policy) -> bool {
    let ([first, second, _], [start, end, _]) = (held.words, wanted.words);
    match kind {
        LockType::EXTENT => first <= start && end <= second,
        LockType::IBITS => first & start == start,
        _ => false,
    }
}
