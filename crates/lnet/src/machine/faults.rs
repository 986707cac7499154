//! Fault rules, as administrators add and remove them.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::NidMatch;

use super::Lnet;
use crate::fault::{FaultKind, FaultRule};
use crate::views;

impl Lnet {
    /// Adds a rule that is tried before the existing ones.
    ///
    /// # Errors
    /// EINVAL if the rule contradicts itself: see the fields of [`FaultRule`].
    pub fn fault_add(&mut self, now: Time, rule: FaultRule) -> Result<(), Errno> {
        self.faults.add(now, rule)
    }

    /// Removes the rules of a kind that were added with this source and this target, and returns
    /// their number. [`NidMatch::Any`] matches every rule. Delayed messages continue at once.
    pub fn fault_del(
        &mut self,
        now: Time,
        kind: FaultKind,
        source: NidMatch,
        target: NidMatch,
    ) -> usize {
        let (count, released) = self.faults.del(kind, source, target);
        if !released.is_empty() {
            self.faults_released(now, &released);
        }
        count
    }

    /// Restarts the rules of a kind: sets their counters to 0 and draws new positions.
    pub fn fault_reset(&mut self, now: Time, kind: FaultKind) {
        self.faults.reset(now, kind);
    }

    /// Returns the rules in the order in which they are tried: those that drop, then those that
    /// delay.
    pub fn faults(&self) -> Vec<views::Fault> {
        self.faults.views()
    }

    /// Makes messages to and from a NID fail this number of times; `None` without limit, 0 ends
    /// its failures.
    pub fn fail_nid(&mut self, nid: NidMatch, times: Option<u32>) {
        self.faults.fail_nid(nid, times);
    }
}
