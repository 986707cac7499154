//! The round-trip estimator and the retransmission timeout (RFC 6298).

use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    pub(super) smooth: Option<Duration>,
    variation: Duration,
}

impl RoundTrip {
    pub(super) fn observe(&mut self, rtt: Duration) {
        match &mut self.smooth {
            None => (self.smooth, self.variation) = (Some(rtt), rtt / 2),
            Some(smooth) => {
                self.variation = (self.variation * 3 + rtt.abs_diff(*smooth)) / 4;
                *smooth = (*smooth * 7 + rtt) / 8;
            }
        }
    }

    /// Returns the retransmission timeout after `timeouts` consecutive ones.
    pub(super) fn timeout(&self, timeouts: u32) -> Duration {
        let first = match self.smooth {
            Some(smooth) => smooth + (self.variation * 4).max(TIMEOUT_MIN),
            None => TIMEOUT_FIRST,
        };
        (first * 2_u32.saturating_pow(timeouts.min(8))).min(TIMEOUT_MAX.max(first))
    }
}

/// The least difference between the timeout and the round trip, as in Linux.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// The timeout before the first measurement of a round trip.
const TIMEOUT_FIRST: Duration = Duration::from_secs(1);
/// The maximum that Fulmar sets on its sockets.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);
