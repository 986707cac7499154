//! BBR (version 1): paced at the highest delivery rate of the last ten rounds, with a window of two
//! bandwidth-delay products. Queues stay short, and single losses are ignored.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_base::Time;

use super::{Sample, Window};

#[derive(Debug)]
pub(super) struct Bbr {
    window: Window,
    phase: Phase,
    /// The highest delivery rate of each of the last rounds, in bytes per second.
    rates: VecDeque<u64>,
    /// The shortest round trip, and when it was measured.
    shortest: Option<(Duration, Time)>,
    /// After a timeout: one packet at a time until an acknowledgement arrives.
    silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The pace doubles until the delivery rate stops growing.
    Startup { best: u64, rounds: u32 },
    /// The queue from startup drains.
    Drain { rounds: u32 },
    /// The pace alternates above and below the delivery rate.
    Probe { step: usize },
}

impl Bbr {
    pub(super) fn new(window: Window) -> Self {
        let phase = Phase::Startup { best: 0, rounds: 0 };
        Self { window, phase, rates: VecDeque::new(), shortest: None, silent: false }
    }

    pub(super) fn handle_ack(&mut self, now: Time, sample: Sample) {
        self.silent = false;
        let old = |(_, seen): &(Duration, Time)| now.since(*seen) > KEPT;
        if self.shortest.is_none_or(|kept| sample.rtt <= kept.0 || old(&kept)) {
            self.shortest = Some((sample.rtt, now));
        }
        // A sender without enough data underestimates the rate of the network.
        let known = self.rate();
        if sample.new_round || self.rates.is_empty() {
            self.rates.push_back(0);
            if self.rates.len() > ROUNDS {
                self.rates.pop_front();
            }
        }
        if sample.limited || sample.rate >= known {
            if let Some(last) = self.rates.back_mut() {
                *last = (*last).max(sample.rate);
            }
        } else if let Some(last) = self.rates.back_mut() {
            // Keep the known rate.
            *last = (*last).max(known);
        }
        if let Phase::Startup { .. } = self.phase {
            self.window.bytes += sample.acked as f64;
        }
        if sample.new_round {
            self.next_phase(sample.limited);
        }
    }

    fn next_phase(&mut self, limited: bool) {
        let rate = self.rate();
        self.phase = match self.phase {
            Phase::Startup { best, .. } if rate as f64 >= best as f64 * GROWTH => {
                Phase::Startup { best: rate, rounds: 0 }
            }
            // A sender without enough data cannot detect that the path is full.
            Phase::Startup { best, rounds } if !limited => Phase::Startup { best, rounds },
            Phase::Startup { rounds: 2.., .. } => Phase::Drain { rounds: 0 },
            Phase::Startup { best, rounds } => Phase::Startup { best, rounds: rounds + 1 },
            Phase::Drain { rounds: 0 } => Phase::Drain { rounds: 1 },
            Phase::Drain { .. } => Phase::Probe { step: 2 },
            Phase::Probe { step } => Phase::Probe { step: (step + 1) % GAINS.len() },
        };
    }

    pub(super) fn handle_timeout(&mut self) {
        self.silent = true;
    }

    pub(super) fn window(&self) -> u64 {
        let segment = self.window.segment;
        if self.silent {
            return segment as u64;
        }
        let product = self.product();
        match self.phase {
            Phase::Startup { .. } => {
                self.window.bytes.min((STARTUP_GAIN * product).max(self.first()))
            }
            Phase::Drain { .. } | Phase::Probe { .. } => (2.0 * product).max(4.0 * segment),
        }
        .max(segment) as u64
    }

    /// Returns the least window of startup; before the first rate sample the window itself.
    fn first(&self) -> f64 {
        if self.rate() == 0 { self.window.bytes } else { 10.0 * self.window.segment }
    }

    /// Returns the bandwidth-delay product.
    fn product(&self) -> f64 {
        let shortest = self.shortest.map_or(0.0, |(shortest, _)| shortest.as_secs_f64());
        self.rate() as f64 * shortest
    }

    pub(super) fn pacing(&self) -> Option<u64> {
        let rate = self.rate();
        let gain = match self.phase {
            Phase::Startup { .. } => STARTUP_GAIN,
            Phase::Drain { .. } => 1.0 / STARTUP_GAIN,
            Phase::Probe { step } => GAINS[step],
        };
        (rate > 0).then_some(((rate as f64 * gain) as u64).max(1))
    }

    fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }
}

/// The startup gain: the least that doubles the delivery rate in each round.
const STARTUP_GAIN: f64 = 2.885;
/// If the delivery rate grows less than this in three rounds, the path is full.
const GROWTH: f64 = 1.25;
/// Pacing gains by round: one to probe for more, one to drain, and six at the rate.
const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of rounds for which a rate is kept.
const ROUNDS: usize = 10;
/// Time for which a round trip is kept.
const KEPT: Duration = Duration::from_secs(10);
