//! Tests installed on the nodes of two groups. Spec: lnet-selftest §5.6, §13.4, §14.

use fulmar_base::Errno;
use fulmar_lnet_wire::MTU;
use fulmar_lnet_wire::selftest::{
    Check, Direction, FEATURE_BULK_LEN, LOOP_FOREVER, TestKind, WORD,
};

use super::api::{DataCheck, NodeState, TestSpec};
use super::ask::{Ask, Install};
use super::batch::Batch;
use super::distribute::Distribution;
use super::group::Group;
use super::limits::{CONCURRENCY_MAX, PAGE, TESTS_MAX};
use super::node::NodeId;
use super::session::Session;
use super::transaction::Transaction;

/// A test of a batch.
#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) spec: TestSpec,
    /// RPCs of each unit; negative for no limit.
    pub(super) loops: i32,
    /// Units of a client for each of its servers.
    pub(super) concurrency: u32,
    pub(super) distribute: (u32, u32),
    /// The group of its clients.
    pub(super) from: String,
    /// The group of its servers.
    pub(super) to: String,
}

impl Test {
    /// Returns the group of its servers or of its clients.
    pub(super) fn group(&self, servers: bool) -> &str {
        if servers { &self.to } else { &self.from }
    }
}

impl Session {
    /// Adds a test to a batch and installs it: on the servers, and then on the clients. It stays in
    /// the batch whatever the nodes answer, since some of them may have it.
    pub(super) fn add_test(&mut self, batch: &str, test: Test) -> Result<Transaction, Errno> {
        let batch = self.batch(batch)?;
        if batch.running {
            return Err(Errno::EINVAL);
        }
        let (clients, servers) = (self.group(&test.from)?, self.group(&test.to)?);
        for group in [clients, servers] {
            self.check_members(group)?;
        }
        let distribution =
            Distribution::new(clients.nodes.len(), servers.nodes.len(), test.distribute)?;
        let install = Install {
            batch: batch.id,
            kind: kind(test.spec, self.features)?,
            loops: loops(test.loops)?,
            concurrency: concurrency(test.concurrency)?,
            distribution,
            servers: self.nids(&servers.nodes),
        };
        check_room(batch)?;
        let mut parts = self.parts(&servers.nodes);
        parts.extend(self.parts(&clients.nodes));
        let barrier = servers.nodes.len();
        let transaction = self.ask(Ask::Install(install), parts).with_barrier(barrier);
        let id = batch.id;
        self.batch_mut(id).expect("found above").tests.push(test);
        Ok(transaction)
    }

    fn check_members(&self, group: &Group) -> Result<(), Errno> {
        let is_active = |id: &&NodeId| self.nodes.of_group(**id).state == NodeState::Active;
        match group.nodes.iter().filter(is_active).count() {
            0 => Err(Errno::EINVAL),
            count if count < group.nodes.len() => Err(Errno::ENETDOWN),
            _ => Ok(()),
        }
    }
}

fn check_room(batch: &Batch) -> Result<(), Errno> {
    if batch.tests.len() < TESTS_MAX { Ok(()) } else { Err(Errno::ENOSPC) }
}

fn loops(loops: i32) -> Result<u32, Errno> {
    match u32::try_from(loops) {
        Ok(0) => Err(Errno::EINVAL),
        Ok(loops) => Ok(loops),
        Err(_) => Ok(LOOP_FOREVER),
    }
}

fn concurrency(units: u32) -> Result<u32, Errno> {
    if (1..=CONCURRENCY_MAX).contains(&units) { Ok(units) } else { Err(Errno::EINVAL) }
}

/// Returns the parameters of a test for nodes.
///
/// Everything is checked here because kernel nodes do not: an invalid size or offset crashes them.
fn kind(spec: TestSpec, features: u32) -> Result<TestKind, Errno> {
    let TestSpec::Brw { write, check, size, offset } = spec else {
        return Ok(TestKind::Ping { size: 0, flags: 0 });
    };
    let is_words = |bytes: u32| bytes.is_multiple_of(WORD as u32);
    if !is_words(size) || !is_words(offset) || size == 0 || size > MTU || offset >= PAGE {
        return Err(Errno::EINVAL);
    }
    let direction = if write { Direction::WRITE } else { Direction::READ };
    let check = match check {
        DataCheck::None => Check::NONE,
        DataCheck::Simple => Check::SIMPLE,
        DataCheck::Full => Check::FULL,
    };
    if features & FEATURE_BULK_LEN != 0 {
        return Ok(TestKind::Brw { direction, flags: check.0 as u16, len: size, offset });
    }
    if !size.is_multiple_of(PAGE) || offset != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(TestKind::BrwPages { direction, pages: size / PAGE, flags: check.0 })
}
