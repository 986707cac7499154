//! Who may have locks of files, and through which open files.
//!
//! The kernel tells the end of a process's locks by FLUSH, at each close of a descriptor. Other locks are those of an open
//! file, and end with it, by RELEASE. `close` does not wait for that: a process may try to lock the file again
//! before this mount has handled the RELEASE, or may have an open file whose owner has the number of the one
//! that was closed, since that is an address of the kernel. So such a lock waits for a RELEASE that may follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fulmar_lustre_wire::Fid;
use futures_channel::oneshot;

/// Until when after a FLUSH its RELEASE has come, if it was the last one.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The owners of the locks of all files.
#[derive(Debug, Default)]
pub(crate) struct Owners(BTreeMap<Fid, FileOwners>);

#[derive(Debug, Default)]
struct FileOwners {
    /// The open files through which each owner has locked something.
    locked: BTreeMap<u64, BTreeSet<u64>>,
    /// The open files with locks of their own of which a descriptor was closed, and when.
    closed: BTreeMap<u64, Instant>,
    /// Those whose locks are being unlocked, and the owners of these.
    releasing: BTreeMap<u64, Vec<u64>>,
    /// How many of those are unlocked.
    released: u64,
    /// The locks that wait for the next one.
    waiting: Vec<oneshot::Sender<()>>,
}

/// The end of an open file may be under way.
#[derive(Debug)]
pub(crate) struct PendingClose {
    /// Is ready when locks were unlocked.
    pub(crate) released: oneshot::Receiver<()>,
    /// How long to wait for it, if that has a limit.
    pub(crate) limit: Option<Duration>,
}

impl Owners {
    /// An owner locks something through an open file.
    pub(crate) fn lock(&mut self, file: Fid, owner: u64, handle: u64) {
        self.0.entry(file).or_default().locked.entry(owner).or_default().insert(handle);
    }

    /// Returns how many open files have ended, whose locks may be in the way of one that is about to be tried.
    pub(crate) fn count_released(&self, file: Fid) -> u64 {
        self.0.get(&file).map_or(0, |owners| owners.released)
    }

    /// A process closes a descriptor of an open file. Returns whether it may have locks of the file, which end.
    pub(crate) fn close(&mut self, now: Instant, file: Fid, owner: u64, handle: u64) -> bool {
        let Some(owners) = self.0.get_mut(&file) else { return false };
        let had = owners.locked.remove(&owner).is_some();
        if owners.locked.values().any(|handles| handles.contains(&handle)) {
            owners.closed.insert(handle, now);
        }
        self.forget_unused(file);
        had
    }

    /// An open file ends. Returns the owners whose locks end with it; [`Owners::released`] follows.
    pub(crate) fn release(&mut self, file: Fid, handle: u64) -> Vec<u64> {
        let Some(owners) = self.0.get_mut(&file) else { return Vec::new() };
        owners.closed.remove(&handle);
        let mut ended = Vec::new();
        owners.locked.retain(|owner, handles| {
            let is_last = handles.remove(&handle) && handles.is_empty();
            ended.extend(is_last.then_some(*owner));
            !is_last
        });
        if !ended.is_empty() {
            owners.releasing.insert(handle, ended.clone());
        }
        self.forget_unused(file);
        ended
    }

    /// The locks of an open file are unlocked.
    pub(crate) fn released(&mut self, file: Fid, handle: u64) {
        let Some(owners) = self.0.get_mut(&file) else { return };
        owners.releasing.remove(&handle);
        owners.released += 1;
        for waiting in owners.waiting.drain(..) {
            let _ = waiting.send(());
        }
        self.forget_unused(file);
    }

    /// Returns what a lock of an owner through an open file is to wait for, if another open file may be about to
    /// end: one that has locked as the same owner, or if the lock was refused any. `refused` is what
    /// [`Owners::count_released`] was before it was tried.
    pub(crate) fn pending(
        &mut self,
        now: Instant,
        file: Fid,
        (owner, handle): (u64, u64),
        refused: Option<u64>,
    ) -> Option<PendingClose> {
        let owners = self.0.get_mut(&file)?;
        owners.closed.retain(|_, closed| now.duration_since(*closed) < RELEASE_TIMEOUT);
        owners.waiting.retain(|waiting| !waiting.is_canceled());
        let has_released = refused.is_some_and(|before| before != owners.released);
        let refused = refused.is_some();
        let is_releasing = owners.releasing.values().any(|all| refused || all.contains(&owner));
        let same = owners.locked.get(&owner);
        let concerns = |(other, _): &(&u64, &Instant)| {
            **other != handle && (refused || same.is_some_and(|handles| handles.contains(other)))
        };
        let last = owners.closed.iter().filter(concerns).map(|(_, closed)| *closed).max();
        if !has_released && !is_releasing && last.is_none() {
            return None;
        }
        let (sender, released) = oneshot::channel();
        if has_released {
            let _ = sender.send(());
        } else {
            owners.waiting.push(sender);
        }
        // What is being unlocked ends when the server has answered.
        let limit = last.filter(|_| !is_releasing);
        let limit = limit.map(|at| RELEASE_TIMEOUT.saturating_sub(now.duration_since(at)));
        Some(PendingClose { released, limit })
    }

    fn forget_unused(&mut self, file: Fid) {
        let is_unused =
            |owners: &FileOwners| owners.locked.is_empty() && owners.releasing.is_empty();
        if self.0.get(&file).is_some_and(is_unused) {
            self.0.remove(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Fid = Fid { seq: 1, oid: 2, version: 0 };

    fn owners(locked: &[(u64, u64)]) -> Owners {
        let mut owners = Owners::default();
        locked.iter().for_each(|(owner, handle)| owners.lock(FILE, *owner, *handle));
        owners
    }

    fn is_pending(owners: &mut Owners, now: Instant, who: (u64, u64), refused: bool) -> bool {
        let refused = refused.then(|| owners.count_released(FILE));
        owners.pending(now, FILE, who, refused).is_some()
    }

    #[test]
    fn locks_of_a_process_end_with_a_close_and_those_of_an_open_file_with_its_end() {
        let now = Instant::now();
        let mut owners = owners(&[(7, 1), (7, 2), (8, 1), (9, 2)]);
        assert!(owners.close(now, FILE, 7, 1));
        assert!(!owners.close(now, FILE, 7, 2), "they have ended already");
        assert_eq!(owners.release(FILE, 1), [8]);
        owners.released(FILE, 1);
        assert!(owners.release(FILE, 1).is_empty());
        assert_eq!(owners.release(FILE, 2), [9]);
        owners.released(FILE, 2);
        assert!(owners.0.is_empty());
    }

    #[test]
    fn a_refused_lock_waits_until_an_open_file_that_was_closed_has_ended() {
        let now = Instant::now();
        let mut owners = owners(&[(8, 1)]);
        assert!(!is_pending(&mut owners, now, (9, 2), true), "it is open");
        owners.close(now, FILE, 100, 1);
        owners.lock(FILE, 9, 2);
        let pending = owners.pending(now, FILE, (9, 2), Some(0)).unwrap();
        assert_eq!(pending.limit, Some(RELEASE_TIMEOUT));
        owners.release(FILE, 1);
        let mut pending = owners.pending(now, FILE, (9, 2), Some(0)).unwrap();
        assert_eq!((pending.limit, pending.released.try_recv()), (None, Ok(None)));
        owners.released(FILE, 1);
        assert_eq!(pending.released.try_recv(), Ok(Some(())));
        // The lock may have been refused before that.
        let mut pending = owners.pending(now, FILE, (9, 2), Some(0)).unwrap();
        assert_eq!(pending.released.try_recv(), Ok(Some(())));
        assert!(!is_pending(&mut owners, now, (9, 2), true));
    }

    #[test]
    fn an_open_file_that_stays_open_is_not_waited_for_again() {
        let now = Instant::now();
        let mut owners = owners(&[(8, 1)]);
        owners.close(now, FILE, 100, 1);
        let later = now + RELEASE_TIMEOUT;
        assert!(!is_pending(&mut owners, later, (9, 2), true));
        // Its own locks are not in its way.
        owners.close(later, FILE, 100, 1);
        assert!(!is_pending(&mut owners, later, (8, 1), true));
    }

    #[test]
    fn an_owner_with_the_number_of_a_closed_one_waits_for_its_end() {
        let now = Instant::now();
        let mut owners = owners(&[(8, 1)]);
        assert!(!is_pending(&mut owners, now, (8, 2), false));
        owners.close(now, FILE, 100, 1);
        assert!(is_pending(&mut owners, now, (8, 2), false));
        assert!(!is_pending(&mut owners, now, (9, 2), false));
        // If it did not end, the new open file keeps the locks.
        owners.lock(FILE, 8, 2);
        assert!(owners.release(FILE, 1).is_empty());
        assert_eq!(owners.release(FILE, 2), [8]);
    }
}
