//! Operations of one client by system calls, in a directory of a mount.
//!
//! Its process locks are those of this process on the files of that mount.

mod files;
mod map;
mod names;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use fulmar_base::Errno;

use super::operation::Operation;
use super::outcome::{Kind, Outcome, Stat, Time};
use super::words::Slot;

/// The result of an operation.
type OperationResult = Result<Outcome, Errno>;

/// A directory in which operations are executed, and what is open in it.
pub(super) struct Directory {
    root: PathBuf,
    slots: BTreeMap<Slot, Open>,
    begun: i64,
}

/// An open file.
struct Open {
    file: File,
    appends: bool,
}

impl Directory {
    /// Executes operations in this directory. Times that are not before `begun`, in seconds since 1970, are during the run.
    pub(super) fn new(root: PathBuf, begun: i64) -> Self {
        Self { root, slots: BTreeMap::new(), begun }
    }

    /// Executes an operation. Faults are not system calls.
    pub(super) fn perform(&mut self, operation: &Operation) -> Outcome {
        let performed = match operation {
            operation if operation.is_fault() => Err(Errno::EOPNOTSUPP),
            operation if operation.slot().is_some() => self.on_open(operation),
            operation => self.on_names(operation),
        };
        performed.unwrap_or_else(Outcome::Failed)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn stat(&self, found: &std::fs::Metadata) -> Outcome {
        use std::os::unix::fs::MetadataExt;
        let Some(kind) = Kind::of_mode(found.mode()) else { return Outcome::Failed(Errno::EIO) };
        let time = |seconds| Time::of(seconds, self.begun);
        Outcome::Stat(Stat {
            kind,
            mode: found.mode() & 0o7777,
            uid: found.uid(),
            gid: found.gid(),
            links: found.nlink() as u32,
            size: Some(found.len()),
            blocks: found.blocks()..=found.blocks(),
            atime: Some(time(found.atime())),
            mtime: Some(time(found.mtime())),
            ctime: time(found.ctime()),
        })
    }
}

/// Returns the number of an error.
fn errno(error: io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EIO.0))
}

/// The same of a system call.
fn call_errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
