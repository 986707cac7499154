//! The numbers of requests. Spec: ptlrpc-ldlm-mgs §3.1.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a request (XID): unique on its node for all times, and increasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub u64);

/// The XIDs of a node. Each is a multiple of [`XidSource::STEP`], so that the match bits of a
/// request's bulk descriptors follow it. Clones continue the same numbers: all clients of a node have
/// the same source, so that none gets the reply to another one's request.
#[derive(Clone, Debug)]
pub struct XidSource {
    last: Arc<AtomicU64>,
}

impl XidSource {
    /// The distance of two XIDs.
    pub const STEP: u64 = 128;

    /// Begins above all XIDs of an earlier life of the node, at `seconds` of wall clock since 1970.
    pub fn new(seconds: u64) -> Self {
        Self::above(seconds << 20)
    }

    /// Begins at a random number, far above those of a clock, for a node that does not know the time.
    pub fn at_random(random: u64) -> Self {
        const ABOVE_CLOCKS: u64 = 1 << 61;
        Self::above(ABOVE_CLOCKS | random & (ABOVE_CLOCKS - 1))
    }

    /// Returns an XID that is higher than all others.
    pub fn allocate(&mut self) -> Xid {
        Xid(self.last.fetch_add(Self::STEP, Ordering::Relaxed) + Self::STEP)
    }

    fn above(last: u64) -> Self {
        Self { last: Arc::new((last & !(Self::STEP - 1)).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_increase_by_128_and_a_later_life_begins_above() {
        let mut xids = XidSource::new(1_700_000_000);
        let (first, second) = (xids.allocate(), xids.allocate());
        assert_eq!(second.0 - first.0, 128);
        assert_eq!(first.0 % 128, 0);
        assert!(XidSource::new(1_700_000_001).allocate() > second);
    }

    #[test]
    fn two_clients_of_a_node_have_no_number_in_common() {
        let mut first = XidSource::new(1_700_000_000);
        let mut second = first.clone();
        let given = [first.allocate(), second.allocate(), first.allocate()];
        assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
    }
}
