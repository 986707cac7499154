//! The checks of a request, in order. Spec: ptlrpc-ldlm-mgs §6.3.

use fulmar_lustre_wire::format;

use super::*;

#[test]
fn a_client_connects_pings_and_disconnects() {
    let mut rig = Rig::new(config());
    assert_eq!(rig.attached, 4);
    let export = rig.connect(node(1), "one");
    let sent = rig.ask(node(1), 256, &ping(export));
    assert_eq!(sent.status(), (Kind::REPLY, 0));
    let Put { target, source, portal, match_bits, offset, ack, .. } = sent.put;
    assert_eq!((target, source), (node(1), Some(node(0).nid)));
    assert_eq!((portal, match_bits, offset, ack), (portal::MGS_REPLY, 256, 224, false));
    rig.send(node(1), 384, &request(&format::MGS_DISCONNECT, export));
    let id = rig.request().id;
    let disconnected = Message::reply(&format::MGS_DISCONNECT, Status::OK);
    assert_eq!(rig.reply(id, disconnected).status(), (Kind::REPLY, 0));
    assert!(rig.server.exports().is_empty());
    let refused = rig.ask(node(1), 512, &ping(export));
    assert_eq!(refused.status(), (Kind::ERROR, -107));
    assert_eq!(refused.message().body.timeout, 0);
    rig.server.is_idle().unwrap();
    assert_eq!(rig.stats().operations[&Opcode::OBD_PING].count, 2);
}

/// After a restart the server does not know whether a client had `REP_MBITS`: it waits at the number of its
/// request, or at the match bits of its bulk data.
#[test]
fn a_client_that_is_not_known_gets_the_error_where_it_may_wait() {
    let mut rig = Rig::new(config());
    let mut unknown = ping(Handle(7));
    unknown.body.match_bits = 1030;
    rig.send(node(1), 1024, &unknown);
    let mut bits = Vec::new();
    for sent in rig.sent.drain(..) {
        assert_eq!(sent.status(), (Kind::ERROR, -107));
        bits.push(sent.put.match_bits);
    }
    bits.sort_unstable();
    assert_eq!(bits, [1024, 1030]);
    rig.server.is_idle().unwrap();
    // One that says no other waits at its number.
    for match_bits in [0, 1152] {
        unknown.body.match_bits = match_bits;
        assert_eq!(rig.ask(node(1), 1152, &unknown).put.match_bits, 1152);
    }
    rig.server.is_idle().unwrap();
}

#[test]
fn what_is_not_a_valid_request_is_dropped() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    let reply = Message::reply(&PING, Status::OK).to_bytes();
    let short = ping(export).to_bytes()[..200].to_vec();
    let mut protected = ping(export);
    protected.head.flavor = fulmar_lustre_wire::message::Flavor::SKI;
    for (n, bytes) in
        [vec![], vec![0; 300], reply, short, protected.to_bytes()].into_iter().enumerate()
    {
        rig.deliver(node(1), portal::MGS_REQUEST, 256, bytes);
        assert_eq!(rig.dropped(DropReason::Malformed), n as u64 + 1);
    }
    let mut no_time = ping(export);
    no_time.body.timeout = 0;
    rig.send(node(1), 256, &no_time);
    assert_eq!(rig.dropped(DropReason::NoTime), 1);
    let mut outdated = ping(export);
    outdated.body.connection_count = 0;
    rig.send(node(1), 256, &outdated);
    assert_eq!(rig.dropped(DropReason::Outdated), 1);
    assert!(rig.sent.is_empty());
}

#[test]
fn wrong_requests_are_refused_with_the_errno_of_a_kernel_server() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    let mut check = |xid: u64, change: fn(&mut Message<'static>), errno: i32| {
        let mut message = ping(export);
        change(&mut message);
        assert_eq!(rig.ask(node(1), xid, &message).status(), (Kind::ERROR, -errno));
    };
    check(256, |ping| ping.body.handle = Handle(1), 107);
    check(256, |ping| ping.body.handle = Handle::NONE, 107);
    check(256, |ping| ping.body.opcode = Opcode(0x7777), 95);
    check(256, |ping| ping.body.opcode = Opcode::OST_READ, 95);
    check(256, |ping| ping.body.service = fulmar_lustre_wire::Service::OST, 22);
    check(256, |ping| ping.body.last_xid = 256, 71);
    // The client has said that it has all replies up to 256.
    check(128, |_| (), 71);
    let refused = &rig.stats().refused;
    let counts: Vec<(i32, u64)> = refused.iter().map(|(errno, &n)| (errno.0, n)).collect();
    assert_eq!(counts, [(22, 1), (71, 2), (95, 2), (107, 2)]);
}

#[test]
fn a_request_without_its_body_is_not_given_to_the_host() {
    let mut config = config();
    config.targets[0].operations = &[Opcode::OST_GETATTR, Opcode::LDLM_ENQUEUE, Opcode::OST_STATFS];
    let mut rig = Rig::new(config);
    let export = rig.connect(node(1), "one");
    for (n, format) in [&format::OST_GETATTR, &format::ENQUEUE].into_iter().enumerate() {
        let xid = 256 + 256 * n as u64;
        let missing = request(format, export);
        assert_eq!(rig.ask(node(1), xid, &missing).status(), (Kind::ERROR, -14));
        let short = match n {
            0 => missing.with_bytes(&format::OST_BODY, vec![1; 20]),
            _ => missing.with_bytes(&format::LOCK_REQUEST, vec![1; 20]),
        };
        assert_eq!(rig.ask(node(1), xid + 128, &short).status(), (Kind::ERROR, -14));
    }
    // Others need none.
    rig.send(node(1), 768, &request(&format::OST_STATFS, export));
    assert_eq!(rig.request().xid, 768);
}

#[test]
fn a_replay_to_a_target_without_recovery_evicts_its_client() {
    for of_recovery in [true, false] {
        let mut rig = Rig::new(config());
        let export = rig.connect(node(1), "one");
        let mut message = modify(export);
        if of_recovery {
            message.body.flags = MessageFlags::REPLAY
        } else {
            message.body.transno = 7
        }
        rig.send(node(1), 256, &message);
        assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::ERROR, -19));
        let Some(Task::Evicted { why, .. }) = rig.tasks.pop_front() else { panic!() };
        assert_eq!(why, Eviction::Replay);
        assert_eq!(rig.ask(node(1), 384, &ping(export)).status(), (Kind::ERROR, -107));
    }
}

#[test]
fn connects_are_refused_by_the_state_and_the_name_of_the_target() {
    let mut rig = Rig::new(config());
    let other = connect("one").with(&TARGET_UUID, &uuid("fs-OST0000"));
    assert_eq!(rig.ask(node(1), 128, &other).status(), (Kind::ERROR, -19));
    for (state, errno) in [(TargetState::Starting, 11), (TargetState::Stopping, 19)] {
        rig.server.set_state(MGS, state);
        assert_eq!(rig.ask(node(1), 128, &connect("one")).status(), (Kind::ERROR, -errno));
    }
    rig.server.set_state(MGS, TargetState::Open);
    let nameless = connect("one").with_bytes(&CLIENT_UUID, Vec::new());
    assert_eq!(rig.ask(node(1), 128, &nameless).status(), (Kind::ERROR, -22));
    let mut another = connect("one");
    another.body.opcode = Opcode::OST_CONNECT;
    assert_eq!(rig.ask(node(1), 128, &another).status(), (Kind::ERROR, -95));
    let export = rig.connect(node(1), "one");
    rig.server.set_state(MGS, TargetState::Stopping);
    assert_eq!(rig.ask(node(1), 256, &ping(export)).status(), (Kind::ERROR, -19));
}

#[test]
fn the_host_may_refuse_a_connect_and_grants_only_what_is_requested() {
    let mut rig = Rig::new(config());
    rig.send(node(1), 128, &connect("one"));
    // A second one while the first is executed.
    assert_eq!(
        {
            rig.send(node(1), 256, &connect("one"));
            rig.sent.pop_front().unwrap().status()
        },
        (Kind::ERROR, -114)
    );
    let id = rig.request().id;
    let refused = Message::error(&MGS_CONNECT, Status::failed(Errno::EACCES));
    assert_eq!(rig.reply(id, refused).status(), (Kind::REPLY, -13));
    assert!(rig.server.exports().is_empty());
    rig.send(node(1), 384, &connect("one"));
    let id = rig.request().id;
    let all = ConnectData { flags: ConnectFlags(u64::MAX), ..ConnectData::default() };
    let sent = rig.reply(id, Message::reply(&MGS_CONNECT, Status::OK).with(&CONNECT_DATA, &all));
    let reply = sent.message().answering(&MGS_CONNECT);
    let granted = reply.require(&CONNECT_DATA).unwrap().flags;
    assert_eq!(granted, ConnectFlags::FULL20 | ConnectFlags::AT | ConnectFlags::FLAGS2);
    assert_eq!((sent.put.offset, sent.put.match_bits), (0, 384));
    rig.send(node(1), 512, &connect("two"));
    let id = rig.request().id;
    rig.server.discard(rig.now, id);
    rig.server.is_idle().unwrap();
    assert_eq!(rig.server.exports().len(), 1);
}

#[test]
fn a_reconnect_ends_the_requests_of_the_earlier_connection() {
    let mut config = config();
    config.partitions[0].running_max = 2;
    let mut rig = Rig::new(config);
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 256, &modify(export));
    rig.send(node(1), 384, &modify(export));
    rig.send(node(1), 512, &modify(export));
    let running = rig.request().id;
    assert!(rig.tasks.is_empty(), "the other place is for urgent requests");
    let mut again = connect("one");
    again.body.connection_count = 2;
    again.body.connect_flags = Default::default();
    // Without its handle the client is one that does not know what is in progress.
    rig.send(node(1), 640, &again);
    assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::ERROR, -16));
    again.body.handle = export;
    rig.send(node(1), 768, &again);
    let sent = rig.grant();
    let body = sent.message().body;
    assert_eq!(body.handle, export);
    assert!(body.connect_flags.has(fulmar_lustre_wire::message::ConnectOpFlags::RECONNECT));
    // One that waits is resent on the new connection, the other is not.
    let mut resent = flagged(modify(export), MessageFlags::RESENT);
    resent.body.connection_count = 2;
    resent.body.match_bits = 9999;
    rig.send(node(1), 384, &resent);
    assert_eq!(rig.dropped(DropReason::InProgress), 1);
    rig.reply(running, Message::reply(&TARGET_REG, Status::OK));
    let next = rig.request();
    assert_eq!(next.xid, 384);
    let sent = rig.reply(next.id, Message::reply(&TARGET_REG, Status::OK));
    assert_eq!(sent.put.match_bits, 9999);
    assert_eq!(rig.dropped(DropReason::Outdated), 1);
    rig.server.is_idle().unwrap();
}
