//! A fault planted in the driver, to see that the checkers find it.

use fulmar_base::Rng;

use crate::options::Canary;

/// A fault that strikes once, at a chance of its kind that the seed chose.
#[derive(Debug)]
pub(super) struct Planted {
    kind: Canary,
    chances_left: u64,
}

impl Planted {
    pub(super) fn new(kind: Canary, rng: &mut Rng) -> Self {
        Self { kind, chances_left: rng.between(1, 8) }
    }

    /// Takes a chance to strike, and returns whether it does.
    pub(super) fn strikes(planted: &mut Option<Self>, kind: Canary) -> bool {
        let Some(fault) = planted.as_mut().filter(|fault| fault.kind == kind) else { return false };
        fault.chances_left = fault.chances_left.saturating_sub(1);
        let strikes = fault.chances_left == 0;
        if strikes {
            *planted = None;
        }
        strikes
    }
}
