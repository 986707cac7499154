//! Dialling: lnet-wire §4.7, §5.2 to §5.6; lnet-behaviour §11.4.

use super::*;
use fulmar_lnd::{CloseCause, DialError};

#[test]
fn nothing_is_dialled_until_something_is_sent() {
    let mut script = Script::new();
    assert_eq!(script.machine.poll_timeout(), None);
    script.send(HIGH, 1, 0);
    let [Output::Stream(Stream::Dial { local, remote, .. })] = script.actions()[..] else {
        panic!()
    };
    assert_eq!((local, remote), (OURS.ip().unwrap(), addr(HIGH, 988)));
}

#[test]
fn connections_that_carry_bulk_may_have_a_port_of_their_own() {
    let config = Config { accept_port_bulk: Some(6989), ..Config::default() };
    assert_eq!(config.accept_ports().collect::<Vec<_>>(), [988, 6989]);
    let mut script = Script::with(config);
    script.send(HIGH, 1, 0);
    script.opens(HIGH, ConnKind::CONTROL);
    let Some(Output::Stream(Stream::Dial { remote, .. })) = script.actions().pop() else {
        panic!("the next connection is not dialled")
    };
    assert_eq!(remote, addr(HIGH, 6989));
    let same = Config { accept_port_bulk: Some(988), ..Config::default() };
    assert_eq!(same.accept_ports().collect::<Vec<_>>(), [988]);
}

#[test]
fn connections_are_opened_one_after_the_other() {
    let mut script = Script::new();
    script.machine.set_conns_per_peer(OURS, 2);
    script.send(HIGH, 1, 0);
    script.opens(HIGH, ConnKind::CONTROL);
    let first = script.actions();
    assert!(
        matches!(
            first[..],
            [Output::Stream(Stream::Write { .. }), Output::Stream(Stream::Dial { .. })]
        ),
        "{first:#?}"
    );
    // Took the dial above: continue manually.
    let Output::Stream(Stream::Dial { conn, .. }) = first[1] else { panic!() };
    let ours = script.connected(conn);
    assert_eq!(ours.kind, ConnKind::BULK_IN);
    script.answer(conn, &hello(HIGH, ConnKind::BULK_OUT, Version::V3));
    script.opens(HIGH, ConnKind::BULK_OUT);
    script.opens(HIGH, ConnKind::BULK_IN);
    script.opens(HIGH, ConnKind::BULK_OUT);
    script.expect_nothing();
    assert_eq!(script.machine.conns().len(), 5);
    assert!(script.machine.peers()[0].dials);
}

#[test]
fn a_peer_that_called_us_is_not_dialled() {
    let mut script = Script::new();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.send(HIGH, 1, 4096);
    assert_eq!(script.written().0, conn);
    script.wait_secs(25);
    script.expect(Output::Sent { message: MessageId(1), result: Ok(()) });
    assert!(!script.machine.peers()[0].dials);
}

#[test]
fn a_connection_from_another_address_carries_messages_outside_the_set() {
    let mut script = Script::with(two_addresses());
    script.opens_all(HIGH);
    // A second rail of the peer; then the first fails.
    let conn = script.accepted_from("10.0.7.7:1000".parse().unwrap()).unwrap();
    let mut bytes = request(OURS);
    hello(HIGH, ConnKind::CONTROL, Version::V3).encode(Order::Little, &mut bytes);
    script.feed(conn, &bytes);
    script.actions();
    let first = script.machine.conns()[0].conn;
    script.machine.handle_closed(script.now, first, CloseCause::Eof);
    let actions = script.actions();
    assert!(matches!(
        actions[..],
        [
            Output::Stream(Stream::Close { .. }),
            Output::Stream(Stream::Close { .. }),
            Output::Stream(Stream::Dial { .. })
        ]
    ));
    script.send(HIGH, 7, 0);
    assert_eq!(script.written().0, conn);
}

#[test]
fn the_classes_of_a_failure_to_connect() {
    let dropped = SendError::remote_dropped;
    for (errno, error) in [
        (Errno::ECONNREFUSED, dropped(Errno::ECONNREFUSED)),
        (Errno::EHOSTUNREACH, dropped(Errno::EHOSTUNREACH)),
        (Errno::ENETUNREACH, dropped(Errno::ENETUNREACH)),
        (Errno::ENETDOWN, dropped(Errno::ENETDOWN)),
        (Errno::ECONNRESET, dropped(Errno::ECONNRESET)),
        (Errno::ETIMEDOUT, dropped(Errno::ETIMEDOUT)),
        (Errno::EADDRINUSE, SendError::local_error(Errno::EADDRINUSE)),
        (Errno::EADDRNOTAVAIL, SendError::local_dropped(Errno::EADDRNOTAVAIL)),
    ] {
        let mut script = Script::new();
        script.send(HIGH, 1, 0);
        script.send(HIGH, 2, 0);
        let conn = script.dialled();
        script.machine.handle_dialled(script.now, conn, Err(DialError(errno)));
        let retry = Duration::from_secs(1);
        let outputs = script.expect_notice(&Notice::Unreachable { peer: HIGH, errno, retry });
        let down = Output::Path { ni: OURS, peer: HIGH, state: PathState::Down };
        assert_eq!(outputs[1..], [down, failed(1, error), failed(2, error)]);
    }
}

#[test]
fn the_delay_doubles_from_one_second_to_sixty_and_a_send_during_it_fails_at_once() {
    let mut script = Script::new();
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        script.send(HIGH, 1, 0);
        let conn = script.dialled();
        script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ECONNREFUSED)));
        let retry = Duration::from_secs(seconds);
        let errno = Errno::ECONNREFUSED;
        script.expect_notice(&Notice::Unreachable { peer: HIGH, errno, retry });
        script.wait(retry - Duration::from_nanos(1));
        script.send(HIGH, 2, 0);
        script.expect(failed(2, SendError::remote_dropped(Errno::EHOSTUNREACH)));
        script.wait(Duration::from_nanos(1));
        script.expect_nothing();
    }
    script.send(HIGH, 3, 0);
    script.opens(HIGH, ConnKind::CONTROL);
    script.actions();
    let control = script.machine.conns()[0].conn;
    script.machine.close_peer(script.now, HIGH);
    assert!(script.actions().contains(&close(control)));
}

#[test]
fn a_success_forgives_all_failures() {
    let mut script = Script::new();
    for _ in 0..3 {
        script.send(HIGH, 1, 0);
        let conn = script.dialled();
        script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ECONNREFUSED)));
        script.actions();
        script.wait_secs(60);
    }
    let all = script.opens_all(HIGH);
    script.machine.handle_closed(script.now, all[0], CloseCause::Eof);
    assert_eq!(script.actions(), [close(all[1]), close(all[2])]);
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ECONNREFUSED)));
    let (errno, retry) = (Errno::ECONNREFUSED, Duration::from_secs(1));
    script.expect_notice(&Notice::Unreachable { peer: HIGH, errno, retry });
}

#[test]
fn an_unused_peer_is_removed_with_its_failures() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ECONNREFUSED)));
    script.actions();
    script.wait_secs(60);
    assert_eq!(script.machine.peers().len(), 1);
    script.wait_secs(1);
    assert_eq!(script.machine.peers(), []);
    assert_eq!(script.machine.poll_timeout(), None);
}

#[test]
fn a_failure_to_complete_the_set_does_not_affect_open_connections() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let control = script.opens(HIGH, ConnKind::CONTROL);
    let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else { panic!() };
    script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::ECONNREFUSED)));
    script.expect_nothing();
    script.send(HIGH, 2, 8192);
    let [Output::Stream(Stream::Write { conn, .. })] = script.actions()[..] else { panic!() };
    assert_eq!(conn, control);
    script.wait_secs(1);
    script.opens(HIGH, ConnKind::BULK_IN);
}

#[test]
fn an_attempt_and_an_answer_have_the_lnd_timeout() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.wait_secs(49);
    script.expect_nothing();
    script.wait_secs(1);
    let dropped = SendError::remote_dropped(Errno::ETIMEDOUT);
    assert_eq!(script.actions(), [close(conn), failed(1, dropped)]);
    script.machine.handle_dialled(script.now, conn, Ok(addr(OURS, 1023)));
    script.expect_nothing();

    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.wait_secs(20);
    script.connected(conn);
    script.wait_secs(30);
    let outputs = script.expect_notice(&Notice::Silent { remote: addr(HIGH, 988) });
    assert!(outputs.contains(&failed(1, dropped)));
}

#[test]
fn an_interface_may_wait_for_another_time() {
    let mut script = Script::new();
    script.machine.set_timeout(OURS, Duration::from_secs(20));
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.wait_secs(19);
    script.expect_nothing();
    script.wait_secs(1);
    let dropped = SendError::remote_dropped(Errno::ETIMEDOUT);
    assert_eq!(script.actions(), [close(conn), failed(1, dropped)]);

    let mut script = Script::new();
    let timeout = Some(Duration::from_secs(60));
    script.machine.add_ni(Time::ZERO, &NiConfig { timeout, ..ni(OURS) });
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.wait_secs(59);
    script.expect_nothing();
    script.wait_secs(1);
    assert_eq!(script.actions(), [close(conn), failed(1, dropped)]);
}

/// Answers the first request to `HIGH` with `bytes`, and returns the outputs.
fn answered(bytes: &[u8]) -> (Script, ConnId, Vec<Output>) {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.connected(conn);
    script.feed(conn, bytes);
    let outputs = script.outputs();
    (script, conn, outputs)
}

fn encoded(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    hello.encode(Order::Little, &mut bytes);
    bytes
}

#[test]
fn wrong_answers_are_failures() {
    let good = hello(HIGH, ConnKind::CONTROL, Version::V3);
    let wildcard = ProcessId { nid: Nid::ANY, pid: Pid::LUSTRE };
    let other_process = ProcessId { nid: HIGH, pid: Pid(1) };
    let mut other_version = encoded(&good);
    other_version[4] = 9;
    for bytes in [
        b"\x00\x71\xce\xac".to_vec(),
        other_version,
        encoded(&Hello { source: wildcard, ..good.clone() }),
        encoded(&Hello { source: ProcessId::lustre(LOW), ..good.clone() }),
        encoded(&Hello { source: other_process, ..good.clone() }),
        encoded(&Hello { kind: ConnKind::BULK_IN, ..good.clone() }),
        encoded(&Hello { kind: ConnKind(7), ..good }),
    ] {
        let (_, conn, outputs) = answered(&bytes);
        assert!(outputs.contains(&close(conn)), "{bytes:02x?}: {outputs:#?}");
        assert!(outputs.contains(&failed(1, SendError::remote_dropped(Errno::EPROTO))));
    }
}

#[test]
fn another_node_at_the_address_is_reported() {
    let got = ProcessId::lustre(LOW);
    let (_, _, outputs) = answered(&encoded(&hello(LOW, ConnKind::CONTROL, Version::V3)));
    assert_eq!(outputs[0], Output::Notice(Notice::WrongPeer { wanted: HIGH, got }));
}

#[test]
fn an_end_instead_of_an_answer_is_a_failure() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.connected(conn);
    script.machine.handle_closed(script.now, conn, CloseCause::Eof);
    script.expect(failed(1, SendError::remote_dropped(Errno::ECONNRESET)));
}

#[test]
fn a_refusal_in_our_version_is_tried_again_after_a_second_while_messages_wait() {
    let (mut script, conn, outputs) = answered(&encoded(&hello(HIGH, ConnKind::NONE, Version::V3)));
    assert_eq!(outputs, [close(conn)]);
    script.send(HIGH, 2, 0);
    assert_eq!(script.machine.peers()[0].queued_messages, 2);
    script.wait(Duration::from_millis(999));
    script.expect_nothing();
    script.wait(Duration::from_millis(1));
    script.opens(HIGH, ConnKind::CONTROL);
}

#[test]
fn messages_for_a_refusing_peer_time_out() {
    let none = hello(HIGH, ConnKind::NONE, Version::V3);
    let (mut script, _, _) = answered(&encoded(&none));
    for _ in 0..49 {
        script.wait_secs(1);
        let conn = script.dialled();
        script.connected(conn);
        script.answer(conn, &none);
        script.expect(close(conn));
    }
    script.wait_secs(1);
    script.expect(failed(1, SendError::remote_dropped(Errno::ETIMEDOUT)));
    assert_eq!(script.machine.peers(), []);
}

#[test]
fn three_refusals_are_enough_when_there_is_one_of_each_kind() {
    let mut script = Script::with(two_addresses());
    script.opens_all(HIGH);
    script.machine.set_conns_per_peer(OURS, 2);
    // Nothing changes until the set is checked again, as after a failure.
    let rail = script.accepted_from("10.0.7.7:1000".parse().unwrap()).unwrap();
    let mut bytes = request(OURS);
    hello(HIGH, ConnKind::CONTROL, Version::V3).encode(Order::Little, &mut bytes);
    script.feed(rail, &bytes);
    for refusal in 1..=3 {
        let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else {
            panic!("{refusal}")
        };
        script.connected(conn);
        script.answer(conn, &hello(HIGH, ConnKind::NONE, Version::V3));
        script.expect(close(conn));
        script.wait_secs(1);
    }
    script.wait_secs(20);
    script.expect_nothing();
}

#[test]
fn a_refusal_in_another_version_is_tried_again_at_once_in_that_version() {
    let (mut script, _, outputs) = answered(&encoded(&hello(HIGH, ConnKind::NONE, Version::V2)));
    let [Output::Stream(Stream::Close { .. }), Output::Stream(Stream::Dial { conn, .. })] =
        outputs[..]
    else {
        panic!()
    };
    assert_eq!(script.connected(conn).version, Version::V2);
    script.answer(conn, &hello(HIGH, ConnKind::CONTROL, Version::V2));
    assert_eq!(script.machine.conns()[0].version, Version::V2);
    let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else { panic!() };
    assert_eq!(script.connected(conn).version, Version::V2, "the version is remembered");
}

#[test]
fn a_peer_cannot_make_us_dial_in_circles() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let mut dials = 0;
    while let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() {
        dials += 1;
        let other = match script.connected(conn).version {
            Version::V3 => Version::V2,
            _ => Version::V3,
        };
        script.answer(conn, &hello(HIGH, ConnKind::NONE, other));
        assert!(dials < 10);
    }
    assert_eq!(dials, 4);
    script.wait_secs(1);
    script.dialled();
}

#[test]
fn an_agreement_in_another_version_is_an_agreement() {
    let (mut script, conn, _) = answered(&encoded(&hello(HIGH, ConnKind::CONTROL, Version::V2)));
    assert_eq!(script.machine.conns()[0].version, Version::V2);
    script.machine.handle_closed(script.now, conn, CloseCause::Eof);
    script.actions();
}

#[test]
fn an_answer_of_a_restarted_peer_closes_the_old_connections_and_is_tried_again() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let control = script.opens(HIGH, ConnKind::CONTROL);
    let Some(Output::Stream(Stream::Dial { conn, .. })) = script.actions().pop() else { panic!() };
    script.connected(conn);
    let none = Hello { source_incarnation: 9, ..hello(HIGH, ConnKind::NONE, Version::V3) };
    script.answer(conn, &none);
    let outputs = script.expect_notice(&Notice::Restarted { peer: HIGH });
    assert!(outputs.contains(&close(control)));
    // The message on the old connection has failed, so there is no reason to dial.
    assert!(outputs.contains(&failed(1, SendError::remote_dropped(Errno::ECONNRESET))));
    script.send(HIGH, 2, 0);
    script.dialled();
}

#[test]
fn version_4_is_offered_over_ipv6() {
    let ours = Nid::of_ip(Net::TCP, "fd00:99::2".parse().unwrap());
    let theirs = Nid::of_ip(Net::TCP, "fd00:99::3".parse().unwrap());
    let mut script = Script::new();
    script.machine.add_ni(Time::ZERO, &ni(ours));
    let header = put_header(ours, theirs, 1, 0);
    let request = SendRequest { ni: ours, next_hop: theirs, header, ..put(HIGH, 1, 0) };
    script.machine.send(script.now, request);
    let conn = script.dialled();
    script.machine.handle_dialled(script.now, conn, Ok(addr(ours, 1023)));
    let [Output::Stream(Stream::Write { head, .. })] = &script.actions()[..] else { panic!() };
    assert_eq!(head.len(), 28 + 80);
    script.machine.handle_sent(script.now, conn, head.len() as u64);
    script.answer(conn, &hello(theirs, ConnKind::CONTROL, Version::V4));
    let [Output::Stream(Stream::Write { head, .. }), Output::Stream(Stream::Dial { .. })] =
        &script.actions()[..]
    else {
        panic!()
    };
    assert_eq!(head.len(), 24 + 96);
}

#[test]
fn peers_that_cannot_be_dialled_fail_at_once() {
    let mut script = Script::new();
    let other_family = Nid::of_ip(Net::TCP, "fd00:99::3".parse().unwrap());
    let request = SendRequest { next_hop: other_family, ..put(HIGH, 1, 0) };
    script.machine.send(script.now, request);
    script.expect(failed(1, SendError::remote_error(Errno::EHOSTUNREACH)));
    script.machine.send(script.now, SendRequest { ni: LOW, ..put(HIGH, 2, 0) });
    script.expect(failed(2, SendError::local_error(Errno::ENODEV)));
    assert_eq!(script.machine.peers(), []);
}

#[test]
fn removing_an_interface_removes_its_state() {
    let mut script = Script::new();
    let all = script.opens_all(HIGH);
    script.send(LOW, 2, 0);
    let attempt = script.dialled();
    script.machine.remove_ni(script.now, OURS);
    let actions = script.actions();
    for conn in [all[0], all[1], all[2], attempt] {
        assert!(actions.contains(&close(conn)));
    }
    assert!(actions.contains(&failed(2, SendError::local_dropped(Errno::ESHUTDOWN))));
    assert_eq!(script.machine.poll_timeout(), None);
    assert_eq!(script.machine.peers(), []);
}

#[test]
fn a_peer_that_connects_during_the_pause_clears_its_failures() {
    let mut script = Script::new();
    script.send(HIGH, 1, 0);
    let conn = script.dialled();
    script.machine.handle_dialled(script.now, conn, Err(DialError(Errno::EHOSTUNREACH)));
    script.actions();
    let conn = script.opened_by(HIGH, ConnKind::CONTROL, Version::V3);
    script.send(HIGH, 2, 0);
    assert_eq!(script.written().0, conn);
    script.actions();
    // This node dialled first, and so completes the set if the peer does not.
    script.wait_secs(1);
    script.opens(HIGH, ConnKind::BULK_IN);
}

#[test]
fn every_message_ends_after_any_answer() {
    for seed in 0..2_000 {
        let mut rng = fulmar_base::Rng::new(seed);
        let mut script = Script::new();
        script.send(HIGH, 1, 0);
        let mut answers = 0;
        for _ in 0..100 {
            for deed in script.actions() {
                match deed {
                    Output::Stream(Stream::Dial { conn, .. }) => {
                        script.machine.handle_dialled(script.now, conn, Ok(addr(OURS, 1023)));
                        let mut answer = encoded(&Hello {
                            source_incarnation: rng.below(2),
                            ..hello(HIGH, ConnKind::CONTROL, Version::V3)
                        });
                        let at = rng.below(answer.len() as u64) as usize;
                        answer[at] = rng.u64() as u8;
                        answer[48] = [1, 2, 3, 255][rng.below(4) as usize];
                        script.feed(conn, &answer);
                    }
                    Output::Stream(Stream::Write { conn, head, .. }) => {
                        script.machine.handle_sent(script.now, conn, head.len() as u64);
                    }
                    Output::Sent { .. } => answers += 1,
                    _ => {}
                }
            }
            script.wait_secs(1);
        }
        assert_eq!(answers, 1, "seed {seed}");
    }
}
