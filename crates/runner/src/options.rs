//! The command line.

use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "usage: fulmar-runner [--only WORD] [--listed FILE] [--threads N] [--limit SECONDS] [--needs-root FILE]
                     < messages of cargo test --no-run --message-format=json
  --only WORD         only tests with this word in the name, which is CRATE/PROGRAM TEST
  --listed FILE       only tests with these names, one a line
  --threads N         that many tests run at once; four for each core if it is absent
  --limit SECONDS     the limit of every test, instead of those in rules.rs
  --needs-root FILE   tests that did not run because they need root do not count: their names are written to this file";

/// What to run, and how.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) only: Option<String>,
    listed: Option<Vec<String>>,
    pub(crate) threads: usize,
    pub(crate) limit: Option<Duration>,
    pub(crate) needs_root: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        // Most tests wait for sockets and timers more than they compute.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { threads: cores * 4, ..Self::default() };
        while let Some(name) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            match name.as_str() {
                "--only" => options.only = Some(value),
                "--listed" => {
                    let text = std::fs::read_to_string(&value)
                        .map_err(|error| format!("{value} cannot be read: {error}"))?;
                    options.listed = Some(text.lines().map(str::to_owned).collect());
                }
                "--threads" => {
                    let number = value.parse().ok().filter(|number| *number > 0);
                    options.threads = number.ok_or("--threads needs a number from 1")?;
                }
                "--limit" => {
                    let seconds = value.parse().map_err(|_| "--limit needs a number of seconds")?;
                    options.limit = Some(Duration::from_secs(seconds));
                }
                "--needs-root" => options.needs_root = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(options)
    }

    /// Returns whether the test with this name is to run.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|word| name.contains(word.as_str()))
            && self.listed.as_ref().is_none_or(|names| names.iter().any(|other| other == name))
    }
}
