//! Matching and what the target does. Spec: lnet-behaviour §3, §17, 10 to 16, lnet-wire §8.6.

use fulmar_base::Payload;

use super::*;

fn attach(s: &mut Script, me: Me, md: Md) -> MdId {
    let me = s.lnet.me_attach(SERVICE, PORTAL, me).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, md, Memory::Buffer).unwrap()
}

fn discarded(s: &mut Script) -> bool {
    matches!(s.sink().1, Sink::Discard { .. })
}

#[test]
fn a_put_lands_in_the_descriptor_and_its_event_tells_all() {
    let mut s = Script::acquainted();
    let md = attach(&mut s, catch_all(), posted(100, MdOptions::OP_PUT));
    let rx = s.receive_put(30);
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 0, 30))));
    assert_eq!(s.events(), [], "the payload is not there yet");
    s.received(rx, &[]);
    let event = s.event();
    assert_eq!((event.kind, event.status, event.md), (EventKind::Put, Ok(()), md));
    assert_eq!((event.rlength, event.mlength, event.offset), (30, 30, 0));
    assert_eq!(event.header_data, 0xabcd);
    assert_eq!((event.initiator.nid, event.source.nid, event.sender), (tcp(2), tcp(2), tcp(2)));
    assert_eq!((event.target.nid, event.portal, event.match_bits), (tcp(1), PORTAL, 5));
    assert_eq!((event.unlinked, event.done), (false, None));
    let rx = s.receive_put(70);
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 30, 70))), "behind the first");
    s.received(rx, &[]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn the_ack_goes_out_when_the_handler_has_returned() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(20, MdOptions::OP_PUT.with(MdOptions::TRUNCATE)));
    let rx = s.receive(30, put_body(THEIRS));
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 0, 20))));
    s.received(rx, &[]);
    let event = s.event();
    assert_eq!(s.sent(), []);
    s.lnet.handle_event_done(s.now, event.done.unwrap());
    let ack = s.sent_one();
    assert_eq!(ack.header.body, Body::Ack { handle: THEIRS, match_bits: 5, accepted: 20 });
    assert_eq!((ack.header.source, ack.header.target), (tcp(1), tcp(2)));
    assert_eq!((ack.next_hop, ack.header.payload_len), (tcp(2), 0));
    s.done(&ack);
    s.lnet.is_idle().unwrap();
    s.lnet.handle_event_done(s.now, event.done.unwrap());
    assert_eq!(s.sent(), []);
}

#[test]
fn a_put_that_failed_or_may_not_be_acknowledged_is_not() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(100, MdOptions::OP_PUT.with(MdOptions::ACK_DISABLE)));
    let rx = s.receive(30, put_body(THEIRS));
    s.received(rx, &[]);
    assert_eq!(s.event().done, None);
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(100, MdOptions::OP_PUT));
    let rx = s.receive(30, put_body(THEIRS));
    s.lnet.handle_receive_done(s.now, rx, Err(Errno::ECONNRESET));
    let event = s.event();
    assert_eq!((event.done, event.status), (None, Err(Errno::ECONNRESET)));
    // Only both words of ones mean that no ACK is wanted.
    let half = Handle { interface: u64::MAX, object: 0 };
    let rx = s.receive(30, put_body(half));
    s.received(rx, &[]);
    assert!(s.event().done.is_some());
}

#[test]
fn a_get_of_more_than_a_reply_carries_is_dropped() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(2 << 20, MdOptions::OP_GET.with(MdOptions::TRUNCATE)));
    s.receive(0, get_body(u32::MAX));
    assert!(discarded(&mut s));
    assert_eq!((s.sent(), s.events(), s.lnet.stats().drop_count), (vec![], vec![], 1));
    s.receive(0, get_body(1 << 20));
    assert_eq!(s.sent_one().header.payload_len, 1 << 20);
}

#[test]
fn a_get_is_answered_and_its_event_comes_when_the_reply_is_sent() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(100, MdOptions::OP_GET.with(MdOptions::TRUNCATE)));
    s.receive(0, get_body(300));
    assert_eq!(s.sink().1, Sink::Discard { len: 0 });
    let reply = s.sent_one();
    assert_eq!(reply.header.body, Body::Reply { handle: THEIRS });
    assert_eq!(reply.payload, Payload::Span(span(8, 0, 100)));
    assert_eq!(s.events(), []);
    s.done(&reply);
    let event = s.event();
    assert_eq!((event.kind, event.status), (EventKind::Get, Ok(())));
    assert_eq!((event.rlength, event.mlength, event.initiator.nid), (300, 100, tcp(2)));
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_does_not_match_is_read_and_forgotten_and_nothing_is_said() {
    let mut s = Script::acquainted();
    let nowhere = Body::Put { ack: THEIRS, match_bits: 5, header_data: 0, portal: 64, offset: 0 };
    for body in [put_body(THEIRS), nowhere] {
        let rx = s.receive(30, body);
        assert_eq!(s.sink(), (rx, Sink::Discard { len: 30 }));
        s.received(rx, &[]);
    }
    s.receive(0, get_body(30));
    assert!(discarded(&mut s));
    assert_eq!((s.sent(), s.events()), (vec![], vec![]));
    let stats = s.lnet.stats();
    assert_eq!((stats.drop_count, stats.drop_length), (3, 60));
    assert_eq!(s.notices().len(), 3);
}

#[test]
fn what_is_too_long_is_dropped_without_trying_further() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(20, MdOptions::OP_PUT));
    attach(&mut s, catch_all(), posted(200, MdOptions::OP_PUT));
    s.receive_put(30);
    assert!(discarded(&mut s));
    let rx = s.receive_put(20);
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 0, 20))));
}

#[test]
fn an_exhausted_descriptor_takes_no_more_and_goes_with_its_entry() {
    let mut s = Script::acquainted();
    let md = Md { threshold: Some(2), auto_unlink: true, ..posted(100, MdOptions::OP_PUT) };
    let me = s.lnet.me_attach(SERVICE, PORTAL, catch_all()).unwrap();
    let md = s.lnet.md_attach(s.now, SERVICE, me, md, Memory::Buffer).unwrap();
    let first = s.receive_put(10);
    let second = s.receive_put(10);
    s.verdicts();
    s.receive_put(10);
    assert!(discarded(&mut s), "the third finds nothing although both are under way");
    assert_eq!(s.lnet.md_unlink(s.now, SERVICE, md), Err(Errno::ENOENT));
    assert_eq!(s.lnet.me_unlink(s.now, SERVICE, me), Err(Errno::ENOENT));
    s.received(second, &[]);
    assert!(!s.event().unlinked);
    s.received(first, &[]);
    assert!(s.event().unlinked);
}

#[test]
fn a_descriptor_with_less_than_its_maximum_left_is_exhausted() {
    let mut s = Script::acquainted();
    let options = MdOptions::OP_PUT.with(MdOptions::MAX_SIZE);
    attach(&mut s, catch_all(), Md { max_size: 40, auto_unlink: true, ..posted(100, options) });
    s.receive_put(41);
    assert!(discarded(&mut s), "above the maximum");
    let mut taken = Vec::new();
    for len in [40, 25] {
        taken.push(s.receive_put(len));
        assert!(!discarded(&mut s));
    }
    s.receive_put(1);
    assert!(discarded(&mut s), "35 bytes are left");
    for rx in taken {
        s.received(rx, &[]);
    }
    assert!(s.events()[1].unlinked);
}

#[test]
fn an_offset_beyond_the_end_leaves_no_room() {
    let put_at =
        |offset| Body::Put { ack: THEIRS, match_bits: 5, header_data: 0, portal: PORTAL, offset };
    for (extra, cut) in [(MdOptions::default(), false), (MdOptions::TRUNCATE, true)] {
        let mut s = Script::acquainted();
        let options = MdOptions::OP_PUT.with(MdOptions::MANAGE_REMOTE).with(extra);
        attach(&mut s, catch_all(), posted(100, options));
        let rx = s.receive(10, put_at(90));
        assert_eq!(s.sink(), (rx, Sink::Span(span(8, 90, 10))));
        for offset in [101, u32::MAX] {
            let rx = s.receive(10, put_at(offset));
            assert_eq!(s.sink(), (rx, Sink::Discard { len: 10 }));
            s.received(rx, &[]);
            assert_eq!(s.events().first().map(|event| event.mlength), cut.then_some(0));
        }
    }
}

#[test]
fn entries_that_ignore_bits_come_first_then_the_order_counts() {
    let mut s = Script::acquainted();
    let exact = Me { match_bits: 5, ignore_bits: 0, ..catch_all() };
    let md = |user| Md { user, ..posted(100, MdOptions::OP_PUT) };
    let hit = |s: &mut Script| {
        let rx = s.receive_put(1);
        s.received(rx, &[]);
        s.event().user
    };
    attach(&mut s, exact, md(1));
    assert_eq!(hit(&mut s), 1);
    attach(&mut s, Me { position: MePosition::Before, ..exact }, md(2));
    assert_eq!(hit(&mut s), 2);
    attach(&mut s, exact, md(3));
    assert_eq!(hit(&mut s), 2);
    let masked = Me { match_bits: 4, ignore_bits: 1, ..catch_all() };
    let last = attach(&mut s, masked, md(4));
    assert_eq!(hit(&mut s), 4);
    s.lnet.md_unlink(s.now, SERVICE, last).unwrap();
    s.events();
    assert_eq!(hit(&mut s), 2);
}

#[test]
fn bits_nid_and_pid_must_match() {
    let mut s = Script::acquainted();
    let base = Me { match_bits: 5, ignore_bits: 0, ..catch_all() };
    let nid = |nid| ProcessId { nid, pid: Pid::ANY };
    for (me, matches) in [
        (Me { match_bits: 6, ..base }, false),
        (Me { match_bits: 6, ignore_bits: 2, ..base }, false),
        (Me { match_bits: 6, ignore_bits: 3, ..base }, true),
        (Me { match_id: nid(tcp(3)), ..base }, false),
        (Me { match_id: nid(tcp(2)), ..base }, true),
        (Me { match_id: ProcessId { nid: Nid::ANY, pid: Pid(1) }, ..base }, false),
        (Me { match_id: ProcessId { nid: Nid::ANY, pid: Pid::LUSTRE }, ..base }, true),
    ] {
        let md = attach(&mut s, me, posted(100, MdOptions::OP_PUT));
        let rx = s.receive_put(1);
        assert_eq!(!discarded(&mut s), matches, "{me:?}");
        s.received(rx, &[]);
        s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
        s.drain();
    }
    attach(&mut s, base, posted(100, MdOptions::OP_GET));
    s.receive_put(1);
    assert!(discarded(&mut s), "it takes GETs");
}

#[test]
fn the_first_entry_of_a_portal_decides_what_the_others_are() {
    let mut s = Script::new();
    let id = ProcessId::lustre(tcp(2));
    let unique = Me { match_id: id, ignore_bits: 0, ..catch_all() };
    let first = s.lnet.me_attach(SERVICE, 3, unique).unwrap();
    assert_eq!(s.lnet.me_attach(SERVICE, 3, catch_all()), Err(Errno::EPERM));
    s.lnet.me_unlink(s.now, SERVICE, first).unwrap();
    assert_eq!(s.lnet.me_attach(SERVICE, 3, catch_all()), Err(Errno::EPERM), "for ever");
    s.lnet.me_attach(SERVICE, 4, catch_all()).unwrap();
    assert_eq!(s.lnet.me_attach(SERVICE, 4, unique), Err(Errno::EPERM));
    assert_eq!(s.lnet.me_attach(SERVICE, 64, unique), Err(Errno::EINVAL));
    assert_eq!(s.lnet.me_attach(SERVICE, 0, catch_all()), Err(Errno::EPERM), "the machine's own");
}

#[test]
fn at_a_lazy_portal_puts_wait_and_are_served_in_order() {
    let mut s = Script::acquainted();
    s.lnet.set_lazy(s.now, PORTAL, true).unwrap();
    let waiting: Vec<RxId> =
        (0..3).map(|n| s.receive_from(tcp(2 + n), 40, put_body(THEIRS))).collect();
    let expected: Vec<_> = waiting.iter().map(|rx| (*rx, Verdict::Wait)).collect();
    assert_eq!(s.verdicts(), expected);
    s.receive(0, get_body(10));
    assert!(discarded(&mut s), "GETs do not wait");
    attach(&mut s, catch_all(), posted(80, MdOptions::OP_PUT.with(MdOptions::TRUNCATE)));
    let verdicts = s.verdicts();
    assert_eq!(verdicts[0], (waiting[0], Verdict::Receive(Sink::Span(span(8, 0, 40)))));
    assert_eq!(verdicts[1], (waiting[1], Verdict::Receive(Sink::Span(span(8, 40, 40)))));
    for rx in waiting {
        s.received(rx, &[]);
        let done = s.event().done.unwrap();
        s.lnet.handle_event_done(s.now, done);
        let ack = s.sent_one();
        s.done(&ack);
    }
    s.lnet.is_idle().unwrap();
}

#[test]
fn one_descriptor_serves_as_many_waiting_puts_as_it_can() {
    let mut s = Script::acquainted();
    s.lnet.set_lazy(s.now, PORTAL, true).unwrap();
    let waiting: Vec<RxId> =
        (0..3).map(|n| s.receive_from(tcp(2 + n), 40, put_body(THEIRS))).collect();
    s.drain();
    let md = Md { threshold: Some(2), auto_unlink: true, ..posted(100, MdOptions::OP_PUT) };
    attach(&mut s, catch_all(), md);
    let served: Vec<RxId> = s.verdicts().into_iter().map(|(rx, _)| rx).collect();
    assert_eq!(served, waiting[..2]);
}

#[test]
fn a_waiting_put_goes_with_its_connection_its_interface_or_the_laziness() {
    let mut s = Script::acquainted();
    s.lnet.set_lazy(s.now, PORTAL, true).unwrap();
    let dead = s.receive_put(40);
    s.drain();
    s.lnet.handle_receive_done(s.now, dead, Err(Errno::ECONNRESET));
    assert_eq!(s.drain(), []);
    s.lnet.is_idle().unwrap();
    let dropped = s.receive_put(40);
    s.drain();
    s.lnet.set_lazy(s.now, PORTAL, false).unwrap();
    assert_eq!(s.sink(), (dropped, Sink::Discard { len: 40 }));
    s.lnet.set_lazy(s.now, PORTAL, true).unwrap();
    let orphan = s.receive_put(40);
    s.drain();
    s.lnet.remove_ni(s.now, tcp(1)).unwrap();
    assert_eq!(s.sink(), (orphan, Sink::Discard { len: 40 }));
    s.lnet.is_idle().unwrap();
}

#[test]
fn headers_that_break_the_protocol_close_the_connection() {
    let mut s = Script::with(&[ni(tcp(1)), ni(tcp1(1))]);
    let header = |target, payload_len, body| Header {
        target,
        source: tcp(2),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len,
        body,
    };
    let ack = Body::Ack { handle: THEIRS, match_bits: 0, accepted: 0 };
    for bad in [
        header(tcp(1), 1, ack),
        header(tcp(1), 1, get_body(1)),
        header(tcp(1), (1 << 20) + 1, put_body(THEIRS)),
        header(tcp(1), (1 << 20) + 1, Body::Reply { handle: THEIRS }),
        header(tcp(9), 0, put_body(THEIRS)),
        header(tcp1(1), 0, put_body(THEIRS)),
    ] {
        let rx = s.receive_header(tcp(1), tcp(2), bad);
        assert_eq!(s.verdicts(), [(rx, Verdict::Reject)], "{bad:?}");
    }
    assert_eq!(s.lnet.stats().errors, 6);
    // Another network is not ours to reach: dropped, and the connection lives.
    let other = Nid::small(Net(Net::TCP.0 + 9), 1);
    let rx = s.receive_header(tcp(1), tcp(2), header(other, 10, put_body(THEIRS)));
    assert_eq!(s.sink(), (rx, Sink::Discard { len: 10 }));
    assert_eq!(s.lnet.stats().drop_count, 1);
}

#[test]
fn the_largest_payload_is_a_mebibyte() {
    let mut s = Script::acquainted();
    attach(&mut s, catch_all(), posted(2 << 20, MdOptions::OP_PUT));
    let rx = s.receive_put(1 << 20);
    assert_eq!(s.sink(), (rx, Sink::Span(span(8, 0, 1 << 20))));
}

#[test]
fn unlinking_while_the_payload_arrives_fails_the_put_and_forbids_its_ack() {
    let mut s = Script::acquainted();
    let md = attach(&mut s, catch_all(), posted(100, MdOptions::OP_PUT));
    let rx = s.receive(30, put_body(THEIRS));
    s.verdicts();
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    assert_eq!(s.events(), []);
    s.received(rx, &[]);
    let event = s.event();
    assert_eq!((event.status, event.unlinked), (Err(Errno::ETIMEDOUT), true));
    assert_eq!(event.done, None);
    s.lnet.is_idle().unwrap();
}

#[test]
fn unlinking_while_the_handler_runs_does_not_take_the_ack_back() {
    let mut s = Script::acquainted();
    let md = attach(&mut s, catch_all(), posted(100, MdOptions::OP_PUT));
    let rx = s.receive(30, put_body(THEIRS));
    s.received(rx, &[]);
    let done = s.event().done.unwrap();
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    assert_eq!(s.event().kind, EventKind::Unlink);
    s.lnet.handle_event_done(s.now, done);
    assert!(matches!(s.sent_one().header.body, Body::Ack { .. }));
}

#[test]
fn removing_an_entry_unlinks_its_descriptor() {
    let mut s = Script::acquainted();
    let me = s.lnet.me_attach(SERVICE, PORTAL, Me { unlink: false, ..catch_all() }).unwrap();
    let md =
        s.lnet.md_attach(s.now, SERVICE, me, posted(9, MdOptions::OP_PUT), Memory::Buffer).unwrap();
    assert_eq!(
        s.lnet.md_attach(s.now, SERVICE, me, posted(9, MdOptions::OP_PUT), Memory::Buffer),
        Err(Errno::EBUSY)
    );
    s.lnet.md_unlink(s.now, SERVICE, md).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, posted(9, MdOptions::OP_PUT), Memory::Buffer).unwrap();
    s.drain();
    s.lnet.me_unlink(s.now, SERVICE, me).unwrap();
    assert_eq!(s.event().kind, EventKind::Unlink);
    assert_eq!(s.lnet.me_unlink(s.now, SERVICE, me), Err(Errno::ENOENT));
}

#[test]
fn a_source_that_is_not_the_nid_of_its_connection_is_not_believed() {
    let mut s = Script::new();
    for source in [tcp(3), "10.0.0.3@tcp7".parse().unwrap()] {
        let header = Header { source, ..ping_from(tcp(2)) };
        s.receive_header(tcp(1), tcp(2), header);
        let verdicts = s.verdicts();
        assert!(matches!(verdicts[..], [(_, Verdict::Receive(Sink::Discard { len: 0 }))]));
        assert_eq!(s.sent(), []);
    }
    assert_eq!(s.lnet.stats().drop_count, 2);
    assert!(s.lnet.peers().is_empty(), "no peer is remembered");
}

#[test]
fn a_router_is_not_to_blame_for_what_another_node_sent_by_it() {
    let mut s = Script::with(&[ni(tcp(1)), ni(tcp1(1))]);
    let header = Header { source: tcp(3), target: tcp1(1), ..ping_from(tcp(3)) };
    s.receive_header(tcp(1), tcp(3), header);
    assert!(matches!(s.verdicts()[..], [(_, Verdict::Reject)]), "its own mistake");
    s.receive_header(tcp(1), tcp(2), header);
    assert!(matches!(s.verdicts()[..], [(_, Verdict::Receive(Sink::Discard { len: 0 }))]));
}

#[test]
fn a_peer_that_takes_no_responses_is_not_read() {
    let mut s = Script::new();
    let ping = |s: &mut Script| s.receive_header(tcp(1), tcp(2), ping_from(tcp(2)));
    let mut waiting = Vec::new();
    for n in 0..1000 {
        ping(&mut s);
        let (_, verdict) = s.verdicts()[0];
        if verdict == Verdict::Wait {
            assert_eq!(n, 512);
            break;
        }
        waiting.extend(s.sent());
    }
    assert_eq!(waiting.len(), 8, "the credits of the peer");
    // Another peer is answered.
    s.receive_header(tcp(1), tcp(3), ping_from(tcp(3)));
    assert_eq!(s.sent_one().next_hop, tcp(3));
    // As the responses leave, the request goes on.
    let mut answered = 0;
    s.drain();
    while let Some(reply) = waiting.pop() {
        answered += 1;
        s.done(&reply);
        waiting.extend(s.sent());
        let resumed = !s.verdicts().is_empty();
        assert_eq!(resumed, answered == 256);
    }
    assert_eq!(answered, 513);
}

#[test]
fn a_request_that_waits_ends_with_its_connection() {
    let mut s = Script::new();
    let mut last = RxId(0);
    for _ in 0..513 {
        last = s.receive_header(tcp(1), tcp(2), ping_from(tcp(2)));
    }
    assert_eq!(s.verdicts().last(), Some(&(last, Verdict::Wait)));
    s.lnet.handle_receive_done(s.now, last, Err(Errno::ECONNRESET));
    let mut under_way = s.sent();
    while let Some(reply) = under_way.pop() {
        s.done(&reply);
        under_way.extend(s.sent());
    }
    assert_eq!(s.lnet.is_idle(), Ok(()));
}

fn ping_from(source: Nid) -> Header {
    Header {
        target: tcp(1),
        source,
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body: ping_body(0, 272),
    }
}
