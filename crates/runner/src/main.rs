//! Runs the tests of the workspace, each in a process of its own.
//!
//! ```text
//! cargo test --workspace --no-run --message-format=json | fulmar-runner [--only WORD] [--threads N]
//!
//! programs   which test programs cargo has built, and their tests
//! schedule   many tests at once, then those that run alone, then those that have failed, once more
//! process    one test: its process group, its limit, its output
//! mark       all processes of a test, and how long they have waited for a processor
//! rules      which tests have another limit, and which run alone
//! report     a line for each test, the output of those that failed, the sums
//! ```
//!
//! A test that hangs is ended at its limit, in which the time does not count for which it waited for a processor, and fails
//! with its name and its output; no test sees the threads, memory,
//! addresses or mounts of another one. A test that fails runs once more, alone, when all others have ended. If it passes
//! then, it is reported as `FLAKY`. The status is 0 if every test passed in one of its two runs.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod mark;
mod options;
mod process;
mod programs;
mod report;
mod rules;
mod schedule;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("runner: {why}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every test passed.
fn run() -> Result<bool, String> {
    let options = Options::from_args(std::env::args().skip(1))?;
    let programs = programs::from_messages(std::io::stdin().lock())?;
    let mut tests = programs::tests(programs, options.threads)?;
    tests.retain(|test| options.selects(&test.name));
    if tests.is_empty() {
        return Err(format!(
            "no test has {:?} in its name",
            options.only.as_deref().unwrap_or_default()
        ));
    }
    let results = schedule::run(tests, &options)?;
    report::summary(&results, options.needs_root.as_deref())
        .map_err(|error| format!("the results cannot be written: {error}"))
}
