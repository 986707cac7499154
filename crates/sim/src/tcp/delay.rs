//! Delayed acknowledgements: one for more than a packet, or after a while.

use std::time::Duration;

/// Decides when to acknowledge.
#[derive(Debug)]
pub(crate) struct AckDelay {
    enabled: bool,
    segment: u64,
    /// Bytes that are not acknowledged yet.
    waiting: u64,
    /// Packets that are still acknowledged at once, while the sender is in slow start.
    quick: u32,
}

impl AckDelay {
    pub(crate) fn new(enabled: bool, segment: u64) -> Self {
        Self { enabled, segment, waiting: 0, quick: QUICK }
    }

    /// Returns whether `len` bytes that arrive are acknowledged at once. Bytes beyond a gap are.
    pub(crate) fn is_due(&mut self, len: u64, gap: bool) -> bool {
        self.waiting += len;
        let quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(len.div_ceil(self.segment) as u32);
        let due = !self.enabled || gap || quick || self.waiting > self.segment;
        if due {
            self.waiting = 0;
        }
        due
    }

    /// Notes that everything is acknowledged, with data of the other direction or by the timer.
    pub(crate) fn acknowledged(&mut self) {
        self.waiting = 0;
    }
}

/// Packets of a new connection that are acknowledged at once.
const QUICK: u32 = 16;
/// The longest delay of an acknowledgement.
pub(crate) const LONGEST: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_packet_and_all_beyond_a_gap_are_acknowledged_at_once() {
        let mut delay = AckDelay::new(true, 1_000);
        assert!((0..16).all(|_| delay.is_due(1_000, false)), "a new connection");
        assert!(!delay.is_due(1_000, false));
        assert!(delay.is_due(1_000, false));
        assert!(!delay.is_due(100, false));
        assert!(delay.is_due(100, true));
        assert!(delay.is_due(64_000, false), "a burst");
        assert!(!delay.is_due(900, false));
        delay.acknowledged();
        assert!(!delay.is_due(900, false));
    }

    #[test]
    fn without_delays_everything_is_acknowledged_at_once() {
        let mut never = AckDelay::new(false, 1_000);
        assert!((0..40).all(|_| never.is_due(1, false)));
    }
}
