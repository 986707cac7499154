//! Fault injection. Spec: lnet-behaviour §17, 30, 31, 32, 35 and 36.

use std::time::{Duration, Instant};

use fulmar_lnd::FailureClass;
use fulmar_lnet::{EventKind, FaultEffect, FaultKind, FaultRule, Put};
use fulmar_lnet_wire::{Nid, NidMatch};

use super::common::{Begun, Plan, World, nid, puts, until};

const BITS: u64 = 77;

fn fails(failure: FailureClass) -> FaultRule {
    let failures = 1 << failure as u32;
    puts(1, FaultEffect::Drop { failures, random: false, all: false })
}

fn b() -> Nid {
    nid(0, 0, 1)
}

#[test]
fn a_rule_drops_one_of_every_window() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, other] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(other, 8);
    other.fault(puts(3, FaultEffect::Drop { failures: 0, random: false, all: false }));
    let taker = other.offer(BITS, 1000, |md| md);
    let put = || a.put_like(b(), BITS, 8, |put| Put { ack: false, ..put });
    let sent: Vec<Begun> = (0..12).map(|_| put()).collect();
    let shown = || other.look(|lnet| lnet.faults()[0].clone());
    until("all have arrived", || shown().examined == 12);
    assert_eq!((shown().hits.put, shown().hits.total()), (4, 4));
    until("the others are delivered", || other.nis()[0].traffic.received.put >= 8);
    for begun in &sent {
        begun.events.wait(EventKind::Send);
    }
    let came: Vec<u64> = (0..8).map(|_| taker.events.wait(EventKind::Put).header_data).collect();
    for window in sent.chunks(3) {
        let dropped = window.iter().filter(|begun| !came.contains(&begun.header_data)).count();
        assert_eq!(dropped, 1, "one of each three");
    }
    other.remove_rules(FaultKind::Drop);
    world.end();
}

#[test]
fn a_rule_delays_messages_until_it_is_deleted() {
    for side in [0, 1] {
        let mut plans = [Plan::at(&[0]), Plan::at(&[0])];
        plans[side].terms.delays = true;
        let Some(world) = World::new(&plans) else { return };
        let [a, other] = &world.members[..] else { unreachable!("two nodes") };
        a.put_well(other, 8);
        until("A is idle", || a.peer_ni(b()).credits == 8);
        let taker = other.offer(BITS, 64, |md| md);
        let delays = &world.members[side];
        delays.fault(puts(1, FaultEffect::Delay { latency: 3600 }));
        let first = a.put(b(), BITS, 8);
        until("it is delayed", || delays.look(|lnet| lnet.faults()[0].hits.put) == 1);
        assert!(taker.events.rest().is_empty());
        if side == 0 {
            assert_eq!(a.peer_ni(b()).credits, 7, "it holds its credit");
        }
        delays.remove_rules(FaultKind::Delay);
        first.events.wait(EventKind::Ack);
        delays.fault(puts(1, FaultEffect::Delay { latency: 1 }));
        taker.events.wait(EventKind::Put);
        let begun = Instant::now();
        let second = a.put(b(), BITS, 8);
        taker.events.wait(EventKind::Put);
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
        second.events.wait(EventKind::Ack);
        world.end();
    }
}

#[test]
fn a_message_dropped_before_sending_uses_the_other_interface() {
    let plan = Plan::at(&[0, 0]).troubled();
    let Some(world) = World::new(&[plan.clone(), plan]) else { return };
    let [a, other] = &world.members[..] else { unreachable!("two nodes") };
    // Each NID has been asked whose it is: nothing else arrives later and raises the health.
    for _ in 0..8 {
        a.put_well(other, 8);
        other.put_well(a, 8);
    }
    for member in [a, other] {
        until("nothing is under way", || member.look(|lnet| lnet.is_idle()).is_ok());
    }
    // Health is read before it has recovered.
    slow_recovery(a, 5);
    let rule = fails(FailureClass::LocalDropped);
    a.fault(FaultRule { source: NidMatch::Nid(a.nids[0]), ..rule });
    let hits = || a.look(|lnet| lnet.faults()[0].hits.put);
    while hits() == 0 {
        let begun = a.put(b(), 1, 8);
        begun.events.wait(EventKind::Send);
        begun.events.wait(EventKind::Ack);
        assert!(begun.events.rest().is_empty(), "one SEND, one ACK");
        a.unlink(&begun);
    }
    assert_eq!(a.stats().resend_count, 1);
    assert_eq!(a.nis()[0].health.value, 900, "{:?}", a.nis()[0].health);
    assert_eq!((a.nis()[1].health.value, a.nis()[0].health.dropped), (1000, 1));
    a.remove_rules(FaultKind::Drop);
    until("it has recovered", || a.nis()[0].health.value == 1000);
    world.end();
}

fn slow_recovery(member: &super::common::Member, seconds: u32) {
    let globals = member.look(|lnet| lnet.globals().clone());
    let globals = fulmar_lnet::Globals { recovery_interval: seconds, ..globals };
    member.change(|admin| admin.set_globals(globals));
}

#[test]
fn a_message_that_may_have_arrived_is_not_sent_again() {
    let plan = Plan::at(&[0, 0]).troubled();
    let Some(world) = World::new(&[plan.clone(), plan]) else { return };
    let [a, other] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(other, 8);
    a.fault(fails(FailureClass::RemoteError));
    let begun = a.put(b(), 1, 8);
    assert!(begun.events.wait_for_end(EventKind::Send).1.is_err());
    assert_eq!(a.stats().resend_count, 0);
    assert!(other.resident.witness().repeated() == 0);
    a.remove_rules(FaultKind::Drop);
    world.end();
}

#[test]
fn a_peer_with_one_nid_keeps_its_health_and_gets_nothing_twice() {
    let plan = Plan::at(&[0]).troubled();
    let Some(world) = World::new(&[plan.clone(), plan]) else { return };
    let [a, other] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(other, 8);
    a.fault(fails(FailureClass::RemoteDropped));
    let begun = a.put(b(), 1, 8);
    assert!(begun.events.wait_for_end(EventKind::Send).1.is_err());
    assert_eq!((a.stats().resend_count, a.peer_ni(b()).health.value), (0, 1000));
    a.remove_rules(FaultKind::Drop);
    world.end();
}

#[test]
fn without_sensitivity_health_never_changes() {
    let mut plan = Plan::at(&[0, 0]).troubled();
    plan.options.config.lnet.globals.health_sensitivity = 0;
    plan.options.config.lnet.globals.retry_count = 0;
    plan.terms.insensitive = true;
    let Some(world) = World::new(&[plan.clone(), plan]) else { return };
    let [a, other] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(other, 8);
    for failure in [
        FailureClass::LocalDropped,
        FailureClass::LocalError,
        FailureClass::RemoteDropped,
        FailureClass::NetworkTimeout,
    ] {
        a.fault(fails(failure));
        let begun = a.put(b(), 1, 8);
        assert!(begun.events.wait_for_end(EventKind::Send).1.is_err(), "{failure:?}");
        a.resident.witness().check_active(a.resident.node());
        a.remove_rules(FaultKind::Drop);
    }
    world.end();
}
