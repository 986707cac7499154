//! The end of sessions, and that nothing is left. Spec: lnet-selftest §9.1.

use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{
    Body, Check, DebugReply, DebugRequest, Direction, MAGIC, Ping, VERSION,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Notice, SessionEnd};

const SILENT: Nid = Nid::small(Net::TCP, 0x0a00_0009);

/// Returns why sessions of a node ended since the last call.
fn ends(world: &mut World, nid: Nid) -> Vec<SessionEnd> {
    let why = |notice| match notice {
        Notice::SessionEnded { why, .. } => Some(why),
        _ => None,
    };
    world.wire.notices(nid).into_iter().filter_map(why).collect()
}

#[test]
fn a_session_expires_when_its_console_is_silent() {
    let mut world = World::new();
    world.make_session(SERVER, SESSION, 0);
    world.wire.run_for(99 * SECOND);
    world.wire.run_for(99 * SECOND / 100);
    assert_eq!(ends(&mut world, SERVER), []);
    world.wire.run_for(SECOND);
    assert_eq!(ends(&mut world, SERVER), [SessionEnd::Expired]);
    world.assert_idle();
}

#[test]
fn requests_of_a_session_keep_it_alive_and_others_do_not() {
    let mut world = World::new();
    world.make_session(SERVER, SESSION, 0);
    world.wire.run_for(90 * SECOND);
    let debug = DebugRequest { reply_id: REPLY_ID, session: SESSION, flags: 0 };
    let strange = Message::new(2, Body::Debug(debug));
    world.say(SERVER, Service::DEBUG, &strange).unwrap();
    world.wire.run_for(90 * SECOND);
    let reply = world.say(SERVER, Service::DEBUG, &message(Body::Debug(debug))).unwrap().0;
    assert!(matches!(reply, Body::DebugReply(DebugReply { status: 0, .. })));

    world.wire.run_for(90 * SECOND);
    let ping = Ping { reply_id: 1, magic: Ping::MAGIC, sequence: 0, seconds: 0, nanoseconds: 0 };
    world.say(SERVER, Service::PING, &message(Body::Ping(ping))).unwrap();
    let debug = DebugRequest { session: OTHER, ..debug };
    world.say(SERVER, Service::DEBUG, &message(Body::Debug(debug))).unwrap();
    assert_eq!(world.make_session(SERVER, OTHER, 0), (status(Errno::EBUSY), SESSION));
    world.wire.run_for(11 * SECOND);
    assert_eq!(ends(&mut world, SERVER), [SessionEnd::Expired]);
}

#[test]
fn a_session_without_a_timeout_lasts() {
    let mut world = World::with(Config { session_timeout: Duration::ZERO, ..Config::default() });
    world.make_session(SERVER, SESSION, 0);
    world.wire.run_for(10 * SECOND);
    assert_eq!(world.wire.machine(SERVER).poll_timeout(), None);
    world.end();
}

#[test]
fn rpcs_of_a_session_end_with_it() {
    let mut world = World::with(Config { session_timeout: SECOND / 10, ..Config::default() });
    let test = brw_test(LOOP_FOREVER, Direction::READ, Check::FULL, 8192);
    world.start(Test { concurrency: 5, ..test }, &[SERVER, SERVER_2]);
    world.wire.run_for(SECOND);
    world.assert_idle();
}

#[test]
fn a_replaced_session_is_a_zombie_until_its_memory_is_free() {
    let mut world = World::new();
    world.wire.raw(SILENT);
    world.wire.let_go = 5 * SECOND;
    let test = brw_test(LOOP_FOREVER, Direction::READ, Check::FULL, 65_536);
    world.start(Test { concurrency: 3, ..test }, &[SILENT]);
    world.wire.run_for(SECOND);
    assert_eq!(world.make_session(CLIENT, OTHER, 1), (0, OTHER));
    let stat = world.stat_of(CLIENT, OTHER).framework;
    assert_eq!((stat.zombie_sessions, stat.active_batches), (1, 0));
    assert_eq!(world.wire.buffers(CLIENT), 3, "withdrawn memory may still be written");
    world.wire.run_for(6 * SECOND);
    let stat = world.stat_of(CLIENT, OTHER).framework;
    assert_eq!((stat.zombie_sessions, stat.brw_errors), (0, 0));
    world.remove_session(CLIENT, OTHER);
    world.end();
}

#[test]
fn a_thousand_sessions_leave_nothing() {
    let mut world = World::with(Config { session_timeout: Duration::ZERO, ..Config::default() });
    for nid in [SERVER, SERVER_2] {
        world.make_session(nid, SESSION, 0);
    }
    for round in 0..1000 {
        let session = SessionId { nid: CONSOLE, stamp: round };
        assert_eq!(world.make_session(CLIENT, session, 1), (0, session));
        let check = [Check::NONE, Check::SIMPLE, Check::FULL][round as usize % 3];
        let direction = [Direction::READ, Direction::WRITE][round as usize % 2];
        let test = brw_test(LOOP_FOREVER, direction, check, 4096);
        assert_eq!(world.install(Test { session, ..test }, &[SERVER, SERVER_2]), 0);
        let run = Batch {
            reply_id: REPLY_ID,
            session,
            batch: BATCH,
            operation: BatchOperation::RUN,
            test: 0,
            argument: 0,
        };
        world.say(CLIENT, Service::BATCH, &message(Body::Batch(run))).unwrap();
        if round % 7 == 0 {
            assert_eq!(world.remove_session(CLIENT, session), (0, SessionId::INVALID));
        }
    }
    world.remove_session(CLIENT, SessionId { nid: CONSOLE, stamp: 999 });
    // Servers still try to transfer the data of removed units.
    world.wire.run_for(51 * SECOND);
    world.end();
}

/// Returns a message of any kind with a valid header, except for what the machine must detect.
fn request() -> impl Strategy<Value = (u64, Vec<u8>)> {
    (0..14_u64, 0..19_u32, 0..3_u32, vec(prop_oneof![Just(0), Just(1), any::<u8>()], 136)).prop_map(
        |(service, kind, features, body)| {
            let mut bytes = Vec::new();
            for word in [MAGIC, VERSION, kind, 0, 0, features] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(body);
            (service, bytes)
        },
    )
}

/// Returns a request of the right kind for its service, in the session or in another.
fn likely_request() -> impl Strategy<Value = (u64, Vec<u8>)> {
    (request(), any::<bool>()).prop_map(|((service, mut bytes), ours)| {
        let known = Service(service).request_type().map_or(0, |kind| kind.0);
        bytes[8..12].copy_from_slice(&known.to_le_bytes());
        if ours {
            let at = if Service(service) == Service::TEST { 40 } else { 32 };
            bytes[at..at + 8].copy_from_slice(&CONSOLE.to_small().unwrap().to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&SESSION.stamp.to_le_bytes());
        }
        (service, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_request_breaks_a_node(
        requests in vec(prop_oneof![
            request(),
            likely_request(),
            (any::<u64>(), vec(any::<u8>(), 0..200)),
        ], 1..40),
    ) {
        let mut world = World::new();
        world.make_session(CLIENT, SESSION, 0);
        for (service, bytes) in requests {
            world.wire.request(CONSOLE, CLIENT, service, &bytes);
        }
        world.wire.run_for(200 * SECOND);
        world.assert_idle();
    }
}
