//! Messages for a thread that sleeps when there are none.
//!
//! How the thread is woken is its own business; here stands who has to wake it, and that none who
//! should forgets to. `models/` tries every order in which threads may come by.

use crate::lock::{AtomicBool, Lock, Ordering};

/// The messages for one thread.
pub(crate) struct Messages<M> {
    messages: Lock<Vec<M>>,
    /// The thread waits to be woken, or is about to, and has seen all messages.
    asleep: AtomicBool,
}

impl<M> Messages<M> {
    pub(crate) fn new() -> Self {
        Self { messages: Lock::default(), asleep: AtomicBool::new(false) }
    }

    /// Leaves a message, and returns whether the caller has to wake the thread.
    #[must_use]
    pub(crate) fn post(&self, message: M) -> bool {
        self.messages.lock().push(message);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    /// Takes all messages.
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

    /// Has the thread woken from now on, and returns whether it may sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may_sleep = !self.has_messages();
        if !may_sleep {
            self.wake_up();
        }
        may_sleep
    }

    /// Says that the thread is awake.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
