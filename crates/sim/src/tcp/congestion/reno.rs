//! Reno: one packet more in each round trip, half the window after a loss.

use fulmar_base::Time;

use super::{Sample, Window};

#[derive(Debug)]
pub(super) struct Reno {
    pub(super) window: Window,
}

impl Reno {
    pub(super) fn new(window: Window) -> Self {
        Self { window }
    }

    pub(super) fn handle_ack(&mut self, now: Time, sample: Sample) {
        if !sample.limited {
            return;
        }
        let acked = self.window.grow_slowly(now, &sample);
        self.window.bytes += acked * self.window.segment / self.window.bytes;
    }

    pub(super) fn handle_loss(&mut self) {
        self.window.shrink(PART);
    }

    pub(super) fn handle_timeout(&mut self) {
        self.window.restart(PART);
    }
}

/// The fraction of the window that remains after a loss.
const PART: f64 = 0.5;
