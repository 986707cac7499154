//! Limits against misbehaving peers.

use super::*;
use fulmar_base::Rng;
use fulmar_lnd::CloseCause;

#[test]
fn silent_peers_are_cheap_harmless_and_time_out() {
    let config =
        Config { handshakes_max: 20_000, handshakes_per_address: 20_000, ..Config::default() };
    let mut script = Script::with(config);
    for caller in 0..10_000u32 {
        let nid = Nid::small(Net::TCP, 0x0b00_0000 | caller);
        assert!(script.accepted_from(addr(nid, 1000)).is_some());
    }
    script.wait_secs(3);
    let conn = script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    script.send(LOW, 1, 0);
    assert_eq!(script.written().0, conn);
    script.actions();
    script.wait_secs(2);
    let closed = script.actions();
    assert_eq!(closed.len(), 10_000);
    assert_eq!(script.machine.counters().silent, 10_000);
    assert_eq!(script.machine.conns().len(), 1);
    let conn = size_of::<crate::conn::Conn>();
    assert!(conn <= 384, "a connection takes {conn} bytes");
}

#[test]
fn the_oldest_silent_connection_of_an_address_gives_way() {
    let config = Config { handshakes_per_address: 2, ..Config::default() };
    let mut script = Script::with(config);
    let [first, second] = [(); 2].map(|()| script.accepted(LOW));
    let third = script.accepted(LOW);
    let outputs = script.expect_notice(&Notice::TooManyHandshakes { remote: addr(LOW, 1023) });
    assert!(outputs.contains(&close(first)), "{outputs:?}");
    assert_eq!(script.machine.counters().refused_handshakes, 1);
    // A place becomes free after a first message, a refusal and an end.
    let mut bytes = request(OURS);
    hello(LOW, ConnKind::CONTROL, Version::V3).encode(Order::Little, &mut bytes);
    script.feed(second, &bytes);
    script.talks(LOW, second);
    script.feed(third, b"nonsense");
    let fourth = script.accepted(LOW);
    script.machine.handle_closed(script.now, fourth, CloseCause::Eof);
    script.accepted(LOW);
    script.accepted(LOW);
    assert_eq!(script.machine.counters().refused_handshakes, 1);
    // Others are not affected.
    script.accepted(HIGH);
    assert_eq!(script.machine.counters().refused_handshakes, 1);
}

#[test]
fn messages_that_do_not_move_are_reported_when_credits_are_short() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    assert_eq!(script.waiting(), [1], "it waits for a connection");
    script.opened_by(LOW, ConnKind::CONTROL, Version::V3);
    script.waiting();
    script.send(LOW, 2, 0);
    script.machine.report_waiting(script.now, OURS);
    assert_eq!(script.waiting(), [], "the socket may accept it soon");
    script.wait(Duration::from_millis(20));
    assert_eq!(script.waiting(), [2]);
    script.send(LOW, 3, 0);
    assert_eq!(script.waiting(), [3], "the peer does not read");
    script.wait_secs(10);
    script.send(LOW, 4, 0);
    assert_eq!(script.waiting(), [], "it may read again");
    script.machine.report_waiting(script.now, OURS);
    assert_eq!(script.waiting(), [2, 3, 4]);
}

/// For any bytes in any pieces, with and without a valid start: nothing panics, and every message
/// that started ends.
#[test]
fn garbage_is_harmless() {
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let mut script = Script::with(open_to_all());
        let conn = script.accepted(LOW);
        let bytes = plausible(&mut rng);
        let mut at = 0;
        for _ in 0..500 {
            let end = bytes.len().min(at + rng.between(1, 200) as usize);
            at += script.feed(conn, &bytes[at..end]);
            if matches!(script.machine.need(conn), Need::Verdict | Need::Wait) {
                script.judge(conn, Verdict::Receive(Sink::Discard { len: 0 }));
            }
            if at == bytes.len() || script.machine.need(conn) == Need::Nothing {
                break;
            }
        }
        script.machine.handle_closed(script.now, conn, CloseCause::Eof);
        let begun_and_ended = |outputs: Vec<Output>| {
            let begun = outputs.iter().filter(|output| matches!(output, Output::Received(_)));
            let ended = outputs.iter().filter(|output| matches!(output, Output::Completed { .. }));
            (begun.count(), ended.count())
        };
        let (begun, mut ended) = begun_and_ended(script.actions());
        if begun > ended {
            // The connection ended before the verdict on the last message.
            script.judge(conn, Verdict::Wait);
            ended += begun_and_ended(script.actions()).1;
        }
        assert_eq!(begun, ended, "seed {seed}");
        assert_eq!(script.machine.need(conn), Need::Nothing);
        assert_eq!(script.machine.poll_timeout(), None, "seed {seed}");
    }
}

/// Returns a conversation that is valid at first, and then not.
fn plausible(rng: &mut Rng) -> Vec<u8> {
    let version = [Version::V1, Version::V2, Version::V3, Version::V4][rng.below(4) as usize];
    let order = if rng.one_in(2) { Order::Big } else { Order::Little };
    let kind = ConnKind(rng.below(5) as u32);
    let mut bytes = request(OURS);
    hello(LOW, kind, version).encode(order, &mut bytes);
    for _ in 0..rng.below(4) {
        let frame = FrameHeader { cookies: [rng.below(3), 0], ..FrameHeader::lnet() };
        bytes.extend(message(LOW, version, order, frame, rng.below(300) as u32));
    }
    for _ in 0..rng.below(6) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.u64() as u8;
    }
    bytes.truncate(bytes.len() - rng.below(bytes.len() as u64 / 2) as usize);
    for _ in 0..rng.below(200) {
        bytes.push(rng.u64() as u8);
    }
    bytes
}
