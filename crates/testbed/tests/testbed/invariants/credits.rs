//! Exhausted credits. Spec: lnet-behaviour §17, 4, 5, 6, 11 and 17.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet::{EventKind, FaultEffect, FaultKind, Put};

use super::common::{Begun, Plan, World, nid, puts, until};

const BITS: u64 = 77;
const B: fn() -> fulmar_lnet_wire::Nid = || nid(0, 0, 1);

/// 4: with P credits and more messages to a stopped peer, P are in the LND.
fn only_as_many_messages_as_credits_are_handed_over(world: &World, posted: i64, credits: i64) {
    let a = &world.members[0];
    let shown = a.peer_ni(B());
    assert_eq!((shown.credits, shown.credits_min), (credits - posted, credits - posted));
    let in_lnd = a.resident.witness().in_lnd(B());
    assert_eq!(in_lnd, credits, "the rest is queued above the LND");
}

/// 5, 11 and 17: messages that waited for credits are sent in order, and those that waited for
/// memory are delivered in the order of their arrival.
fn all_arrive_in_the_order_in_which_they_were_posted(world: &World, posted: &[Begun]) {
    let offer = world.members[1].offer(BITS, 1 << 20, |made| made);
    for begun in posted {
        assert_eq!(offer.events.wait(EventKind::Put).header_data, begun.header_data);
    }
    for begun in posted {
        begun.events.wait(EventKind::Ack);
        begun.events.wait(EventKind::Send);
        world.members[0].unlink(begun);
    }
}

#[test]
fn a_stopped_peer_gets_as_many_messages_as_credits_and_the_rest_waits_in_order() {
    let plans = [Plan::at(&[0]).acknowledged().credits(4), Plan::at(&[0]).credits(4)];
    let Some(world) = World::new(&plans) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 8);
    until("A is idle", || a.peer_ni(B()).credits == 4);
    b.set_lazy();
    // Small ones go by one connection. Of larger ones the first may go by another, while theirs opens.
    let posted: Vec<Begun> = (0..20).map(|_| a.put(B(), BITS, 512)).collect();
    until("all wait", || a.peer_ni(B()).credits == 4 - 20);
    only_as_many_messages_as_credits_are_handed_over(&world, 20, 4);
    all_arrive_in_the_order_in_which_they_were_posted(&world, &posted);
    world.end();
}

#[test]
fn a_message_that_waits_too_long_fails_and_its_credit_goes_to_the_next() {
    let patient = |plan: Plan| {
        plan.troubled().credits(1).with(|options| {
            // A message may wait for 3 s.
            options.config.socklnd.timeout = Duration::from_secs(2);
            options.config.lnet.globals.retry_count = 0;
        })
    };
    let mut plans = [patient(Plan::at(&[0])), patient(Plan::at(&[0]))];
    plans[0].terms.delays = true;
    let Some(world) = World::new(&plans) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 8);
    let offer = b.offer(BITS, 64, |made| made);
    let put = || a.put_like(B(), BITS, 8, |put| Put { ack: false, ..put });
    a.fault(puts(1, FaultEffect::Delay { latency: 3600 }));
    let (_holds, waits) = (put(), put());
    until("one waits", || a.peer_ni(B()).credits == -1);
    std::thread::sleep(Duration::from_millis(3500));
    let late = put();
    a.remove_rules(FaultKind::Delay);
    assert_eq!(waits.events.wait_for_end(EventKind::Send).1, Err(Errno::ETIMEDOUT));
    late.events.wait(EventKind::Send);
    until("the late one has arrived", || {
        offer.events.rest().iter().any(|event| event.header_data == late.header_data)
    });
    world.end();
}

#[test]
fn a_witness_with_wrong_expectations_reports_a_violation() {
    // The node has 8 credits, but its witness expects none.
    let mut plan = Plan::at(&[0]);
    plan.terms.peer_credits = 0;
    let Some(world) = World::new(&[plan, Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 4096);
    let found = a.resident.judged().unwrap_or_default();
    assert!(found.contains("invariant 4: 1 of 0 to 10.1.0.2@tcp"), "{found}");
    assert_eq!(b.resident.judged(), None);
}
