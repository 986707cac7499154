//! Fault rules at work in the machine. Spec: lnet-behaviour §14.3, §17, 35 and 36.

use fulmar_lnet_wire::NidMatch;

use super::rails::two_rails;
use super::routing::{far, passing, router};
use super::*;
use crate::views::ByType;

/// What a rule is the reason of.
const ASKED_FOR: &str = "a fault was asked for";

/// Every message of the types.
fn every(types: MessageTypes, effect: FaultEffect) -> FaultRule {
    FaultRule {
        source: NidMatch::Any,
        target: NidMatch::Any,
        local: NidMatch::Any,
        portals: 0,
        types,
        rate: 1,
        interval: 0,
        effect,
    }
}

fn dropping(rate: u32) -> FaultRule {
    let effect = FaultEffect::Drop { failures: 0, random: false, all: false };
    FaultRule { rate, ..every(MessageTypes::ALL, effect) }
}

fn failing(failure: FailureClass) -> FaultRule {
    let failures = 1 << failure as u32;
    every(MessageTypes::PUT, FaultEffect::Drop { failures, random: false, all: false })
}

fn delaying(types: MessageTypes, latency: u32) -> FaultRule {
    every(types, FaultEffect::Delay { latency })
}

fn add(s: &mut Script, rule: FaultRule) {
    s.lnet.fault_add(s.now, rule).unwrap();
}

/// Removes all rules that delay.
fn del(s: &mut Script) {
    let count = s.lnet.fault_del(s.now, FaultKind::Delay, NidMatch::Any, NidMatch::Any);
    assert!(count > 0);
}

fn send(s: &mut Script) -> MdId {
    send_from(s, None)
}

fn send_from(s: &mut Script, source: Option<Nid>) -> MdId {
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, Put { source, ..put(tcp(2)) }).unwrap();
    md
}

/// Completes what was sent, and returns the descriptors of it all in order.
fn complete(s: &mut Script) -> Vec<MdId> {
    for sent in s.sent() {
        s.done(&sent);
    }
    let events = s.events();
    assert!(events.iter().all(|event| event.status == Ok(())), "{events:?}");
    events.iter().map(|event| event.md).collect()
}

/// Posts memory for what the test sends.
fn attach(s: &mut Script) {
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    let options = MdOptions::OP_PUT.with(MdOptions::OP_GET).with(MdOptions::MANAGE_REMOTE);
    s.lnet.md_attach(s.now, SERVICE, me, posted(1000, options), Memory::Buffer).unwrap();
}

fn credits(s: &Script) -> (i64, i64) {
    (s.lnet.nis()[1].credits, s.lnet.peers()[0].nis[0].credits)
}

fn dropped_on_purpose(s: &mut Script) -> usize {
    let notices = s.notices();
    let wanted = |notice: &&Notice| matches!(notice, Notice::Dropped { reason: ASKED_FOR, .. });
    notices.iter().filter(wanted).count()
}

/// Our answers are sent; nothing else happens.
fn answer(s: &mut Script) -> usize {
    let answers = s.sent();
    answers.iter().for_each(|answer| s.done(answer));
    answers.len()
}

#[test]
fn a_rule_drops_one_message_of_each_window_in_silence() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, dropping(4));
    let before = s.lnet.stats().drop_count;
    for window in 1..=10 {
        let mut dropped = 0;
        for _ in 0..4 {
            let rx = s.receive(30, put_body(THEIRS));
            match s.sink() {
                (_, Sink::Discard { len: 30 }) => {
                    dropped += 1;
                    assert_eq!((s.events(), s.sent()), (vec![], vec![]), "no event, no message");
                }
                (_, Sink::Span(span)) => {
                    assert_eq!(span.len, 30);
                    s.received(rx, &[]);
                    let event = s.event();
                    s.lnet.handle_event_done(s.now, event.done.unwrap());
                    assert_eq!(answer(&mut s), 1);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((dropped, dropped_on_purpose(&mut s)), (1, 1));
        let shown = &s.lnet.faults()[0];
        assert_eq!((shown.examined, shown.hits.put), (4 * window, window));
        assert_eq!(s.lnet.stats().drop_count - before, window);
    }
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_is_dropped_is_counted_by_type() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, dropping(3));
    let handle = Handle { interface: 1, object: 2 };
    let bodies = [
        put_body(Handle::NONE),
        get_body(5),
        Body::Ack { handle, match_bits: 5, accepted: 0 },
        Body::Reply { handle },
    ];
    for n in 0..60 {
        let rx = s.receive(0, bodies[n * 7 % 4]);
        s.verdicts();
        s.lnet.handle_receive_done(s.now, rx, Ok(Vec::new()));
        answer(&mut s);
    }
    let shown = &s.lnet.faults()[0];
    assert_eq!((shown.examined, shown.hits.total()), (60, 20));
    assert_eq!(dropped_on_purpose(&mut s), 20);
    let ByType { put, get, reply, ack, hello } = shown.hits;
    assert!(put > 0 && get > 0 && reply > 0 && ack > 0 && hello == 0, "{shown:?}");
    let gone = s.lnet.fault_del(s.now, FaultKind::Drop, NidMatch::Any, NidMatch::Any);
    s.receive(0, bodies[0]);
    assert_eq!((gone, dropped_on_purpose(&mut s)), (1, 0));
    s.drain();
    s.lnet.handle_receive_done(s.now, RxId(s.rx - 1), Ok(Vec::new()));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_router_drops_what_it_would_forward() {
    let mut s = router(RouterBuffers { tiny: 2, small: 2, large: 2 });
    add(&mut s, dropping(1));
    passing(&mut s, tcp(2), far(2), 8);
    assert_eq!(s.sink().1, Sink::Discard { len: 8 });
    assert_eq!(s.sent(), []);
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_a_rule_fails_on_one_rail_goes_by_the_other() {
    let mut s = two_rails();
    let rule = failing(FailureClass::LocalDropped);
    add(&mut s, FaultRule { source: NidMatch::Nid(tcp(1)), ..rule });
    let mut resent = 0;
    for _ in 0..2 {
        let md = send(&mut s);
        let sent = s.sent_one();
        assert_eq!(sent.ni, tcp(11));
        s.done(&sent);
        let event = s.event();
        assert_eq!((event.md, event.status, event.unlinked), (md, Ok(()), true));
        resent = s.lnet.stats().resend_count;
    }
    let stats = s.lnet.stats();
    assert_eq!((resent, stats.local_dropped_count, stats.successful_resends), (1, 1, 1));
    assert_eq!(s.lnet.nis()[1].health.value, 900, "so that the second did not try it");
    assert_eq!((s.lnet.nis()[1].health.dropped, s.lnet.faults()[0].hits.put), (1, 1));
    s.wait(1);
    let ping = s.sent_one();
    assert_eq!(ping.ni, tcp(1), "it recovers as from any failure");
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(12)])));
    assert_eq!(s.lnet.nis()[1].health.value, 1000);
    s.drain();
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_rule_fails_what_may_have_arrived_for_good() {
    for failure in [FailureClass::RemoteTimeout, FailureClass::LocalError] {
        let mut s = two_rails();
        add(&mut s, failing(failure));
        send(&mut s);
        assert_eq!(s.event().status, Err(Errno::EIO), "{failure:?}");
        assert_eq!((s.sent(), s.lnet.stats().resend_count), (vec![], 0));
        s.lnet.is_idle().unwrap();
    }
}

#[test]
fn a_rule_that_fails_every_attempt_ends_them() {
    let mut s = two_rails();
    add(&mut s, failing(FailureClass::LocalTimeout));
    send(&mut s);
    assert_eq!(s.events(), [], "the third attempt is made after a second");
    s.wait(1);
    for ping in s.sent() {
        s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(12)])));
    }
    assert_eq!(s.event().status, Err(Errno::EIO));
    assert_eq!((s.lnet.faults()[0].hits.put, s.lnet.stats().failed_resends), (3, 1));
    s.drain();
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_is_delayed_holds_its_credits_and_leaves_in_order() {
    let mut s = Script::acquainted();
    let (own, peer) = credits(&s);
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let mut mds = vec![send(&mut s), send(&mut s)];
    s.wait(2);
    mds.push(send(&mut s));
    assert_eq!((s.sent(), credits(&s)), (vec![], (own - 3, peer - 3)));
    assert_eq!(s.lnet.peers()[0].nis[0].queued_bytes, 3 * 81);
    s.lnet.is_idle().unwrap_err();
    s.wait(2);
    assert_eq!(s.sent(), [], "not before five seconds");
    s.wait(1);
    assert_eq!(complete(&mut s), mds[..2]);
    assert_eq!(credits(&s), (own - 1, peer - 1));
    s.wait(2);
    assert_eq!(complete(&mut s), mds[2..]);
    assert_eq!(credits(&s), (own, peer));
    assert_eq!(s.lnet.faults()[0].hits, ByType { put: 3, ..ByType::default() });
    s.lnet.is_idle().unwrap();
}

#[test]
fn who_is_delayed_keeps_others_waiting_for_its_credits() {
    let tunables = NiTunables { peer_credits: 1, ..NiTunables::default() };
    let mut s = Script::acquainted_with(&[NiConfig { tunables, ..ni(tcp(1)) }]);
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let mds = [send(&mut s), send(&mut s)];
    assert_eq!(s.lnet.faults()[0].hits.total(), 1, "the other has no credit yet");
    s.wait(5);
    assert_eq!(complete(&mut s), mds[..1]);
    s.wait(4);
    assert_eq!(s.sent(), [], "its own delay begins with its credit");
    s.wait(1);
    assert_eq!(complete(&mut s), mds[1..]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_has_come_waits_and_goes_on_in_order() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let rxs = [s.receive_put(10), s.receive_put(20)];
    assert_eq!(s.verdicts(), rxs.map(|rx| (rx, Verdict::Wait)));
    s.wait(4);
    assert_eq!(s.verdicts(), []);
    s.wait(1);
    let sinks = [(rxs[0], 10), (rxs[1], 20)]
        .map(|(rx, len)| (rx, Verdict::Receive(Sink::Span(span(8, 0, len)))));
    assert_eq!(s.verdicts(), sinks);
    for rx in rxs {
        s.received(rx, &[]);
        assert_eq!((s.event().kind, s.sent()), (EventKind::Put, vec![]));
    }
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_connection_may_die_while_its_message_is_delayed() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let (dead, alive) = (s.receive_put(10), s.receive_put(10));
    s.verdicts();
    s.lnet.handle_receive_done(s.now, dead, Err(Errno::ECONNRESET));
    s.wait(5);
    assert_eq!(s.sink().0, alive);
    s.lnet.handle_receive_done(s.now, alive, Err(Errno::ECONNRESET));
    assert_eq!(s.event().status, Err(Errno::ECONNRESET), "this one had begun");
    let last = s.receive_put(10);
    s.lnet.handle_receive_done(s.now, last, Err(Errno::ECONNRESET));
    s.verdicts();
    del(&mut s);
    assert_eq!((s.verdicts(), s.events()), (vec![], vec![]));
    s.lnet.is_idle().unwrap();
}

#[test]
fn deletion_of_a_rule_releases_what_it_delayed_at_once() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, delaying(MessageTypes::GET, 20));
    add(&mut s, FaultRule { source: "*@tcp".parse().unwrap(), ..delaying(MessageTypes::PUT, 20) });
    let mds = [send(&mut s), send(&mut s)];
    let (rx, get) = (s.receive_put(10), s.receive(0, get_body(5)));
    s.verdicts();
    let net = "*@tcp".parse().unwrap();
    assert_eq!(s.lnet.fault_del(s.now, FaultKind::Delay, net, NidMatch::Any), 1);
    assert_eq!(s.sink().0, rx);
    s.received(rx, &[]);
    assert_eq!(s.event().kind, EventKind::Put);
    assert_eq!(complete(&mut s), mds);
    s.wait(19);
    assert_eq!(s.drain(), [], "the other rule stays");
    s.wait(1);
    assert_eq!((s.sink().0, answer(&mut s)), (get, 1));
    assert_eq!(s.event().kind, EventKind::Get);
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_is_released_and_delayed_again_blocks_no_other_message() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, delaying(MessageTypes(MessageTypes::PUT.0 | MessageTypes::REPLY.0), 5));
    add(&mut s, FaultRule { source: NidMatch::Nid(tcp(2)), ..delaying(MessageTypes::GET, 3) });
    let md = send(&mut s);
    let get = s.receive(0, get_body(5));
    assert_eq!(s.verdicts(), [(get, Verdict::Wait)]);
    s.wait(1);
    s.lnet.fault_del(s.now, FaultKind::Delay, NidMatch::Nid(tcp(2)), NidMatch::Any);
    assert_eq!((s.sink().0, s.sent()), (get, vec![]), "the reply is delayed by the other rule");
    s.wait(4);
    assert_eq!(complete(&mut s), [md], "in its own time");
    s.wait(1);
    assert_eq!(answer(&mut s), 1);
    s.drain();
    s.lnet.is_idle().unwrap();
}

#[test]
fn an_interface_may_go_while_its_messages_are_delayed() {
    let mut s = two_rails();
    attach(&mut s);
    add(&mut s, FaultRule { portals: 1 << PORTAL, ..delaying(MessageTypes::PUT, 5) });
    let mds = [tcp(11), tcp(1)].map(|source| send_from(&mut s, Some(source)));
    let header = Header {
        target: tcp(11),
        source: tcp(12),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 10,
        body: put_body(Handle::NONE),
    };
    let rx = s.receive_header(tcp(11), tcp(12), header);
    assert_eq!(s.verdicts(), [(rx, Verdict::Wait)]);
    s.lnet.remove_ni(s.now, tcp(11)).unwrap();
    let event = s.event();
    assert_eq!((event.md, event.status), (mds[0], Err(Errno::ESHUTDOWN)));
    for push in s.sent() {
        s.answer_push(&push);
    }
    s.wait(5);
    assert_eq!(s.sink(), (rx, Sink::Discard { len: 10 }));
    assert_eq!(complete(&mut s), mds[1..]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_delay_is_sat_out_though_the_link_fails() {
    let mut s = two_rails();
    add(&mut s, FaultRule { rate: 2, portals: 1 << PORTAL, ..delaying(MessageTypes::PUT, 5) });
    // One of two is delayed; the other is in the LND's hands.
    let mds = [send(&mut s), send(&mut s)];
    assert_eq!(complete(&mut s).len(), 1);
    for nid in [tcp(1), tcp(11)] {
        s.lnet.handle_link(s.now, nid, false);
        for push in s.sent() {
            s.answer_push(&push);
        }
    }
    s.drain();
    s.wait(4);
    assert_eq!(s.sent(), []);
    s.wait(1);
    let done = complete(&mut s);
    assert!(done.len() == 1 && mds.contains(&done[0]), "{done:?}");
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_peer_may_be_deleted_while_its_messages_are_delayed() {
    let mut s = Script::acquainted();
    attach(&mut s);
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let md = send(&mut s);
    s.lnet.peer_del(s.now, tcp(2), &[]).unwrap();
    s.wait(5);
    assert_eq!(complete(&mut s), [md]);
    let rx = s.receive_put(10);
    s.verdicts();
    s.lnet.peer_del(s.now, tcp(2), &[]).unwrap();
    s.wait(5);
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 0, 10))));
    s.received(rx, &[]);
    assert_eq!(s.event().kind, EventKind::Put);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_descriptor_that_is_unlinked_takes_its_delayed_message_with_it() {
    let mut s = Script::acquainted();
    add(&mut s, delaying(MessageTypes::PUT, 5));
    let md = send(&mut s);
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    s.wait(5);
    assert_eq!(s.sent(), []);
    let event = s.event();
    assert_eq!((event.md, event.status, event.unlinked), (md, Err(Errno::ECANCELED), true));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_delay_may_be_longer_than_messages_are_given_otherwise() {
    let mut s = Script::acquainted();
    add(&mut s, delaying(MessageTypes::PUT, 1000));
    let md = send(&mut s);
    s.wait(1000);
    assert_eq!(complete(&mut s), [md]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_router_delays_on_both_sides_and_forgets_when_it_is_switched_off() {
    let mut s = router(RouterBuffers { tiny: 2, small: 2, large: 2 });
    add(&mut s, delaying(MessageTypes::PUT, 200));
    let rx = passing(&mut s, tcp(2), far(2), 0);
    assert_eq!(s.verdicts(), [(rx, Verdict::Wait)]);
    s.wait(200);
    assert_eq!((s.sink().0, s.sent()), (rx, vec![]), "it is delayed again when it is sent");
    s.lnet.is_idle().unwrap_err();
    s.wait(200);
    let sent = s.sent_one();
    assert_eq!((sent.ni, sent.next_hop), (tcp1(1), far(2)));
    s.done(&sent);
    s.lnet.is_idle().unwrap();
    let rx = passing(&mut s, tcp(2), far(2), 8);
    s.verdicts();
    s.lnet.set_forwarding(s.now, Forwarding::Disable).unwrap();
    s.wait(199);
    assert_eq!(s.verdicts(), []);
    s.wait(1);
    assert_eq!(s.sink(), (rx, Sink::Discard { len: 8 }));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_nid_that_is_made_to_fail_is_neither_sent_to_nor_heard() {
    let mut s = Script::acquainted();
    attach(&mut s);
    s.lnet.fail_nid(NidMatch::Nid(tcp(2)), Some(4));
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    assert_eq!(s.lnet.put(s.now, SERVICE, md, put(tcp(2))), Err(Errno::EIO));
    assert_eq!(s.lnet.get(s.now, SERVICE, md, get(tcp(2))), Err(Errno::EIO));
    let query = s.lnet.ping(s.now, ProcessId::lustre(tcp(2)), None, Duration::from_secs(5));
    assert_eq!(s.drain(), [Output::Pinged { query, result: Err(Errno::EIO) }]);
    s.receive_put(10);
    assert_eq!(s.sink().1, Sink::Discard { len: 10 });
    assert_eq!(dropped_on_purpose(&mut s), 1);
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    assert_eq!(complete(&mut s), [md], "four times and no more");
    s.lnet.fail_nid(NidMatch::Nid(tcp(3)), None);
    s.lnet.discover(s.now, tcp(3), false);
    assert_eq!(s.sent(), []);
    s.drain();
    s.lnet.fail_nid(NidMatch::Any, Some(0));
    s.lnet.discover(s.now, tcp(3), true);
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&plain_info(tcp(3))));
    s.drain();
    s.lnet.is_idle().unwrap();
}
