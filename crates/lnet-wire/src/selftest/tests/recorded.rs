//! Messages of kernel nodes: the annotated examples of lnet-selftest §22.3.

use super::*;

/// The session of trace selftest.
fn golden() -> SessionId {
    SessionId { nid: nid(10, 99, 0, 1), stamp: 235_608 }
}

/// The session of trace selftest-remote.
fn remote() -> SessionId {
    SessionId { nid: nid(10, 99, 0, 1), stamp: 484_215 }
}

const BASE: u64 = 0x5719 << 48;
const REMOTE_BASE: u64 = 0x6807 << 48;

#[test]
fn a_session_begins() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 00 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 02 00 00 00 00 00 19 57
         01 00 63 0a 00 00 02 00 58 98 03 00 00 00 00 00
         00 00 00 00 67 6f 6c 64 65 6e 00 00 00 00 00 00",
    );
    let expected =
        MakeSession { reply_id: BASE + 2, session: golden(), force: 0, name: name("golden") };
    assert_eq!(request, Body::MakeSession(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 01 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 00 63 0a
         00 00 02 00 58 98 03 00 00 00 00 00 64 00 00 00",
    );
    let expected =
        MakeSessionReply { status: 0, session: golden(), timeout: 100, name: Name::EMPTY };
    assert_eq!(reply, Body::MakeSessionReply(expected));
}

#[test]
fn a_session_ends() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 02 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 4c 00 00 00 00 00 19 57
         01 00 63 0a 00 00 02 00 58 98 03 00 00 00 00 00",
    );
    let expected = RemoveSession { reply_id: BASE + 0x4c, session: golden() };
    assert_eq!(request, Body::RemoveSession(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 03 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 ff ff ff ff
         ff ff ff ff ff ff ff ff ff ff ff ff 00 00 00 00",
    );
    let expected = RemoveSessionReply { status: 0, session: SessionId::INVALID };
    assert_eq!(reply, Body::RemoveSessionReply(expected));
    assert!(!SessionId::INVALID.is_valid());
}

fn server_test(reply_id: u64, kind: TestKind) -> Test {
    Test {
        reply_id,
        bulk_id: 0,
        session: golden(),
        batch: BatchId(2),
        loops: 2,
        concurrency: 2,
        is_client: false,
        stop_on_error: true,
        destinations: 0,
        kind,
    }
}

#[test]
fn tests_of_a_server() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 08 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 03 00 00 00 00 00 19 57
         00 00 00 00 00 00 00 00 01 00 63 0a 00 00 02 00
         58 98 03 00 00 00 00 00 02 00 00 00 00 00 00 00
         0c 00 00 00 02 00 00 00 02 00 00 00 00 01 00 00",
    );
    let ping = TestKind::Ping { size: 0, flags: 0 };
    assert_eq!(request, Body::Test(server_test(BASE + 3, ping)));

    let request = body(
        "0d f0 b0 ee 01 00 00 00 08 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 06 00 00 00 00 00 19 57
         00 00 00 00 00 00 00 00 01 00 63 0a 00 00 02 00
         58 98 03 00 00 00 00 00 02 00 00 00 00 00 00 00
         0b 00 00 00 02 00 00 00 02 00 00 00 00 01 00 00
         00 00 02 00 03 00 00 10 00 00 00 00 00 00 00 00",
    );
    let write = TestKind::Brw { direction: Direction::WRITE, flags: 3, len: 4096, offset: 0 };
    assert_eq!(request, Body::Test(server_test(BASE + 6, write)));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 09 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 00 63 0a
         00 00 02 00 58 98 03 00 00 00 00 00 00 00 00 00",
    );
    assert_eq!(reply, Body::TestReply(TestReply { status: 0, session: golden() }));
}

fn client_test(reply_id: u64, loops: u32, kind: TestKind) -> Test {
    Test {
        bulk_id: reply_id + 1,
        session: remote(),
        loops,
        is_client: true,
        destinations: 1,
        ..server_test(reply_id, kind)
    }
}

#[test]
fn tests_of_a_client() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 08 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 04 00 00 00 00 00 07 68
         05 00 00 00 00 00 07 68 01 00 63 0a 00 00 02 00
         77 63 07 00 00 00 00 00 02 00 00 00 00 00 00 00
         0c 00 00 00 05 00 00 00 02 00 00 00 01 01 01 00
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let ping = TestKind::Ping { size: 0, flags: 0 };
    assert_eq!(request, Body::Test(client_test(REMOTE_BASE + 4, 5, ping)));

    let request = body(
        "0d f0 b0 ee 01 00 00 00 08 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 07 00 00 00 00 00 07 68
         08 00 00 00 00 00 07 68 01 00 63 0a 00 00 02 00
         77 63 07 00 00 00 00 00 02 00 00 00 00 00 00 00
         0b 00 00 00 03 00 00 00 02 00 00 00 01 01 01 00
         00 00 02 00 03 00 00 20 00 00 00 00 00 00 00 00",
    );
    let write = TestKind::Brw { direction: Direction::WRITE, flags: 3, len: 8192, offset: 0 };
    assert_eq!(request, Body::Test(client_test(REMOTE_BASE + 7, 3, write)));

    let list = [ProcessId::lustre(nid(10, 99, 0, 4))];
    let bytes = hex("04 00 63 0a 00 00 02 00 39 30 00 00");
    assert_eq!(Destination::decode_list(&bytes, 1, Order::Little), Ok(list.to_vec()));
    assert_eq!(Destination::encode_list(&list, FEATURES), bytes);
}

#[test]
fn a_ping_is_echoed() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 0e 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 10 00 00 00 00 00 19 57
         ce fa be ba 00 00 00 00 36 57 00 6b 00 00 00 00
         dd 7d 91 0e 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let expected = Ping {
        reply_id: BASE + 0x10,
        magic: Ping::MAGIC,
        sequence: 0,
        seconds: 1_795_184_438,
        nanoseconds: 244_415_965,
    };
    assert_eq!(request, Body::Ping(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 0f 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 ce fa be ba
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let expected = PingReply { status: 0, magic: Ping::MAGIC, sequence: 0 };
    assert_eq!(reply, Body::PingReply(expected));
}

#[test]
fn bulk_is_written_and_read() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 0c 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 12 00 00 00 00 00 19 57
         13 00 00 00 00 00 19 57 02 00 00 00 00 10 00 00
         03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let brw = |reply_id, direction, len, check: Check| {
        Body::Brw(Brw { reply_id, bulk_id: reply_id + 1, direction, len, flags: check.0 })
    };
    assert_eq!(request, brw(BASE + 0x12, Direction::WRITE, 4096, Check::FULL));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 0d 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00",
    );
    assert_eq!(reply, Body::BrwReply(BrwReply { status: 0 }));

    let request = body(
        "0d f0 b0 ee 01 00 00 00 0c 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 16 00 00 00 00 00 19 57
         17 00 00 00 00 00 19 57 01 00 00 00 00 00 01 00
         02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    assert_eq!(request, brw(BASE + 0x16, Direction::READ, 65_536, Check::SIMPLE));
}

#[test]
fn counters_are_reported() {
    let request = body(
        "0d f0 b0 ee 01 00 00 00 06 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 42 00 00 00 00 00 19 57
         01 00 63 0a 00 00 02 00 58 98 03 00 00 00 00 00
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let expected = Stat { reply_id: BASE + 0x42, session: golden(), kind: 0 };
    assert_eq!(request, Body::Stat(expected));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 07 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 00 63 0a
         00 00 02 00 58 98 03 00 00 00 00 00 09 0d 00 00 | running
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
         00 00 00 00 00 00 00 00 24 00 00 00 00 00 00 00 | received
         00 00 00 00 00 80 20 00 00 00 00 00 00 00 08 00 | bulk_get, bulk_put
         00 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 | msgs_max
         3a 00 00 00 33 00 00 00 00 00 00 00 00 00 00 00
         a0 16 08 00 00 00 00 00 b0 96 20 00 00 00 00 00
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let rpc = RpcCounters {
        rpcs_received: 36,
        bulk_get: 2_129_920,
        bulk_put: 524_288,
        ..RpcCounters::default()
    };
    let lnet = LnetCounters {
        msgs_max: 5,
        send_count: 58,
        recv_count: 51,
        send_length: 530_080,
        recv_length: 2_135_728,
        ..LnetCounters::default()
    };
    let framework = FrameworkCounters { running_ms: 3337, ..FrameworkCounters::default() };
    let expected = StatReply { status: 0, session: golden(), framework, rpc, lnet };
    assert_eq!(reply, Body::StatReply(expected));
}

#[test]
fn a_batch_is_run_queried_and_stopped() {
    let request = |reply_id: &str, operation: &str| {
        body(&format!(
            "0d f0 b0 ee 01 00 00 00 04 00 00 00 00 00 00 00
             00 00 00 00 01 00 00 00 {reply_id} 00 00 00 00 00 07 68
             01 00 63 0a 00 00 02 00 77 63 07 00 00 00 00 00
             02 00 00 00 00 00 00 00 {operation} 00 00 00 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
        ))
    };
    let batch = |reply_id, operation| {
        let (session, batch) = (remote(), BatchId(2));
        Body::Batch(Batch { reply_id, session, batch, operation, test: 0, argument: 0 })
    };
    assert_eq!(request("0c", "01"), batch(REMOTE_BASE + 0x0c, BatchOperation::RUN));
    assert_eq!(request("0d", "03"), batch(REMOTE_BASE + 0x0d, BatchOperation::QUERY));
    assert_eq!(request("14", "02"), batch(REMOTE_BASE + 0x14, BatchOperation::STOP));

    let reply = body(
        "0d f0 b0 ee 01 00 00 00 05 00 00 00 00 00 00 00
         00 00 00 00 01 00 00 00 00 00 00 00 01 00 63 0a
         00 00 02 00 77 63 07 00 00 00 00 00 00 00 00 00
         00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    let expected = BatchReply { status: 0, session: remote(), active: 0, time: 0 };
    assert_eq!(reply, Body::BatchReply(expected));
}
