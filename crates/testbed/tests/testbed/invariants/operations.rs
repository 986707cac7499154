//! Operations and their events. Spec: lnet-behaviour §17, 10, 12, 13, 14, 16.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fulmar_lnet::{EventKind, MdOptions, Put, ServiceConfig};
use fulmar_net::exchange::{anyone, pattern};
use fulmar_net::{Delivery, Descriptor, Service};

use super::common::{PORTAL, Plan, World, nid, until};

const BITS: u64 = 77;

#[test]
fn a_put_that_matches_nothing_is_sent_and_dropped() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 8);
    let before = b.stats().drop_count;
    let begun = a.put_like(nid(0, 0, 1), BITS, 8, |put| Put { ack: false, ..put });
    begun.events.wait(EventKind::Send);
    until("it is dropped", || b.stats().drop_count == before + 1);
    assert!(begun.events.rest().is_empty(), "the sender gets no other event");
    world.end();
}

#[test]
fn a_missing_acknowledgement_times_out_and_costs_health() {
    let plan = Plan::at(&[0]).troubled().with(|options| {
        options.config.lnet.globals.transaction_timeout = 2;
        // Health is read before it has recovered.
        options.config.lnet.globals.recovery_interval = 60;
    });
    let Some(world) = World::new(&[plan.clone(), plan]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 8);
    let at = Instant::now();
    let begun = a.put(nid(0, 0, 1), BITS, 8);
    begun.events.wait(EventKind::Send);
    let end = begun.events.next();
    assert!(at.elapsed() >= Duration::from_secs(2), "{:?}", at.elapsed());
    assert!(end.kind == EventKind::Unlink && end.unlinked, "{end:?}");
    assert_eq!(a.stats().response_timeout_count, 1);
    assert_eq!(a.peer_ni(nid(0, 0, 1)).health.timeouts, 1);
    world.end();
}

#[test]
fn a_message_beyond_the_threshold_is_not_delivered() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    a.put_well(b, 8);
    let taker = b.offer(BITS, 800, |made| made.times(3));
    let before = b.stats().drop_count;
    let all: Vec<_> = (0..5)
        .map(|_| a.put_like(nid(0, 0, 1), BITS, 100, |put| Put { ack: false, ..put }))
        .collect();
    until("two are dropped", || b.stats().drop_count == before + 2);
    let events = taker.events.rest();
    let unlinked: Vec<bool> = events.iter().map(|event| event.unlinked).collect();
    assert_eq!(unlinked, [false, false, true], "{events:?}");
    for (place, begun) in all[..3].iter().enumerate() {
        let stored = taker.buffer.to_vec(place * 100, 100);
        assert!(stored == pattern(begun.header_data, 100), "message {place}");
    }
    assert!(
        taker.buffer.to_vec(300, 500).iter().all(|byte| *byte == 0),
        "no other data was stored"
    );
    world.end();
}

#[test]
fn a_message_that_is_too_long_is_truncated_and_the_next_one_is_whole() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    let options = MdOptions::OP_PUT.with(MdOptions::TRUNCATE).with(MdOptions::MANAGE_REMOTE);
    let taker = b.offer(BITS, 1000, |made| made.options(options));
    for len in [1001, 4097, 100_000, 1 << 20] {
        let begun = a.put(nid(0, 0, 1), BITS, len);
        let event = taker.events.wait(EventKind::Put);
        assert_eq!((event.mlength, event.rlength as usize), (1000, len));
        assert!(taker.buffer.to_vec(0, 1000) == pattern(begun.header_data, len)[..1000]);
        assert_eq!(begun.events.wait(EventKind::Ack).mlength, 1000);
        begun.events.wait(EventKind::Send);
        a.unlink(&begun);
        a.put_well(b, len);
        a.get_well(b, len);
    }
    world.end();
}

#[test]
fn an_acknowledgement_is_sent_when_the_handler_has_returned() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    let returned = Arc::new(AtomicBool::new(false));
    let returns = returned.clone();
    let slow = move |_: &Service, _: &mut Vec<Delivery>| {
        std::thread::sleep(Duration::from_millis(300));
        returns.store(true, Ordering::SeqCst);
    };
    let service = b.resident.node().open_service(ServiceConfig::default(), Arc::new(slow));
    let descriptor = Descriptor::room(64).options(MdOptions::OP_PUT);
    service.unwrap().attach(PORTAL, anyone(BITS), descriptor).unwrap();
    let begun = a.put(nid(0, 0, 1), BITS, 64);
    let event = begun.events.wait(EventKind::Ack);
    assert!(returned.load(Ordering::SeqCst), "the handler has not returned");
    assert_eq!((event.match_bits, event.mlength), (BITS, 64));
    world.end();
}

#[test]
fn header_data_arrives_unchanged() {
    let Some(world) = World::new(&[Plan::at(&[0]), Plan::at(&[0])]) else { return };
    let [a, b] = &world.members[..] else { unreachable!("two nodes") };
    let taker = b.offer(BITS, 64, |made| made);
    for header_data in [1, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef] {
        let begun = a.put_like(nid(0, 0, 1), BITS, 8, |put| Put { header_data, ..put });
        assert_eq!(taker.events.wait(EventKind::Put).header_data, header_data);
        begun.events.wait(EventKind::Ack);
    }
    world.end();
}
