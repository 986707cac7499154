//! Interface of the commands to the console of the node, and the clock.

use std::time::{Duration, Instant};

use fulmar_control::api::{AdminError, CallError, Client, Lst};
use fulmar_selftest::console::{Answer, Command, KeyedCommand};
use thiserror::Error;

use crate::Connect;

/// The console that executes commands.
pub(super) trait Console {
    /// Executes a command, which may take half a minute.
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure>;
}

/// Why a command did not reach a console, with a remedy.
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
pub(super) struct Remote<'a> {
    connect: &'a Connect<'a>,
    /// Connected by the first command: some commands need none.
    client: Option<Client>,
    key: u32,
}

impl<'a> Remote<'a> {
    pub(super) fn new(connect: &'a Connect<'a>, key: u32) -> Self {
        Self { connect, client: None, key }
    }
}

impl Console for Remote<'_> {
    fn ask(&mut self, command: Command) -> Result<Answer, CallFailure> {
        let client = self.client.get_or_insert_with(self.connect);
        let keyed = KeyedCommand { key: self.key, command };
        Ok(client.call(&Lst { keyed })?.answer)
    }
}

/// The clock that commands use to wait.
pub(super) trait Clock {
    /// Returns the time since an arbitrary start.
    fn now(&self) -> Duration;
    /// Waits until `time`.
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
