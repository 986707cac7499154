//! What an operation returns, and what the model admits.

use std::fmt;
use std::ops::RangeInclusive;

use fulmar_base::Errno;

use super::words::Acl;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

impl Kind {
    /// Returns the kind by the type bits of a mode.
    pub fn of_mode(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o100_000 => Some(Self::File),
            0o040_000 => Some(Self::Directory),
            0o120_000 => Some(Self::Symlink),
            _ => None,
        }
    }
}

/// A time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// During the run.
    Now,
    /// Seconds since 1970, not during the run.
    At(i64),
}

impl Time {
    /// The length of a day, which no run lasts.
    const DAY: i64 = 86_400;

    /// Returns a time of a file in a run that began at `begun`, both in seconds since 1970.
    pub fn of(seconds: i64, begun: i64) -> Self {
        let is_now = (begun - 2..begun + Self::DAY).contains(&seconds);
        if is_now { Self::Now } else { Self::At(seconds) }
    }
}

/// Attributes, as they are or as they may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// The permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The number of names.
    pub links: u32,
    /// The length in bytes; `None` for what has no defined one.
    pub size: Option<u64>,
    /// Units of 512 bytes.
    pub blocks: RangeInclusive<u64>,
    /// The last read; `None` if it may be any.
    pub atime: Option<Time>,
    /// The last write; `None` if it may be any.
    pub mtime: Option<Time>,
    /// The last change.
    pub ctime: Time,
}

impl Stat {
    /// Returns whether attributes that were found are among these.
    fn admits(&self, found: &Self) -> bool {
        let same = |one: Option<Time>, other| one.is_none() || one == other;
        (self.kind, self.uid, self.gid, self.links, self.ctime)
            == (found.kind, found.uid, found.gid, found.links, found.ctime)
            && (self.mode == found.mode || self.kind == Kind::Symlink)
            && (self.size.is_none() || self.size == found.size)
            && self.blocks.contains(found.blocks.start())
            && same(self.atime, found.atime)
            && same(self.mtime, found.mtime)
    }
}

/// What an operation returns.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was refused.
    Failed(Errno),
    /// So many bytes were written, and the rest was refused for lack of room.
    Part(u64),
    /// What was read.
    Bytes(Vec<u8>),
    /// Where data or a hole is.
    Position(u64),
    /// Attributes.
    Stat(Stat),
    /// Names in order, with what they are.
    Names(Vec<(String, Kind)>),
    /// What a symbolic link points to, or the value of an attribute.
    Text(String),
    /// Names of attributes in order.
    Texts(Vec<String>),
    /// An access control list.
    Acl(Acl),
    /// Whether a lock would be refused.
    IsRefused(bool),
}

/// Writes bytes as a program does that goes on after a short write. `write` writes from a place on, and returns how many.
pub(super) fn write_all(
    bytes: &[u8],
    mut write: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<Outcome, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match write(done) {
            Ok(0) => return Err(Errno::EIO),
            Ok(len) => done += len,
            Err(Errno::EINTR) => {}
            Err(Errno::ENOSPC) if done > 0 => return Ok(Outcome::Part(done as u64)),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Outcome::Done)
}

/// How many bytes are shown.
const SHOWN: usize = 12;

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Failed(errno) => write!(f, "{errno}"),
            Self::Part(len) => write!(f, "{len} bytes written"),
            Self::Bytes(bytes) => {
                write!(f, "{} bytes", bytes.len())?;
                let shown = &bytes[..bytes.len().min(SHOWN)];
                shown.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
                f.write_str(if bytes.len() > SHOWN { " …" } else { "" })
            }
            Self::Position(at) => write!(f, "at {at}"),
            Self::Stat(stat) => write!(f, "{stat:?}"),
            Self::Names(names) => write!(f, "names {names:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Texts(texts) => write!(f, "{texts:?}"),
            Self::Acl(acl) => write!(f, "{acl}"),
            Self::IsRefused(is_refused) => write!(f, "refused: {is_refused}"),
        }
    }
}

/// What the model admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// This, or attributes that this one admits.
    Outcome(Outcome),
    /// A position in this range, or, if none is required, ENXIO.
    Position(RangeInclusive<u64>, bool),
    /// One of these refusals.
    Refusal(Vec<Errno>),
    /// Anything: nothing is promised.
    Any,
}

impl Expectation {
    /// Returns whether an outcome is admitted.
    pub fn admits(&self, found: &Outcome) -> bool {
        match (self, found) {
            (Self::Outcome(Outcome::Stat(stat)), Outcome::Stat(found)) => stat.admits(found),
            (Self::Outcome(outcome), found) => outcome == found,
            (Self::Position(range, _), Outcome::Position(at)) => range.contains(at),
            (Self::Position(_, may_fail), Outcome::Failed(errno)) => {
                *may_fail && *errno == Errno::ENXIO
            }
            (Self::Refusal(any), Outcome::Failed(errno)) => any.contains(errno),
            (Self::Any, _) => true,
            _ => false,
        }
    }

    /// Returns an outcome that is admitted.
    pub fn example(&self) -> Outcome {
        match self {
            Self::Outcome(Outcome::Stat(stat)) => {
                let mut stat = stat.clone();
                stat.blocks = *stat.blocks.start()..=*stat.blocks.start();
                Outcome::Stat(stat)
            }
            Self::Outcome(outcome) => outcome.clone(),
            Self::Position(range, false) => Outcome::Position(*range.start()),
            Self::Position(..) => Outcome::Failed(Errno::ENXIO),
            Self::Refusal(any) => Outcome::Failed(any[0]),
            Self::Any => Outcome::Failed(Errno::ESTALE),
        }
    }

    /// Says where bytes differ, if they do.
    pub fn difference(&self, found: &Outcome) -> String {
        let (Self::Outcome(Outcome::Bytes(own)), Outcome::Bytes(found)) = (self, found) else {
            return String::new();
        };
        match own.iter().zip(found).position(|(one, other)| one != other) {
            Some(at) => {
                let (one, other) = (own[at], found[at]);
                format!("; byte {at} of them is {other:02x} instead of {one:02x}")
            }
            None => String::new(),
        }
    }
}
