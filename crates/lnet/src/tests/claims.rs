//! Which NIDs belong to one peer. Spec: lnet-behaviour §9.5. See `peers/claims.rs`.

use super::discovery::{is_put, multi_rail, nids, post};
use super::*;

#[test]
fn the_nids_of_a_multi_rail_peer_become_one_peer() {
    let mut s = multi_rail(&[tcp(2), tcp(3), tcp1(2)]);
    assert_eq!(nids(&s), [[tcp(2), tcp(3), tcp1(2)]]);
    // Whichever NID sends, the initiator is the primary, and a match on it holds.
    let me = Me {
        match_id: ProcessId { nid: tcp(2), pid: Pid::ANY },
        ignore_bits: 0,
        match_bits: 5,
        ..catch_all()
    };
    let me = s.lnet.me_attach(SERVICE, PORTAL, me).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, posted(9, MdOptions::OP_PUT), Memory::Buffer).unwrap();
    let rx = s.receive_from(tcp(3), 9, put_body(Handle::NONE));
    s.verdicts();
    s.received(rx, &[]);
    let event = s.event();
    assert_eq!((event.initiator.nid, event.source.nid), (tcp(2), tcp(3)));
    // A later push takes NIDs away.
    s.receive_push(tcp(2), &info(2, &[tcp(2)]));
    assert_eq!(nids(&s), [[tcp(2)]]);
}

#[test]
fn an_entry_for_another_nid_of_the_peer_matches_it() {
    let mut s = multi_rail(&[tcp(2), tcp(3)]);
    let id = ProcessId { nid: tcp(3), pid: Pid::ANY };
    let me = Me { match_id: id, ignore_bits: 0, match_bits: 5, ..catch_all() };
    let me = s.lnet.me_attach(SERVICE, PORTAL, me).unwrap();
    s.lnet.md_attach(s.now, SERVICE, me, posted(9, MdOptions::OP_PUT), Memory::Buffer).unwrap();
    let rx = s.receive_from(tcp(2), 9, put_body(Handle::NONE));
    assert!(matches!(s.sink(), (got, Sink::Span(_)) if got == rx));
}

#[test]
fn an_answer_may_come_from_another_nid_of_the_peer() {
    let mut s = multi_rail(&[tcp(2), tcp(3)]);
    let md = s.lnet.md_bind(SERVICE, bound(40, 2), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, Put { ack: true, ..put(tcp(2)) }).unwrap();
    let sent = s.sent_one();
    let Body::Put { ack, .. } = sent.header.body else { panic!() };
    let other = if sent.next_hop == tcp(2) { tcp(3) } else { tcp(2) };
    s.receive_from(other, 0, Body::Ack { handle: ack, match_bits: 5, accepted: 9 });
    assert_eq!(s.event().kind, EventKind::Ack);
}

#[test]
fn a_peer_is_renamed_to_the_primary_that_it_asks_for() {
    let mut s = Script::new();
    post(&mut s, tcp(3));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(3)])));
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(2), "the primary must agree");
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(3)])));
    let push = s.sent_one();
    s.answer_push(&push);
    assert_eq!(s.lnet.peers()[0].primary, tcp(2));
    assert_eq!(nids(&s), [[tcp(2), tcp(3)]]);
    assert!(is_put(&s.sent_one()));
}

#[test]
fn a_nid_that_a_peer_only_lists_is_discovered_before_it_gets_a_message() {
    for (named, records) in [
        (vec![tcp(3)], vec![vec![tcp(2)], vec![tcp(3)]]),
        (vec![tcp(2), tcp(3)], vec![vec![tcp(2), tcp(3)]]),
    ] {
        let mut s = multi_rail(&[tcp(2)]);
        s.receive_push(tcp(2), &info(2, &[tcp(2), tcp(3)]));
        s.drain();
        for _ in 0..4 {
            post(&mut s, tcp(3));
        }
        let ping = s.sent_one();
        assert_eq!((is_put(&ping), ping.next_hop), (false, tcp(3)));
        s.answer_ping(&ping, &bytes(&info(1, &named)));
        let mut sent = s.sent();
        if let [push] = &sent[..] {
            s.answer_push(push);
            sent = s.sent();
        }
        assert!(sent.len() == 4 && sent.iter().all(is_put), "{sent:?}");
        assert!(named.len() == 2 || sent.iter().all(|put| put.next_hop == tcp(3)));
        assert_eq!(nids(&s), records);
    }
}

#[test]
fn a_query_for_a_nid_that_is_only_listed_asks_that_nid() {
    let mut s = multi_rail(&[tcp(2)]);
    s.receive_push(tcp(2), &info(2, &[tcp(2), tcp(3)]));
    s.drain();
    let query = s.lnet.discover(s.now, tcp(3), false);
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(3));
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(3)])));
    let push = s.sent_one();
    s.answer_push(&push);
    let answers = s.take(|output| match output {
        Output::Discovered { query, result } => Some((*query, result.clone().unwrap().primary)),
        _ => None,
    });
    assert_eq!(answers, [(query, tcp(3))]);
}

#[test]
fn who_lists_a_silent_nid_first_does_not_keep_it() {
    let mut s = multi_rail(&[tcp(2)]);
    s.receive_push(tcp(2), &info(2, &[tcp(2), tcp(4)]));
    s.drain();
    s.receive_push(tcp(3), &info(1, &[tcp(3), tcp(4)]));
    let is_ping = |sent: &SendRequest| matches!(sent.header.body, Body::Get { .. });
    let sent = s.sent();
    let ping = sent.iter().find(|sent| is_ping(sent)).unwrap();
    assert_eq!(ping.next_hop, tcp(4));
    s.answer_ping(ping, &bytes(&info(1, &[tcp(3), tcp(4)])));
    assert_eq!(nids(&s), [vec![tcp(2)], vec![tcp(3), tcp(4)]]);
}

#[test]
fn a_record_is_absorbed_by_that_of_its_primary() {
    let mut s = multi_rail(&[tcp(2)]);
    post(&mut s, tcp(3));
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(3));
    s.answer_ping(&ping, &bytes(&info(2, &[tcp(2), tcp(3)])));
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(2), "the primary must agree");
    s.answer_ping(&ping, &bytes(&info(2, &[tcp(2), tcp(3)])));
    assert_eq!(nids(&s), [[tcp(2), tcp(3)]]);
    assert!(is_put(&s.sent_one()), "what waited for the one goes to the other");
    s.drain();
}

#[test]
fn a_nid_that_answers_and_is_not_listed_still_gets_its_message() {
    let mut s = Script::new();
    post(&mut s, tcp(3));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2)])));
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2)])));
    for primary in [tcp(2), tcp(3)] {
        let push = s.sent_one();
        assert_eq!(push.next_hop, primary);
        s.answer_push(&push);
    }
    assert!(is_put(&s.sent_one()));
    assert_eq!(nids(&s), [[tcp(3)], [tcp(2)]]);
}

#[test]
fn no_peer_can_claim_our_nids_or_those_of_a_configured_peer() {
    let mut s = Script::new();
    s.lnet.peer_add(s.now, tcp(9), &[tcp(10)], true).unwrap();
    post(&mut s, tcp(2));
    let ping = s.sent_one();
    let claimed = [tcp(2), tcp(1), tcp(9), tcp(10), Nid::LOOPBACK, Nid::ANY];
    s.answer_ping(&ping, &bytes(&info(1, &claimed)));
    assert_eq!(nids(&s), [vec![tcp(9), tcp(10)], vec![tcp(2)]]);
}

#[test]
fn messages_for_a_known_peer_do_not_wait_for_the_claims_of_others() {
    let mut s = multi_rail(&[tcp(2)]);
    s.receive_push(tcp(9), &info(1, &[tcp(2), tcp(9)]));
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(2), "it is asked");
    post(&mut s, tcp(2));
    let put = s.sent_one();
    assert!(is_put(&put) && put.next_hop == tcp(2));
    // What it answers ends the claim.
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2)])));
    let is_ack = |sent: &SendRequest| matches!(sent.header.body, Body::Ack { .. });
    assert!(s.sent().iter().any(is_ack));
    assert_eq!(nids(&s), [[tcp(2)], [tcp(9)]]);
}

#[test]
fn the_ack_of_a_push_waits_a_second_for_the_primary_that_it_names() {
    let is_ack = |sent: &SendRequest| matches!(sent.header.body, Body::Ack { .. });
    let mut s = Script::new();
    s.receive_push(tcp(2), &info(1, &[tcp(3), tcp(2)]));
    let ping = s.sent_one();
    assert_eq!(ping.next_hop, tcp(3));
    s.wait(1);
    assert!(s.sent().iter().any(is_ack), "the primary NID is silent");
    // What the primary NID answers ends the waiting of others.
    s.receive_push(tcp(4), &info(1, &[tcp(3), tcp(4)]));
    assert!(!s.sent().iter().any(is_ack));
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(3), tcp(4)])));
    assert!(s.sent().iter().any(is_ack));
    assert_eq!(nids(&s), [vec![tcp(2)], vec![tcp(3), tcp(4)]]);
}
