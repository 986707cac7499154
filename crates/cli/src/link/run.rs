//! Runs a link until a signal or the end of a command.

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

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitResult {
    Nothing,
    /// SIGINT from the keyboard, which the command receives too.
    Interrupt,
    /// A signal for this process only.
    End,
}

impl Signals {
    /// Installs signal handlers, so that the process can clean up before it ends.
    pub(super) fn take() -> Result<Self, LinkError> {
        let failed = |error| LinkError::System { what: "cannot install signal handlers", error };
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

    /// Waits for a signal, at most for `time`.
    fn wait(&mut self, time: Duration) -> WaitResult {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => WaitResult::Interrupt,
                _ = self.terminate.recv() => WaitResult::End,
                _ = self.hangup.recv() => WaitResult::End,
                () = tokio::time::sleep(time) => WaitResult::Nothing,
            }
        })
    }
}

/// A running link and its display.
pub(super) struct LinkDisplay<'a> {
    pub(super) link: &'a Link,
    pub(super) show: Show,
}

const SECOND: Duration = Duration::from_secs(1);
/// How often to check whether the command has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl LinkDisplay<'_> {
    /// Shows the counters until a signal arrives or the link fails.
    pub(super) fn until_interrupted(mut self, mut signals: Signals) -> ExitCode {
        while signals.wait(SECOND) == WaitResult::Nothing {
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

    /// Runs a command until it ends or the link fails.
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
            // The command has received the keyboard interrupt too, and decides what to do.
            // A command is of no use across a link that has failed.
            if signals.wait(CHECK_INTERVAL) == WaitResult::End || self.link.failure().is_some() {
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
