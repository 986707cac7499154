//! Connections that end because they are not used.

use fulmar_lustre_wire::Opcode;

use super::*;

fn full() -> Rig {
    let mut rig = Rig::with(|target| target.idle_timeout = Some(Duration::from_secs(20)));
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    assert_eq!(rig.states(), [State::Full]);
    rig
}

#[test]
fn a_connection_that_is_not_used_ends_and_the_next_request_connects() {
    let mut rig = full();
    assert_eq!(rig.wait(), 20.0);
    let disconnect = rig.sent();
    assert_eq!(message(&disconnect).body.opcode, Opcode::OST_DISCONNECT);
    let bytes = Message::reply(&format::OST_DISCONNECT, Status::OK).to_bytes();
    rig.reply(&disconnect, EARLY_LEN, &bytes);
    assert_eq!(rig.next(), Output::Withdraw(disconnect.id));
    assert_eq!(rig.states(), [State::Idle]);
    assert_eq!(rig.import.poll_timeout(), None, "it is not pinged");
    let request = rig.request();
    let connect = rig.sent();
    let body = message(&connect).body;
    assert_eq!((body.connection_count, body.handle), (2, Handle::NONE));
    assert_eq!(body.connect_flags, ConnectOpFlags::INITIAL);
    rig.grant(&connect, Handle(9), ConnectOpFlags::REPLAYABLE);
    let sent = rig.sent();
    rig.answer(&sent);
    assert_eq!(rig.ended(), [(request, Ok(Status::OK))]);
}

#[test]
fn a_request_during_the_disconnect_waits_for_the_next_connection() {
    let mut rig = full();
    rig.wait();
    rig.sent();
    rig.request();
    assert!(rig.is_quiet());
    // The answer is lost.
    assert_eq!(rig.wait(), 5.0);
    let connect = rig.sent();
    assert_eq!(message(&connect).body.opcode, Opcode::OST_CONNECT);
}

#[test]
fn what_is_used_stays_connected() {
    let mut rig = full();
    rig.import.set_in_use(rig.now, true);
    assert_eq!(rig.wait(), 25.0);
    let ping = rig.sent();
    rig.reply(&ping, EARLY_LEN, &Message::reply(&format::PING, Status::OK).to_bytes());
    rig.import.set_in_use(rig.now, false);
    rig.advance(15);
    rig.request();
    let sent = loop {
        if let Output::Transmit(sent) = rig.next() {
            break sent;
        }
    };
    rig.advance(6);
    rig.answer(&sent);
    assert_eq!(rig.import.state(), State::Full);
    assert_eq!(rig.wait(), 19.0, "a ping, at 25 s after the request");
    assert_eq!(rig.wait(), 1.0);
    assert!(rig.import.handshake.is_some());
}
