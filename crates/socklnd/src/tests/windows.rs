//! TCP windows that limit the throughput, and additional connections.

use super::*;

/// A machine that may open up to `conns_max` connections for bulk, and has the usual three.
fn opened(conns_max: u32) -> (Script, [ConnId; 3]) {
    let mut script = Script::new();
    script.machine.add_ni(Time::ZERO, &NiConfig { conns_max, ..ni(OURS) });
    let conns = script.opens_all(HIGH);
    (script, conns)
}

/// Returns a connection for sent bulk.
fn bulk_out(script: &Script) -> ConnId {
    let conns = script.machine.conns();
    conns.iter().find(|conn| conn.kind == ConnKind::BULK_OUT).unwrap().conn
}

fn limited(script: &mut Script, conn: ConnId) {
    script.machine.handle_window_limited(script.now, conn);
}

/// Lets the peer answer the following attempts; returns their kinds.
fn answer_all(script: &mut Script) -> Vec<ConnKind> {
    answer_all_after(script, Duration::ZERO)
}

/// The same over a path with this round trip.
fn answer_all_after(script: &mut Script, round_trip: Duration) -> Vec<ConnKind> {
    let mut kinds = Vec::new();
    while let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() {
        script.wait(round_trip);
        let kind = script.connected(conn).kind;
        let mirror = kind.mirror().unwrap();
        script.answer(conn, &hello(HIGH, mirror, Version::V3));
        kinds.push(kind);
    }
    kinds
}

#[test]
fn connections_for_sending_double_up_to_the_limit() {
    let (mut script, _) = opened(5);
    let bulk_out = bulk_out(&script);
    for (conns, more) in [(2, 1), (4, 2), (5, 1)] {
        limited(&mut script, bulk_out);
        assert_eq!(answer_all(&mut script), vec![ConnKind::BULK_OUT; more], "{conns}");
    }
    limited(&mut script, bulk_out);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 2 + 5);
}

#[test]
fn over_a_long_path_more_are_opened_before_there_is_traffic() {
    let kinds = |conns_max, round_trip| {
        let mut script = Script::new();
        script.machine.add_ni(Time::ZERO, &NiConfig { conns_max, ..ni(OURS) });
        script.send(HIGH, 1, 0);
        answer_all_after(&mut script, Duration::from_millis(round_trip))
    };
    let set = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];
    assert_eq!(kinds(32, 1), set);
    assert_eq!(kinds(1, 50), set, "the number is configured");
    let bulk = [ConnKind::BULK_IN, ConnKind::BULK_OUT];
    assert_eq!(kinds(32, 50), [&set[..], &bulk, &bulk, &bulk].concat());
    assert_eq!(kinds(2, 50), [&set[..], &bulk].concat());
}

/// A busy machine notices late that a connection is open.
#[test]
fn one_quick_connection_shows_that_a_path_is_short() {
    let mut script = Script::new();
    script.machine.add_ni(Time::ZERO, &NiConfig { conns_max: 32, ..ni(OURS) });
    script.send(HIGH, 1, 0);
    let mut kinds = Vec::new();
    for taken in [50, 1, 50, 50] {
        let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else { break };
        script.wait(Duration::from_millis(taken));
        let kind = script.connected(conn).kind;
        script.answer(conn, &hello(HIGH, kind.mirror().unwrap(), Version::V3));
        kinds.push(kind);
    }
    assert_eq!(kinds, [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT]);
}

#[test]
fn nothing_is_opened_for_other_kinds_or_where_the_number_is_configured() {
    let (mut script, _) = opened(8);
    for conn in script.machine.conns() {
        if conn.kind != ConnKind::BULK_OUT {
            limited(&mut script, conn.conn);
        }
    }
    script.expect_nothing();
    script.machine.set_conns_per_peer(OURS, 1);
    for conn in script.machine.conns() {
        limited(&mut script, conn.conn);
    }
    script.expect_nothing();
}

#[test]
fn the_next_ones_are_opened_when_the_last_ones_are_open() {
    let (mut script, _) = opened(8);
    let bulk_out = bulk_out(&script);
    limited(&mut script, bulk_out);
    let actions = script.actions();
    assert!(matches!(actions[..], [Output::Stream(Stream::Dial { .. })]), "{actions:?}");
    limited(&mut script, bulk_out);
    script.expect_nothing();
}

#[test]
fn a_peer_that_called_us_is_dialled_too() {
    let mut script = Script::new();
    script.machine.add_ni(Time::ZERO, &NiConfig { conns_max: 2, ..ni(OURS) });
    let kinds = [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT];
    for kind in kinds {
        script.opened_by(HIGH, kind, Version::V3);
    }
    let bulk_out = bulk_out(&script);
    limited(&mut script, bulk_out);
    assert_eq!(answer_all(&mut script), [ConnKind::BULK_OUT]);
}

#[test]
fn a_peer_that_refuses_more_is_left_alone() {
    let (mut script, _) = opened(8);
    let bulk_out = bulk_out(&script);
    limited(&mut script, bulk_out);
    for refusal in 1..=3 {
        let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else {
            panic!("{refusal}")
        };
        script.connected(conn);
        script.answer(conn, &hello(HIGH, ConnKind::NONE, Version::V3));
        script.expect(close(conn));
        script.wait_secs(1);
    }
    limited(&mut script, bulk_out);
    script.wait_secs(20);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 3, "open connections stay open");
}
