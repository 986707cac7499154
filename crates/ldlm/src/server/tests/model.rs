//! Arbitrary inputs, and after each a comparison with a list of all locks: slow and plain.

use fulmar_base::Errno;
use proptest::prelude::*;

use super::super::lock::{Kind, Lock};
use super::*;

/// Numbers from which an input is made.
type Step = (u8, u8, u8, u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    prop::collection::vec(numbers, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn extents_agree_with_a_list(steps in steps()) {
        play(Config::ost(), LockType::EXTENT, &steps);
    }

    #[test]
    fn inodebits_agree_with_a_list(steps in steps()) {
        play(Config::mdt(), LockType::IBITS, &steps);
    }

    #[test]
    fn flocks_agree_with_a_list(steps in steps()) {
        play(Config::mdt(), LockType::FLOCK, &steps);
    }

    #[test]
    fn plain_locks_agree_with_a_list(steps in steps()) {
        play(Config::mgs(), LockType::PLAIN, &steps);
    }
}

fn play(config: Config, kind: LockType, steps: &[Step]) {
    let limits = Limits { of_export: 24, waiting_of_export: 12, waiting: 20, ..config.limits };
    let mut world = World::new(Config { limits, ..config });
    for &step in steps {
        let before = snapshot(&world);
        play_one(&mut world, kind, step);
        compare(&world, &before);
    }
    finish(&mut world);
}

fn play_one(world: &mut World, kind: LockType, step: Step) {
    let (op, export, mode, start, len, extra) = step;
    let export = u64::from(export % 5) + 1;
    match op % 16 {
        0..=6 => {
            let lock = wanted(world, kind, step);
            world.send(export, lock, extra.is_multiple_of(16), Outcome::Ordinary);
        }
        7 | 8 => cancel_some(world, start),
        9 | 10 => answer_some(world, start, len),
        11 => convert_some(world, start, len),
        12 if op < 80 => {
            world.namespace.handle_disconnect(world.now, Handle(export));
            world.namespace.handle_connect(Handle(export), Features::default());
        }
        12 => world.advance(u64::from(len % 64)),
        13 => local(world, kind, mode, start, len),
        14 => world.namespace.handle_local_withdraw(world.now, u64::from(start % 3)),
        _ => read_some(world, op),
    }
    world.drain();
}

fn policy(kind: LockType, mode: Modes, start: u8, len: u8, extra: u8) -> Policy {
    let (start, last) = (u64::from(start % 32) * 4096, u64::from(len % 8) * 4096 + 4095);
    let end = if len > 230 { u64::MAX } else { start + last };
    match kind {
        LockType::EXTENT if mode == Modes::GROUP => {
            Extent { start: 0, end: Extent::EOF, gid: u64::from(extra % 3) }.into()
        }
        LockType::EXTENT => Extent { start, end, gid: 0 }.into(),
        LockType::FLOCK => {
            let (start, end) = (start >> 12, if len > 230 { u64::MAX >> 1 } else { end >> 12 });
            Flock { start, end, owner: u64::from(extra % 3), pid: 1 }.into()
        }
        LockType::IBITS => {
            let bits =
                if mode == Modes::GROUP { 0x40 } else { u64::from(start as u8 ^ len) & 0x7f };
            let (try_bits, gid) = (InodeBits(u64::from(extra) & 0x7f), u64::from(extra % 3));
            InodebitsPolicy { bits: InodeBits(bits), try_bits, gid, initiator: 0 }.into()
        }
        _ => Policy::default(),
    }
}

fn wanted(world: &World, kind: LockType, (op, _, mode, start, len, extra): Step) -> LockRequest {
    let flock = [Modes::PR, Modes::PW, Modes::NL, Modes::PW];
    let other =
        [Modes::EX, Modes::PW, Modes::PR, Modes::CW, Modes::CR, Modes::NL, Modes::GROUP, Modes::PR];
    let modes = if kind == LockType::FLOCK { &flock[..] } else { &other };
    let mode = modes[usize::from(mode) % modes.len()];
    let flags = [
        NONE,
        NONE,
        NONE,
        NONE,
        NONE,
        Flags::BLOCK_NOWAIT,
        Flags::SPECULATIVE,
        Flags::TEST_LOCK,
        Flags::CANCEL_ON_BLOCK,
        Flags::NO_EXPANSION,
        Flags::HAS_INTENT,
    ];
    let flags = flags[usize::from(extra) % flags.len()];
    let lock = desc(kind, 1 + u64::from(op / 128), mode, policy(kind, mode, start, len, extra));
    let old = world.namespace.locks.iter().map(|(_, lock)| lock.handle);
    let handles =
        [Handle(u64::from(len))].into_iter().chain(old).take(1 + usize::from(extra / 250));
    let handles: Vec<Handle> = handles.collect();
    LockRequest { flags, count: handles.len() as u32, lock, handles }
}

fn some_lock(world: &World, number: u8) -> Option<Lock> {
    let locks = world.namespace.locks.iter().filter(|(_, lock)| lock.export != 0);
    let locks: Vec<Lock> = locks.map(|(_, lock)| lock.clone()).collect();
    locks.get(usize::from(number) % locks.len().max(1)).cloned()
}

fn holder(world: &World, lock: &Lock) -> u64 {
    world.namespace.exports[lock.export].handle.0
}

fn cancel_some(world: &mut World, number: u8) {
    if let Some(lock) = some_lock(world, number) {
        assert_eq!(world.cancel(holder(world, &lock), lock.handle), 1);
    }
}

fn convert_some(world: &mut World, number: u8, bits: u8) {
    let Some(lock) = some_lock(world, number) else { return };
    world.requests += 1;
    let policy = InodebitsPolicy {
        bits: InodeBits(bits.into()),
        try_bits: InodeBits(0),
        gid: 0,
        initiator: 0,
    };
    let desc =
        LockDesc { requested: lock.requested.wire(), policy: policy.into(), ..Default::default() };
    let convert = LockRequest { lock: desc, handles: vec![lock.handle], ..Default::default() };
    let (id, export) = (RequestId(world.requests), Handle(holder(world, &lock)));
    world.namespace.handle_convert(world.now, id, export, &convert);
}

fn answer_some(world: &mut World, number: u8, how: u8) {
    if world.callbacks.is_empty() {
        return;
    }
    let callback = world.callbacks.remove(usize::from(number) % world.callbacks.len());
    let lvb = Some(OstLvb { size: u64::from(how) * 1000, ..Default::default() });
    let answer = match how % 16 {
        0 => Answer::Failed,
        1 => Answer::Answered(Status::failed(Errno::EINVAL), None),
        2 => Answer::Answered(Status(-303), None),
        _ => Answer::Answered(Status::OK, lvb),
    };
    if callback.has_answer {
        world.answer(callback.id, answer);
    }
}

fn local(world: &mut World, kind: LockType, mode: u8, start: u8, len: u8) {
    let modes = [Modes::EX, Modes::PW, Modes::PR, Modes::CW, Modes::CR];
    let mode = modes[usize::from(mode) % modes.len()];
    world.namespace.handle_local_enqueue(
        world.now,
        LocalEnqueue {
            cookie: u64::from(start % 3),
            resource: ResourceId { name: [1, 0, 0, 0] },
            kind,
            mode,
            policy: policy(kind, mode, start, len, 0),
            is_immediate: start.is_multiple_of(5),
            discards_data: start.is_multiple_of(7),
        },
    );
}

/// The host becomes slow, or answers what it was asked.
fn read_some(world: &mut World, op: u8) {
    let fast = Some(OstLvb { size: 100, ..Default::default() });
    world.lvb = if op < 128 { None } else { fast };
    for id in std::mem::take(&mut world.reads) {
        let result = if op.is_multiple_of(3) { Err(Errno::EIO) } else { Ok(OstLvb::default()) };
        world.namespace.handle_lvb(world.now, id, result);
    }
}

/// What is known of the locks before an input: by handle, what they cover and whether they wait.
fn snapshot(world: &World) -> BTreeMap<Handle, Lock> {
    world.namespace.locks.iter().map(|(_, lock)| (lock.handle, lock.clone())).collect()
}

/// Whether two locks exclude each other, written down apart from the code.
fn conflict(kind: Kind, a: &Lock, b: &Lock) -> bool {
    let (x, y) = (a.requested.wire(), b.requested.wire());
    if (x, y) == (Modes::GROUP, Modes::GROUP) {
        return a.part.value != b.part.value;
    }
    let is_group = x == Modes::GROUP || y == Modes::GROUP;
    let overlap = a.part.start.max(b.part.start) <= a.part.end.min(b.part.end);
    let bits =
        |lock: &Lock| if lock.requested.wire() == Modes::GROUP { 0x40 } else { lock.part.value };
    let covers = match kind {
        Kind::Plain => true,
        Kind::Extent => is_group || overlap,
        Kind::Inodebits => bits(a) & bits(b) != 0,
        Kind::Flock => overlap && (a.export, a.part.value) != (b.export, b.part.value),
    };
    covers && !crate::mode::are_compatible(x, y)
}

fn compare(world: &World, before: &BTreeMap<Handle, Lock>) {
    let namespace = &world.namespace;
    for (place, resource) in namespace.resources.iter() {
        let kind = resource.kind;
        let of = |(_, lock): &(u32, &Lock)| lock.resource == place && lock.is_granted;
        let granted: Vec<&Lock> = namespace.locks.iter().filter(of).map(|(_, lock)| lock).collect();
        let waiting: Vec<&Lock> =
            resource.waiting().map(|waiter| &namespace.locks[waiter.lock]).collect();
        for (at, a) in granted.iter().enumerate() {
            for b in &granted[..at] {
                assert!(!conflict(kind, a, b), "{a:?} and {b:?} are granted");
            }
            // What grew beyond its request stays away from those that wait.
            let Some(old) = before.get(&a.handle).filter(|old| !old.is_granted) else { continue };
            for b in waiting.iter().filter(|_| kind == Kind::Extent) {
                assert!(conflict(kind, old, b) || !conflict(kind, a, b), "{a:?} grew into {b:?}");
            }
        }
        let has_lvbs = matches!(kind, Kind::Extent | Kind::Inodebits);
        let is_read = !has_lvbs || world.reads.is_empty();
        for (at, lock) in waiting.iter().enumerate().filter(|_| is_read) {
            let ahead = waiting[..at].iter().filter(|_| kind != Kind::Flock);
            let mut all = granted.iter().chain(ahead);
            assert!(all.any(|other| conflict(kind, lock, other)), "{lock:?} waits for nothing");
        }
        // The first of the queue has asked all back.
        for lock in waiting.first().into_iter().filter(|_| is_read && kind != Kind::Flock) {
            let is_asked = |other: &Lock| {
                other.flags.has(lock::Flags::BLOCKS)
                    || kind == Kind::Extent && other.requested.wire() == Modes::GROUP
            };
            let missed =
                granted.iter().find(|other| conflict(kind, lock, other) && !is_asked(other));
            assert!(missed.is_none(), "{lock:?} has not asked {missed:?}");
        }
    }
}

/// All that was asked is answered, and all that waits is granted when others cancel.
fn finish(world: &mut World) {
    read_some(world, 255);
    world.drain();
    world.called_back();
    while let Some(lock) = some_lock(world, 0) {
        let before = snapshot(world);
        world.cancel(holder(world, &lock), lock.handle);
        compare(world, &before);
        world.called_back();
    }
    for cookie in 0..3 {
        world.namespace.handle_local_withdraw(world.now, cookie);
    }
    world.drain();
    while let Some(lock) = some_lock(world, 0) {
        world.cancel(holder(world, &lock), lock.handle);
        world.called_back();
    }
    world.called_back();
    world.namespace.is_idle().unwrap();
    assert_eq!(world.replies.len() as u64, world.requests, "each request is answered once");
}
