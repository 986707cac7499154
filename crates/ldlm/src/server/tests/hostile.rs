//! What harmful clients send.

use fulmar_base::Errno;

use super::*;

fn status(world: &mut World, lock: LockDesc, flags: Flags) -> Status {
    world.enqueue(1, lock, flags).0
}

#[test]
fn requests_that_are_not_valid_are_refused() {
    let mut world = World::mdt();
    let valid = bits(Modes::PR, InodeBits::LOOKUP, InodeBits(0));
    let failed = Status::failed;
    assert_eq!(status(&mut world, valid, Flags(0x20)), failed(Errno::EPROTO));
    let with_kind = |kind| desc(kind, 1, Modes::PR, valid.policy);
    assert_eq!(status(&mut world, with_kind(LockType(9)), NONE), failed(Errno::EFAULT));
    assert_eq!(status(&mut world, with_kind(LockType::EXTENT), NONE), failed(Errno::EPROTO));
    for mode in [Modes(0), Modes(3), Modes::COS, Modes(u32::MAX)] {
        let lock = LockDesc { requested: mode, ..valid };
        assert_eq!(status(&mut world, lock, NONE), failed(Errno::EFAULT));
    }
    let empty = bits(Modes::PR, InodeBits(0), InodeBits(0));
    assert_eq!(status(&mut world, empty, NONE), failed(Errno::EPROTO));
    let unknown = bits(Modes::PR, InodeBits(1 << 40), InodeBits(0));
    assert_eq!(status(&mut world, unknown, NONE), failed(Errno::EPROTO));
    assert_eq!(status(&mut world, flock(Modes::CW, 0, 1, 1), NONE), failed(Errno::EINVAL));
    assert_eq!(status(&mut world, flock(Modes::PW, 2, 1, 1), NONE), failed(Errno::EINVAL));
    let no_handle = LockRequest { lock: valid, ..Default::default() };
    assert_eq!(world.call(1, no_handle).0, failed(Errno::EPROTO));
    assert_eq!(world.enqueue(9, valid, NONE).0, failed(Errno::ENOTCONN));
    world.namespace.is_idle().unwrap();
    world.granted(1, valid);
    let as_flock = desc(LockType::FLOCK, 1, Modes::PR, Policy::default());
    assert_eq!(status(&mut world, as_flock, NONE), failed(Errno::EINVAL));
}

#[test]
fn a_lock_is_replayed_only_in_recovery() {
    let mut world = World::ost();
    let held = world.granted(1, range(Modes::PW, 0, 4095)).handle;
    let granted = Flags::REPLAY.with(Flags::BLOCK_GRANTED);
    for flags in [granted, Flags::REPLAY, Flags::REPLAY.with(Flags::BLOCK_WAIT)] {
        let (status, _) = world.enqueue(2, range(Modes::PW, 0, 4095), flags);
        assert_eq!(status, Status::failed(Errno::EPROTO));
    }
    assert_eq!((world.namespace.len(), world.cancel(1, held)), (1, 1));
}

#[test]
fn a_client_reaches_only_its_own_locks() {
    let mut world = World::mdt();
    let held = world.granted(1, bits(Modes::PR, InodeBits::LOOKUP, InodeBits(0))).handle;
    assert_eq!(world.cancel(2, held), 0);
    let convert = LockRequest {
        lock: bits(Modes::PR, InodeBits::LOOKUP, InodeBits(0)),
        handles: vec![held],
        ..Default::default()
    };
    world.namespace.handle_convert(world.now, RequestId(900), Handle(2), &convert);
    world.drain();
    assert_eq!(world.replies[&RequestId(900)].1.handle, Handle::NONE);
    assert_eq!(world.cancel(1, held), 1);
    let many = LockRequest { count: u32::MAX, handles: vec![held], ..Default::default() };
    assert_eq!(world.namespace.handle_cancel(world.now, Handle(1), &many), Err(Errno::EPROTO));
    assert_eq!(world.namespace.handle_cancel(world.now, Handle(9), &many), Err(Errno::ENOTCONN));
}

#[test]
fn locks_and_waiting_locks_of_a_client_are_limited() {
    let limits = Limits { of_export: 4, waiting_of_export: 2, waiting: 3, ..Limits::default() };
    let mut world = World::new(Config { limits, ..Config::ost() });
    let full = Status::failed(Errno::EINPROGRESS);
    let mut object = 0;
    let mut next = |mode| {
        object += 1;
        desc(LockType::EXTENT, object, mode, Extent { start: 0, end: 9, gid: 0 })
    };
    for _ in 0..4 {
        world.granted(1, next(Modes::PW));
    }
    assert_eq!(world.enqueue(1, next(Modes::PW), NONE).0, full);
    for export in [2, 2] {
        world.waits(export, range(Modes::PW, 0, 9));
    }
    assert_eq!(world.enqueue(2, range(Modes::PW, 0, 9), NONE).0, full);
    world.waits(3, range(Modes::PW, 0, 9));
    assert_eq!(world.enqueue(3, range(Modes::PW, 0, 9), NONE).0, full);
    assert_eq!((world.namespace.len(), world.namespace.waiting_len()), (7, 3));
    // Others are served.
    world.granted(4, next(Modes::PW));
    world.disconnect_all();
    assert_eq!(world.namespace.waiting_len(), 0);
    world.namespace.is_idle().unwrap();
}

#[test]
fn a_client_that_takes_many_locks_leaves_places_to_others() {
    let limits = Limits { locks: 20, of_export: 18, of_export_crowded: 4, ..Limits::default() };
    let mut world = World::new(Config { limits, ..Config::ost() });
    let lock = range(Modes::PR, 0, 9);
    for _ in 0..11 {
        world.granted(1, lock);
    }
    assert_eq!(world.enqueue(1, lock, NONE).0, Status::failed(Errno::EINPROGRESS));
    for _ in 0..4 {
        world.granted(2, lock);
    }
    assert_eq!(world.enqueue(2, lock, NONE).0, Status::failed(Errno::EINPROGRESS));
    world.granted(3, lock);
}

#[test]
fn requests_that_wait_for_the_host_are_limited() {
    let limits = Limits { pending: 2, ..Limits::default() };
    let mut world = World::new(Config { limits, ..Config::ost() });
    world.lvb = None;
    for _ in 0..2 {
        world.send(1, request(range(Modes::PW, 0, 9), NONE, Handle(3)), false, Outcome::Ordinary);
    }
    let (status, _) = world.enqueue(1, range(Modes::PW, 0, 9), NONE);
    assert_eq!(status, Status::failed(Errno::EINPROGRESS));
}

#[test]
fn an_unlock_that_would_split_beyond_the_limit_fails_and_others_do_not() {
    let limits = Limits { of_export: 2, ..Limits::default() };
    let mut world = World::new(Config { limits, ..Config::mdt() });
    world.granted(1, flock(Modes::PW, 0, 99, 1));
    world.enqueue(1, flock(Modes::NL, 10, 10, 1), NONE);
    let (status, _) = world.enqueue(1, flock(Modes::NL, 20, 20, 1), NONE);
    assert_eq!(status, Status::failed(Errno::ENOMEM));
    assert_eq!(world.enqueue(1, flock(Modes::NL, 0, 500, 1), NONE).0, Status::OK);
    world.namespace.is_idle().unwrap();
}
