//! Incoming connections: lnet-wire §3.3, §4.6, §5.4, §5.5.

use super::*;
use fulmar_wire::{DecodeError, testing::hex};

/// Feeds `bytes` to a new connection and requires that they end it with this last message.
#[track_caller]
fn ends_with(script: &mut Script, bytes: &[u8], word: Option<Vec<u8>>) {
    let conn = script.accepted(LOW);
    script.feed(conn, bytes);
    let actions = script.actions();
    match word {
        None => assert_eq!(actions, [close(conn)]),
        Some(word) => {
            let [
                Output::Stream(Stream::Write { head, .. }),
                Output::Stream(Stream::Close { flush: true, .. }),
            ] = &actions[..]
            else {
                panic!("{actions:#?}")
            };
            assert_eq!(*head, word);
        }
    }
    assert_eq!(script.machine.need(conn), Need::Nothing);
    assert_eq!(script.machine.poll_timeout(), None);
}

/// Returns a hello from `LOW` after a valid request.
fn called_with(hello: &Hello) -> Vec<u8> {
    let mut bytes = request(OURS);
    hello.encode(Order::Little, &mut bytes);
    bytes
}

#[test]
fn another_acceptor_version_is_answered_with_ours() {
    let refusal = hex("00 71 ce ac 01 00 00 00 00 00 00 00 00 00 00 00");
    for word in ["63 69 72 45", "45 72 69 63", "00 71 ce ac 03 00 00 00", "ac ce 71 00 00 00 00 00"]
    {
        ends_with(&mut Script::new(), &hex(word), Some(refusal.clone()));
    }
    ends_with(&mut Script::new(), &hex("ed 0d bc ee"), None);
    ends_with(&mut Script::new(), b"GET / HTTP/1.1", None);
}

#[test]
fn a_request_for_another_nid_is_not_answered() {
    let mut script = Script::new();
    let conn = script.accepted(LOW);
    script.feed(conn, &request(HIGH));
    let notice = Notice::NotOurNid { remote: addr(LOW, 1023), asked: HIGH };
    assert!(script.expect_notice(&notice).contains(&close(conn)));
    assert_eq!(script.machine.counters().refused_nid, 1);
}

#[test]
fn a_big_endian_request_is_understood() {
    let mut script = Script::new();
    let conn = script.accepted(LOW);
    let mut bytes = hex("ac ce 71 00 00 00 00 01 00 02 00 00 0a 00 00 02");
    hello(LOW, ConnKind::CONTROL, Version::V3).encode(Order::Big, &mut bytes);
    script.feed(conn, &bytes);
    let [Output::Stream(Stream::Write { head, .. })] = &script.actions()[..] else { panic!() };
    assert_eq!(head[..4], hex("63 69 72 45"));
    assert_eq!(answer_kind(head), ConnKind::CONTROL);
}

#[test]
fn every_version_and_kind_is_answered_alike() {
    for version in [Version::V1, Version::V2, Version::V3, Version::V4] {
        for theirs in [ConnKind::ANY, ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT] {
            let mut script = Script::new();
            let conn = script.call(&hello(LOW, theirs, version));
            let [Output::Stream(Stream::Write { head, .. })] = &script.actions()[..] else {
                panic!()
            };
            let (answer, _, _) = Hello::decode(head).unwrap().unwrap();
            assert_eq!((answer.version, Some(answer.kind)), (version, theirs.mirror()));
            assert_eq!(answer.source, ProcessId::lustre(OURS));
            let info = &script.machine.conns()[0];
            assert_eq!((info.conn, info.peer), (conn, ProcessId::lustre(LOW)));
            assert_eq!((info.version, info.kind), (version, answer.kind));
        }
    }
}

#[test]
fn calls_may_be_cut_anywhere() {
    let hello = Hello { ips: vec![1, 2], ..hello(LOW, ConnKind::CONTROL, Version::V2) };
    let bytes = called_with(&hello);
    for chunk in 1..bytes.len() {
        let mut script = Script::new();
        let conn = script.accepted(LOW);
        for piece in bytes.chunks(chunk) {
            assert_eq!(script.feed(conn, piece), piece.len());
        }
        assert_eq!(script.machine.conns().len(), 1, "in pieces of {chunk}");
    }
}

#[test]
fn invalid_requests_are_closed() {
    let wildcard = Hello {
        source: ProcessId { nid: Nid::ANY, pid: Pid::LUSTRE },
        ..hello(LOW, ConnKind::CONTROL, Version::V3)
    };
    ends_with(&mut Script::new(), &called_with(&wildcard), None);
    for kind in [ConnKind::NONE, ConnKind(4)] {
        let call = hello(LOW, kind, Version::V3);
        ends_with(&mut Script::new(), &called_with(&call), None);
    }
    let garbage = [request(OURS), b"no hello".to_vec()].concat();
    ends_with(&mut Script::new(), &garbage, None);
}

#[test]
fn an_unknown_version_is_answered_with_our_own() {
    let bytes = [request(OURS), hex("63 69 72 45 09 00 00 00")].concat();
    let mut answer = Vec::new();
    let kind = ConnKind::NONE;
    let source_incarnation = OUR_INCARNATION;
    let ours = Hello {
        source: ProcessId::lustre(OURS),
        source_incarnation,
        ..hello(LOW, kind, Version::V3)
    };
    ours.encode(Order::Little, &mut answer);
    ends_with(&mut Script::new(), &bytes, Some(answer));
}

#[test]
fn an_interface_of_ipv6_speaks_version_4_only() {
    let ours = Nid::of_ip(Net::TCP, "fd00:99::2".parse().unwrap());
    let theirs = Nid::of_ip(Net::TCP, "fd00:99::1".parse().unwrap());
    let mut script = Script::new();
    script.machine.add_ni(Time::ZERO, &ni(ours));
    let conn = script.accepted(theirs);
    let mut bytes = request(ours);
    assert_eq!(bytes.len(), 28);
    hello(LOW, ConnKind::CONTROL, Version::V3).encode(Order::Little, &mut bytes);
    script.feed(conn, &bytes);
    let [
        Output::Stream(Stream::Write { head, .. }),
        Output::Stream(Stream::Close { flush: true, .. }),
    ] = &script.actions()[..]
    else {
        panic!()
    };
    let (answer, _, _) = Hello::decode(head).unwrap().unwrap();
    assert_eq!((answer.version, answer.kind), (Version::V4, ConnKind::NONE));
    let conn = script.accepted(theirs);
    let mut bytes = request(ours);
    hello(theirs, ConnKind::CONTROL, Version::V4).encode(Order::Little, &mut bytes);
    script.feed(conn, &bytes);
    assert_eq!(script.machine.conns()[0].peer, ProcessId::lustre(theirs));
}

#[test]
fn secure_takes_privileged_ports_only() {
    let mut script = Script::new();
    let remote = addr(LOW, 1024);
    assert_eq!(script.accepted_from(remote), None);
    script.expect_notice(&Notice::UnprivilegedPort { remote });
    assert_eq!(script.machine.counters().refused_unprivileged, 1);
    let mut script = Script::with(Config { accept: AcceptMode::None, ..Config::default() });
    assert_eq!(script.accepted_from(addr(LOW, 1023)), None);
}

#[test]
fn a_nid_with_another_address_or_network_is_refused() {
    let elsewhere: Nid = "10.0.0.1@tcp7".parse().unwrap();
    for (nid, remote) in [(LOW, addr(HIGH, 1023)), (elsewhere, addr(LOW, 1023))] {
        let mut script = Script::new();
        let conn = script.accepted_from(remote).unwrap();
        script.feed(conn, &called_with(&hello(nid, ConnKind::CONTROL, Version::V3)));
        let outputs = script.expect_notice(&Notice::WrongAddress { remote, claimed: nid });
        let close = Output::Stream(Stream::Close { conn, flush: false });
        assert!(outputs.contains(&close), "{outputs:?}");
        assert_eq!(script.machine.counters().refused_identity, 1);
        assert_eq!(script.machine.peers(), []);
    }
}

#[test]
fn an_unprivileged_peer_with_another_address_gets_its_own_identity() {
    for (claimed, ip) in [(HIGH, "10.0.0.9"), (LOW, "fd00::9")] {
        let mut script = Script::with(open_to_all());
        let conn = script.accepted_from(SocketAddr::new(ip.parse().unwrap(), 40_000)).unwrap();
        let bytes = called_with(&hello(claimed, ConnKind::CONTROL, Version::V3));
        script.feed(conn, &bytes);
        script.actions();
        let nid = Nid::of_ip(Net::TCP, ip.parse().unwrap());
        let from = ProcessId { nid, pid: Pid(40_000 | Pid::USER_FLAG) };
        assert_eq!(script.machine.conns()[0].peer, from);
        let frame = FrameHeader::lnet();
        let bytes = message(claimed, Version::V3, Order::Little, frame, 0);
        script.feed(conn, &bytes);
        let header =
            Header { source: nid, source_pid: from.pid, ..put_header(claimed, OURS, 9, 0) };
        script.expect(Output::Received(Received { conn, ni: OURS, from: from.nid, header }));
    }
}

#[test]
fn an_invented_identity_is_never_dialled() {
    let mut script = Script::with(open_to_all());
    let nid = Nid::of_ip(Net::TCP, "10.0.0.9".parse().unwrap());
    let conn = script.accepted_from(addr(nid, 40_000)).unwrap();
    script.feed(conn, &called_with(&hello(LOW, ConnKind::CONTROL, Version::V3)));
    let [Output::Stream(Stream::Write { head, .. })] = &script.actions()[..] else { panic!() };
    script.machine.handle_sent(script.now, conn, head.len() as u64);
    let mut reply = put(nid, 5, 0);
    reply.header.target_pid = Pid(40_000 | Pid::USER_FLAG);
    script.machine.send(script.now, reply.clone());
    assert_eq!(script.written().0, conn);
    script.actions();
    script.machine.handle_closed(script.now, conn, fulmar_lnd::CloseCause::Eof);
    script.machine.send(script.now, reply);
    script.expect(failed(5, SendError::remote_error(Errno::EHOSTUNREACH)));
}

#[test]
fn an_unprivileged_peer_with_its_own_address_is_trusted() {
    let mut script = Script::with(open_to_all());
    let conn = script.accepted_from(addr(LOW, 40_000)).unwrap();
    script.feed(conn, &called_with(&hello(LOW, ConnKind::CONTROL, Version::V3)));
    assert_eq!(script.machine.conns()[0].peer, ProcessId::lustre(LOW));
}

#[test]
fn the_lower_nid_loses_simultaneous_dials() {
    let mut script = Script::new();
    script.send(LOW, 1, 0);
    script.dialled();
    let conn = script.call(&hello(LOW, ConnKind::CONTROL, Version::V3));
    let [Output::Stream(Stream::Write { head, .. }), end] = &script.actions()[..] else { panic!() };
    assert_eq!(answer_kind(head), ConnKind::NONE);
    assert_eq!(*end, Output::Stream(Stream::Close { conn, flush: true }));
    assert_eq!(script.machine.counters().refused_races, 1);
}

#[test]
fn the_higher_nid_wins_simultaneous_dials() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let attempt = script.dialled();
    script.connected(attempt);
    let conn = script.call(&hello(HIGH, ConnKind::CONTROL, Version::V3));
    let [Output::Stream(Stream::Write { .. }), Output::Stream(Stream::Write { conn: to, .. })] =
        script.actions()[..]
    else {
        panic!()
    };
    assert_eq!(to, conn, "queued messages are sent on the connection of the peer");
    // The peer refuses the dialled one, and opens the others.
    script.answer(attempt, &hello(HIGH, ConnKind::NONE, Version::V3));
    script.expect(close(attempt));
    script.call(&hello(HIGH, ConnKind::BULK_IN, Version::V3));
    script.call(&hello(HIGH, ConnKind::BULK_OUT, Version::V3));
    script.actions();
    script.wait_secs(10);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 3);
}

#[test]
fn only_a_peer_at_the_dialled_address_loses_a_race() {
    let mut script = Script::with(two_addresses());
    script.send(LOW, 1, 0);
    script.dialled();
    let conn = script.accepted_from("10.0.7.7:1023".parse().unwrap()).unwrap();
    script.feed(conn, &called_with(&hello(LOW, ConnKind::CONTROL, Version::V3)));
    assert_eq!(script.machine.conns().len(), 1);
}

#[test]
fn a_restarted_peer_loses_its_old_connections_and_reconnects() {
    let mut script = Script::new();
    let old = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    script.send(LOW, 1, 0);
    script.actions();
    let new = Hello { source_incarnation: 3_001, ..hello(LOW, ConnKind::CONTROL, Version::V3) };
    let conn = script.call(&new);
    let outputs = script.expect_notice(&Notice::Restarted { peer: LOW });
    assert!(outputs.contains(&close(old)));
    assert!(outputs.contains(&failed(1, SendError::remote_dropped(Errno::ECONNRESET))));
    assert!(outputs.contains(&Output::Stream(Stream::Close { conn, flush: true })));
    script.call(&new);
    assert_eq!(script.machine.conns().len(), 1);
}

#[test]
fn a_peer_that_changes_its_version_loses_its_old_connections() {
    let mut script = Script::new();
    let old = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    let conn = script.call(&hello(LOW, ConnKind::BULK_IN, Version::V2));
    let actions = script.actions();
    assert_eq!(actions[0], close(old));
    assert_eq!(actions[2], Output::Stream(Stream::Close { conn, flush: true }));
    assert_eq!(script.machine.peers(), []);
}

#[test]
fn a_restart_without_open_connections_needs_no_action() {
    let mut script = Script::new();
    let old = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    script.machine.handle_closed(script.now, old, fulmar_lnd::CloseCause::Eof);
    script.call(&Hello { source_incarnation: 1, ..hello(LOW, ConnKind::ANY, Version::V2) });
    assert_eq!(script.machine.conns().len(), 1);
}

#[test]
fn the_connections_of_a_kind_are_limited() {
    let mut script = Script::new();
    let first = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    script.talks(LOW, first);
    for _ in 1..127 {
        script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    }
    let conn = script.call(&hello(LOW, ConnKind::CONTROL, Version::V3));
    assert_eq!(script.actions()[1], Output::Stream(Stream::Close { conn, flush: true }));
    script.opened_by(LOW, ConnKind::BULK_IN, Version::V3);
}

#[test]
fn the_connections_of_a_kind_are_limited_for_all_processes_of_a_nid() {
    let config = Config { handshakes_per_address: 1_000, ..Config::default() };
    let mut script = Script::with(config);
    let of = |pid, kind: ConnKind| Hello {
        source: ProcessId { nid: LOW, pid: Pid(pid) },
        ..hello(LOW, kind.mirror().unwrap(), Version::V3)
    };
    for pid in 0..200 {
        script.call(&of(pid, ConnKind::CONTROL));
    }
    script.actions();
    assert_eq!((script.machine.conns().len(), script.machine.peers().len()), (127, 127));
    script.call(&of(0, ConnKind::CONTROL));
    script.call(&of(500, ConnKind::BULK_IN));
    script.actions();
    script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    assert_eq!(script.machine.conns().len(), 129);
}

#[test]
fn a_caller_has_five_seconds_for_its_request_and_five_for_its_hello() {
    let mut script = Script::new();
    let conn = script.accepted(LOW);
    script.wait_secs(4);
    script.feed(conn, &request(OURS));
    script.wait_secs(4);
    script.expect_nothing();
    script.feed(conn, &hex("63 69 72 45"));
    script.wait_secs(1);
    let silent = Notice::Silent { remote: addr(LOW, 1023) };
    assert!(script.expect_notice(&silent).contains(&close(conn)));
    assert_eq!(script.machine.counters().silent, 1);
}

#[test]
fn removing_an_interface_closes_incoming_connections() {
    let mut script = Script::new();
    let conn = script.accepted(LOW);
    script.feed(conn, &request(OURS));
    script.machine.remove_ni(script.now, OURS);
    script.expect(close(conn));
}

#[test]
fn an_ipv4_caller_at_an_ipv6_listener_is_an_ipv4_caller() {
    let mut script = Script::with(open_to_all());
    let conn = script.accepted_from("[::ffff:10.0.0.1]:40000".parse().unwrap()).unwrap();
    script.feed(conn, &called_with(&hello(LOW, ConnKind::CONTROL, Version::V3)));
    let info = &script.machine.conns()[0];
    assert_eq!((info.peer, info.remote), (ProcessId::lustre(LOW), addr(LOW, 40_000)));
}

#[test]
fn a_malformed_hello_is_reported() {
    let mut script = Script::new();
    let conn = script.accepted(LOW);
    let call = Hello { ips: vec![1, 0], ..hello(LOW, ConnKind::CONTROL, Version::V3) };
    script.feed(conn, &called_with(&call));
    let error = DecodeError::Range { field: "hello.ip", got: 0 };
    script.expect_notice(&Notice::Malformed { remote: addr(LOW, 1023), error });
    assert_eq!(script.machine.counters().handshake_failures, 1);
}
