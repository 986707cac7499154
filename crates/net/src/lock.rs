//! A mutex that a panic does not poison: the owner checks the guarded state.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Replaced by `models/` together with the mutex.
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};

/// [`Mutex`] without poisoning.
///
/// A panic inside a machine is caught while its lock is held, and the node is marked as failed; the
/// other locks guard queues that are consistent between any two statements.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
