//! A target that recovers, request by request.

use fulmar_lustre_wire::format::{MDS_CONNECT, MDS_DISCONNECT, MDS_STATFS, REINT_SETATTR};
use fulmar_lustre_wire::message::ConnectOpFlags;

use super::*;

const MDT: TargetId = TargetId(0);
const RECOVERS: ConnectOpFlags = ConnectOpFlags::RECOVERING;

/// A metadata target with 10 as its last transaction on disk, which knows these clients. The first has
/// a saved reply to the request 512 in its slot 1.
fn recovering(names: &[&str]) -> (Rig, Vec<Handle>) {
    let mut config = config();
    config.targets[0] = TargetConfig {
        kind: TargetKind::Mdt,
        name: uuid("fs-MDT0000"),
        uuid: uuid("fs-MDT0000_UUID"),
        operations: &[Opcode::MDS_REINT, Opcode::MDS_STATFS],
    };
    let mut rig = Rig::new(config);
    rig.server.set_last_committed(MDT, 10);
    let mut reply = Message::reply(&REINT_SETATTR, Status::OK);
    reply.body.transno = 9;
    let mut saved = vec![SavedReply { tag: 1, xid: 512, reply }];
    let known = |name: &&str| {
        let replies = std::mem::take(&mut saved);
        KnownClient { client: uuid(name), replies }
    };
    let known: Vec<KnownClient> = names.iter().map(known).collect();
    let handles = rig.server.recover(rig.now, MDT, &known, Window::default());
    (rig, handles)
}

fn reconnect(name: &str) -> Message<'static> {
    let mut message = connect(name).with(&TARGET_UUID, &uuid("fs-MDT0000"));
    message.body.opcode = Opcode::MDS_CONNECT;
    message.body.connection_count = 2;
    message.body.connect_flags = ConnectOpFlags::NONE;
    message.body.handle = Handle(0xdead);
    message
}

/// A replay of a transaction.
fn replay(export: Handle, transno: u64) -> Message<'static> {
    let mut message = flagged(request(&REINT_SETATTR, export), MessageFlags::REPLAY);
    message.body.connection_count = 2;
    message.body.transno = transno;
    message
}

fn last_ping(export: Handle) -> Message<'static> {
    let flags = MessageFlags::REQ_REPLAY_DONE | MessageFlags::LOCK_REPLAY_DONE;
    let mut message = flagged(ping(export), flags);
    message.body.connection_count = 2;
    message
}

impl Rig {
    /// Connects a client, and returns the body of the reply.
    fn join(&mut self, n: u32, name: &str) -> fulmar_lustre_wire::message::Body {
        self.send(node(n), 128, &reconnect(name));
        let request = self.request();
        let asked = request.message.require(&CONNECT_DATA).unwrap();
        let reply = Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &asked);
        self.reply(request.id, reply).message().body
    }

    fn execute(&mut self, transno: u64) -> Sent {
        let request = self.request();
        assert_eq!(request.message.body.transno, transno);
        let mut reply = Message::reply(&REINT_SETATTR, Status::OK);
        reply.body.transno = transno;
        self.reply(request.id, reply)
    }

    fn evicted(&mut self) -> Option<Eviction> {
        match self.tasks.pop_front()? {
            Task::Evicted { why, .. } => Some(why),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn known_clients_connect_and_others_wait() {
    let (mut rig, handles) = recovering(&["one", "two"]);
    let refused = |rig: &mut Rig, message: &Message<'_>| rig.ask(node(3), 128, message).status();
    assert_eq!(refused(&mut rig, &reconnect("new")), (Kind::ERROR, -16));
    let mut again = reconnect("one");
    again.body.connection_count = 1;
    assert_eq!(refused(&mut rig, &again), (Kind::ERROR, -114), "it claims to be new");
    let body = rig.join(1, "one");
    assert_eq!((body.handle, body.connect_flags, body.last_committed), (handles[0], RECOVERS, 10));
    // Its reply was lost: it asks again, and the target knows it.
    let mut again = reconnect("one");
    again.body.connection_count = 3;
    rig.send(node(1), 256, &again);
    let id = rig.request().id;
    let data = ConnectData { flags: ConnectFlags::FULL20, ..ConnectData::default() };
    let granted = Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &data);
    let body = rig.reply(id, granted).message().body;
    assert_eq!(body.connect_flags, RECOVERS | ConnectOpFlags::RECONNECT);
    // A client without a record takes no part.
    let asked = ConnectData { flags: data.flags | ConnectFlags::LIGHTWEIGHT, ..data };
    rig.send(node(4), 128, &reconnect("light").with(&CONNECT_DATA, &asked));
    let id = rig.request().id;
    let granted = Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &asked);
    assert_eq!(rig.reply(id, granted).message().body.connect_flags, ConnectOpFlags::NONE);
    assert!(rig.server.recovers(MDT));
}

#[test]
fn replays_are_executed_in_order_and_the_final_pings_answered_at_the_end() {
    let (mut rig, handles) = recovering(&["one", "two"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 12));
    rig.join(2, "two");
    assert!(rig.tasks.is_empty() && rig.sent.is_empty());
    rig.send(node(2), 1024, &replay(handles[1], 11));
    assert_eq!(rig.execute(11).message().body.transno, 11);
    rig.execute(12);
    rig.send(node(1), 2048, &last_ping(handles[0]));
    rig.advance(6);
    let early = rig.sent.pop_front().unwrap();
    let body = early.message().body;
    assert_eq!((early.put.offset, body.timeout, body.service_time), (0, 36, 6));
    rig.send(node(2), 2048, &last_ping(handles[1]));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
    let bodies: Vec<_> = rig.sent.drain(..).map(|sent| sent.message().body).collect();
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|body| body.status == Status::OK && body.timeout == 5));
    assert!(!rig.server.recovers(MDT));
    rig.server.is_idle().unwrap();
    // Now a replay is a mistake.
    rig.send(node(1), 4096, &replay(handles[0], 13));
    assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::ERROR, -19));
    assert_eq!(rig.evicted(), Some(Eviction::Replay));
}

#[test]
fn a_known_client_takes_part_even_if_it_claims_to_have_no_record() {
    let (mut rig, handles) = recovering(&["one"]);
    let flags = ConnectFlags::FULL20 | ConnectFlags::LIGHTWEIGHT;
    let asked = ConnectData { flags, ..ConnectData::default() };
    rig.send(node(1), 128, &reconnect("one").with(&CONNECT_DATA, &asked));
    let id = rig.request().id;
    let granted = Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &asked);
    assert_eq!(rig.reply(id, granted).message().body.connect_flags, RECOVERS);
    rig.send(node(1), 640, &last_ping(handles[0]));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
}

#[test]
fn a_repeated_replay_is_executed_once() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 11));
    let resent = |transno| {
        let mut message = replay(handles[0], transno);
        message.body.flags = message.body.flags | MessageFlags::RESENT;
        message
    };
    rig.send(node(1), 1024, &resent(11));
    assert_eq!(rig.dropped(DropReason::InProgress), 1);
    rig.execute(11);
    for message in [resent(11), replay(handles[0], 11)] {
        rig.send(node(1), 1024, &message);
        assert_eq!(rig.sent.pop_front().unwrap().message().body.transno, 11);
        assert!(rig.tasks.is_empty());
    }
    assert_eq!(rig.stats().repeated, 2);
}

#[test]
fn a_reply_from_disk_answers_a_resent_request_but_not_a_replay() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    // An open that is on disk opens its file again.
    let mut open = replay(handles[0], 9);
    open.body.tag = 1;
    rig.send(node(1), 512, &open);
    rig.execute(9);
    rig.send(node(1), 640, &last_ping(handles[0]));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
    rig.sent.clear();
    rig.server.set_last_committed(MDT, 99);
    let mut resent = flagged(request(&REINT_SETATTR, handles[0]), MessageFlags::RESENT);
    (resent.body.connection_count, resent.body.tag) = (2, 1);
    let body = rig.ask(node(1), 512, &resent).message().body;
    assert_eq!((body.transno, body.last_committed), (9, 99));
}

#[test]
fn an_older_replay_does_not_take_the_slot_of_a_reply() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    let mut open = replay(handles[0], 8);
    open.body.tag = 1;
    rig.send(node(1), 384, &open);
    rig.execute(8);
    rig.send(node(1), 640, &last_ping(handles[0]));
    rig.sent.clear();
    rig.tasks.clear();
    let mut resent = flagged(request(&REINT_SETATTR, handles[0]), MessageFlags::RESENT);
    (resent.body.connection_count, resent.body.tag) = (2, 1);
    assert_eq!(rig.ask(node(1), 512, &resent).message().body.transno, 9);
}

#[test]
fn other_requests_of_a_recovering_client_are_refused() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    let mut ask = |message: Message<'static>| {
        let mut message = message;
        message.body.connection_count = 2;
        rig.ask(node(1), 1024, &message).status()
    };
    assert_eq!(ask(request(&MDS_STATFS, handles[0])), (Kind::ERROR, -11));
    assert_eq!(ask(request(&REINT_SETATTR, handles[0])), (Kind::ERROR, -11));
    assert_eq!(ask(ping(handles[0])), (Kind::REPLY, 0));
    // A client may leave.
    let mut message = request(&MDS_DISCONNECT, handles[0]);
    message.body.connection_count = 2;
    rig.send(node(1), 2048, &message);
    let id = rig.request().id;
    rig.reply(id, Message::reply(&MDS_DISCONNECT, Status::OK));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
    assert!(rig.server.exports().is_empty());
}

#[test]
fn the_end_of_the_window_evicts_who_is_missing() {
    let (mut rig, handles) = recovering(&["one", "two"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 12));
    rig.advance(299);
    assert!(rig.tasks.is_empty(), "it is not evicted for its silence either");
    rig.advance(1);
    assert_eq!(rig.evicted(), Some(Eviction::Recovery));
    let request = rig.request();
    assert!(request.checks_versions && request.export == handles[0]);
    let refused = Message::error(&REINT_SETATTR, Status::failed(Errno::EOVERFLOW));
    rig.reply(request.id, refused);
    rig.sent.clear();
    rig.send(node(1), 2048, &last_ping(handles[0]));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
    assert_eq!(rig.sent.pop_back().unwrap().status(), (Kind::REPLY, 0));
    assert_eq!(rig.evicted(), Some(Eviction::Recovery), "its replays did not fit");
    rig.server.is_idle().unwrap();
    assert!(rig.server.exports().is_empty());
    // The late one is a new client now.
    let body = rig.join(2, "two");
    assert!(body.handle != handles[1] && body.connect_flags == ConnectOpFlags::NONE);
}

#[test]
fn what_a_client_that_is_evicted_has_sent_is_dropped() {
    let (mut rig, handles) = recovering(&["one", "two"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 12));
    rig.send(node(1), 1152, &replay(handles[0], 13));
    assert!(rig.server.evict(rig.now, handles[0], Eviction::NotAnswered));
    rig.drain();
    assert_eq!(rig.dropped(DropReason::Outdated), 2);
    rig.server.is_idle().unwrap();
    assert_eq!(rig.evicted(), Some(Eviction::NotAnswered));
    rig.server.abort_recovery(rig.now, MDT);
    rig.drain();
    assert_eq!(rig.evicted(), Some(Eviction::Recovery));
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
}

#[test]
fn a_replay_that_the_host_discards_is_executed_when_it_comes_again() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 11));
    let id = rig.request().id;
    rig.server.discard(rig.now, id);
    rig.drain();
    rig.send(node(1), 1024, &replay(handles[0], 11));
    rig.execute(11);
}

#[test]
#[should_panic(expected = "is no reply to 0xb")]
fn a_replay_keeps_its_transaction() {
    let (mut rig, handles) = recovering(&["one"]);
    rig.join(1, "one");
    rig.send(node(1), 1024, &replay(handles[0], 11));
    let id = rig.request().id;
    let mut reply = Message::reply(&REINT_SETATTR, Status::OK);
    reply.body.transno = 12;
    rig.reply(id, reply);
}

#[test]
fn a_client_that_connects_again_sends_its_final_ping_before_the_end() {
    let (mut rig, handles) = recovering(&["one", "two"]);
    rig.join(1, "one");
    rig.join(2, "two");
    rig.send(node(1), 2048, &last_ping(handles[0]));
    let mut again = reconnect("one");
    (again.body.connection_count, again.body.handle) = (3, handles[0]);
    rig.send(node(1), 4096, &again);
    let id = rig.request().id;
    let data = ConnectData { flags: ConnectFlags::FULL20, ..ConnectData::default() };
    rig.reply(id, Message::reply(&MDS_CONNECT, Status::OK).with(&CONNECT_DATA, &data));
    rig.send(node(2), 2048, &last_ping(handles[1]));
    assert!(rig.server.recovers(MDT), "another final ping is under way");
    let mut ping = last_ping(handles[0]);
    ping.body.connection_count = 3;
    rig.send(node(1), 8192, &ping);
    assert_eq!(rig.tasks.pop_front(), Some(Task::Recovered { target: MDT }));
    assert!(!rig.server.recovers(MDT));
}
