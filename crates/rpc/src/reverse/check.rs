//! What must agree between any two inputs.

use super::{CallId, Reverse};

impl Reverse {
    /// Checks that the tables agree.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let mut counted = 0;
        for (export, client) in &self.clients {
            for (xid, id) in &client.calls {
                let active = self.calls.get(id.0);
                if active.is_none_or(|one| one.xid != *xid || one.export != *export) {
                    return Err(format!("{id:?} is not a call of {export}"));
                }
                counted += 1;
            }
        }
        if counted != self.calls.len() || self.timers.len() != 2 * counted {
            let (calls, timers) = (self.calls.len(), self.timers.len());
            return Err(format!("{calls} calls and {timers} timers, but {counted} are counted"));
        }
        let is_needed = |id: CallId| self.calls.get(id.0).is_some_and(|one| one.sent.is_some());
        let waiting = self.posted.iter().filter(|(_, one)| one.is_reply && !one.is_withdrawn);
        for (_, posted) in waiting {
            if !is_needed(posted.call) {
                return Err(format!("memory for the reply to {:?} is posted", posted.call));
            }
        }
        Ok(())
    }

    /// Returns whether there are no calls.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }
}
