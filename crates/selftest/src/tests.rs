//! Several machines on a network in virtual time.

mod framework;
mod hostile;
mod install;
mod lifecycle;
mod load;
mod rpc;
mod units;
pub(crate) mod wire;

use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{
    Batch, BatchId, BatchOperation, BatchReply, Body, Check, Destination, Direction,
    FEATURE_BULK_LEN, LOOP_FOREVER, MakeSession, Message, RemoveSession, Service, SessionId, Stat,
    StatReply, Test, TestKind,
};
use fulmar_lnet_wire::{Net, Nid, ProcessId};

use crate::Config;
use wire::{LATENCY, Wire};

/// The console, simulated by the tests.
const CONSOLE: Nid = Nid::small(Net::TCP, 0x0a00_0001);
/// A node that is a client in most tests.
const CLIENT: Nid = Nid::small(Net::TCP, 0x0a00_0002);
/// Nodes that are servers.
const SERVER: Nid = Nid::small(Net::TCP, 0x0a00_0003);
const SERVER_2: Nid = Nid::small(Net::TCP, 0x0a00_0004);

const SESSION: SessionId = SessionId { nid: CONSOLE, stamp: 77 };
const OTHER: SessionId = SessionId { nid: CONSOLE, stamp: 78 };
const BATCH: BatchId = BatchId(3);
const REPLY_ID: u64 = 0x1000;
const BULK_ID: u64 = 0x2000;

/// A client and two servers on a network, and a scripted console.
struct World {
    wire: Wire,
}

impl World {
    fn new() -> Self {
        Self::with(Config::default())
    }

    /// Creates a network whose nodes all have one configuration.
    fn with(config: Config) -> Self {
        let mut wire = Wire::default();
        wire.raw(CONSOLE);
        for nid in [CLIENT, SERVER, SERVER_2] {
            wire.add(nid, config.clone());
        }
        Self { wire }
    }

    /// Creates a network whose first server is in a session, and serves bulk.
    fn serving() -> Self {
        let mut world = Self::new();
        assert_eq!(world.make_session(SERVER, SESSION, 0), (0, SESSION));
        world.serve(SERVER);
        world.wire.notices(SERVER);
        world
    }

    /// Sends a request to a node, and returns the body of the reply and its features.
    fn say(&mut self, nid: Nid, service: Service, message: &Message) -> Option<(Body, u32)> {
        let reply = self.wire.ask(CONSOLE, nid, service, message)?;
        Some((reply.body, reply.features))
    }

    fn make_session(&mut self, nid: Nid, session: SessionId, force: u32) -> (u32, SessionId) {
        let name = "tests".parse().unwrap();
        let body = Body::MakeSession(MakeSession { reply_id: REPLY_ID, session, force, name });
        match self.say(nid, Service::MAKE_SESSION, &message(body)) {
            Some((Body::MakeSessionReply(reply), 1)) => (reply.status, reply.session),
            other => panic!("{other:?}"),
        }
    }

    fn remove_session(&mut self, nid: Nid, session: SessionId) -> (u32, SessionId) {
        let body = Body::RemoveSession(RemoveSession { reply_id: REPLY_ID, session });
        match self.say(nid, Service::REMOVE_SESSION, &message(body)) {
            Some((Body::RemoveSessionReply(reply), 1)) => (reply.status, reply.session),
            other => panic!("{other:?}"),
        }
    }

    /// Installs a test on a client, for these destinations.
    fn install(&mut self, test: Test, destinations: &[Nid]) -> u32 {
        let list: Vec<_> = destinations.iter().map(|nid| ProcessId::lustre(*nid)).collect();
        let bytes = Destination::encode_list(&list, FEATURE_BULK_LEN);
        self.wire.raw(CONSOLE).offers.insert(BULK_ID, bytes);
        let test = Test { destinations: list.len() as u32, ..test };
        match self.say(CLIENT, Service::TEST, &message(Body::Test(test))) {
            Some((Body::TestReply(reply), 1)) => reply.status,
            other => panic!("{other:?}"),
        }
    }

    fn batch(&mut self, operation: BatchOperation, test: u32, argument: u32) -> (u32, u32) {
        let request =
            Batch { reply_id: REPLY_ID, session: SESSION, batch: BATCH, operation, test, argument };
        match self.say(CLIENT, Service::BATCH, &message(Body::Batch(request))) {
            Some((Body::BatchReply(BatchReply { status, active, .. }), 1)) => (status, active),
            other => panic!("{other:?}"),
        }
    }

    /// Starts the batch on the client.
    fn run(&mut self) {
        assert_eq!(self.batch(BatchOperation::RUN, 0, 0), (0, 0));
    }

    fn stop(&mut self, force: u32) {
        assert_eq!(self.batch(BatchOperation::STOP, 0, force), (0, 0));
    }

    /// Returns how many tests of the batch run on the client, or units of one test.
    fn active(&mut self, test: u32) -> u32 {
        let (status, active) = self.batch(BatchOperation::QUERY, test, 0);
        assert_eq!(status, 0);
        active
    }

    fn stat_of(&mut self, nid: Nid, session: SessionId) -> StatReply {
        let body = Body::Stat(Stat { reply_id: REPLY_ID, session, kind: 0 });
        match self.say(nid, Service::QUERY_STAT, &message(body)) {
            Some((Body::StatReply(reply), _)) => reply,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the counters of a node in the session.
    fn stat(&mut self, nid: Nid) -> StatReply {
        let reply = self.stat_of(nid, SESSION);
        assert_eq!(reply.status, 0);
        reply
    }

    /// Makes a node of the session a server of bulk, by a test in a batch of its own.
    fn serve(&mut self, nid: Nid) {
        let test = brw_test(1, Direction::READ, Check::NONE, 8);
        let batch = BatchId(BATCH.0 + 1);
        let test = Test { batch, is_client: false, destinations: 0, bulk_id: 0, ..test };
        match self.say(nid, Service::TEST, &message(Body::Test(test))) {
            Some((Body::TestReply(reply), 1)) => assert_eq!(reply.status, 0),
            other => panic!("{other:?}"),
        }
    }

    /// Adds the nodes to the session, as servers, installs a test on the client and starts it.
    fn start(&mut self, test: Test, destinations: &[Nid]) {
        for nid in [CLIENT, SERVER, SERVER_2] {
            assert_eq!(self.make_session(nid, SESSION, 0), (0, SESSION));
            self.serve(nid);
        }
        assert_eq!(self.install(test, destinations), 0);
        self.run();
    }

    /// Ends the session on all nodes and checks that nothing is left.
    fn end(&mut self) {
        for nid in [CLIENT, SERVER, SERVER_2] {
            self.remove_session(nid, SESSION);
        }
        self.wire.run_for(10 * LATENCY);
        self.assert_idle();
    }

    fn assert_idle(&self) {
        for nid in [CLIENT, SERVER, SERVER_2] {
            self.wire.machine(nid).is_idle().unwrap();
            assert_eq!(self.wire.buffers(nid), 0);
        }
    }
}

fn message(body: Body) -> Message {
    Message::new(FEATURE_BULK_LEN, body)
}

const fn status(errno: Errno) -> u32 {
    errno.0 as u32
}

/// Returns a ping test for a client, with one unit for each destination.
fn ping_test(loops: u32) -> Test {
    Test {
        reply_id: REPLY_ID,
        bulk_id: BULK_ID,
        session: SESSION,
        batch: BATCH,
        loops,
        concurrency: 1,
        is_client: true,
        stop_on_error: true,
        destinations: 1,
        kind: TestKind::Ping { size: 0, flags: 0 },
    }
}

/// Returns a bulk test for a client, with one unit for each destination.
fn brw_test(loops: u32, direction: Direction, check: Check, len: u32) -> Test {
    let kind = TestKind::Brw { direction, flags: check.0 as u16, len, offset: 0 };
    Test { kind, ..ping_test(loops) }
}

const SECOND: Duration = Duration::from_secs(1);
