//! A deliberate defect in the driver, to test that the checkers find it.

use fulmar_base::Rng;

use crate::options::Defect;

/// A defect that triggers once, at an opportunity that the seed selects.
#[derive(Debug)]
pub(super) struct ArmedDefect {
    kind: Defect,
    opportunities_left: u64,
}

impl ArmedDefect {
    pub(super) fn new(kind: Defect, rng: &mut Rng) -> Self {
        Self { kind, opportunities_left: rng.between(1, 8) }
    }

    /// Counts an opportunity, and returns whether the defect triggers.
    pub(super) fn triggers(armed: &mut Option<Self>, kind: Defect) -> bool {
        let Some(fault) = armed.as_mut().filter(|fault| fault.kind == kind) else { return false };
        fault.opportunities_left = fault.opportunities_left.saturating_sub(1);
        let triggers = fault.opportunities_left == 0;
        if triggers {
            *armed = None;
        }
        triggers
    }
}
