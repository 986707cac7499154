//! The numbers of requests. Spec: ptlrpc-ldlm-mgs §3.1.

/// The number of a request (XID): unique on its node for all times, and increasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub u64);

/// The XIDs of a node. Each is a multiple of [`XidSource::STEP`], so that the match bits of a
/// request's bulk descriptors follow it.
#[derive(Clone, Debug)]
pub struct XidSource {
    next: u64,
}

impl XidSource {
    /// The distance of two XIDs.
    pub const STEP: u64 = 128;

    /// Begins above all XIDs of an earlier life of the node, at `seconds` of wall clock since 1970.
    pub fn new(seconds: u64) -> Self {
        Self { next: (seconds << 20) & !(Self::STEP - 1) }
    }

    /// Begins at a random number, far above those of a clock, for a node that does not know the time.
    pub fn at_random(random: u64) -> Self {
        const ABOVE_CLOCKS: u64 = 1 << 61;
        Self { next: (ABOVE_CLOCKS | random & (ABOVE_CLOCKS - 1)) & !(Self::STEP - 1) }
    }

    /// Returns an XID that is higher than all others.
    pub fn allocate(&mut self) -> Xid {
        self.next += Self::STEP;
        Xid(self.next)
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
}
