//! Repeated and replayed requests.

use super::*;

#[test]
fn a_repeated_request_finds_its_lock() {
    let mut world = World::ost();
    let wanted = request(range(Modes::PW, 0, 4095), NONE, Handle(9));
    let (_, first, _) = world.call(1, wanted.clone());
    let id = world.send(1, wanted.clone(), true, Outcome::Ordinary);
    let (_, again, lvb) = world.replies[&id];
    assert_eq!((again.handle, again.flags), (first.handle, Flags::LOCK_CHANGED));
    assert_eq!((again.lock, lvb.unwrap().size), (first.lock, 100));
    assert_eq!(world.namespace.len(), 1);
    // Another client's handle of the same value is another lock, and waits.
    let id = world.send(2, wanted.clone(), true, Outcome::Ordinary);
    let waiting = world.replies[&id].1;
    let id = world.send(2, wanted, true, Outcome::Ordinary);
    let again = world.replies[&id].1;
    let flags = Flags::LOCK_CHANGED.with(Flags::BLOCK_GRANTED).with(Flags::NO_TIMEOUT);
    assert_eq!((again.handle, again.flags), (waiting.handle, flags));
    assert_eq!(world.namespace.len(), 2);
}

#[test]
fn replayed_locks_are_granted_without_a_check_and_waiting_ones_after_recovery() {
    let mut world = World::ost();
    world.namespace.begin_recovery();
    let replay = Flags::REPLAY;
    let granted = replay.with(Flags::BLOCK_GRANTED);
    let lock = |mode| LockDesc { granted: mode, ..range(mode, 0, Extent::EOF) };
    let (status, first) = world.enqueue(1, lock(Modes::PW), granted);
    assert_eq!((status, first.flags, first.lock.granted), (Status::OK, granted, Modes::PW));
    let (_, second) = world.enqueue(2, lock(Modes::PW), granted);
    assert_eq!(second.lock.granted, Modes::PW);
    let (_, waiting) = world.enqueue(3, range(Modes::PR, 0, 4095), replay.with(Flags::BLOCK_WAIT));
    assert_eq!(waiting.lock.granted, Modes(0));
    let (_, unknown) = world.enqueue(4, range(Modes::PR, 0, 4095), replay);
    assert_eq!(unknown.lock.granted, Modes(0));
    assert!(world.callbacks.is_empty(), "nothing is asked back in recovery");
    world.namespace.end_recovery(world.now);
    world.drain();
    world.expect_blocking(&[(1, first.handle), (2, second.handle)]);
    world.cancel(1, first.handle);
    world.cancel(2, second.handle);
    world.expect_completions(&[(3, waiting.handle), (4, unknown.handle)]);
}

#[test]
fn a_replay_that_comes_twice_makes_one_lock() {
    let mut world = World::mdt();
    world.namespace.begin_recovery();
    let flags = Flags::REPLAY.with(Flags::BLOCK_GRANTED);
    let wanted = request(bits(Modes::PR, InodeBits::LOOKUP, InodeBits(0)), flags, Handle(4));
    let (_, first, _) = world.call(1, wanted.clone());
    let (_, second, _) = world.call(1, wanted);
    assert_eq!((first.handle, world.namespace.len()), (second.handle, 1));
}

#[test]
fn locks_that_a_request_gives_up_are_gone_before_it() {
    let mut world = World::ost();
    let held = world.granted(1, range(Modes::PR, 0, 4095)).handle;
    let other = world.granted(2, range(Modes::PR, 0, 4095)).handle;
    let mut wanted = request(range(Modes::PW, 0, 4095), NONE, Handle(9));
    wanted.handles = vec![Handle(9), held, other, Handle(12345)];
    wanted.count = 5;
    world.call(1, wanted.clone());
    assert_eq!(world.called_back().len(), 2, "a list that is too short is not used");
    wanted.count = 4;
    wanted.handles[0] = Handle(10);
    world.call(1, wanted);
    // The other client's lock is not touched.
    assert_eq!((world.cancel(1, held), world.cancel(2, other)), (0, 1));
}
