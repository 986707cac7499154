//! Locks that processes agree on: POSIX and BSD locks. Spec: mdt-ost §8.7, §22.9.

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::{Flock, LockFlags, LockMode, LockType, ResourceDesc, ResourceId};

use crate::machine::context::{Context, LockAnswer};
use crate::machine::enqueue::plain;
use crate::machine::peer::Build;

/// What a process locks of a file. Locks of one owner replace each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Whether others may have it too.
    pub is_exclusive: bool,
    /// The first byte.
    pub start: u64,
    /// The last byte; [`FileLock::END`] without an end.
    pub end: u64,
    /// Distinguishes owners on this client: of a POSIX lock the process, of a BSD lock the open file.
    pub owner: u64,
    /// The process, for information.
    pub pid: u32,
}

impl FileLock {
    /// The last byte of a lock without an end, such as one on a whole file.
    pub const END: u64 = i64::MAX as u64;

    fn policy(&self) -> Flock {
        let Self { start, end, owner, pid, .. } = *self;
        Flock { start, end, owner, pid }
    }

    fn mode(&self) -> LockMode {
        if self.is_exclusive { LockMode::PW } else { LockMode::PR }
    }
}

impl Context {
    /// Locks a range of a file for a process. One round trip, or as long as others have it, until `ends` is
    /// ready.
    ///
    /// # Errors
    /// EAGAIN if others have it and it is not waited for, EDEADLK, EINTR if the wait was ended.
    pub(crate) async fn flock(
        &self,
        fid: Fid,
        lock: FileLock,
        waits: bool,
        ends: impl Future<Output = ()> + Send,
    ) -> Result<(), Errno> {
        let flags = if waits { LockFlags::NONE } else { LockFlags::BLOCK_NOWAIT };
        let (mdt, wanted) = (self.mdt(fid).await?, wanted(fid, lock.mode(), lock.policy(), flags));
        self.acquire_until(mdt, wanted, Some(Build::alone(plain)), ends).await.map(drop)
    }

    /// Unlocks a range of a file. One round trip.
    pub(crate) async fn unflock(&self, fid: Fid, lock: FileLock) -> Result<(), Errno> {
        self.flock_request(fid, LockMode::NL, lock.policy(), LockFlags::NONE).await.map(drop)
    }

    /// Returns a lock that is in the way of another one. One round trip.
    pub(crate) async fn test_flock(
        &self,
        fid: Fid,
        lock: FileLock,
    ) -> Result<Option<FileLock>, Errno> {
        let flags = LockFlags::TEST_LOCK;
        let answer = self.flock_request(fid, lock.mode(), lock.policy(), flags).await?;
        Ok(answer.conflict.map(|(mode, Flock { start, end, owner, pid })| {
            let is_exclusive = mode == LockMode::PW;
            FileLock { is_exclusive, start, end, owner, pid }
        }))
    }

    async fn flock_request(
        &self,
        fid: Fid,
        mode: LockMode,
        policy: Flock,
        flags: LockFlags,
    ) -> Result<LockAnswer, Errno> {
        let (mdt, wanted) = (self.mdt(fid).await?, wanted(fid, mode, policy, flags));
        self.acquire(mdt, wanted, Some(Build::alone(plain))).await
    }
}

fn wanted(fid: Fid, mode: LockMode, policy: Flock, flags: LockFlags) -> LockSpec {
    let id = ResourceId::of_flock(fid);
    let resource = ResourceDesc { kind: LockType::FLOCK, id, ..ResourceDesc::default() };
    LockSpec::new(resource, mode, policy).always().with(flags)
}
