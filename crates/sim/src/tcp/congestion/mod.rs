//! How much of a stream may be under way: a congestion window, and for some controls a pace.
//!
//! Not the packet-exact machines of a kernel but their laws: slow start that doubles in a round
//! trip, the growth and the cut of each control, and how BBR follows what it measures. Left out
//! are idle restart, ECN, and the rounds in which BBR looks for a shorter round trip.

mod bbr;
mod cubic;
mod reno;

use std::time::Duration;

use fulmar_base::Time;

use crate::options::Control;
use bbr::Bbr;
use cubic::Cubic;
use reno::Reno;

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Bytes that it says have arrived.
    pub(crate) acked: u64,
    /// How long their burst and its acknowledgement were under way.
    pub(crate) rtt: Duration,
    /// Bytes per second that arrived in this time.
    pub(crate) rate: u64,
    /// Whether the congestion window, and nothing else, held the sender back.
    pub(crate) limited: bool,
    /// Whether it is the first of a round: the burst was sent after the last round had ended.
    pub(crate) new_round: bool,
}

/// The congestion control of one stream. Its window and its pace are in bytes of payload.
#[derive(Debug)]
pub(crate) struct Congestion {
    law: Law,
}

#[derive(Debug)]
enum Law {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Bbr),
}

/// What all laws have: slow start, and the length of a packet.
#[derive(Debug)]
struct Window {
    /// In bytes; fractions of bytes add up.
    bytes: f64,
    /// Where slow start ends.
    threshold: f64,
    segment: f64,
    slow_start: SlowStart,
}

/// Ends slow start when round trips grow: packets have begun to wait (as HyStart).
#[derive(Debug, Default)]
struct SlowStart {
    /// The shortest round trip ever.
    base: Option<Duration>,
    /// The shortest of this round.
    round: Option<Duration>,
}

impl Congestion {
    /// Returns the control of a new stream with packets of `segment` bytes, of which `initial`
    /// may be sent at once.
    pub(crate) fn new(control: Control, segment: u64, initial: u32) -> Self {
        let window = Window::new(segment as f64, f64::from(initial));
        let law = match control {
            Control::Reno => Law::Reno(Reno::new(window)),
            Control::Cubic => Law::Cubic(Cubic::new(window)),
            Control::Bbr => Law::Bbr(Bbr::new(window)),
        };
        Self { law }
    }

    /// Takes word of what has arrived.
    pub(crate) fn handle_ack(&mut self, now: Time, sample: Sample) {
        match &mut self.law {
            Law::Reno(reno) => reno.handle_ack(sample),
            Law::Cubic(cubic) => cubic.handle_ack(now, sample),
            Law::Bbr(bbr) => bbr.handle_ack(now, sample),
        }
    }

    /// Takes word that something was lost: at most once in a round trip.
    pub(crate) fn handle_loss(&mut self) {
        match &mut self.law {
            Law::Reno(reno) => reno.handle_loss(),
            Law::Cubic(cubic) => cubic.handle_loss(),
            Law::Bbr(_) => {}
        }
    }

    /// Takes word that nothing was heard for so long that all is taken for lost.
    pub(crate) fn handle_timeout(&mut self) {
        match &mut self.law {
            Law::Reno(reno) => reno.handle_timeout(),
            Law::Cubic(cubic) => cubic.handle_timeout(),
            Law::Bbr(bbr) => bbr.handle_timeout(),
        }
    }

    /// Returns how many bytes may be under way.
    pub(crate) fn window(&self) -> u64 {
        match &self.law {
            Law::Reno(reno) => reno.window.bytes as u64,
            Law::Cubic(cubic) => cubic.window.bytes as u64,
            Law::Bbr(bbr) => bbr.window(),
        }
    }

    /// Returns the bytes per second at which they are sent, unless they may go at once.
    pub(crate) fn pacing(&self) -> Option<u64> {
        match &self.law {
            Law::Reno(_) | Law::Cubic(_) => None,
            Law::Bbr(bbr) => bbr.pacing(),
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

    /// Grows by what has arrived, if this is slow start. Returns what is left of it otherwise.
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

    /// Shrinks to a part of itself, but not below two packets.
    fn shrink(&mut self, part: f64) {
        self.bytes = (self.bytes * part).max(2.0 * self.segment);
        self.threshold = self.bytes;
    }

    /// Begins again with one packet, and with slow start up to a part of what was.
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

/// By how much the shortest round trip of a round must grow to mean that packets wait.
const LATER_MIN: Duration = Duration::from_millis(4);
const LATER_MAX: Duration = Duration::from_millis(16);

#[cfg(test)]
mod tests;
