//! Extent locks: conflicts, growth, groups, glimpses.

use fulmar_base::Errno;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn the_first_lock_of_an_object_gets_all_of_it() {
    let mut world = World::ost();
    let reply = world.granted(1, range(Modes::PW, 0, 4095));
    assert_eq!((extent_of(&reply), reply.flags), ((0, Extent::EOF), Flags::LOCK_CHANGED));
    let whole = world.granted(
        1,
        desc(LockType::EXTENT, 2, Modes::PR, Extent { start: 0, end: Extent::EOF, gid: 0 }),
    );
    assert_eq!(whole.flags, NONE);
    let fixed = desc(LockType::EXTENT, 3, Modes::PW, Extent { start: 0, end: 4095, gid: 0 });
    let (_, reply) = world.enqueue(1, fixed, Flags::NO_EXPANSION);
    assert_eq!((extent_of(&reply), reply.flags), ((0, 4095), Flags::NO_EXPANSION));
}

#[test]
fn a_writer_waits_until_readers_have_cancelled() {
    let mut world = World::ost();
    let readers: Vec<_> = (1..=3)
        .map(|export| (export, world.granted(export, range(Modes::PR, 0, 4095)).handle))
        .collect();
    let writer = world.waits(4, range(Modes::PW, 4096, 8191));
    assert!(writer.flags.has(Flags::NO_TIMEOUT));
    assert_eq!(extent_of(&writer), (4096, 8191));
    world.expect_blocking(&readers);
    // They know already.
    world.waits(5, range(Modes::PW, 4096, 8191));
    assert!(world.callbacks.is_empty());
    for (export, handle) in readers {
        assert!(world.callbacks.is_empty());
        assert_eq!(world.cancel(export, handle), 1);
    }
    let all = world.called_back();
    let kinds: Vec<_> = all.iter().map(|(export, kind, _)| (*export, *kind)).collect();
    assert_eq!(kinds, [(4, CallbackKind::Completion)]);
    // The second writer waits for the first: it is asked for with the grant.
    assert_eq!(all[0].2.lock.flags, Flags::AST_SENT);
    assert_eq!(all[0].2.lvb.unwrap().size, 100);
}

#[test]
fn locks_beside_each_other_grow_up_to_the_next() {
    let mut world = World::ost();
    let first = world.granted(1, range(Modes::PW, 0, 4095));
    world.waits(2, range(Modes::PW, 8 * MIB, 9 * MIB - 1));
    world.cancel(1, first.handle);
    let granted = world.called_back().pop().unwrap().2;
    assert_eq!(granted.lock.lock.policy.extent().start, 0);
    let (status, again) = world.enqueue(1, range(Modes::PW, 0, MIB - 1), NONE);
    assert_eq!((status, again.lock.granted), (Status::OK, Modes(0)));
    // The other is asked back, and the first is granted what is free.
    world.called_back();
    world.cancel(2, granted.lock.handles[1]);
    let first = world.called_back().pop().unwrap().2;
    assert_eq!(first.lock.lock.policy.extent().end, Extent::EOF);
}

#[test]
fn growth_ends_before_waiting_locks_of_others() {
    let mut world = World::ost();
    let all = world.granted(1, range(Modes::PW, 0, Extent::EOF));
    let low = world.waits(2, range(Modes::PW, 4 * MIB, 5 * MIB - 1)).handle;
    let high = world.waits(3, range(Modes::PW, 16 * MIB, 17 * MIB - 1)).handle;
    world.called_back();
    world.cancel(1, all.handle);
    let granted = world.expect_completions(&[(2, low), (3, high)]);
    let extents: Vec<_> = granted.iter().map(|one| one.lock.lock.policy.extent()).collect();
    assert_eq!((extents[0].start, extents[0].end), (0, 16 * MIB - 1));
    assert_eq!((extents[1].start, extents[1].end), (16 * MIB, Extent::EOF));
    assert!(granted.iter().all(|one| one.lock.flags == NONE));
}

#[test]
fn a_later_reader_does_not_overtake_a_waiting_writer() {
    let mut world = World::ost();
    let reader = world.granted(1, range(Modes::PR, 0, 4095)).handle;
    let writer = world.waits(2, range(Modes::PW, 0, 4095)).handle;
    let late = world.waits(3, range(Modes::PR, 0, 4095)).handle;
    world.expect_blocking(&[(1, reader)]);
    world.cancel(1, reader);
    world.expect_completions(&[(2, writer)]);
    world.cancel(2, writer);
    world.expect_completions(&[(3, late)]);
}

#[test]
fn a_waiting_lock_that_goes_sets_others_free() {
    let mut world = World::ost();
    world.granted(1, range(Modes::PR, 0, 4095));
    let writer = world.waits(2, range(Modes::PW, 0, 4095)).handle;
    let late = world.waits(3, range(Modes::PR, 0, 4095)).handle;
    world.called_back();
    world.cancel(2, writer);
    world.expect_completions(&[(3, late)]);
}

#[test]
fn a_lock_ahead_fails_instead_of_waiting() {
    let mut world = World::ost();
    world.granted(1, range(Modes::PW, 0, 4095));
    let flags = Flags::SPECULATIVE.with(Flags::NO_EXPANSION);
    let (status, reply) = world.enqueue(2, range(Modes::PW, 0, 4095), flags);
    assert_eq!((status, reply), (Status::failed(Errno::EAGAIN), LockReply::default()));
    assert!(world.callbacks.is_empty());
}

#[test]
fn members_of_a_group_share_and_others_wait() {
    let mut world = World::ost();
    let first = world.granted(1, group(7)).handle;
    let other = world.waits(3, group(8)).handle;
    let reader = world.waits(4, range(Modes::PR, 0, 10)).handle;
    // They join although others wait.
    let second = world.granted(2, group(7)).handle;
    assert!(world.callbacks.is_empty(), "groups are not asked back");
    for without_wait in [group(8), group(9), range(Modes::PW, 0, 10)] {
        let (status, _) = world.enqueue(5, without_wait, Flags::BLOCK_NOWAIT);
        assert_eq!(status, Status::failed(Errno::EAGAIN));
    }
    let late = world.waits(5, group(8)).handle;
    world.cancel(1, first);
    assert!(world.callbacks.is_empty());
    world.cancel(2, second);
    // Groups are before others, and those of a group together.
    world.expect_completions(&[(3, other), (5, late)]);
    world.cancel(3, other);
    world.cancel(5, late);
    world.expect_completions(&[(4, reader)]);
    assert_eq!(world.enqueue(1, group(0), NONE).0, Status::failed(Errno::EINVAL));
}

/// The clients of the others give them back soon: that is no wait for the work of a group.
#[test]
fn a_group_without_wait_asks_others_back() {
    let mut world = World::ost();
    let reader = world.granted(1, range(Modes::PR, 0, 10)).handle;
    let (status, reply) = world.enqueue(1, group(7), Flags::BLOCK_NOWAIT);
    assert_eq!(status, Status::OK);
    world.expect_blocking(&[(1, reader)]);
    world.cancel(1, reader);
    world.expect_completions(&[(1, reply.handle)]);
}

#[test]
fn a_glimpse_gets_a_lock_or_asks_the_writer() {
    let mut world = World::ost();
    let all = range(Modes::PR, 0, Extent::EOF);
    let (status, reply) = world.enqueue(1, all, Flags::HAS_INTENT);
    assert_eq!((status, reply.flags), (Status::OK, Flags::HAS_INTENT.with(Flags::LOCK_CHANGED)));
    world.cancel(1, reply.handle);
    let writer = world.granted(2, range(Modes::PW, 0, 10));
    let glimpse =
        world.send(3, request(all, Flags::HAS_INTENT, Handle(77)), false, Outcome::Ordinary);
    let callback = world.callbacks.pop().unwrap();
    assert_eq!((callback.export, callback.kind), (Handle(2), CallbackKind::Glimpse));
    assert_eq!(callback.lock.lock, writer.lock);
    assert!(!world.replies.contains_key(&glimpse));
    let known = OstLvb { size: 7000, mtime: 3, blocks: 1, ..Default::default() };
    world.answer(callback.id, Answer::Answered(Status::OK, Some(known)));
    let (status, reply, lvb) = world.replies.remove(&glimpse).unwrap();
    assert_eq!((status, reply, lvb), (Status(301), LockReply::default(), Some(known)));
    // A glimpse ahead of time does not ask.
    let ahead = Flags::HAS_INTENT.with(Flags::BLOCK_NOWAIT).with(Flags::SPECULATIVE);
    assert_eq!(world.enqueue(3, all, ahead).0, Status(301));
    assert!(world.callbacks.is_empty());
}

#[test]
fn attributes_are_read_again_when_a_writer_is_gone() {
    let mut world = World::ost();
    let writer = world.granted(2, range(Modes::PW, 0, 10)).handle;
    let reader = world.waits(3, range(Modes::PR, 0, 10)).handle;
    world.called_back();
    world.lvb = None;
    world.cancel(2, writer);
    assert!(world.callbacks.is_empty(), "the size is not known yet");
    let id = world.reads.pop().unwrap();
    let lvb = OstLvb { size: 11, ..Default::default() };
    world.namespace.handle_lvb(world.now, id, Ok(lvb));
    world.drain();
    assert_eq!(world.expect_completions(&[(3, reader)])[0].lvb, Some(lvb));
}

#[test]
fn what_the_host_writes_during_a_read_is_newer() {
    let mut world = World::ost();
    let id = ResourceId { name: [1, 0, 0, 0] };
    let of_size = |size| OstLvb { size, ..Default::default() };
    world.lvb = None;
    let wanted = request(range(Modes::PR, 0, 10), NONE, Handle(5));
    let first = world.send(1, wanted.clone(), false, Outcome::Ordinary);
    world.namespace.set_lvb(id, of_size(70));
    world.namespace.handle_lvb(world.now, id, Ok(of_size(60)));
    // This answer comes without a request.
    world.namespace.handle_lvb(world.now, id, Ok(of_size(50)));
    world.drain();
    assert_eq!(world.replies[&first].2, Some(of_size(70)));
    world.namespace.set_lvb(id, of_size(80));
    let second = world.send(2, wanted, false, Outcome::Ordinary);
    assert_eq!(world.replies[&second].2, Some(of_size(80)));
}

#[test]
fn what_was_read_before_a_writer_was_gone_is_read_again() {
    let mut world = World::ost();
    let id = ResourceId { name: [1, 0, 0, 0] };
    let held = [range(Modes::PW, 0, 4095), range(Modes::CR, 0, 4095)].map(|lock| {
        let (_, reply) = world.enqueue(1, lock, Flags::NO_EXPANSION);
        reply.handle
    });
    let (_, other) = world.enqueue(2, range(Modes::PW, 8192, 9000), Flags::NO_EXPANSION);
    let reader = world.waits(3, range(Modes::PR, 0, 10)).handle;
    world.called_back();
    world.lvb = None;
    world.cancel(1, held[0]);
    world.cancel(2, other.handle);
    assert_eq!(world.reads.len(), 1);
    for size in [1, 2] {
        assert!(world.callbacks.is_empty());
        let lvb = OstLvb { size, ..Default::default() };
        world.namespace.handle_lvb(world.now, id, Ok(lvb));
        world.drain();
    }
    assert_eq!(world.expect_completions(&[(3, reader)])[0].lvb.unwrap().size, 2);
}

#[test]
fn an_object_that_cannot_be_read_has_no_locks() {
    let mut world = World::ost();
    world.lvb = None;
    let wanted = request(range(Modes::PR, 0, 10), NONE, Handle(5));
    let first = world.send(1, wanted.clone(), false, Outcome::Ordinary);
    let second = world.send(2, wanted, false, Outcome::Ordinary);
    assert_eq!(world.reads.len(), 1);
    world.namespace.handle_disconnect(world.now, Handle(2));
    world.namespace.handle_lvb(world.now, world.reads[0], Err(Errno::ENOENT));
    world.drain();
    for request in [first, second] {
        assert_eq!(world.replies[&request].0, Status::failed(Errno::ENOENT));
    }
    world.namespace.is_idle().unwrap();
}

#[test]
fn a_contended_object_is_marked() {
    let mut world = World::ost();
    let features = Features { contention: true, ..Features::default() };
    world.namespace.handle_connect(Handle(2), features);
    world.granted(1, range(Modes::PR, 0, Extent::EOF));
    for _ in 0..16 {
        assert!(!world.waits(2, range(Modes::PW, 0, 4095)).flags.has(Flags::CONTENTION));
    }
    assert!(world.waits(2, range(Modes::PW, 0, 4095)).flags.has(Flags::CONTENTION));
    assert!(!world.waits(3, range(Modes::PW, 0, 4095)).flags.has(Flags::CONTENTION));
    let (status, _) = world.enqueue(3, range(Modes::PW, 0, 4095), Flags::DENY_ON_CONTENTION);
    assert_eq!(status, Status::failed(Errno::EUSERS));
    world.now = world.now + Duration::from_secs(31);
    assert!(!world.waits(2, range(Modes::PW, 0, 4095)).flags.has(Flags::CONTENTION));
}
