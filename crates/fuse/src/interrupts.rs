//! Ends waits of processes that are interrupted.
//!
//! The kernel reports an interrupt by a message that `fuser` refuses. So while operations wait, a thread
//! looks at the signals of the waiting threads in `/proc`.
//!
//! A wait for a lock of a file ends with any signal that the thread does not block, and at the server
//! too. Any other operation ends when its process is killed, as in a kernel's client: programs do not
//! expect that another signal ends an operation on a file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_channel::oneshot;

/// How often signals are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// The bit of SIGKILL. The kernel sends that to all threads of a process that a signal is about to end.
const KILL: u64 = 1 << 8;

/// The place of a thread's flags in `stat`, after its name. The code of its exit is the last field.
const FLAGS: usize = 6;
/// The flag of a thread that ends.
const EXITING: u64 = 4;
/// The part of the code that is a signal.
const SIGNAL: i32 = 0x7f;

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A signal that is not blocked.
    Interrupted,
    /// A signal that ends the process.
    Killed,
}

/// The threads that wait.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    last: u64,
    waiting: BTreeMap<u64, Wait>,
    is_watched: bool,
}

struct Wait {
    thread: u32,
    ends: Ends,
    end: Box<dyn FnOnce() + Send>,
}

/// A wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct InterruptGuard {
    interrupts: Arc<Interrupts>,
    number: u64,
}

impl Interrupts {
    /// Calls `end` when a thread has such a signal, on a thread of its own. Never if the signals are not visible, as
    /// those of other PID namespaces.
    pub(crate) fn watch(
        self: &Arc<Self>,
        thread: u32,
        ends: Ends,
        end: impl FnOnce() + Send + 'static,
    ) -> InterruptGuard {
        let mut waits = self.waits();
        waits.last += 1;
        let number = waits.last;
        waits.waiting.insert(number, Wait { thread, ends, end: Box::new(end) });
        if !waits.is_watched {
            let this = self.clone();
            let watch = move || while this.look() {};
            let name = "fulmar-signals".to_owned();
            waits.is_watched = std::thread::Builder::new().name(name).spawn(watch).is_ok();
        }
        InterruptGuard { interrupts: self.clone(), number }
    }

    /// Returns when a thread has a signal that it does not block.
    pub(crate) fn of(self: &Arc<Self>, thread: u32) -> impl Future<Output = ()> + Send + use<> {
        let (sender, interrupted) = oneshot::channel();
        let watched = self.watch(thread, Ends::Interrupted, move || {
            let _ = sender.send(());
        });
        async move {
            let _watched = watched;
            if interrupted.await.is_err() {
                std::future::pending().await
            }
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the signals of all that have waited for a while. Returns whether there are some.
    fn look(&self) -> bool {
        let last = self.waits().last;
        std::thread::sleep(INTERVAL);
        let threads: Vec<(u64, u32, Ends)> = {
            let mut waits = self.waits();
            waits.is_watched = !waits.waiting.is_empty();
            if !waits.is_watched {
                return false;
            }
            let all = waits.waiting.range(..=last);
            all.map(|(number, wait)| (*number, wait.thread, wait.ends)).collect()
        };
        for (number, thread, ends) in threads {
            let read = |what| std::fs::read_to_string(format!("/proc/{thread}/{what}"));
            let is_interrupted = read("status").is_ok_and(|status| is_interrupted(&status, ends));
            let is_ending =
                || ends == Ends::Killed && read("stat").is_ok_and(|stat| is_ending(&stat));
            if is_interrupted || is_ending() {
                let ended = self.waits().waiting.remove(&number);
                ended.into_iter().for_each(|wait| (wait.end)());
            }
        }
        true
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        let ended = self.interrupts.waits().waiting.remove(&self.number);
        drop(ended);
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} until it is {:?}", self.thread, self.ends)
    }
}

/// Returns whether a thread with this status has a signal that ends its wait.
fn is_interrupted(status: &str, ends: Ends) -> bool {
    let signals = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    match ends {
        Ends::Interrupted => (signals("SigPnd:") | signals("ShdPnd:")) & !signals("SigBlk:") != 0,
        Ends::Killed => signals("SigPnd:") & KILL != 0,
    }
}

/// Returns whether a thread with these fields in `stat` ends because of a signal: it closes its files, and has no
/// pending signal any more.
fn is_ending(stat: &str) -> bool {
    // The name before them may contain anything.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_whitespace();
    let flags = fields.nth(FLAGS).and_then(|flags| flags.parse::<u64>().ok());
    let code = fields.next_back().and_then(|code| code.parse::<i32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0) && code.is_some_and(|code| code & SIGNAL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ended(own: u64, shared: u64, blocked: u64, ends: Ends) -> bool {
        let status = format!(
            "Name:\tsh\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
        );
        is_interrupted(&status, ends)
    }

    #[test]
    fn a_signal_that_is_not_blocked_interrupts() {
        assert!(!is_ended(0, 0, 0x10000, Ends::Interrupted));
        assert!(is_ended(0x100, 0, 0x10000, Ends::Interrupted));
        assert!(is_ended(0, 2, 0, Ends::Interrupted));
        assert!(!is_ended(0, 2, 2, Ends::Interrupted));
        assert!(!is_interrupted("", Ends::Interrupted));
    }

    #[test]
    fn only_a_signal_that_ends_the_process_kills() {
        assert!(is_ended(0x100, 0x4000, 0, Ends::Killed));
        assert!(!is_ended(0, 0x4000, 0, Ends::Killed), "it has a handler");
        assert!(!is_ended(2, 0, 0, Ends::Killed));
        assert!(!is_interrupted("", Ends::Killed));
    }

    #[test]
    fn a_killed_thread_that_closes_its_files_is_ending() {
        let stat =
            |flags: u64, code: i32| format!("7 (a) b) D 1 7 7 0 -1 {flags} 90 0 0 0 {code}\n");
        assert!(is_ending(&stat(0x40_0104, 9)) && is_ending(&stat(4, 15 | 0x80)));
        assert!(!is_ending(&stat(4, 0x100)), "it ends by itself");
        assert!(!is_ending(&stat(0x40_0100, 9)));
        assert!(!is_ending("") && !is_ending("7 (a) D 1"));
    }

    #[test]
    fn a_wait_that_is_over_is_not_ended() {
        let interrupts = Arc::new(Interrupts::default());
        let watched = interrupts.watch(1, Ends::Killed, || panic!("it is over"));
        assert_eq!(interrupts.waits().waiting.len(), 1);
        drop(watched);
        assert!(interrupts.waits().waiting.is_empty());
    }
}
