//! Batches: tests that run and stop together. Spec: lnet-selftest §13.3, §13.4.

use std::collections::BTreeSet;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnet_wire::selftest::{BatchId, BatchOperation};

use super::Plan;
use super::api::{BatchInfo, NodeState, Reply, TestInfo};
use super::ask::{Ask, BatchCall};
use super::limits::{BATCHES_MAX, TRANSACTION_TIMEOUT, chosen_timeout};
use super::node::NodeId;
use super::session::{Session, parse_name};
use super::test::Test;
use super::transaction::Transaction;

/// A batch.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: BatchId,
    name: String,
    /// Set by a run that some client accepted; cleared by a stop of all, or a query without units.
    pub(super) running: bool,
    pub(super) tests: Vec<Test>,
}

impl Session {
    pub(super) fn add_batch(&mut self, name: &str, id: BatchId) -> Result<(), Errno> {
        parse_name(name)?;
        if self.batch(name).is_ok() {
            return Err(Errno::EEXIST);
        }
        if self.batches.len() >= BATCHES_MAX {
            return Err(Errno::ENOSPC);
        }
        self.batches.push(Batch { id, name: name.to_owned(), running: false, tests: Vec::new() });
        Ok(())
    }

    pub(super) fn batch_names(&self) -> Vec<String> {
        self.batches.iter().map(|batch| batch.name.clone()).collect()
    }

    pub(super) fn show_batch(&self, name: &str) -> Result<Plan, Errno> {
        let batch = self.batch(name)?;
        let tests = batch.tests.iter().map(|test| TestInfo {
            test: test.spec,
            loops: test.loops,
            concurrency: test.concurrency,
            distribute: test.distribute,
            clients: self.infos(self.nodes_of_test(test, false)),
            servers: self.infos(self.nodes_of_test(test, true)),
        });
        Ok(Plan::Reply(Reply::Batch(BatchInfo {
            running: batch.running,
            clients: self.infos(&self.nodes_of_batch(batch, false)),
            servers: self.infos(&self.nodes_of_batch(batch, true)),
            tests: tests.collect(),
        })))
    }

    /// Starts a batch on those clients that are in the session.
    pub(super) fn run(&self, name: &str, timeout: u32) -> Result<Transaction, Errno> {
        self.command_batch(name, BatchOperation::RUN, timeout)
    }

    /// Stops a batch on those clients that are in the session.
    pub(super) fn stop(&self, name: &str, force: bool) -> Result<Transaction, Errno> {
        self.command_batch(name, BatchOperation::STOP, force.into())
    }

    /// Queries the nodes of a batch, or of one of its tests from 1, for running units.
    pub(super) fn query(
        &self,
        name: &str,
        test: u32,
        servers: bool,
        timeout: u32,
    ) -> Result<Transaction, Errno> {
        let batch = self.batch(name)?;
        let nodes = match (test as usize).checked_sub(1) {
            None => self.nodes_of_batch(batch, servers),
            Some(place) => {
                let test = batch.tests.get(place).ok_or(Errno::ENOENT)?;
                self.nodes_of_test(test, servers).to_vec()
            }
        };
        let call =
            BatchCall { batch: batch.id, operation: BatchOperation::QUERY, test, argument: 0 };
        let ask = Ask::Batch { call, of_servers: servers };
        Ok(self.ask(ask, self.parts(&nodes)).within(chosen_timeout(timeout)))
    }

    /// # Errors
    /// ENOENT if there is no such batch.
    pub(super) fn batch(&self, name: &str) -> Result<&Batch, Errno> {
        self.batches.iter().find(|batch| batch.name == name).ok_or(Errno::ENOENT)
    }

    pub(super) fn batch_mut(&mut self, id: BatchId) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }

    /// Returns the clients or servers of all tests of a batch, without duplicates.
    pub(super) fn nodes_of_batch(&self, batch: &Batch, servers: bool) -> Vec<NodeId> {
        let mut groups: Vec<&str> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut nodes = Vec::new();
        for test in &batch.tests {
            let name = test.group(servers);
            if groups.contains(&name) {
                continue;
            }
            groups.push(name);
            let more = self.nodes_of_test(test, servers).iter().copied();
            nodes.extend(more.filter(|id| seen.insert(*id)));
        }
        nodes
    }

    pub(super) fn nodes_of_test(&self, test: &Test, servers: bool) -> &[NodeId] {
        let group = self.group(test.group(servers));
        &group.expect("a group exists as long as a test uses it").nodes
    }

    fn command_batch(
        &self,
        name: &str,
        operation: BatchOperation,
        argument: u32,
    ) -> Result<Transaction, Errno> {
        let batch = self.batch(name)?;
        let mut clients = self.nodes_of_batch(batch, false);
        clients.retain(|id| self.nodes.of_group(*id).state == NodeState::Active);
        let call = BatchCall { batch: batch.id, operation, test: 0, argument };
        let ask = Ask::Batch { call, of_servers: false };
        let timeout: Duration = TRANSACTION_TIMEOUT;
        Ok(self.ask(ask, self.parts(&clients)).within(timeout))
    }

    /// Updates whether the batch runs, from the answers of all nodes to a call.
    pub(super) fn conclude(&mut self, transaction: &Transaction) {
        let Ask::Batch { call, of_servers } = transaction.ask() else { return };
        let (call, of_servers) = (*call, *of_servers);
        let failures = transaction.failures();
        let Some(batch) = self.batch_mut(call.batch) else { return };
        match call.operation {
            BatchOperation::RUN if failures < transaction.len() => batch.running = true,
            BatchOperation::STOP if failures == 0 => batch.running = false,
            // Servers never run units, so they do not count.
            BatchOperation::QUERY if call.test == 0 && !of_servers && failures == 0 => {
                batch.running &= transaction.active() > 0;
            }
            _ => {}
        }
    }
}
