//! `fulmar warmup`: brings files of a mount into its cache, and has it keep them open.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::value_parser;
use fulmar_base::Errno;
use fulmar_client::special::{WARM, WARM_STATE};
use fulmar_text::{bytes, count, duration};
use indicatif::ProgressBar;

use crate::context::{Status, complain, print};
use crate::mounts::{attribute, mounts};

/// Bring files of a mount by fulmar into its cache
///
/// The mount gets the names, the attributes, the layouts and the data of the files, with the locks that protect
/// them, and keeps the files open at their servers. Until another client changes something, opening, reading and
/// closing such a file needs no request to a server. Directories are gone through with all that is below them;
/// symbolic links are not followed.
///
/// Any user may do that for files that it may read. The mount keeps 4,096 files open, and the data that its
/// max_cached_mb has room for; what was not used for longest gives way.
///
/// Exit status: 0; 1 if a file was not brought into the cache; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files and directories on a mount
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Go through directories: this is the default
    #[arg(short, long, overrides_with = "no_recursive")]
    recursive: bool,
    /// Only the files of directories, not those below them
    #[arg(long)]
    no_recursive: bool,
    /// Number of files that are asked for at once
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Bring the data too, or only what the files are
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Data::Yes)]
    data: Data,
    /// Print no summary
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  fulmar warmup /mnt/lustre/env
  fulmar warmup --data no --jobs 256 /mnt/lustre/projects";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Data {
    Yes,
    No,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    files: u64,
    directories: u64,
    bytes: u64,
    kept: u64,
    failures: u64,
}

/// What is left to do, and what was done.
#[derive(Debug, Default)]
struct State {
    /// Paths in the order of their directories, with how deep they are.
    left: VecDeque<(PathBuf, u32)>,
    /// How many are being done.
    busy: usize,
    totals: Totals,
}

struct Work<'a> {
    args: &'a Args,
    state: Mutex<State>,
    changed: Condvar,
    bar: ProgressBar,
}

pub(crate) fn main(args: &Args) -> ExitCode {
    ExitCode::from(run(args))
}

fn run(args: &Args) -> Status {
    let all = mounts();
    for path in &args.paths {
        let is_mounted = match path.canonicalize() {
            Ok(whole) => all.iter().any(|mount| whole.starts_with(mount)),
            Err(error) => return fail(&format!("{}: {error}", path.display())),
        };
        if !is_mounted {
            let path = path.display();
            return fail(&format!("{path} is on no file system that is mounted by fulmar"));
        }
    }
    let begun = Instant::now();
    let left = args.paths.iter().map(|path| (path.clone(), 0)).collect();
    let state = Mutex::new(State { left, ..State::default() });
    let work = Work { args, state, changed: Condvar::new(), bar: ProgressBar::new_spinner() };
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            scope.spawn(|| work.go());
        }
    });
    work.bar.finish_and_clear();
    let totals = work.state().totals;
    if !args.quiet {
        print(&summary(&totals, begun.elapsed()));
    }
    Status::from(totals.failures > 0)
}

fn fail(why: &str) -> Status {
    complain(&format!("fulmar warmup: {why}\n"));
    1
}

impl Work<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is left, until nothing is.
    fn go(&self) {
        while let Some((path, depth)) = self.next() {
            let done = self.warm(&path, depth);
            let mut state = self.state();
            state.busy -= 1;
            match done {
                Ok(WarmupResult::Directory(below)) => {
                    state.totals.directories += 1;
                    state.left.extend(below.into_iter().map(|path| (path, depth + 1)));
                }
                Ok(WarmupResult::File { bytes, is_kept }) => {
                    state.totals.files += 1;
                    state.totals.bytes += bytes;
                    state.totals.kept += u64::from(is_kept);
                }
                Ok(WarmupResult::Other) => {}
                Err(why) => {
                    state.totals.failures += 1;
                    let why = format!("fulmar warmup: {}: {why}\n", path.display());
                    self.bar.suspend(|| complain(&why));
                }
            }
            let (files, size) = (count(state.totals.files, "file"), bytes(state.totals.bytes));
            drop(state);
            self.changed.notify_all();
            self.bar.set_message(format!("{files}, {size}"));
            self.bar.tick();
        }
    }

    fn next(&self) -> Option<(PathBuf, u32)> {
        let mut state = self.state();
        loop {
            if let Some(next) = state.left.pop_front() {
                state.busy += 1;
                return Some(next);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn warm(&self, path: &Path, depth: u32) -> Result<WarmupResult, String> {
        let text = |error: std::io::Error| error.to_string();
        let kind = fs::symlink_metadata(path).map_err(text)?.file_type();
        if kind.is_dir() {
            if depth > 0 && self.args.no_recursive {
                return Ok(WarmupResult::Other);
            }
            let entries = fs::read_dir(path).map_err(text)?;
            let below: Result<Vec<PathBuf>, _> =
                entries.map(|entry| entry.map(|entry| entry.path())).collect();
            return below.map(WarmupResult::Directory).map_err(text);
        }
        if kind.is_symlink() {
            // The kernel keeps what it points to.
            return fs::read_link(path).map(|_| WarmupResult::Other).map_err(text);
        }
        if !kind.is_file() {
            return Ok(WarmupResult::Other);
        }
        let name = if self.args.data == Data::Yes { WARM } else { WARM_STATE };
        let value = attribute(path, name).map_err(|errno| errno.to_string())?;
        let (bytes, is_kept) = told(&value).map_err(|errno| errno.to_string())?;
        Ok(WarmupResult::File { bytes, is_kept })
    }
}

enum WarmupResult {
    /// With what is in it.
    Directory(Vec<PathBuf>),
    File {
        bytes: u64,
        is_kept: bool,
    },
    Other,
}

/// Reads what a mount says of a file: its bytes, and whether it is kept open.
fn told(value: &[u8]) -> Result<(u64, bool), Errno> {
    let text = std::str::from_utf8(value).map_err(|_| Errno::EPROTO)?;
    let (bytes, kept) = text.trim().split_once(' ').ok_or(Errno::EPROTO)?;
    Ok((bytes.parse().map_err(|_| Errno::EPROTO)?, kept == "1"))
}

fn summary(totals: &Totals, taken: Duration) -> String {
    let Totals { files, directories, bytes: len, kept, failures } = *totals;
    let directories = match directories {
        1 => "1 directory".to_owned(),
        number => format!("{} directories", fulmar_text::grouped(number)),
    };
    let failed = match failures {
        0 => String::new(),
        number => format!(", {} failed", fulmar_text::grouped(number)),
    };
    format!(
        "{}, {directories} and {} in the cache, {} kept open{failed}, {}\n",
        count(files, "file"),
        bytes(len),
        fulmar_text::grouped(kept),
        duration(taken)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_was_done() {
        let totals = Totals { files: 1000, directories: 1, bytes: 4 << 20, kept: 998, failures: 2 };
        let text = summary(&totals, Duration::from_millis(2300));
        let expected =
            "1,000 files, 1 directory and 4 MiB in the cache, 998 kept open, 2 failed, 2.3 s\n";
        assert_eq!(text, expected);
        assert_eq!(told(b"4096 1\n"), Ok((4096, true)));
        assert_eq!(told(b"0 0\n"), Ok((0, false)));
        assert_eq!(told(b"x"), Err(Errno::EPROTO));
    }
}
