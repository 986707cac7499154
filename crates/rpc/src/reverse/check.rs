//! What must agree between any two inputs.

use super::{CallId, Reverse, UNDER_WAY_MAX};

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
            let (waiting, all) = (client.waiting.len(), client.calls.len());
            if waiting > 0 && all - waiting != UNDER_WAY_MAX {
                return Err(format!("{waiting} of {all} calls of {export} wait"));
            }
            let active = |xid| client.calls.get(xid).and_then(|id| self.calls.get(id.0));
            let is_unsent = |xid| active(xid).is_some_and(|one| one.sent.is_none());
            if let Some(xid) = client.waiting.iter().find(|xid| !is_unsent(xid)) {
                return Err(format!("{xid:?} of {export} waits, but is sent or is no call"));
            }
        }
        let waiting: usize = self.clients.values().map(|client| client.waiting.len()).sum();
        if counted != self.calls.len() || self.timers.len() != 2 * (counted - waiting) {
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
