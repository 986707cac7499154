//! Whether what is read comes from memory, or from a medium that takes its time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A short read of a file that took so long came from the medium: the system copies a page from its
/// cache in one or two microseconds. Or the thread has lost its core meanwhile, which one read in hundreds does.
const SLOW: Duration = Duration::from_micros(50);
/// After a slow read, so many questions are answered with no: few if all before were quick, and more each time if others
/// are slow too.
const DOUBTS_MIN: u32 = 8;
const DOUBTS_MAX: u32 = 1000;
/// By how much they grow.
const GROWTH: u32 = 4;

/// How the reads of a file go.
#[derive(Debug)]
pub(crate) struct Pace {
    doubts: AtomicU32,
    /// How many there are after the next slow read.
    next: AtomicU32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { doubts: AtomicU32::new(0), next: AtomicU32::new(DOUBTS_MIN) }
    }
}

impl Pace {
    /// Records how long a read took.
    pub(crate) fn note(&self, took: Duration) {
        // Reads at the same time may count as one.
        let next = self.next.load(Ordering::Relaxed);
        if took < SLOW {
            if next > DOUBTS_MIN {
                self.next.store(next - 1, Ordering::Relaxed);
            }
            return;
        }
        self.doubts.store(next, Ordering::Relaxed);
        self.next.store(next.saturating_mul(GROWTH).min(DOUBTS_MAX), Ordering::Relaxed);
    }

    /// Returns whether the next reads will be quick, as far as the last ones tell.
    pub(crate) fn is_quick(&self) -> bool {
        let fewer = |doubts: u32| doubts.checked_sub(1);
        self.doubts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(2);

    /// Returns how many of so many questions are answered with no.
    fn doubts(pace: &Pace, questions: usize) -> usize {
        (0..questions).filter(|_| !pace.is_quick()).count()
    }

    #[test]
    fn slow_reads_one_after_the_other_are_remembered_for_long() {
        let pace = Pace::default();
        assert_eq!(doubts(&pace, 10), 0);
        for _ in 0..10 {
            pace.note(SLOW);
        }
        assert_eq!(doubts(&pace, 2000), 1000);
        pace.note(SLOW);
        assert_eq!(doubts(&pace, 2000), 1000);
    }

    #[test]
    fn a_slow_read_among_quick_ones_is_forgotten_soon() {
        let pace = Pace::default();
        for _ in 0..100 {
            (0..200).for_each(|_| pace.note(QUICK));
            pace.note(SLOW);
            pace.note(QUICK);
            assert_eq!(doubts(&pace, 2000), 8);
        }
        (0..10).for_each(|_| pace.note(SLOW));
        (0..1000).for_each(|_| pace.note(QUICK));
        pace.note(SLOW);
        assert_eq!(doubts(&pace, 2000), 8, "a medium that was slow for a time is not for ever");
    }
}
