//! Acquiring locks.

use super::*;

const EOF: u64 = Extent::EOF;

fn held(world: &mut World, wanted: LockSpec) -> Option<LockId> {
    match world.ns.acquire(world.now, wanted).unwrap() {
        Start::Held(lock) => Some(lock),
        Start::Sent(lock) => {
            world.outputs();
            world.ns.handle_enqueued(world.now, lock, Err(Errno::EIO));
            world.outputs();
            None
        }
    }
}

#[test]
fn a_range_that_is_held_is_not_requested_again() {
    let mut world = World::new();
    let lock = world.granted(bytes(LockMode::PW, 4096, 8191), 50);
    assert_eq!(held(&mut world, bytes(LockMode::PR, 4096, 5000)), Some(lock));
    assert_eq!(held(&mut world, bytes(LockMode::PW, 8191, 8191)), Some(lock));
    assert_eq!(held(&mut world, bytes(LockMode::PW, 4096, 8192)), None);
    assert_eq!(held(&mut world, bytes(LockMode::EX, 4096, 8191)), None);
    let other =
        LockSpec { resource: resource(LockType::EXTENT, 2), ..bytes(LockMode::PR, 5000, 5000) };
    assert_eq!(held(&mut world, other), None);
    assert_eq!(held(&mut world, bytes(LockMode::PR, 5000, 5000).always()), None);
}

#[test]
fn bits_that_are_held_are_not_requested_again() {
    let mut world = World::new();
    let all = InodeBits::LOOKUP | InodeBits::UPDATE | InodeBits::PERM;
    let few = world.granted(bits(LockMode::PR, InodeBits::LAYOUT), 50);
    let many = world.granted(bits(LockMode::PR, all), 51);
    for (wanted, found) in [
        (InodeBits::UPDATE, Some(many)),
        (InodeBits::LOOKUP | InodeBits::PERM, Some(many)),
        (InodeBits::LAYOUT, Some(few)),
        (InodeBits::UPDATE | InodeBits::LAYOUT, None),
        (InodeBits::XATTR, None),
    ] {
        assert_eq!(held(&mut world, bits(LockMode::CR, wanted)), found, "{wanted:?}");
    }
    assert_eq!(held(&mut world, bits(LockMode::PW, InodeBits::UPDATE)), None);
}

#[test]
fn an_enqueue_names_the_lock_and_those_given_up() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PR, 0, EOF).with(LockFlags::HAS_INTENT));
    assert_eq!((request.flags, request.count), (LockFlags::HAS_INTENT, 1));
    assert_eq!(request.handles, [world.ns.cookie(lock), Handle::NONE]);
    let LockDesc { requested, granted, policy, .. } = request.lock;
    assert_eq!((requested, granted, policy), (LockMode::PR, LockMode(0), extent(0, EOF)));
    let early = vec![Handle(7), Handle(8)];
    let (lock, request) = world.send(LockSpec { early, ..bits(LockMode::CW, InodeBits::UPDATE) });
    assert_eq!((request.count, request.handles.len()), (3, 3));
    assert_eq!(request.handles, [world.ns.cookie(lock), Handle(7), Handle(8)]);
    // To an MGS.
    let mut world = World::with(|settings| settings.early_cancel = false);
    let config = LockSpec::new(resource(LockType::PLAIN, 3), LockMode::CR, Policy::default());
    let (_, request) = world.send(config);
    assert_eq!((request.count, request.handles.len()), (0, 2));
}

#[test]
fn what_no_server_accepts_is_not_requested() {
    let mut world = World::new();
    let plain = LockSpec { resource: resource(LockType::PLAIN, 1), ..bytes(LockMode::CR, 1, 2) };
    for wanted in [
        bytes(LockMode(3), 0, 1),
        bytes(LockMode::TXN, 0, 1),
        bytes(LockMode::PR, 2, 1),
        bits(LockMode::PR, InodeBits::NONE),
        LockSpec { resource: resource(LockType(9), 1), ..bytes(LockMode::PR, 0, 1) },
        plain,
    ] {
        assert_eq!(world.ns.acquire(world.now, wanted), Err(Errno::EINVAL));
    }
    world.no_output();
    assert!(world.ns.is_empty());
}

#[test]
fn the_server_may_grant_a_larger_range() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PR, 0, 4095));
    let mut reply = grants(&request, 50);
    reply.lock.policy = extent(0, EOF);
    reply.flags = LockFlags::LOCK_CHANGED;
    let outputs = world.reply(lock, reply, &LVB);
    let [Output::Granted { covered, extra, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((covered.policy, &extra.lvb[..]), (extent(0, EOF), &LVB[..]));
    assert_eq!(held(&mut world, bytes(LockMode::PR, 1 << 40, EOF)), Some(lock));
}

#[test]
fn an_intent_gets_the_lock_of_another_file() {
    let mut world = World::new();
    let wanted = bits(LockMode::CR, InodeBits::LOOKUP).with(LockFlags::HAS_INTENT).always();
    let (lock, request) = world.send(wanted);
    let mut reply = grants(&request, 50);
    reply.flags = LockFlags::LOCK_CHANGED | LockFlags::HAS_INTENT;
    let child = resource(LockType::IBITS, 2);
    let all = ibits(InodeBits::LOOKUP | InodeBits::UPDATE, InodeBits::NONE);
    reply.lock = LockDesc { resource: child, requested: LockMode::PR, policy: all, ..reply.lock };
    (reply.result1, reply.result2) = (0x37, -2);
    let outputs = world.reply(lock, reply, &[]);
    let [Output::Granted { covered, extra, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    let expected = Coverage { resource: child, mode: LockMode::PR, policy: all };
    assert_eq!((**covered, extra.result1, extra.result2), (expected, 0x37, -2));
    let of_child = LockSpec { resource: child, ..bits(LockMode::PR, InodeBits::UPDATE) };
    assert_eq!(held(&mut world, of_child), Some(lock));
    assert_eq!(held(&mut world, bits(LockMode::CR, InodeBits::LOOKUP)), None);
}

#[test]
fn a_glimpse_or_an_intent_may_get_no_lock() {
    let mut world = World::new();
    let (lock, _) = world.send(bytes(LockMode::PR, 0, EOF).with(LockFlags::HAS_INTENT));
    let reply = LockReply { result2: -2, ..LockReply::default() };
    let answer = Answer { status: Status(301), reply: Some(reply), lvb: &LVB };
    world.ns.handle_enqueued(world.now, lock, Ok(answer));
    let Output::NoLock { extra, .. } = world.output() else { panic!("no lock") };
    assert_eq!((extra.result2, extra.lvb.len()), (-2, 56));
    assert!(world.ns.is_empty());
}

#[test]
fn a_refused_request_fails() {
    for (result, expected) in [
        (Err(Errno::ETIMEDOUT), Errno::ETIMEDOUT),
        (Ok((Status(-2), true)), Errno::ENOENT),
        (Ok((Status(303), true)), Errno::EPROTO),
        (Ok((Status(0), false)), Errno::EPROTO),
        (Ok((Status(301), false)), Errno::EPROTO),
    ] {
        let mut world = World::new();
        let (lock, _) = world.send(bytes(LockMode::PR, 0, EOF));
        let answer = result.map(|(status, has_reply)| Answer {
            status,
            reply: has_reply.then(LockReply::default),
            lvb: &[],
        });
        world.ns.handle_enqueued(world.now, lock, answer);
        assert_eq!(world.output(), Output::Failed { lock, errno: expected });
        assert!(world.ns.is_empty());
    }
}

#[test]
fn a_value_block_has_one_of_two_lengths() {
    for (len, is_right) in [(0, true), (40, true), (56, true), (1, false), (55, false), (64, false)]
    {
        let mut world = World::new();
        let (lock, request) = world.send(bytes(LockMode::PR, 0, EOF));
        let outputs = world.reply(lock, grants(&request, 50), &vec![0; len]);
        if is_right {
            assert_eq!(names(&outputs), ["Granted"])
        } else {
            assert_eq!(outputs[0], Output::Failed { lock, errno: Errno::EINVAL });
            assert_eq!(names(&outputs), ["Failed", "Cancel"], "the server has a lock");
        }
    }
}

#[test]
fn a_change_to_what_was_not_requested_is_an_error() {
    let other = resource(LockType::EXTENT, 2);
    let changes: [fn(&mut LockDesc); 7] = [
        |lock| lock.policy = extent(1, EOF),
        |lock| lock.policy = extent(0, 4094),
        |lock| lock.policy = Extent { start: 0, end: 4095, gid: 3 }.into(),
        |lock| lock.requested = LockMode::CR,
        |lock| lock.requested = LockMode(0xffff),
        |lock| lock.resource.kind = LockType::FLOCK,
        |lock| lock.resource.id = resource(LockType::EXTENT, 2).id,
    ];
    for change in changes {
        let mut world = World::new();
        let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
        let mut reply = grants(&request, 50);
        reply.flags = LockFlags::LOCK_CHANGED;
        change(&mut reply.lock);
        let outputs = world.reply(lock, reply, &[]);
        assert_eq!(outputs[0], Output::Failed { lock, errno: Errno::EPROTO });
        assert_eq!(names(&outputs), ["Failed", "Cancel"]);
        assert!(world.ns.is_empty());
        assert_eq!(world.ns.find(&other, LockMode::PR, extent(0, 1)), None);
    }
}

#[test]
fn a_blocked_request_waits_for_its_completion() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    let outputs = world.reply(lock, blocks(&request, 50, LockFlags::NO_TIMEOUT), &LVB);
    assert_eq!((outputs, world.ns.poll_timeout()), (vec![], None));
    assert_eq!(world.ns.find(&request.lock.resource, LockMode::PW, extent(0, 1)), None);
    let desc = LockDesc { granted: LockMode::PW, policy: extent(0, EOF), ..request.lock };
    let handles = [world.ns.cookie(lock), Handle(50)];
    let outputs = world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &LVB);
    let [Output::Granted { covered, .. }, answer] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(covered.policy, extent(0, EOF));
    assert!(is_answer(answer, Status::OK));
    let again = world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &LVB);
    assert!(is_answer(&again[0], Status::OK) && again.len() == 1);
}

#[test]
fn a_completion_may_overtake_the_reply() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    let desc = LockDesc { granted: LockMode::PW, policy: extent(0, EOF), ..request.lock };
    let handles = [world.ns.cookie(lock), Handle(50)];
    let outputs = world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &LVB);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1);
    let outputs = world.reply(lock, blocks(&request, 50, LockFlags::NONE), &[0; 40]);
    let [Output::Granted { covered, extra, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((covered.policy, &extra.lvb[..]), (extent(0, EOF), &LVB[..]));
}

#[test]
fn a_lost_completion_is_searched_by_a_new_connection() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    world.reply(lock, blocks(&request, 50, LockFlags::NONE), &[]);
    for _ in 0..2 {
        let bound = world.ns.poll_timeout().unwrap();
        assert_eq!(bound, world.now + Duration::from_secs(100));
        world.wait(99);
        world.no_output();
        world.wait(1);
        assert_eq!(world.output(), Output::Reconnect);
    }
    assert!(world.ns.interrupt(lock));
    world.outputs();
    assert_eq!(world.ns.poll_timeout(), None);
}

#[test]
fn an_interrupted_user_leaves_nothing_behind() {
    // Before the reply.
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    assert!(world.ns.interrupt(lock));
    assert_eq!(world.output(), Output::Failed { lock, errno: Errno::EINTR });
    assert!(!world.ns.interrupt(lock));
    let outputs = world.reply(lock, grants(&request, 50), &[]);
    assert_eq!((names(&outputs), world.ns.len()), (vec!["Cancel".into()], 0));
    // After a reply that says to wait.
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    world.reply(lock, blocks(&request, 51, LockFlags::NONE), &[]);
    assert!(world.ns.interrupt(lock));
    assert_eq!(names(&world.outputs()), ["Failed", "Cancel"]);
    let desc = LockDesc { granted: LockMode::PW, ..request.lock };
    let handles = [world.ns.cookie(lock), Handle(51)];
    let outputs = world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &LVB);
    assert!(is_answer(&outputs[0], INVAL));
    // When it is granted, it is late.
    let lock = world.granted(bytes(LockMode::PW, 0, 4095), 52);
    assert!(!world.ns.interrupt(lock));
}

#[test]
fn a_group_lock_is_for_its_group_and_ends_with_its_last_use() {
    let group = |gid| {
        let policy = Extent { start: 0, end: EOF, gid };
        LockSpec::new(resource(LockType::EXTENT, 1), LockMode::GROUP, policy)
    };
    let mut world = World::new();
    let lock = world.granted(group(4), 50);
    assert_eq!(held(&mut world, group(4)), Some(lock));
    assert_eq!(held(&mut world, group(5)), None);
    assert!(world.ns.release(world.now, lock));
    world.no_output();
    assert!(world.ns.release(world.now, lock));
    assert_eq!(names(&world.outputs()), ["Flush"]);
    assert_eq!(world.cancelled(lock), [50]);
}

#[test]
fn the_known_size_ends_with_the_last_byte_that_is_covered() {
    let mut world = World::new();
    let object = resource(LockType::EXTENT, 1);
    assert_eq!(world.ns.last_covered(&object), None);
    world.cached(bytes(LockMode::PR, 0, 4095), 50);
    let last = world.cached(bytes(LockMode::PW, 8192, EOF), 51);
    assert_eq!(world.ns.last_covered(&object), Some(EOF));
    world.block(last, InodeBits::NONE);
    assert_eq!(world.ns.last_covered(&object), Some(4095));
}

#[test]
fn a_change_of_the_settings_keeps_the_handles() {
    let mut world = World::new();
    let lock = world.cached(bytes(LockMode::PR, 0, 4095), 50);
    let cookie = world.ns.cookie(lock);
    world.ns.configure(|settings| (settings.key, settings.early_cancel) = (0, false));
    assert_eq!(world.ns.cookie(lock), cookie);
    let (_, request) = world.send(bytes(LockMode::PW, 0, 4095));
    assert_eq!(request.count, 0);
    assert_eq!(world.ns.locks().count(), 2);
}
