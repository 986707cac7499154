//! Answers to callbacks, timers and evictions.

use std::time::Duration;

use fulmar_base::Errno;

use super::*;

fn blocked() -> (World, Handle, Callback) {
    let mut world = World::ost();
    let held = world.granted(1, range(Modes::PW, 0, 4095)).handle;
    world.waits(2, range(Modes::PW, 0, 4095));
    let callback = world.callbacks.pop().unwrap();
    (world, held, callback)
}

#[test]
fn a_holder_that_does_not_cancel_is_evicted_and_others_are_served() {
    let (mut world, _, callback) = blocked();
    world.answer(callback.id, Answer::Answered(Status::OK, None));
    world.advance(99);
    assert!(world.evicted.is_empty());
    world.advance(1);
    assert_eq!(world.evicted, [(Handle(1), EvictReason::NotCancelled)]);
    assert_eq!(world.waited, Duration::from_secs(100));
    let granted = world.called_back();
    assert_eq!((granted[0].0, granted[0].1), (2, CallbackKind::Completion));
    // It is unknown from now on.
    let lock = range(Modes::PW, 0, 4095);
    assert_eq!(world.enqueue(1, lock, NONE).0, Status::failed(Errno::ENOTCONN));
    assert_eq!(world.namespace.poll_timeout(), None);
}

#[test]
fn all_that_waits_for_a_silent_holder_goes_on_at_once() {
    let mut world = World::ost();
    let first = range(Modes::PW, 0, 4095);
    let other = desc(LockType::EXTENT, 2, Modes::PW, Extent { start: 0, end: 4095, gid: 0 });
    world.granted(1, first);
    world.granted(1, other);
    world.waits(2, first);
    world.advance(60);
    world.waits(3, other);
    world.called_back();
    // Those from which nothing is awaited are not affected.
    world.namespace.handle_silence(world.now, Handle(2));
    world.namespace.handle_silence(world.now, Handle(9));
    world.advance(40);
    assert_eq!(world.evicted, [(Handle(1), EvictReason::NotCancelled)]);
    let granted: Vec<u64> = world.called_back().iter().map(|one| one.0).collect();
    assert_eq!(granted, [2, 3]);
}

#[test]
fn a_holder_that_another_target_has_found_silent_is_evicted_at_once() {
    let (mut world, _, callback) = blocked();
    world.answer(callback.id, Answer::Answered(Status::OK, None));
    world.advance(30);
    world.namespace.handle_silence(world.now, Handle(1));
    world.advance(0);
    assert_eq!(world.evicted, [(Handle(1), EvictReason::NotAnswered)]);
    assert_eq!(world.waited, Duration::from_secs(30));
    assert_eq!(world.called_back()[0].0, 2);
}

#[test]
fn all_locks_are_called_back_when_what_they_cover_is_another() {
    let mut world = World::ost();
    world.granted(1, range(Modes::PR, 0, 4095));
    world.granted(2, range(Modes::PR, 0, 4095));
    world.namespace.handle_revocation(world.now);
    world.advance(0);
    let called = world.called_back();
    let who: Vec<(u64, CallbackKind)> = called.iter().map(|one| (one.0, one.1)).collect();
    assert_eq!(who, [(1, CallbackKind::Blocking), (2, CallbackKind::Blocking)]);
    world.namespace.handle_revocation(world.now);
    world.advance(0);
    assert!(world.called_back().is_empty(), "they know it");
}

#[test]
fn a_holder_that_writes_gets_more_time_but_not_for_ever() {
    let (mut world, _, callback) = blocked();
    world.answer(callback.id, Answer::Answered(Status::OK, None));
    let id = ResourceId { name: [1, 0, 0, 0] };
    let write = Extent { start: 0, end: 10, gid: 0 };
    for _ in 0..90 {
        assert!(world.evicted.is_empty());
        world.advance(40);
        world.namespace.handle_io(world.now, Handle(1), id, write, Duration::from_secs(110));
    }
    assert_eq!(world.evicted.len(), 1);
}

#[test]
fn a_holder_that_answers_with_an_error_is_evicted() {
    for answer in [Answer::Failed, Answer::Answered(Status::failed(Errno::EPROTO), None)] {
        let (mut world, _, callback) = blocked();
        world.answer(callback.id, answer);
        assert_eq!(world.evicted, [(Handle(1), EvictReason::NotAnswered)]);
        assert_eq!(world.called_back().len(), 1);
    }
}

#[test]
fn a_holder_without_the_lock_has_cancelled_it() {
    let (mut world, held, callback) = blocked();
    world.answer(callback.id, Answer::Answered(Status::failed(Errno::EINVAL), None));
    assert!(world.evicted.is_empty());
    assert_eq!(world.called_back()[0].1, CallbackKind::Completion);
    assert_eq!(world.cancel(1, held), 0);
}

#[test]
fn a_failed_callback_does_not_matter_after_the_cancel() {
    let (mut world, held, callback) = blocked();
    world.cancel(1, held);
    world.answer(callback.id, Answer::Failed);
    world.answer(callback.id, Answer::Failed);
    assert!(world.evicted.is_empty());
}

#[test]
fn a_completion_without_an_answer_evicts() {
    let (mut world, held, callback) = blocked();
    world.cancel(1, held);
    world.answer(callback.id, Answer::Answered(Status::OK, None));
    assert_eq!(world.callbacks.len(), 1);
    world.advance(100);
    assert_eq!(world.evicted, [(Handle(2), EvictReason::NotAnswered)]);
    world.disconnect_all();
    world.namespace.is_idle().unwrap();
}

#[test]
fn slow_cancels_are_given_more_time() {
    let (mut world, held, callback) = blocked();
    world.answer(callback.id, Answer::Answered(Status::OK, None));
    world.advance(98);
    world.cancel(1, held);
    let second = world.called_back()[0].2.lock.handles[1];
    world.waits(3, range(Modes::PW, 0, 4095));
    world.expect_blocking(&[(2, second)]);
    world.advance(146);
    assert!(world.evicted.is_empty());
    world.advance(1);
    assert_eq!(world.evicted.len(), 1);
}

#[test]
fn a_lock_that_cancels_itself_goes_when_it_is_in_the_way() {
    let mut world = World::ost();
    let (_, held) = world.enqueue(1, range(Modes::PR, 0, 4095), Flags::CANCEL_ON_BLOCK);
    let (_, writer) = world.enqueue(2, range(Modes::PW, 0, 4095), NONE);
    let kinds: Vec<_> = world
        .called_back()
        .into_iter()
        .map(|(export, kind, one)| (export, kind, one.has_answer))
        .collect();
    assert_eq!(kinds, [(1, CallbackKind::Blocking, false), (2, CallbackKind::Completion, true)]);
    assert_eq!(world.cancel(1, held.handle), 0);
    assert_eq!(world.cancel(2, writer.handle), 1);
}

#[test]
fn data_of_a_removed_object_are_dropped() {
    let mut world = World::ost();
    let held = world.granted(1, range(Modes::PW, 0, 4095)).handle;
    let local = LocalEnqueue {
        cookie: 1,
        resource: ResourceId { name: [1, 0, 0, 0] },
        kind: LockType::EXTENT,
        mode: Modes::PW,
        policy: range(Modes::PW, 0, Extent::EOF).policy,
        is_immediate: false,
        discards_data: true,
    };
    world.namespace.handle_local_enqueue(world.now, local);
    world.drain();
    let callback = world.called_back().pop().unwrap().2;
    assert_eq!(callback.lock.flags, Flags::DISCARD_DATA);
    world.lvb = None;
    world.cancel(1, held);
    assert!(world.reads.is_empty() && world.local[0].1.is_ok());
}

#[test]
fn a_glimpse_of_a_holder_that_is_gone_ends() {
    for answer in [None, Some(Answer::Failed), Some(Answer::Answered(Status(-303), None))] {
        let mut world = World::ost();
        world.granted(1, range(Modes::PW, 0, 4095));
        let all = range(Modes::PR, 0, Extent::EOF);
        let wanted = request(all, Flags::HAS_INTENT, Handle(77));
        let glimpse = world.send(3, wanted, false, Outcome::Ordinary);
        let callback = world.callbacks.pop().unwrap();
        match answer {
            Some(answer) => world.answer(callback.id, answer),
            None => world.advance(100),
        }
        assert_eq!(world.replies[&glimpse].0, Status(301));
        assert_eq!(world.replies[&glimpse].2.unwrap().size, 100);
        world.disconnect_all();
        world.namespace.is_idle().unwrap();
    }
}
