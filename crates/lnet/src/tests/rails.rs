//! Several rails, health, resending and recovery. Spec: lnet-behaviour §10, §11, §17, 29 to 34.

use super::*;

/// A node with two interfaces on tcp that knows node 2, which has two as well.
pub(super) fn two_rails() -> Script {
    Script::multi_rail(&[ni(tcp(1)), ni(tcp(11))], &[tcp(2), tcp(12)])
}

fn send(s: &mut Script) -> SendRequest {
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    s.sent_one()
}

fn health(s: &Script) -> (Vec<u32>, Vec<u32>) {
    let ours = s.lnet.nis()[1..].iter().map(|ni| ni.health.value).collect();
    let theirs = s.lnet.peers()[0].nis.iter().map(|ni| ni.health.value).collect();
    (ours, theirs)
}

fn fail(s: &mut Script, request: &SendRequest, failure: FailureClass) {
    s.lnet.handle_sent(
        s.now,
        request.message,
        Err(SendError { class: failure, errno: Errno::EIO }),
    );
}

#[test]
fn healthy_rails_take_turns() {
    let mut s = two_rails();
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..100 {
        let sent = send(&mut s);
        s.done(&sent);
        s.drain();
        *counts.entry(sent.ni).or_insert(0) += 1;
        *counts.entry(sent.next_hop).or_insert(0) += 1;
    }
    assert!(counts.len() == 4 && counts.values().all(|count| *count == 50), "{counts:?}");
}

#[test]
fn two_networks_with_a_peer_take_turns_too() {
    let mut s = Script::multi_rail(&[ni(tcp(1)), ni(tcp1(1))], &[tcp(2), tcp1(2)]);
    let nets: Vec<Net> = (0..6)
        .map(|_| {
            let sent = send(&mut s);
            s.done(&sent);
            s.drain();
            assert_eq!(sent.ni.net(), sent.next_hop.net());
            sent.ni.net()
        })
        .collect();
    assert!(nets.windows(2).all(|pair| pair[0] != pair[1]), "{nets:?}");
}

#[test]
fn what_one_rail_did_not_deliver_goes_by_the_other_with_one_event() {
    let mut s = two_rails();
    let first = send(&mut s);
    fail(&mut s, &first, FailureClass::LocalDropped);
    let second = s.sent_one();
    assert_ne!(second.ni, first.ni);
    let (ours, _) = health(&s);
    assert_eq!(ours.iter().sum::<u32>(), 1900);
    s.done(&second);
    assert_eq!(s.event().status, Ok(()));
    // After a second it is pinged from that interface, and well when the answer comes.
    s.wait(1);
    let ping = s.sent_one();
    assert_eq!(ping.ni, first.ni);
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(12)])));
    assert_eq!(health(&s).0, [1000, 1000]);
    s.wait(100);
    assert_eq!(s.sent(), [], "and left alone");
    s.drain();
    s.lnet.is_idle().unwrap();
}

#[test]
fn what_may_have_arrived_is_not_sent_again() {
    for failure in [
        FailureClass::RemoteError,
        FailureClass::RemoteTimeout,
        FailureClass::NetworkTimeout,
        FailureClass::LocalError,
    ] {
        let mut s = two_rails();
        let sent = send(&mut s);
        fail(&mut s, &sent, failure);
        assert_eq!(s.event().status, Err(Errno::EIO), "{failure:?}");
        assert_eq!(s.sent(), []);
    }
}

#[test]
fn a_peer_with_one_nid_is_not_blamed() {
    let mut s = Script::multi_rail(&[ni(tcp(1)), ni(tcp(11))], &[tcp(2)]);
    let sent = send(&mut s);
    fail(&mut s, &sent, FailureClass::RemoteDropped);
    assert_eq!(s.event().status, Err(Errno::EIO));
    assert_eq!(health(&s), (vec![1000, 1000], vec![1000]));
}

#[test]
fn retries_are_counted_and_bounded() {
    let mut s = two_rails();
    let mut sent = send(&mut s);
    for _ in 0..2 {
        fail(&mut s, &sent, FailureClass::LocalDropped);
        s.wait(1);
        let again = s.sent().into_iter().find(|sent| !matches!(sent.header.body, Body::Get { .. }));
        sent = again.expect("it is sent again");
    }
    fail(&mut s, &sent, FailureClass::LocalDropped);
    assert_eq!(s.event().status, Err(Errno::EIO));
    let stats = s.lnet.stats();
    assert_eq!((stats.resend_count, stats.failed_resends, stats.local_dropped_count), (2, 1, 3));
}

#[test]
fn without_sensitivity_health_never_changes() {
    let mut s = two_rails();
    let globals = Globals { health_sensitivity: 0, ..s.lnet.globals().clone() };
    s.lnet.set_globals(s.now, globals).unwrap();
    let sent = send(&mut s);
    fail(&mut s, &sent, FailureClass::LocalDropped);
    assert_eq!(s.event().status, Err(Errno::EIO), "and nothing is sent again");
    assert_eq!(health(&s), (vec![1000, 1000], vec![1000, 1000]));
}

#[test]
fn a_given_source_decides_the_pair() {
    let mut s = two_rails();
    for _ in 0..6 {
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        let request = Put { source: Some(tcp(11)), ..put(tcp(12)) };
        s.lnet.put(s.now, SERVICE, md, request).unwrap();
        let sent = s.sent_one();
        assert_eq!((sent.ni, sent.next_hop), (tcp(11), tcp(12)));
        s.done(&sent);
        s.drain();
    }
}

#[test]
fn a_response_keeps_its_pair_while_that_works() {
    let mut s = two_rails();
    let ask = |s: &mut Script| {
        let header = Header { target: tcp(11), source: tcp(12), ..ping_header() };
        s.receive_header(tcp(11), tcp(12), header);
        s.sent().into_iter().find(|sent| matches!(sent.header.body, Body::Reply { .. })).unwrap()
    };
    let reply = ask(&mut s);
    assert_eq!((reply.ni, reply.next_hop), (tcp(11), tcp(12)));
    s.done(&reply);
    s.lnet.handle_link(s.now, tcp(11), false);
    let reply = ask(&mut s);
    assert_eq!(reply.ni, tcp(1), "the pair is broken");
}

#[test]
fn a_response_does_not_go_to_a_nid_that_its_peer_only_lists() {
    let mut s = two_rails();
    s.receive_push(tcp(5), &info(2, &[tcp(5), tcp(6)]));
    s.drain();
    s.lnet.handle_path(s.now, tcp(1), tcp(5), PathState::Down);
    s.receive_header(tcp(1), tcp(5), Header { source: tcp(5), ..ping_header() });
    let replies = s.sent();
    let replies = replies.iter().filter(|sent| matches!(sent.header.body, Body::Reply { .. }));
    assert!(replies.clone().count() > 0 && replies.clone().all(|sent| sent.next_hop == tcp(5)));
}

#[test]
fn an_interface_without_a_link_is_not_used_and_peers_are_told() {
    let mut s = two_rails();
    s.lnet.handle_link(s.now, tcp(1), false);
    let push = s.sent_one();
    let Payload::Inline(told) = &push.payload else { panic!("{push:?}") };
    let told = PingInfo::decode(told).unwrap().info;
    assert_eq!(told.sequence, 2);
    let status: Vec<NiStatus> = told.entries.iter().map(|entry| entry.status).collect();
    assert_eq!(status, [NiStatus::DOWN, NiStatus::UP]);
    s.answer_push(&push);
    s.drain();
    for _ in 0..4 {
        let sent = send(&mut s);
        assert_eq!(sent.ni, tcp(11));
        s.done(&sent);
        s.drain();
    }
    s.lnet.handle_link(s.now, tcp(11), false);
    for push in s.sent() {
        s.answer_push(&push);
    }
    s.drain();
    let sent = send(&mut s);
    s.done(&sent);
    assert_eq!(s.event().status, Ok(()), "without any link all are tried");
}

#[test]
fn what_waits_for_a_rail_that_fails_goes_by_the_other() {
    let narrow = |nid| NiConfig {
        tunables: NiTunables { credits: 1, peer_credits: 1, ..NiTunables::default() },
        ..ni(nid)
    };
    let mut s = Script::multi_rail(&[narrow(tcp(1)), narrow(tcp(11))], &[tcp(2), tcp(12)]);
    let first: Vec<SendRequest> = (0..2).map(|_| send(&mut s)).collect();
    for _ in 0..4 {
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    }
    assert_eq!(s.sent(), []);
    s.lnet.handle_link(s.now, tcp(1), false);
    let stays = first.iter().find(|sent| sent.ni == tcp(11)).unwrap();
    let mut now = stays.clone();
    for _ in 0..4 {
        s.done(&now);
        let next = s.sent();
        let next: Vec<_> = next
            .into_iter()
            .filter(|sent| matches!(sent.header.body, Body::Put { portal: PORTAL, .. }))
            .collect();
        let Some(next) = next.first() else { break };
        assert_eq!(next.ni, tcp(11));
        now = next.clone();
    }
}

#[test]
fn a_disabled_interface_is_not_used_until_it_is_enabled() {
    let mut s = two_rails();
    s.lnet.set_ni_enabled(s.now, tcp(11), false).unwrap();
    let push = s.sent_one();
    s.answer_push(&push);
    s.drain();
    assert!(!s.lnet.nis()[2].up && !s.lnet.nis()[2].enabled);
    for _ in 0..4 {
        let sent = send(&mut s);
        assert_eq!(sent.ni, tcp(1));
        s.done(&sent);
        s.drain();
    }
    // What comes by it is answered, but pings of those who know this node are not: they would take it
    // for recovered.
    let header = Header { target: tcp(11), ..ping_header() };
    s.receive_header(tcp(11), tcp(2), header);
    assert_eq!(s.sent(), []);
    s.lnet.set_ni_enabled(s.now, tcp(11), true).unwrap();
    let push = s.sent_one();
    s.answer_push(&push);
    s.drain();
    let used: Vec<Nid> = (0..4)
        .map(|_| {
            let sent = send(&mut s);
            s.done(&sent);
            s.drain();
            sent.ni
        })
        .collect();
    assert!(used.contains(&tcp(11)), "{used:?}");
    assert_eq!(s.lnet.set_ni_enabled(s.now, tcp(9), false), Err(Errno::ENOENT));
}

fn ping_header() -> Header {
    Header {
        target: tcp(1),
        source: tcp(2),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body: ping_body(0, 272),
    }
}

#[test]
fn an_interface_of_a_peer_that_is_down_is_not_sent_to() {
    let mut s = two_rails();
    let mut told = info(2, &[tcp(2), tcp(12)]);
    told.entries[1].status = NiStatus::DOWN;
    s.receive_push(tcp(2), &told);
    let ack = s.sent_one();
    s.done(&ack);
    s.drain();
    assert_eq!(health(&s).1, [1000, 900]);
    // A response that was on its way does not mean that it is used again.
    let body = Body::Reply { handle: THEIRS };
    s.receive_header(tcp(1), tcp(12), Header { source: tcp(12), body, ..ping_header() });
    s.drain();
    for _ in 0..4 {
        let sent = send(&mut s);
        assert_eq!(sent.next_hop, tcp(2));
        s.done(&sent);
        s.drain();
    }
    s.receive_push(tcp(2), &info(3, &[tcp(2), tcp(12)]));
    assert_eq!(health(&s).1, [1000, 1000]);
}

#[test]
fn an_interface_that_is_heard_of_as_down_is_not_sent_to_either() {
    let mut s = Script::multi_rail(&[ni(tcp(1)), ni(tcp(11))], &[tcp(2)]);
    let mut told = info(2, &[tcp(2), tcp(12)]);
    told.entries[1].status = NiStatus::DOWN;
    s.receive_push(tcp(2), &told);
    let ack = s.sent_one();
    s.done(&ack);
    s.drain();
    for _ in 0..4 {
        let sent = send(&mut s);
        assert_eq!(sent.next_hop, tcp(2));
        s.done(&sent);
        s.drain();
    }
}

#[test]
fn no_peer_speaks_for_the_interfaces_of_others() {
    let mut s = two_rails();
    // That NID is the primary of a multi-rail peer, so that no other peer can claim it.
    let mut told = info(2, &[tcp(3), tcp(2)]);
    told.entries[1].status = NiStatus::DOWN;
    s.receive_push(tcp(3), &told);
    s.drain();
    let of_two = s.lnet.peers().into_iter().find(|peer| peer.primary == tcp(2)).unwrap();
    let health: Vec<_> = of_two.nis.iter().map(|ni| (ni.nid, ni.health.value)).collect();
    assert_eq!(health, [(tcp(2), 1000), (tcp(12), 1000)]);
}

#[test]
fn a_path_on_which_nothing_arrives_is_left_until_it_is_open_again() {
    let mut s = two_rails();
    s.lnet.handle_path(s.now, tcp(1), tcp(2), PathState::Stalled);
    assert_eq!(health(&s), (vec![900, 1000], vec![900, 1000]));
    for _ in 0..4 {
        let sent = send(&mut s);
        assert_eq!((sent.ni, sent.next_hop), (tcp(11), tcp(12)));
        s.done(&sent);
        s.drain();
    }
    s.lnet.handle_path(s.now, tcp(1), tcp(2), PathState::Up);
    s.lnet.handle_timeout(s.now);
    let pings = s.sent();
    assert!(pings.iter().all(|ping| matches!(ping.header.body, Body::Get { .. })), "{pings:?}");
    for ping in pings {
        s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(12)])));
    }
    assert_eq!(health(&s), (vec![1000, 1000], vec![1000, 1000]));
}

#[test]
fn an_administrator_sets_health_and_sees_what_recovers() {
    let mut s = two_rails();
    s.lnet.set_ni_health(s.now, Some(tcp(11)), 0).unwrap();
    assert!(!s.lnet.nis()[2].up, "without health it is told as down");
    s.lnet.set_peer_ni_health(s.now, Some(tcp(12)), 500).unwrap();
    assert_eq!(s.lnet.recovery(), views::Recovery { local: vec![tcp(11)], peer: vec![tcp(12)] });
    s.lnet.set_ni_health(s.now, None, 5000).unwrap();
    s.lnet.set_peer_ni_health(s.now, None, 5000).unwrap();
    assert_eq!(health(&s), (vec![1000, 1000], vec![1000, 1000]));
    assert_eq!(s.lnet.recovery(), views::Recovery::default());
    assert_eq!(s.lnet.set_ni_health(s.now, Some(tcp(9)), 1), Err(Errno::ENOENT));
    assert_eq!(s.lnet.set_peer_ni_health(s.now, Some(tcp(9)), 1), Err(Errno::ENOENT));
}

#[test]
fn recovery_pings_come_ever_less_often() {
    let mut s = two_rails();
    // It must have been heard of, or there is nothing to recover.
    s.receive_header(tcp(1), tcp(12), Header { source: tcp(12), ..ping_header() });
    s.drain();
    s.lnet.set_peer_ni_health(s.now, Some(tcp(12)), 0).unwrap();
    let mut times = Vec::new();
    for _ in 0..70 {
        s.wait(1);
        for ping in s.sent() {
            assert_eq!(ping.next_hop, tcp(12));
            times.push(s.now.as_secs());
            fail(&mut s, &ping, FailureClass::RemoteDropped);
        }
    }
    assert_eq!(times, [1, 2, 4, 8, 16, 32, 64]);
}

#[test]
fn policies_choose_among_the_healthy() {
    let mut s = two_rails();
    let rule = UdspRule {
        src: Some("10.0.0.11@tcp".parse().unwrap()),
        dst: None,
        rte: None,
        priority: Some(0),
    };
    s.lnet.udsp_add(s.now, None, rule).unwrap();
    for _ in 0..3 {
        let sent = send(&mut s);
        assert_eq!(sent.ni, tcp(11));
        s.done(&sent);
        s.drain();
    }
    s.lnet.handle_link(s.now, tcp(11), false);
    for push in s.sent() {
        s.answer_push(&push);
    }
    s.drain();
    assert_eq!(send(&mut s).ni, tcp(1), "a policy comes after health");
}

#[test]
fn a_rail_that_is_asked_and_silent_is_left_while_another_answers() {
    let mut s = two_rails();
    let mut lost = None;
    for _ in 0..2 {
        let md = s.lnet.md_bind(SERVICE, bound(9, 2), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, Put { ack: true, ..put(tcp(2)) }).unwrap();
        let sent = s.sent_one();
        s.done(&sent);
        if sent.next_hop == tcp(12) {
            lost = Some(sent.ni);
        }
    }
    assert!(lost.is_some(), "both are used");
    s.now = s.now + Duration::from_millis(300);
    let heard = |s: &mut Script| {
        let ours = if lost == Some(tcp(1)) { tcp(11) } else { tcp(1) };
        let header = Header { target: ours, ..ping_header() };
        s.receive_header(ours, tcp(2), header);
        s.drain();
    };
    heard(&mut s);
    for _ in 0..10 {
        let sent = send(&mut s);
        assert_eq!((sent.next_hop, Some(sent.ni) == lost), (tcp(2), false));
        s.done(&sent);
        s.drain();
    }
    assert_eq!(health(&s), (vec![1000, 1000], vec![1000, 1000]), "nothing has failed yet");
}

#[test]
fn who_usually_answers_at_once_is_left_sooner() {
    let mut s = two_rails();
    let heard = |s: &mut Script, ours: Nid, theirs: Nid| {
        let header = Header { target: ours, source: theirs, ..ping_header() };
        s.receive_header(ours, theirs, header);
        for reply in s.sent() {
            s.done(&reply);
        }
        s.drain();
    };
    let ask = |s: &mut Script| {
        let sent = send(s);
        s.done(&sent);
        s.drain();
        (sent.ni, sent.next_hop)
    };
    for _ in 0..4 {
        let (ours, theirs) = ask(&mut s);
        s.now = s.now + Duration::from_millis(2);
        heard(&mut s, ours, theirs);
    }
    let lost = ask(&mut s);
    let mut others = Vec::new();
    for _ in 0..40 {
        let (ours, theirs) = ask(&mut s);
        others.push((ours, theirs) == lost);
        s.now = s.now + Duration::from_millis(1);
        if (ours, theirs) != lost {
            heard(&mut s, ours, theirs);
        }
    }
    assert!(others[..20].contains(&true), "a few milliseconds are nothing: {others:?}");
    assert!(!others[27..].contains(&true), "but thirty are a long time: {others:?}");
}

#[test]
fn a_response_that_waits_for_a_rail_which_its_peer_says_is_down_goes_by_another() {
    let narrow = |nid| NiConfig {
        tunables: NiTunables { peer_credits: 1, ..NiTunables::default() },
        ..ni(nid)
    };
    let mut s = Script::multi_rail(&[narrow(tcp(1)), narrow(tcp(11))], &[tcp(2), tcp(12)]);
    let ask = |s: &mut Script| {
        let header = Header { target: tcp(11), source: tcp(12), ..ping_header() };
        s.receive_header(tcp(11), tcp(12), header);
    };
    ask(&mut s);
    ask(&mut s);
    assert_eq!(s.sent_one().next_hop, tcp(12), "the second waits for the credit of the first");
    s.verdicts();
    let mut told = info(2, &[tcp(2), tcp(12)]);
    told.entries[1].status = NiStatus::DOWN;
    s.receive_push(tcp(2), &told);
    let ack = s.sent_one();
    s.done(&ack);
    let reply = s.sent_one();
    assert!(matches!(reply.header.body, Body::Reply { .. }), "{reply:?}");
    assert_eq!((reply.next_hop, reply.header.target), (tcp(2), tcp(2)));
}
