//! A use of all servers, by which a client learns what has happened to them or to it.

use std::time::Duration;

use fulmar_base::Errno;

use super::outcome::Outcome;

/// How often it is tried, and how long a pause is.
const TRIES: usize = 6000;
const PAUSE: Duration = Duration::from_millis(10);

/// Reads the size of the file system until all servers have answered. It returns the bytes of the OSTs and the files of the
/// MDT, without those of a server that is not connected. All OSTs have `least` bytes at least, and fewer of them have less.
pub(super) fn visit(least: u64, mut size: impl FnMut() -> Option<(u64, u64)>) -> Outcome {
    for _ in 0..TRIES {
        if size().is_some_and(|(bytes, files)| bytes >= least && files > 0) {
            return Outcome::Done;
        }
        std::thread::sleep(PAUSE);
    }
    Outcome::Failed(Errno::ETIMEDOUT)
}
