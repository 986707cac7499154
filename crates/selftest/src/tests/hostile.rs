//! Peers that send much and answer nothing: others are served, and nothing is left.

use fulmar_base::Rng;
use fulmar_lnet_wire::selftest::{
    Brw, BrwReply, DebugRequest, JoinRequest, Name, Ping, VERSION, fill,
};

use super::wire::DISCOVERY_TIMEOUT;
use super::*;

const MIB: u32 = 1 << 20;

/// Returns a node of an attacker.
fn attacker(number: u32) -> Nid {
    Nid::small(Net::TCP, 0x0b00_0000 + number)
}

fn write(len: u32, check: Check) -> Message {
    let direction = Direction::WRITE;
    let brw = Brw { reply_id: REPLY_ID, bulk_id: BULK_ID, direction, len, flags: check.0 };
    message(Body::Brw(brw))
}

fn debug() -> Message {
    message(Body::Debug(DebugRequest { reply_id: REPLY_ID, session: OTHER, flags: 0 }))
}

/// Sends writes whose data no one offers.
fn flood(world: &mut World, from: Nid, count: usize) {
    world.wire.raw(from);
    let bytes = write(MIB, Check::FULL).to_bytes();
    for _ in 0..count {
        world.wire.request(from, SERVER, Service::BRW.0, &bytes);
    }
}

/// Requires that the server serves a checked write of the console at once.
#[track_caller]
fn serves(world: &mut World) {
    let mut data = vec![0; MIB as usize];
    fill(&mut data);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, data);
    let reply = world.say(SERVER, Service::BRW, &write(MIB, Check::FULL));
    assert_eq!(reply, Some((Body::BrwReply(BrwReply { status: 0 }), 1)));
}

#[test]
fn bulk_that_no_session_asks_for_gets_no_memory() {
    let mut world = World::new();
    flood(&mut world, attacker(1), 5000);
    world.wire.run_for(SECOND);
    assert_eq!(world.wire.buffers_max(SERVER), 0);
    assert_eq!(world.wire.raw(attacker(1)).inbox.len(), 5000, "each is refused");
    world.assert_idle();
}

#[test]
fn a_peer_that_gives_no_data_takes_no_share_of_others() {
    let mut world = World::serving();
    flood(&mut world, attacker(1), 3000);
    assert!(world.wire.buffers(SERVER) <= 512, "half of a gibibyte");
    serves(&mut world);
    // What waits as long as a client does is dropped, and what is served fails.
    world.wire.run_for(80 * SECOND);
    assert!(world.wire.buffers(SERVER) <= 512);
    serves(&mut world);
    world.stat(SERVER);
    world.wire.run_for(80 * SECOND);
    assert_eq!(world.wire.buffers(SERVER), 1, "one for the next check");
    assert_eq!(world.stat(SERVER).rpc.rpcs_dropped, 3000);
    world.end();
}

#[test]
fn several_such_peers_leave_memory_for_others() {
    let mut world = World::serving();
    for number in 0..20 {
        flood(&mut world, attacker(number), 600);
    }
    assert!(world.wire.buffers_max(SERVER) <= 1024, "a gibibyte");
    serves(&mut world);
    world.end();
}

#[test]
fn transfers_end_with_their_session() {
    let mut world = World::serving();
    world.wire.mute.insert(attacker(2));
    for number in [1, 2] {
        flood(&mut world, attacker(number), 50);
    }
    assert_eq!(world.make_session(SERVER, OTHER, 1), (0, OTHER));
    world.wire.run_for(SECOND);
    assert_eq!(world.wire.buffers(SERVER), 50, "LNet keeps what is for a node it cannot reach");
    world.wire.run_for(DISCOVERY_TIMEOUT);
    world.assert_idle();
}

#[test]
fn a_list_of_destinations_that_is_not_given_delays_no_request() {
    let mut world = World::new();
    world.wire.raw(attacker(1));
    world.wire.raw(attacker(2));
    world.wire.mute.insert(attacker(2));
    assert_eq!(world.make_session(CLIENT, SESSION, 0), (0, SESSION));
    let test = message(Body::Test(ping_test(LOOP_FOREVER))).to_bytes();
    for number in [1, 2] {
        for _ in 0..100 {
            world.wire.request(attacker(number), CLIENT, Service::TEST.0, &test);
        }
    }
    assert_eq!(world.install(ping_test(LOOP_FOREVER), &[SERVER]), 0);
    world.run();
    assert_eq!(world.active(0), 1);
    let late = Destination::encode_list(&[ProcessId::lustre(SERVER)], FEATURE_BULK_LEN);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, late);
    world.remove_session(CLIENT, SESSION);
    assert_eq!(world.make_session(CLIENT, OTHER, 0), (0, OTHER));
    world.remove_session(CLIENT, OTHER);
    world.wire.run_for(2 * DISCOVERY_TIMEOUT);
    world.assert_idle();
}

#[test]
fn a_test_is_refused_if_its_batch_was_started_meanwhile() {
    let mut world = World::new();
    world.make_session(CLIENT, SESSION, 0);
    assert_eq!(world.install(ping_test(LOOP_FOREVER), &[SERVER]), 0);
    let list = Destination::encode_list(&[ProcessId::lustre(SERVER)], FEATURE_BULK_LEN);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, list);
    let test = message(Body::Test(ping_test(LOOP_FOREVER)));
    world.wire.request(CONSOLE, CLIENT, Service::TEST.0, &test.to_bytes());
    let run = Batch {
        reply_id: REPLY_ID,
        session: SESSION,
        batch: BATCH,
        operation: BatchOperation::RUN,
        test: 0,
        argument: 0,
    };
    let (first, _) = world.say(CLIENT, Service::BATCH, &message(Body::Batch(run))).unwrap();
    assert!(matches!(first, Body::BatchReply(BatchReply { status: 0, .. })));
    let second = world.wire.reply(CONSOLE).unwrap().body;
    assert!(matches!(second, Body::TestReply(reply) if reply.status == status(Errno::EBUSY)));
    world.end();
}

#[test]
fn consoles_that_take_no_replies_delay_no_request() {
    let mut world = World::new();
    for number in 0..20 {
        world.wire.raw(attacker(number));
        world.wire.mute.insert(attacker(number));
        for _ in 0..500 {
            world.wire.request(attacker(number), SERVER, Service::DEBUG.0, &debug().to_bytes());
        }
        assert_eq!(world.make_session(SERVER, SESSION, 0), (0, SESSION));
    }
    assert!(world.wire.operations(SERVER) <= 20 * 64, "replies wait, but not without bound");
    for _ in 0..20 {
        world.remove_session(SERVER, SESSION);
    }
    world.wire.run_for(2 * DISCOVERY_TIMEOUT);
    world.assert_idle();
}

#[test]
fn the_load_of_a_client_has_a_budget_that_ends_with_its_session() {
    let mut world = World::new();
    world.wire.raw(attacker(1));
    let test = brw_test(LOOP_FOREVER, Direction::READ, Check::FULL, MIB);
    world.start(Test { concurrency: 1024, ..test }, &[attacker(1), attacker(1), SERVER]);
    world.wire.run_for(SECOND / 100);
    assert!(world.wire.buffers_max(CLIENT) <= 1024, "a gibibyte");
    assert!(world.stat(SERVER).rpc.bulk_put > 0, "other servers are not delayed");
    assert_eq!(world.active(1), 3 * 1024);
    world.stop(1);
    assert_eq!(world.active(1), 0);
    world.run();
    world.end();
}

/// Returns a request of each kind that changes the state of a node, or makes it work.
fn corpus() -> Vec<(Service, Message)> {
    let (reply_id, session) = (REPLY_ID, SESSION);
    let name: Name = "damaged".parse().unwrap();
    let make = MakeSession { reply_id, session, force: 0, name };
    let batch = |operation, argument| {
        let batch = Batch { reply_id, session, batch: BATCH, operation, test: 0, argument };
        (Service::BATCH, message(Body::Batch(batch)))
    };
    let bulk = |direction, check| brw_test(3, direction, check, 65_536);
    let server = Test { is_client: false, destinations: 0, ..bulk(Direction::READ, Check::FULL) };
    let tests = [
        server,
        ping_test(LOOP_FOREVER),
        bulk(Direction::READ, Check::FULL),
        bulk(Direction::WRITE, Check::NONE),
    ];
    let ping = Ping { reply_id, magic: Ping::MAGIC, sequence: 0, seconds: 0, nanoseconds: 0 };
    let mut all = vec![
        (Service::MAKE_SESSION, message(Body::MakeSession(make))),
        (Service::MAKE_SESSION, message(Body::MakeSession(MakeSession { force: 1, ..make }))),
        (
            Service::REMOVE_SESSION,
            message(Body::RemoveSession(RemoveSession { reply_id, session })),
        ),
        (Service::DEBUG, debug()),
        (Service::QUERY_STAT, message(Body::Stat(Stat { reply_id, session, kind: 0 }))),
        (Service::JOIN, message(Body::Join(JoinRequest { reply_id, session, group: name }))),
        (Service::PING, message(Body::Ping(ping))),
        batch(BatchOperation::RUN, 0),
        batch(BatchOperation::STOP, 0),
        batch(BatchOperation::STOP, 1),
    ];
    all.extend(tests.map(|test| (Service::TEST, message(Body::Test(test)))));
    for check in [Check::NONE, Check::SIMPLE, Check::FULL, Check::DISCARD] {
        all.push((Service::BRW, write(65_536, check)));
    }
    all
}

/// Sends requests of which many are damaged, from nodes of which some are mute.
fn damage(world: &mut World, seed: u64, count: u32) {
    let (mut rng, corpus) = (Rng::new(seed), corpus());
    let nodes: Vec<Nid> = (0..8).map(attacker).collect();
    world.wire.mute.extend(&nodes[4..]);
    for nid in &nodes {
        world.wire.raw(*nid);
    }
    let list = vec![ProcessId::lustre(SERVER)];
    let list = Destination::encode_list(&list, FEATURE_BULK_LEN);
    for _ in 0..count {
        let from = nodes[rng.below(8) as usize];
        if rng.one_in(4) {
            world.wire.raw(from).offers.insert(BULK_ID, list.clone());
        }
        let (service, message) = &corpus[rng.below(corpus.len() as u64) as usize];
        let mut bytes = message.to_bytes().to_vec();
        for _ in 0..rng.below(3) {
            let at = rng.below(70) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        if rng.one_in(16) {
            bytes.truncate(rng.below(160) as usize);
        }
        let service = if rng.one_in(16) { rng.below(14) } else { service.0 };
        world.wire.request(from, CLIENT, service, &bytes);
        if rng.one_in(32) {
            world.wire.run_for(LATENCY);
        }
        world.wire.raw(from).inbox.clear();
    }
}

#[test]
fn damaged_requests_leave_nothing_and_do_not_delay_the_next_session() {
    for seed in 0..4 {
        let mut world = World::new();
        world.make_session(CLIENT, SESSION, 0);
        world.make_session(SERVER, SESSION, 0);
        damage(&mut world, seed, 3000);
        assert_eq!(world.make_session(CLIENT, OTHER, 1), (0, OTHER));
        let test = Test { session: OTHER, ..ping_test(3) };
        assert_eq!(world.install(test, &[SERVER]), 0);
        let name = "tests".parse().unwrap();
        let make = MakeSession { reply_id: REPLY_ID, session: OTHER, force: 0, name };
        let old = Message { version: VERSION + 1, ..message(Body::MakeSession(make)) };
        assert!(world.say(CLIENT, Service::MAKE_SESSION, &old).is_some());
        assert_eq!(world.remove_session(CLIENT, OTHER), (0, SessionId::INVALID));
        world.remove_session(SERVER, SESSION);
        world.wire.run_for(2 * DISCOVERY_TIMEOUT);
        world.assert_idle();
        assert_eq!(world.wire.operations(CLIENT), 0);
    }
}
