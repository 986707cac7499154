//! Connections that are lost, and found again.

use fulmar_lustre_wire::message::MessageFlags;

use super::*;

/// A lost connection, with two requests that were sent.
fn lost() -> (Rig, [RequestId; 2], [Transmission; 2]) {
    let mut rig = Rig::full();
    let requests = [rig.request(), rig.request()];
    let sent = [rig.sent(), rig.sent()];
    // 11 s for the server, 5 s for the network.
    assert_eq!(rig.wait(), 16.0);
    let withdrawn = [rig.next(), rig.next()];
    assert_eq!(withdrawn, [Output::Withdraw(sent[1].id), Output::Withdraw(sent[0].id)]);
    assert_eq!(rig.states(), [State::Disconnected(Errno::ETIMEDOUT), State::Connecting]);
    (rig, requests, sent)
}

#[test]
fn a_late_reply_fails_the_connection_and_not_the_request() {
    let (mut rig, requests, first) = lost();
    let connect = rig.sent();
    assert_eq!(connect.to.nid, nid(2));
    let body = message(&connect).body;
    assert_eq!((body.connection_count, body.handle), (2, EXPORT));
    assert_eq!(body.connect_flags, ConnectOpFlags::NONE);
    rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
    let again = [rig.sent(), rig.sent()];
    for (first, again) in first.iter().zip(&again) {
        assert_eq!((again.xid, again.to.nid), (first.xid, nid(2)));
        assert_ne!(again.reply_bits, first.reply_bits);
        let body = message(again).body;
        assert!(body.flags.has(MessageFlags::RESENT));
        assert_eq!((body.connection_count, body.match_bits), (2, again.reply_bits));
    }
    rig.answer(&first[0]);
    assert!(rig.is_quiet(), "the reply to the first transmission is not expected any more");
    rig.answer(&again[0]);
    rig.answer(&again[1]);
    assert_eq!(rig.ended(), requests.map(|request| (request, Ok(Status::OK))));
}

#[test]
fn requests_that_the_server_may_know_are_lost_with_an_eviction() {
    let (mut rig, requests, _) = lost();
    let connect = rig.sent();
    rig.grant(&connect, Handle(9), ConnectOpFlags::NONE);
    assert_eq!(rig.states(), [State::Evicted]);
    assert_eq!(rig.ended(), requests.map(|request| (request, Err(Errno::EIO))));
    assert_eq!(rig.import.state(), State::Full);
    rig.request();
    assert_eq!(message(&rig.sent()).body.handle, Handle(9));
}

#[test]
fn a_recovering_target_is_told_that_there_is_nothing_to_replay() {
    let (mut rig, requests, _) = lost();
    let connect = rig.sent();
    rig.grant(&connect, Handle(9), ConnectOpFlags::RECOVERING);
    assert_eq!(rig.states(), [State::ReplayWait]);
    let ping = rig.sent();
    let flags = message(&ping).body.flags;
    assert!(flags.has(MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE));
    assert!(rig.is_quiet());
    rig.reply(&ping, EARLY_LEN, &Message::reply(&format::PING, Status::OK).to_bytes());
    let again = [rig.sent(), rig.sent()];
    again.iter().for_each(|sent| rig.answer(sent));
    assert_eq!(rig.ended(), requests.map(|request| (request, Ok(Status::OK))));
}

#[test]
fn a_client_without_a_record_at_the_target_resumes_after_its_restart() {
    let mut rig = Rig::with(|target| {
        target.data.flags = target.data.flags | ConnectFlags::LIGHTWEIGHT;
    });
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    let request = rig.request();
    let sent = rig.sent();
    rig.advance(5);
    rig.refuse(&sent, Errno::ENOTCONN);
    let connect = rig.sent();
    rig.grant(&connect, Handle(9), ConnectOpFlags::NONE);
    let again = rig.sent();
    rig.answer(&again);
    assert_eq!(rig.ended(), [(request, Ok(Status::OK))]);
}

#[test]
fn a_server_that_forgot_the_client_is_asked_for_a_connection_at_the_same_nid() {
    let mut rig = Rig::full();
    rig.request();
    let sent = rig.sent();
    rig.advance(7);
    rig.refuse(&sent, Errno::ENOTCONN);
    assert_eq!(rig.next(), Output::Withdraw(sent.id));
    let states = [State::Disconnected(Errno::ENOTCONN), State::Connecting];
    assert_eq!(rig.states(), states);
    let connect = rig.sent();
    assert_eq!(connect.to.nid, nid(1));
    // It grants a connection, and does not know it then: it is not asked more often than every 5 s.
    rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
    let again = rig.sent();
    rig.refuse(&again, Errno::ENOTCONN);
    assert_eq!(rig.import.state(), State::Disconnected(Errno::ENOTCONN));
    assert_eq!(rig.wait(), 5.0);
    assert_eq!(rig.import.state(), State::Connecting);
}

#[test]
fn an_unreachable_node_fails_the_connection_at_once() {
    let mut rig = Rig::full();
    let once = rig.import.request(rig.now, &mut rig.xids, statfs().once());
    let sent = rig.sent();
    rig.fail(&sent, Errno::EHOSTUNREACH);
    let connect_to = |rig: &mut Rig| {
        let mut found = None;
        let mut ended = Vec::new();
        while let Some(output) = rig.import.poll_output() {
            match output {
                Output::Transmit(sent) => found = Some(sent.to.nid),
                Output::Done { request, result, .. } => ended.push((request, result.map(drop))),
                _ => {}
            }
        }
        (found, ended)
    };
    let expected = (Some(nid(2)), vec![(once, Err(Errno::ETIMEDOUT))]);
    assert_eq!(connect_to(&mut rig), expected);
}

#[test]
fn a_ping_without_a_reply_fails_the_connection() {
    let mut rig = Rig::full();
    rig.wait();
    let ping = rig.sent();
    assert_eq!(rig.wait(), 16.0);
    assert_eq!(rig.next(), Output::Withdraw(ping.id));
    assert_eq!(rig.states(), [State::Disconnected(Errno::ETIMEDOUT), State::Connecting]);
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
    assert_eq!(rig.states(), [State::Recover, State::Full]);
    assert!(rig.is_quiet(), "pings are not sent again");
}
