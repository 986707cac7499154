//! Which peers are forgotten, and which are not. See `peers/ageing.rs`.

use super::*;

fn unknown(n: u32) -> Nid {
    Nid::small(Net::TCP, 0x0b00_0000 + n)
}

/// A message from `source` that matches nothing comes by a connection of `from`.
fn comes(s: &mut Script, from: Nid, source: Nid, body: Body) {
    let (target_pid, source_pid) = (Pid::LUSTRE, Pid::LUSTRE);
    let header = Header { target: tcp(1), source, target_pid, source_pid, payload_len: 0, body };
    s.rx += 1;
    s.lnet.handle_received(s.now, Received { conn: ConnId(1), ni: tcp(1), from, header });
}

fn comes_from(s: &mut Script, from: Nid) {
    comes(s, from, from, put_body(Handle::NONE));
    while s.lnet.poll_output().is_some() {}
}

fn known(s: &Script) -> usize {
    s.lnet.peers().iter().map(|peer| peer.nis.len()).sum()
}

fn knows(s: &Script, nid: Nid) -> bool {
    s.lnet.peers().iter().any(|peer| peer.primary == nid)
}

/// A machine that has exchanged a message of a service with node 2, and that is given node 3.
fn with_friends() -> Script {
    let mut s = Script::multi_rail(&[ni(tcp(1))], &[tcp(2)]);
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(tcp(2))).unwrap();
    let put = s.sent_one();
    s.done(&put);
    s.lnet.peer_add(s.now, tcp(3), &[], true).unwrap();
    s.drain();
    s
}

#[test]
fn unknown_peers_cannot_fill_the_table() {
    let mut s = with_friends();
    for n in 0..70_000 {
        comes_from(&mut s, unknown(n));
    }
    assert!(known(&s) <= 32_768 + 2, "{}", known(&s));
    assert!(knows(&s, tcp(2)) && knows(&s, tcp(3)), "they are known");
    assert!(knows(&s, unknown(69_999)) && !knows(&s, unknown(0)), "the oldest have gone");
    s.lnet.check_invariants().unwrap();
}

#[test]
fn idle_unknown_peers_go_after_some_seconds_when_they_are_many() {
    let mut s = with_friends();
    for n in 0..5000 {
        comes_from(&mut s, unknown(n));
    }
    s.wait(4);
    comes_from(&mut s, unknown(7));
    assert_eq!(known(&s), 5002);
    s.wait(2);
    assert_eq!(known(&s), 4096 + 2);
    assert!(knows(&s, unknown(7)), "it was not idle");
    assert!(knows(&s, tcp(2)) && knows(&s, tcp(3)));
    assert_eq!(s.lnet.poll_timeout(), None, "there is nothing to wait for");
    s.wait(100);
    assert_eq!(known(&s), 4096 + 2, "so many stay");
}

#[test]
fn unknown_peers_in_use_stay_and_the_next_one_is_refused() {
    let mut s = Script::new();
    for n in 0..32_768 {
        // The REPLY is under way: the LND has not reported that it was sent.
        comes(&mut s, unknown(n), unknown(n), ping_body(0, 272));
        s.lnet.poll_output();
    }
    s.drain();
    comes(&mut s, tcp(9), tcp(9), put_body(Handle::NONE));
    assert!(matches!(s.notices()[..], [Notice::Dropped { reason: "the peer table is full", .. }]));
    // The node may still send to any peer.
    s.lnet.discover(s.now, tcp(2), false);
    assert!(knows(&s, tcp(2)));
}

#[test]
fn a_router_makes_only_so_many_known() {
    let mut s = Script::new();
    let route = RouteConfig::new(Net(Net::TCP.0 + 1), tcp(2));
    s.lnet.route_add(s.now, route).unwrap();
    s.drain();
    comes_from(&mut s, unknown(1));
    let behind = |n: u32| Nid::small(Net(Net::TCP.0 + 1), 0x0c00_0000 + n);
    for n in 0..20_000 {
        comes(&mut s, tcp(2), behind(n), ping_body(0, 272));
        while let Some(output) = s.lnet.poll_output() {
            if let Output::Send(reply) = output {
                s.lnet.handle_sent(s.now, reply.message, Ok(()));
            }
        }
    }
    let count = known(&s);
    assert!((7000..=8192 + 2).contains(&count), "{count}");
    assert!(knows(&s, unknown(1)) && knows(&s, tcp(2)) && knows(&s, behind(19_999)));
    s.lnet.check_invariants().unwrap();
}

#[test]
fn only_so_many_nids_of_a_list_are_used() {
    let mut s = Script::new();
    let listed: Vec<Nid> = std::iter::once(tcp(2)).chain((0..1000).map(unknown)).collect();
    s.lnet.discover(s.now, tcp(2), false);
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &listed)));
    let again = s.sent_one();
    s.answer_ping(&again, &bytes(&info(1, &listed)));
    assert_eq!(known(&s), 256);
}
