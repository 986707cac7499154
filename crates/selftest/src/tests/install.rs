//! Installation of tests. Spec: lnet-selftest §5.6, §10.1.

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{Body, Direction, Service, TestKind};

use super::*;

/// Installs a test as given, and returns the status of the reply, if any.
fn try_install(world: &mut World, test: Test) -> Option<u32> {
    let (body, features) = world.say(CLIENT, Service::TEST, &message(Body::Test(test)))?;
    assert_eq!(features, 1);
    match body {
        Body::TestReply(reply) => Some(reply.status),
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_tests_are_refused() {
    let mut world = World::new();
    let good = ping_test(1);
    assert_eq!(try_install(&mut world, good), Some(status(Errno::ENOENT)), "no session");
    world.make_session(CLIENT, SESSION, 0);
    let unknown = TestKind::Unknown { service: 13, parameters: [0; 12] };
    let bad = [
        Test { loops: 0, ..good },
        Test { concurrency: 0, ..good },
        Test { concurrency: 1025, ..good },
        Test { session: SessionId::INVALID, ..good },
        Test { destinations: 256 * 341 + 1, ..good },
        Test { destinations: 0, ..good },
        Test { destinations: 342, ..good },
        Test { kind: unknown, ..good },
        Test { kind: unknown, session: OTHER, ..good },
    ];
    for test in bad {
        assert_eq!(try_install(&mut world, test), Some(status(Errno::EINVAL)), "{test:?}");
    }
    let other = Test { session: OTHER, ..good };
    assert_eq!(try_install(&mut world, other), Some(status(Errno::ENOENT)));
    world.end();
}

#[test]
fn bulk_parameters_that_crash_a_server_are_refused() {
    let mut world = World::new();
    world.make_session(CLIENT, SESSION, 0);
    let brw = |direction: u32, flags, len, offset| {
        let kind = TestKind::Brw { direction: Direction(direction), flags, len, offset };
        Test { kind, ..ping_test(1) }
    };
    let bad = [
        brw(0, 1, 8, 0),
        brw(3, 1, 8, 0),
        brw(1, 0, 8, 0),
        brw(1, 4, 8, 0),
        brw(1, 1, 0, 0),
        brw(1, 1, 100, 0),
        brw(1, 1, (1 << 20) + 8, 0),
        brw(1, 1, 8, 4),
    ];
    for test in bad {
        assert_eq!(world.install(test, &[SERVER]), status(Errno::EINVAL), "{test:?}");
    }
    assert_eq!(world.install(brw(2, 3, 1 << 20, 4096 + 8), &[SERVER]), 0);
    world.end();
}

#[test]
fn a_client_without_destinations_does_not_reply() {
    let mut world = World::new();
    world.make_session(CLIENT, SESSION, 0);
    assert_eq!(try_install(&mut world, ping_test(1)), None, "the list is missing");
    world.wire.run_for(Duration::from_secs(51));
    assert_eq!(world.wire.reply(CONSOLE), None);
    assert_eq!(world.stat(CLIENT).rpc.rpcs_dropped, 1);
    assert_eq!(world.install(ping_test(1), &[SERVER]), 0, "it still works");
    world.end();
}

#[test]
fn truncated_or_invalid_destinations_are_refused() {
    let mut world = World::new();
    world.make_session(CLIENT, SESSION, 0);
    assert_eq!(world.install(ping_test(1), &[SERVER, Nid::ANY]), status(Errno::EINVAL));
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, vec![0; 11]);
    assert_eq!(try_install(&mut world, ping_test(1)), Some(status(Errno::EINVAL)));
    world.end();
}

#[test]
fn the_units_of_all_tests_are_bounded() {
    let mut world = World::new();
    world.make_session(CLIENT, SESSION, 0);
    let everywhere = vec![SERVER; 341];
    let huge = Test { concurrency: 1024, ..ping_test(1) };
    for _ in 0..3 {
        assert_eq!(world.install(huge, &everywhere), 0);
    }
    assert_eq!(world.install(huge, &everywhere), status(Errno::ENOMEM));
    world.remove_session(CLIENT, SESSION);
    world.make_session(CLIENT, SESSION, 0);
    assert_eq!(world.install(huge, &everywhere), 0, "a session is removed with its tests");
    world.end();
}
