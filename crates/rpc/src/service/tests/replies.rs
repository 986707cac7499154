//! Replies: saved ones, early ones, and those of evicted clients.

use super::*;

#[test]
fn a_resent_request_is_executed_once() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 256, &modify(export));
    let first = rig.request();
    // It is sent again while it is executed, and the reply goes to the later transmission.
    let mut resent = flagged(modify(export), MessageFlags::RESENT);
    resent.body.match_bits = 1024;
    rig.send(node(1), 256, &resent);
    assert!(rig.tasks.is_empty());
    let mut reply = Message::reply(&TARGET_REG, Status(7));
    reply.body.transno = 42;
    let sent = rig.reply(first.id, reply);
    assert_eq!(sent.put.match_bits, 1024);
    // That reply is lost too.
    resent.body.match_bits = 1152;
    let again = rig.ask(node(1), 256, &resent);
    assert_eq!((again.put.match_bits, &again.bytes), (1152, &sent.bytes));
    assert_eq!((again.message().body.transno, again.message().body.status), (42, Status(7)));
    assert_eq!(rig.stats().repeated, 1);
    // A repeated XID that is no resend is an error of the client.
    assert_eq!(rig.ask(node(1), 256, &modify(export)).status(), (Kind::ERROR, -107));
    let mut later = ping(export);
    later.body.last_xid = 256;
    rig.ask(node(1), 384, &later);
    assert_eq!(rig.server.exports().get(export).unwrap().saved(), (0, 0));
    rig.server.is_idle().unwrap();
}

#[test]
fn early_replies_come_before_the_deadline_and_name_a_later_one() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 256, &modify(export));
    let id = rig.request().id;
    let due = rig.server.poll_timeout().unwrap();
    assert_eq!(due.since(rig.now), Duration::from_secs(6));
    rig.advance(6);
    let early = rig.sent.pop_front().unwrap();
    let (put, message) = (early.put, early.message());
    assert_eq!((put.offset, put.match_bits, early.bytes.len()), (0, 256, 224));
    assert!(message.has_early_checksum());
    assert_eq!((message.body.timeout, message.body.service_time), (36, 6));
    // 36 s after its arrival it would be late: the next announcement comes 5 s before.
    rig.advance(24);
    assert!(rig.sent.is_empty());
    rig.advance(1);
    assert_eq!(rig.sent.pop_front().unwrap().message().body.timeout, 61);
    rig.advance(1);
    let sent = rig.reply(id, Message::reply(&TARGET_REG, Status::OK));
    assert_eq!((sent.put.offset, sent.message().body.service_time), (224, 32));
    assert_eq!((sent.message().body.timeout, rig.stats().early), (61, 2));
    rig.server.is_idle().unwrap();
}

#[test]
fn early_replies_end_when_the_estimate_cannot_grow_or_the_client_is_gone() {
    let mut config = config();
    config.timeouts.max = 40;
    let mut rig = Rig::new(config);
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 256, &modify(export));
    let mut timeouts = Vec::new();
    for _ in 0..100 {
        rig.advance(1);
        timeouts.extend(rig.sent.drain(..).map(|sent| sent.message().body.timeout));
    }
    assert_eq!(timeouts, [36, 40]);
    let mut rig = Rig::new(super::config());
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 256, &modify(export));
    let id = rig.request().id;
    assert!(
        rig.server.evict(rig.now, export, Eviction::Administrator)
            && !rig.server.evict(rig.now, export, Eviction::Administrator)
    );
    rig.advance(20);
    assert!(rig.sent.is_empty());
    // It was executed: its client is informed.
    assert_eq!(rig.reply(id, Message::reply(&TARGET_REG, Status::OK)).status(), (Kind::REPLY, 0));
}

#[test]
fn requests_that_are_late_or_discarded_have_no_reply() {
    let mut config = config();
    config.partitions[0].running_max = 1;
    let mut rig = Rig::new(config);
    let export = rig.connect(node(1), "one");
    let mut hasty = modify(export);
    hasty.head.flags = HeaderFlags::NONE;
    rig.send(node(1), 256, &hasty);
    rig.send(node(1), 384, &hasty);
    rig.advance(11);
    let id = rig.request().id;
    rig.server.discard(rig.now, id);
    rig.drain();
    assert!(rig.sent.is_empty() && rig.tasks.is_empty());
    assert_eq!((rig.dropped(DropReason::Discarded), rig.dropped(DropReason::Late)), (1, 1));
    rig.server.is_idle().unwrap();
}

#[test]
fn silent_clients_are_evicted_and_the_host_is_notified() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    let deadline = rig.now + Duration::from_secs(150);
    while let Some(next) = rig.server.poll_timeout().filter(|&next| next <= deadline) {
        rig.advance(next.since(rig.now).as_secs() + 1);
    }
    let Some(Task::Evicted { export: gone, client, why, .. }) = rig.tasks.pop_front() else {
        panic!("{:?}", rig.tasks)
    };
    assert_eq!((gone, client, why), (export, uuid("one"), Eviction::Silence));
    assert!(rig.server.exports().is_empty());
}

#[test]
fn replies_carry_the_last_transaction_on_disk() {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    rig.server.set_last_committed(MGS, 99);
    assert_eq!(rig.ask(node(1), 256, &ping(export)).message().body.last_committed, 99);
}

#[test]
fn a_client_without_early_replies_gets_its_reply_at_offset_0_by_xid() {
    let mut rig = Rig::new(config());
    let mut old = connect("old");
    let data = ConnectData { flags: ConnectFlags::FULL20, ..ConnectData::default() };
    old = old.with(&CONNECT_DATA, &data);
    rig.send(node(1), 128, &old);
    let export = rig.grant().message().body.handle;
    let mut message = ping(export);
    message.head.flags = HeaderFlags::NONE;
    message.body.match_bits = 777;
    let put = rig.ask(node(1), 256, &message).put;
    assert_eq!((put.offset, put.match_bits), (0, 256));
}

/// A server, a client's export, and its change with a difficult reply that was sent.
fn difficult(transno: u64) -> (Rig, Handle, RequestId, Sent) {
    let mut rig = Rig::new(config());
    let export = rig.connect(node(1), "one");
    rig.sends = false;
    rig.send(node(1), 256, &modify(export));
    let id = rig.request().id;
    let mut reply = Message::reply(&TARGET_REG, Status::OK);
    reply.body.transno = transno;
    rig.server.reply_difficult(rig.now, id, reply);
    rig.drain();
    let sent = rig.sent.pop_front().unwrap();
    (rig, export, id, sent)
}

fn confirmed(rig: &mut Rig) -> Vec<RequestId> {
    rig.drain();
    rig.server.check_invariants().unwrap();
    let of = |task| match task {
        Task::Confirmed { request } => Some(request),
        _ => None,
    };
    rig.tasks.drain(..).filter_map(of).collect()
}

#[test]
fn a_difficult_reply_is_confirmed_by_its_client() {
    let (mut rig, _, id, sent) = difficult(42);
    assert!(sent.put.ack);
    rig.acknowledge(sent.user);
    assert_eq!(confirmed(&mut rig), [id]);
    rig.finish_send(sent.user, Ok(()));
    rig.server.set_last_committed(MGS, 42);
    assert_eq!(confirmed(&mut rig), []);
    rig.server.is_idle().unwrap();
}

#[test]
fn a_difficult_reply_is_confirmed_by_its_commit() {
    let (mut rig, export, id, sent) = difficult(42);
    rig.server.set_last_committed(MGS, 41);
    assert_eq!(confirmed(&mut rig), []);
    rig.server.set_last_committed(MGS, 42);
    assert_eq!(confirmed(&mut rig), [id]);
    // It was lost, so it is sent again, but nothing depends on it any more.
    rig.finish_send(sent.user, Err(Errno::ETIMEDOUT));
    rig.send(node(1), 256, &flagged(modify(export), MessageFlags::RESENT));
    assert!(!rig.sent.pop_front().unwrap().put.ack);
}

#[test]
fn a_difficult_reply_is_confirmed_when_its_client_is_gone() {
    let (mut rig, export, id, sent) = difficult(0);
    rig.server.set_last_committed(MGS, 99);
    assert_eq!(confirmed(&mut rig), []);
    rig.server.evict(rig.now, export, Eviction::Administrator);
    assert_eq!(confirmed(&mut rig), [id]);
    rig.finish_send(sent.user, Err(Errno::ETIMEDOUT));
    rig.server.is_idle().unwrap();
}

#[test]
fn a_lost_difficult_reply_is_acknowledged_when_it_is_sent_again() {
    let (mut rig, export, id, sent) = difficult(42);
    rig.finish_send(sent.user, Err(Errno::ETIMEDOUT));
    assert_eq!(confirmed(&mut rig), []);
    rig.send(node(1), 256, &flagged(modify(export), MessageFlags::RESENT));
    let again = rig.sent.pop_front().unwrap();
    assert!(again.put.ack);
    rig.acknowledge(again.user);
    assert_eq!(confirmed(&mut rig), [id]);
}

#[test]
fn a_difficult_reply_of_a_change_on_disk_is_a_common_one() {
    let (mut rig, export, ..) = difficult(0);
    rig.server.set_last_committed(MGS, 42);
    rig.send(node(1), 384, &modify(export));
    let id = rig.request().id;
    let mut reply = Message::reply(&TARGET_REG, Status::OK);
    reply.body.transno = 42;
    rig.server.reply_difficult(rig.now, id, reply);
    assert_eq!(confirmed(&mut rig), [id]);
    assert!(!rig.sent.pop_front().unwrap().put.ack);
}
