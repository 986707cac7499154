//! Sessions, batches and counters as seen by a console. Spec: lnet-selftest §5, §8.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{
    Batch, BatchId, BatchOperation, Body, Check, DebugReply, DebugRequest, Direction, MEASURE,
    MakeSession, MakeSessionReply, Message, Service, SessionId, Stat, TestReply,
};
use fulmar_wire::Order;

use super::*;
use crate::Notice;

const NOTHING: SessionId = SessionId { nid: Nid::small(Net(0), 0), stamp: 0 };

fn debug() -> Body {
    Body::Debug(DebugRequest { reply_id: REPLY_ID, session: OTHER, flags: 0 })
}

#[test]
fn a_session_needs_as_many_removals_as_requests_to_enter() {
    let mut world = World::new();
    assert_eq!(world.remove_session(SERVER, SESSION), (status(Errno::ESRCH), SessionId::INVALID));
    let nowhere = (status(Errno::EINVAL), SessionId::INVALID);
    assert_eq!(world.make_session(SERVER, SessionId::INVALID, 0), nowhere);
    assert_eq!(world.remove_session(SERVER, SessionId::INVALID), nowhere);

    assert_eq!(world.make_session(SERVER, SESSION, 0), (0, SESSION));
    assert_eq!(world.make_session(SERVER, SESSION, 0), (0, SESSION));
    assert_eq!(world.make_session(SERVER, OTHER, 0), (status(Errno::EBUSY), SESSION));
    let here = (status(Errno::EINVAL), SESSION);
    assert_eq!(world.make_session(SERVER, SessionId::INVALID, 1), here);
    assert_eq!(world.remove_session(SERVER, SessionId::INVALID), here);
    assert_eq!(world.remove_session(SERVER, OTHER), (status(Errno::EBUSY), SESSION));
    assert_eq!(world.remove_session(SERVER, SESSION), (0, SESSION));
    assert_eq!(world.remove_session(SERVER, SESSION), (0, SessionId::INVALID));
    world.assert_idle();
}

#[test]
fn another_session_takes_a_node_only_by_force() {
    let mut world = World::new();
    world.make_session(SERVER, SESSION, 0);
    let name = "late".parse().unwrap();
    let request = MakeSession { reply_id: REPLY_ID, session: OTHER, force: 0, name };
    let body = Body::MakeSession(request);
    let reply = world.say(SERVER, Service::MAKE_SESSION, &message(body)).unwrap().0;
    let in_the_way = MakeSessionReply {
        status: status(Errno::EBUSY),
        session: SESSION,
        timeout: 100,
        name: "tests".parse().unwrap(),
    };
    assert_eq!(reply, Body::MakeSessionReply(in_the_way));
    assert_eq!(world.make_session(SERVER, OTHER, 1), (0, OTHER));
    let console = CONSOLE;
    let (name, begun) =
        ("tests".to_owned(), Notice::SessionBegun { name: "tests".into(), console });
    let ended = Notice::SessionEnded { name, console, why: crate::SessionEnd::Replaced };
    assert_eq!(world.wire.notices(SERVER), [begun.clone(), ended, begun]);
}

#[test]
fn debug_reports_the_session_to_any_console() {
    let mut world = World::new();
    let no_session = DebugReply {
        status: status(Errno::ESRCH),
        session: SessionId::INVALID,
        timeout: 0,
        batches: 0,
        name: fulmar_lnet_wire::selftest::Name::EMPTY,
    };
    let reply = world.say(SERVER, Service::DEBUG, &message(debug()));
    assert_eq!(reply, Some((Body::DebugReply(no_session), 1)));
    world.make_session(SERVER, SESSION, 0);
    let name = "tests".parse().unwrap();
    let ours = DebugReply { status: 0, session: SESSION, timeout: 100, name, ..no_session };
    let reply = world.say(SERVER, Service::DEBUG, &message(debug()));
    assert_eq!(reply, Some((Body::DebugReply(ours), 1)));
}

#[test]
fn features_are_those_of_the_session() {
    let mut world = World::new();
    let name = "old".parse().unwrap();
    let make = MakeSession { reply_id: REPLY_ID, session: SESSION, force: 0, name };
    let strange = Message::new(2, Body::MakeSession(make));
    let (body, features) = world.say(SERVER, Service::MAKE_SESSION, &strange).unwrap();
    let Body::MakeSessionReply(reply) = body else { panic!("{body:?}") };
    assert_eq!((reply.status, reply.session, features), (status(Errno::EPROTO), NOTHING, 1));

    let old = Message::new(0, Body::MakeSession(make));
    let (body, features) = world.say(SERVER, Service::MAKE_SESSION, &old).unwrap();
    let Body::MakeSessionReply(reply) = body else { panic!("{body:?}") };
    assert_eq!((reply.status, features), (0, 0), "a session without features");

    let stat = Body::Stat(Stat { reply_id: REPLY_ID, session: SESSION, kind: 0 });
    let (body, features) = world.say(SERVER, Service::QUERY_STAT, &message(stat)).unwrap();
    let Body::StatReply(reply) = body else { panic!("{body:?}") };
    assert_eq!((reply.status, reply.session, features), (status(Errno::EPROTO), SESSION, 1));

    let (body, features) = world.say(SERVER, Service::DEBUG, &message(debug())).unwrap();
    assert!(matches!(body, Body::DebugReply(DebugReply { status: 0, .. })), "only the mask counts");
    assert_eq!(features, 0);
    let (body, _) = world.say(SERVER, Service::DEBUG, &Message::new(4, debug())).unwrap();
    assert!(matches!(body, Body::DebugReply(reply) if reply.status == status(Errno::EPROTO)));
}

#[test]
fn batch_requests_return_the_expected_status() {
    let mut world = World::new();
    let (run, stop, query) = (BatchOperation::RUN, BatchOperation::STOP, BatchOperation::QUERY);
    assert_eq!(world.batch(run, 0, 0), (status(Errno::ESRCH), 0));
    world.make_session(CLIENT, SESSION, 0);
    assert_eq!(world.batch(stop, 0, 0), (status(Errno::ENOENT), 0));
    let server = Test { is_client: false, destinations: 0, bulk_id: 0, ..ping_test(9) };
    assert!(world.say(CLIENT, Service::TEST, &message(Body::Test(server))).is_some());
    assert_eq!(world.install(ping_test(LOOP_FOREVER), &[SERVER, SERVER_2]), 0);
    assert_eq!(world.batch(stop, 0, 0), (0, 0), "it does not run");
    assert_eq!(world.batch(run, 0, 0), (0, 0));
    assert_eq!(world.batch(run, 0, 0), (0, 0), "it runs already");
    assert_eq!(world.batch(query, 0, 0), (0, 1), "tests that run");
    assert_eq!(world.batch(query, 1, 0), (0, 0), "a server has no units");
    assert_eq!(world.batch(query, 2, 0), (0, 2));
    assert_eq!(world.batch(query, 3, 0), (status(Errno::ENOENT), 0));
    assert_eq!(world.batch(query, u32::MAX, 0), (status(Errno::EINVAL), 0));
    assert_eq!(world.install(ping_test(1), &[SERVER]), status(Errno::EBUSY));
    let strange = Batch {
        reply_id: REPLY_ID,
        session: SESSION,
        batch: BATCH,
        operation: BatchOperation(9),
        test: 0,
        argument: 0,
    };
    let nothing = Batch { batch: BatchId(99), ..strange };
    assert_eq!(world.say(CLIENT, Service::BATCH, &message(Body::Batch(strange))), None);
    assert!(world.say(CLIENT, Service::BATCH, &message(Body::Batch(nothing))).is_some());
    assert_eq!(world.stat(CLIENT).rpc.rpcs_dropped, 1);
    assert_eq!(world.batch(stop, 0, 0), (0, 0));
    world.end();
}

#[test]
fn counters_count_all_operations() {
    let mut world = World::new();
    assert_eq!(world.stat_of(CLIENT, SESSION).status, status(Errno::ESRCH));
    assert_eq!(world.stat_of(CLIENT, SessionId::INVALID).status, status(Errno::EINVAL));
    world.start(brw_test(3, Direction::WRITE, Check::FULL, 8192), &[SERVER, SERVER_2]);
    world.wire.run_for(SECOND);
    let client = world.stat(CLIENT);
    assert_eq!(client.session, SESSION);
    assert!((1000..1100).contains(&client.framework.running_ms));
    assert_eq!(client.framework.active_batches, 0);
    assert_eq!(client.rpc.rpcs_sent, 6);
    assert_eq!(client.rpc.bulk_get, 24, "the list of destinations");
    assert_eq!(client.rpc.rpcs_received, 7, "2 of no session, make, 2 tests, run, and this");
    assert_eq!(client.lnet.send_count, 5, "as LNet counts");
    let server = world.stat(SERVER);
    assert_eq!((server.rpc.bulk_get, server.rpc.bulk_put), (3 * 8192, 0));
    assert_eq!(server.rpc.rpcs_received, 6);
    assert_eq!((server.rpc.rpcs_dropped, server.rpc.errors), (0, 0));
    world.end();
}

#[test]
fn a_fulmar_console_gets_latencies() {
    let mut world = World::new();
    world.start(brw_test(5, Direction::READ, Check::NONE, 4096), &[SERVER]);
    world.wire.run_for(SECOND);
    let mut ask = |first| {
        let stat = Stat { reply_id: REPLY_ID, session: SESSION, kind: MEASURE | first };
        match world.say(CLIENT, Service::QUERY_STAT, &message(Body::Stat(stat))) {
            Some((Body::Measured(measured), 1)) => measured,
            other => panic!("{other:?}"),
        }
    };
    let all = ask(0);
    assert_eq!((all.status, all.session, all.rpcs, all.bytes), (0, SESSION, 5, 5 * 4096));
    assert_eq!((all.usage.cpu_ns, all.usage.retransmits, all.usage.window), (7, 8, 9));
    assert!(all.min_ns <= all.max_ns && all.min_ns >= 2 * LATENCY.as_nanos() as u64);
    assert_eq!(all.slice.counts.iter().sum::<u32>(), 5);
    let none = ask(0xffff);
    assert_eq!(none.slice.counts.iter().sum::<u32>(), 0);
    world.end();
}

#[test]
fn other_versions_are_answered_and_invalid_requests_are_not() {
    let mut world = World::new();
    let old = Message { version: 2, ..message(debug()) };
    let (body, features) = world.say(SERVER, Service::DEBUG, &old).unwrap();
    assert!(matches!(body, Body::DebugReply(reply) if reply.status == status(Errno::EPROTO)));
    assert_eq!(features, 0, "nothing else is filled");

    world.wire.request(CONSOLE, SERVER, Service::DEBUG.0, &message(debug()).to_bytes()[..159]);
    world.wire.request(CONSOLE, SERVER, Service::DEBUG.0, &[0; 160]);
    world.wire.request(CONSOLE, SERVER, Service::BRW.0, &message(debug()).to_bytes());
    world.wire.request(CONSOLE, SERVER, 7, &message(debug()).to_bytes());
    let reply = Body::TestReply(TestReply { status: 0, session: SESSION });
    world.wire.request(CONSOLE, SERVER, Service::TEST.0, &message(reply).to_bytes());
    world.wire.run_for(SECOND);
    assert_eq!(world.wire.reply(CONSOLE), None);
    let notices = world.wire.notices(SERVER);
    let is_bad =
        |notice: &&Notice| matches!(notice, Notice::BadRequest { from, .. } if from.nid == CONSOLE);
    assert_eq!(notices.iter().filter(is_bad).count(), 5);
    world.make_session(SERVER, SESSION, 0);
    let rpc = world.stat(SERVER).rpc;
    assert_eq!((rpc.rpcs_received, rpc.rpcs_dropped), (8, 5));
}

#[test]
fn a_console_of_the_other_byte_order_is_understood() {
    let mut world = World::new();
    let name = "swapped".parse().unwrap();
    let make = MakeSession { reply_id: REPLY_ID, session: SESSION, force: 0, name };
    let mut bytes = Vec::new();
    message(Body::MakeSession(make)).encode(Order::Big, &mut bytes);
    world.wire.request(CONSOLE, SERVER, Service::MAKE_SESSION.0, &bytes);
    world.wire.run_for(SECOND);
    let (portal, match_bits, reply) = world.wire.raw(CONSOLE).inbox.pop_front().unwrap();
    assert_eq!((portal, match_bits), (52, REPLY_ID));
    let (reply, order) = Message::decode(&reply).unwrap();
    assert_eq!(order, Order::Little);
    assert!(matches!(reply.body, Body::MakeSessionReply(MakeSessionReply { status: 0, .. })));
}
