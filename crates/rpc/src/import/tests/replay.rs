//! Transactions that are kept, and replayed after a restart of the target.

use fulmar_lustre_wire::message::MessageFlags;

use super::*;

pub(super) const NEW: Handle = Handle(9);
pub(super) const RECOVERS: ConnectOpFlags = ConnectOpFlags::RECOVERING;

fn punch() -> Request {
    Request::new(Message::request(&format::OST_PUNCH), 500)
}

impl Rig {
    fn send(&mut self, request: Request) -> (RequestId, Transmission) {
        let id = self.import.request(self.now, &mut self.xids, request);
        (id, self.sent())
    }

    /// Executes requests as transactions from `first` on, with nothing on disk.
    fn write(&mut self, count: u64, first: u64) -> Vec<Transmission> {
        let one = |transno| {
            let (id, sent) = self.send(punch());
            self.execute(&sent, transno, 1);
            assert_eq!(self.ended(), [(id, Ok(Status::OK))]);
            sent
        };
        (first..first + count).map(one).collect()
    }

    /// The target has restarted: it is asked for a connection, and grants it.
    pub(super) fn restart(&mut self) -> Transmission {
        self.advance(6);
        self.ended();
        self.import.lose(self.now, &mut self.xids, Errno::ENOTCONN);
        let connect = self.sent();
        self.grant(&connect, NEW, RECOVERS | ConnectOpFlags::REPLAYABLE);
        connect
    }

    fn state(&self) -> State {
        self.import.state()
    }
}

#[test]
fn transactions_are_replayed_in_order_until_they_are_on_disk() {
    let mut rig = Rig::full();
    let first = rig.write(4, 10);
    // The answer to the ping says what is on disk. It comes sooner than otherwise.
    assert_eq!(rig.wait(), 7.0);
    let ping = rig.sent();
    let mut pong = Message::reply(&format::PING, Status::OK);
    pong.body.last_committed = 11;
    rig.reply(&ping, EARLY_LEN, &pong.to_bytes());
    assert_eq!(rig.import.kept(), 2);

    let connect = rig.restart();
    let shown = message(&connect).answering(&format::OST_CONNECT);
    assert!(shown.body.connect_flags.has(ConnectOpFlags::TRANSNO));
    assert_eq!(shown.require(&CONNECT_DATA).unwrap().transno, 12);
    for (transno, first) in (12..).zip(&first[2..]) {
        let replay = rig.sent();
        assert_eq!(rig.state(), State::Replay);
        assert!(rig.is_quiet(), "one at a time");
        let body = message(&replay).body;
        assert_eq!((replay.xid, body.transno), (first.xid, transno));
        assert_eq!(body.flags, MessageFlags::REPLAY | MessageFlags::PACK_UID_GID);
        assert_eq!((body.pre_versions, body.handle), ([transno - 1, 1, 0, 0], NEW));
        assert!(body.last_xid < first.xid.0, "the target must not refuse the rest");
        rig.execute(&replay, transno, 11);
    }
    let ping = rig.sent();
    assert_eq!(rig.state(), State::ReplayWait);
    let done = MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE;
    assert_eq!(message(&ping).body.flags, done | MessageFlags::PACK_UID_GID);
    rig.reply(&ping, EARLY_LEN, &pong.to_bytes());
    rig.next();
    assert_eq!(rig.states(), [State::Recover, State::Full]);
    assert_eq!(rig.import.kept(), 2, "they are not on disk yet");
}

#[test]
fn a_connection_that_is_lost_in_recovery_goes_on_where_it_was() {
    let mut rig = Rig::full();
    let first = rig.write(3, 10);
    rig.restart();
    let replay = rig.sent();
    rig.execute(&replay, 10, 1);
    let replay = rig.sent();
    rig.advance(16);
    let connect = rig.sent();
    rig.grant(&connect, NEW, RECOVERS | ConnectOpFlags::RECONNECT);
    let again = rig.sent();
    assert_eq!((again.xid, replay.xid), (first[1].xid, first[1].xid));
    let flags = MessageFlags::REPLAY | MessageFlags::RESENT | MessageFlags::PACK_UID_GID;
    assert_eq!(message(&again).body.flags, flags);
    // The target restarts once more: everything that is not on disk is replayed.
    let mut connect = rig.restart();
    assert_eq!(message(&connect).body.connect_flags, ConnectOpFlags::TRANSNO);
    connect = rig.sent();
    assert_eq!((connect.xid, message(&connect).body.transno), (first[0].xid, 10));
    assert!(!message(&connect).body.flags.has(MessageFlags::RESENT));
}

#[test]
fn what_the_target_has_on_disk_after_its_restart_is_not_replayed() {
    let mut rig = Rig::full();
    rig.write(3, 10);
    rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
    assert_eq!(rig.state(), State::Connecting, "it has answered, so there is no pause");
    let connect = rig.sent();
    let mut reply = Message::reply(&format::OST_CONNECT, Status::OK)
        .with(&CONNECT_DATA, &rig.import.target().data);
    (reply.body.handle, reply.body.connect_flags) = (NEW, RECOVERS);
    reply.body.last_committed = 11;
    rig.reply(&connect, 0, &reply.to_bytes());
    assert_eq!(message(&rig.sent()).body.transno, 12);
}

#[test]
fn an_export_with_another_handle_is_that_of_another_start() {
    let mut rig = Rig::full();
    let first = rig.write(2, 10);
    rig.restart();
    let replay = rig.sent();
    rig.execute(&replay, 10, 1);
    rig.sent();
    rig.advance(16);
    // The answer to an earlier connect to this start was lost, so the target knows the client.
    let connect = rig.sent();
    rig.grant(&connect, Handle(10), RECOVERS | ConnectOpFlags::RECONNECT);
    let again = rig.sent();
    assert_eq!((again.xid, message(&again).body.transno), (first[0].xid, 10));
}

#[test]
fn a_replay_says_that_those_with_lower_numbers_follow() {
    let mut rig = Rig::full();
    let (one, two) = (rig.send(punch()), rig.send(punch()));
    rig.execute(&two.1, 10, 1);
    rig.execute(&one.1, 11, 1);
    rig.ended();
    rig.restart();
    let replay = rig.sent();
    assert_eq!(replay.xid, two.1.xid);
    assert_eq!(message(&replay).body.last_xid, one.1.xid.0 - 1);
}

#[test]
fn what_is_on_disk_before_its_turn_does_not_count_as_unreplied_afterwards() {
    let mut rig = Rig::full();
    rig.write(3, 10);
    rig.restart();
    rig.sent();
    rig.advance(6);
    rig.ended();
    rig.import.lose(rig.now, &mut rig.xids, Errno::ENOTCONN);
    let connect = rig.sent();
    rig.import.kept.commit(12);
    rig.grant(&connect, Handle(10), RECOVERS);
    let ping = rig.sent();
    assert_eq!(rig.state(), State::ReplayWait);
    rig.execute(&ping, 12, 12);
    rig.ended();
    let (_, sent) = rig.send(punch());
    assert_eq!(message(&sent).body.last_xid, sent.xid.0 - 1);
}

#[test]
fn an_open_is_replayed_until_its_close_is_on_disk() {
    let mut rig = Rig::full();
    let (open, sent) = rig.send(punch().opening());
    rig.execute(&sent, 10, 10);
    rig.ended();
    rig.import.message_mut(open).unwrap().body.project = 77;
    rig.write(1, 11);
    rig.restart();
    let replay = rig.sent();
    assert_eq!((replay.xid, message(&replay).body.project), (sent.xid, 77));
    rig.execute(&replay, 10, 10);
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    let Output::Replayed { request, .. } = rig.next() else { panic!("no reply") };
    assert_eq!(request, open);
    assert!(rig.is_quiet(), "the owner takes the new handle of the file first");
    rig.import.continue_replay(rig.now, &mut rig.xids, open);
    let other = rig.sent();
    assert_eq!(message(&other).body.transno, 11);
    rig.execute(&other, 11, 11);
    let ping = rig.sent();
    rig.execute(&ping, 11, 11);
    rig.ended();
    assert_eq!(rig.import.kept(), 1);
    rig.import.release(open, 11);
    assert_eq!(rig.import.kept(), 0);
}

#[test]
fn the_owner_replays_its_locks_after_the_transactions() {
    let mut rig = Rig::with(|target| target.replays_locks = true);
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    rig.states();
    let lock = || Request::new(Message::request(&format::OST_STATFS), 384).replaying_lock();
    let early = rig.import.request(rig.now, &mut rig.xids, lock());
    assert_eq!(rig.ended(), [(early, Err(Errno::ENOTCONN))]);
    rig.restart();
    assert_eq!(rig.states(), [State::ReplayLocks]);
    let locks = [(); 9].map(|()| rig.import.request(rig.now, &mut rig.xids, lock()));
    let mut sent: Vec<Transmission> = (0..8).map(|_| rig.sent()).collect();
    assert!(rig.is_quiet(), "at most 8 are in flight");
    rig.import.locks_replayed(rig.now, &mut rig.xids);
    let flags = MessageFlags::REQ_REPLAY_DONE | MessageFlags::PACK_UID_GID;
    assert_eq!(message(&sent[0]).body.flags, flags);
    rig.answer(&sent[0]);
    assert!(matches!(rig.next(), Output::Withdraw(_)));
    assert!(matches!(rig.next(), Output::Done { request, .. } if request == locks[0]));
    sent.push(rig.sent());
    sent[1..].iter().for_each(|sent| rig.answer(sent));
    assert_eq!(rig.ended().len(), 8);
    assert_eq!(rig.state(), State::ReplayWait);
}

#[test]
fn a_lock_that_is_not_replayed_fails_the_connection() {
    let mut rig = Rig::with(|target| target.replays_locks = true);
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, RECOVERS | ConnectOpFlags::REPLAYABLE);
    assert_eq!(rig.states(), [State::ReplayLocks]);
    let lock = statfs().replaying_lock();
    let (lock, sent) = rig.send(lock);
    rig.advance(5);
    rig.refuse(&sent, Errno::EIO);
    assert_eq!(rig.import.state(), State::Connecting);
    let connect = {
        assert!(matches!(rig.next(), Output::Withdraw(_)));
        assert!(matches!(rig.next(), Output::Done { request, .. } if request == lock));
        rig.sent()
    };
    rig.grant(&connect, EXPORT, RECOVERS | ConnectOpFlags::RECONNECT);
    assert_eq!(rig.states(), [State::ReplayLocks], "the owner begins again");
}

#[test]
fn a_client_whose_versions_do_not_fit_goes_on_and_is_evicted() {
    let mut rig = Rig::full();
    rig.write(2, 10);
    rig.restart();
    let replay = rig.sent();
    rig.refuse(&replay, Errno::EOVERFLOW);
    let replay = rig.sent();
    assert_eq!(message(&replay).body.transno, 11);
    rig.execute(&replay, 11, 1);
    let ping = rig.sent();
    rig.advance(5);
    rig.execute(&ping, 11, 1);
    let connect = rig.sent();
    rig.grant(&connect, Handle(10), ConnectOpFlags::REPLAYABLE);
    assert_eq!(rig.states(), [State::Evicted, State::Recover, State::Full]);
    assert_eq!((rig.import.kept(), rig.import.committed()), (0, 0));
}

#[test]
fn a_reply_with_the_number_of_another_transaction_is_not_believed() {
    let mut rig = Rig::full();
    rig.write(2, 10);
    rig.restart();
    let replay = rig.sent();
    rig.execute(&replay, 11, 1);
    assert!(matches!(rig.state(), State::Connecting | State::Disconnected(Errno::EPROTO)));
}

#[test]
fn a_target_that_replays_nothing_has_nothing_kept_for_it() {
    let mut rig = Rig::new();
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::NONE);
    let (_, sent) = rig.send(punch());
    rig.execute(&sent, 10, 1);
    assert_eq!(rig.import.kept(), 0);
    let mut rig = Rig::full();
    let (_, sent) = rig.send(punch().not_replayed());
    rig.execute(&sent, 10, 1);
    assert_eq!(rig.import.kept(), 0);
}

#[test]
fn a_report_of_the_management_service_shortens_the_search() {
    let mut rig = Rig::full();
    let instance = rig.import.granted().instance;
    rig.import.target_restarted(rig.now, &mut rig.xids, instance);
    assert!(rig.is_quiet(), "this is the instance that is connected");
    rig.now = rig.now + Duration::from_secs(10);
    rig.import.target_restarted(rig.now, &mut rig.xids, instance + 1);
    let connect = rig.sent();
    rig.refuse(&connect, Errno::ENODEV);
    rig.refuse(&rig.import.outputs.iter().find_map(transmission).unwrap(), Errno::ENODEV);
    assert_eq!(rig.state(), State::Disconnected(Errno::ENODEV));
    rig.import.outputs.clear();
    rig.import.target_restarted(rig.now, &mut rig.xids, instance + 1);
    assert_eq!(rig.states(), [State::Connecting]);
}

#[test]
fn a_report_of_the_management_service_needs_no_pause_after_the_last_connect() {
    let mut rig = Rig::full();
    let instance = rig.import.granted().instance;
    rig.import.target_restarted(rig.now, &mut rig.xids, instance + 1);
    assert_eq!(rig.states(), [State::Disconnected(Errno::ENOTCONN), State::Connecting]);
}

#[test]
fn a_connection_that_has_worked_is_replaced_at_once() {
    for has_worked in [false, true] {
        let mut rig = Rig::full();
        if has_worked {
            rig.request();
            let sent = rig.sent();
            rig.answer(&sent);
            rig.ended();
        }
        rig.request();
        let sent = rig.sent();
        rig.import.outputs.clear();
        rig.refuse(&sent, Errno::ENOTCONN);
        let connects = rig.state() == State::Connecting;
        assert_eq!(connects, has_worked, "otherwise it is tried again for ever without a pause");
    }
}

fn transmission(output: &Output) -> Option<Transmission> {
    match output {
        Output::Transmit(sent) => Some(sent.clone()),
        _ => None,
    }
}

#[test]
fn heavy_loss_does_not_lengthen_the_timeouts_of_requests() {
    let mut rig = Rig::full();
    for _ in 0..3 {
        rig.request();
        let lost = rig.sent();
        assert_eq!(rig.wait(), 16.0, "11 s for the server and 5 s for the network");
        // All connects are lost for a long time.
        for _ in 0..100 {
            rig.wait();
            rig.import.outputs.clear();
        }
        let found = (0..9).find_map(|_| {
            rig.import.outputs.clear();
            rig.wait();
            rig.import.outputs.iter().find_map(transmission)
        });
        rig.import.outputs.clear();
        let connect = found.expect("it connects");
        rig.grant(&connect, EXPORT, ConnectOpFlags::RECONNECT);
        let again = rig.sent();
        assert_eq!(again.xid, lost.xid);
        rig.answer(&again);
        rig.ended();
        assert_eq!(rig.import.timeouts.network(), 5);
    }
}

#[test]
fn a_client_that_has_waited_long_for_other_clients_pings_again() {
    let mut rig = Rig::with(|target| target.ping_interval = Duration::from_secs(10));
    rig.connect();
    let connect = rig.sent();
    rig.grant(&connect, EXPORT, ConnectOpFlags::REPLAYABLE);
    rig.restart();
    let last = rig.sent();
    assert_eq!(rig.state(), State::ReplayWait);
    assert_eq!(rig.wait(), 10.0);
    assert!(rig.is_quiet(), "the target waits for its other clients");
    rig.reply(&last, EARLY_LEN, &Message::reply(&format::PING, Status::OK).to_bytes());
    assert_eq!(rig.state(), State::Full);
    assert_eq!(rig.wait(), 10.0);
    assert_eq!(message(&rig.sent()).format(), &format::PING);
}
