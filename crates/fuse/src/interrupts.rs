//! Ends waits of processes that are interrupted.
//!
//! The kernel reports an interrupt by a message that `fuser` refuses. So the signals of waiting
//! threads are read.
//!
//! Only waits for locks of files have no limit; during one, a thread looks at the signals of the
//! waiting threads in `/proc`, and the wait ends at the server too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_channel::oneshot;

/// How often signals are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// The threads that wait.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    last: u64,
    /// Threads, and who is told.
    waiting: BTreeMap<u64, (u32, oneshot::Sender<()>)>,
    is_watched: bool,
}

impl Interrupts {
    /// Returns when a thread of a process has a signal that it does not block. Never if the signals are not
    /// visible, as those of other PID namespaces.
    pub(crate) fn of(self: &Arc<Self>, thread: u32) -> impl Future<Output = ()> + Send + use<> {
        let (sender, interrupted) = oneshot::channel();
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.last += 1;
        let number = waits.last;
        waits.waiting.insert(number, (thread, sender));
        if !waits.is_watched {
            let this = self.clone();
            let watch = move || while this.look() {};
            let name = "fulmar-signals".to_owned();
            waits.is_watched = std::thread::Builder::new().name(name).spawn(watch).is_ok();
        }
        async move {
            if interrupted.await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Looks at the signals of all that wait. Returns whether there is somebody.
    fn look(&self) -> bool {
        std::thread::sleep(INTERVAL);
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |(thread, sender): &(u32, oneshot::Sender<()>)| {
            let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
            !sender.is_canceled() && !status.is_ok_and(|status| is_interrupted(&status))
        };
        let all = std::mem::take(&mut waits.waiting);
        for (number, wait) in all {
            if goes_on(&wait) {
                waits.waiting.insert(number, wait);
            } else {
                let _ = wait.1.send(());
            }
        }
        waits.is_watched = !waits.waiting.is_empty();
        waits.is_watched
    }
}

/// Returns whether a thread with this status has a signal that it does not block.
fn is_interrupted(status: &str) -> bool {
    let signals = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    (signals("SigPnd:") | signals("ShdPnd:")) & !signals("SigBlk:") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_not_blocked_interrupts() {
        let status = |own, shared, blocked| {
            format!("Name:\tsh\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n")
        };
        assert!(!is_interrupted(&status(
            "0000000000000000",
            "0000000000000000",
            "0000000000010000"
        )));
        assert!(is_interrupted(&status(
            "0000000000000100",
            "0000000000000000",
            "0000000000010000"
        )));
        assert!(is_interrupted(&status(
            "0000000000000000",
            "0000000000000002",
            "0000000000000000"
        )));
        assert!(!is_interrupted(&status(
            "0000000000000000",
            "0000000000000002",
            "0000000000000002"
        )));
        assert!(!is_interrupted(""));
    }
}
