//! The clock of a measurement, with a stop on signals.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use fulmar_control::tool::complain;

/// A clock that a stop can interrupt.
pub(super) trait Clock {
    /// Returns the time since the start.
    fn now(&self) -> Duration;
    /// Waits for `time`, or until the user stops the measurement; returns whether it was stopped.
    fn wait(&self, time: Duration) -> bool;
    /// Waits for `time` in any case.
    fn rest(&self, time: Duration);
}

/// The system clock; SIGINT, SIGTERM and SIGHUP stop the measurement.
#[derive(Debug)]
pub(super) struct WallClock {
    start: Instant,
    stop: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    wanted: Mutex<bool>,
    changed: Condvar,
}

/// Exit status of an interrupted command.
pub(super) const INTERRUPTED: u8 = 130;

impl WallClock {
    /// Installs handlers for the signals.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let within = runtime.enter();
        let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = signals.map(signal);
        let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
        drop(within);
        let stop = Arc::new(Stop::default());
        let signalled = Arc::clone(&stop);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(any(&mut interrupt, &mut terminate, &mut hangup));
            signalled.now();
            complain(
                "\nStopping the load and ending the session; interrupt again to exit at once\n",
            );
            runtime.block_on(any(&mut interrupt, &mut terminate, &mut hangup));
            std::process::exit(INTERRUPTED.into());
        })?;
        Ok(Self { start: Instant::now(), stop })
    }
}

async fn any(interrupt: &mut Signal, terminate: &mut Signal, hangup: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

impl Stop {
    fn now(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(wanted, time, |wanted| !*wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&self, time: Duration) -> bool {
        self.stop.wait(time)
    }

    fn rest(&self, time: Duration) {
        thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_this_wait_and_later_ones() {
        let stop = Arc::new(Stop::default());
        assert!(!stop.wait(Duration::from_millis(1)));
        let later = Arc::clone(&stop);
        let thread = thread::spawn(move || later.now());
        assert!(stop.wait(Duration::from_secs(60)));
        assert!(stop.wait(Duration::from_secs(60)));
        thread.join().unwrap();
    }
}
