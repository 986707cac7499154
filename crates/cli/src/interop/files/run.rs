//! Makes the checks in two directories, and prints their results.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fulmar_text::duration;

use super::CHECKS;
use super::check::{Check, Outcome, Site, Wrong};
use crate::interop::run::report;

/// How long the random checks take, and what they begin with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long each of them takes.
    pub time: Duration,
    /// The seed of their random numbers.
    pub seed: u64,
    /// A part of the titles of the checks that are made.
    pub only: String,
    /// Set when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

/// A check that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Makes all checks in a new directory of a file system that is mounted at both directories, prints the results,
/// removes the directory, and returns whether all passed.
///
/// # Errors
/// Of the output.
pub fn check(one: &Path, two: &Path, settings: &Settings, out: &mut dyn Write) -> io::Result<bool> {
    let name = format!("fulmar-interop-{}-{:08x}", std::process::id(), settings.seed as u32);
    let Settings { time, seed, only, stop } = settings.clone();
    let site = Site { one: one.join(&name), two: two.join(&name), time, seed, stop };
    if let Err(error) = std::fs::create_dir(&site.one) {
        writeln!(out, "Cannot make the directory {name}: {error}")?;
        return Ok(false);
    }
    let (mut passed, mut not_run, mut hangs) = (0, 0, false);
    let chosen: Vec<_> = CHECKS.iter().filter(|(title, _)| title.contains(&only)).collect();
    for (number, (title, check)) in chosen.iter().enumerate() {
        if hangs || site.is_stopped() {
            break;
        }
        let begun = Instant::now();
        let done = in_time(*check, &site, LIMIT + time);
        hangs = done.is_none();
        let limit = duration(LIMIT + time);
        let done = done.unwrap_or_else(|| Err(Wrong::Failed(format!("no end in {limit}"))));
        let (verdict, evidence) = match done {
            Ok(evidence) => ("PASS", evidence),
            Err(Wrong::Failed(why)) => ("FAIL", why),
            Err(Wrong::NotRun(why)) => ("NOT RUN", why),
        };
        report(out, (number + 1, title), verdict, begun.elapsed(), &evidence)?;
        passed += usize::from(verdict == "PASS");
        not_run += usize::from(verdict == "NOT RUN");
    }
    let is_left = hangs || !remove(&site);
    if is_left {
        writeln!(out, "\nThe directory {name} is left: remove it.")?;
    }
    let all = chosen.len() - not_run;
    let skipped = if not_run > 0 { format!(", {not_run} could not run") } else { String::new() };
    writeln!(out, "\n{passed} of {all} checks passed{skipped}.")?;
    Ok(passed == all && !is_left)
}

/// Makes a check, and returns `None` if it does not end.
fn in_time(check: Check, site: &Site, limit: Duration) -> Option<Outcome> {
    let (sender, receiver) = channel();
    let site = site.clone();
    std::thread::spawn(move || {
        let _ = sender.send(check(&site));
    });
    match receiver.recv_timeout(limit) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => {
            Some(Err(Wrong::Failed("the check itself panicked: report it".to_owned())))
        }
    }
}

/// Removes the directory, and returns whether it is gone.
fn remove(site: &Site) -> bool {
    std::fs::remove_dir_all(&site.one).is_ok() && !site.two.exists()
}
