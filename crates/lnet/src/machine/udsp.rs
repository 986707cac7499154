//! Selection policies, as administrators add and remove them.

use fulmar_base::{Errno, Time};

use super::Lnet;
use crate::udsp::UdspRule;

impl Lnet {
    /// Adds a selection policy before the one at `index`, or at the end.
    ///
    /// # Errors
    /// EINVAL if the rule has none of the forms of [`UdspRule`] that have an effect, EALREADY if it
    /// is there. A rule that is there with another priority gets this one and keeps its place.
    pub fn udsp_add(
        &mut self,
        now: Time,
        index: Option<usize>,
        rule: UdspRule,
    ) -> Result<(), Errno> {
        self.udsp.add(index, rule)?;
        self.udsp_changed();
        self.settle(now);
        Ok(())
    }

    /// Removes the selection policy at `index`, or all.
    ///
    /// # Errors
    /// ENOENT if there is none at `index`.
    pub fn udsp_del(&mut self, now: Time, index: Option<usize>) -> Result<(), Errno> {
        self.udsp.del(index)?;
        self.udsp_changed();
        self.settle(now);
        Ok(())
    }

    /// Returns the selection policies, the one that wins first.
    pub fn udsp(&self) -> Vec<UdspRule> {
        self.udsp.rules().to_vec()
    }
}
