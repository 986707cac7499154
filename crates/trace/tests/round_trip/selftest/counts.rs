//! Counts of the messages. Spec: lnet-selftest §22.1.

use std::collections::BTreeMap;

use fulmar_lnet_wire::selftest::{
    BatchId, BatchOperation, Body, Direction, LOOP_FOREVER, Service, Test, TestKind,
};

use super::{NAMES, Rpc, millis, rpcs};
use crate::traces::load;

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    sessions: [usize; 2],
    /// For servers and for clients.
    tests: [usize; 2],
    /// Run, stop, query.
    batches: [usize; 3],
    pings: usize,
    brws: usize,
    stats: usize,
    /// Numbers of transfers by length: lists of destinations, writes and reads.
    lists: BTreeMap<usize, usize>,
    writes: BTreeMap<usize, usize>,
    reads: BTreeMap<usize, usize>,
}

impl Counts {
    fn of(rpcs: &[Rpc<'_>]) -> Self {
        let mut this = Self::default();
        for rpc in rpcs {
            this.count(rpc);
        }
        this
    }

    fn count(&mut self, rpc: &Rpc<'_>) {
        *match &rpc.request.body {
            Body::MakeSession(_) => &mut self.sessions[0],
            Body::RemoveSession(_) => &mut self.sessions[1],
            Body::Test(test) => &mut self.tests[usize::from(test.is_client)],
            Body::Batch(batch) => &mut self.batches[batch.operation.0 as usize - 1],
            Body::Ping(_) => &mut self.pings,
            Body::Brw(_) => &mut self.brws,
            Body::Stat(_) => &mut self.stats,
            other => panic!("not in the traces: {other:?}"),
        } += 1;
        let Some(bulk) = &rpc.bulk else { return };
        let counts = match rpc.service {
            Service::TEST => &mut self.lists,
            _ if bulk.is_get() => &mut self.writes,
            _ => &mut self.reads,
        };
        *counts.entry(bulk.data.len()).or_default() += 1;
    }
}

fn expected(name: &str) -> Counts {
    // One client and one server, where the client is the console, on one hop.
    let local = |writes: (usize, usize)| Counts {
        sessions: [1, 1],
        tests: [2, 0],
        brws: writes.1 + 2,
        stats: 3,
        writes: BTreeMap::from([writes]),
        reads: BTreeMap::from([(1 << 20, 2)]),
        ..Counts::default()
    };
    match name {
        "selftest" => Counts {
            tests: [4, 0],
            pings: 12,
            brws: 18,
            stats: 4,
            writes: BTreeMap::from([(4096, 8), (1 << 20, 2)]),
            reads: BTreeMap::from([(65_536, 8)]),
            ..local((0, 0))
        },
        // Each message appears on two hops.
        "router" => Counts {
            sessions: [2, 2],
            tests: [4, 0],
            brws: 20,
            stats: 6,
            writes: BTreeMap::from([(65_536, 16)]),
            reads: BTreeMap::from([(1 << 20, 4)]),
            ..Counts::default()
        },
        "multirail" => local((65_536, 8)),
        "checksum" => local((65_536, 4)),
        "selftest-remote" => Counts {
            sessions: [2, 2],
            tests: [4, 4],
            batches: [2, 2, 3],
            pings: 1221,
            brws: 9,
            stats: 6,
            lists: BTreeMap::from([(12, 4)]),
            writes: BTreeMap::from([(8192, 6)]),
            reads: BTreeMap::from([(16_384, 3)]),
        },
        other => panic!("{other} is not expected"),
    }
}

#[test]
fn every_message_encodes_to_its_bytes_and_is_counted() {
    for name in NAMES {
        assert_eq!(Counts::of(&rpcs(&load(name))), expected(name), "{name}");
    }
}

fn brw(direction: Direction, len: u32, check: u16) -> TestKind {
    TestKind::Brw { direction, flags: check, len, offset: 0 }
}

const PING: TestKind = TestKind::Ping { size: 0, flags: 0 };

/// Returns the content of the TESTs of a trace: batch, loops, concurrency and parameters.
fn tests(name: &str, is_client: bool) -> Vec<(u64, u32, u32, TestKind)> {
    let links = load(name);
    let rpcs = rpcs(&links);
    let tests = rpcs.iter().filter_map(|rpc| match rpc.request.body {
        Body::Test(test) if test.is_client == is_client => Some(test),
        _ => None,
    });
    let said = |test: Test| {
        assert!(test.stop_on_error);
        assert_eq!(test.destinations, u32::from(is_client));
        (test.batch.0, test.loops, test.concurrency, test.kind)
    };
    tests.map(said).collect()
}

#[test]
fn tests_of_servers_have_the_number_of_outstanding_rpcs() {
    let selftest = [
        (2, 2, 2, PING),
        (2, 2, 2, brw(Direction::WRITE, 4096, 3)),
        (2, 2, 2, brw(Direction::READ, 65_536, 2)),
        (2, 1, 1, brw(Direction::WRITE, 1 << 20, 1)),
    ];
    assert_eq!(tests("selftest", false), selftest);
    let write = brw(Direction::WRITE, 65_536, 3);
    let read = brw(Direction::READ, 1 << 20, 3);
    assert_eq!(tests("multirail", false), [(2, 2, 2, write), (2, 1, 1, read)]);
    let remote = [
        (2, 2, 2, PING),
        (2, 2, 2, brw(Direction::WRITE, 8192, 3)),
        (2, 1, 1, brw(Direction::READ, 16_384, 3)),
        (3, 1, 1, PING),
    ];
    assert_eq!(tests("selftest-remote", false), remote);
}

#[test]
fn tests_of_clients_have_the_loops_of_each_unit() {
    let remote = [
        (2, 5, 2, PING),
        (2, 3, 2, brw(Direction::WRITE, 8192, 3)),
        (2, 3, 1, brw(Direction::READ, 16_384, 3)),
        (3, LOOP_FOREVER, 1, PING),
    ];
    assert_eq!(tests("selftest-remote", true), remote);
}

#[test]
fn a_stopped_batch_ends_its_rpc_in_flight_and_starts_no_other() {
    let links = load("selftest-remote");
    let rpcs = rpcs(&links);
    let mut batches = rpcs.iter().filter_map(|rpc| match rpc.request.body {
        Body::Batch(batch) => Some((batch, rpc)),
        _ => None,
    });
    let mut next = |batch, operation| {
        let (said, rpc) = batches.next().expect("another");
        assert_eq!((said.batch, said.operation), (batch, operation));
        assert_eq!((said.test, said.argument), (0, 0));
        rpc
    };
    let first = BatchId(2);
    let run = next(first, BatchOperation::RUN);
    let query = next(first, BatchOperation::QUERY);
    let pause = |from: &Rpc<'_>, to: &Rpc<'_>| millis(from.reply.frame.time, to.request.frame.time);
    assert!((2000..2300).contains(&pause(run, query)));
    let stop = next(first, BatchOperation::STOP);
    let query = next(first, BatchOperation::QUERY);
    assert!(pause(stop, query) <= 1);
    let endless = BatchId(3);
    let run = next(endless, BatchOperation::RUN);
    let stop = next(endless, BatchOperation::STOP);
    assert!((1000..1200).contains(&pause(run, stop)));
    let query = next(endless, BatchOperation::QUERY);
    assert!(pause(stop, query) <= 2);
    let mut pings = rpcs.iter().filter(|rpc| matches!(rpc.request.body, Body::Ping(_)));
    let last = pings.next_back().expect("there are pings");
    assert!(last.request.frame.time < stop.reply.frame.time);
    assert!(last.reply.frame.time < query.request.frame.time);
}
