//! The worked examples of lnet-selftest §19.

use super::*;

fn session() -> SessionId {
    SessionId { nid: nid(192, 168, 1, 1), stamp: 0x012a_05f2 }
}

#[test]
fn make_session() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 00 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 01 00 00 00 00 00 78 e7 | reply id
         01 01 a8 c0 00 00 02 00 f2 05 2a 01 00 00 00 00 | session
         00 00 00 00 72 73 40 63 6c 69 65 6e 74 00 00 00 | force, name",
    );
    let reply_id = 0xe778_0000_0000_0001;
    let expected = MakeSession { reply_id, session: session(), force: 0, name: name("rs@client") };
    assert_eq!(request, Body::MakeSession(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 01 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 01 a8 c0 | status, session
         00 00 02 00 f2 05 2a 01 00 00 00 00 64 00 00 00 | timeout",
    );
    let expected =
        MakeSessionReply { status: 0, session: session(), timeout: 100, name: Name::EMPTY };
    assert_eq!(reply, Body::MakeSessionReply(expected));
}

#[test]
fn test_of_a_client_that_writes() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 08 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 05 00 00 00 00 00 78 e7 | reply id
         06 00 00 00 00 00 78 e7 01 01 a8 c0 00 00 02 00 | bulk id, session
         f2 05 2a 01 00 00 00 00 01 00 00 00 00 00 00 00 | session, batch
         0b 00 00 00 ff ff ff ff 08 00 00 00 01 01 01 00 | service, loops, concurrency, flags, 1
         00 00 02 00 02 00 00 00 10 00 00 00 00 00 00 00 | write, simple, 1 MiB, offset",
    );
    let kind = TestKind::Brw { direction: Direction::WRITE, flags: 2, len: 1 << 20, offset: 0 };
    let expected = Test {
        reply_id: 0xe778_0000_0000_0005,
        bulk_id: 0xe778_0000_0000_0006,
        session: session(),
        batch: BatchId(1),
        loops: LOOP_FOREVER,
        concurrency: 8,
        is_client: true,
        stop_on_error: true,
        destinations: 1,
        kind,
    };
    assert_eq!(request, Body::Test(expected));
}

#[test]
fn destination_list() {
    let bytes = hex("03 01 a8 c0 00 00 02 00 39 30 00 00");
    let list = [ProcessId::lustre(nid(192, 168, 1, 3))];
    assert_eq!(Destination::decode_list(&bytes, 1, Order::Little), Ok(list.to_vec()));
    assert_eq!(Destination::encode_list(&list, FEATURES), bytes);
}

#[test]
fn brw() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 0c 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 01 01 00 00 00 00 78 e7 | reply id
         02 01 00 00 00 00 78 e7 02 00 00 00 00 00 10 00 | bulk id, write, 1 MiB
         02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | simple",
    );
    let expected = Brw {
        reply_id: 0xe778_0000_0000_0101,
        bulk_id: 0xe778_0000_0000_0102,
        direction: Direction::WRITE,
        len: 1 << 20,
        flags: Check::SIMPLE.0,
    };
    assert_eq!(request, Body::Brw(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 0d 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 00",
    );
    assert_eq!(reply, Body::BrwReply(BrwReply { status: 0 }));
}

#[test]
fn ping() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 0e 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 01 02 00 00 00 00 78 e7 | reply id
         ce fa be ba 00 00 00 00 00 b9 55 69 00 00 00 00 | magic, sequence, seconds
         88 13 00 00 00 00 00 00 00                      | nanoseconds",
    );
    let expected = Ping {
        reply_id: 0xe778_0000_0000_0201,
        magic: Ping::MAGIC,
        sequence: 0,
        seconds: 1_767_225_600,
        nanoseconds: 5_000,
    };
    assert_eq!(request, Body::Ping(expected));
}

#[test]
fn stat_reply_fills_the_message() {
    let reply = body(
        "0d f0 b0 ee 01 00 00 00 07 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 01 a8 c0 | status, session
         00 00 02 00 f2 05 2a 01 00 00 00 00 4d ee 00 00 | running
         01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | active, zombies, errors
         00 00 00 00 00 10 00 00 04 10 00 00 00 00 00 00 | errors, sent, received, dropped
         00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 00 | expired, bulk_get, bulk_put
         00 00 00 00 03 00 00 00 28 00 00 00 00 00 00 00 | alloc, max, errors
         28 23 00 00 29 23 00 00 00 00 00 00 00 00 00 00 | send, recv, route, drop
         60 ae 0a 00 00 00 00 00 00 00 00 00 01 00 00 00 | lengths of the same
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let framework =
        FrameworkCounters { running_ms: 61_005, active_batches: 1, ..FrameworkCounters::default() };
    let rpc = RpcCounters {
        rpcs_sent: 4096,
        rpcs_received: 4100,
        bulk_get: 1 << 30,
        ..RpcCounters::default()
    };
    let lnet = LnetCounters {
        msgs_alloc: 3,
        msgs_max: 40,
        send_count: 9000,
        recv_count: 9001,
        send_length: 700_000,
        recv_length: 1 << 32,
        ..LnetCounters::default()
    };
    let expected = StatReply { status: 0, session: session(), framework, rpc, lnet };
    assert_eq!(reply, Body::StatReply(expected));
}
