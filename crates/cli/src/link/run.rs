//! While a link works.

use std::process::{Command, ExitCode};
use std::time::Duration;

use fulmar_link::{Link, LinkError};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::show::Show;
use crate::context::complain;

/// The signals that end a link.
pub(super) struct Signals {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Nothing,
    /// From the keyboard: to whatever runs there.
    Interrupt,
    /// From somebody who means us.
    End,
}

impl Signals {
    /// Takes the signals, so that they do not end the process before it has cleaned up.
    pub(super) fn take() -> Result<Self, LinkError> {
        let failed = |error| LinkError::System { what: "cannot take signals", error };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let within = runtime.enter();
        let take = |kind| signal(kind).map_err(failed);
        let interrupt = take(SignalKind::interrupt())?;
        let terminate = take(SignalKind::terminate())?;
        let hangup = take(SignalKind::hangup())?;
        drop(within);
        Ok(Self { runtime, interrupt, terminate, hangup })
    }

    /// Waits for a signal, but no longer than that.
    fn wait(&mut self, time: Duration) -> Came {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => Came::Interrupt,
                _ = self.terminate.recv() => Came::End,
                _ = self.hangup.recv() => Came::End,
                () = tokio::time::sleep(time) => Came::Nothing,
            }
        })
    }
}

/// A link and what is shown of it.
pub(super) struct Watched<'a> {
    pub(super) link: &'a Link,
    pub(super) show: Show,
}

const SECOND: Duration = Duration::from_secs(1);
/// How often a command is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

impl Watched<'_> {
    /// Shows how it goes until a signal comes.
    pub(super) fn until_interrupted(mut self, mut signals: Signals) -> ExitCode {
        while signals.wait(SECOND) == Came::Nothing {
            self.show.second(self.link.counters());
            if let Some(failure) = self.link.failure() {
                self.show.ended(self.link.counters());
                complain(&format!("fulmar link: {failure}\n"));
                return ExitCode::FAILURE;
            }
        }
        self.show.ended(self.link.counters());
        ExitCode::SUCCESS
    }

    /// Runs a command to its end, or to that of the link.
    pub(super) fn while_running(mut self, command: &mut Command, mut signals: Signals) -> ExitCode {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                complain(&format!("fulmar link: cannot run the command: {error}\n"));
                return ExitCode::FAILURE;
            }
        };
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) => {}
                Err(_) => break None,
            }
            // An interrupt from the keyboard has reached the command too, which decides.
            // What it does across a link that has failed is of no use to anybody.
            if signals.wait(LOOK) == Came::End || self.link.failure().is_some() {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        };
        self.show.command_ended(self.link.counters());
        if let Some(failure) = self.link.failure() {
            complain(&format!("fulmar link: {failure}\n"));
            return ExitCode::FAILURE;
        }
        match status {
            Some(status) if status.success() => ExitCode::SUCCESS,
            Some(status) => {
                complain(&format!("fulmar link: the command ended with {status}\n"));
                ExitCode::FAILURE
            }
            None => ExitCode::FAILURE,
        }
    }
}
