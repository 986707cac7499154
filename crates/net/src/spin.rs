//! Whether a thread that has nothing to do polls for a while before it sleeps.

use std::time::Duration;

/// Estimates whether polling is worthwhile.
#[derive(Debug)]
pub(crate) struct Spin {
    /// The thread has handled small messages since it last polled.
    small: bool,
    /// Rises when polling finds something, and falls when it does not.
    score: u32,
    /// How often the thread has slept without polling since it last polled.
    skipped: u32,
}

impl Default for Spin {
    fn default() -> Self {
        Self { small: false, score: SCORE_MAX / 2, skipped: 0 }
    }
}

impl Spin {
    /// Records whether the read connection carries small messages.
    pub(crate) fn note(&mut self, small: bool) {
        self.small |= small;
    }

    /// Returns how long to poll; `None` to sleep at once.
    pub(crate) fn begin(&mut self) -> Option<Duration> {
        if !std::mem::take(&mut self.small) {
            return None;
        }
        if self.score == 0 {
            self.skipped += 1;
            if self.skipped < SKIPPED_MAX {
                return None;
            }
        }
        self.skipped = 0;
        Some(LIMIT)
    }

    /// Records whether polling has found something.
    pub(crate) fn end(&mut self, found: bool) {
        self.score =
            if found { (self.score + 1).min(SCORE_MAX) } else { self.score.saturating_sub(1) };
    }
}

/// A round trip over a local network to a program that asks again: a few wake-ups of threads. A thread that polls shorter than
/// that finds nothing, and pays for sleeping too.
const LIMIT: Duration = Duration::from_micros(100);
/// After this number of polls without a result the thread sleeps at once.
const SCORE_MAX: u32 = 16;
/// Once per this number of sleeps it polls nevertheless.
const SKIPPED_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_at_rest_or_with_bulk_sleeps_at_once() {
        let mut spin = Spin::default();
        assert_eq!(spin.begin(), None);
        spin.note(false);
        assert_eq!(spin.begin(), None);
        spin.note(true);
        spin.note(false);
        assert_eq!(spin.begin(), Some(LIMIT));
        spin.end(true);
        assert_eq!(spin.begin(), None, "nothing has come since");
    }

    #[test]
    fn polls_without_a_result_become_rare_until_one_has_a_result() {
        let mut spin = Spin::default();
        let polls = |spin: &mut Spin, found: bool, rounds: u32| {
            let mut count = 0;
            for _ in 0..rounds {
                spin.note(true);
                if spin.begin().is_some() {
                    spin.end(found);
                    count += 1;
                }
            }
            count
        };
        assert_eq!(polls(&mut spin, false, 8), 8);
        assert_eq!(polls(&mut spin, false, 640), 10);
        assert!(polls(&mut spin, true, 80) > 16);
        assert_eq!(polls(&mut spin, true, 100), 100);
    }
}
