//! Tests as a client runs them. Spec: lnet-selftest §9.3, §10, §11.

use std::cell::RefCell;
use std::rc::Rc;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{
    Body, BrwReply, Check, Direction, MakeSession, Message, PingReply, REQUEST_PORTAL, Service,
    TestKind,
};

use super::wire::{Packet, Parcel, body};
use super::*;
use crate::Notice;

/// A node that answers only when the test lets it.
const SILENT: Nid = Nid::small(Net::TCP, 0x0a00_0009);

/// Records the load requests that pass.
fn spy(world: &mut World) -> Rc<RefCell<Vec<Body>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&seen);
    world.wire.lose = Some(Box::new(move |packet: &Packet| {
        if let Parcel::Put { portal: REQUEST_PORTAL, .. } = packet.what {
            noted.borrow_mut().extend(body(packet));
        }
        false
    }));
    seen
}

fn sequences(seen: &RefCell<Vec<Body>>) -> Vec<u32> {
    let sequence = |body| match body {
        Body::Ping(ping) => Some(ping.sequence),
        _ => None,
    };
    seen.take().into_iter().filter_map(sequence).collect()
}

#[test]
fn every_unit_runs_the_requested_number_of_rpcs() {
    let mut world = World::new();
    let seen = spy(&mut world);
    world.start(Test { concurrency: 3, ..ping_test(5) }, &[SERVER, SERVER_2]);
    world.wire.run_for(SECOND);
    assert_eq!(world.active(0), 0);
    assert_eq!(sequences(&seen), (0..30).collect::<Vec<_>>(), "all units share the numbers");
    world.run();
    world.wire.run_for(SECOND);
    assert_eq!(sequences(&seen), (30..60).collect::<Vec<_>>(), "loops restart, numbers do not");
    assert_eq!(world.install(ping_test(1), &[SERVER]), 0);
    world.run();
    world.wire.run_for(SECOND);
    assert_eq!(sequences(&seen).len(), 31);
    assert_eq!(world.stat(CLIENT).rpc.rpcs_sent, 91);
    assert_eq!(world.stat(CLIENT).framework.ping_errors, 0);
    world.end();
}

#[test]
fn a_further_ping_test_starts_the_numbers_again() {
    let mut world = World::new();
    let seen = spy(&mut world);
    world.start(ping_test(2), &[SERVER]);
    world.wire.run_for(SECOND);
    assert_eq!(sequences(&seen), [0, 1]);
    assert_eq!(world.install(ping_test(1), &[SERVER]), 0);
    world.run();
    world.wire.run_for(SECOND);
    let mut numbers = sequences(&seen);
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    world.end();
}

#[test]
fn pings_tell_the_wall_clock() {
    let wall_clock = 1_767_225_600_000_005_000;
    let mut world = World::with(Config { wall_clock, ..Config::default() });
    let seen = spy(&mut world);
    world.start(ping_test(1), &[SERVER]);
    let Some(Body::Ping(ping)) = seen.take().pop() else { panic!("no ping") };
    assert_eq!(ping.seconds, 1_767_225_600);
    assert!(ping.nanoseconds > 5_000);
    assert_eq!(ping.reply_id >> 48, 1_767_225_600 & 0xffff);
}

#[test]
fn an_endless_test_ends_when_it_is_stopped_and_has_not_failed() {
    for force in [0, 1] {
        let mut world = World::new();
        let test = brw_test(LOOP_FOREVER, Direction::READ, Check::FULL, 8192);
        world.start(Test { concurrency: 4, ..test }, &[SERVER, SERVER_2]);
        world.wire.run_for(SECOND / 10);
        assert_eq!((world.active(0), world.active(1)), (1, 8));
        assert!(world.wire.buffers(CLIENT) <= 9, "buffers are reused");
        world.stop(force);
        assert_eq!(world.active(0), 0);
        assert_eq!(world.stat(CLIENT).framework.brw_errors, 0);
        assert_eq!(world.wire.notices(CLIENT).len(), 1, "the start of the session");
        world.end();
    }
}

#[test]
fn a_forced_stop_aborts_rpcs_that_a_plain_stop_waits_for() {
    let mut world = World::new();
    world.wire.raw(SILENT);
    world.start(ping_test(LOOP_FOREVER), &[SILENT]);
    world.stop(1);
    assert_eq!(world.active(0), 0);

    world.run();
    world.stop(0);
    world.stop(1);
    assert_eq!(world.active(0), 1, "it is stopping already");
    world.wire.run_for(65 * SECOND);
    assert_eq!(world.active(0), 0);
    let stat = world.stat(CLIENT);
    assert_eq!((stat.framework.ping_errors, stat.rpc.rpcs_expired), (0, 1));
    world.end();
}

#[test]
fn a_dead_server_ends_its_unit_and_no_other() {
    let mut world = World::with(Config { rpc_timeout: SECOND, ..Config::default() });
    let test = brw_test(LOOP_FOREVER, Direction::WRITE, Check::NONE, 4096);
    world.start(test, &[SERVER, SERVER_2]);
    world.wire.kill(SERVER);
    world.wire.run_for(9 * SECOND / 10);
    assert_eq!(world.active(1), 2);
    world.wire.run_for(SECOND / 5);
    assert_eq!(world.active(1), 1);
    let stat = world.stat(CLIENT);
    assert_eq!((stat.framework.brw_errors, stat.rpc.rpcs_expired), (1, 1));
    let (peer, service, errno) = (ProcessId::lustre(SERVER), "BRW", Errno::ETIMEDOUT);
    assert!(world.wire.notices(CLIENT).contains(&Notice::RpcFailed { peer, service, errno }));
    world.stop(0);
    assert_eq!(world.active(0), 0);
    world.remove_session(CLIENT, SESSION);
    world.wire.machine(CLIENT).is_idle().unwrap();
}

#[test]
fn a_test_without_stop_on_errors_continues() {
    let mut world = World::new();
    world.start(Test { stop_on_error: false, ..ping_test(3) }, &[SILENT]);
    world.wire.run_for(SECOND);
    assert_eq!(world.active(0), 0, "no node answers: each fails at once");
    let stat = world.stat(CLIENT);
    assert_eq!((stat.framework.ping_errors, stat.rpc.errors, stat.rpc.rpcs_sent), (3, 3, 0));
    world.end();
}

#[test]
fn endless_failures_do_not_keep_a_node_busy() {
    let mut world = World::new();
    world.start(Test { stop_on_error: false, ..ping_test(LOOP_FOREVER) }, &[SILENT]);
    world.wire.run_for(SECOND);
    let errors = world.stat(CLIENT).framework.ping_errors;
    assert!((9..=11).contains(&errors), "{errors} failures in a second");
    world.stop(0);
    world.wire.run_for(SECOND);
    assert_eq!(world.active(0), 0);
    world.end();
}

#[test]
fn without_a_timeout_a_unit_waits_for_ever() {
    let mut world = World::with(Config {
        rpc_timeout: Duration::ZERO,
        session_timeout: Duration::ZERO,
        ..Config::default()
    });
    world.wire.raw(SILENT);
    world.start(ping_test(1), &[SILENT]);
    world.wire.run_for(100_000 * SECOND);
    assert_eq!(world.active(0), 1);
    world.end();
}

#[test]
fn damage_done_by_the_client_is_found_by_the_server() {
    let mut world = World::new();
    world.wire.add(CLIENT, Config { inject_errors: 2, ..Config::default() });
    let test = brw_test(5, Direction::WRITE, Check::FULL, 8192);
    world.start(Test { stop_on_error: false, ..test }, &[SERVER]);
    world.wire.run_for(SECOND);
    assert_eq!(world.stat(CLIENT).framework.brw_errors, 2);
    assert_eq!(world.stat(SERVER).framework.brw_errors, 0, "it is an error of the client");
    let corrupted = |notice: &Notice| matches!(notice, Notice::Corrupted { offset: 0, .. });
    assert_eq!(world.wire.notices(SERVER).iter().filter(|notice| corrupted(notice)).count(), 2);
    world.end();
}

#[test]
fn damage_done_by_the_server_is_found_by_the_client() {
    let mut world = World::new();
    world.wire.add(SERVER, Config { inject_errors: 1, ..Config::default() });
    let test = brw_test(LOOP_FOREVER, Direction::READ, Check::SIMPLE, 8192);
    world.start(test, &[SERVER]);
    world.wire.run_for(SECOND);
    assert_eq!(world.active(0), 0, "it stops on errors");
    assert_eq!(world.stat(CLIENT).framework.brw_errors, 1);
    world.end();
}

#[test]
fn a_read_whose_data_is_lost_times_out() {
    let mut world = World::with(Config { rpc_timeout: SECOND, ..Config::default() });
    world.wire.lose = Some(Box::new(
        |packet| matches!(&packet.what, Parcel::Put { bytes, .. } if bytes.len() == 8192),
    ));
    let test = brw_test(2, Direction::READ, Check::FULL, 8192);
    world.start(Test { stop_on_error: false, ..test }, &[SERVER]);
    world.wire.run_for(3 * SECOND);
    assert_eq!(world.active(0), 0);
    let stat = world.stat(CLIENT);
    assert_eq!((stat.framework.brw_errors, stat.rpc.rpcs_expired), (2, 2));
    assert_eq!(world.wire.buffers(CLIENT), 0, "unchecked buffers are not reused");
    world.end();
}

#[test]
fn wrong_replies_are_errors() {
    let ping = |status, magic, sequence| Body::PingReply(PingReply { status, magic, sequence });
    let magic = fulmar_lnet_wire::selftest::Ping::MAGIC;
    let refused = Body::BrwReply(BrwReply { status: status(Errno::EIO) });
    for (reply, is_good) in [
        (ping(0, magic, 0), true),
        (ping(5, magic, 0), true),
        (ping(0, magic, 1), false),
        (ping(0, 0, 0), false),
        (refused, false),
    ] {
        let mut world = World::new();
        world.wire.raw(SILENT);
        world.start(ping_test(1), &[SILENT]);
        world.wire.run_for(SECOND);
        let (_, service, request) = world.wire.raw(SILENT).inbox.pop_front().unwrap();
        assert_eq!(service, Service::PING.0);
        let Body::Ping(request) = Message::decode(&request).unwrap().0.body else { panic!() };
        let bytes = message(reply).to_bytes();
        world.wire.put_raw(SILENT, CLIENT, (52, request.reply_id), &bytes);
        world.wire.run_for(SECOND);
        assert_eq!(world.active(0), 0);
        assert_eq!(world.stat(CLIENT).framework.ping_errors, u32::from(!is_good));
        world.end();
    }
}

#[test]
fn a_node_may_be_its_own_server() {
    let mut world = World::new();
    world.start(brw_test(3, Direction::READ, Check::FULL, 4096), &[CLIENT, Nid::LOOPBACK]);
    world.wire.run_for(SECOND);
    assert_eq!(world.active(0), 0);
    let stat = world.stat(CLIENT);
    assert_eq!((stat.framework.brw_errors, stat.rpc.bulk_put), (0, 6 * 4096));
    world.end();
}

#[test]
fn a_session_without_features_counts_pages() {
    let mut world = World::new();
    let name = "pages".parse().unwrap();
    let make = MakeSession { reply_id: REPLY_ID, session: SESSION, force: 0, name };
    let old = |body| Message::new(0, body);
    world.say(CLIENT, Service::MAKE_SESSION, &old(Body::MakeSession(make))).unwrap();
    let kind = TestKind::BrwPages { direction: Direction::WRITE, pages: 2, flags: 3 };
    let list = Destination::encode_list(&[ProcessId::lustre(SERVER)], 0);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, list);
    let test = Test { kind, ..ping_test(3) };
    world.say(CLIENT, Service::TEST, &old(Body::Test(test))).unwrap();
    world.say(SERVER, Service::MAKE_SESSION, &old(Body::MakeSession(make))).unwrap();
    let server = Test { is_client: false, destinations: 0, bulk_id: 0, ..test };
    world.say(SERVER, Service::TEST, &old(Body::Test(server))).unwrap();
    let run = Batch {
        reply_id: REPLY_ID,
        session: SESSION,
        batch: BATCH,
        operation: BatchOperation::RUN,
        test: 0,
        argument: 0,
    };
    world.say(CLIENT, Service::BATCH, &old(Body::Batch(run))).unwrap();
    world.wire.run_for(SECOND);
    let stat = Body::Stat(Stat { reply_id: REPLY_ID, session: SESSION, kind: 0 });
    let (reply, _) = world.say(SERVER, Service::QUERY_STAT, &old(stat)).unwrap();
    assert!(matches!(reply, Body::StatReply(StatReply { rpc, .. }) if rpc.bulk_get == 3 * 8192));
}
