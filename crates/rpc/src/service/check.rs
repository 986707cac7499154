//! What must agree between any two inputs, and what is left at the end.

use super::RequestId;
use super::server::{Server, Stage};

impl Server {
    /// Checks the invariants that hold between any two inputs.
    ///
    /// # Errors
    /// A broken invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.exports.check_invariants()?;
        for (place, partition) in self.partitions.iter().enumerate() {
            let of_it = || self.requests.iter().filter(move |(_, one)| one.partition == place);
            let queued = of_it().filter(|(_, one)| matches!(one.stage, Stage::Queued(_))).count();
            let running = of_it().filter(|(_, one)| matches!(one.stage, Stage::Running { .. }));
            let name = partition.config.name;
            let counts = [
                ("queued requests", queued, partition.queue.len()),
                ("running requests", running.count(), partition.queue.running() as usize),
                ("places", of_it().count(), partition.shares.taken() as usize),
            ];
            for (what, found, counted) in counts {
                if found != counted {
                    return Err(format!("{name}: {found} {what}, {counted} are counted"));
                }
            }
            if !partition.shares.is_consistent() || !partition.queue.is_consistent() {
                return Err(format!("{name}: the shares of nodes do not add up"));
            }
            if partition.queue.iter().any(|id| self.requests.get(id.0).is_none()) {
                return Err(format!("{name}: a request in the queue is gone"));
            }
        }
        if let Some(gone) = self.difficult.exports().find(|&one| self.exports.get(one).is_none()) {
            return Err(format!("a difficult reply waits for {gone}, which is gone"));
        }
        self.check_transfers()?;
        self.reverse.check_invariants()?;
        self.check_progress()
    }

    fn check_progress(&self) -> Result<(), String> {
        for (&(export, xid), &id) in &self.in_progress {
            let pending = self.requests.get(id.0);
            let fits = pending.is_some_and(|one| {
                one.export == Some(export)
                    && one.xid == xid
                    && !matches!(one.stage, Stage::Replying)
            });
            if !fits {
                return Err(format!("{export} {xid:#x} is not in progress"));
            }
        }
        let expected = self
            .requests
            .iter()
            .filter(|(_, one)| one.export.is_some() && !matches!(one.stage, Stage::Replying));
        let expected = expected.count();
        if expected == self.in_progress.len() && self.early.len() <= self.requests.len() {
            Ok(())
        } else {
            Err(format!("{expected} in progress, {} known", self.in_progress.len()))
        }
    }

    /// Checks that no request waits, is executed or is answered.
    ///
    /// # Errors
    /// What is left.
    pub fn is_idle(&self) -> Result<(), String> {
        self.check_invariants()?;
        if !self.reverse.is_idle() {
            return Err("a call is under way".to_owned());
        }
        if !self.difficult.is_empty() {
            return Err("a difficult reply is not confirmed".to_owned());
        }
        match self.requests.iter().next() {
            None => Ok(()),
            Some((id, pending)) => Err(format!("{:?} is left: {pending:?}", RequestId(id))),
        }
    }
}
