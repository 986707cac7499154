//! Credits and queues. Spec: lnet-behaviour §17, 1 to 6.

use super::*;

fn tight(peer_credits: u32, credits: u32) -> NiConfig {
    let tunables = NiTunables { peer_credits, credits, ..NiTunables::default() };
    NiConfig { tunables, ..ni(tcp(1)) }
}

/// Posts `count` PUTs to `target` and returns their descriptors in order.
fn post(s: &mut Script, target: Nid, count: u64) -> Vec<MdId> {
    let one = |n| {
        let md = s.lnet.md_bind(SERVICE, Md { user: n, ..bound(100, 1) }, Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, put(target)).unwrap();
        md
    };
    (0..count).map(one).collect()
}

fn peer_ni(s: &Script) -> views::PeerNi {
    s.lnet.peers()[0].nis[0].clone()
}

#[test]
fn a_stalled_peer_gets_as_many_messages_as_it_has_credits_and_the_rest_queue() {
    let mut s = Script::acquainted_with(&[tight(3, 100)]);
    let before = peer_ni(&s);
    assert_eq!((before.credits, before.credits_max, before.queued_bytes), (3, 3, 0));
    post(&mut s, tcp(2), 8);
    assert_eq!(s.sent().len(), 3);
    let ni = peer_ni(&s);
    assert_eq!((ni.credits, ni.credits_min), (3 - 8, 3 - 8));
    assert_eq!(ni.queued_bytes, 8 * 172);
    assert_eq!(ni.refcount, 9);
    let own = &s.lnet.nis()[1];
    assert_eq!((own.credits, own.credits_max), (97, 100), "who waits for a peer holds no more");
}

#[test]
fn queued_messages_leave_in_order_one_for_each_credit() {
    let mut s = Script::acquainted_with(&[tight(2, 100)]);
    let mds = post(&mut s, tcp(2), 7);
    let mut order = Vec::new();
    let mut flying = s.sent();
    while !flying.is_empty() {
        let sent = flying.remove(0);
        s.done(&sent);
        order.push(s.event().md);
        let woken = s.sent();
        assert!(woken.len() <= 1);
        flying.extend(woken);
    }
    assert_eq!(order, mds);
    s.lnet.is_idle().unwrap();
    let ni = peer_ni(&s);
    assert_eq!((ni.credits, ni.credits_min, ni.queued_bytes), (2, -5, 0));
    let own = |s: &Script| s.lnet.nis()[1].clone();
    let before = own(&s);
    assert!(before.credits_min < before.credits);
    s.lnet.reset_peer_minima();
    assert_eq!((peer_ni(&s).credits_min, own(&s).credits_min), (2, before.credits_min));
    s.lnet.reset_ni_minima();
    assert_eq!(own(&s).credits_min, before.credits);
}

#[test]
fn who_waits_for_the_interface_holds_the_credit_of_the_peer() {
    let mut s = Script::acquainted_with(&[tight(4, 4)]);
    post(&mut s, tcp(2), 3);
    let flying = s.sent();
    s.lnet.discover(s.now, tcp(3), false);
    let ping = s.sent_one();
    s.lnet.discover(s.now, tcp(4), false);
    assert_eq!(s.sent(), []);
    let own = s.lnet.nis()[1].clone();
    assert_eq!((own.credits, own.credits_min), (-1, -1));
    let waiting = s.lnet.peers()[2].nis[0].clone();
    assert_eq!((waiting.credits, waiting.queued_bytes), (3, 72));
    s.done(&ping);
    assert_eq!(s.sent_one().next_hop, tcp(4));
    assert_eq!(flying.len(), 3);
}

#[test]
fn a_message_woken_from_the_peers_queue_may_wait_again_for_the_interface() {
    let mut s = Script::with(&[tight(1, 2)]);
    for n in [2, 3, 4] {
        s.lnet.discover(s.now, tcp(n), false);
        let ping = s.sent_one();
        s.answer_ping(&ping, &bytes(&plain_info(tcp(n))));
    }
    s.drain();
    post(&mut s, tcp(2), 2);
    post(&mut s, tcp(3), 1);
    post(&mut s, tcp(4), 1);
    let flying = s.sent();
    assert_eq!(flying.len(), 2);
    s.done(&flying[0]);
    assert_eq!(s.sent_one().next_hop, tcp(4), "it waited for the interface first");
    assert_eq!(s.lnet.nis()[1].credits, -1);
    s.done(&flying[1]);
    assert_eq!(s.sent_one().next_hop, tcp(2));
}

#[test]
fn a_message_whose_deadline_passes_in_the_queue_fails_in_its_turn_and_wakes_the_next() {
    let mut s = Script::acquainted_with(&[tight(1, 100)]);
    post(&mut s, tcp(2), 3);
    let first = s.sent_one();
    s.wait(100);
    post(&mut s, tcp(2), 1);
    // 50 s of the LND, three times, and one more.
    s.wait(52);
    assert_eq!(s.events(), [], "only its turn fails it");
    s.done(&first);
    let events: Vec<_> = s.events().iter().map(|event| event.status).collect();
    assert_eq!(events, [Ok(()), Err(Errno::ETIMEDOUT), Err(Errno::ETIMEDOUT)]);
    let last = s.sent_one();
    s.done(&last);
    assert_eq!(s.event().status, Ok(()));
    assert_eq!(s.lnet.stats().network_timeout_count, 2);
    s.lnet.is_idle().unwrap();
}

#[test]
fn ten_thousand_expired_messages_fail_without_nesting() {
    let mut s = Script::acquainted_with(&[tight(1, 100)]);
    post(&mut s, tcp(2), 10_000);
    let first = s.sent_one();
    s.wait(152);
    s.done(&first);
    assert_eq!(s.events().len(), 10_000);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_message_whose_descriptor_is_unlinked_in_the_queue_is_canceled_in_its_turn() {
    let mut s = Script::acquainted_with(&[tight(1, 100)]);
    let mds = post(&mut s, tcp(2), 2);
    let first = s.sent_one();
    s.lnet.md_unlink(s.now, SERVICE, mds[1]).unwrap();
    assert_eq!(s.events(), []);
    s.done(&first);
    let events = s.events();
    assert_eq!((events[1].md, events[1].status), (mds[1], Err(Errno::ECANCELED)));
    assert!(events[1].unlinked);
    assert_eq!(s.sent(), []);
    s.lnet.is_idle().unwrap();
}

#[test]
fn removing_an_interface_fails_what_is_queued_and_lets_the_rest_finish() {
    let mut s = Script::acquainted_with(&[tight(2, 100)]);
    post(&mut s, tcp(2), 5);
    let flying = s.sent();
    s.lnet.remove_ni(s.now, tcp(1)).unwrap();
    let events = s.events();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.status == Err(Errno::ESHUTDOWN)));
    assert_eq!(s.lnet.peers(), [], "it can no longer be reached");
    s.lnet.add_ni(s.now, tight(2, 100), LND_TIMEOUT).unwrap();
    for sent in &flying {
        s.done(sent);
    }
    assert_eq!(s.events().len(), 2);
    s.lnet.is_idle().unwrap();
    assert_eq!(s.lnet.nis()[1].credits, 100);
}

#[test]
fn interfaces_need_credits_and_their_own_nid() {
    let mut s = Script::new();
    assert_eq!(s.lnet.add_ni(s.now, ni(tcp(1)), LND_TIMEOUT), Err(Errno::EEXIST));
    assert_eq!(s.lnet.add_ni(s.now, ni(Nid::LOOPBACK), LND_TIMEOUT), Err(Errno::EEXIST));
    let zero = NiConfig { nid: tcp(5), ..tight(0, 9) };
    assert_eq!(s.lnet.add_ni(s.now, zero, LND_TIMEOUT), Err(Errno::EINVAL));
    let cut = NiConfig { nid: tcp(5), ..tight(9, 4) };
    s.lnet.add_ni(s.now, cut, LND_TIMEOUT).unwrap();
    assert_eq!(s.lnet.nis()[2].tunables.peer_credits, 4);
    assert_eq!(s.lnet.remove_ni(s.now, tcp(6)), Err(Errno::ENOENT));
}

#[test]
fn equal_interfaces_take_turns() {
    let mut s = Script::with(&[ni(tcp(1)), ni(tcp(11))]);
    s.lnet.peer_add(s.now, tcp(2), &[tcp(12)], true).unwrap();
    s.lnet.discover(s.now, tcp(2), false);
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[tcp(2), tcp(12)])));
    let push = s.sent_one();
    s.answer_push(&push);
    s.drain();
    let mut used = std::collections::BTreeMap::new();
    for _ in 0..40 {
        post(&mut s, tcp(2), 1);
        let sent = s.sent_one();
        *used.entry((sent.ni, "ours")).or_insert(0) += 1;
        *used.entry((sent.next_hop, "theirs")).or_insert(0) += 1;
        assert_eq!(sent.header.target, sent.next_hop);
        s.done(&sent);
    }
    assert_eq!(used.values().copied().collect::<Vec<_>>(), [20; 4]);
}

#[test]
fn a_peer_without_multi_rail_sees_one_nid_of_ours() {
    let mut s = Script::acquainted_with(&[ni(tcp(1)), ni(tcp(11))]);
    let mut used = std::collections::BTreeSet::new();
    for _ in 0..10 {
        post(&mut s, tcp(2), 1);
        let sent = s.sent_one();
        used.insert(sent.ni);
        s.done(&sent);
    }
    assert_eq!(used.len(), 1);
    for source in [tcp(1), tcp(11)] {
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, Put { source: Some(source), ..put(tcp(2)) }).unwrap();
        assert_eq!(s.sent_one().ni, source, "unless it is told otherwise");
    }
}
