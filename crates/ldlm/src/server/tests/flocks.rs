//! Flock and POSIX locks.

use fulmar_base::Errno;

use super::*;

const EOF: u64 = i64::MAX as u64;

/// Returns the granted ranges of file 2 in order.
fn held(world: &World) -> Vec<(u64, u64, Modes, u64)> {
    let granted = world.namespace.locks.iter().filter(|(_, lock)| lock.is_granted);
    let part = |lock: &lock::Lock| {
        (lock.part.start, lock.part.end, lock.requested.wire(), lock.part.value)
    };
    let mut all: Vec<_> = granted.map(|(_, lock)| part(lock)).collect();
    all.sort_by_key(|one| (one.0, one.3));
    all
}

#[test]
fn an_unlock_splits_and_a_lock_joins() {
    let mut world = World::mdt();
    let reply = world.granted(1, flock(Modes::PW, 0, 99, 7));
    assert_eq!((reply.flags, reply.lock.policy.flock().end), (NONE, 99));
    let (status, reply) = world.enqueue(1, flock(Modes::NL, 40, 59, 7), NONE);
    assert_eq!(
        (status, reply.lock.requested, reply.lock.granted),
        (Status::OK, Modes::NL, Modes::NL)
    );
    assert_eq!(held(&world), [(0, 39, Modes::PW, 7), (60, 99, Modes::PW, 7)]);
    // Downgrading the middle replaces parts of both.
    world.granted(1, flock(Modes::PR, 20, 79, 7));
    assert_eq!(
        held(&world),
        [(0, 19, Modes::PW, 7), (20, 79, Modes::PR, 7), (80, 99, Modes::PW, 7)]
    );
    world.granted(1, flock(Modes::PW, 20, 79, 7));
    assert_eq!(held(&world), [(0, 99, Modes::PW, 7)]);
    world.enqueue(1, flock(Modes::NL, 0, EOF, 7), NONE);
    assert!(held(&world).is_empty());
    world.namespace.is_idle().unwrap();
}

#[test]
fn owners_of_different_clients_differ() {
    let mut world = World::mdt();
    world.granted(1, flock(Modes::PW, 0, EOF, 7));
    let (status, _) = world.enqueue(2, flock(Modes::PW, 5, 5, 7), Flags::BLOCK_NOWAIT);
    assert_eq!(status, Status::failed(Errno::EAGAIN));
    let (status, reply) = world.enqueue(2, flock(Modes::PR, 5, 5, 7), Flags::TEST_LOCK);
    let found = reply.lock.policy.flock();
    assert_eq!((status, found.start, found.end, found.pid), (Status::OK, 0, EOF, 7));
    assert_eq!(reply.lock.requested, Modes::PW);
    assert!(reply.flags.has(Flags::LOCK_CHANGED));
    world.enqueue(1, flock(Modes::NL, 0, EOF, 7), NONE);
    let (status, reply) = world.enqueue(2, flock(Modes::PR, 5, 5, 7), Flags::TEST_LOCK);
    assert_eq!((status, reply.lock.requested), (Status::OK, Modes::NL));
    world.namespace.is_idle().unwrap();
}

#[test]
fn a_test_finds_the_first_lock_in_the_way() {
    let mut world = World::mdt();
    for (export, mode, start) in [(1, Modes::PR, 50), (2, Modes::PW, 30), (3, Modes::PR, 10)] {
        world.granted(export, flock(mode, start, start + 9, export));
    }
    for (mode, from, expected) in [(Modes::PW, 0, 10), (Modes::PW, 20, 30), (Modes::PR, 0, 30)] {
        let (_, reply) = world.enqueue(4, flock(mode, from, EOF, 4), Flags::TEST_LOCK);
        assert_eq!(reply.lock.policy.flock().start, expected);
    }
    let (_, reply) = world.enqueue(2, flock(Modes::PW, 20, EOF, 2), Flags::TEST_LOCK);
    assert_eq!(reply.lock.policy.flock().start, 50);
}

#[test]
fn a_waiting_lock_is_granted_by_the_unlock() {
    let mut world = World::mdt();
    world.granted(1, flock(Modes::PW, 0, EOF, 7));
    let waiting = world.waits(2, flock(Modes::PR, 10, 20, 8)).handle;
    assert!(world.callbacks.is_empty(), "flocks are not asked back");
    world.enqueue(1, flock(Modes::PR, 0, EOF, 7), NONE);
    let granted = world.expect_completions(&[(2, waiting)]);
    assert_eq!(granted[0].lock.lock.granted, Modes::PR);
    assert_eq!(granted[0].lvb, None);
    world.waits(3, flock(Modes::PW, 0, EOF, 9));
    let export = Handle(1);
    world.namespace.handle_disconnect(world.now, export);
    world.drain();
    assert!(world.callbacks.is_empty());
    world.enqueue(2, flock(Modes::NL, 0, EOF, 8), NONE);
    assert_eq!(world.called_back().len(), 1);
}

#[test]
fn an_owner_withdraws_a_waiting_lock() {
    let mut world = World::mdt();
    world.granted(1, flock(Modes::PW, 0, EOF, 7));
    let waiting = world.waits(2, flock(Modes::PR, 10, 20, 8)).handle;
    world.enqueue(2, flock(Modes::NL, 10, 20, 8), NONE);
    let ended = world.expect_completions(&[(2, waiting)]);
    assert_eq!(ended[0].lock.lock.granted, Modes(0));
    assert_eq!(held(&world).len(), 1);
}

#[test]
fn a_circle_of_owners_is_a_deadlock() {
    let mut world = World::mdt();
    for (export, at) in [(1, 0), (2, 10), (3, 20)] {
        world.granted(export, flock(Modes::PW, at, at, export));
    }
    world.waits(1, flock(Modes::PW, 10, 10, 1));
    world.waits(2, flock(Modes::PW, 20, 20, 2));
    let (status, _) = world.enqueue(3, flock(Modes::PW, 0, 0, 3), NONE);
    assert_eq!(status, Status::failed(Errno::EDEADLK));
    world.waits(4, flock(Modes::PW, 0, 0, 4));
}

#[test]
fn a_deadlock_that_a_grant_makes_ends_a_waiting_lock() {
    let mut world = World::mdt();
    world.granted(1, flock(Modes::PW, 0, 0, 1));
    world.granted(3, flock(Modes::PW, 10, 10, 3));
    // Two threads of owner 2 wait; owner 3 waits for what owner 2 gets first.
    let first = world.waits(2, flock(Modes::PW, 0, 0, 2)).handle;
    let second = world.waits(2, flock(Modes::PW, 10, 10, 2)).handle;
    let third = world.waits(3, flock(Modes::PW, 0, 0, 3)).handle;
    world.enqueue(1, flock(Modes::NL, 0, 0, 1), NONE);
    let ended = world.called_back();
    let of =
        |handle| ended.iter().find(|one| one.2.lock.handles[1] == handle).map(|one| &one.2.lock);
    assert_eq!(of(first).unwrap().lock.granted, Modes::PW);
    // The first in the queue gives way, so that the other is no deadlock any more.
    assert!(of(second).unwrap().flags.has(Flags::FLOCK_DEADLOCK));
    assert_eq!((of(second).unwrap().lock.granted, of(third)), (Modes(0), None));
}
