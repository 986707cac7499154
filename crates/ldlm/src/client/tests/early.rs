//! Locks that are given up with another request.

use super::*;

fn conflict(kind: LockType, mode: LockMode, policy: Policy) -> Coverage {
    Coverage { resource: resource(kind, 1), mode, policy }
}

#[test]
fn a_request_gives_up_what_it_conflicts_with() {
    let mut world = World::new();
    let lookup = world.cached(bits(LockMode::PR, InodeBits::LOOKUP), 50);
    let used = world.granted(bits(LockMode::CR, InodeBits::LOOKUP | InodeBits::XATTR).always(), 51);
    world.cached(bits(LockMode::PR, InodeBits::LAYOUT), 52);
    let wanted = ibits(InodeBits::LOOKUP | InodeBits::UPDATE, InodeBits::NONE);
    let unlink = conflict(LockType::IBITS, LockMode::EX, wanted);
    let id = world.ns.early_cancel(world.now, &[unlink, unlink], 10);
    assert_eq!(names(&world.outputs()), ["Flush"]);
    // A callback meanwhile changes nothing.
    assert_eq!(names(&world.block(lookup, InodeBits::LOOKUP)), ["Answer"]);
    assert!(world.ns.flushed(world.now, lookup));
    assert_eq!(world.output(), Output::Early { id, handles: vec![Handle(50)] });
    assert!(world.ns.release(world.now, used));
    world.no_output();
    // If nothing is sent after all.
    world.ns.cancel_early(vec![Handle(50)]);
    assert_eq!(names(&world.outputs()), ["Cancel"]);
}

#[test]
fn ranges_beside_it_and_compatible_modes_are_kept() {
    let mut world = World::new();
    world.cached(bytes(LockMode::PR, 0, 99), 50);
    let over = world.cached(bytes(LockMode::PR, 100, 199), 51);
    world.cached(bytes(LockMode::PR, 200, 299), 52);
    let read = conflict(LockType::EXTENT, LockMode::PR, extent(0, 299));
    let id = world.ns.early_cancel(world.now, &[read], 10);
    assert_eq!(world.output(), Output::Early { id, handles: vec![] });
    let write = conflict(LockType::EXTENT, LockMode::PW, extent(100, 199));
    let none = world.ns.early_cancel(world.now, &[write], 0);
    assert_eq!(world.output(), Output::Early { id: none, handles: vec![] });
    let id = world.ns.early_cancel(world.now, &[write], 10);
    let outputs = world.outputs();
    assert!(matches!(outputs[..], [Output::Flush { lock, .. }] if lock == over), "{outputs:?}");
    // An eviction ends the search.
    world.ns.evict();
    let outputs = world.outputs();
    assert_eq!(outputs, [Output::Evicted, Output::Early { id, handles: vec![] }]);
}

#[test]
fn locks_for_a_request_that_is_not_sent_are_cancelled() {
    let mut world = World::new();
    world.cached(bits(LockMode::PR, InodeBits::LOOKUP), 50);
    let early = vec![Handle(7)];
    for (wanted, is_right) in [
        (bits(LockMode::PR, InodeBits::LOOKUP), true),
        (bits(LockMode::PR, InodeBits::NONE), false),
    ] {
        let wanted = LockSpec { early: early.clone(), ..wanted };
        assert_eq!(world.ns.acquire(world.now, wanted).is_ok(), is_right);
        let Output::Cancel { request, .. } = world.output() else { panic!("a cancel") };
        assert_eq!(request.valid_handles(), early);
    }
}
