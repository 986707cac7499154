//! The directory that is most likely listed next, whose names are read before it is opened.
//!
//! `ls -l` asks whether a directory has a default access control list, and then lists it: far away that is a round trip
//! in which the names can be on their way. It asks the same of each directory in a list and opens none of them, so
//! only one is read, and no other one until it is opened or was not for a while.
//!
//! Opening a directory reads its first names at the same time, if a lock protects them: they are
//! used only if none of them was lost before the kernel reads the directory. `ls -l` asks whether a
//! directory has a default access control list before it opens it: they are read then already
//! (`expected`), of one directory at a time, since it asks that of each directory in a list too.
//! What was read early is of the state of the directory that a number stands for: each loss of its
//! lock makes a new one, which no state of any file had before, so that a directory that was
//! forgotten meanwhile does not seem to be the same.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_client::Caller;
use fulmar_lustre_wire::Fid;
use futures_channel::oneshot::{self, Receiver, Sender};

use crate::directory::Position;

/// How long a directory is expected to be opened.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The directory, who is expected to open it, and its first names.
#[derive(Debug, Default)]
pub(crate) struct ExpectationSlot(Mutex<Option<Expectation>>);

#[derive(Debug)]
struct Expectation {
    directory: Fid,
    caller: Caller,
    since: Instant,
    names: Receiver<Position>,
}

impl ExpectationSlot {
    /// A directory is expected to be opened. Returns who wants to know its names, unless another one is expected.
    pub(crate) fn begin(
        &self,
        directory: Fid,
        caller: &Caller,
        now: Instant,
    ) -> Option<Sender<Position>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|one| now.saturating_duration_since(one.since) < TIMEOUT) {
            return None;
        }
        let (sender, names) = oneshot::channel();
        *slot = Some(Expectation { directory, caller: caller.clone(), since: now, names });
        Some(sender)
    }

    /// A directory is opened. Returns its names, which may be under way, if it was expected of this caller.
    pub(crate) fn take(&self, directory: Fid, caller: &Caller) -> Option<Receiver<Position>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = slot.take_if(|one| (one.directory, &one.caller) == (directory, caller));
        found.map(|found| found.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Fid = Fid { seq: 0x2_0000_0400, oid: 7, version: 0 };
    const B: Fid = Fid { seq: 0x2_0000_0400, oid: 8, version: 0 };

    #[test]
    fn one_directory_is_expected_until_it_is_opened_or_was_not() {
        let (expected, root, now) = (ExpectationSlot::default(), Caller::ROOT, Instant::now());
        assert!(expected.begin(A, &root, now).is_some());
        assert!(expected.begin(B, &root, now + TIMEOUT / 2).is_none(), "another one is");
        assert!(expected.take(B, &root).is_none());
        assert!(expected.take(A, &Caller::new(1, 1)).is_none(), "he may not read it");
        assert!(expected.take(A, &root).is_some() && expected.take(A, &root).is_none());
        assert!(expected.begin(B, &root, now).is_some());
        assert!(expected.begin(A, &root, now + TIMEOUT).is_some());
        assert!(expected.take(B, &root).is_none());
    }
}
