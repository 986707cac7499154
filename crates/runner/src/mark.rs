//! The processes of a test, and how long they have waited for a processor.
//!
//! They are known by a variable of their environment, which they inherit, also those that have left the process group of the
//! test. Processes of other users, and those that have just ended, are left out: they cannot be read.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The variable by which all processes of a test are known.
pub(crate) const MARK: &str = "FULMAR_TEST";

/// Kills the processes of a test. Returns whether there were any.
pub(crate) fn kill(mark: &str) -> bool {
    let found = all(mark);
    for (id, _) in &found {
        let _ = kill_process(*id, Signal::KILL);
    }
    !found.is_empty()
}

/// Returns how long the thread that has waited longest, of all processes of a test, has been ready to run while others had
/// the processors. The test would have ended earlier by about as much on an idle machine.
pub(crate) fn waited(mark: &str) -> Duration {
    let tasks =
        all(mark).into_iter().filter_map(|(_, place)| fs::read_dir(place.join("task")).ok());
    let threads = tasks.flat_map(|tasks| tasks.flatten());
    let waits = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        // Time on a processor and time of waiting for one in nanoseconds, and how often it had one.
        text.split_whitespace().nth(1)?.parse().ok()
    });
    Duration::from_nanos(waits.max().unwrap_or(0))
}

/// Returns the processes of a test, with their places in `/proc`.
fn all(mark: &str) -> Vec<(Pid, PathBuf)> {
    let line = format!("{MARK}={mark}");
    let Ok(processes) = fs::read_dir("/proc") else { return vec![] };
    let found = processes.flatten().filter_map(|process| {
        let id = process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let environment = fs::read(process.path().join("environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|one| one == line.as_bytes());
        is_marked.then(|| (id, process.path()))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn what_shares_processors_has_waited_for_them() {
        let mark = format!("waits-{}", std::process::id());
        assert!(!kill(&mark) && waited(&mark).is_zero());
        let count = 2 * std::thread::available_parallelism().unwrap().get() + 1;
        let busy = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).env(MARK, &mark).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        let processes: Vec<Child> = (0..count).map(busy).collect();
        while waited(&mark) < Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(kill(&mark));
        for mut process in processes {
            // One that has not quite begun has no environment yet, and was not found.
            process.kill().unwrap();
            assert!(!process.wait().unwrap().success());
        }
        assert!(!kill(&mark));
    }
}
