//! Callbacks, and how locks are given up.

use super::*;

const DOM: InodeBits = InodeBits(0x40 | 0x1 | 0x2);

#[test]
fn a_called_lock_is_cancelled_after_its_last_use_and_its_flush() {
    let mut world = World::new();
    let lock = world.granted(bytes(LockMode::PW, 0, 4095), 50);
    let outputs = world.block(lock, InodeBits::NONE);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1);
    assert_eq!(world.ns.find(&resource(LockType::EXTENT, 1), LockMode::PW, extent(0, 1)), None);
    // Its users may use it further.
    assert!(world.ns.hold(lock));
    assert!(world.ns.release(world.now, lock));
    world.no_output();
    assert!(world.ns.release(world.now, lock));
    let Output::Flush { covered, discard, .. } = world.output() else { panic!("a flush") };
    assert_eq!((covered.policy, discard), (extent(0, 4095), false));
    assert!(!world.ns.hold(lock) && !world.ns.release(world.now, lock));
    let outputs = world.block(lock, InodeBits::NONE);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1, "it is being flushed");
    assert!(world.ns.flushed(world.now, lock));
    let Output::Cancel { id, request } = world.output() else { panic!("a cancel") };
    assert_eq!((request.flags, request.count), (LockFlags::NONE, 1));
    assert_eq!(request.lock, LockDesc::default());
    assert_eq!(request.handles, [Handle(50), Handle::NONE]);
    assert!(is_answer(&world.block(lock, InodeBits::NONE)[0], INVAL), "it is gone");
    assert!(!world.ns.flushed(world.now, lock));
    world.ns.handle_cancelled(id, Ok(()));
    world.no_output();
}

#[test]
fn a_cancel_without_answer_is_sent_again() {
    let mut world = World::new();
    let lock = world.cached(bytes(LockMode::PW, 0, 4095), 50);
    world.block(lock, InodeBits::NONE);
    world.ns.flushed(world.now, lock);
    let Output::Cancel { id, request } = world.output() else { panic!("a cancel") };
    world.ns.handle_cancelled(id, Err(Errno::ETIMEDOUT));
    let Output::Cancel { id: again, request: same } = world.output() else { panic!("a cancel") };
    assert_eq!(request, same);
    world.ns.handle_cancelled(id, Err(Errno::ETIMEDOUT));
    world.ns.handle_cancelled(again, Err(Errno::EIO));
    world.no_output();
}

#[test]
fn data_of_a_destroyed_object_is_dropped() {
    let mut world = World::new();
    let lock = world.cached(bytes(LockMode::PW, 0, 4095), 50);
    let handles = [world.ns.cookie(lock), Handle(50)];
    let desc = LockDesc::default();
    let flags = LockFlags::DISCARD_DATA;
    let outputs = world.call(CallbackKind::Blocking, flags, desc, handles, &[]);
    assert!(matches!(outputs[..], [_, Output::Flush { discard: true, .. }]), "{outputs:?}");
}

#[test]
fn callbacks_for_unknown_locks_and_with_unknown_flags_are_refused() {
    let mut world = World::new();
    let lock = world.cached(bytes(LockMode::PW, 0, 4095), 50);
    let desc = LockDesc { granted: LockMode::PW, ..LockDesc::default() };
    for kind in [CallbackKind::Blocking, CallbackKind::Completion, CallbackKind::Glimpse] {
        let foreign = Handle(world.ns.cookie(lock).0 ^ 1 << 40);
        for cookie in [Handle::NONE, Handle(50), Handle(u64::MAX), foreign] {
            let handles = [cookie, Handle(50)];
            let outputs = world.call(kind, LockFlags::NONE, desc, handles, &LVB);
            assert!(is_answer(&outputs[0], INVAL) && outputs.len() == 1);
        }
        let handles = [world.ns.cookie(lock), Handle(50)];
        let outputs = world.call(kind, LockFlags::HAS_INTENT, desc, handles, &[]);
        assert!(is_answer(&outputs[0], Status::failed(Errno::EPROTO)) && outputs.len() == 1);
    }
}

#[test]
fn a_lock_may_be_called_before_its_reply() {
    let mut world = World::new();
    let (lock, request) = world.send(bits(LockMode::PR, InodeBits::UPDATE));
    let outputs = world.block(lock, InodeBits::UPDATE);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1);
    let outputs = world.reply(lock, grants(&request, 50), &[]);
    assert_eq!(names(&outputs), ["Granted"]);
    assert!(world.ns.release(world.now, lock));
    assert_eq!(names(&world.outputs()), ["Flush"]);
    assert_eq!(world.cancelled(lock), [50]);
}

#[test]
fn a_lock_that_is_contended_already_is_used_once() {
    for in_reply in [true, false] {
        let mut world = World::new();
        let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
        if in_reply {
            let reply = LockReply { flags: LockFlags::AST_SENT, ..grants(&request, 50) };
            assert_eq!(names(&world.reply(lock, reply, &[])), ["Granted"]);
        } else {
            world.reply(lock, blocks(&request, 50, LockFlags::NO_TIMEOUT), &[]);
            let desc = LockDesc { granted: LockMode::PW, ..request.lock };
            let handles = [world.ns.cookie(lock), Handle(50)];
            let flags = LockFlags::AST_SENT | LockFlags::DISCARD_DATA;
            let outputs = world.call(CallbackKind::Completion, flags, desc, handles, &[]);
            assert_eq!(names(&outputs), ["Granted", "Answer"]);
        }
        assert_eq!(world.ns.find(&request.lock.resource, LockMode::PW, extent(0, 1)), None);
        assert!(world.ns.release(world.now, lock));
        let Output::Flush { discard, .. } = world.output() else { panic!("a flush") };
        assert_eq!(discard, !in_reply);
        assert_eq!(world.cancelled(lock), [50]);
    }
}

#[test]
fn a_server_that_drops_its_locks_needs_no_cancel() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PR, 0, 4095));
    let reply = LockReply { flags: LockFlags::CANCEL_ON_BLOCK, ..grants(&request, 50) };
    world.reply(lock, reply, &[]);
    world.ns.release(world.now, lock);
    assert_eq!(names(&world.block(lock, InodeBits::NONE)), ["Answer", "Flush"]);
    assert!(world.ns.flushed(world.now, lock));
    world.no_output();
    assert!(world.ns.is_empty());
}

#[test]
fn a_completion_with_a_wrong_value_block_fails_the_lock() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    world.reply(lock, blocks(&request, 50, LockFlags::NO_TIMEOUT), &[]);
    let desc = LockDesc { granted: LockMode::PW, ..request.lock };
    let handles = [world.ns.cookie(lock), Handle(50)];
    let outputs = world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &[0; 55]);
    assert_eq!(outputs[0], Output::Failed { lock, errno: Errno::EINVAL });
    assert!(is_answer(&outputs[1], INVAL) && outputs.len() == 2, "the server drops the lock");
    assert!(world.ns.is_empty());
}

#[test]
fn attributes_are_reported_and_an_old_write_lock_is_given_up() {
    let mut world = World::new();
    let lock = world.cached(bytes(LockMode::PW, 0, 4095), 50);
    let handles = [world.ns.cookie(lock), Handle::NONE];
    for (seconds, expected) in [(10, vec!["Answer"]), (1, vec!["Answer", "Flush"])] {
        world.wait(seconds);
        let desc = LockDesc::default();
        let outputs = world.call(CallbackKind::Glimpse, LockFlags::NONE, desc, handles, &[]);
        assert_eq!(outputs, [Output::Glimpse { callback: 5, lock }]);
        world.ns.attributes(world.now, 5, lock, Some(LVB.to_vec()));
        let outputs = world.outputs();
        assert_eq!(names(&outputs), expected);
        let answer = Output::Answer { callback: 5, status: Status::OK, lvb: LVB.to_vec() };
        assert_eq!(outputs[0], answer);
    }
    world.ns.attributes(world.now, 5, lock, None);
    assert!(is_answer(&world.output(), Status(-303)));
}

#[test]
fn a_lock_with_data_gives_up_only_the_bits_that_are_needed() {
    let mut world = World::new();
    let lock = world.cached(bits(LockMode::PW, DOM), 50);
    let outputs = world.block(lock, InodeBits::UPDATE | InodeBits::XATTR);
    let [_, Output::Flush { covered, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(covered.policy.inodebits().bits, InodeBits::UPDATE);
    assert!(world.ns.flushed(world.now, lock));
    let Output::Convert { request, .. } = world.output() else { panic!("a convert") };
    assert_eq!((request.count, &request.handles[..]), (1, &[Handle(50), Handle::NONE][..]));
    let LockDesc { resource: named, requested, granted, policy } = request.lock;
    assert_eq!((named, requested, granted), (ResourceDesc::default(), LockMode::PW, LockMode::PW));
    assert_eq!(policy.words, [0x41, 0, 0]);
    let kept = InodeBits::LOOKUP | InodeBits::DOM;
    let file = resource(LockType::IBITS, 1);
    assert_eq!(world.ns.find(&file, LockMode::PR, ibits(kept, InodeBits::NONE)), Some(lock));
    let gone = ibits(InodeBits::UPDATE, InodeBits::NONE);
    assert_eq!(world.ns.find(&file, LockMode::PR, gone), None);
    let reply = LockReply { handle: world.ns.cookie(lock), ..LockReply::default() };
    world.ns.handle_converted(world.now, lock, Ok(Some(reply)));
    world.no_output();
    // A callback for what it does not have any more.
    let outputs = world.block(lock, InodeBits::UPDATE);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1);
    // Then the data: nothing that would be kept by itself.
    assert_eq!(names(&world.block(lock, InodeBits::DOM)), ["Answer", "Flush"]);
    assert_eq!(world.cancelled(lock), [50]);
}

#[test]
fn further_bits_are_given_up_after_the_first() {
    let mut world = World::with(|settings| settings.convert = Convert::Always);
    let lock = world.cached(bits(LockMode::PR, DOM), 50);
    assert_eq!(names(&world.block(lock, InodeBits::UPDATE)), ["Answer", "Flush"]);
    assert_eq!(names(&world.block(lock, InodeBits::LOOKUP)), ["Answer"]);
    assert!(world.ns.flushed(world.now, lock));
    let outputs = world.outputs();
    let [Output::Convert { .. }, Output::Flush { covered, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(covered.policy.inodebits().bits, InodeBits::LOOKUP);
    assert!(world.ns.flushed(world.now, lock));
    let Output::Convert { request, .. } = world.output() else { panic!("a convert") };
    assert_eq!(request.lock.policy.words[0], InodeBits::DOM.0);
}

#[test]
fn other_locks_are_cancelled_as_a_whole() {
    for (convert, bits_held) in
        [(Convert::Never, DOM), (Convert::Data, InodeBits::UPDATE | InodeBits::LOOKUP)]
    {
        let mut world = World::with(|settings| settings.convert = convert);
        let lock = world.cached(bits(LockMode::PR, bits_held), 50);
        let outputs = world.block(lock, InodeBits::UPDATE);
        let [_, Output::Flush { covered, .. }] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!(covered.policy.inodebits().bits, bits_held);
        assert_eq!(world.cancelled(lock), [50]);
    }
}

#[test]
fn a_lock_that_the_server_does_not_know_is_given_up() {
    let mut world = World::new();
    let lock = world.cached(bits(LockMode::PW, DOM), 50);
    world.block(lock, InodeBits::UPDATE);
    world.ns.flushed(world.now, lock);
    world.outputs();
    world.ns.handle_converted(world.now, lock, Err(Errno::EIO));
    world.no_output();
    world.ns.handle_converted(world.now, lock, Ok(Some(LockReply::default())));
    assert_eq!(names(&world.outputs()), ["Flush"]);
}
