//! Targets that come and go while their server runs.

use super::*;
use crate::bulk::{Bulk, Direction};
use fulmar_base::BufferId;
use fulmar_lustre_wire::format::BLOCKING;

const NAME: &str = "other";

fn target() -> TargetConfig {
    TargetConfig { name: uuid(NAME), uuid: uuid(NAME), ..config().targets[0] }
}

fn connect_other(name: &str) -> Message<'static> {
    connect(name).with(&TARGET_UUID, &uuid(NAME))
}

/// A server with two targets, and a client with an export of each.
fn with_two() -> (Rig, TargetId, [Handle; 2]) {
    let mut rig = Rig::new(config());
    let other = rig.server.add_target(target());
    assert_eq!(rig.ask(node(1), 128, &connect_other("one")).status(), (Kind::ERROR, -11));
    rig.server.set_state(other, TargetState::Open);
    let first = rig.connect(node(1), "one");
    rig.send(node(1), 256, &connect_other("one"));
    let second = rig.grant().message().body.handle;
    (rig, other, [first, second])
}

fn remove(rig: &mut Rig, target: TargetId) {
    assert!(rig.server.remove_target(rig.now, target));
    assert!(!rig.server.remove_target(rig.now, target));
    rig.drain();
    rig.server.check_invariants().unwrap();
}

#[test]
fn a_removed_target_refuses_what_it_had_and_what_comes_and_the_others_go_on() {
    let (mut rig, other, [first, second]) = with_two();
    rig.send(node(1), 1024, &modify(first));
    let kept = rig.request().id;
    rig.send(node(1), 1152, &modify(second));
    rig.request();
    // Its client is gone, and the host still executes its request.
    rig.send(node(2), 128, &connect_other("two"));
    let gone = rig.grant().message().body.handle;
    rig.send(node(2), 256, &modify(gone));
    rig.request();
    assert!(rig.server.evict(rig.now, gone, Eviction::Administrator));
    rig.drain();
    rig.tasks.clear();
    // The host executes a CONNECT.
    rig.send(node(3), 128, &connect_other("three"));
    rig.request();
    remove(&mut rig, other);
    assert!(rig.tasks.is_empty(), "no client is evicted");
    let statuses: Vec<_> = rig.sent.drain(..).map(|sent| sent.status()).collect();
    assert_eq!(statuses, [(Kind::ERROR, -19); 3]);
    assert_eq!(rig.ask(node(1), 1280, &ping(second)).status(), (Kind::ERROR, -107));
    assert_eq!(rig.ask(node(1), 1408, &connect_other("one")).status(), (Kind::ERROR, -19));
    assert_eq!(rig.ask(node(1), 1536, &ping(first)).status(), (Kind::REPLY, 0));
    rig.reply(kept, Message::reply(&TARGET_REG, Status::OK));
    rig.server.is_idle().unwrap();

    let again = rig.server.add_target(target());
    assert_ne!(again, other, "numbers are not used twice");
    rig.server.set_state(again, TargetState::Open);
    rig.send(node(1), 1664, &connect_other("one"));
    assert_eq!(rig.grant().status(), (Kind::REPLY, 0));
}

#[test]
fn a_stopping_target_begins_nothing_that_waits() {
    let mut config = config();
    config.partitions[0].running_max = 2;
    let mut rig = Rig::new(config);
    let export = rig.connect(node(1), "one");
    rig.send(node(1), 1024, &modify(export));
    let running = rig.request().id;
    rig.send(node(1), 1152, &modify(export));
    assert!(rig.tasks.is_empty(), "it waits");
    rig.server.set_state(MGS, TargetState::Stopping);
    let first = rig.reply(running, Message::reply(&TARGET_REG, Status::OK));
    assert_eq!(first.status(), (Kind::REPLY, 0));
    assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::ERROR, -19));
    rig.server.is_idle().unwrap();
}

#[test]
fn bulk_data_of_a_removed_target_are_withdrawn_before_the_answer() {
    let (mut rig, other, [_, second]) = with_two();
    rig.send(node(1), 1024, &modify(second));
    let id = rig.request().id;
    let bulk = Bulk::new(Direction::ToServer, portal::MGS_BULK, (BufferId(4), 0, 100), 0);
    rig.server.transfer(rig.now, id, bulk, 1);
    rig.drain();
    let user = rig.moves.pop_front().and_then(|op| op.user()).expect("it is moved");
    rig.server.handle_posted(rig.now, user, Ok(MdId(7)));
    remove(&mut rig, other);
    assert_eq!((rig.sent.len(), &rig.unlinked[..]), (0, &[MdId(7)][..]));
    rig.server.handle_event(rig.now, &Event::unlinked(MdId(7), user), Vec::new());
    rig.drain();
    assert!(rig.tasks.is_empty());
    assert_eq!(rig.sent.pop_front().unwrap().status(), (Kind::ERROR, -19));
    rig.server.is_idle().unwrap();
}

#[test]
fn nothing_is_left_of_the_replies_calls_and_recovery_of_a_removed_target() {
    let (mut rig, other, [_, second]) = with_two();
    rig.send(node(1), 1024, &modify(second));
    let id = rig.request().id;
    let mut reply = Message::reply(&TARGET_REG, Status::OK);
    reply.body.transno = 7;
    rig.server.reply_difficult(rig.now, id, reply);
    let call = crate::reverse::Call::new(Message::request(&BLOCKING), 224, Duration::from_secs(9));
    let call = rig.server.call(rig.now, second, call).expect("the client is connected");
    rig.drain();
    remove(&mut rig, other);
    assert!(rig.tasks.contains(&Task::Confirmed { request: id }));
    let ended = Task::Called { export: second, call, result: Err(Errno::ENOTCONN) };
    assert!(rig.tasks.contains(&ended));
    assert_eq!(rig.tasks.len(), 2);
    rig.server.is_idle().unwrap();

    let again = rig.server.add_target(target());
    let known = ["one", "two"].map(|name| KnownClient { client: uuid(name), replies: vec![] });
    rig.server.recover(rig.now, again, &known, Window::default());
    assert!(rig.server.recovers(again));
    remove(&mut rig, again);
    assert!(!rig.server.recovers(again) && rig.server.exports().len() == 1);
    rig.advance(10_000);
}

#[test]
fn a_partition_that_is_added_opens_its_portals() {
    let mut rig = Rig::new(config());
    let before = rig.attached;
    assert!(!rig.server.has_portal(portal::OST_IO));
    rig.server.add_partition(PartitionConfig::new("ost_io", &[portal::OST_IO], 1 << 16));
    rig.drain();
    assert!(rig.server.has_portal(portal::OST_IO));
    assert_eq!(rig.attached, 2 * before);
}
