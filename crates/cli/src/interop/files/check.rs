//! What every check has: a directory as both mounts see it, and its result.

use std::fmt::{Debug, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fulmar_base::Rng;

/// The evidence of a check that passed, or why there is none.
pub(super) type Outcome = Result<String, Wrong>;

/// A check, in a directory that others use too.
pub(super) type Check = fn(&Site) -> Outcome;

/// Why a check has not passed.
#[derive(Debug)]
pub(super) enum Wrong {
    Failed(String),
    /// It cannot be made here.
    NotRun(String),
}

/// A directory as both mounts see it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) one: PathBuf,
    pub(super) two: PathBuf,
    /// How long each random check takes.
    pub(super) time: Duration,
    pub(super) seed: u64,
    /// The user wants an end.
    pub(super) stop: Arc<AtomicBool>,
}

impl Site {
    /// Makes a directory below by the first mount.
    pub(super) fn sub(&self, name: &str) -> Result<Self, Wrong> {
        let (one, two) = (self.one.join(name), self.two.join(name));
        std::fs::create_dir(&one).at("mkdir")?;
        Ok(Self { one, two, ..self.clone() })
    }

    /// Returns the directory as the mount with an even or odd number sees it.
    pub(super) fn side(&self, number: u64) -> &Path {
        if number.is_multiple_of(2) { &self.one } else { &self.two }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Failed(why.into()))
}

/// Says of what an error is.
pub(super) trait At<T> {
    fn at(self, what: impl Display) -> Result<T, Wrong>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, what: impl Display) -> Result<T, Wrong> {
        self.map_err(|error| Wrong::Failed(format!("{what}: {}", error.into())))
    }
}

/// Fails unless what was found is what is expected.
pub(super) fn equal<T: PartialEq<U> + Debug, U: Debug>(
    what: impl Display,
    found: T,
    expected: U,
) -> Result<(), Wrong> {
    if found == expected {
        Ok(())
    } else {
        failed(format!("{what}: {found:?}, but {expected:?} is expected"))
    }
}

/// Fails unless something holds.
pub(super) fn holds(what: impl Display, is_true: bool) -> Result<(), Wrong> {
    if is_true { Ok(()) } else { failed(format!("it does not hold: {what}")) }
}

/// Fails unless the result is this error.
pub(super) fn refused<T, E: Into<io::Error>>(
    what: impl Display,
    result: Result<T, E>,
    expected: rustix::io::Errno,
) -> Result<(), Wrong> {
    let expected = io::Error::from(expected);
    match result.map_err(Into::into) {
        Ok(_) => failed(format!("{what}: it is done, but {expected} is expected")),
        Err(error) if error.raw_os_error() == expected.raw_os_error() => Ok(()),
        Err(error) => failed(format!("{what}: {error}, but {expected} is expected")),
    }
}

/// Fails unless the bytes are those that are expected, and says where the first wrong one is.
pub(super) fn same(what: impl Display, found: &[u8], expected: &[u8]) -> Result<(), Wrong> {
    if found == expected {
        return Ok(());
    }
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return failed(format!("{what}: {found} bytes, but {expected} are expected"));
    }
    let wrong = found.iter().zip(expected).filter(|(one, other)| one != other).count();
    let first = found.iter().zip(expected).position(|(one, other)| one != other).unwrap_or(0);
    failed(format!(
        "{what}: {wrong} bytes of {} are wrong, the first at {first}: {:#04x}, but {:#04x} is expected",
        found.len(),
        found[first],
        expected[first]
    ))
}

/// Returns bytes that belong to a number, so that those of different numbers differ.
pub(super) fn pattern(number: u64, len: usize) -> Vec<u8> {
    let mut random = Rng::new(number);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8)).flat_map(|_| random.u64().to_ne_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Draws a length of up to 2 to the power of `bits`: short ones as often as long ones.
pub(super) fn length(random: &mut Rng, bits: u64) -> usize {
    let bits = random.between(1, bits);
    random.between(1, 1 << bits) as usize
}

/// Returns the names in a directory, sorted.
pub(super) fn list(directory: &Path) -> Result<Vec<std::ffi::OsString>, Wrong> {
    let entries = std::fs::read_dir(directory).at("reading a directory")?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.at("reading a directory")?.file_name());
    }
    names.sort();
    Ok(names)
}
