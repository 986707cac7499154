//! CUBIC (RFC 9438): the window is a cubic function of the time since the last loss, flat near the
//! window of that loss, and never less than Reno's.

use std::time::Duration;

use fulmar_base::Time;

use super::{Sample, Window};

#[derive(Debug)]
pub(super) struct Cubic {
    pub(super) window: Window,
    /// The window at the last loss, in packets; reduced by fast convergence.
    largest: f64,
    epoch: Option<Epoch>,
}

/// Growth since a loss or the end of slow start.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Seconds from the start until the window reaches the plateau.
    plateau: f64,
    /// The window of the plateau, in packets.
    origin: f64,
    /// Reno's window at this time, in packets.
    reno: f64,
}

impl Cubic {
    pub(super) fn new(window: Window) -> Self {
        Self { window, largest: 0.0, epoch: None }
    }

    pub(super) fn handle_ack(&mut self, now: Time, sample: Sample) {
        if !sample.limited {
            return;
        }
        let acked = self.window.grow_slowly(now, &sample) / self.window.segment;
        if acked <= 0.0 {
            return;
        }
        let packets = self.window.bytes / self.window.segment;
        let largest = self.largest;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(now, packets, largest));
        let target = epoch.target(now + sample.rtt).clamp(packets, packets * 1.5);
        epoch.reno += RENO_GROWTH * acked / packets;
        let grown = packets + acked * (target - packets) / packets;
        self.window.bytes = grown.max(epoch.reno) * self.window.segment;
    }

    pub(super) fn handle_loss(&mut self) {
        self.remember();
        self.window.shrink(PART);
    }

    /// The window does not grow in an idle time.
    pub(super) fn handle_idle(&mut self, idle: Duration, timeouts: u32) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + idle;
        }
        self.window.shrink_idle(timeouts);
    }

    pub(super) fn handle_timeout(&mut self) {
        self.remember();
        self.window.restart(PART);
    }

    /// Remembers the window of a loss. If it is smaller than at the last loss, it is reduced
    /// further to make room for other flows (fast convergence).
    fn remember(&mut self) {
        let packets = self.window.bytes / self.window.segment;
        self.largest = if packets < self.largest { packets * (1.0 + PART) / 2.0 } else { packets };
        self.epoch = None;
    }
}

impl Epoch {
    fn new(start: Time, packets: f64, largest: f64) -> Self {
        let origin = largest.max(packets);
        Self { start, plateau: cube_root((origin - packets) / SCALE), origin, reno: packets }
    }

    /// Returns the window at a time, in packets.
    fn target(&self, at: Time) -> f64 {
        let since: Duration = at.since(self.start);
        let t = since.as_secs_f64() - self.plateau;
        self.origin + SCALE * t * t * t
    }
}

/// Newton's method with basic arithmetic only, so that the result is the same on every machine.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    for _ in 0..200 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if (next - root).abs() <= root * 1e-15 {
            return next;
        }
        root = next;
    }
    root
}

/// The fraction of the window that remains after a loss.
const PART: f64 = 0.7;
/// Packets per cubic second.
const SCALE: f64 = 0.4;
/// Packets per round trip that give Reno's mean window with this reduction.
const RENO_GROWTH: f64 = 3.0 * (1.0 - PART) / (1.0 + PART);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_root_is_accurate() {
        for x in [1e-6, 0.3, 1.0, 7.5, 1e9] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-12, "{x}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }
}
