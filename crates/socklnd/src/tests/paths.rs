//! Paths that fail and recover: lnet-behaviour §8.8, §11.4, §14.1.

use super::*;
use fulmar_lnd::{CloseCause, DialError};

fn path(state: PathState) -> Output {
    Output::Path { ni: OURS, peer: HIGH, state }
}

/// Returns the outputs that report the path to `HIGH`, and all actions.
fn news_and_deeds(script: &mut Script) -> (Vec<PathState>, Vec<Output>) {
    let (mut news, mut actions) = (Vec::new(), Vec::new());
    for output in script.outputs() {
        match output {
            Output::Path { state: reported, .. } => news.push(reported),
            Output::Notice(_) => {}
            deed => actions.push(deed),
        }
    }
    (news, actions)
}

/// Retires a set of connections by a stall, and returns the attempt at a new one.
fn stalled(script: &mut Script) -> ([ConnId; 3], ConnId) {
    let all = script.opens_all(HIGH);
    script.machine.handle_stalled(script.now, all[2]);
    let (news, actions) = news_and_deeds(script);
    assert_eq!(news, [PathState::Stalled]);
    let [Output::Stream(Stream::Dial { conn, .. })] = actions[..] else { panic!("{actions:#?}") };
    (all, conn)
}

#[test]
fn a_path_is_up_with_its_first_connection_and_down_with_its_last() {
    let mut script = Script::new();
    script.call(&hello(HIGH, ConnKind::CONTROL, Version::V3));
    assert_eq!(news_and_deeds(&mut script).0, [PathState::Up]);
    let second = script.call(&hello(HIGH, ConnKind::BULK_IN, Version::V3));
    assert_eq!(news_and_deeds(&mut script).0, []);
    script.machine.handle_closed(script.now, second, CloseCause::ReadError(Errno::ECONNRESET));
    assert_eq!(news_and_deeds(&mut script).0, [PathState::Down]);
}

#[test]
fn a_disconnected_peer_is_not_reported_as_down() {
    let mut script = Script::new();
    script.opens_all(HIGH);
    script.machine.close_peer(script.now, HIGH);
    assert_eq!(news_and_deeds(&mut script).0, []);
}

#[test]
fn written_messages_stay_and_new_ones_wait_for_a_new_connection() {
    let mut script = Script::new();
    let all = script.opens_all(HIGH);
    script.send(HIGH, 2, 5000);
    script.actions();
    script.machine.handle_sent(script.now, all[2], 100);
    script.machine.handle_stalled(script.now, all[2]);
    let dial = script.dialled();
    script.send(HIGH, 3, 0);
    script.expect_nothing();
    // The path recovers: the old connections continue with their messages.
    script.machine.handle_sent(script.now, all[2], 5000 + 96 - 100);
    script.expect(Output::Sent { message: MessageId(2), result: Ok(()) });
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::CONTROL, Version::V3));
    let (news, actions) = news_and_deeds(&mut script);
    assert_eq!(news, [PathState::Up]);
    let [Output::Stream(Stream::Write { conn, .. }), Output::Stream(Stream::Dial { .. })] =
        actions[..]
    else {
        panic!("{actions:#?}")
    };
    assert_eq!(conn, dial, "the queued message is sent on the new connection");
    script.feed(all[0], &message(HIGH, Version::V3, Order::Little, FrameHeader::lnet(), 0));
    assert!(
        matches!(script.actions()[..], [Output::Received(_)]),
        "a retired connection still receives"
    );
}

#[test]
fn a_stall_is_reported_once_and_not_for_retired_connections() {
    let mut script = Script::new();
    let (all, dial) = stalled(&mut script);
    script.machine.handle_stalled(script.now, all[0]);
    script.machine.handle_stalled(script.now, dial);
    script.expect_nothing();
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::CONTROL, Version::V3));
    script.dialled();
    script.machine.handle_stalled(script.now, all[1]);
    assert_eq!(news_and_deeds(&mut script).0, []);
    script.send(HIGH, 2, 0);
    assert_eq!(script.written().0, dial, "the new connection does not suffer from the old one");
}

#[test]
fn a_stalled_path_is_dialled_every_four_seconds_for_a_minute() {
    let mut script = Script::new();
    let (_, mut dial) = stalled(&mut script);
    let began = script.now;
    script.send(HIGH, 2, 0);
    let (mut attempts, mut reported) = (Vec::new(), Vec::new());
    while script.now < began + Duration::from_secs(70) {
        script.wait(Duration::from_millis(500));
        let (news, actions) = news_and_deeds(&mut script);
        reported.extend(news.into_iter().map(|news| (news, script.now)));
        for deed in actions {
            match deed {
                Output::Stream(Stream::Dial { conn, .. }) => {
                    attempts.push(script.now);
                    dial = conn;
                }
                Output::Stream(Stream::Close { conn, .. }) => {
                    assert_eq!(conn, dial, "an attempt ends")
                }
                Output::Sent { message, result } => {
                    assert!(script.now >= began + Duration::from_secs(50));
                    let error = SendError::remote_dropped(Errno::ETIMEDOUT);
                    assert_eq!((message, result), (MessageId(2), Err(error)));
                }
                deed => panic!("{deed:?}"),
            }
        }
    }
    for pair in attempts.windows(2).filter(|pair| pair[1] < began + Duration::from_secs(60)) {
        assert!(pair[1].since(pair[0]) <= Duration::from_secs(4), "{pair:?}");
    }
    assert!(attempts.len() >= 15, "{attempts:?}");
    let [(PathState::Down, at)] = reported[..] else { panic!("{reported:?}") };
    assert!((60..66).contains(&at.since(began).as_secs()), "{at}");
    script.send(HIGH, 3, 0);
    let actions = script.actions();
    let fails = failed(3, SendError::remote_dropped(Errno::EHOSTUNREACH));
    assert!(actions.is_empty() || actions == [fails], "{actions:?}");
}

#[test]
fn a_refused_connection_ends_frequent_dialling() {
    let mut script = Script::new();
    let (_, dial) = stalled(&mut script);
    script.send(HIGH, 2, 0);
    let refused = Errno::ECONNREFUSED;
    script.machine.handle_dialled(script.now, dial, Err(DialError(refused)));
    let outputs = script.outputs();
    assert_eq!(
        outputs[1..],
        [path(PathState::Down), failed(2, SendError::remote_dropped(refused))]
    );
}

#[test]
fn a_peer_that_only_dialled_us_is_dialled_after_a_stall() {
    let mut script = Script::new();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.machine.handle_stalled(script.now, conn);
    script.dialled();
}

/// Has a peer refuse an attempt, and returns the actions after it.
fn refuse(script: &mut Script, dial: ConnId) -> Vec<Output> {
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::NONE, Version::V3));
    let mut actions = script.actions();
    assert_eq!(actions.remove(0), close(dial));
    actions
}

/// Has a peer refuse so many attempts, and returns the next one.
fn refused(script: &mut Script, mut dial: ConnId, times: usize) -> ConnId {
    for _ in 0..times {
        assert_eq!(refuse(script, dial), []);
        script.wait(Duration::from_millis(250));
        dial = script.dialled();
    }
    dial
}

/// Lets an outage last. Returns the attempt that is under way then.
fn outage(script: &mut Script, mut dial: ConnId, seconds: u64) -> ConnId {
    let end = script.now + Duration::from_secs(seconds);
    while script.now < end {
        script.wait(Duration::from_millis(500));
        for deed in script.actions() {
            if let Output::Stream(Stream::Dial { conn, .. }) = deed {
                dial = conn;
            }
        }
    }
    dial
}

#[test]
fn retired_connections_are_closed_if_the_peer_counts_them() {
    let mut script = Script::new();
    let (all, dial) = stalled(&mut script);
    // The peer may be dialling itself for as long as one attempt takes.
    let dial = refused(&mut script, dial, 12);
    assert_eq!(refuse(&mut script, dial), all.map(close));
    script.wait_secs(1);
    script.opens(HIGH, ConnKind::CONTROL);
    assert!(script.outputs().contains(&path(PathState::Up)));
}

#[test]
fn retired_connections_are_not_closed_before_the_tcp_of_the_peer_has_tried_again() {
    for (seconds, refusals) in [(8, 45), (16, 76), (40, 76)] {
        let mut script = Script::new();
        let (all, dial) = stalled(&mut script);
        // It had arrived before, and is read now.
        script.wait(Duration::from_millis(100));
        script.feed(all[1], &noop([0, 1]));
        let dial = outage(&mut script, dial, seconds);
        let dial = refused(&mut script, dial, refusals);
        assert_eq!(refuse(&mut script, dial), all.map(close), "{seconds} s");
    }
}

#[test]
fn retired_connections_are_used_again_if_the_peer_counts_them_and_is_heard_on_one() {
    let mut script = Script::new();
    let (all, dial) = stalled(&mut script);
    let dial = outage(&mut script, dial, 8);
    script.send(HIGH, 2, 0);
    let dial = refused(&mut script, dial, 1);
    script.feed(all[1], &noop([0, 1]));
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::NONE, Version::V3));
    let (news, actions) = news_and_deeds(&mut script);
    assert_eq!((news, &actions[0]), (vec![PathState::Up], &close(dial)));
    let [Output::Stream(Stream::Write { conn, .. })] = actions[1..] else { panic!("{actions:#?}") };
    assert_eq!(conn, all[0], "what has waited is sent");
    script.wait_secs(10);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 3);
}

#[test]
fn refusals_before_an_outage_say_nothing_about_it() {
    let mut script = Script::new();
    let (all, dial) = stalled(&mut script);
    let dial = refused(&mut script, dial, 8);
    script.feed(all[1], &noop([0, 1]));
    refuse(&mut script, dial);
    script.wait_secs(10);
    script.machine.handle_stalled(script.now, all[2]);
    let dial = script.dialled();
    refused(&mut script, dial, 1);
    assert_eq!(script.machine.conns().len(), 3, "none is closed");
}

#[test]
fn the_end_of_a_retired_connection_affects_no_others() {
    let mut script = Script::new();
    let (all, dial) = stalled(&mut script);
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::CONTROL, Version::V3));
    script.dialled();
    script.machine.handle_closed(script.now, all[0], CloseCause::ReadError(Errno::ETIMEDOUT));
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 3);
    script.machine.handle_closed(script.now, dial, CloseCause::Eof);
    assert!(!script.outputs().contains(&close(all[1])));
}

#[test]
fn retired_connections_time_out_or_are_used_again() {
    let mut script = Script::with(Config { keepalive: Duration::ZERO, ..Config::default() });
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.machine.handle_stalled(script.now, conn);
    let dial = script.dialled();
    script.machine.handle_dialled(script.now, dial, Err(DialError(Errno::ECONNREFUSED)));
    let mut closed = None;
    for second in 0..400 {
        for deed in script.actions() {
            match deed {
                Output::Stream(Stream::Dial { conn, .. }) => {
                    let refused = Err(DialError(Errno::ECONNREFUSED));
                    script.machine.handle_dialled(script.now, conn, refused);
                }
                deed if deed == close(conn) => closed = Some(second),
                deed => panic!("{deed:?}"),
            }
        }
        script.wait_secs(1);
    }
    assert!(closed.is_some_and(|second| (200..=260).contains(&second)), "{closed:?}");

    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.machine.handle_stalled(script.now, conn);
    let dial = script.dialled();
    script.connected(dial);
    script.wait_secs(1);
    script.answer(dial, &hello(HIGH, ConnKind::CONTROL, Version::V3));
    script.feed(conn, &noop([0, 1]));
    script.actions();
    script.wait_secs(60);
    script.actions();
    script.machine.handle_closed(script.now, dial, CloseCause::Eof);
    assert!(script.actions().contains(&close(conn)), "it is a sibling again");
}

#[test]
fn an_irreplaceable_connection_is_used_again_when_it_recovers() {
    // A peer on an unprivileged port whose NID has another address cannot be dialled.
    let mut script = Script::with(open_to_all());
    let conn = script.accepted_from(addr(LOW, 40_000)).unwrap();
    let mut bytes = request(OURS);
    hello(HIGH, ConnKind::ANY, Version::V2).encode(Order::Little, &mut bytes);
    script.feed(conn, &bytes);
    script.actions();
    let peer = script.machine.peers()[0].peer;
    let mut answer = put(peer.nid, 1, 0);
    answer.header.target_pid = peer.pid;
    script.machine.handle_stalled(script.now, conn);
    script.wait_secs(1);
    script.feed(conn, &message(HIGH, Version::V2, Order::Little, FrameHeader::lnet(), 0));
    script.judge(conn, inline(0));
    script.actions();
    script.wait_secs(4);
    script.machine.send(script.now, answer);
    assert_eq!(script.written().0, conn);
}

#[test]
fn a_live_connection_is_used_again_where_dials_are_refused() {
    let mut script = Script::with(Config { keepalive: Duration::ZERO, ..Config::default() });
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.machine.handle_stalled(script.now, conn);
    let mut up = false;
    for second in 0..120 {
        for output in script.outputs() {
            if let Output::Stream(Stream::Dial { conn, .. }) = output {
                let refused = Err(DialError(Errno::ECONNREFUSED));
                script.machine.handle_dialled(script.now, conn, refused);
            }
            up |= output == path(PathState::Up);
        }
        if second == 30 {
            script.feed(conn, &noop([0, 1]));
        }
        script.wait_secs(1);
    }
    assert!(up, "the owner is notified that the path is up");
    script.send(HIGH, 1, 0);
    assert_eq!(script.written().0, conn);
}

#[test]
fn a_message_is_lost_or_perhaps_delivered_by_its_last_byte() {
    let mut script = Script::new();
    let [control, _, bulk_out] = script.opens_all(HIGH);
    script.send(HIGH, 2, 0);
    script.send(HIGH, 3, 0);
    script.actions();
    script.machine.handle_closed(script.now, bulk_out, CloseCause::Eof);
    // The socket had accepted the first message and half of the second before it was closed.
    let mut said = Vec::new();
    while let Some(output) = script.machine.poll_output() {
        if output == close(control) {
            script.machine.handle_stopped(script.now, control, 96 + 40);
        } else if matches!(output, Output::Sent { .. }) {
            said.push(output);
        }
    }
    let lost = failed(3, SendError::remote_dropped(Errno::ECONNRESET));
    assert_eq!(said, [Output::Sent { message: MessageId(2), result: Ok(()) }, lost]);
}

#[test]
fn link_down_retires_connections_and_fails_waiting_messages() {
    let mut script = Script::new();
    script.opens_all(HIGH);
    script.send(LOW, 2, 0);
    let attempt = script.dialled();
    script.machine.handle_link(script.now, OURS, false);
    let lost = SendError::local_dropped(Errno::ENETDOWN);
    assert_eq!(news_and_deeds(&mut script), (vec![], vec![close(attempt), failed(2, lost)]));
    script.machine.handle_link(script.now, OURS, false);
    script.wait_secs(100);
    script.expect_nothing();
    // If the owner sends anyway, it is soon notified.
    script.send(HIGH, 3, 0);
    let attempt = script.dialled();
    script.wait_secs(3);
    let actions = script.actions();
    let lost = SendError::local_dropped(Errno::ETIMEDOUT);
    assert_eq!(actions, [close(attempt), failed(3, lost)]);
    script.send(HIGH, 4, 0);
    script.expect(failed(4, SendError::local_dropped(Errno::ENETDOWN)));
}

#[test]
fn link_up_dials_all_peers_that_were_connected() {
    let mut script = Script::new();
    let all = script.opens_all(HIGH);
    script.machine.handle_link(script.now, OURS, false);
    script.actions();
    // Even if the outage was so long that no connection is left.
    for conn in all {
        script.machine.handle_closed(script.now, conn, CloseCause::ReadError(Errno::ETIMEDOUT));
    }
    script.wait_secs(3_000);
    script.expect_nothing();
    script.machine.handle_link(script.now, OURS, true);
    let first = script.dialled();
    // The network may need a moment longer than the link.
    script.machine.handle_dialled(script.now, first, Err(DialError(Errno::ENETUNREACH)));
    script.wait_secs(1);
    script.opens(HIGH, ConnKind::CONTROL);
    let (news, _) = news_and_deeds(&mut script);
    assert_eq!(news, [PathState::Up]);
}

#[test]
fn a_short_link_outage_keeps_the_connections() {
    let mut script = Script::new();
    let [control, ..] = script.opens_all(HIGH);
    for _ in 0..50 {
        script.machine.handle_link(script.now, OURS, false);
        script.wait(Duration::from_millis(1_900));
        script.machine.handle_link(script.now, OURS, true);
        assert_eq!(news_and_deeds(&mut script), (vec![PathState::Up], vec![]));
    }
    script.send(HIGH, 2, 0);
    assert_eq!(script.written().0, control);
}

#[test]
fn repeatedly_failing_paths_keep_a_bounded_number_of_connections() {
    let mut script = Script::new();
    script.opens_all(HIGH);
    for _ in 0..100 {
        script.machine.handle_link(script.now, OURS, false);
        script.wait_secs(3);
        script.actions();
        script.machine.handle_link(script.now, OURS, true);
        for kind in [ConnKind::CONTROL, ConnKind::BULK_IN, ConnKind::BULK_OUT] {
            script.opens(HIGH, kind);
        }
        script.expect_nothing();
    }
    assert_eq!(script.machine.conns().len(), 27, "eight sets that are retired, and one");
}

#[test]
fn link_up_clears_failures() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ENETUNREACH)));
    script.actions();
    script.machine.handle_link(script.now, OURS, false);
    script.machine.handle_link(script.now, OURS, true);
    script.expect_nothing();
    script.send(HIGH, 2, 0);
    script.dialled();
}

#[test]
fn an_interface_can_be_removed_while_its_link_is_down() {
    let mut script = Script::new();
    let all = script.opens_all(HIGH);
    script.machine.handle_link(script.now, OURS, false);
    script.machine.remove_ni(script.now, OURS);
    let actions = script.actions();
    assert!(all.iter().all(|conn| actions.contains(&close(*conn))));
    assert_eq!((script.machine.peers(), script.machine.poll_timeout()), (vec![], None));
    script.machine.add_ni(Time::ZERO, &ni(OURS));
    script.send(HIGH, 3, 0);
    script.opens(HIGH, ConnKind::CONTROL);
}

#[test]
fn a_late_acknowledgement_for_a_retired_connection_is_accepted() {
    let mut script = Script::with(Config { zc_min_payload: Some(16_384), ..Config::default() });
    let all = script.opens_all(HIGH);
    script.send(HIGH, 2, 1 << 20);
    assert_eq!(script.written().0, all[2]);
    script.machine.handle_stalled(script.now, all[2]);
    let dial = script.dialled();
    script.connected(dial);
    script.answer(dial, &hello(HIGH, ConnKind::CONTROL, Version::V3));
    script.dialled();
    script.machine.handle_closed(script.now, all[2], CloseCause::ReadError(Errno::ECONNRESET));
    script.expect(failed(2, SendError::remote_error(Errno::EIO)));
    // The peer had received it, and has only this connection left to acknowledge it.
    script.feed(dial, &noop([0, 2]));
    script.expect_nothing();
    let counters = script.machine.counters();
    assert_eq!((counters.late_cookies, counters.unknown_cookies), (1, 0));
    script.feed(dial, &noop([0, 3]));
    assert!(script.actions().contains(&close(dial)), "cookie 3 was never used");
    assert_eq!(script.machine.counters().unknown_cookies, 1);
}
