//! The load services: pings of any node, and bulk in a session. Spec: lnet-selftest §6.

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{
    BULK_PORTAL, Body, Brw, BrwReply, Check, Direction, GOOD, Message, Ping, PingReply, Service,
    fill,
};
use fulmar_wire::Order;

use super::*;
use crate::Notice;

fn brw(direction: Direction, len: u32, flags: u32) -> Brw {
    Brw { reply_id: REPLY_ID, bulk_id: BULK_ID, direction, len, flags }
}

/// Sends a request and returns the status and the features of the reply, if any.
fn try_brw(world: &mut World, features: u32, brw: Brw) -> Option<(u32, u32)> {
    let message = Message::new(features, Body::Brw(brw));
    match world.say(SERVER, Service::BRW, &message) {
        Some((Body::BrwReply(BrwReply { status }), features)) => Some((status, features)),
        None => None,
        other => panic!("{other:?}"),
    }
}

fn good_data(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes);
    bytes
}

#[test]
fn a_read_transfers_the_data_before_the_reply() {
    let mut world = World::serving();
    for flags in [1, 2, 3, 4] {
        let request = message(Body::Brw(brw(Direction::READ, 8192, flags)));
        world.wire.request(CONSOLE, SERVER, Service::BRW.0, &request.to_bytes());
        world.wire.run_for(SECOND);
        let (portal, match_bits, bytes) = world.wire.raw(CONSOLE).inbox.pop_front().unwrap();
        assert_eq!((portal, match_bits, bytes.len()), (BULK_PORTAL, BULK_ID, 8192));
        assert_eq!(bytes == good_data(8192), flags == 2 || flags == 3);
        let reply = world.wire.reply(CONSOLE).unwrap();
        assert_eq!(reply, message(Body::BrwReply(BrwReply { status: 0 })));
    }
    world.end();
}

#[test]
fn a_write_is_fetched_and_checked() {
    let mut world = World::serving();
    let write = brw(Direction::WRITE, 8192, Check::FULL.0);
    let mut data = good_data(8192);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, data.clone());
    assert_eq!(try_brw(&mut world, 1, write), Some((0, 1)));
    data[4104] ^= 1;
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, data.clone());
    assert_eq!(try_brw(&mut world, 1, write), Some((status(Errno::EBADMSG), 1)));
    let (peer, got) = (ProcessId::lustre(CONSOLE), GOOD ^ 1);
    let corrupted = Notice::Corrupted { peer, offset: 4104, got };
    assert_eq!(world.wire.notices(SERVER), [corrupted]);
    for blind in [Check::NONE, Check::SIMPLE] {
        world.wire.raw(CONSOLE).offers.insert(BULK_ID, data.clone());
        let write = brw(Direction::WRITE, 8192, blind.0);
        assert_eq!(
            try_brw(&mut world, 1, write),
            Some((0, 1)),
            "{blind:?} does not check this word"
        );
    }
    world.end();
}

#[test]
fn a_writer_of_the_other_byte_order_fills_in_its_own() {
    let mut world = World::serving();
    let mut bytes = Vec::new();
    let write = brw(Direction::WRITE, 64, Check::FULL.0);
    message(Body::Brw(write)).encode(Order::Big, &mut bytes);
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, GOOD.to_be_bytes().repeat(8));
    world.wire.request(CONSOLE, SERVER, Service::BRW.0, &bytes);
    world.wire.run_for(SECOND);
    let reply = world.wire.reply(CONSOLE).unwrap();
    assert_eq!(reply, message(Body::BrwReply(BrwReply { status: 0 })));
}

#[test]
fn invalid_bulk_is_refused() {
    let mut world = World::serving();
    let (einval, read) = (status(Errno::EINVAL), Direction::READ);
    let refused = [
        (1, brw(Direction(3), 8, 1), (einval, 0)),
        (1, brw(read, 8, 5), (einval, 0)),
        (2, brw(read, 8, 5), (einval, 0)),
        (2, brw(read, 8, 1), (status(Errno::EPROTO), 1)),
        (0, brw(read, 8, 1), (einval, 0)),
        (1, brw(read, 0, 1), (einval, 1)),
        (1, brw(read, (1 << 20) + 8, 1), (einval, 1)),
        (1, brw(read, 100, 1), (einval, 1)),
    ];
    for (features, brw, expected) in refused {
        assert_eq!(try_brw(&mut world, features, brw), Some(expected), "{features} {brw:?}");
    }
    world.end();
}

#[test]
fn a_client_whose_bulk_fails_gets_no_reply() {
    let mut world = World::serving();
    let write = brw(Direction::WRITE, 8192, Check::FULL.0);
    assert_eq!(try_brw(&mut world, 1, write), None, "it offers nothing");
    world.wire.raw(CONSOLE).offers.insert(BULK_ID, good_data(4096));
    assert_eq!(try_brw(&mut world, 1, write), None, "it offers too little");
    world.wire.run_for(51 * SECOND);
    assert_eq!(world.wire.reply(CONSOLE), None);
    let rpc = world.stat(SERVER).rpc;
    assert_eq!((rpc.rpcs_dropped, rpc.errors), (2, 1));
    world.end();
}

#[test]
fn valid_pings_are_echoed() {
    let mut world = World::serving();
    let ping =
        Ping { reply_id: REPLY_ID, magic: Ping::MAGIC, sequence: 9, seconds: 1, nanoseconds: 2 };
    let mut say = |features, ping| {
        world.say(SERVER, Service::PING, &Message::new(features, Body::Ping(ping)))
    };
    let pong = PingReply { status: 0, magic: Ping::MAGIC, sequence: 9 };
    assert_eq!(say(1, ping), Some((Body::PingReply(pong), 1)));
    assert_eq!(say(0, ping), Some((Body::PingReply(pong), 0)));
    let refused = PingReply { status: status(Errno::EPROTO), ..pong };
    assert_eq!(say(2, ping), Some((Body::PingReply(refused), 1)));
    assert_eq!(say(1, Ping { magic: 1, ..ping }), None);
    world.end();
}

#[test]
fn bulk_is_refused_without_a_session_that_has_a_bulk_test() {
    let mut world = World::new();
    let read = brw(Direction::READ, 8192, 1);
    let refused = Some((status(Errno::ESRCH), 1));
    assert_eq!(try_brw(&mut world, 1, read), refused);
    world.make_session(SERVER, SESSION, 0);
    assert_eq!(try_brw(&mut world, 1, read), refused);
    let ping = Test { is_client: false, destinations: 0, bulk_id: 0, ..ping_test(9) };
    world.say(SERVER, Service::TEST, &message(Body::Test(ping))).unwrap();
    assert_eq!(try_brw(&mut world, 1, read), refused, "it serves pings only");
    world.serve(SERVER);
    let request = message(Body::Brw(read));
    world.wire.request(CONSOLE, SERVER, Service::BRW.0, &request.to_bytes());
    world.wire.run_for(SECOND);
    assert_eq!(world.wire.raw(CONSOLE).inbox.drain(..).count(), 2, "the data and the reply");
    world.remove_session(SERVER, SESSION);
    assert_eq!(try_brw(&mut world, 1, read), refused);
    world.assert_idle();
}
