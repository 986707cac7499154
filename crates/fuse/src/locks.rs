//! Locks of processes and of open files.

use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use fulmar_base::Errno;
use fulmar_client::FileLock;
use fulmar_lustre_wire::Fid;
use fuser::{FileHandle, INodeNo, Request};
use futures_util::future::select;

use crate::front::Front;
use crate::options::FileLocks;
use crate::owners::{Owners, PendingClose};
use crate::replies::Reply;
use crate::state::State;

/// The types of locks in `fcntl`: to read, to write, none.
const READ: i32 = 0;
const WRITE: i32 = 1;
const NONE: i32 = 2;

/// Returns the lock that the kernel describes.
pub(crate) fn described(kind: i32, (start, end): (u64, u64), owner: u64, pid: u32) -> FileLock {
    let end = end.min(FileLock::END);
    FileLock { is_exclusive: kind == WRITE, start, end, owner, pid }
}

impl Front {
    /// Finds a lock that is in the way of another one.
    pub(crate) fn test_lock(
        &self,
        request: &Request,
        number: INodeNo,
        lock: FileLock,
        reply: fuser::ReplyLock,
    ) {
        if self.state.options.locks == FileLocks::Refused {
            return reply.fail(Errno::ENOSYS);
        }
        let file = self.state.fid(number);
        let test =
            |state: Arc<State>| async move { state.file_system.test_lock(file?, lock).await };
        self.run(request, reply, test, |reply, found: Option<FileLock>| match found {
            Some(lock) => {
                let kind = if lock.is_exclusive { WRITE } else { READ };
                reply.locked(lock.start, lock.end, kind, lock.pid);
            }
            None => reply.locked(0, 0, NONE, 0),
        });
    }

    /// Locks or unlocks a range of a file.
    pub(crate) fn lock(
        &self,
        request: &Request,
        (number, handle): (INodeNo, FileHandle),
        (kind, lock, waits): (i32, FileLock, bool),
        reply: fuser::ReplyEmpty,
    ) {
        if self.state.options.locks == FileLocks::Refused {
            return reply.fail(Errno::ENOSYS);
        }
        let file = self.state.fid(number);
        let ends = waits.then(|| self.state.interrupts.of(request.pid()));
        let set = |state: Arc<State>| async move {
            state.set_lock((file?, handle.0), (kind, lock), ends).await
        };
        self.run_apart(request, reply, set, |reply, ()| reply.ok());
    }
}

impl State {
    /// Uses the owners of locks. Not across an await.
    pub(crate) fn owners<R>(&self, call: impl FnOnce(&mut Owners) -> R) -> R {
        call(&mut self.owners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks or unlocks through an open file. Waits until `ends` is ready, without it not at all.
    pub(crate) async fn set_lock(
        &self,
        (file, handle): (Fid, u64),
        (kind, lock): (i32, FileLock),
        ends: Option<impl Future<Output = ()> + Send>,
    ) -> Result<(), Errno> {
        match kind {
            NONE => return self.file_system.unlock(file, lock).await,
            READ | WRITE => {}
            _ => return Err(Errno::EINVAL),
        }
        let who = (lock.owner, handle);
        let pending =
            |refused| self.owners(|owners| owners.pending(Instant::now(), file, who, refused));
        while let Some(pending) = pending(None) {
            self.released(pending).await;
        }
        self.owners(|owners| owners.lock(file, lock.owner, handle));
        if let Some(ends) = ends {
            return self.file_system.lock_until(file, lock, ends).await;
        }
        loop {
            let before = self.owners(|owners| owners.count_released(file));
            let locked = self.file_system.lock(file, lock, false).await;
            let refused = locked == Err(Errno::EAGAIN);
            let Some(pending) = refused.then(|| pending(Some(before))).flatten() else {
                return locked;
            };
            self.released(pending).await;
        }
    }

    /// Waits until locks were unlocked, or that need not be waited for any more.
    async fn released(&self, PendingClose { released, limit }: PendingClose) {
        match limit {
            Some(limit) => _ = select(released, pin!(self.file_system.sleep(limit))).await,
            None => _ = released.await,
        }
    }

    /// Unlocks all that an owner has of a file.
    pub(crate) async fn unlock_all(&self, file: Fid, owner: u64) -> Result<(), Errno> {
        self.file_system.unlock(file, described(NONE, (0, FileLock::END), owner, 0)).await
    }

    /// Unlocks what was locked through an open file that ends.
    pub(crate) async fn release_locks(&self, file: Fid, handle: u64) -> Result<(), Errno> {
        let ended = self.owners(|owners| owners.release(file, handle));
        let mut unlocked = Ok(());
        for owner in &ended {
            unlocked = self.unlock_all(file, *owner).await.and(unlocked);
        }
        if !ended.is_empty() {
            self.owners(|owners| owners.released(file, handle));
        }
        unlocked
    }
}
