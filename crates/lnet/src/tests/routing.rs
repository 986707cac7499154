//! Using routers, and being one. Spec: lnet-behaviour §8, §17, 19 to 25.

use super::*;
use crate::views::RoutingState;

/// The NID of node `n` on another network.
pub(super) fn far(n: u32) -> Nid {
    tcp1(n)
}

fn route(gateway: Nid) -> RouteConfig {
    RouteConfig::new(far(0).net(), gateway)
}

/// What a router says of itself.
fn router_info(sequence: u32, nids: &[Nid]) -> PingInfo {
    PingInfo { features: Features(0x1a), ..info(sequence, nids) }
}

/// Answers the check of a gateway and the pushes that follow.
fn answer_check(s: &mut Script, ping: &SendRequest, info: &PingInfo) {
    s.answer_ping(ping, &bytes(info));
    for push in s.sent() {
        s.answer_push(&push);
    }
}

/// A node on tcp with a route to tcp1 by `gateways`, whose checks are answered.
fn with_routes(routes: &[RouteConfig]) -> Script {
    let mut s = Script::new();
    for route in routes {
        s.lnet.route_add(s.now, *route).unwrap();
        let ping = s.sent_one();
        let number = route.gateway.to_string();
        let last = u32::from(number.split(['.', '@']).nth(3).unwrap().parse::<u8>().unwrap());
        answer_check(&mut s, &ping, &router_info(1, &[route.gateway, far(last)]));
    }
    s.drain();
    s
}

/// The far node is discovered through the router.
fn acquaint(s: &mut Script, node: Nid) {
    s.lnet.discover(s.now, node, false);
    let ping = s.sent_one();
    assert_eq!(ping.header.target, node);
    s.answer_ping(&ping, &bytes(&plain_info(node)));
    s.drain();
}

/// Discovers a node that takes pushes.
fn introduce(s: &mut Script, node: Nid) {
    s.lnet.discover(s.now, node, false);
    let ping = s.sent_one();
    s.answer_ping(&ping, &bytes(&info(1, &[node])));
    let push = s.sent_one();
    s.answer_push(&push);
    s.drain();
}

/// A router between tcp and tcp1 whose neighbours are known.
pub(super) fn router(buffers: RouterBuffers) -> Script {
    let config = Config {
        routing: RoutingConfig { forwarding: true, buffers, ..RoutingConfig::default() },
        ..config()
    };
    let mut lnet = Lnet::new(config);
    lnet.add_ni(Time::ZERO, ni(tcp(1)), LND_TIMEOUT).unwrap();
    lnet.add_ni(Time::ZERO, ni(tcp1(1)), LND_TIMEOUT).unwrap();
    lnet.start(Time::ZERO);
    let mut s = Script { lnet, now: Time::ZERO, rx: 0, outputs: Vec::new() };
    for node in [tcp(2), tcp(3), far(2), far(3)] {
        acquaint(&mut s, node);
    }
    s
}

/// A PUT from `from` to `to` that is to be forwarded.
pub(super) fn passing(s: &mut Script, from: Nid, to: Nid, len: u32) -> RxId {
    let header = Header {
        target: to,
        source: from,
        target_pid: Pid::LUSTRE,
        source_pid: Pid(7),
        payload_len: len,
        body: put_body(THEIRS),
    };
    let ni = if from.net() == Net::TCP { tcp(1) } else { tcp1(1) };
    s.receive_header(ni, from, header)
}

fn allocated(s: &mut Script) -> Vec<(BufferId, u32)> {
    s.take(|output| match output {
        Output::Allocate { buffer, len } => Some((*buffer, *len)),
        _ => None,
    })
}

fn freed(s: &mut Script) -> Vec<BufferId> {
    s.take(|output| match output {
        Output::Release { buffer } => Some(*buffer),
        _ => None,
    })
}

#[test]
fn a_message_to_a_remote_network_goes_by_the_gateway_and_names_its_target() {
    let mut s = with_routes(&[route(tcp(9))]);
    acquaint(&mut s, far(2));
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
    let sent = s.sent_one();
    assert_eq!((sent.ni, sent.next_hop), (tcp(1), tcp(9)));
    assert_eq!((sent.header.source, sent.header.target), (tcp(1), far(2)));
    s.done(&sent);
    assert_eq!(s.event().status, Ok(()));
    assert_eq!(s.lnet.routes()[0].messages, 2, "the ping went that way too");
}

#[test]
fn routes_that_make_no_sense_are_refused() {
    let mut s = with_routes(&[route(tcp(9))]);
    let mut refused = |route: RouteConfig| s.lnet.route_add(s.now, route).unwrap_err();
    assert_eq!(refused(route(tcp(9))), Errno::EEXIST);
    assert_eq!(refused(RouteConfig { hops: Some(0), ..route(tcp(8)) }), Errno::EINVAL);
    assert_eq!(refused(RouteConfig { hops: Some(256), ..route(tcp(8)) }), Errno::EINVAL);
    assert_eq!(refused(RouteConfig { net: Net::TCP, ..route(far(8)) }), Errno::EEXIST);
    assert_eq!(refused(route(far(8))), Errno::EINVAL);
    let elsewhere = Nid::small(Net(Net::TCP.0 + 7), 1);
    assert_eq!(refused(route(elsewhere)), Errno::EHOSTUNREACH);
    assert_eq!(refused(route(Nid::LOOPBACK)), Errno::EINVAL);
    assert_eq!(
        s.lnet.add_ni(s.now, ni(tcp1(1)), LND_TIMEOUT),
        Err(Errno::EUSERS),
        "a route leads there"
    );
    assert_eq!(s.lnet.route_del(s.now, Some(Net::TCP), None), Err(Errno::ENOENT));
    s.lnet.route_del(s.now, None, Some(tcp(9))).unwrap();
    assert_eq!((s.lnet.routes(), s.lnet.routers()), (vec![], vec![]));
    s.lnet.add_ni(s.now, ni(tcp1(1)), LND_TIMEOUT).unwrap();
}

#[test]
fn without_a_route_there_is_no_path() {
    let mut s = Script::new();
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
    assert_eq!(s.event().status, Err(Errno::EHOSTUNREACH));
}

#[test]
fn priority_beats_hops_and_hops_beat_rotation() {
    let urgent = RouteConfig { priority: 0, hops: Some(2), ..route(tcp(7)) };
    let near = RouteConfig { priority: 1, hops: Some(1), ..route(tcp(8)) };
    let also_near = RouteConfig { priority: 1, hops: Some(1), ..route(tcp(9)) };
    let mut s = with_routes(&[urgent, near, also_near]);
    acquaint(&mut s, far(2));
    let next = |s: &mut Script| {
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
        let sent = s.sent_one();
        s.done(&sent);
        s.drain();
        sent.next_hop
    };
    assert_eq!([next(&mut s), next(&mut s)], [tcp(7); 2]);
    s.lnet.route_del(s.now, None, Some(tcp(7))).unwrap();
    let turns = [next(&mut s), next(&mut s), next(&mut s), next(&mut s)];
    assert!(turns[0] != turns[1] && turns[..2] == turns[2..], "{turns:?}");
}

#[test]
fn a_gateway_that_refuses_or_lacks_the_network_is_not_used() {
    let cases = [
        (PingInfo { features: Features(0x1e), ..router_info(2, &[tcp(9), far(9)]) }, false),
        (router_info(2, &[tcp(9)]), true),
        (
            PingInfo {
                entries: vec![
                    NiEntry { nid: tcp(9), status: NiStatus::UP },
                    NiEntry { nid: far(9), status: NiStatus::DOWN },
                ],
                ..router_info(2, &[])
            },
            false,
        ),
    ];
    for (told, usable) in cases {
        let mut s = with_routes(&[route(tcp(9))]);
        assert!(s.lnet.routes()[0].up && s.lnet.routes()[0].single_hop);
        s.wait(60);
        let check = s.sent_one();
        answer_check(&mut s, &check, &told);
        // One that has no interface there may know of another router.
        assert_eq!(s.lnet.routes()[0].up, usable, "{told:?}");
        s.wait(60);
        let check = s.sent_one();
        answer_check(&mut s, &check, &router_info(3, &[tcp(9), far(9)]));
        assert!(s.lnet.routes()[0].up, "one good answer is enough");
    }
}

#[test]
fn a_gateway_that_does_not_answer_is_dead_until_something_comes_from_it() {
    let mut s = with_routes(&[route(tcp(9)), route(tcp(8))]);
    s.wait(60);
    for check in s.sent() {
        if check.next_hop == tcp(8) {
            answer_check(&mut s, &check, &router_info(1, &[tcp(8), far(8)]))
        } else {
            let lost =
                Err(SendError { class: FailureClass::NetworkTimeout, errno: Errno::ETIMEDOUT });
            s.lnet.handle_sent(s.now, check.message, lost);
        }
    }
    let up: Vec<bool> = s.lnet.routes().iter().map(|route| route.up).collect();
    assert_eq!(up, [false, true]);
    assert!(s.notices().contains(&Notice::GatewayDown { gateway: tcp(9) }));
    acquaint(&mut s, far(2));
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
    assert_eq!(s.sent_one().next_hop, tcp(8));
    s.receive_from(tcp(9), 0, ping_body(0, 272));
    assert!(s.lnet.routes()[0].up);
    assert!(s.notices().contains(&Notice::GatewayUp { gateway: tcp(9) }));
}

#[test]
fn what_a_dead_gateway_did_not_take_goes_by_the_other() {
    let mut s = with_routes(&[route(tcp(9)), route(tcp(8))]);
    acquaint(&mut s, far(2));
    let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
    s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
    let first = s.sent_one();
    let refused = Err(SendError { class: FailureClass::RemoteDropped, errno: Errno::ECONNREFUSED });
    s.lnet.handle_sent(s.now, first.message, refused);
    let second = s.sent_one();
    assert_ne!(second.next_hop, first.next_hop);
    assert_eq!(second.header.target, far(2));
    s.done(&second);
    assert_eq!((s.event().md, s.lnet.stats().resend_count), (md, 1));
    assert_eq!(s.lnet.stats().successful_resends, 1);
}

#[test]
fn a_route_may_say_what_a_failure_takes_from_its_gateway() {
    let mild = RouteConfig { health_sensitivity: Some(5), ..route(tcp(9)) };
    for (route, left) in [(mild, 995), (route(tcp(9)), 900)] {
        let mut s = with_routes(&[route]);
        acquaint(&mut s, far(2));
        let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
        s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
        let sent = s.sent_one();
        let lost = Err(SendError { class: FailureClass::RemoteError, errno: Errno::ECONNRESET });
        s.lnet.handle_sent(s.now, sent.message, lost);
        let peers = s.lnet.peers();
        let gateway = peers.iter().flat_map(|peer| &peer.nis).find(|ni| ni.nid == tcp(9)).unwrap();
        assert_eq!(gateway.health.value, left, "{route:?}");
        assert_eq!(s.lnet.routes()[0].health_sensitivity, route.health_sensitivity);
    }
}

#[test]
fn a_response_returns_by_the_router_that_brought_the_request() {
    let mut s = with_routes(&[route(tcp(9)), route(tcp(8))]);
    for gateway in [tcp(8), tcp(9), tcp(9), tcp(8)] {
        let header = Header {
            target: tcp(1),
            source: far(5),
            target_pid: Pid::LUSTRE,
            source_pid: Pid::LUSTRE,
            payload_len: 0,
            body: ping_body(0, 272),
        };
        s.receive_header(tcp(1), gateway, header);
        let reply = s.sent_one();
        assert_eq!((reply.next_hop, reply.header.target), (gateway, far(5)));
        s.done(&reply);
        s.drain();
    }
    // One that is no gateway of ours is not believed.
    let header = Header { source: far(5), ..reply_header_to(tcp(1)) };
    s.receive_header(tcp(1), tcp(4), header);
    assert_eq!(s.sent(), []);
}

fn reply_header_to(target: Nid) -> Header {
    Header {
        target,
        source: far(5),
        target_pid: Pid::LUSTRE,
        source_pid: Pid::LUSTRE,
        payload_len: 0,
        body: ping_body(0, 272),
    }
}

#[test]
fn a_router_passes_headers_unchanged_through_buffers_of_the_right_class() {
    let mut s = router(RouterBuffers::default());
    for (len, buffer) in [
        (0, 0),
        (1, 4096),
        (4096, 4096),
        (4097, 1 << 20),
        ((1 << 20) - 1, 1 << 20),
        (1 << 20, 1 << 20),
    ] {
        let rx = passing(&mut s, tcp(2), far(2), len);
        let buffers = allocated(&mut s);
        let (named, sink) = s.sink();
        assert_eq!(named, rx);
        match len {
            0 => assert_eq!(sink, Sink::Discard { len: 0 }),
            _ => {
                let Sink::Span(span) = sink else { panic!("{sink:?}") };
                assert_eq!((span.offset, span.len), (0, len));
                // The buffer of the last one is used again.
                assert!(buffers.iter().all(|made| *made == (span.buffer, buffer)), "{buffers:?}");
                s.received(rx, &[]);
            }
        }
        let sent = s.sent_one();
        assert_eq!((sent.ni, sent.next_hop), (tcp1(1), far(2)));
        assert_eq!((sent.header.source, sent.header.target), (tcp(2), far(2)));
        assert_eq!((sent.header.source_pid, sent.payload.len()), (Pid(7), len));
        assert_eq!(sent.header.body, put_body(THEIRS));
        s.done(&sent);
        s.lnet.is_idle().unwrap();
    }
    let stats = s.lnet.stats();
    assert_eq!((stats.route_count, stats.send_count), (6, 4), "what it sent itself are 4 pings");
    let routing = s.lnet.routing();
    assert_eq!(routing.pools.map(|pool| pool.allocated), [0, 1, 1]);
    assert_eq!(routing.pools.map(|pool| pool.credits_min), [2047, 16383, 1023]);
    assert_eq!((routing.transits[0].messages, routing.transits.len()), (6, 1));
}

#[test]
fn with_one_large_buffer_the_second_large_message_waits_and_small_ones_pass() {
    let mut s = router(RouterBuffers { tiny: 8, small: 8, large: 1 });
    let first = passing(&mut s, tcp(2), far(2), 1 << 20);
    assert!(matches!(s.sink(), (rx, Sink::Span(_)) if rx == first));
    let second = passing(&mut s, tcp(2), far(2), 1 << 20);
    assert_eq!(s.verdicts(), [(second, Verdict::Wait)]);
    let third = passing(&mut s, tcp(3), far(3), 5000);
    assert_eq!(s.verdicts(), [(third, Verdict::Wait)]);
    assert_eq!(s.lnet.routing().pools[2].credits, -2);
    let small = passing(&mut s, tcp(3), far(2), 10);
    assert_eq!(s.sink().0, small);
    s.received(small, &[]);
    let small = s.sent_one();
    s.done(&small);
    s.received(first, &[]);
    let sent = s.sent_one();
    s.done(&sent);
    let (next, _) = s.sink();
    s.received(next, &[]);
    let sent = s.sent_one();
    s.done(&sent);
    let (last, _) = s.sink();
    assert_ne!(next, last);
    s.received(last, &[]);
    let sent = s.sent_one();
    s.done(&sent);
    s.lnet.is_idle().unwrap();
    assert_eq!(s.lnet.routing().pools[2].credits_min, -2);
}

#[test]
fn a_previous_hop_has_only_its_router_credits() {
    let mut s = router(RouterBuffers::default());
    let taken: Vec<RxId> = (0..8).map(|_| passing(&mut s, tcp(2), far(2), 100)).collect();
    s.verdicts();
    let ninth = passing(&mut s, tcp(2), far(2), 100);
    assert_eq!(s.verdicts(), [(ninth, Verdict::Wait)]);
    let other = passing(&mut s, tcp(3), far(2), 100);
    assert_eq!(s.sink().0, other, "another node's messages pass");
    let view = s.lnet.peers().into_iter().find(|peer| peer.primary == tcp(2)).unwrap();
    assert_eq!((view.nis[0].router_credits, view.nis[0].router_credits_min), (-1, -1));
    // Its connection dies while it waits.
    s.lnet.handle_receive_done(s.now, ninth, Err(Errno::ECONNRESET));
    s.lnet.handle_receive_done(s.now, taken[0], Err(Errno::ECONNRESET));
    for rx in taken[1..].iter().chain([&other]) {
        s.received(*rx, &[]);
    }
    loop {
        let sent = s.sent();
        if sent.is_empty() {
            break;
        }
        for request in sent {
            s.done(&request);
        }
    }
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_message_is_never_sent_back_to_where_it_came_from() {
    let mut s = router(RouterBuffers::default());
    let beyond = Nid::small(Net(Net::TCP.0 + 5), 1);
    let route = RouteConfig::new(beyond.net(), tcp(2));
    s.lnet.route_add(s.now, route).unwrap();
    let check = s.sent_one();
    answer_check(&mut s, &check, &router_info(1, &[tcp(2), beyond]));
    s.drain();
    let header = Header {
        body: Body::Ack { handle: THEIRS, match_bits: 0, accepted: 0 },
        ..reply_header_to(beyond)
    };
    s.receive_header(tcp(1), tcp(2), Header { source: far(9), ..header });
    assert_eq!(s.sent(), []);
    assert_eq!(s.lnet.stats().drop_count, 1);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_node_that_does_not_route_drops_what_is_for_others() {
    let mut s = Script::acquainted();
    let header = Header { target: far(2), source: tcp(2), ..reply_header_to(far(2)) };
    let rx = s.receive_header(tcp(1), tcp(2), header);
    assert_eq!(s.sink(), (rx, Sink::Discard { len: 0 }));
    assert_eq!((s.sent(), s.lnet.stats().drop_count), (vec![], 1));
}

#[test]
fn a_message_for_another_node_of_the_network_that_it_came_by_breaks_the_protocol() {
    let mut s = router(RouterBuffers::default());
    let header = Header { source: tcp(2), ..reply_header_to(tcp(3)) };
    let rx = s.receive_header(tcp(1), tcp(2), header);
    assert_eq!(s.verdicts(), [(rx, Verdict::Reject)]);
}

#[test]
fn a_message_for_loopback_breaks_the_protocol() {
    let mut s = router(RouterBuffers::default());
    let rx = passing(&mut s, tcp(2), Nid::LOOPBACK, 0);
    assert_eq!(s.verdicts(), [(rx, Verdict::Reject)]);
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_router_that_is_switched_on_tells_so_at_once() {
    let mut s = Script::with(&[ni(tcp(1)), ni(tcp1(1))]);
    assert!(s.lnet.ping_info().features.has(Features::RTE_DISABLED));
    introduce(&mut s, tcp(4));
    s.lnet.set_forwarding(s.now, Forwarding::Enable).unwrap();
    assert_eq!(s.lnet.routing().state, RoutingState::Enabled);
    assert!(!s.lnet.ping_info().features.has(Features::RTE_DISABLED));
    let push = s.sent_one();
    assert_eq!(push.next_hop, tcp(4), "which uses this router now");
    s.answer_push(&push);
    s.lnet.set_forwarding(s.now, Forwarding::Disable).unwrap();
    assert_eq!(s.lnet.routing().state, RoutingState::Stopping);
    assert!(s.lnet.ping_info().features.has(Features::RTE_DISABLED));
    assert_eq!(s.lnet.set_forwarding(s.now, Forwarding::Enable), Err(Errno::EBUSY));
    s.wait(110);
    assert_eq!(s.lnet.routing().state, RoutingState::Disabled);
}

#[test]
fn a_router_that_is_drained_pushes_its_peers_away_and_finishes_what_it_has() {
    let mut s = router(RouterBuffers::default());
    introduce(&mut s, tcp(4));
    let rx = passing(&mut s, tcp(2), far(2), 100);
    s.drain();
    s.lnet.set_forwarding(s.now, Forwarding::Drain).unwrap();
    let push = s.sent_one();
    assert_eq!(push.next_hop, tcp(4), "who would not know otherwise");
    s.answer_push(&push);
    s.wait(10);
    assert_eq!(s.lnet.routing().state, RoutingState::Draining, "a message is still here");
    s.received(rx, &[]);
    let sent = s.sent_one();
    s.done(&sent);
    s.wait(1);
    assert_eq!(s.lnet.routing().state, RoutingState::Disabled);
    assert_eq!(freed(&mut s).len(), 1, "its memory is free");
    s.lnet.is_idle().unwrap();
}

#[test]
fn a_network_without_pings_of_a_router_is_reported_as_down() {
    let mut s = router(RouterBuffers::default());
    let status = |s: &Script| -> Vec<NiStatus> {
        s.lnet.ping_info().entries.iter().map(|entry| entry.status).collect()
    };
    for _ in 0..111 {
        s.wait(1);
        if s.now.as_secs() == 50 {
            s.receive_from(tcp(2), 0, ping_body(0, 272));
        }
    }
    assert_eq!(status(&s), [NiStatus::UP, NiStatus::DOWN]);
    let header = Header { target: tcp1(1), source: far(2), ..reply_header_to(tcp1(1)) };
    s.receive_header(tcp1(1), far(2), header);
    assert_eq!(status(&s), [NiStatus::UP, NiStatus::UP]);
    assert_eq!(s.lnet.ping_info().sequence, 1, "it is edited, not rebuilt");
}

#[test]
fn a_router_that_is_switched_off_drops_whoever_waits_though_one_wakes_another() {
    let config = Config {
        routing: RoutingConfig {
            forwarding: true,
            buffers: RouterBuffers { tiny: 8, small: 8, large: 1 },
            peer_buffer_credits: 1,
            ..RoutingConfig::default()
        },
        ..config()
    };
    let mut lnet = Lnet::new(config);
    lnet.add_ni(Time::ZERO, ni(tcp(1)), LND_TIMEOUT).unwrap();
    lnet.add_ni(Time::ZERO, ni(tcp1(1)), LND_TIMEOUT).unwrap();
    lnet.start(Time::ZERO);
    let mut s = Script { lnet, now: Time::ZERO, rx: 0, outputs: Vec::new() };
    let holds = passing(&mut s, tcp(2), far(2), 5000);
    let waits_for_buffer = passing(&mut s, tcp(3), far(2), 5000);
    let waits_for_credit = passing(&mut s, tcp(3), far(2), 5000);
    s.drain();
    s.lnet.set_forwarding(s.now, Forwarding::Disable).unwrap();
    s.wait(110);
    let dropped = Verdict::Receive(Sink::Discard { len: 5000 });
    assert_eq!(s.verdicts(), [(waits_for_buffer, dropped), (waits_for_credit, dropped)]);
    s.lnet.handle_receive_done(s.now, holds, Err(Errno::ECONNRESET));
    s.drain();
    s.lnet.is_idle().unwrap();
    assert_eq!(s.lnet.routing().pools[2].allocated, 0);
}

#[test]
fn a_policy_prefers_a_gateway_for_all_peers_behind_it_whichever_was_there_first() {
    let mut s = with_routes(&[route(tcp(9)), route(tcp(8))]);
    let rule = UdspRule {
        src: None,
        dst: Some("*@tcp1".parse().unwrap()),
        rte: Some("10.0.0.8@tcp".parse().unwrap()),
        priority: None,
    };
    s.lnet.udsp_add(s.now, None, rule).unwrap();
    acquaint(&mut s, far(2));
    let next_hops = |s: &mut Script| {
        let hop = |_| {
            let md = s.lnet.md_bind(SERVICE, bound(9, 1), Memory::Buffer).unwrap();
            s.lnet.put(s.now, SERVICE, md, put(far(2))).unwrap();
            let sent = s.sent_one();
            s.done(&sent);
            s.drain();
            sent.next_hop
        };
        [0, 1, 2].map(hop)
    };
    assert_eq!(next_hops(&mut s), [tcp(8); 3], "the peer came last");
    s.lnet.route_del(s.now, None, Some(tcp(8))).unwrap();
    assert_eq!(next_hops(&mut s), [tcp(9); 3]);
    s.lnet.route_add(s.now, route(tcp(8))).unwrap();
    let check = s.sent_one();
    answer_check(&mut s, &check, &router_info(1, &[tcp(8), far(8)]));
    s.drain();
    assert_eq!(next_hops(&mut s), [tcp(8); 3], "the gateway came last");
}
