//! Requests that modify metadata: slots and their tags.

use super::*;

fn mdt(granted: u16) -> Rig {
    let mut rig = Rig::with(|target| {
        target.kind = TargetKind::Mdt;
        let more = ConnectFlags::FID | ConnectFlags::MULTIMODRPCS;
        target.data.flags = target.data.flags | more;
        target.data.modify_rpcs_max = granted;
        target.in_flight_max = 20;
    });
    rig.connect();
    let connect = rig.sent();
    let mut reply = Message::reply(&format::MDS_CONNECT, Status::OK)
        .with(&CONNECT_DATA, &rig.import.target().data);
    (reply.body.handle, reply.body.connect_flags) = (EXPORT, ConnectOpFlags::REPLAYABLE);
    rig.reply(&connect, 0, &reply.to_bytes());
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    assert_eq!(rig.states(), [State::Full]);
    rig
}

fn request(rig: &mut Rig, opened: &'static format::Format) {
    let request = Request::new(Message::request(opened), 400).modifying();
    rig.import.request(rig.now, &mut rig.xids, request);
}

fn tag(sent: &Transmission) -> u16 {
    message(sent).body.tag
}

#[test]
fn each_request_that_modifies_has_a_slot_and_one_close_has_one_more() {
    let mut rig = mdt(2);
    for _ in 0..4 {
        request(&mut rig, &format::REINT_SETATTR);
    }
    let sent = [rig.sent(), rig.sent()];
    assert_eq!(sent.each_ref().map(tag), [1, 2]);
    assert!(rig.is_quiet());
    request(&mut rig, &format::CLOSE);
    request(&mut rig, &format::CLOSE);
    let close = rig.sent();
    assert_eq!(tag(&close), 3);
    assert!(rig.is_quiet());
    // What modifies nothing is not delayed.
    let stat = Request::new(Message::request(&format::MDS_STATFS), 400);
    rig.import.request(rig.now, &mut rig.xids, stat);
    assert_eq!(tag(&rig.sent()), 0);
    rig.execute(&sent[0], 10, 1);
    assert_eq!(rig.ended().len(), 1, "three hold slots, one of them the close");
    rig.execute(&close, 11, 1);
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    assert!(matches!(rig.next(), Output::Done { .. }));
    let next = rig.sent();
    assert_eq!((tag(&next), message(&next).body.opcode), (1, format::REINT_SETATTR.opcode));
    let close = rig.sent();
    assert_eq!((tag(&close), message(&close).body.opcode), (3, format::CLOSE.opcode));
}

#[test]
fn a_request_keeps_its_slot_when_it_is_sent_again() {
    let mut rig = mdt(2);
    request(&mut rig, &format::REINT_SETATTR);
    request(&mut rig, &format::REINT_SETATTR);
    let sent = [rig.sent(), rig.sent()];
    rig.advance(5);
    rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
    let connect = rig.sent();
    let mut reply = Message::reply(&format::MDS_CONNECT, Status::OK)
        .with(&CONNECT_DATA, &rig.import.target().data);
    (reply.body.handle, reply.body.connect_flags) = (EXPORT, ConnectOpFlags::RECONNECT);
    rig.reply(&connect, 0, &reply.to_bytes());
    let again = [rig.sent(), rig.sent()];
    assert_eq!(again.each_ref().map(tag), [1, 2]);
    assert_eq!(again.each_ref().map(|sent| sent.xid), sent.each_ref().map(|sent| sent.xid));
    // A new number, since the server has not finished it; the slot stays.
    rig.refuse(&again[0], Errno::EINPROGRESS);
    assert_eq!(rig.wait(), 1.0);
    let later = rig.sent();
    assert!(tag(&later) == 1 && later.xid > again[1].xid);
}

#[test]
fn the_target_and_the_configuration_limit_the_slots() {
    for (granted, slots) in [(0, 1), (3, 3), (100, 7)] {
        let mut rig = mdt(granted);
        for _ in 0..10 {
            request(&mut rig, &format::REINT_SETATTR);
        }
        let sent = rig.import.outputs.iter().filter(|one| matches!(one, Output::Transmit(_)));
        assert_eq!(sent.count(), slots);
    }
}

#[test]
fn a_target_that_writes_nothing_to_disk_is_sent_nothing_more() {
    let mut rig = mdt(2);
    for transno in 0..super::super::replay_list::ReplayList::UNCOMMITTED_MAX as u64 {
        request(&mut rig, &format::REINT_SETATTR);
        let sent = rig.sent();
        rig.execute(&sent, transno + 10, 1);
        rig.import.outputs.clear();
    }
    request(&mut rig, &format::REINT_SETATTR);
    assert!(rig.is_quiet());
    assert_eq!(rig.wait(), 7.0);
    let ping = rig.sent();
    rig.execute(&ping, 1, 10);
    assert_eq!(message(&rig.sent()).body.opcode, format::REINT_SETATTR.opcode);
}
