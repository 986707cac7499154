//! The books of the machine: what must agree between any two inputs, and what is left at the end.

use crate::Selftest;
use crate::machine::Question;
use crate::serve::{Client, Operation, ServiceRequest};
use crate::shares::Shares;

impl Selftest {
    /// Checks the invariants that hold between any two inputs.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.rpcs.check_invariants()?;
        self.console.check_invariants()?;
        self.instances.check_invariants()?;
        self.check_requests()?;
        let operations = || self.server.operations.iter().map(|(_, one)| &one.operation);
        let bulk = operations().filter(|operation| matches!(operation, Operation::Bulk(_))).count();
        let checks = self.questions.iter().filter(|(_, question)| question.is_transfer()).count();
        let loans = bulk + checks + self.instances.loans();
        if loans == self.memory.lent() {
            Ok(())
        } else {
            Err(format!("{} loans are out, {loans} are known", self.memory.lent()))
        }
    }

    /// Checks that nothing is left of what has ended: no RPC, session or memory, of test node and
    /// console.
    ///
    /// # Errors
    /// What is left.
    pub fn is_idle(&self) -> Result<(), String> {
        self.check_invariants()?;
        self.console.is_idle()?;
        let left = [
            ("calls", self.rpcs.len()),
            ("operations of the server", self.server.operations.len()),
            ("requests of the load", self.server.load.waiting()),
            ("requests of consoles", self.server.framework.waiting()),
            ("questions", self.questions.len()),
            ("sessions", self.sessions.len()),
            ("tests", self.instances.len()),
            ("buffers", self.memory.buffers()),
        ];
        match left.iter().find(|(_, count)| *count > 0) {
            None => Ok(()),
            Some((what, count)) => Err(format!("{count} {what} are left")),
        }
    }

    /// Compares counts that are at hand: cheap enough for each input of a debug build.
    pub(crate) fn assert_counts(&self) {
        let served = self.server.load.count() + self.server.framework.count();
        let (operations, questions) = (self.server.operations.len(), self.questions.len());
        debug_assert!(
            (operations..=operations + questions).contains(&served),
            "{served} requests are served by {operations} operations and {questions} questions"
        );
        debug_assert!(
            self.server.next_sweep.is_some() || operations == 0,
            "{operations} operations are not searched for late ones"
        );
    }

    /// Checks that each request that is served has one operation or question, and its share.
    fn check_requests(&self) -> Result<(), String> {
        self.assert_counts();
        let operations = self.server.operations.iter().map(|(_, one)| one.operation.client());
        let questions = self.questions.iter().filter_map(|(_, question)| question.client());
        let (load, framework): (Vec<&Client>, Vec<&Client>) =
            operations.chain(questions).partition(|client| client.is_load());
        check_shares("the load", &load, &self.server.load)?;
        check_shares("consoles", &framework, &self.server.framework)
    }
}

impl Question {
    fn is_transfer(&self) -> bool {
        matches!(self, Self::Transfer(_))
    }

    /// Returns the client whose request it is for, if any.
    fn client(&self) -> Option<&Client> {
        match self {
            Self::Transfer(transfer) => Some(&transfer.client),
            Self::Counters(client) | Self::Cost(client, _) => Some(client),
            Self::Unit(_) => None,
        }
    }
}

fn check_shares(
    what: &str,
    served: &[&Client],
    shares: &Shares<ServiceRequest>,
) -> Result<(), String> {
    shares.check().map_err(|error| format!("requests of {what}: {error}"))?;
    let cost: u64 = served.iter().map(|client| u64::from(client.cost)).sum();
    if (served.len(), cost) == (shares.count(), shares.held()) {
        Ok(())
    } else {
        Err(format!(
            "{} requests of {what} are served at {cost}, {} at {} are counted",
            served.len(),
            shares.count(),
            shares.held()
        ))
    }
}
