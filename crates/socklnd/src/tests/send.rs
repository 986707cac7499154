//! Sending: lnet-wire §5.7, §6.4 to §6.6.

use super::*;
use fulmar_lnd::CloseCause;
use fulmar_wire::testing::hex;

#[test]
fn a_message_is_its_frame_its_header_and_its_payload() {
    let mut script = Script::new();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    let request = put(HIGH, 1, 8);
    script.machine.send(script.now, request.clone());
    let actions = script.actions();
    let [Output::Stream(Stream::Write { head, payload, checksum: false, .. })] = &actions[..]
    else {
        panic!()
    };
    assert_eq!(
        head[..24],
        hex("c1 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
    );
    let header = Header::decode(&head[24..], Version::V3.header_form());
    assert_eq!((header, payload), (Ok(request.header), &request.payload));
    script.machine.handle_sent(script.now, conn, 103);
    script.expect_nothing();
    assert_eq!(script.machine.conns()[0].queued, 1);
    script.machine.handle_sent(script.now, conn, 1);
    script.expect(Output::Sent { message: MessageId(1), result: Ok(()) });
    let counters = script.machine.counters();
    assert_eq!((counters.messages_sent, counters.payload_sent), (1, 8));
}

#[test]
fn version_1_has_no_frames_and_version_4_long_headers() {
    for (version, len) in [(Version::V1, 72), (Version::V2, 96), (Version::V4, 120)] {
        let mut script = Script::new();
        script.opened_by(HIGH, ConnKind::CONTROL, version);
        script.send(HIGH, 1, 0);
        assert_eq!(script.written().1.len(), len);
    }
}

#[test]
fn checksums_are_requested_on_version_2_only() {
    for (enable_csum, version, expected) in
        [(true, Version::V2, true), (true, Version::V3, false), (false, Version::V2, false)]
    {
        let mut script = Script::with(Config { enable_csum, ..Config::default() });
        let conn = script.opened_by(HIGH, ConnKind::CONTROL, version);
        script.send(HIGH, 1, 8);
        let [Output::Stream(Stream::Write { checksum, .. })] = script.actions()[..] else {
            panic!()
        };
        assert_eq!(checksum, expected);
        let frame = FrameHeader { cookies: [5, 0], ..FrameHeader::lnet() };
        script.feed(conn, &message(HIGH, version, Order::Little, frame, 0));
        script.judge(conn, inline(0));
        let Some(Output::Stream(Stream::Write { checksum, .. })) = script.actions().pop() else {
            panic!()
        };
        assert_eq!(checksum, expected);
    }
}

#[test]
fn small_messages_prefer_control_and_large_ones_bulk() {
    let mut script = Script::new();
    let [control, _, bulk_out] = script.opens_all(HIGH);
    for (len, conn) in [(0, control), (927, control), (928, bulk_out), (1 << 20, bulk_out)] {
        script.send(HIGH, 2, len);
        assert_eq!(script.written().0, conn, "{len} bytes");
        script.actions();
    }
}

#[test]
fn bulk_out_carries_small_messages_without_control_and_bulk_in_none() {
    let mut script = Script::new();
    script.opened_by(HIGH, ConnKind::BULK_IN, Version::V3);
    script.opened_by(HIGH, ConnKind::ANY, Version::V3);
    let bulk_out = script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V3);
    script.send(HIGH, 1, 0);
    assert_eq!(script.written().0, bulk_out);

    let mut script = Script::new();
    script.opened_by(HIGH, ConnKind::BULK_IN, Version::V3);
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    assert_eq!(script.connected(conn).kind, ConnKind::CONTROL);
}

#[test]
fn version_2_sends_on_any_and_if_need_be_on_bulk_in() {
    let mut script = Script::new();
    let bulk_in = script.opened_by(HIGH, ConnKind::BULK_IN, Version::V2);
    script.send(HIGH, 1, 0);
    assert_eq!(script.written().0, bulk_in);
    script.actions();
    let any = script.opened_by(HIGH, ConnKind::ANY, Version::V2);
    script.send(HIGH, 2, 8192);
    assert_eq!(script.written().0, any);
}

#[test]
fn the_shortest_queue_then_the_least_recent_use_decides() {
    let mut script = Script::new();
    let conns: Vec<_> =
        (0..3).map(|_| script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V3)).collect();
    let mut sends = |name, len| {
        script.send(HIGH, name, len);
        let [Output::Stream(Stream::Write { conn, .. })] = script.actions()[..] else { panic!() };
        conn
    };
    assert_eq!([sends(1, 5000), sends(2, 4000), sends(3, 3000)], conns[..]);
    assert_eq!(sends(4, 2000), conns[2], "3096 bytes wait there");
    assert_eq!(sends(5, 2000), conns[1], "4096 bytes wait there");
    for (conn, len) in [(conns[0], 5096), (conns[1], 4096 + 2096), (conns[2], 3096 + 2096)] {
        script.machine.handle_sent(script.now, conn, len);
    }
    script.actions();
    let mut used = Vec::new();
    for name in 6..12 {
        script.send(HIGH, name, 2000);
        used.push(script.written().0);
        script.actions();
    }
    assert_eq!(used, [conns[0], conns[2], conns[1], conns[0], conns[2], conns[1]]);
}

#[test]
fn the_end_of_one_connection_is_the_end_of_its_siblings_at_the_same_address() {
    for (how, errno) in [
        (CloseCause::Eof, Errno::ECONNRESET),
        (CloseCause::ReadError(Errno::ETIMEDOUT), Errno::ETIMEDOUT),
        (CloseCause::WriteError(Errno::ETIMEDOUT), Errno::ETIMEDOUT),
        (CloseCause::WriteError(Errno::ECONNRESET), Errno::ECONNRESET),
    ] {
        let error = SendError::remote_dropped(errno);
        let mut script = Script::new();
        let [control, bulk_in, bulk_out] = script.opens_all(HIGH);
        let other = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
        script.send(HIGH, 2, 0);
        script.send(HIGH, 3, 5000);
        script.actions();
        script.machine.handle_closed(script.now, bulk_out, how);
        let expected = [failed(3, error), close(control), close(bulk_in), failed(2, error)];
        assert_eq!(script.actions(), expected);
        assert_eq!(script.machine.conns().len(), 1);
        assert_eq!(script.machine.conns()[0].conn, other);
        assert_eq!(script.machine.peers().len(), 1);
    }
}

#[test]
fn messages_end_if_the_owner_closes_a_sibling_before_it_is_asked_to() {
    let mut script = Script::new();
    let [control, _, bulk_out] = script.opens_all(HIGH);
    script.send(HIGH, 2, 0);
    script.send(HIGH, 3, 0);
    script.actions();
    // The peer has reset both: the second report is made before outputs of the first are taken.
    let reset = CloseCause::WriteError(Errno::ECONNRESET);
    script.machine.handle_closed(script.now, bulk_out, reset);
    script.machine.handle_sent(script.now, control, 24 + 72);
    script.machine.handle_closed(script.now, control, reset);
    let mut outputs: Vec<Output> = std::iter::from_fn(|| script.machine.poll_output()).collect();
    outputs.retain(|output| matches!(output, Output::Sent { .. }));
    let sent = Output::Sent { message: MessageId(2), result: Ok(()) };
    assert_eq!(outputs, [sent, failed(3, SendError::remote_dropped(Errno::ECONNRESET))]);
}

#[test]
fn peers_are_reported_up_and_down() {
    let mut script = Script::new();
    let (ni, peer) = (OURS, ProcessId::lustre(HIGH));
    let conn = script.call(&hello(HIGH, ConnKind::CONTROL, Version::V3));
    script.expect_notice(&Notice::PeerUp { ni, peer });
    script.machine.handle_closed(script.now, conn, CloseCause::Eof);
    let errno = Errno::ECONNRESET;
    let down = Output::Path { ni, peer: HIGH, state: PathState::Down };
    assert_eq!(script.outputs(), [Output::Notice(Notice::PeerDown { ni, peer, errno }), down]);
}

#[test]
fn a_disconnected_peer_is_dialled_again_when_it_is_needed() {
    let mut script = Script::new();
    let [control, bulk_in, bulk_out] = script.opens_all(HIGH);
    script.machine.close_peer(script.now, Nid::ANY);
    assert_eq!(script.actions(), [close(control), close(bulk_in), close(bulk_out)]);
    script.wait_secs(200);
    script.expect_nothing();
    script.send(HIGH, 2, 0);
    script.dialled();
}

#[test]
fn a_peer_that_stops_reading_times_out() {
    let mut script = Script::with(Config { keepalive: Duration::ZERO, ..Config::default() });
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.wait_secs(20);
    script.send(HIGH, 1, 1000);
    script.actions();
    script.wait_secs(30);
    script.machine.handle_sent(script.now, conn, 10);
    script.wait_secs(49);
    script.expect_nothing();
    script.wait_secs(1);
    let error = SendError::remote_dropped(Errno::ETIMEDOUT);
    assert_eq!(script.actions(), [close(conn), failed(1, error)]);
    assert_eq!(script.machine.counters().stalled, 1);
}

#[test]
fn keepalives_go_where_the_peer_could_not_send_its_own() {
    let mut script = Script::new();
    let [_, bulk_in, _] = script.opens_all(HIGH);
    script.wait_secs(29);
    script.expect_nothing();
    script.wait_secs(1);
    assert_eq!(script.written(), (bulk_in, noop([0, 1])));
    script.wait_secs(29);
    script.expect_nothing();
    script.wait_secs(1);
    script.written();
    assert_eq!(script.machine.counters().keepalives_sent, 2);
}

#[test]
fn queued_bytes_make_keepalives_unnecessary() {
    let mut script = Script::new();
    script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.send(HIGH, 1, 0);
    script.actions();
    script.wait_secs(40);
    script.expect_nothing();
}

#[test]
fn a_recently_heard_peer_gets_no_keepalive() {
    let mut script = Script::new();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    for _ in 0..10 {
        script.wait_secs(29);
        script.feed(conn, &noop([0, 1]));
        script.expect_nothing();
    }
    assert_eq!(script.machine.counters().keepalives_received, 10);
}

#[test]
fn old_peers_and_a_setting_of_zero_disable_keepalives() {
    for (keepalive, version) in
        [(30, Version::V1), (30, Version::V2), (0, Version::V3), (0, Version::V4)]
    {
        let keepalive = Duration::from_secs(keepalive);
        let mut script = Script::with(Config { keepalive, ..Config::default() });
        script.opened_by(HIGH, ConnKind::CONTROL, version);
        script.wait_secs(300);
        script.expect_nothing();
    }
}

#[test]
fn a_header_that_does_not_fit_the_connection_is_not_sent() {
    let mut script = Script::new();
    script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    let mut request = put(HIGH, 1, 0);
    request.header.source = Nid::of_ip(Net::TCP, "fd00::1".parse().unwrap());
    script.machine.send(script.now, request);
    script.expect(failed(1, SendError::local_error(Errno::EOPNOTSUPP)));
}

fn asking() -> Script {
    Script::with(Config { zc_min_payload: Some(16_384), ..Config::default() })
}

#[test]
fn a_zero_copy_message_is_sent_when_acknowledged() {
    let mut script = asking();
    let conn = script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V3);
    for (name, len, cookies) in [(2, 16_384, [2, 0]), (3, 1 << 20, [3, 0]), (1, 16_383, [0, 0])] {
        script.send(HIGH, name, len);
        let (_, head) = script.written();
        let frame = FrameHeader::decode(&head[..FrameHeader::LEN], Order::Little).unwrap();
        assert_eq!(frame.cookies, cookies);
    }
    script.expect(Output::Sent { message: MessageId(1), result: Ok(()) });
    let counters = script.machine.counters();
    assert_eq!((counters.messages_sent, counters.zc_acks_received), (3, 0));
    script.feed(conn, &noop([0, 3]));
    script.expect(Output::Sent { message: MessageId(3), result: Ok(()) });
    // A message of the peer can carry the acknowledgement.
    let frame = FrameHeader { cookies: [0, 2], ..FrameHeader::lnet() };
    script.feed(conn, &message(HIGH, Version::V3, Order::Little, frame, 0));
    let actions = script.actions();
    let [Output::Received(_), sent] = &actions[..] else { panic!("{actions:#?}") };
    assert_eq!(*sent, Output::Sent { message: MessageId(2), result: Ok(()) });
    assert_eq!(script.machine.counters().zc_acks_received, 2);
}

#[test]
fn version_1_cannot_be_requested() {
    let mut script = asking();
    script.opened_by(HIGH, ConnKind::ANY, Version::V1);
    script.send(HIGH, 1, 1 << 20);
    script.written();
    script.expect(Output::Sent { message: MessageId(1), result: Ok(()) });
}

#[test]
fn unacknowledged_messages_fail_with_their_connection() {
    let mut script = asking();
    let conn = script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V3);
    script.send(HIGH, 1, 1 << 20);
    script.written();
    script.send(HIGH, 2, 1 << 20);
    script.actions();
    script.machine.handle_closed(script.now, conn, CloseCause::Eof);
    let expected = [
        failed(1, SendError::remote_error(Errno::EIO)),
        failed(2, SendError::remote_dropped(Errno::ECONNRESET)),
    ];
    assert_eq!(script.actions(), expected);
}

#[test]
fn the_end_of_a_close_decides_what_was_written() {
    for (bytes, error) in [
        (96 + 24 + (1 << 20), SendError::remote_error(Errno::EIO)),
        (1 << 20, SendError::remote_dropped(Errno::ESHUTDOWN)),
    ] {
        let mut script = asking();
        let conn = script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V4);
        script.send(HIGH, 1, 1 << 20);
        script.actions();
        script.machine.close_peer(script.now, HIGH);
        assert_eq!(script.machine.poll_output(), Some(close(conn)));
        script.machine.handle_stopped(script.now, conn, bytes);
        script.expect(failed(1, error));
    }
}

#[test]
fn a_peer_without_acknowledgements_is_disconnected() {
    let mut script = asking();
    let conn = script.opened_by(HIGH, ConnKind::BULK_OUT, Version::V3);
    script.send(HIGH, 1, 1 << 20);
    script.written();
    script.wait_secs(49);
    script.expect_nothing();
    script.wait_secs(2);
    assert_eq!(
        script.actions()[..2],
        [close(conn), failed(1, SendError::remote_error(Errno::EIO))]
    );
}
