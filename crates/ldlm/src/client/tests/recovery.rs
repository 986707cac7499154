//! The server has forgotten locks, or the client.

use super::*;

fn replayed(outputs: &[Output]) -> Vec<(LockId, LockRequest)> {
    let replay = |output: &Output| match output {
        Output::Replay { lock, request } => (*lock, (**request).clone()),
        other => panic!("{other:?}"),
    };
    outputs.iter().map(replay).collect()
}

fn accept(world: &mut World, lock: LockId, request: &LockRequest, server: u64) -> Vec<Output> {
    let flags = request.flags;
    let reply = LockReply { flags, ..grants(request, server) };
    let answer = Answer { status: Status::OK, reply: Some(reply), lvb: &[] };
    world.ns.handle_replayed(world.now, lock, Ok(answer));
    world.outputs()
}

#[test]
fn an_eviction_ends_everything() {
    let mut world = World::new();
    let cached = world.cached(bytes(LockMode::PR, 0, 99), 50);
    let used = world.granted(bytes(LockMode::PW, 200, 299), 51);
    let (sent, request) = world.send(bytes(LockMode::PW, 300, 399));
    let (waiting, other) = world.send(bytes(LockMode::PW, 400, 499));
    world.reply(waiting, blocks(&other, 52, LockFlags::NONE), &[]);
    world.block(cached, InodeBits::NONE);
    world.ns.flushed(world.now, cached);
    world.ns.evict();
    let failed = |lock| Output::Failed { lock, errno: Errno::EIO };
    let mut outputs = world.outputs();
    assert_eq!(outputs.remove(0), Output::Evicted);
    outputs.sort_by_key(|output| *output != failed(sent));
    assert_eq!(outputs, [failed(sent), failed(waiting)], "and no cancel");
    assert!(world.ns.is_empty() && world.ns.poll_timeout().is_none());
    assert!(!world.ns.release(world.now, used));
    assert_eq!(world.reply(sent, grants(&request, 53), &[]), []);
    assert!(is_answer(&world.block(used, InodeBits::NONE)[0], INVAL));
    // New locks have other names.
    let new = world.granted(bytes(LockMode::PR, 0, 99), 54);
    assert!([cached, used, sent, waiting].iter().all(|old| *old != new));
}

#[test]
fn a_restarted_server_learns_the_locks() {
    let mut world = World::with(|settings| settings.replays_max = 2);
    let granted = world.granted(bytes(LockMode::PW, 0, 99), 50);
    let cached = world.cached(bytes(LockMode::PR, 100, 199), 51);
    let (waiting, request) = world.send(bytes(LockMode::PW, 200, 299));
    world.reply(waiting, blocks(&request, 52, LockFlags::NO_TIMEOUT), &[]);
    let (sent, unanswered) = world.send(bytes(LockMode::PW, 300, 399));
    world.ns.replay(world.now);
    let first = replayed(&world.outputs());
    assert_eq!([first[0].0, first[1].0], [granted, cached]);
    let (flag, replay) = (LockFlags::BLOCK_GRANTED, LockFlags::REPLAY);
    let LockRequest { flags, count, lock, handles } = &first[0].1;
    assert_eq!((*flags, *count), (replay | flag, 0));
    assert_eq!((lock.requested, lock.granted), (LockMode::PW, LockMode::PW));
    assert_eq!((lock.policy, lock.resource), (extent(0, 99), resource(LockType::EXTENT, 1)));
    assert_eq!(handles[..], [world.ns.cookie(granted), Handle::NONE]);
    let second = accept(&mut world, granted, &first[0].1, 60);
    let second = replayed(&second);
    assert_eq!((second[0].0, second[0].1.flags), (waiting, replay | LockFlags::BLOCK_WAIT));
    assert_eq!(second[0].1.lock.granted, LockMode(0));
    assert_eq!(accept(&mut world, waiting, &second[0].1, 62), []);
    assert_eq!(accept(&mut world, cached, &first[1].1, 61), [Output::Replayed]);
    // The request without reply was sent again by the import.
    let outputs = world.reply(sent, grants(&unanswered, 63), &[]);
    assert_eq!(names(&outputs), ["Granted"]);
    assert_eq!(names(&world.block(cached, InodeBits::NONE)), ["Answer", "Flush"]);
    assert_eq!(world.cancelled(cached), [61], "the new handle");
}

#[test]
fn what_is_flushed_is_not_replayed() {
    let mut world = World::new();
    let before = world.cached(bytes(LockMode::PR, 0, 99), 50);
    let meanwhile = world.cached(bytes(LockMode::PR, 200, 299), 51);
    world.block(before, InodeBits::NONE);
    world.block(meanwhile, InodeBits::NONE);
    world.ns.flushed(world.now, before);
    world.ns.replay(world.now);
    let replays = replayed(&world.outputs());
    assert_eq!(replays.len(), 1, "and no cancel for the first");
    assert!(world.ns.flushed(world.now, meanwhile));
    world.no_output();
    assert!(is_answer(&world.block(meanwhile, InodeBits::NONE)[0], INVAL));
    let outputs = accept(&mut world, meanwhile, &replays[0].1, 61);
    let [Output::Replayed, Output::Cancel { request, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(request.valid_handles(), [Handle(61)]);
    assert!(world.ns.is_empty());
}

#[test]
fn locks_that_a_server_drops_are_not_replayed() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PR, 0, 4095));
    let reply = LockReply { flags: LockFlags::CANCEL_ON_BLOCK, ..grants(&request, 50) };
    world.reply(lock, reply, &[]);
    world.ns.release(world.now, lock);
    world.ns.replay(world.now);
    assert_eq!(names(&world.outputs()), ["Flush", "Replayed"]);
    assert!(world.ns.flushed(world.now, lock));
    world.no_output();
}

#[test]
fn a_server_that_refuses_a_lock_is_connected_again() {
    for (status, handle) in [(Status(-5), 60), (Status(301), 60), (Status::OK, 0)] {
        let mut world = World::with(|settings| settings.replays_max = 1);
        let first = world.granted(bytes(LockMode::PW, 0, 99), 50);
        world.granted(bytes(LockMode::PW, 100, 199), 51);
        world.ns.replay(world.now);
        let replays = replayed(&world.outputs());
        let reply = Some(grants(&replays[0].1, handle));
        world.ns.handle_replayed(world.now, first, Ok(Answer { status, reply, lvb: &[] }));
        assert_eq!(world.output(), Output::Reconnect);
        world.ns.replay(world.now);
        assert_eq!(replayed(&world.outputs()).len(), 1);
        world.ns.handle_replayed(world.now, first, Err(Errno::EIO));
        assert_eq!(world.output(), Output::Reconnect);
    }
}

#[test]
fn bits_that_are_given_up_during_a_replay_are_converted_after_it() {
    let mut world = World::with(|settings| settings.convert = Convert::Always);
    let lock = world.cached(bits(LockMode::PR, InodeBits::LOOKUP | InodeBits::UPDATE), 50);
    world.block(lock, InodeBits::UPDATE);
    world.ns.replay(world.now);
    let replays = replayed(&world.outputs());
    assert!(world.ns.flushed(world.now, lock));
    world.no_output();
    let outputs = accept(&mut world, lock, &replays[0].1, 60);
    let [Output::Convert { request, .. }, Output::Replayed] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!((request.handles[0], request.lock.policy.words[0]), (Handle(60), 1));
}

#[test]
fn a_completion_before_the_reply_is_forgotten_with_the_server() {
    let mut world = World::new();
    let (lock, request) = world.send(bytes(LockMode::PW, 0, 4095));
    let desc = LockDesc { granted: LockMode::PW, policy: extent(0, Extent::EOF), ..request.lock };
    let handles = [world.ns.cookie(lock), Handle(50)];
    world.call(CallbackKind::Completion, LockFlags::NONE, desc, handles, &LVB);
    world.ns.replay(world.now);
    assert_eq!(world.output(), Output::Replayed);
    // The request is sent again, and gets less than before.
    let mut reply = grants(&request, 60);
    reply.flags = LockFlags::LOCK_CHANGED;
    reply.lock.policy = extent(0, 8191);
    let outputs = world.reply(lock, reply, &[]);
    let [Output::Granted { covered, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(covered.policy, extent(0, 8191));
}
