//! What tells the threads of a target that it stops, also when they wait for another server.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_client::{Interrupter, Session};

/// Tells a thread that it is to end.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    state: Mutex<State>,
    begun: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_begun: bool,
    session: Option<Interrupter>,
}

impl StopSignal {
    /// Tells it, and ends what it waits for.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.has_begun = true;
        if let Some(session) = state.session.take() {
            session.interrupt();
        }
        drop(state);
        self.begun.notify_all();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// Notes the session with which the thread waits for other servers from now on.
    pub(crate) fn watch(&self, session: &Session) {
        let mut state = self.state();
        let session = session.interrupter();
        if state.has_begun { session.interrupt() } else { state.session = Some(session) }
    }

    /// Waits for a time, or until the thread is to end. Returns whether to go on.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let goes_on = |state: &mut State| !state.has_begun;
        let waited = self.begun.wait_timeout_while(self.state(), time, goes_on);
        !waited.unwrap_or_else(PoisonError::into_inner).0.has_begun
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
