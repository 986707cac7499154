//! Locks without uses.

use super::*;

fn object(name: u64) -> LockSpec {
    LockSpec { resource: resource(LockType::EXTENT, name), ..bytes(LockMode::PR, 0, 4095) }
}

fn flushed(outputs: &[Output]) -> Vec<LockId> {
    let lock = |output: &Output| match output {
        Output::Flush { lock, .. } => *lock,
        other => panic!("{other:?}"),
    };
    outputs.iter().map(lock).collect()
}

#[test]
fn the_oldest_of_too_many_are_given_up_together() {
    let mut world = World::with(|settings| settings.unused_max = 1000);
    let locks: Vec<LockId> = (0..500).map(|name| world.cached(object(name), 1 + name)).collect();
    // The first is used again.
    assert_eq!(world.ns.acquire(world.now, object(0)), Ok(Start::Held(locks[0])));
    assert!(world.ns.release(world.now, locks[0]));
    assert_eq!(world.ns.give_up_unused(world.now, 411), 411);
    let outputs = world.outputs();
    assert_eq!(flushed(&outputs), locks[1..412]);
    for lock in flushed(&outputs) {
        assert!(world.ns.flushed(world.now, lock));
    }
    let outputs = world.outputs();
    let counts = outputs.iter().map(|output| match output {
        Output::Cancel { request, .. } => request.count,
        other => panic!("{other:?}"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [409, 2]);
    assert_eq!((world.ns.len(), world.ns.unused_len()), (89, 89));
    assert_eq!(world.ns.unused().last(), Some(locks[0]));
}

#[test]
fn no_more_than_the_limit_are_kept() {
    let mut world = World::with(|settings| settings.unused_max = 2);
    let locks: Vec<LockId> = (0..3).map(|name| world.granted(object(name), 1 + name)).collect();
    world.no_output();
    for lock in [locks[1], locks[0], locks[2]] {
        assert!(world.ns.release(world.now, lock));
    }
    assert_eq!(flushed(&world.outputs()), [locks[1]]);
    world.ns.set_limits(world.now, 0, 7);
    world.ns.set_limits(world.now, 1, 0);
    world.no_output();
    world.ns.set_limits(world.now, 1, 1 << 40);
    assert_eq!(flushed(&world.outputs()), [locks[0]]);
    // The number of the server is in place of one's own.
    world.ns.set_limits(world.now, 100, 1 << 40);
    for name in 3..9 {
        world.cached(object(name), 1 + name);
    }
}

#[test]
fn a_lock_is_kept_until_it_is_too_old() {
    let mut world = World::new();
    let lock = world.cached(object(1), 50);
    let permanent = LockSpec { permanent: true, ..object(2) };
    let kept = world.cached(permanent, 51);
    assert_eq!(world.ns.poll_timeout(), Some(world.now + Duration::from_secs(600)));
    world.wait(599);
    world.no_output();
    world.wait(1);
    assert_eq!(flushed(&world.outputs()), [lock]);
    assert_eq!(world.ns.poll_timeout(), None);
    assert_eq!(world.ns.acquire(world.now, object(2)), Ok(Start::Held(kept)));
    assert!(world.ns.release_and_cancel(world.now, kept));
    assert_eq!(flushed(&world.outputs()), [kept]);
}

#[test]
fn the_product_of_age_and_number_has_a_limit() {
    let mut world = World::new();
    let locks: Vec<LockId> = (0..4).map(|name| world.cached(object(name), 1 + name)).collect();
    world.ns.set_limits(world.now, 1000, 40);
    // 4 locks of 11 s are too much, 3 of 13 s are not.
    world.wait(10);
    world.no_output();
    world.wait(1);
    assert_eq!(flushed(&world.outputs()), [locks[0]]);
    assert_eq!(world.ns.poll_timeout(), Some(world.now + Duration::from_secs(3)));
    world.wait(2);
    world.no_output();
    world.wait(1);
    assert_eq!(flushed(&world.outputs()), [locks[1]]);
}

#[test]
fn many_equal_locks_are_given_up_together() {
    let file = |of| bits(LockMode::PR, of).always();
    let (lookup, layout) = (InodeBits::LOOKUP, InodeBits::LAYOUT);
    let mut world = World::new();
    let other = world.cached(file(lookup | layout), 1);
    let used = world.granted(file(lookup), 2);
    let locks: Vec<LockId> = (0..15).map(|number| world.cached(file(lookup), 3 + number)).collect();
    let (last, request) = world.send(file(lookup));
    let outputs = world.reply(last, grants(&request, 50), &[]);
    assert_eq!(flushed(&outputs[..15]), locks);
    assert!(matches!(&outputs[15..], [Output::Granted { lock, .. }] if *lock == last));
    for lock in locks {
        assert!(world.ns.flushed(world.now, lock));
    }
    let Output::Cancel { request, .. } = world.output() else { panic!("a cancel") };
    assert_eq!((request.count, world.ns.len()), (15, 3));
    // Data may belong to each of them.
    for number in 0..40 {
        world.cached(file(InodeBits::DOM), 100 + number);
    }
    assert!(world.ns.release(world.now, used) && world.ns.release(world.now, last));
    assert!(world.ns.covered(other).is_some());
    assert_eq!(world.ns.len(), 43);
}
