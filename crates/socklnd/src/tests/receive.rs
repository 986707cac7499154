//! Receiving: lnet-wire §5.7, §6.1 to §6.5.

use super::*;
use fulmar_base::{BufferId, Span};
use fulmar_wire::DecodeError;

const ALL: [Version; 4] = [Version::V1, Version::V2, Version::V3, Version::V4];

fn framed(len: u32) -> Vec<u8> {
    message(HIGH, Version::V3, Order::Little, FrameHeader::lnet(), len)
}

fn span(len: u32) -> Sink {
    Sink::Span(Span { buffer: BufferId(1), offset: 100, len })
}

/// A machine with a connection to `HIGH` in version 3.
fn open() -> (Script, ConnId) {
    let mut script = Script::with(Config { keepalive: Duration::ZERO, ..Config::default() });
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    (script, conn)
}

/// Feeds a protocol violation, and requires that it ends the connection and its sibling.
#[track_caller]
fn breaks(version: Version, bytes: &[u8], notice: impl FnOnce(SocketAddr) -> Notice) {
    let mut script = Script::new();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, version);
    let sibling = script.opened_by(HIGH, ConnKind::BULK_IN, version);
    script.feed(conn, bytes);
    let outputs = script.expect_notice(&notice(addr(HIGH, 1023)));
    assert!(outputs.contains(&close(conn)) && outputs.contains(&close(sibling)));
    assert_eq!(script.machine.conns(), []);
}

#[test]
fn a_message_is_received_in_any_pieces_in_every_version_and_order() {
    for version in ALL {
        for order in [Order::Little, Order::Big] {
            let bytes = message(HIGH, version, order, FrameHeader::lnet(), 5);
            for chunk in 1..=bytes.len() {
                let mut script = Script::new();
                let conn = script.accepted(HIGH);
                script.feed(conn, &request(OURS));
                let mut greeting = Vec::new();
                hello(HIGH, ConnKind::CONTROL, version).encode(order, &mut greeting);
                script.feed(conn, &greeting);
                script.actions();
                let (mut at, mut judged) = (0, false);
                while at < bytes.len() {
                    let end = bytes.len().min(at + chunk);
                    at += script.feed(conn, &bytes[at..end]);
                    if !judged && script.machine.need(conn) == Need::Verdict {
                        let header = put_header(HIGH, OURS, 9, 5);
                        let from = ProcessId::lustre(HIGH);
                        script.expect(Output::Received(Received {
                            conn,
                            ni: OURS,
                            from: from.nid,
                            header,
                        }));
                        script.judge(conn, inline(5));
                        judged = true;
                    }
                }
                script.expect(completed(conn, Ok(vec![0, 1, 2, 3, 4])));
            }
        }
    }
}

#[test]
fn an_empty_message_is_complete_with_its_verdict() {
    let (mut script, conn) = open();
    script.feed(conn, &framed(0));
    script.actions();
    assert_eq!(script.machine.need(conn), Need::Verdict);
    script.judge(conn, Verdict::Receive(Sink::Discard { len: 0 }));
    script.expect(completed(conn, Ok(Vec::new())));
}

#[test]
fn payload_is_stored_and_the_excess_is_discarded() {
    let (mut script, conn) = open();
    let bytes = framed(1000);
    assert_eq!(script.feed(conn, &bytes), 96);
    script.actions();
    script.judge(conn, Verdict::Receive(span(600)));
    assert_eq!(script.machine.need(conn), Need::Payload { sink: span(600), crc: None });
    script.feed(conn, &bytes[96..196]);
    let rest = Sink::Span(Span { buffer: BufferId(1), offset: 200, len: 500 });
    assert_eq!(script.machine.need(conn), Need::Payload { sink: rest, crc: None });
    script.feed(conn, &bytes[196..696]);
    let sink = Sink::Discard { len: 400 };
    assert_eq!(script.machine.need(conn), Need::Payload { sink, crc: None });
    script.expect_nothing();
    script.feed(conn, &bytes[696..]);
    script.expect(completed(conn, Ok(Vec::new())));
    assert_eq!(script.machine.counters().payload_received, 1000);
}

#[test]
fn a_message_that_waits_is_not_read_and_does_not_stall() {
    let (mut script, conn) = open();
    script.feed(conn, &framed(10));
    script.actions();
    script.judge(conn, Verdict::Wait);
    assert_eq!(script.machine.need(conn), Need::Wait);
    assert_eq!(script.feed(conn, &[0; 10]), 0);
    script.wait_secs(1_000);
    script.expect_nothing();
    script.judge(conn, Verdict::Wait);
    script.judge(conn, inline(10));
    script.feed(conn, &framed(10)[96..]);
    assert!(script.actions().contains(&completed(conn, Ok((0..10).collect()))));
}

#[test]
fn a_rejected_message_ends_the_connection_and_its_siblings() {
    let (mut script, conn) = open();
    let sibling = script.opened_by(HIGH, ConnKind::BULK_IN, Version::V3);
    script.feed(conn, &framed(10));
    script.feed(sibling, &framed(10));
    script.actions();
    script.judge(sibling, Verdict::Wait);
    script.judge(conn, Verdict::Reject);
    let gone = completed(sibling, Err(Errno::EPROTO));
    assert_eq!(script.actions(), [close(conn), close(sibling), gone]);
}

#[test]
fn a_message_that_is_cut_off_by_the_end_has_failed() {
    for verdict in [Verdict::Wait, Verdict::Receive(span(10)), inline(10)] {
        let (mut script, conn) = open();
        script.feed(conn, &framed(10));
        script.actions();
        script.judge(conn, verdict);
        script.machine.handle_closed(script.now, conn, fulmar_lnd::CloseCause::Eof);
        script.expect(completed(conn, Err(Errno::ECONNRESET)));
        script.machine.handle_payload(script.now, conn, 5, None);
        script.machine.handle_sent(script.now, conn, 5);
        script.expect_nothing();
    }
}

#[test]
fn a_verdict_on_a_connection_that_has_ended_fails_the_message() {
    for (verdict, fails) in [(Verdict::Wait, true), (inline(10), true), (Verdict::Reject, false)] {
        let (mut script, conn) = open();
        script.feed(conn, &framed(10));
        script.actions();
        script.machine.handle_closed(script.now, conn, fulmar_lnd::CloseCause::Eof);
        script.expect_nothing();
        script.judge(conn, verdict);
        let failed = completed(conn, Err(Errno::ECONNRESET));
        assert_eq!(script.actions(), if fails { vec![failed] } else { vec![] });
    }
}

#[test]
fn a_peer_that_stops_within_a_message_times_out() {
    let (mut script, conn) = open();
    script.wait_secs(25);
    script.feed(conn, &framed(10)[..3]);
    script.wait_secs(49);
    script.machine.handle_bytes(script.now, conn, &framed(10)[3..96]);
    script.judge(conn, Verdict::Receive(span(10)));
    script.actions();
    script.wait_secs(49);
    script.expect_nothing();
    script.wait_secs(1);
    assert_eq!(script.actions(), [close(conn), completed(conn, Err(Errno::ETIMEDOUT))]);
}

#[test]
fn idle_connections_live_for_ever() {
    let (mut script, _) = open();
    script.wait_secs(1_000_000);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 1);
}

#[test]
fn every_zero_copy_request_is_acknowledged_once_on_its_connection_after_the_payload() {
    for (verdict, result) in [
        (inline(4), Ok(vec![0, 1, 2, 3])),
        (Verdict::Receive(span(4)), Ok(vec![])),
        (Verdict::Receive(span(2)), Ok(vec![])),
        (Verdict::Receive(Sink::Discard { len: 4 }), Ok(vec![])),
        (Verdict::Receive(Sink::Discard { len: 0 }), Ok(vec![])),
    ] {
        for version in [Version::V2, Version::V3, Version::V4] {
            let mut script = Script::new();
            script.opened_by(HIGH, ConnKind::CONTROL, version);
            let conn = script.opened_by(HIGH, ConnKind::BULK_IN, version);
            let frame = FrameHeader { cookies: [0x2a, 0], ..FrameHeader::lnet() };
            let bytes = message(HIGH, version, Order::Little, frame, 4);
            let used = script.feed(conn, &bytes);
            script.actions();
            script.judge(conn, verdict);
            script.feed(conn, &bytes[used..bytes.len() - 1]);
            script.expect_nothing();
            script.feed(conn, &bytes[bytes.len() - 1..]);
            let (payload, head) = (Payload::Empty, noop([0, 0x2a]));
            let ack = Output::Stream(Stream::Write { conn, head, payload, checksum: false });
            assert_eq!(script.actions(), [completed(conn, result.clone()), ack]);
            assert_eq!(script.machine.counters().zc_acks_sent, 1);
        }
    }
}

#[test]
fn a_peer_that_never_reads_acknowledgements_is_disconnected() {
    let (mut script, conn) = open();
    let frame = FrameHeader { cookies: [7, 0], ..FrameHeader::lnet() };
    let bytes = message(HIGH, Version::V3, Order::Little, frame, 0);
    let mut messages = 0;
    while script.machine.need(conn) != Need::Nothing {
        script.feed(conn, &bytes);
        script.judge(conn, inline(0));
        messages += 1;
        assert!(messages < 10_000);
    }
    assert_eq!(messages, 4097);
}

#[test]
fn unrequested_acknowledgements_violate_the_protocol() {
    for version in [Version::V2, Version::V3, Version::V4] {
        let pair = if version == Version::V2 { 2 } else { 4 };
        for (cookies, cookie) in [([0, 5], 5), ([2, 4], 4), ([4, 2], pair)] {
            breaks(version, &noop(cookies), |remote| Notice::UnknownCookie { remote, cookie });
        }
        let frame = FrameHeader { cookies: [0, 5], ..FrameHeader::lnet() };
        let bytes = message(HIGH, version, Order::Little, frame, 0);
        breaks(version, &bytes, |remote| Notice::UnknownCookie { remote, cookie: 5 });
    }
    let keepalive = noop([0, 1]);
    breaks(Version::V2, &keepalive, |remote| Notice::UnknownCookie { remote, cookie: 1 });
}

#[test]
fn invalid_messages_violate_the_protocol() {
    let range = |field, got| {
        move |remote| Notice::Malformed { remote, error: DecodeError::Range { field, got } }
    };
    breaks(Version::V3, &[0xc2; 24], range("frame.kind", 0xc2c2_c2c2));
    breaks(Version::V3, &noop([0, 0]), range("frame.cookie1", 0));
    let mut bytes = framed(0);
    bytes[24 + 24] = 4; // HELLO
    breaks(Version::V3, &bytes, range("lnet.type", 4));
    breaks(Version::V1, &[4; 72], range("lnet.type", 0x0404_0404));
}

#[test]
fn keepalives_may_come_in_any_number_and_anywhere_between_messages() {
    let (mut script, conn) = open();
    let bytes = [noop([0, 1]), noop([0, 1]), framed(0)].concat();
    script.feed(conn, &bytes[..30]);
    script.feed(conn, &bytes[30..]);
    assert!(matches!(script.actions()[..], [Output::Received(_)]));
    assert_eq!(script.machine.counters().keepalives_received, 2);
}

/// A message whose frame carries the checksum of `covered`.
fn checked(version: Version, len: u32, wrong: bool) -> Vec<u8> {
    let mut bytes = message(HIGH, version, Order::Little, FrameHeader::lnet(), len);
    let covered = match version {
        Version::V2 => checksum::of(&bytes, b""),
        _ => checksum::of(b"", &bytes[bytes.len() - len as usize..]),
    };
    let sum = if wrong { covered ^ 0x100 } else { covered };
    FrameHeader::set_checksum(&mut bytes, sum);
    bytes
}

#[test]
fn checksums_are_verified_wherever_the_payload_goes() {
    for version in [Version::V2, Version::V3, Version::V4] {
        for (len, verdict) in [(0, inline(0)), (9, inline(9)), (5000, Verdict::Receive(span(5000)))]
        {
            for wrong in [false, true] {
                let mut script = Script::new();
                let conn = script.opened_by(HIGH, ConnKind::CONTROL, version);
                let bytes = checked(version, len, wrong);
                let used = script.feed(conn, &bytes);
                if script.machine.need(conn) == Need::Verdict {
                    script.judge(conn, verdict);
                    for piece in bytes[used..].chunks(700) {
                        script.feed(conn, piece);
                    }
                }
                let counters = script.machine.counters();
                assert_eq!(counters.checksum_errors, u64::from(wrong), "{version:?} {len}");
                assert_eq!(script.machine.conns().is_empty(), wrong);
                let actions = script.actions();
                if wrong && len > 0 {
                    assert!(actions.contains(&completed(conn, Err(Errno::EPROTO))));
                }
            }
        }
    }
}

#[test]
fn truncated_payload_is_not_checked() {
    for verdict in [Verdict::Receive(span(8)), Verdict::Receive(Sink::Discard { len: 9 })] {
        let mut script = Script::new();
        let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V2);
        let bytes = checked(Version::V2, 9, true);
        let used = script.feed(conn, &bytes);
        script.judge(conn, verdict);
        script.feed(conn, &bytes[used..]);
        assert!(script.actions().contains(&completed(conn, Ok(Vec::new()))));
    }
}

#[test]
fn the_checksum_of_a_keepalive_covers_nothing_but_is_compared() {
    let frame = |checksum| FrameHeader { checksum, ..FrameHeader::acknowledge(1) };
    let (mut script, conn) = open();
    let mut bytes = Vec::new();
    frame(0xffff_ffff).encode(Order::Little, &mut bytes);
    script.feed(conn, &bytes);
    assert_eq!(script.machine.counters().keepalives_received, 1);
    bytes.clear();
    frame(7).encode(Order::Little, &mut bytes);
    let expected = 7;
    breaks(Version::V3, &bytes, |remote| Notice::Checksum { remote, expected, got: 0xffff_ffff });
}
