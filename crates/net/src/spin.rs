//! Whether a thread that has nothing to do looks again for a while before it sleeps.

use std::time::Duration;

/// Learns whether looking again pays.
#[derive(Debug)]
pub(crate) struct Spin {
    /// The thread has handled small messages since it last looked.
    small: bool,
    /// Rises when looking again finds something, and falls when it does not.
    score: u32,
    /// How often the thread has slept at once since it last tried.
    skipped: u32,
}

impl Default for Spin {
    fn default() -> Self {
        Self { small: false, score: SCORE_MAX / 2, skipped: 0 }
    }
}

impl Spin {
    /// Takes note that a connection was read, which carries small messages or does not.
    pub(crate) fn note(&mut self, small: bool) {
        self.small |= small;
    }

    /// Returns for how long to look again; `None` to sleep at once.
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

    /// Takes note whether looking again has found something.
    pub(crate) fn end(&mut self, found: bool) {
        self.score =
            if found { (self.score + 1).min(SCORE_MAX) } else { self.score.saturating_sub(1) };
    }
}

/// A round trip over a local network, or two wake-ups of a thread.
const LIMIT: Duration = Duration::from_micros(40);
/// So many looks in vain, and the thread sleeps at once,
const SCORE_MAX: u32 = 16;
/// but tries again every so often.
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
    fn looks_in_vain_become_rare_and_pay_again_when_something_is_found() {
        let mut spin = Spin::default();
        let looks = |spin: &mut Spin, found: bool, rounds: u32| {
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
        assert_eq!(looks(&mut spin, false, 8), 8);
        assert_eq!(looks(&mut spin, false, 640), 10);
        assert!(looks(&mut spin, true, 80) > 16);
        assert_eq!(looks(&mut spin, true, 100), 100);
    }
}
