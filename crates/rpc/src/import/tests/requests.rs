//! Requests on a connection that stays.

use fulmar_lustre_wire::message::{Flavor, HeaderFlags, MessageFlags};

use super::*;

#[test]
fn a_request_is_sent_and_answered() {
    let mut rig = Rig::full();
    let request = rig.request();
    let sent = rig.sent();
    let shown = message(&sent);
    assert_eq!((shown.head.reply_room, sent.room.len), (384, 384 + EARLY_LEN));
    assert_eq!(shown.head.flags, HeaderFlags::AT_SUPPORT | HeaderFlags::CKSUM_INCOMPAT18);
    assert_eq!((shown.body.handle, shown.body.connection_count), (EXPORT, 1));
    assert_eq!((shown.body.timeout, shown.body.last_xid), (11, sent.xid.0 - 1));
    assert_eq!((shown.body.match_bits, sent.reply_bits), (sent.xid.0, sent.xid.0));
    assert_eq!(shown.body.flags, MessageFlags::PACK_UID_GID);
    rig.answer(&sent);
    assert!(matches!(rig.next(), Output::Withdraw(id) if id == sent.id));
    let Output::Done { request: done, result, .. } = rig.next() else { panic!("no end") };
    assert_eq!((done, result.unwrap().require(&STATFS).unwrap().blocks), (request, 99));
    assert!(rig.is_quiet());
}

#[test]
fn requests_wait_for_the_connection_and_for_a_place() {
    let mut rig = Rig::with(|target| target.in_flight_max = 2);
    let requests = [rig.request(), rig.request(), rig.request()];
    assert!(rig.is_quiet());
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    let sent = [rig.sent(), rig.sent()];
    assert!(rig.is_quiet());
    assert!(sent[0].xid < sent[1].xid);
    let last_xid = |sent: &Transmission| message(sent).body.last_xid;
    assert_eq!(last_xid(&sent[1]), sent[0].xid.0 - 1);
    rig.answer(&sent[1]);
    assert_eq!(rig.next(), Output::Withdraw(sent[1].id));
    assert!(matches!(rig.next(), Output::Done { request, .. } if request == requests[1]));
    let third = rig.sent();
    assert_eq!(last_xid(&third), sent[0].xid.0 - 1, "the first has no reply yet");
    rig.answer(&sent[0]);
    rig.answer(&third);
    let ok = Ok(Status::OK);
    assert_eq!(rig.ended(), [(requests[0], ok), (requests[2], ok)]);
}

#[test]
fn an_early_reply_moves_the_deadline() {
    let mut rig = Rig::full();
    let request = rig.request();
    let sent = rig.sent();
    rig.advance(6);
    let early = Message::early_reply(Flavor::NULL, format::OST_STATFS.opcode, 36, 6).to_bytes();
    rig.reply(&sent, 0, &early);
    assert!(rig.is_quiet());
    // 11 s for the server and 5 s for the network would have passed.
    rig.advance(18);
    assert_eq!(rig.import.state(), State::Full);
    rig.answer(&sent);
    assert_eq!(rig.ended(), [(request, Ok(Status::OK))]);
}

#[test]
fn a_damaged_early_reply_is_ignored() {
    let mut rig = Rig::full();
    rig.request();
    let sent = rig.sent();
    let mut early =
        Message::early_reply(Flavor::NULL, format::OST_STATFS.opcode, 600, 6).to_bytes();
    early[100] ^= 1;
    rig.reply(&sent, 0, &early);
    let whole = Message::early_reply(Flavor::NULL, format::OST_STATFS.opcode, 600, 6).to_bytes();
    let cut = Arrival { offset: 0, sent_len: whole.len() + 8, bytes: &whole };
    rig.import.handle_reply(rig.now, &mut rig.xids, sent.id, cut);
    assert_eq!(rig.wait(), 16.0);
    assert_ne!(rig.import.state(), State::Full);
}

#[test]
fn a_reply_that_is_too_long_is_requested_again_with_more_room() {
    let mut rig = Rig::full();
    let request = rig.request();
    let sent = rig.sent();
    let whole = statfs_reply().to_bytes();
    let cut = Arrival { offset: 224, sent_len: 1000, bytes: &whole };
    rig.import.handle_reply(rig.now, &mut rig.xids, sent.id, cut);
    assert_eq!(rig.next(), Output::Withdraw(sent.id));
    let again = rig.sent();
    assert_eq!((again.xid, again.room.len), (sent.xid, 1000 + EARLY_LEN));
    assert!(message(&again).body.flags.has(MessageFlags::RESENT));
    assert_ne!(again.reply_bits, sent.reply_bits, "a late copy must not get into the new room");
    let cut = Arrival { sent_len: 1001, ..cut };
    rig.import.handle_reply(rig.now, &mut rig.xids, again.id, cut);
    assert_eq!(rig.ended(), [(request, Err(Errno::EOVERFLOW))]);
}

#[test]
fn a_request_that_the_server_has_not_finished_gets_a_new_number() {
    let mut rig = Rig::full();
    let request = rig.request();
    let mut last = rig.sent();
    for waited in [1.0, 2.0, 3.0] {
        rig.refuse(&last, Errno::EINPROGRESS);
        assert_eq!(rig.next(), Output::Withdraw(last.id));
        assert!(rig.is_quiet());
        assert_eq!(rig.wait(), waited);
        let again = rig.sent();
        assert!(again.xid > last.xid);
        assert_eq!(message(&again).body.last_xid, again.xid.0 - 1);
        assert!(!message(&again).body.flags.has(MessageFlags::RESENT));
        last = again;
    }
    rig.answer(&last);
    assert_eq!(rig.ended(), [(request, Ok(Status::OK))]);
}

#[test]
fn an_error_is_the_result_and_nonsense_is_one_too() {
    let mut rig = Rig::full();
    let requests = [rig.request(), rig.request(), rig.request()];
    let sent = [rig.sent(), rig.sent(), rig.sent()];
    rig.refuse(&sent[0], Errno::EOPNOTSUPP);
    let failed = Message::reply(&format::OST_STATFS, Status::failed(Errno::EIO));
    rig.reply(&sent[1], EARLY_LEN, &failed.to_bytes());
    let other = Message::reply(&format::PING, Status::OK);
    rig.reply(&sent[2], EARLY_LEN, &other.to_bytes());
    let results = [Err(Errno::EOPNOTSUPP), Ok(Status(-5)), Err(Errno::EPROTO)];
    let expected: Vec<_> = requests.into_iter().zip(results).collect();
    assert_eq!(rig.ended(), expected);
    rig.answer(&sent[0]);
    assert!(rig.is_quiet(), "it has ended");
}

#[test]
fn a_target_without_adaptive_timeouts_replies_at_offset_0() {
    let mut rig = Rig::with(|target| {
        target.data.flags = target.data.flags.without(ConnectFlags::AT);
        target.data.flags2 = ConnectFlags2::NONE;
    });
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    let request = rig.request();
    let sent = rig.sent();
    assert_eq!((sent.room.len, message(&sent).body.match_bits), (384, 0));
    rig.reply(&sent, 0, &statfs_reply().to_bytes());
    assert_eq!(rig.ended(), [(request, Ok(Status::OK))]);
}
