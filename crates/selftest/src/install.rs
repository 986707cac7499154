//! Installation of a test; a client first fetches its destinations. Spec: lnet-selftest §5.6, §7.3.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ProcessId;
use fulmar_lnet_wire::selftest::{Body, Destination, Test, TestKind, TestReply};
use fulmar_wire::Order;

use crate::Selftest;
use crate::api::{OperationResult, Output};
use crate::batch::Role;
use crate::brw::Transfers;
use crate::framework::Outcome;
use crate::serve::{Client, Operation};
use crate::unit::{Instance, Load};

/// The largest number of units for each destination.
const CONCURRENCY_MAX: u32 = 1024;
/// The largest number of destinations: 256 pages of them.
const DESTINATIONS_MAX: u32 = 256 * Destination::COUNT_MAX;
/// The largest number of batches of a session, against exhaustion of memory.
const BATCHES_MAX: usize = 1024;
/// The largest number of tests of a batch, likewise.
const TESTS_MAX: usize = 1024;

/// A test whose destinations are being fetched.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) client: Client,
    order: Order,
    test: Test,
}

impl Selftest {
    pub(crate) fn test(&mut self, now: Time, client: Client, order: Order, test: Test) -> Outcome {
        if let Err(errno) = self.may_install(&test) {
            return self.test_reply(Err(errno));
        }
        if !test.is_client {
            let installed = self.install(&test, Role::Server);
            return self.test_reply(installed);
        }
        // A longer list would arrive incomplete: the console lays it out in pages with gaps, but
        // offers only as many bytes as it has without the gaps.
        if test.destinations > Destination::COUNT_MAX {
            return self.test_reply(Err(Errno::EINVAL));
        }
        let (source, target, match_bits) = (client.to, client.from, test.bulk_id);
        let len = test.destinations * Destination::LEN;
        let fetch = Operation::Destinations(Installation { client, order, test });
        let id = self.operate(now, fetch);
        self.outputs.push_back(Output::GetBytes { id, source, target, match_bits, len });
        Outcome::Aside
    }

    /// Handles the destinations of a test. If they did not arrive there is no reply.
    pub(crate) fn destinations_fetched(
        &mut self,
        now: Time,
        installation: Installation,
        result: Result<OperationResult, Errno>,
    ) {
        let Installation { client, order, test } = installation;
        let outcome = match result {
            Ok(done) => {
                let counters = &mut self.server.counters;
                let len = done.bytes.len() as u64;
                counters.bulk_get = counters.bulk_get.wrapping_add(len);
                let list = Destination::decode_list(&done.bytes, test.destinations, order);
                let installed = match list {
                    Ok(list) if list.iter().all(|process| !process.nid.is_any()) => {
                        self.install_client(&test, list)
                    }
                    _ => Err(Errno::EINVAL),
                };
                self.test_reply(installed)
            }
            Err(_) => Outcome::Drop,
        };
        self.finish(now, client, outcome);
    }

    /// Checks the request before the destinations arrive. The first test of a batch creates it,
    /// even if the test fails.
    fn may_install(&mut self, test: &Test) -> Result<(), Errno> {
        let is_good = test.loops != 0
            && (1..=CONCURRENCY_MAX).contains(&test.concurrency)
            && test.session.is_valid()
            && test.destinations <= DESTINATIONS_MAX
            && !(test.is_client && test.destinations == 0)
            && !matches!(test.kind, TestKind::Unknown { .. });
        if !is_good {
            return Err(Errno::EINVAL);
        }
        let (_, session) = self.sessions.find(test.session).ok_or(Errno::ENOENT)?;
        let is_known = session.batches.contains_key(&test.batch);
        if !is_known && session.batches.len() == BATCHES_MAX {
            return Err(Errno::ENOMEM);
        }
        let batch = session.batches.entry(test.batch).or_default();
        match batch {
            batch if batch.is_active() => Err(Errno::EBUSY),
            batch if batch.instances.len() == TESTS_MAX => Err(Errno::ENOMEM),
            _ => Ok(()),
        }
    }

    fn install_client(&mut self, test: &Test, list: Vec<ProcessId>) -> Result<(), Errno> {
        let load = match &test.kind {
            TestKind::Ping { .. } => Load::Ping,
            kind => Load::Brw(Transfers::of_test(kind).ok_or(Errno::EINVAL)?),
        };
        // Other requests were served while the list was fetched.
        self.may_install(test)?;
        let (number, session) = self.sessions.find(test.session).ok_or(Errno::ENOENT)?;
        let instance = Instance::new(number, session.features, load, test, list);
        if !self.instances.has_room_for(&instance) {
            return Err(Errno::ENOMEM);
        }
        if load == Load::Ping {
            self.ping_sequence = 0;
        }
        let instance = self.instances.add(instance);
        self.install(test, Role::Client(instance))
    }

    fn install(&mut self, test: &Test, role: Role) -> Result<(), Errno> {
        let (_, session) = self.sessions.find(test.session).ok_or(Errno::ENOENT)?;
        let is_bulk = matches!(test.kind, TestKind::Brw { .. } | TestKind::BrwPages { .. });
        session.serves_bulk |= is_bulk && role == Role::Server;
        session.batches.entry(test.batch).or_default().instances.push(role);
        Ok(())
    }

    fn test_reply(&self, result: Result<(), Errno>) -> Outcome {
        let status = result.err().map_or(0, |errno| errno.0 as u32);
        let session = self.sessions.current_id();
        Outcome::Reply(Body::TestReply(TestReply { status, session }))
    }
}
