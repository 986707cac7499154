//! Locks of processes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use fulmar_base::Errno;
use fulmar_client::{FileLock, FileSystem};
use fulmar_lustre_wire::Fid;

/// The types of locks in `fcntl`: to read, to write, none.
pub(crate) const READ: i32 = 0;
pub(crate) const WRITE: i32 = 1;
pub(crate) const NONE: i32 = 2;

/// Who may have locks, to unlock them when a file is closed.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<BTreeSet<(Fid, u64)>>);

/// Returns the lock that the kernel describes.
pub(crate) fn described(kind: i32, (start, end): (u64, u64), owner: u64, pid: u32) -> FileLock {
    let end = end.min(FileLock::END);
    FileLock { is_exclusive: kind == WRITE, start, end, owner, pid }
}

impl Owners {
    /// Locks or unlocks. Waits until `ends` is ready, without it not at all.
    pub(crate) async fn set(
        &self,
        file_system: &FileSystem,
        file: Fid,
        (kind, lock): (i32, FileLock),
        ends: Option<impl Future<Output = ()> + Send>,
    ) -> Result<(), Errno> {
        match kind {
            NONE => file_system.unlock(file, lock).await,
            READ | WRITE => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((file, lock.owner));
                match ends {
                    Some(ends) => file_system.lock_until(file, lock, ends).await,
                    None => file_system.lock(file, lock, false).await,
                }
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns whether an owner may have locks of a file.
    pub(crate) fn may_have_locks(&self, file: Fid, owner: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&(file, owner))
    }

    /// Unlocks all that an owner has of a file.
    pub(crate) async fn release(
        &self,
        file_system: &FileSystem,
        file: Fid,
        owner: u64,
    ) -> Result<(), Errno> {
        let had = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(file, owner));
        if had {
            file_system.unlock(file, described(NONE, (0, FileLock::END), owner, 0)).await
        } else {
            Ok(())
        }
    }
}
