//! Writes: transactions that are kept with their bulk data. Spec: mdt-ost §17.7.

use fulmar_base::BufferId;
use fulmar_lustre_wire::message::MessageFlags;

use super::replay::{NEW, RECOVERS};
use super::*;
use crate::bulk::{Bulk, Direction};

const LEN: u64 = 5000;

fn write() -> Request {
    let bulk = Bulk::new(Direction::ToServer, 8, (BufferId(3), 0, LEN), 0);
    Request::new(Message::request(&format::OST_WRITE), 1024).with_bulk(bulk)
}

impl Rig {
    fn begin_write(&mut self) -> (RequestId, Transmission) {
        let id = self.import.request(self.now, &mut self.xids, write());
        (id, self.sent())
    }

    /// A write that the target has executed as a transaction, and that has ended.
    fn written(&mut self, transno: u64, committed: u64) -> (RequestId, Transmission) {
        let (id, sent) = self.begin_write();
        self.moved(sent.id, LEN, Ok(()));
        self.execute(&sent, transno, committed);
        assert_eq!(self.next(), Output::Withdraw(sent.id));
        assert_eq!(self.done(), (id, transno > committed));
        (id, sent)
    }

    /// Returns which request has ended well, and whether its data are kept.
    fn done(&mut self) -> (RequestId, bool) {
        match self.next() {
            Output::Done { request, result: Ok(_), keeps_data, .. } => (request, keeps_data),
            output => panic!("{output:?} is no end"),
        }
    }

    /// The target reports what is on disk.
    fn commit(&mut self, transno: u64) {
        let id = self.request();
        let sent = self.sent();
        let mut reply = statfs_reply();
        reply.body.last_committed = transno;
        self.reply(&sent, EARLY_LEN, &reply.to_bytes());
        let is_of_it = |output: &Output| match output {
            Output::Done { request, .. } => *request == id,
            output => *output == Output::Withdraw(sent.id),
        };
        self.import.outputs.retain(|output| !is_of_it(output));
    }
}

fn first_bits(transmission: &Transmission) -> u64 {
    transmission.bulk.as_ref().unwrap().first_bits
}

#[test]
fn the_data_of_a_write_are_kept_until_they_are_on_disk() {
    let mut rig = Rig::full();
    let (one, _) = rig.written(10, 1);
    let (two, _) = rig.written(11, 1);
    // It is on disk already.
    rig.written(5, 5);
    assert_eq!((rig.import.kept(), rig.import.kept_data()), (2, 2 * LEN));
    rig.commit(10);
    assert_eq!(rig.next(), Output::Released { request: one });
    assert!(rig.is_quiet());
    rig.commit(11);
    assert_eq!(rig.next(), Output::Released { request: two });
    assert_eq!((rig.import.kept(), rig.import.kept_data()), (0, 0));
}

#[test]
fn a_write_that_is_on_disk_before_its_memory_is_free_is_not_kept_at_its_end() {
    let mut rig = Rig::full();
    let (id, sent) = rig.begin_write();
    rig.execute(&sent, 10, 1);
    assert_eq!(rig.next(), Output::Withdraw(sent.id));
    assert!(rig.is_quiet(), "LNet still has the memory");
    rig.commit(10);
    assert!(rig.is_quiet(), "it has not ended");
    rig.moved(sent.id, LEN, Ok(()));
    assert_eq!(rig.done(), (id, false));
    assert!(rig.is_quiet());
}

#[test]
fn a_write_is_replayed_with_its_data() {
    let mut rig = Rig::full();
    let writes = [rig.written(10, 1), rig.written(11, 1)];
    rig.restart();
    for (transno, (_, first)) in (10..).zip(&writes) {
        let replay = rig.sent();
        assert_eq!((replay.xid, first_bits(&replay)), (first.xid, first_bits(first)));
        assert_eq!(replay.bulk, first.bulk);
        let body = message(&replay).body;
        assert_eq!((body.transno, body.match_bits), (transno, first.xid.0));
        assert!(body.flags.has(MessageFlags::REPLAY));
        // The memory of the last is free later.
        if transno == 10 {
            rig.moved(replay.id, LEN, Ok(()));
        }
        rig.execute(&replay, transno, 1);
        assert_eq!(rig.next(), Output::Withdraw(replay.id));
    }
    let ping = rig.sent();
    let last = rig.import.in_flight.len();
    let mut pong = Message::reply(&format::PING, Status::OK);
    pong.body.last_committed = 11;
    rig.reply(&ping, EARLY_LEN, &pong.to_bytes());
    assert_eq!((last, rig.import.kept_data()), (1, 0));
    // All is on disk, but LNet still has the memory of the second.
    let released: Vec<_> = rig
        .import
        .outputs
        .iter()
        .filter(|output| matches!(output, Output::Released { .. }))
        .collect();
    assert_eq!(released, [&Output::Released { request: writes[0].0 }]);
    assert!(!rig.import.is_released());
}

#[test]
fn memory_that_a_replay_uses_is_given_back_when_it_is_free() {
    let mut rig = Rig::full();
    let (id, _) = rig.written(10, 1);
    rig.restart();
    let replay = rig.sent();
    rig.execute(&replay, 10, 10);
    rig.ended();
    assert!(!rig.import.is_released());
    rig.moved(replay.id, LEN, Ok(()));
    assert_eq!(rig.next(), Output::Released { request: id });
    assert!(rig.is_quiet() && rig.import.is_released());
}

#[test]
fn a_replay_that_is_repeated_has_new_match_bits_for_its_data() {
    let mut rig = Rig::full();
    let (id, first) = rig.written(10, 1);
    rig.restart();
    let replay = rig.sent();
    rig.advance(16);
    let connect = rig.sent();
    rig.grant(&connect, NEW, RECOVERS | ConnectOpFlags::RECONNECT);
    let again = rig.sent();
    assert_eq!(again.xid, first.xid);
    assert!(first_bits(&again) > first_bits(&replay));
    rig.execute(&again, 10, 10);
    rig.ended();
    // Both transmissions have used it.
    rig.moved(again.id, LEN, Ok(()));
    assert!(rig.is_quiet());
    rig.moved(replay.id, 0, Err(Errno::ECANCELED));
    assert_eq!(rig.next(), Output::Released { request: id });
}

#[test]
fn a_write_that_is_answered_is_not_sent_again_when_the_connection_is_lost() {
    let mut rig = Rig::full();
    let (id, sent) = rig.begin_write();
    rig.execute(&sent, 10, 1);
    assert_eq!(rig.next(), Output::Withdraw(sent.id));
    let other = rig.request();
    let late = rig.sent();
    rig.fail(&late, Errno::EHOSTUNREACH);
    rig.reconnect();
    assert_eq!(rig.sent().xid, late.xid, "{other:?} is sent again");
    assert!(rig.is_quiet());
    rig.moved(sent.id, LEN, Ok(()));
    assert_eq!(rig.done(), (id, true));
    rig.commit(10);
    assert_eq!(rig.next(), Output::Released { request: id });
}

#[test]
fn an_evicted_or_closed_client_gets_its_memory_back() {
    for is_evicted in [true, false] {
        let mut rig = Rig::full();
        let (id, _) = rig.written(10, 1);
        if is_evicted {
            rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
            rig.wait();
            let connect = rig.sent();
            rig.grant(&connect, NEW, ConnectOpFlags::REPLAYABLE);
        } else {
            rig.import.disconnect(rig.now, &mut rig.xids);
            let bye = rig.sent();
            let reply = Message::reply(&format::OST_DISCONNECT, Status::OK);
            rig.reply(&bye, EARLY_LEN, &reply.to_bytes());
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| rig.import.poll_output()).collect();
        assert!(outputs.contains(&Output::Released { request: id }), "{outputs:?}");
        assert_eq!((rig.import.kept(), rig.import.kept_data()), (0, 0));
    }
}
