//! Congestion control: a congestion window, and for some algorithms a pace.
//!
//! These are not packet-exact copies of a kernel's algorithms but their laws: slow start that
//! doubles in a round trip, growth and reduction of each algorithm, and BBR's estimates. Not
//! modelled: idle restart, ECN, and BBR's rounds that probe for a shorter round trip.

mod bbr;
mod cubic;
mod reno;

use std::time::Duration;

use fulmar_base::Time;

use crate::options::Control;
use bbr::Bbr;
use cubic::Cubic;
use reno::Reno;

/// The measurements of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Newly acknowledged bytes.
    pub(crate) acked: u64,
    /// The round trip.
    pub(crate) rtt: Duration,
    /// The delivery rate in this time, in bytes per second.
    pub(crate) rate: u64,
    /// Whether the window or the pace limited the sender.
    pub(crate) limited: bool,
    /// Whether it starts a new round: the burst was sent after the last round had ended.
    pub(crate) new_round: bool,
}

/// The congestion control of one stream. Window and pace are in bytes of payload.
#[derive(Debug)]
pub(crate) struct Congestion {
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Bbr),
}

/// The window with slow start, common to all algorithms.
#[derive(Debug)]
struct Window {
    /// In bytes, with fractions.
    bytes: f64,
    /// The slow start threshold, in bytes.
    threshold: f64,
    segment: f64,
    slow_start: SlowStart,
}

/// Ends slow start when round trips grow, as HyStart does: a queue builds up.
#[derive(Debug, Default)]
struct SlowStart {
    /// The shortest round trip so far.
    base: Option<Duration>,
    /// The shortest of this round.
    round: Option<Duration>,
}

impl Congestion {
    /// Returns the control of a new stream with packets of `segment` bytes and an initial window of
    /// `initial` packets.
    pub(crate) fn new(control: Control, segment: u64, initial: u32) -> Self {
        let window = Window::new(segment as f64, f64::from(initial));
        let algorithm = match control {
            Control::Reno => Algorithm::Reno(Reno::new(window)),
            Control::Cubic => Algorithm::Cubic(Cubic::new(window)),
            Control::Bbr => Algorithm::Bbr(Bbr::new(window)),
        };
        Self { algorithm }
    }

    /// Handles an acknowledgement.
    pub(crate) fn handle_ack(&mut self, now: Time, sample: Sample) {
        match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.handle_ack(sample),
            Algorithm::Cubic(cubic) => cubic.handle_ack(now, sample),
            Algorithm::Bbr(bbr) => bbr.handle_ack(now, sample),
        }
    }

    /// Handles a loss; called at most once in a round trip.
    pub(crate) fn handle_loss(&mut self) {
        match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.handle_loss(),
            Algorithm::Cubic(cubic) => cubic.handle_loss(),
            Algorithm::Bbr(_) => {}
        }
    }

    /// Handles a retransmission timeout.
    pub(crate) fn handle_timeout(&mut self) {
        match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.handle_timeout(),
            Algorithm::Cubic(cubic) => cubic.handle_timeout(),
            Algorithm::Bbr(bbr) => bbr.handle_timeout(),
        }
    }

    /// Returns the congestion window, in bytes.
    pub(crate) fn window(&self) -> u64 {
        match &self.algorithm {
            Algorithm::Reno(reno) => reno.window.bytes as u64,
            Algorithm::Cubic(cubic) => cubic.window.bytes as u64,
            Algorithm::Bbr(bbr) => bbr.window(),
        }
    }

    /// Returns the pacing rate in bytes per second, if there is one.
    pub(crate) fn pacing(&self) -> Option<u64> {
        match &self.algorithm {
            Algorithm::Reno(_) | Algorithm::Cubic(_) => None,
            Algorithm::Bbr(bbr) => bbr.pacing(),
        }
    }
}

impl Window {
    fn new(segment: f64, packets: f64) -> Self {
        Self {
            bytes: segment * packets,
            threshold: f64::INFINITY,
            segment,
            slow_start: SlowStart::default(),
        }
    }

    /// Grows by the acknowledged bytes in slow start. Returns the bytes beyond slow start.
    fn grow_slowly(&mut self, sample: &Sample) -> f64 {
        let acked = sample.acked as f64;
        if self.bytes >= self.threshold {
            return acked;
        }
        if self.slow_start.is_over(sample) {
            self.threshold = self.bytes;
            return acked;
        }
        let room = self.threshold - self.bytes;
        self.bytes += acked.min(room);
        (acked - room).max(0.0)
    }

    /// Shrinks the window to a fraction, but not below two packets.
    fn shrink(&mut self, part: f64) {
        self.bytes = (self.bytes * part).max(2.0 * self.segment);
        self.threshold = self.bytes;
    }

    /// Restarts with one packet, and slow start up to a fraction of the old window.
    fn restart(&mut self, part: f64) {
        self.threshold = (self.bytes * part).max(2.0 * self.segment);
        self.bytes = self.segment;
    }
}

impl SlowStart {
    fn is_over(&mut self, sample: &Sample) -> bool {
        let base = self.base.map_or(sample.rtt, |base| base.min(sample.rtt));
        self.base = Some(base);
        let before = if sample.new_round { None } else { self.round };
        let round = before.map_or(sample.rtt, |before| before.min(sample.rtt));
        self.round = Some(round);
        round >= base + (base / 8).clamp(LATER_MIN, LATER_MAX)
    }
}

/// Growth of a round's shortest round trip that ends slow start: an eighth within these limits.
const LATER_MIN: Duration = Duration::from_millis(4);
const LATER_MAX: Duration = Duration::from_millis(16);

#[cfg(test)]
mod tests;
