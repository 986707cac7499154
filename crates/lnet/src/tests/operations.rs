//! PUT, GET, ACK and REPLY as the initiator sees them. Spec: lnet-behaviour §17, 7 to 10, 14, 15.

use fulmar_base::Payload;

use super::*;

#[test]
fn a_put_gives_one_send_event_and_its_descriptor_goes_with_it() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, bound(100, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    let sent = s.sent_one();
    assert_eq!((sent.ni, sent.next_hop), (tcp(1), tcp(2)));
    assert_eq!((sent.header.source, sent.header.target), (tcp(1), tcp(2)));
    assert_eq!(sent.payload, Payload::Span(span(7, 0, 100)));
    assert_eq!(sent.header.payload_len, 100);
    assert!(matches!(sent.header.body, Body::Put { ack: Handle::NONE, header_data: 0xfeed, .. }));
    assert_eq!(s.events(), []);
    s.done(&sent);
    let event = s.event();
    assert_eq!((event.kind, event.status, event.unlinked), (EventKind::Send, Ok(()), true));
    assert_eq!((event.user, event.md, event.match_bits), (70, md, 5));
    assert_eq!(s.lnet.put(s.now, SERVICE, md, put(tcp(2))), Err(Errno::ENOENT));
    s.lnet.is_idle().unwrap();
}

#[test]
fn send_and_ack_may_come_in_either_order_and_the_last_says_unlinked() {
    for ack_first in [false, true] {
        let mut s = Script::acquainted();
        let sent = acked_put(&mut s);
        let ack = |s: &mut Script| {
            s.receive(0, ack_body(&sent, 40));
        };
        if ack_first {
            ack(&mut s);
            s.done(&sent);
        } else {
            s.done(&sent);
            ack(&mut s);
        }
        let events = s.events();
        let mut kinds: Vec<_> = events.iter().map(|event| (event.kind, event.unlinked)).collect();
        assert_eq!(kinds.pop().map(|last| last.1), Some(true));
        assert_eq!(kinds.pop().map(|first| first.1), Some(false));
        let ack = events.iter().find(|event| event.kind == EventKind::Ack).unwrap();
        assert_eq!((ack.mlength, ack.match_bits, ack.initiator.nid), (40, 5, tcp(2)));
        s.lnet.is_idle().unwrap();
        assert_eq!(s.lnet.stats().rst_alloc, 0);
    }
}

#[test]
fn a_second_ack_is_dropped_without_side_effect() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.receive(0, ack_body(&sent, 40));
    assert_eq!(s.events().len(), 1);
    s.receive(0, ack_body(&sent, 40));
    assert_eq!(s.events(), []);
    assert_eq!(s.lnet.stats().drop_count, 1);
}

#[test]
fn an_answer_with_a_stale_interface_cookie_or_an_unknown_object_is_dropped() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    let Body::Put { ack, .. } = sent.header.body else { panic!() };
    assert_eq!(ack.interface, COOKIE);
    for handle in [
        Handle { interface: COOKIE - 1, ..ack },
        Handle { object: ack.object + 4, ..ack },
        Handle::NONE,
    ] {
        s.receive(0, Body::Ack { handle, match_bits: 5, accepted: 1 });
        s.receive(9, Body::Reply { handle });
        assert_eq!(s.verdicts()[1].1, Verdict::Receive(Sink::Discard { len: 9 }));
    }
    assert_eq!(s.events(), []);
    assert_eq!(s.lnet.stats().drop_count, 6);
}

#[test]
fn an_answer_of_another_peer_is_ignored() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.receive_from(tcp(3), 0, ack_body(&sent, 40));
    assert_eq!((s.events(), s.lnet.stats().drop_count), (vec![], 1));
    // A PUT is not answered by data either: that would overwrite its source.
    let Body::Put { ack, .. } = sent.header.body else { panic!() };
    s.receive(40, Body::Reply { handle: ack });
    assert_eq!((s.events(), s.lnet.stats().drop_count), (vec![], 2));
    s.receive(0, ack_body(&sent, 40));
    assert_eq!(s.event().kind, EventKind::Ack);
}

#[test]
fn an_answer_is_known_even_if_the_peer_record_was_made_anew() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.done(&sent);
    s.lnet.peer_del(s.now, tcp(2), &[]).unwrap();
    s.receive(0, ack_body(&sent, 40));
    assert_eq!(s.events().len(), 2);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_get_gives_send_and_reply_and_its_data_goes_to_the_front_of_the_sink() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, Md { offset: 4096, ..bound(50, 2) }, Memory::Buffer).unwrap();
    s.lnet.get(s.now, SERVICE, md, get(tcp(2))).unwrap();
    let sent = s.sent_one();
    let Body::Get { reply, sink_len: 50, .. } = sent.header.body else { panic!("{sent:?}") };
    assert_eq!(sent.payload, Payload::Empty);
    s.done(&sent);
    let rx = s.receive(30, Body::Reply { handle: reply });
    assert_eq!(s.sink(), (rx, Sink::Span(span(7, 4096, 30))));
    s.received(rx, &[]);
    let events = s.events();
    assert_eq!(
        (events[1].kind, events[1].mlength, events[1].unlinked),
        (EventKind::Reply, 30, true)
    );
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_reply_longer_than_the_sink_is_cut_or_dropped() {
    for (options, cut) in [(MdOptions::TRUNCATE, true), (MdOptions::default(), false)] {
        let mut s = Script::acquainted();
        let md = s.lnet.md_bind(SERVICE, Md { options, ..bound(50, 2) }, Memory::Buffer).unwrap();
        s.lnet.get(s.now, SERVICE, md, get(tcp(2))).unwrap();
        let sent = s.sent_one();
        let Body::Get { reply, .. } = sent.header.body else { panic!() };
        s.receive(60, Body::Reply { handle: reply });
        let (rx, sink) = s.sink();
        if cut {
            assert_eq!(sink, Sink::Span(span(7, 0, 50)));
            s.received(rx, &[]);
            assert_eq!((s.event().mlength, s.lnet.stats().drop_count), (50, 0));
        } else {
            assert_eq!(sink, Sink::Discard { len: 60 });
            assert_eq!((s.events(), s.lnet.stats().drop_count), (vec![], 1));
        }
    }
}

#[test]
fn a_connection_that_dies_in_the_middle_of_a_reply_fails_it() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, bound(50, 2), Memory::Buffer).unwrap();
    s.lnet.get(s.now, SERVICE, md, get(tcp(2))).unwrap();
    let sent = s.sent_one();
    let Body::Get { reply, .. } = sent.header.body else { panic!() };
    let rx = s.receive(50, Body::Reply { handle: reply });
    s.lnet.handle_receive_done(s.now, rx, Err(Errno::ECONNRESET));
    assert_eq!(s.event().status, Err(Errno::ECONNRESET));
}

#[test]
fn an_unanswered_put_is_unlinked_after_the_transaction_timeout() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.done(&sent);
    assert_eq!(s.event().kind, EventKind::Send);
    assert_eq!(s.lnet.poll_timeout(), Some(Time::from_secs(150)));
    s.wait(149);
    assert_eq!(s.events(), []);
    s.wait(1);
    let event = s.event();
    assert_eq!((event.kind, event.status, event.unlinked), (EventKind::Unlink, Ok(()), true));
    assert_eq!(s.lnet.stats().response_timeout_count, 1);
    assert_eq!(s.notices(), [Notice::ResponseTimeout { peer: tcp(2) }]);
    s.receive(0, ack_body(&sent, 40));
    assert_eq!(s.events(), [], "the ACK came late");
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_response_that_times_out_while_the_lnd_has_the_request_shows_in_the_send_event() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.wait(150);
    assert_eq!(s.events(), []);
    s.done(&sent);
    let event = s.event();
    assert_eq!((event.kind, event.unlinked), (EventKind::Send, true));
    assert_eq!(event.status, Err(Errno::ETIMEDOUT));
}

#[test]
fn a_descriptor_is_tracked_when_it_or_the_node_says_so() {
    let track = MdOptions::TRACK_RESPONSE;
    let no_track = MdOptions::NO_TRACK_RESPONSE;
    for (mode, options, tracked) in [
        (3, MdOptions::default(), 1),
        (2, MdOptions::default(), 1),
        (1, MdOptions::default(), 0),
        (0, track, 1),
        (3, no_track, 0),
        (3, track.with(no_track), 0),
    ] {
        let mut s = Script::acquainted();
        let globals = Globals { response_tracking: mode, ..Globals::default() };
        s.lnet.set_globals(s.now, globals).unwrap();
        let md = s.lnet.md_bind(SERVICE, Md { options, ..bound(9, 2) }, Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, Put { ack: true, ..put(tcp(2)) }).unwrap();
        assert_eq!(s.lnet.stats().rst_alloc, tracked, "mode {mode}, {options:?}");
    }
}

#[test]
fn unlinking_an_idle_descriptor_gives_its_only_event() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    let event = s.event();
    assert_eq!((event.kind, event.status, event.unlinked), (EventKind::Unlink, Ok(()), true));
    assert_eq!(s.lnet.md_unlink(s.now, SERVICE, md), Err(Errno::ENOENT));
}

#[test]
fn a_failed_send_is_in_the_event_and_in_the_counters() {
    let mut s = Script::acquainted();
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    let sent = s.sent_one();
    let failure = SendError::remote_dropped(Errno::ECONNREFUSED);
    s.lnet.handle_sent(s.now, sent.message, Err(failure));
    assert_eq!(s.event().status, Err(Errno::ECONNREFUSED));
    let stats = s.lnet.stats();
    assert_eq!((stats.remote_dropped_count, stats.msgs_alloc), (1, 0));
    assert_eq!(stats.send_length, 0);
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_cannot_be_sent_is_the_status_of_the_send_event() {
    let mut s = Script::acquainted();
    let remote = Nid::small(Net(Net::TCP.0 + 9), 1);
    for (target, source, status) in [
        (remote, None, Errno::EHOSTUNREACH),
        (tcp(2), Some(tcp(9)), Errno::EINVAL),
        (tcp1(2), Some(tcp(1)), Errno::EHOSTUNREACH),
    ] {
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, Put { source, ..put(target) }).unwrap();
        let event = s.event();
        assert_eq!((event.kind, event.status), (EventKind::Send, Err(status)));
        assert!(event.unlinked);
    }
    assert_eq!(s.lnet.peers().len(), 1);
}

#[test]
fn descriptors_that_make_no_sense_are_refused() {
    let mut s = Script::new();
    let wrong = |md| node(config()).md_bind(SERVICE, md, Memory::Buffer);
    assert_eq!(wrong(bound((1 << 20) + 1, 1)), Err(Errno::EINVAL));
    assert_eq!(wrong(posted(9, MdOptions::OP_PUT)), Err(Errno::EINVAL));
    assert_eq!(wrong(Md { offset: u64::MAX, ..bound(9, 1) }), Err(Errno::EINVAL));
    let big = Md { options: MdOptions::MAX_SIZE, max_size: 10, ..bound(9, 1) };
    assert_eq!(wrong(big), Err(Errno::EINVAL));
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    assert_eq!(
        s.lnet.md_attach(s.now, SERVICE, me, bound(9, 1), Memory::Buffer),
        Err(Errno::EINVAL)
    );
    assert_eq!(s.lnet.me_unlink(s.now, SERVICE, me), Err(Errno::ENOENT), "the entry went too");
}

#[test]
fn handles_look_like_those_of_a_kernel_and_are_never_used_twice() {
    let mut lnet = node(config());
    let mut cookies = Vec::new();
    for _ in 0..3 {
        let md = lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        lnet.md_unlink(Time::ZERO, SERVICE, md).unwrap();
        cookies.push(md.0);
    }
    assert_eq!(cookies, [1, 5, 9]);
}

#[test]
fn latencies_are_measured_at_both_interfaces() {
    let mut s = Script::acquainted();
    let sent = acked_put(&mut s);
    s.wait(2);
    s.done(&sent);
    s.wait(1);
    s.receive(0, ack_body(&sent, 40));
    let peer = &s.lnet.peers()[0].nis[0];
    for traffic in [peer.traffic, s.lnet.nis()[1].traffic] {
        assert_eq!(traffic.put_egress.max_nsec, 2_000_000_000);
        assert_eq!(traffic.put_ack.max_nsec, 3_000_000_000);
        assert_eq!((traffic.sent.put, traffic.sent.get, traffic.received.ack), (1, 1, 1));
    }
}

/// Puts 40 bytes with an acknowledgement to node 2 and returns what the LND gets.
fn acked_put(s: &mut Script) -> SendRequest {
    let md = s.lnet.md_bind(SERVICE, bound(40, 2), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, Put { ack: true, ..put(tcp(2)) }).unwrap();
    s.sent_one()
}

fn ack_body(put: &SendRequest, accepted: u32) -> Body {
    let Body::Put { ack, match_bits, .. } = put.header.body else { panic!("{put:?}") };
    Body::Ack { handle: ack, match_bits, accepted }
}
