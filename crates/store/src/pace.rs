//! Whether keys come from memory, or from a medium that takes its time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A read of the keys' file that took so long came from the medium: the system copies a page from its
/// cache in one or two microseconds.
const SLOW: Duration = Duration::from_micros(50);
/// After a slow read, so many questions are answered with no.
const DOUBTS: u32 = 1000;

/// How the reads of the keys' file go that the cache of the tree could not answer.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU32);

impl Pace {
    /// Takes how long a read took.
    pub(crate) fn note(&self, took: Duration) {
        if took >= SLOW {
            self.0.store(DOUBTS, Ordering::Relaxed);
        }
    }

    /// Returns whether the next reads will be quick, as far as the last ones tell.
    pub(crate) fn is_quick(&self) -> bool {
        let fewer = |doubts: u32| doubts.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_is_remembered_for_a_while() {
        let pace = Pace::default();
        pace.note(Duration::from_micros(2));
        assert!(pace.is_quick());
        pace.note(SLOW);
        pace.note(Duration::from_micros(2));
        assert_eq!((0..2000).filter(|_| pace.is_quick()).count(), 1000);
        assert!(pace.is_quick());
    }
}
