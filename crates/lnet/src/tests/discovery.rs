//! Ping, push and what they change. Spec: lnet-behaviour §9, §17, 26 to 28, lnet-wire §9.

use fulmar_base::Payload;

use super::*;
use crate::peers::PeerState;

pub(super) fn post(s: &mut Script, target: Nid) -> MdId {
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(target)).unwrap();
    md
}

pub(super) fn is_put(request: &SendRequest) -> bool {
    matches!(request.header.body, Body::Put { portal: PORTAL, .. })
}

pub(super) fn nids(s: &Script) -> Vec<Vec<Nid>> {
    let nids = |peer: views::Peer| peer.nis.iter().map(|ni| ni.nid).collect();
    s.lnet.peers().into_iter().map(nids).collect()
}

fn payload_info(payload: &Payload) -> PingInfo {
    let Payload::Inline(bytes) = payload else { panic!("{payload:?}") };
    PingInfo::decode(bytes).unwrap().info
}

/// A machine that has discovered node 2 as multi-rail and pushed to it.
pub(super) fn multi_rail(theirs: &[Nid]) -> Script {
    Script::multi_rail(&[ni(tcp(1))], theirs)
}

#[test]
fn the_first_put_to_an_unknown_peer_is_preceded_by_a_ping() {
    let mut s = Script::new();
    let md = post(&mut s, tcp(2));
    let ping = s.sent_one();
    let Body::Get { portal: 0, match_bits: PING_MATCH_BITS, offset: 0, sink_len: 272, .. } =
        ping.header.body
    else {
        panic!("{ping:?}");
    };
    post(&mut s, tcp(2));
    assert_eq!(s.sent(), [], "one ping is enough");
    s.answer_ping(&ping, &bytes(&plain_info(tcp(2))));
    let sent = s.sent();
    assert!(sent.len() == 2 && sent.iter().all(is_put), "no push to who does not take it");
    s.done(&sent[0]);
    assert_eq!(s.event().md, md);
    post(&mut s, tcp(2));
    assert!(is_put(&s.sent_one()), "and none from now on");
    assert_eq!(s.notices(), [Notice::Discovered { primary: tcp(2), nids: 1 }]);
}

#[test]
fn two_nodes_meet_and_ours_begins() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2)])));
    let push = s.sent_one();
    let Body::Put { ack, offset: 0, header_data: 0, .. } = push.header.body else { panic!() };
    assert_ne!(ack, Handle::NONE);
    assert_eq!(payload_info(&push.payload), s.lnet.ping_info());
    // The push back, before the ACK of ours.
    s.receive_push(tcp(2), &info(1, &[tcp(2)]));
    let ack = s.sent_one();
    assert_eq!(
        ack.header.body,
        Body::Ack { handle: THEIRS, match_bits: PING_MATCH_BITS, accepted: 48 }
    );
    s.answer_push(&push);
    assert!(is_put(&s.sent_one()), "held until the push was acknowledged");
    s.done(&ack);
    assert!(s.lnet.peers()[0].multi_rail);
}

#[test]
fn two_nodes_meet_and_the_other_begins() {
    let mut s = Script::new();
    s.receive(0, ping_body(0, 272));
    assert_eq!(s.sink().1, Sink::Discard { len: 0 });
    let reply = s.sent_one();
    let said = payload_info(&reply.payload);
    assert_eq!((said.features, said.sequence, said.pid), (Features(0x1e), 1, Pid::LUSTRE));
    assert_eq!(said.entries, [NiEntry { nid: tcp(1), status: NiStatus::UP }]);
    s.done(&reply);
    s.receive_push(tcp(2), &info(1, &[tcp(2)]));
    let sent = s.sent();
    assert!(matches!(sent[0].header.body, Body::Ack { handle: THEIRS, .. }));
    let Body::Put { portal: 0, .. } = sent[1].header.body else { panic!("{sent:?}") };
    assert_eq!(sent.len(), 2, "we push back and do not ping");
    s.done(&sent[0]);
    s.answer_push(&sent[1]);
    post(&mut s, tcp(2));
    assert!(is_put(&s.sent_one()));
}

#[test]
fn a_ping_that_is_not_answered_fails_what_waits_after_the_transaction_timeout() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    s.done(&ping);
    s.wait(149);
    assert_eq!(s.events(), []);
    s.wait(1);
    assert_eq!(s.event().status, Err(Errno::ETIMEDOUT));
    post(&mut s, tcp(2));
    let again = s.sent_one();
    assert!(!is_put(&again), "the next message begins anew");
    s.lnet.handle_sent(
        s.now,
        again.message,
        Err(SendError { class: FailureClass::RemoteDropped, errno: Errno::ECONNREFUSED }),
    );
    assert_eq!(s.event().status, Err(Errno::ECONNREFUSED));
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_push_that_is_not_acknowledged_fails_what_waits() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2)])));
    let push = s.sent_one();
    s.done(&push);
    s.wait(150);
    assert_eq!(s.event().status, Err(Errno::ETIMEDOUT));
    post(&mut s, tcp(2));
    let Body::Put { portal: 0, .. } = s.sent_one().header.body else {
        panic!("the NIDs are known")
    };
}

#[test]
fn a_push_that_comes_first_does_for_the_ping_that_fails() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    s.receive_push(tcp(2), &info(1, &[tcp(2)]));
    let sent = s.sent();
    s.done(&sent[0]);
    s.answer_push(&sent[1]);
    assert!(is_put(&s.sent_one()));
    s.lnet.handle_sent(
        s.now,
        ping.message,
        Err(SendError { class: FailureClass::LocalError, errno: Errno::EIO }),
    );
    post(&mut s, tcp(2));
    assert!(is_put(&s.sent_one()));
}

#[test]
fn bad_ping_info_is_asked_for_again_a_few_times() {
    let good = bytes(&info(1, &[tcp(2)]));
    let broken = |at: usize, with: u8| {
        let mut bad = good.clone();
        bad[at] = with;
        bad
    };
    for bad in [
        broken(0, 0),    // magic
        broken(4, 0x1c), // no NI_STATUS
        broken(12, 0),   // no entries
        broken(22, 2),   // entry 0 is not 0@lo
        good[..40].to_vec(),
        Vec::new(),
    ] {
        let mut s = Script::new();
        post(&mut s, tcp(2));
        for _ in 0..3 {
            let ping = s.sent_one();
            s.answer_ping(&ping, &bad);
            assert_eq!(s.sent(), [], "not at once");
            s.wait(1);
        }
        let ping = s.sent_one();
        s.answer_ping(&ping, &bad);
        assert_eq!(s.event().status, Err(Errno::EPROTO), "{bad:02x?}");
        assert_eq!(s.sent(), []);
        s.lnet.is_idle().unwrap();
    }
}

#[test]
fn info_that_does_not_fit_is_asked_for_with_a_larger_sink() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let many: Vec<Nid> = (2..102).map(tcp).collect();
    let whole = bytes(&info(1, &many));
    let ping = s.sent_one();
    s.answer_ping(&ping, &whole);
    let ping = s.sent_one();
    let Body::Get { sink_len, .. } = ping.header.body else { panic!() };
    assert_eq!(sink_len as usize, whole.len());
    s.answer_ping(&ping, &whole);
    let push = s.sent_one();
    s.answer_push(&push);
    assert_eq!(nids(&s), [many]);
}

#[test]
fn a_ping_is_answered_with_the_part_that_it_asks_for() {
    let mut s = Script::new();
    let whole = bytes(&s.lnet.ping_info());
    for (offset, len, part) in
        [(0, 272, 0..48), (0, 20, 0..20), (16, 16, 16..32), (40, 100, 40..48), (48, 9, 48..48)]
    {
        s.receive(0, ping_body(offset, len));
        let reply = s.sent_one();
        let expected =
            if part.is_empty() { Payload::Empty } else { Payload::Inline(whole[part].into()) };
        assert_eq!(reply.payload, expected);
        s.done(&reply);
    }
    s.receive(0, ping_body(u32::MAX, u32::MAX));
    assert_eq!(s.sent_one().payload, Payload::Empty);
    s.receive(0, Body::Get { reply: THEIRS, match_bits: 1, portal: 0, offset: 0, sink_len: 9 });
    assert_eq!(s.sent(), []);
}

#[test]
fn each_change_of_the_interfaces_is_pushed_with_a_higher_sequence() {
    let mut s = multi_rail(&[tcp(2)]);
    assert_eq!(s.lnet.ping_info().sequence, 1);
    s.lnet.add_ni(s.now, ni(tcp(11)), LND_TIMEOUT).unwrap();
    let push = s.sent_one();
    assert_eq!(payload_info(&push.payload).sequence, 2);
    s.lnet.remove_ni(s.now, tcp(11)).unwrap();
    assert_eq!(s.sent(), [], "one push at a time");
    s.answer_push(&push);
    let push = s.sent_one();
    assert_eq!(payload_info(&push.payload).sequence, 3);
    assert_eq!(payload_info(&push.payload).entries.len(), 1);
    s.answer_push(&push);
    assert_eq!(s.sent(), []);
    s.lnet.is_idle().unwrap();
}

#[test]
fn interfaces_before_the_start_leave_the_sequence_at_one() {
    let s = Script::with(&[ni(tcp(1)), ni(tcp1(1)), ni(tcp(3))]);
    let info = s.lnet.ping_info();
    let nids: Vec<Nid> = info.entries.iter().map(|entry| entry.nid).collect();
    assert_eq!(nids, [tcp(1), tcp(3), tcp1(1)], "those of one network together");
    assert_eq!(info.sequence, 1);
}

#[test]
fn a_large_primary_is_said_to_be_one() {
    let v6 = Nid::of_ip(Net::TCP, "2001:db8::1".parse().unwrap());
    let s = Script::with(&[ni(v6)]);
    let info = s.lnet.ping_info();
    assert_eq!((info.features, info.primary(), info.size()), (Features(0x7e), Some(v6), 56));
}

#[test]
fn switching_discovery_off_is_pushed_and_changes_the_features() {
    let mut s = multi_rail(&[tcp(2)]);
    let off = Globals { discovery: false, ..Globals::default() };
    s.lnet.set_globals(s.now, off).unwrap();
    let push = s.sent_one();
    let said = payload_info(&push.payload);
    assert_eq!((said.features, said.sequence), (Features(0x0e), 1));
    s.answer_push(&push);
    s.lnet.is_idle().unwrap();
}

#[test]
fn without_discovery_each_peer_is_pinged_once_and_stays_as_it_is() {
    let mut lnet =
        node(Config { globals: Globals { discovery: false, ..Globals::default() }, ..config() });
    lnet.add_ni(Time::ZERO, ni(tcp(1)), LND_TIMEOUT).unwrap();
    lnet.start(Time::ZERO);
    let mut s = Script { lnet, now: Time::ZERO, rx: 0, outputs: Vec::new() };
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(3)])));
    assert!(is_put(&s.sent_one()));
    assert_eq!(nids(&s), [[tcp(2)]]);
    post(&mut s, tcp(2));
    assert!(is_put(&s.sent_one()));
}

#[test]
fn a_peer_that_stops_discovering_falls_apart() {
    let mut s = multi_rail(&[tcp(2), tcp(3)]);
    let off = PingInfo { features: Features(0x0e), ..info(1, &[tcp(2), tcp(3)]) };
    s.receive_push(tcp(2), &off);
    assert_eq!(nids(&s), [[tcp(2)], [tcp(3)]]);
    assert!(!s.lnet.peers()[0].multi_rail);
    assert!(s.lnet.peers()[0].state & PeerState::NO_DISCOVERY.0 != 0);
}

#[test]
fn a_push_that_cannot_be_read_makes_us_ping() {
    let mut s = multi_rail(&[tcp(2)]);
    let rx = s.receive(20, push_body());
    let (_, sink) = s.sink();
    assert_eq!(sink, Sink::Inline { len: 20 });
    s.received(rx, &[0; 20]);
    let sent = s.sent();
    assert!(matches!(sent[0].header.body, Body::Ack { .. }));
    assert!(matches!(sent[1].header.body, Body::Get { portal: 0, .. }));
}

#[test]
fn a_push_larger_than_our_room_is_cut_then_asked_for() {
    let mut s = multi_rail(&[tcp(2)]);
    let many: Vec<Nid> = (2..102).map(tcp).collect();
    let whole = bytes(&info(2, &many));
    s.receive_push(tcp(2), &info(2, &many));
    let sent = s.sent();
    assert!(matches!(sent[0].header.body, Body::Ack { accepted: 272, .. }));
    let ping = &sent[1];
    s.answer_ping(ping, &whole);
    let again = s.sent_one();
    s.answer_ping(&again, &whole);
    assert_eq!(nids(&s), [many]);
    let rx = s.receive(whole.len() as u32, push_body());
    assert_eq!(s.sink(), (rx, Sink::Inline { len: whole.len() as u32 }), "there is room now");
}

#[test]
fn the_same_sequence_and_a_lower_one_are_used_too() {
    let mut s = multi_rail(&[tcp(2)]);
    s.receive_push(tcp(2), &info(1, &[tcp(2), tcp(3)]));
    assert_eq!(nids(&s), [[tcp(2), tcp(3)]]);
    s.receive_push(tcp(2), &info(0, &[tcp(2), tcp(4)]));
    assert_eq!(nids(&s), [[tcp(2), tcp(4)]]);
}

#[test]
fn discovery_on_demand_tells_what_is_known_and_asks_again_when_forced() {
    let mut s = multi_rail(&[tcp(2), tcp(3)]);
    let discovered = |s: &mut Script| {
        s.take(|output| match output {
            Output::Discovered { result, .. } => Some(result.clone()),
            _ => None,
        })
    };
    s.lnet.discover(s.now, tcp(3), false);
    let results = discovered(&mut s);
    let [Ok(reply)] = &results[..] else { panic!("{results:?}") };
    assert_eq!((reply.primary, reply.multi_rail), (tcp(2), true));
    assert_eq!(reply.nids, [tcp(2), tcp(3)]);
    s.lnet.discover(s.now, tcp(3), true);
    let ping = s.sent_one();
    assert_eq!(discovered(&mut s), []);
    s.answer_ping(&ping, &bytes(&info(5, &[tcp(2)])));
    let results = discovered(&mut s);
    assert_eq!(results[0].as_ref().unwrap().nids, [tcp(2)]);
    s.lnet.discover(s.now, Nid::LOOPBACK, true);
    assert_eq!(discovered(&mut s), [Err(Errno::EINVAL)]);
    s.lnet.discover(s.now, tcp1(7), false);
    assert_eq!(discovered(&mut s), [Err(Errno::EHOSTUNREACH)]);
}

#[test]
fn a_node_may_discover_itself_through_its_lnd() {
    let mut s = Script::new();
    s.lnet.discover(s.now, tcp(1), false);
    let ping = s.sent_one();
    assert_eq!((ping.ni, ping.next_hop), (tcp(1), tcp(1)));
    s.done(&ping);
    s.receive_header(tcp(1), tcp(1), ping.header);
    let reply = s.sent_one();
    let Payload::Inline(said) = &reply.payload else { panic!() };
    s.done(&reply);
    let rx = s.receive_header(tcp(1), tcp(1), reply.header);
    s.received(rx, said);
    let push = s.sent_one();
    s.done(&push);
    let rx = s.receive_header(tcp(1), tcp(1), push.header);
    s.received(rx, said);
    let ack = s.sent_one();
    s.done(&ack);
    s.receive_header(tcp(1), tcp(1), ack.header);
    assert_eq!(s.sent(), []);
    s.lnet.is_idle().unwrap();
    assert_eq!(nids(&s), [[tcp(1)]]);
}

#[test]
fn an_administrators_ping_has_a_large_sink_and_its_own_timeout() {
    let mut s = Script::new();
    let pinged = |s: &mut Script| {
        s.take(|output| match output {
            Output::Pinged { result, .. } => Some(result.clone()),
            _ => None,
        })
    };
    let target = ProcessId::lustre(tcp(2));
    let timeout = Duration::from_secs(1);
    s.lnet.ping(s.now, target, Some(tcp(1)), timeout);
    let ping = s.sent_one();
    let Body::Get { sink_len: 3960, .. } = ping.header.body else { panic!("{ping:?}") };
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(3)])));
    let results = pinged(&mut s);
    let [Ok(reply)] = &results[..] else { panic!("{results:?}") };
    assert_eq!((&reply.nids[..], reply.pid), (&[tcp(2), tcp(3)][..], Pid::LUSTRE));
    assert_eq!((reply.primary, reply.multi_rail), (tcp(2), false), "a ping discovers nothing");
    s.lnet.ping(s.now, target, None, timeout);
    let ping = s.sent_one();
    s.wait(1);
    assert_eq!(pinged(&mut s), [Err(Errno::ETIMEDOUT)]);
    s.done(&ping);
    s.lnet.ping(s.now, target, Some(tcp(8)), timeout);
    assert_eq!(pinged(&mut s), [Err(Errno::EINVAL)]);
    assert_eq!(s.lnet.poll_timeout(), None);
    s.lnet.is_idle().unwrap();
}

#[test]
fn configured_peers_keep_what_they_were_given() {
    let mut s = Script::new();
    s.lnet.peer_add(s.now, tcp(2), &[tcp(3)], true).unwrap();
    s.lnet.peer_add(s.now, tcp(2), &[tcp(4)], true).unwrap();
    assert_eq!(s.lnet.peer_add(s.now, tcp(5), &[tcp(4)], true), Err(Errno::EEXIST));
    assert_eq!(s.lnet.peer_add(s.now, tcp(2), &[], false), Err(Errno::EPERM));
    assert_eq!(s.lnet.peer_add(s.now, tcp(5), &[tcp(1)], true), Err(Errno::EINVAL));
    assert_eq!(nids(&s), [[tcp(2), tcp(3), tcp(4)]]);
    post(&mut s, tcp(3));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(6), tcp(2), tcp(7)])));
    assert_eq!(s.lnet.peers()[0].primary, tcp(2), "the name is locked");
    assert_eq!(nids(&s)[0].len(), 5);
    let push = s.sent_one();
    s.answer_push(&push);
    s.drain();
    s.lnet.peer_del(s.now, tcp(2), &[tcp(3)]).unwrap();
    assert_eq!(nids(&s)[0].len(), 4);
    assert_eq!(s.lnet.peer_del(s.now, tcp(2), &[tcp(3)]), Err(Errno::ENOENT));
    s.lnet.peer_del(s.now, tcp(2), &[]).unwrap();
    assert_eq!(s.lnet.peer_del(s.now, tcp(2), &[]), Err(Errno::ENOENT));
}

#[test]
fn deleting_a_peer_sends_what_waited_for_it_anew() {
    let mut s = Script::new();
    post(&mut s, tcp(2));
    let old = s.sent_one();
    s.lnet.peer_del(s.now, tcp(2), &[]).unwrap();
    let new = s.sent_one();
    assert_ne!(old.message, new.message);
    s.done(&old);
    s.answer_ping(&new, &bytes(&plain_info(tcp(2))));
    assert!(is_put(&s.sent_one()));
}

#[test]
fn only_so_many_messages_wait_for_one_peer() {
    let mut s = Script::new();
    for _ in 0..16_384 {
        post(&mut s, tcp(2));
    }
    assert_eq!(s.events(), []);
    post(&mut s, tcp(2));
    assert_eq!(s.event().status, Err(Errno::ENOMEM));
}
