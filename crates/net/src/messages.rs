//! Messages for a thread that sleeps when there are none.
//!
//! This module decides which thread must wake it, and ensures that one does; the wake-up itself is
//! done by the caller. `models/` tests every interleaving of the threads.

use crate::lock::{AtomicBool, Lock, Ordering};

/// The messages for one thread.
pub(crate) struct Messages<M> {
    messages: Lock<Vec<M>>,
    /// The thread sleeps, or is about to, and has taken all messages.
    asleep: AtomicBool,
}

impl<M> Messages<M> {
    pub(crate) fn new() -> Self {
        Self { messages: Lock::default(), asleep: AtomicBool::new(false) }
    }

    /// Adds a message, and returns whether the caller must wake the thread.
    #[must_use]
    pub(crate) fn post(&self, message: M) -> bool {
        self.messages.lock().push(message);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    /// Drains all messages.
    pub(crate) fn take(&self) -> Vec<M> {
        std::mem::take(&mut *self.messages.lock())
    }

    /// Returns whether there are messages.
    pub(crate) fn has_messages(&self) -> bool {
        !self.messages.lock().is_empty()
    }

    /// Returns whether the thread sleeps, which may change at any time.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Marks the thread as asleep, and returns whether it may sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may_sleep = !self.has_messages();
        if !may_sleep {
            self.wake_up();
        }
        may_sleep
    }

    /// Marks the thread as awake.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
