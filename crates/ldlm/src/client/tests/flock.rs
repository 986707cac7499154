//! Locks of applications.

use super::*;

fn apply(world: &mut World, wanted: LockSpec) {
    let (lock, request) = world.send(wanted);
    let reply = LockReply { flags: request.flags, ..grants(&request, 50) };
    let outputs = world.reply(lock, reply, &[]);
    assert_eq!(names(&outputs), ["Granted"], "no cancel");
    assert!(!world.ns.release(world.now, lock), "a flock has no uses");
}

/// Returns the flocks of an owner as a replay names them.
fn held(world: &mut World, owner: u64) -> Vec<(LockMode, u64, u64)> {
    let mut found = vec![];
    world.ns.replay(world.now);
    let mut outputs = world.outputs();
    while let Some(output) = outputs.pop() {
        let Output::Replay { lock, request } = output else { continue };
        let flock = request.lock.policy.flock();
        if flock.owner == owner {
            found.push((request.lock.granted, flock.start, flock.end));
        }
        let answer = Answer { status: Status::OK, reply: Some(grants(&request, 60)), lvb: &[] };
        world.ns.handle_replayed(world.now, lock, Ok(answer));
        outputs.extend(world.outputs());
    }
    found.sort_by_key(|(_, start, _)| *start);
    found
}

#[test]
fn locks_of_an_owner_are_joined_cut_and_split() {
    let mut world = World::new();
    apply(&mut world, flock(LockMode::PR, 1, 0, 99));
    apply(&mut world, flock(LockMode::PR, 2, 0, 500));
    apply(&mut world, flock(LockMode::PR, 1, 100, 199));
    assert_eq!(held(&mut world, 1), [(LockMode::PR, 0, 199)]);
    apply(&mut world, flock(LockMode::PW, 1, 50, 59));
    let expected = [(LockMode::PR, 0, 49), (LockMode::PW, 50, 59), (LockMode::PR, 60, 199)];
    assert_eq!(held(&mut world, 1), expected);
    apply(&mut world, flock(LockMode::NL, 1, 40, 69));
    assert_eq!(held(&mut world, 1), [(LockMode::PR, 0, 39), (LockMode::PR, 70, 199)]);
    apply(&mut world, flock(LockMode::PW, 1, 0, i64::MAX as u64));
    assert_eq!(held(&mut world, 1), [(LockMode::PW, 0, i64::MAX as u64)]);
    apply(&mut world, flock(LockMode::NL, 1, 0, u64::MAX));
    assert_eq!(held(&mut world, 1), []);
    assert_eq!(held(&mut world, 2), [(LockMode::PR, 0, 500)]);
    apply(&mut world, flock(LockMode::NL, 2, 0, u64::MAX));
    assert!(world.ns.is_empty());
}

#[test]
fn a_test_reports_who_is_in_the_way() {
    // A server that has found nothing need not say that it has changed the mode.
    for (conflict, is_changed) in [(true, true), (false, true), (false, false)] {
        let mut world = World::new();
        let wanted = flock(LockMode::PW, 1, 0, 99).with(LockFlags::TEST_LOCK);
        let (lock, request) = world.send(wanted);
        let mut reply = grants(&request, 0);
        let changed = if is_changed { LockFlags::LOCK_CHANGED } else { LockFlags::NONE };
        reply.flags = LockFlags::TEST_LOCK | changed;
        let other = Flock { start: 50, end: 60, owner: 7, pid: 33 };
        reply.lock.requested = if conflict { LockMode::PR } else { LockMode::NL };
        reply.lock.policy = other.into();
        let expected = conflict.then_some((LockMode::PR, other));
        let outputs = world.reply(lock, reply, &[]);
        assert_eq!(outputs, [Output::Tested { lock, conflict: expected }]);
        assert!(world.ns.is_empty());
    }
}

#[test]
fn a_waiting_flock_may_end_in_several_ways() {
    let (deadlock, none) = (LockFlags::FLOCK_DEADLOCK | LockFlags::AST_SENT, LockFlags::NONE);
    for (flags, granted, errno) in [
        (deadlock, LockMode(0), Some(Errno::EDEADLK)),
        (none, LockMode(0), Some(Errno::ECANCELED)),
        (none, LockMode::PW, None),
    ] {
        let mut world = World::new();
        let (lock, request) = world.send(flock(LockMode::PW, 1, 0, 99));
        world.reply(lock, blocks(&request, 50, none), &[]);
        assert_eq!(world.ns.poll_timeout(), None, "the wait has no bound");
        let desc = LockDesc { granted, ..request.lock };
        let handles = [world.ns.cookie(lock), Handle(50)];
        let outputs = world.call(CallbackKind::Completion, flags, desc, handles, &[]);
        match errno {
            Some(errno) => assert_eq!(outputs[0], Output::Failed { lock, errno }),
            None => assert_eq!(names(&outputs[..1]), ["Granted"]),
        }
        assert!(is_answer(&outputs[1], Status::OK) && outputs.len() == 2);
        assert_eq!(world.ns.is_empty(), errno.is_some());
    }
}

#[test]
fn flocks_are_neither_called_back_nor_too_old() {
    let mut world = World::with(|settings| settings.unused_max = 0);
    let (lock, request) = world.send(flock(LockMode::PW, 1, 0, 99));
    let flags = LockFlags::AST_SENT | LockFlags::CANCEL_ON_BLOCK;
    world.reply(lock, LockReply { flags, ..grants(&request, 50) }, &[]);
    let outputs = world.block(lock, InodeBits::UPDATE);
    assert!(is_answer(&outputs[0], Status::OK) && outputs.len() == 1);
    assert_eq!(world.ns.poll_timeout(), None);
    assert_eq!(held(&mut world, 1).len(), 1);
}
