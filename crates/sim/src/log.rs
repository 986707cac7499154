//! The log of a run: one line per event, in fixed columns.

use std::collections::VecDeque;
use std::fmt;

use fulmar_base::Time;

use crate::HostId;

/// The last lines of a run, and a digest of all of them.
///
/// ```text
///     12.003456789  n2   t17      write 96 + 16384
///     seconds       node subject  what
/// ```
#[derive(Debug)]
pub struct Log {
    lines: VecDeque<String>,
    keep: usize,
    digest: u64,
}

impl Log {
    /// Creates a log that keeps the last `keep` lines; with 0 nothing is formatted.
    pub fn new(keep: usize) -> Self {
        Self { lines: VecDeque::new(), keep, digest: FNV_OFFSET }
    }

    /// Adds a line. `subject` is a connection, a descriptor or an operation.
    pub(crate) fn line(
        &mut self,
        now: Time,
        host: HostId,
        subject: impl fmt::Display,
        what: fmt::Arguments<'_>,
    ) {
        if self.keep == 0 {
            return;
        }
        let (seconds, nanos) = (now.as_secs(), now.0 % 1_000_000_000);
        let line = format!("{seconds:>5}.{nanos:09}  {host:<5} {subject:<8} {what}");
        for byte in line.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the lines that were kept, the oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// Returns a digest of every line so far: equal runs have equal digests.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

/// FNV-1a: simple, and the digest needs no security.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
