//! The console of the node, as the commands see it, and the clock.

use std::time::{Duration, Instant};

use fulmar_control::api::{AdminError, CallError, Lst};
use fulmar_selftest::console::{Answer, Command, Keyed};
use thiserror::Error;

use crate::context::{Context, How, Which};

/// Where the commands go.
pub(super) trait Console {
    /// Has a command done, which may take half a minute.
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure>;
}

/// Why a command did not reach a console, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct CallFailure(pub(super) String);

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        Self(match error {
            CallError::Refused(AdminError { descr, hint: Some(hint), .. }) => {
                format!("{descr}\n# hint: {hint}")
            }
            error => error.to_string(),
        })
    }
}

/// The console of the node behind the control socket.
#[derive(Debug)]
pub(super) struct Remote {
    which: Which,
    /// Opened by the first command: some need none.
    context: Option<Context>,
    key: u32,
}

impl Remote {
    pub(super) fn new(which: Which, key: u32) -> Self {
        Self { which, context: None, key }
    }
}

impl Console for Remote {
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure> {
        let open = || Context::new("lst", &self.which, &How::default());
        let context = self.context.get_or_insert_with(open);
        let keyed = Keyed { key: self.key, command };
        Ok(context.client.call(&Lst { keyed })?.answer)
    }
}

/// What commands wait by.
pub(super) trait Clock {
    /// Returns the time since some moment.
    fn now(&self) -> Duration;
    /// Waits until that time.
    fn wait_until(&mut self, time: Duration);
}

/// The clock of the system.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

impl SystemClock {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait_until(&mut self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
    }
}
