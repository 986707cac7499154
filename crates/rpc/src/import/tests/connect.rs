//! Connecting, and searching the node of the target.

use fulmar_lustre_wire::message::{HeaderFlags, MessageFlags};
use fulmar_lustre_wire::portal;

use super::*;

#[test]
fn a_connect_is_granted() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    assert_eq!((connect.to.nid, connect.portal), (nid(1), portal::OST_REQUEST));
    assert_eq!((connect.reply_portal, connect.reply_bits), (portal::OST_REPLY, connect.xid.0));
    let body = message(&connect).body;
    assert_eq!((body.timeout, body.service_time, body.connection_count), (5, 4, 1));
    assert_eq!((body.match_bits, body.last_xid), (0, 0));
    assert_eq!(body.connect_flags, ConnectOpFlags::INITIAL);
    assert_eq!(message(&connect).head.flags, HeaderFlags::NONE);
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    assert_eq!(rig.states(), [State::Full]);
    assert_eq!(rig.import.granted(), &rig.import.target().data);
    assert!(rig.is_quiet());
}

#[test]
fn a_target_learns_again_what_the_owner_holds_of_its_grant() {
    let mut rig = Rig::new();
    rig.connect();
    let first = rig.sent();
    rig.grant(&first, EXPORT, ConnectOpFlags::REPLAYABLE);
    rig.import.outputs.clear();
    let asked = |connect: &Transmission| message(connect).require(&CONNECT_DATA).unwrap().grant;
    for held in [None, Some(5 << 20), Some(7)] {
        held.into_iter().for_each(|bytes| rig.import.hold_grant(bytes));
        rig.now = rig.now + Duration::from_secs(60);
        rig.import.reconnect(rig.now, &mut rig.xids);
        let connect = rig.sent();
        assert_eq!(asked(&connect), held.unwrap_or(rig.import.granted().grant));
        rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
        rig.import.outputs.clear();
    }
}

#[test]
fn the_nids_are_tried_in_turn_and_longer_with_each_round() {
    let mut rig = Rig::new();
    rig.connect();
    assert_eq!(rig.sent().to.nid, nid(1));
    let mut tried = Vec::new();
    for _ in 0..4 {
        let waited = rig.wait();
        tried.push((waited, rig.sent().to.nid));
    }
    assert_eq!(tried, [(10.0, nid(2)), (10.0, nid(1)), (15.0, nid(2)), (15.0, nid(1))]);
}

#[test]
fn a_nid_that_fails_at_once_is_not_tried_again_before_5_seconds() {
    let mut rig = Rig::new();
    rig.connect();
    let first = rig.sent();
    rig.fail(&first, Errno::EHOSTUNREACH);
    assert_eq!(rig.states(), []);
    let second = rig.sent();
    assert_eq!(second.to.nid, nid(2));
    rig.refuse(&second, Errno::ENODEV);
    assert!(matches!(rig.next(), Output::Withdraw(id) if id == second.id));
    assert_eq!(rig.states(), [State::Disconnected(Errno::ENODEV)]);
    assert!(rig.is_quiet());
    assert_eq!(rig.wait(), 5.0);
    let third = rig.sent();
    assert_eq!((third.to.nid, message(&third).body.connection_count), (nid(1), 3));
}

#[test]
fn a_busy_target_is_asked_again_at_the_same_nid_and_ever_later() {
    let mut rig = Rig::new();
    rig.connect();
    for expected in [5.0, 10.0, 15.0] {
        let connect = rig.sent();
        rig.refuse(&connect, Errno::EBUSY);
        assert_eq!((rig.wait(), rig.import.nid()), (expected, nid(1)));
    }
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    assert_eq!(rig.import.state(), State::Full);
}

#[test]
fn a_target_that_does_not_admit_the_client_is_not_asked_again() {
    let mut rig = Rig::new();
    let request = rig.request();
    rig.connect();
    let connect = rig.sent();
    rig.refuse(&connect, Errno::EACCES);
    assert_eq!(rig.import.state(), State::Closed(Errno::EACCES));
    assert_eq!(rig.import.poll_timeout(), None);
    let late = rig.request();
    let denied = Err(Errno::EACCES);
    assert_eq!(rig.ended(), [(request, denied), (late, denied)]);
}

#[test]
fn a_target_must_not_grant_what_was_not_requested() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    let mut more = rig.import.target().data;
    more.flags = more.flags | ConnectFlags::MDS;
    let mut reply = Message::reply(&format::OST_CONNECT, Status::OK).with(&CONNECT_DATA, &more);
    reply.body.handle = EXPORT;
    rig.reply(&connect, 0, &reply.to_bytes());
    assert_eq!(rig.sent().to.nid, nid(2));
    assert_eq!(rig.import.state(), State::Connecting);
}

#[test]
fn an_answer_that_is_no_message_is_a_failure() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.reply(&connect, 0, &[7; 100]);
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    assert_eq!(rig.states(), [State::Disconnected(Errno::EPROTO), State::Connecting]);
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    assert_eq!(rig.import.state(), State::Connecting, "the first connect is over");
}

#[test]
fn a_connection_ends_with_a_disconnect() {
    let mut rig = Rig::full();
    let request = rig.request();
    rig.sent();
    rig.import.disconnect(rig.now, &mut rig.xids);
    let outputs = [rig.next(), rig.next()];
    assert!(matches!(outputs[0], Output::Withdraw(_)));
    let shut_down = Err(Errno::ESHUTDOWN);
    assert_eq!(
        outputs[1],
        Output::Done { request, result: shut_down.clone(), moved: 0, keeps_data: false }
    );
    let disconnect = rig.sent();
    let body = message(&disconnect).body;
    assert_eq!(body.opcode, format::OST_DISCONNECT.opcode);
    assert_eq!((body.handle, body.last_xid, body.timeout), (EXPORT, 0, 11));
    let late = rig.request();
    assert_eq!(
        rig.next(),
        Output::Done { request: late, result: shut_down, moved: 0, keeps_data: false }
    );
    rig.reply(&disconnect, EARLY_LEN, &[]);
    assert_eq!(rig.import.state(), State::Closed(Errno::ESHUTDOWN));
    assert_eq!(rig.import.poll_timeout(), None);
}

#[test]
fn a_disconnect_waits_5_seconds_for_its_reply() {
    let mut rig = Rig::full();
    rig.import.disconnect(rig.now, &mut rig.xids);
    rig.sent();
    assert_eq!(rig.wait(), 5.0);
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    assert_eq!(rig.states(), [State::Closed(Errno::ESHUTDOWN)]);
}

#[test]
fn without_a_connection_a_disconnect_sends_nothing() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.refuse(&connect, Errno::EBUSY);
    assert_eq!(rig.next(), Output::Withdraw(connect.id));
    assert_eq!(rig.states(), [State::Disconnected(Errno::EBUSY)]);
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert_eq!(rig.states(), [State::Closed(Errno::ESHUTDOWN)]);
    assert!(rig.is_quiet());
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert!(rig.is_quiet());
}

/// A target that has granted the connection would wait for the client when it recovers.
#[test]
fn a_connection_that_is_being_made_ends_with_a_disconnect() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert!(rig.is_quiet());
    let late = rig.request();
    assert_eq!(rig.ended(), [(late, Err(Errno::ESHUTDOWN))]);
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    let disconnect = rig.sent();
    let body = message(&disconnect).body;
    assert_eq!((body.opcode, body.handle), (format::OST_DISCONNECT.opcode, EXPORT));
    rig.reply(&disconnect, EARLY_LEN, &[]);
    assert_eq!(rig.import.state(), State::Closed(Errno::ESHUTDOWN));
    assert_eq!(rig.import.poll_timeout(), None);
}

#[test]
fn the_answer_to_a_connect_that_is_not_wanted_any_more_is_waited_for_5_seconds() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert_eq!(rig.wait(), 5.0);
    assert_eq!(rig.next(), Output::Withdraw(connect.id));
    assert_eq!(rig.states(), [State::Closed(Errno::ESHUTDOWN)]);
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.import.disconnect(rig.now, &mut rig.xids);
    rig.refuse(&connect, Errno::EBUSY);
    assert_eq!(rig.next(), Output::Withdraw(connect.id));
    assert_eq!(rig.states(), [State::Closed(Errno::ESHUTDOWN)]);
}

#[test]
fn a_client_of_a_target_that_recovers_ends_with_a_disconnect() {
    let mut rig = Rig::full();
    rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
    rig.states();
    rig.wait();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::RECOVERING);
    assert_eq!(rig.states(), [State::ReplayWait]);
    rig.sent();
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert_eq!(message(&rig.sent()).body.opcode, format::OST_DISCONNECT.opcode);
}

#[test]
fn an_idle_connection_is_pinged_every_25_seconds() {
    let mut rig = Rig::full();
    assert_eq!(rig.wait(), 25.0);
    let ping = rig.sent();
    assert_eq!(message(&ping).format(), &format::PING);
    assert!(!message(&ping).body.flags.has(MessageFlags::RESENT));
    let reply = Message::reply(&format::PING, Status::OK);
    rig.reply(&ping, EARLY_LEN, &reply.to_bytes());
    rig.request();
    let request = rig.sent();
    rig.advance(1);
    rig.answer(&request);
    rig.ended();
    assert_eq!(rig.wait(), 24.0);
    assert_eq!(message(&rig.sent()).format(), &format::PING);
}

#[test]
fn a_client_shows_that_it_is_there_while_a_ping_has_no_answer() {
    let mut rig = Rig::full();
    // The server was slow, so that a reply is waited for long.
    let id = rig.request();
    let request = rig.sent();
    let mut reply = statfs_reply();
    reply.body.timeout = 170;
    rig.reply(&request, EARLY_LEN, &reply.to_bytes());
    assert_eq!(rig.ended(), [(id, Ok(Status::OK))]);
    for _ in 0..4 {
        assert_eq!(rig.wait(), 25.0);
        assert_eq!(message(&rig.sent()).format(), &format::PING);
    }
}
