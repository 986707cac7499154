//! Requests with bulk data.

use std::time::Duration;

use fulmar_base::BufferId;
use fulmar_lustre_wire::format::OST_READ;
use fulmar_lustre_wire::message::MessageFlags;

use super::*;
use crate::bulk::{Bulk, Direction};
use crate::import::{BulkResult, TransmissionId};

const MIB: u64 = 1 << 20;

impl Rig {
    /// Begins to read 2 MiB, and returns the request with its first transmission.
    fn read(&mut self) -> (RequestId, Transmission) {
        let bulk = Bulk::new(Direction::ToClient, 8, (BufferId(3), 0, 2 * MIB), 0);
        let request = Request::new(Message::request(&OST_READ), 1024).with_bulk(bulk);
        let id = self.import.request(self.now, &mut self.xids, request);
        (id, self.sent())
    }

    pub(super) fn moved(&mut self, id: TransmissionId, bytes: u64, result: Result<(), Errno>) {
        self.import.handle_bulk(self.now, &mut self.xids, id, BulkResult { bytes, result });
    }

    fn answer_read(&mut self, to: &Transmission) {
        let reply = Message::reply(&OST_READ, Status(2 << 20));
        self.reply(to, EARLY_LEN, &reply.to_bytes());
    }

    /// Loses the connection, and connects to the next node.
    pub(super) fn reconnect(&mut self) {
        let connect = self.sent();
        self.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
    }
}

fn bits(transmission: &Transmission) -> (u64, u64, u64, u64) {
    let first = transmission.bulk.as_ref().unwrap().first_bits;
    (transmission.xid.0, first, transmission.reply_bits, message(transmission).body.match_bits)
}

#[test]
fn a_request_with_bulk_data_ends_when_they_are_moved_and_the_reply_is_there() {
    for reply_first in [false, true] {
        let mut rig = Rig::full();
        let (id, sent) = rig.read();
        let xid = sent.xid.0;
        assert_eq!(bits(&sent), (xid, xid, xid + 1, xid + 1));
        let both: [&dyn Fn(&mut Rig); 2] =
            [&|rig| rig.moved(sent.id, 2 * MIB, Ok(())), &|rig| rig.answer_read(&sent)];
        both[usize::from(reply_first)](&mut rig);
        assert!(rig.is_quiet());
        both[usize::from(!reply_first)](&mut rig);
        assert_eq!(rig.next(), Output::Withdraw(sent.id));
        let Output::Done { request, result, moved, .. } = rig.next() else { panic!("no end") };
        assert_eq!((request, result.unwrap().body.status, moved), (id, Status(2 << 20), 2 * MIB));
        assert!(rig.is_quiet() && rig.import.is_released());
    }
}

#[test]
fn an_error_ends_it_when_the_memory_is_released() {
    let mut rig = Rig::full();
    let (id, sent) = rig.read();
    rig.refuse(&sent, Errno::ESTALE);
    assert_eq!(rig.next(), Output::Withdraw(sent.id));
    assert!(rig.is_quiet() && !rig.import.is_released());
    rig.moved(sent.id, MIB, Err(Errno::ECANCELED));
    let (result, keeps_data) = (Err(Errno::ESTALE), false);
    let done = Output::Done { request: id, result, moved: MIB, keeps_data };
    assert_eq!(rig.next(), done);
}

#[test]
fn a_resent_request_has_new_match_bits_and_waits_for_its_memory() {
    let mut rig = Rig::full();
    let (id, first) = rig.read();
    rig.fail(&first, Errno::EHOSTUNREACH);
    rig.reconnect();
    assert_eq!(rig.states(), [State::Recover, State::Full]);
    assert!(rig.is_quiet(), "LNet still has the memory");
    rig.moved(first.id, 0, Err(Errno::ECANCELED));
    let second = rig.sent();
    let fresh = bits(&second).1;
    assert_eq!(bits(&second), (first.xid.0, fresh, fresh + 1, fresh + 1));
    assert!(fresh > first.xid.0 && fresh.is_multiple_of(128));
    assert!(message(&second).body.flags.has(MessageFlags::RESENT));
    rig.answer_read(&second);
    rig.moved(second.id, 2 * MIB, Ok(()));
    assert_eq!(rig.ended(), [(id, Ok(Status(2 << 20)))]);
}

#[test]
fn requests_whose_memory_is_released_late_keep_their_order() {
    let mut rig = Rig::full();
    let (first, second, third) = (rig.read().1, rig.read().1, rig.read().1);
    rig.fail(&first, Errno::ETIMEDOUT);
    let connect = rig.sent();
    for sent in [&first, &third, &second] {
        rig.moved(sent.id, 0, Err(Errno::ECANCELED));
    }
    let new = rig.request();
    rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
    let sent: Vec<_> = (0..3).map(|_| rig.sent().xid).collect();
    assert_eq!(sent, [first.xid, second.xid, third.xid]);
    let last = rig.sent();
    assert!(last.bulk.is_none() && last.xid > third.xid, "{new:?} comes last");
}

#[test]
fn without_separate_match_bits_the_number_is_that_of_the_last_part() {
    let mut rig = Rig::with(|target| {
        target.data.flags = target.data.flags.without(ConnectFlags::BULK_MBITS);
        target.data.flags2 = ConnectFlags2::NONE;
    });
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    rig.states();
    let (id, first) = rig.read();
    let xid = first.xid.0;
    assert_eq!((xid % 128, bits(&first)), (1, (xid, xid - 1, xid, 0)));
    rig.fail(&first, Errno::ETIMEDOUT);
    rig.moved(first.id, 0, Err(Errno::ECANCELED));
    rig.reconnect();
    let second = rig.sent();
    let xid = second.xid.0;
    assert_eq!((xid % 128, bits(&second)), (1, (xid, xid - 1, xid, 0)));
    assert!(second.xid > first.xid);
    let ping = rig.request();
    // The number that is not used any more does not count as one without a reply.
    assert_eq!(message(&rig.sent()).body.last_xid, xid - 1);
    rig.answer_read(&second);
    rig.moved(second.id, 2 * MIB, Ok(()));
    assert_eq!(rig.ended(), [(id, Ok(Status(2 << 20)))]);
    assert_ne!(ping, id);
}

#[test]
fn data_that_did_not_arrive_are_an_error_and_data_that_the_server_has_are_not() {
    for (direction, result) in
        [(Direction::ToClient, Err(Errno::EIO)), (Direction::ToServer, Ok(Status::OK))]
    {
        let mut rig = Rig::full();
        let bulk = Bulk::new(direction, 8, (BufferId(3), 0, 5), 0);
        let request = Request::new(Message::request(&OST_READ), 1024).with_bulk(bulk);
        let id = rig.import.request(rig.now, &mut rig.xids, request);
        let sent = rig.sent();
        rig.moved(sent.id, 0, Err(Errno::EIO));
        rig.reply(&sent, EARLY_LEN, &Message::reply(&OST_READ, Status::OK).to_bytes());
        assert_eq!(rig.ended(), [(id, result)]);
    }
}

#[test]
fn bulk_data_that_never_come_are_requested_again() {
    let mut rig = Rig::full();
    let (id, first) = rig.read();
    rig.answer_read(&first);
    while rig.is_quiet() {
        rig.wait();
    }
    assert_eq!(rig.next(), Output::Withdraw(first.id));
    rig.moved(first.id, MIB, Err(Errno::ECANCELED));
    rig.reconnect();
    let second = rig.sent();
    assert_eq!(second.xid, first.xid);
    rig.moved(second.id, 2 * MIB, Ok(()));
    rig.answer_read(&second);
    assert_eq!(rig.ended(), [(id, Ok(Status(2 << 20)))]);
}

#[test]
fn a_request_that_the_server_has_not_finished_is_sent_again_with_its_memory() {
    let mut rig = Rig::full();
    let (id, first) = rig.read();
    rig.refuse(&first, Errno::EINPROGRESS);
    assert_eq!(rig.next(), Output::Withdraw(first.id));
    assert_eq!(rig.wait(), 1.0);
    assert!(rig.is_quiet(), "LNet still has the memory");
    rig.moved(first.id, 0, Err(Errno::ECANCELED));
    let second = rig.sent();
    assert!(second.xid > first.xid);
    rig.answer_read(&second);
    rig.moved(second.id, 2 * MIB, Ok(()));
    assert_eq!(rig.ended(), [(id, Ok(Status(2 << 20)))]);
}

#[test]
fn after_a_disconnect_requests_end_when_their_memory_is_released() {
    let mut rig = Rig::full();
    let (id, sent) = rig.read();
    let (lost, resent) = rig.read();
    rig.import.disconnect(rig.now, &mut rig.xids);
    assert!(rig.ended().is_empty());
    rig.moved(resent.id, 0, Err(Errno::ECANCELED));
    rig.moved(sent.id, 0, Err(Errno::ECANCELED));
    let ended = [(lost, Err(Errno::ESHUTDOWN)), (id, Err(Errno::ESHUTDOWN))];
    assert_eq!(rig.ended(), ended);
    assert!(rig.import.is_released());
}

#[test]
fn an_import_counts_its_requests() {
    let mut rig = Rig::full();
    let (_, first) = rig.read();
    let (_, second) = rig.read();
    rig.request();
    rig.sent();
    rig.now = rig.now + Duration::from_millis(7);
    for sent in [&first, &second] {
        rig.answer_read(sent);
        rig.moved(sent.id, 2 * MIB, Ok(()));
    }
    let stats = rig.import.stats();
    let times = &stats.operations[&OST_READ.opcode];
    assert_eq!((times.count, times.min, times.max), (2, 7000, 7000));
    assert_eq!((stats.in_flight.count, stats.in_flight.max), (3, 3));
    assert_eq!((stats.reads.in_flight.max, stats.reads.bytes.sum), (2, 4 * MIB));
    assert_eq!((stats.writes.bytes.count, stats.repeated), (0, 0));
}
