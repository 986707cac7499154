//! Requests of the server to its clients, and what LNet says of them late.

use fulmar_lustre_wire::format::BLOCKING;

use super::*;
use crate::export::Eviction;
use crate::reverse::{Call, UNDER_WAY_MAX};

const LIMIT: Duration = Duration::from_secs(100);

/// A server that has called its client, and LNet has not said whether the request was sent.
fn calling() -> (Rig, Handle) {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "client");
    rig.sends = false;
    let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
    rig.server.call(rig.now, export, call).expect("the client is connected");
    rig.drain();
    (rig, export)
}

#[test]
fn a_request_that_fails_after_its_call_ended_changes_nothing() {
    let (mut rig, export) = calling();
    let request = rig.sent.pop_front().expect("a request was sent");
    assert!(rig.server.evict(rig.now, export, Eviction::Administrator));
    rig.drain();
    rig.finish_send(request.user, Err(Errno::EHOSTUNREACH));
    rig.drain();
    rig.server.is_idle().unwrap();
    assert_eq!(rig.unlinked.len(), 1, "no memory for a reply is left");
}

#[test]
fn an_earlier_transmission_that_fails_late_does_not_stop_the_later_one() {
    let (mut rig, _) = calling();
    let first = rig.sent.pop_front().expect("a request was sent");
    while rig.sent.is_empty() {
        rig.advance(1);
    }
    let (sent, unlinked) = (rig.sent.len(), rig.unlinked.len());
    assert_eq!((sent, unlinked), (1, 1));
    rig.finish_send(first.user, Err(Errno::EHOSTUNREACH));
    rig.drain();
    rig.server.check_invariants().unwrap();
    assert_eq!((rig.sent.len(), rig.unlinked.len()), (sent, unlinked));
}

#[test]
fn a_client_gets_no_more_calls_at_once_than_its_node_takes() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "client");
    rig.sends = false;
    let sent = rig.sent.len();
    let call = |rig: &mut Rig| {
        let call = Call::new(Message::request(&BLOCKING), 224, LIMIT);
        rig.server.call(rig.now, export, call).expect("the client is connected")
    };
    let calls: Vec<_> = (0..UNDER_WAY_MAX + 3).map(|_| call(&mut rig)).collect();
    rig.drain();
    rig.server.check_invariants().unwrap();
    assert_eq!(rig.sent.len() - sent, UNDER_WAY_MAX);
    // One that ends makes room for one; one that waits does not.
    for (ended, expected) in [(UNDER_WAY_MAX + 1, 0), (0, 1), (1, 2), (2, 2)] {
        assert!(rig.server.forget_call(rig.now, calls[ended]));
        rig.drain();
        rig.server.check_invariants().unwrap();
        assert_eq!(rig.sent.len() - sent, UNDER_WAY_MAX + expected);
    }
    assert!(rig.server.evict(rig.now, export, Eviction::Administrator));
    rig.drain();
    rig.server.check_invariants().unwrap();
    assert_eq!(rig.sent.len() - sent, UNDER_WAY_MAX + 2);
}
