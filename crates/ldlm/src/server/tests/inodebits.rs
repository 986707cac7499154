//! Inodebits and plain locks; locks of the host.

use fulmar_base::Errno;

use super::*;

use InodeBits as Bits;

#[test]
fn locks_of_different_bits_do_not_conflict() {
    let mut world = World::mdt();
    let lookup = world.granted(1, bits(Modes::PR, Bits::LOOKUP, Bits(0))).handle;
    world.granted(2, bits(Modes::EX, Bits::UPDATE, Bits(0)));
    world.waits(3, bits(Modes::EX, Bits::LOOKUP.with(Bits::PERM), Bits(0)));
    let callback = world.called_back().pop().unwrap().2;
    assert_eq!(callback.lock.handles[1], lookup);
    let policy = callback.lock.lock.policy.inodebits();
    assert_eq!((policy.bits, policy.try_bits), (Bits(0x11), Bits(0x11)));
    assert_eq!((callback.lock.count, callback.lock.flags), (0, NONE));
}

#[test]
fn optional_bits_are_granted_if_they_are_free() {
    let mut world = World::mdt();
    world.granted(1, bits(Modes::EX, Bits::LAYOUT, Bits(0)));
    let wanted = bits(Modes::PR, Bits::LOOKUP, Bits::LAYOUT.with(Bits::PERM));
    let reply = world.granted(2, wanted);
    assert_eq!(reply.lock.policy.inodebits().bits, Bits::LOOKUP.with(Bits::PERM));
    assert_eq!(reply.flags, Flags::LOCK_CHANGED);
    let (status, reply) = world.enqueue(2, bits(Modes::PR, Bits(0), Bits::LAYOUT), NONE);
    assert_eq!((status, reply), (Status(301), LockReply::default()));
    assert!(world.callbacks.is_empty());
}

#[test]
fn a_convert_keeps_what_is_not_wanted() {
    let mut world = World::mdt();
    let held = world.granted(1, bits(Modes::PR, Bits::LOOKUP.with(Bits::UPDATE), Bits(0)));
    let waiting = world.waits(2, bits(Modes::EX, Bits::UPDATE, Bits(0))).handle;
    world.expect_blocking(&[(1, held.handle)]);
    let convert = |world: &mut World, lock| {
        let convert =
            LockRequest { count: 1, lock, handles: vec![held.handle], ..Default::default() };
        world.requests += 1;
        let id = RequestId(world.requests);
        world.namespace.handle_convert(world.now, id, Handle(1), &convert);
        world.drain();
        world.replies.remove(&id).unwrap()
    };
    let mut lock = bits(Modes::PR, Bits::LOOKUP, Bits(0));
    lock.resource = ResourceDesc::default();
    let (status, reply, _) = convert(&mut world, lock);
    assert_eq!(status, Status::OK);
    assert_eq!(reply.lock.policy.inodebits().bits, Bits::LOOKUP);
    assert_eq!((reply.lock.requested, reply.handle.0 >> 20), (Modes(0), 1));
    world.expect_completions(&[(2, waiting)]);
    assert_eq!(world.namespace.poll_timeout(), None);
    // Nothing is left of other bits or in another mode.
    assert_eq!(
        convert(&mut world, bits(Modes::PR, Bits::PERM, Bits(0))).0,
        Status::failed(Errno::EPROTO)
    );
    assert_eq!(
        convert(&mut world, bits(Modes::EX, Bits::LOOKUP, Bits(0))).0,
        Status::failed(Errno::EPROTO)
    );
    // What remains is asked back again.
    world.waits(3, bits(Modes::EX, Bits::LOOKUP, Bits(0)));
    world.expect_blocking(&[(1, held.handle)]);
    world.cancel(1, held.handle);
    let (status, reply, _) = convert(&mut world, lock);
    assert_eq!((status, reply), (Status::OK, LockReply::default()));
}

#[test]
fn the_host_takes_locks_and_gives_one_to_a_client() {
    let mut world = World::mdt();
    let local = |cookie, mode, wanted: Bits| LocalEnqueue {
        cookie,
        resource: ResourceId { name: [1, 0, 0, 0] },
        kind: LockType::IBITS,
        mode,
        policy: bits(mode, wanted, Bits(0)).policy,
        is_immediate: false,
        discards_data: false,
    };
    let client = world.granted(1, bits(Modes::PR, Bits::LOOKUP, Bits(0))).handle;
    world.namespace.handle_local_enqueue(world.now, local(7, Modes::EX, Bits::LOOKUP));
    world.drain();
    assert!(world.local.is_empty());
    world.expect_blocking(&[(1, client)]);
    world.cancel(1, client);
    let (cookie, handle) = world.local.pop().unwrap();
    assert_eq!(cookie, 7);
    world.waits(2, bits(Modes::PR, Bits::LOOKUP, Bits(0)));
    assert_eq!(world.local_blocks, [7]);
    let result = IntentResult { disposition: 0x17, status: 0 };
    let wanted = request(
        desc(LockType::IBITS, 9, Modes::CR, Policy { words: [2, 0, 0], ..Default::default() }),
        Flags::HAS_INTENT,
        Handle(66),
    );
    let id = world.send(3, wanted.clone(), false, Outcome::Replaced(handle.unwrap(), result));
    let (status, reply, _) = world.replies.remove(&id).unwrap();
    assert_eq!((status, reply.result1), (Status::OK, 0x17));
    let flags = Flags::HAS_INTENT.with(Flags::LOCK_CHANGED).with(Flags::AST_SENT);
    assert_eq!(
        (reply.flags, reply.lock.granted, reply.lock.resource.id.name[0]),
        (flags, Modes::EX, 1)
    );
    assert_eq!(reply.lock.policy.inodebits().try_bits, Bits::LOOKUP);
    // A repeated request gets the same lock, and no lock is given twice.
    let id = world.send(3, wanted.clone(), true, Outcome::Replaced(Handle(1), result));
    assert_eq!(world.replies[&id].1.handle, reply.handle);
    let id = world.send(4, wanted, false, Outcome::Replaced(reply.handle, result));
    assert_eq!(world.replies[&id].0, Status::failed(Errno::EINVAL));
    world.advance(99);
    assert!(world.evicted.is_empty());
    world.advance(1);
    assert_eq!(world.evicted, [(Handle(3), EvictReason::NotCancelled)]);
    world.called_back();
}

#[test]
fn an_intent_without_a_lock_has_a_result() {
    let mut world = World::mdt();
    let wanted = request(bits(Modes::CR, Bits::LOOKUP, Bits(0)), Flags::HAS_INTENT, Handle(66));
    let result = IntentResult { disposition: 7, status: -2 };
    let id = world.send(3, wanted.clone(), false, Outcome::Aborted(result));
    let (status, reply, _) = world.replies[&id];
    assert_eq!((status, reply.result1, reply.result2), (Status(301), 7, -2));
    assert_eq!(reply.lock, LockDesc::default());
    let id = world.send(3, wanted, false, Outcome::Failed(Errno::EPROTO));
    assert_eq!(world.replies[&id].0, Status::failed(Errno::EPROTO));
    world.namespace.is_idle().unwrap();
}

#[test]
fn a_configuration_log_is_changed_when_its_readers_have_cancelled() {
    let mut world = World::new(Config::mgs());
    let log = desc(LockType::PLAIN, 5, Modes::CR, Policy::default());
    let reader = world.granted(1, log).handle;
    let local = LocalEnqueue {
        cookie: 1,
        resource: log.resource.id,
        kind: LockType::PLAIN,
        mode: Modes::EX,
        policy: Policy::default(),
        is_immediate: false,
        discards_data: false,
    };
    world.namespace.handle_local_enqueue(world.now, local);
    world.drain();
    world.expect_blocking(&[(1, reader)]);
    world.cancel(1, reader);
    let again = world.waits(1, log).handle;
    let writer = world.local.pop().unwrap().1.unwrap();
    world.namespace.handle_local_cancel(world.now, &[writer]);
    world.drain();
    world.expect_completions(&[(1, again)]);
    let immediate = LocalEnqueue { cookie: 2, is_immediate: true, ..local };
    world.namespace.handle_local_enqueue(world.now, immediate);
    world.drain();
    assert_eq!(world.local.pop(), Some((2, Err(Errno::EAGAIN))));
    world.namespace.handle_local_enqueue(world.now, LocalEnqueue { cookie: 3, ..local });
    world.namespace.handle_local_withdraw(world.now, 3);
    world.disconnect_all();
    world.namespace.is_idle().unwrap();
}

#[test]
fn a_lock_of_the_host_that_no_client_gets_is_gone() {
    let mut world = World::mdt();
    let mut cookie = 0;
    let mut local = |world: &mut World| {
        cookie += 1;
        let wanted = bits(Modes::CR, Bits::LOOKUP, Bits(0));
        let (resource, policy) = (ResourceId { name: [1, 0, 0, 0] }, wanted.policy);
        let (kind, mode) = (LockType::IBITS, Modes::CR);
        let (is_immediate, discards_data) = (false, false);
        world.namespace.handle_local_enqueue(
            world.now,
            LocalEnqueue { cookie, resource, kind, mode, policy, is_immediate, discards_data },
        );
        world.drain();
        Outcome::Replaced(world.local.pop().unwrap().1.unwrap(), IntentResult::default())
    };
    let good = request(bits(Modes::CR, Bits::LOOKUP, Bits(0)), Flags::HAS_INTENT, Handle(66));
    let outcome = local(&mut world);
    let id = world.send(3, good.clone(), false, outcome);
    let granted = world.replies.remove(&id).unwrap().1;
    // Repeated, of an unknown client, and refused.
    let outcome = local(&mut world);
    let id = world.send(3, good.clone(), true, outcome);
    assert_eq!(world.replies.remove(&id).unwrap().1.handle, granted.handle);
    let outcome = local(&mut world);
    world.namespace.handle_enqueue(
        world.now,
        Enqueue {
            request: RequestId(999),
            export: Handle(999),
            lock: good.clone(),
            is_resent: false,
            outcome,
        },
    );
    world.drain();
    let mut wrong = good;
    wrong.flags = Flags(u32::MAX);
    let outcome = local(&mut world);
    let id = world.send(3, wrong, false, outcome);
    assert_eq!(world.replies[&id].0, Status::failed(Errno::EPROTO));
    assert_eq!(world.namespace.len(), 1);
}

#[test]
fn the_host_gets_no_lock_if_none_of_its_optional_bits_is_free() {
    let mut world = World::mdt();
    let held = world.granted(1, bits(Modes::EX, Bits::LOOKUP.with(Bits::UPDATE), Bits(0)));
    let local = |world: &mut World, cookie, optional: Bits| {
        let wanted = bits(Modes::PR, Bits(0), optional);
        let local = LocalEnqueue {
            cookie,
            resource: held.lock.resource.id,
            kind: LockType::IBITS,
            mode: Modes::PR,
            policy: wanted.policy,
            is_immediate: false,
            discards_data: false,
        };
        world.namespace.handle_local_enqueue(world.now, local);
        world.drain();
        world.local.pop().unwrap()
    };
    assert_eq!(local(&mut world, 1, Bits::UPDATE), (1, Err(Errno::EAGAIN)));
    let (_, lock) = local(&mut world, 2, Bits::UPDATE.with(Bits::LAYOUT));
    world.namespace.handle_local_cancel(world.now, &[lock.unwrap()]);
    world.drain();
    assert!(world.callbacks.is_empty());
    world.disconnect_all();
    world.namespace.is_idle().unwrap();
}

#[test]
fn locks_on_data_carry_their_attributes() {
    let mut world = World::mdt();
    let data = |mode| bits(mode, Bits::DOM, Bits(0));
    let (_, writer, lvb) = world.call(1, request(data(Modes::PW), NONE, Handle(5)));
    assert_eq!(lvb.unwrap().size, 100);
    let (_, reader, lvb) = world.call(2, request(data(Modes::PR), NONE, Handle(6)));
    assert!(reader.flags.has(Flags::BLOCK_GRANTED) && lvb.is_some());
    world.expect_blocking(&[(1, writer.handle)]);
    // The writer has made the file longer. A lock on something else does not wait for that.
    world.lvb = None;
    world.cancel(1, writer.handle);
    assert!(world.callbacks.is_empty(), "the size is not known yet");
    world.granted(3, bits(Modes::PR, Bits::LOOKUP, Bits(0)));
    let id = world.reads.pop().unwrap();
    let longer = OstLvb { size: 7000, ..Default::default() };
    world.namespace.handle_lvb(world.now, id, Ok(longer));
    world.drain();
    let completion = world.expect_completions(&[(2, reader.handle)]).remove(0);
    assert_eq!(completion.lvb, Some(longer));
}

#[test]
fn a_glimpse_of_data_asks_the_writer() {
    let mut world = World::mdt();
    // As it comes with an open.
    let writer = world.granted(1, bits(Modes::PW, Bits::LOOKUP.with(Bits::DOM), Bits(0)));
    world.granted(4, bits(Modes::CR, Bits::LAYOUT, Bits(0)));
    let wanted = request(bits(Modes::PR, Bits::DOM, Bits(0)), Flags::HAS_INTENT, Handle(77));
    let glimpse = world.send(2, wanted, false, Outcome::Ordinary);
    let callback = world.callbacks.pop().unwrap();
    assert_eq!((callback.export, callback.kind), (Handle(1), CallbackKind::Glimpse));
    assert_eq!(callback.lock.lock, writer.lock);
    let known = OstLvb { size: 7000, blocks: 8, ..Default::default() };
    world.answer(callback.id, Answer::Answered(Status::OK, Some(known)));
    let (status, _, lvb) = world.replies.remove(&glimpse).unwrap();
    assert_eq!((status, lvb.unwrap().size), (Status(301), 7000));
    assert!(world.callbacks.is_empty());
}

/// `lfs migrate` asks for the group of a file without wait, and its own client has the data.
#[test]
fn a_group_without_wait_asks_for_data_back_but_not_for_those_of_a_group() {
    let mut world = World::mdt();
    let group = |gid| {
        let policy = InodebitsPolicy { bits: Bits::DOM, try_bits: Bits(0), gid, initiator: 0 };
        desc(LockType::IBITS, 1, Modes::GROUP, policy)
    };
    let writer = world.granted(1, bits(Modes::PW, Bits::DOM, Bits(0))).handle;
    let (status, reply) = world.enqueue(1, group(7), Flags::BLOCK_NOWAIT);
    assert_eq!(status, Status::OK);
    world.expect_blocking(&[(1, writer)]);
    world.cancel(1, writer);
    world.expect_completions(&[(1, reply.handle)]);
    let (status, _) = world.enqueue(2, group(8), Flags::BLOCK_NOWAIT);
    assert_eq!(status, Status::failed(Errno::EAGAIN));
    let (status, _) = world.enqueue(2, bits(Modes::PR, Bits::DOM, Bits(0)), Flags::BLOCK_NOWAIT);
    assert_eq!(status, Status::failed(Errno::EAGAIN));
    world.granted(2, group(7));
    assert!(world.callbacks.is_empty());
}

#[test]
fn who_gives_up_the_bit_of_data_may_have_changed_them() {
    let mut world = World::mdt();
    let data = |mode| bits(mode, Bits::DOM, Bits(0));
    let parts = Bits::UPDATE.with(Bits::DOM);
    let (_, glimpse, _) = world.call(2, request(data(Modes::PR), Flags::HAS_INTENT, Handle(4)));
    world.cancel(2, glimpse.handle);
    let held = world.granted(1, bits(Modes::PW, parts, Bits(0)));
    let mut lock = bits(Modes::PW, Bits::UPDATE, Bits(0));
    lock.resource = ResourceDesc::default();
    let convert = LockRequest { count: 1, lock, handles: vec![held.handle], ..Default::default() };
    world.lvb = Some(OstLvb { size: 7000, ..Default::default() });
    world.namespace.handle_convert(world.now, RequestId(1 << 40), Handle(1), &convert);
    world.drain();
    let (_, _, lvb) = world.call(2, request(data(Modes::PR), NONE, Handle(5)));
    assert_eq!(lvb.unwrap().size, 7000);
}

#[test]
fn the_host_gives_up_bits_that_its_client_must_not_have() {
    let mut world = World::mdt();
    let lock = bits(Modes::PR, Bits::LOOKUP, Bits::DOM);
    world.namespace.handle_local_enqueue(
        world.now,
        LocalEnqueue {
            cookie: 1,
            resource: lock.resource.id,
            kind: LockType::IBITS,
            mode: Modes::PR,
            policy: lock.policy,
            is_immediate: false,
            discards_data: false,
        },
    );
    world.drain();
    let handle = world.local.pop().unwrap().1.unwrap();
    assert_eq!(world.namespace.bits(handle), Bits::LOOKUP.with(Bits::DOM));
    let waiting = world.waits(2, bits(Modes::PW, Bits::DOM, Bits(0)));
    world.namespace.handle_local_convert(world.now, handle, Bits::LOOKUP);
    world.drain();
    assert_eq!(world.namespace.bits(handle), Bits::LOOKUP);
    world.expect_completions(&[(2, waiting.handle)]);
}

#[test]
fn optional_parts_for_the_host_are_those_that_are_free_when_it_asks() {
    let mut world = World::mdt();
    let client = world.granted(1, bits(Modes::PR, Bits::LOOKUP | Bits::UPDATE, Bits(0))).handle;
    let lock = bits(Modes::CW, Bits::LOOKUP, Bits::UPDATE | Bits::LAYOUT);
    let local = LocalEnqueue {
        cookie: 1,
        resource: lock.resource.id,
        kind: LockType::IBITS,
        mode: lock.requested,
        policy: lock.policy,
        is_immediate: false,
        discards_data: false,
    };
    world.namespace.handle_local_enqueue(world.now, local);
    world.drain();
    world.expect_blocking(&[(1, client)]);
    world.cancel(1, client);
    assert!(world.local.pop().unwrap().1.is_ok());
    world.granted(2, bits(Modes::PR, Bits::UPDATE, Bits(0)));
    world.waits(3, bits(Modes::PR, Bits::LAYOUT, Bits(0)));
}

/// Otherwise two replayed changes of one name would stop the recovery.
#[test]
fn the_host_waits_for_its_own_locks_while_the_target_recovers() {
    let mut world = World::mdt();
    world.namespace.begin_recovery();
    let lock = bits(Modes::PW, Bits::UPDATE, Bits(0));
    let local = |cookie| LocalEnqueue {
        cookie,
        resource: lock.resource.id,
        kind: LockType::IBITS,
        mode: lock.requested,
        policy: lock.policy,
        is_immediate: false,
        discards_data: false,
    };
    world.namespace.handle_local_enqueue(world.now, local(1));
    world.namespace.handle_local_enqueue(world.now, local(2));
    world.drain();
    let (cookie, first) = world.local.pop().unwrap();
    assert_eq!((cookie, world.local.len()), (1, 0));
    world.namespace.handle_local_cancel(world.now, &[first.unwrap()]);
    world.drain();
    assert!(matches!(world.local.pop(), Some((2, Ok(_)))));
}
