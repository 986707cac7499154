//! Locks of ranges of files.

use std::pin::pin;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::filesystem::FileSystem;
use crate::files::flock::FileLock;
use crate::files::operations::Op;

impl FileSystem {
    /// Locks a range of a file for a process. One round trip, or as long as others have it.
    ///
    /// # Errors
    /// EAGAIN if others have it and it is not waited for, EDEADLK, and what the server says.
    pub async fn lock(&self, file: Fid, lock: FileLock, waits: bool) -> Result<(), Errno> {
        let never = std::future::pending();
        self.counted(Op::Flock, move |cx| async move { cx.flock(file, lock, waits, never).await })
            .await
    }

    /// The same, waiting until `ends` is ready.
    ///
    /// # Errors
    /// As [`FileSystem::lock`], and EINTR if the wait was ended: then it is not locked.
    pub async fn lock_until(
        &self,
        file: Fid,
        lock: FileLock,
        ends: impl Future<Output = ()> + Send,
    ) -> Result<(), Errno> {
        let (end, ended) = oneshot::channel::<()>();
        let ended = async move {
            if ended.await.is_err() {
                std::future::pending().await
            }
        };
        let locked =
            pin!(self.counted(Op::Flock, move |cx| async move {
                cx.flock(file, lock, true, ended).await
            }));
        match select(locked, pin!(ends)).await {
            Either::Left((result, _)) => result,
            Either::Right(((), locked)) => {
                // The machine does not notice what happens outside.
                self.begin(|_| async move { end.send(()).unwrap_or_default() });
                locked.await
            }
        }
    }

    /// Unlocks a range of a file. One round trip.
    ///
    /// # Errors
    /// What the server says.
    pub async fn unlock(&self, file: Fid, lock: FileLock) -> Result<(), Errno> {
        self.counted(Op::Flock, move |cx| async move { cx.unflock(file, lock).await }).await
    }

    /// Returns a lock that is in the way of another one. One round trip.
    ///
    /// # Errors
    /// What the server says.
    pub async fn test_lock(&self, file: Fid, lock: FileLock) -> Result<Option<FileLock>, Errno> {
        self.counted(Op::Flock, move |cx| async move { cx.test_flock(file, lock).await }).await
    }
}
