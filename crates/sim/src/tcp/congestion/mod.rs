//! Congestion control: a congestion window, and for some algorithms a pace.
//!
//! These are not packet-exact copies of a kernel's algorithms but their laws: slow start that
//! doubles in a round trip, growth and reduction of each algorithm, and BBR's estimates. Not
//! modelled: ECN, and BBR's rounds that probe for a shorter round trip.

mod bbr;
mod cubic;
mod hystart;
mod reno;

use std::time::Duration;

use fulmar_base::Time;

use crate::options::{Control, Tcp};
use bbr::Bbr;
use cubic::Cubic;
use hystart::SlowStart;
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
    /// The time between the arrivals of the first and the last of the acknowledged bytes.
    pub(crate) spread: Duration,
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
    /// The initial window, in bytes.
    initial: f64,
    slow_start: SlowStart,
}

impl Congestion {
    /// Returns the control of a new stream.
    pub(crate) fn new(tcp: &Tcp) -> Self {
        let window = Window::new(tcp);
        let algorithm = match tcp.congestion {
            Control::Reno => Algorithm::Reno(Reno::new(window)),
            Control::Cubic => Algorithm::Cubic(Cubic::new(window)),
            Control::Bbr => Algorithm::Bbr(Bbr::new(window)),
        };
        Self { algorithm }
    }

    /// Handles an acknowledgement.
    pub(crate) fn handle_ack(&mut self, now: Time, sample: Sample) {
        match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.handle_ack(now, sample),
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

    /// Handles the end of an idle time, in which so many retransmission timeouts have passed. BBR
    /// keeps its estimates.
    pub(crate) fn handle_idle(&mut self, idle: Duration, timeouts: u32) {
        match &mut self.algorithm {
            Algorithm::Reno(reno) => reno.window.shrink_idle(timeouts),
            Algorithm::Cubic(cubic) => cubic.handle_idle(idle, timeouts),
            Algorithm::Bbr(_) => {}
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
    fn new(tcp: &Tcp) -> Self {
        let segment = tcp.segment() as f64;
        let initial = segment * f64::from(tcp.initial_window);
        Self {
            bytes: initial,
            threshold: f64::INFINITY,
            segment,
            initial,
            slow_start: SlowStart::new(tcp.hystart),
        }
    }

    /// Grows by the acknowledged bytes in slow start. Returns the bytes beyond slow start.
    fn grow_slowly(&mut self, now: Time, sample: &Sample) -> f64 {
        let acked = sample.acked as f64;
        if self.bytes >= self.threshold {
            return acked;
        }
        let is_over = self.slow_start.is_over(now, sample);
        if is_over && self.bytes >= SMALL_WINDOW * self.segment {
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

    /// Halves the window for each retransmission timeout without data (RFC 2861), down to the initial
    /// one; slow start leads back to three quarters of it.
    fn shrink_idle(&mut self, timeouts: u32) {
        let least = self.initial.min(self.bytes);
        self.threshold = self.threshold.max(self.bytes * 0.75);
        self.bytes = (self.bytes / 2_f64.powi(timeouts.min(60) as i32)).max(least);
    }

    /// Restarts with one packet, and slow start up to a fraction of the old window.
    fn restart(&mut self, part: f64) {
        self.threshold = (self.bytes * part).max(2.0 * self.segment);
        self.bytes = self.segment;
    }
}

/// In slow start a smaller window grows in any case, in packets.
const SMALL_WINDOW: f64 = 16.0;

#[cfg(test)]
mod tests;
