//! What operations can do.

use std::fmt;
use std::pin::pin;
use std::sync::MutexGuard;
use std::time::Duration;

use fulmar_base::{BufferId, Errno};
use fulmar_ldlm::client::{Covered, Extra, LockId, Start, Wanted};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{Flock, LockMode};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, RequestId};
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::core::{Core, Done};
use super::peer::{Build, Enqueued, LockWait, Outcome};
use super::{MountId, Shared};

/// The way from an operation of a mount to the machine.
#[derive(Clone)]
pub(crate) struct Context {
    shared: Shared,
    pub(crate) mount: MountId,
}

/// A use of a lock, which ends when it is dropped. Not to be dropped while the core is used.
#[must_use = "the use ends when it is dropped"]
pub(crate) struct Held {
    shared: Shared,
    import: ImportId,
    lock: LockId,
    cancels: bool,
}

/// A request for a lock that was executed.
pub(crate) struct Acquired {
    /// The lock, if there is one.
    pub(crate) held: Option<Held>,
    pub(crate) covered: Option<Covered>,
    /// What came with it; `None` if the lock was held already.
    pub(crate) extra: Option<Extra>,
    pub(crate) request: Option<RequestId>,
    pub(crate) reply: Option<Box<Message<'static>>>,
    /// The flock that is in the way of a test.
    pub(crate) conflict: Option<(LockMode, Flock)>,
}

impl Context {
    pub(crate) fn new(shared: Shared, mount: MountId) -> Self {
        Self { shared, mount }
    }

    /// Uses the state of the machine. Not across an await.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.shared.core()
    }

    /// Waits.
    pub(crate) async fn sleep(&self, time: Duration) {
        let waiting = self.core().sleep(time);
        let _ = waiting.await;
    }

    /// Begins an operation without a waiting caller.
    pub(crate) fn spawn(&self, operation: impl Future<Output = ()> + Send + 'static) {
        self.core().spawn(Box::pin(operation));
    }

    /// Sends a request, and waits for the reply.
    ///
    /// # Errors
    /// Why there is no reply, or the status of the reply if that is an error.
    pub(crate) async fn request(
        &self,
        import: ImportId,
        request: Request,
    ) -> Result<Box<Message<'static>>, Errno> {
        let done = self.request_with(import, request, None).await?;
        let reply = done.result?;
        match reply.body.status.errno() {
            Some(errno) => Err(errno),
            None => Ok(reply),
        }
    }

    /// The same with the memory of its bulk data, and with the reply also if its status is an error.
    pub(crate) async fn request_with(
        &self,
        import: ImportId,
        request: Request,
        buffer: Option<BufferId>,
    ) -> Result<Done, Errno> {
        let (_, waiting) = self.core().request(import, request, buffer).ok_or(Errno::ENODEV)?;
        waiting.await.map_err(|_| Errno::EIO)
    }

    /// Waits until a target is connected.
    ///
    /// # Errors
    /// Why it is not, as soon as it was found at none of its NIDs.
    pub(crate) async fn connected(&self, import: ImportId) -> Result<(), Errno> {
        loop {
            let waiting = {
                let mut core = self.core();
                let peer = core.peer_mut(import).ok_or(Errno::ENODEV)?;
                if peer.state == fulmar_rpc::import::State::Full {
                    return Ok(());
                }
                if let Some(errno) = peer.failure() {
                    return Err(errno);
                }
                peer.watch()
            };
            waiting.await.map_err(|_| Errno::EIO)?;
        }
    }

    /// Acquires a lock; `build` makes the request if one is necessary.
    ///
    /// # Errors
    /// Why the request was not executed.
    pub(crate) async fn acquire(
        &self,
        import: ImportId,
        wanted: Wanted,
        build: Option<Build>,
    ) -> Result<Acquired, Errno> {
        self.acquire_until(import, wanted, build, std::future::pending()).await
    }

    /// The same until `ends` is ready: then it fails with EINTR, and a lock that is granted afterwards is
    /// given up.
    pub(crate) async fn acquire_until(
        &self,
        import: ImportId,
        wanted: Wanted,
        build: Option<Build>,
        ends: impl Future<Output = ()> + Send,
    ) -> Result<Acquired, Errno> {
        let (lock, waiting) = {
            let mut core = self.core();
            let now = core.now;
            let peer = core.peer_mut(import).ok_or(Errno::ENODEV)?;
            let covered =
                Covered { resource: wanted.resource, mode: wanted.mode, policy: wanted.policy };
            match peer.locks.acquire(now, wanted)? {
                Start::Held(lock) => {
                    let covered = peer.locks.covered(lock).unwrap_or(covered);
                    drop(core);
                    return Ok(self.held_already(import, lock, covered));
                }
                Start::Sent(lock) => {
                    let (sender, receiver) = oneshot::channel();
                    let (request, reply) = (None, None);
                    let wait = LockWait { build, request, reply, waiting: sender };
                    peer.waits.insert(lock, wait);
                    (lock, receiver)
                }
            }
        };
        let ended = match select(waiting, pin!(ends)).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), waiting)) => {
                if let Some(peer) = self.core().peer_mut(import) {
                    peer.locks.interrupt(lock);
                }
                waiting.await
            }
        };
        let Enqueued { request, reply, outcome } = ended.map_err(|_| Errno::EIO)?;
        let (held, covered, extra, conflict) = match outcome {
            Outcome::Granted(lock, covered, extra) => {
                (Some(self.held(import, lock)), Some(covered), Some(extra), None)
            }
            Outcome::Nothing(extra) => (None, None, Some(extra), None),
            Outcome::Tested(conflict) => (None, None, None, conflict),
            Outcome::Failed(errno) => return Err(errno),
        };
        Ok(Acquired { held, covered, extra, request, reply, conflict })
    }

    fn held_already(&self, import: ImportId, lock: LockId, covered: Covered) -> Acquired {
        Acquired {
            held: Some(self.held(import, lock)),
            covered: Some(covered),
            extra: None,
            request: None,
            reply: None,
            conflict: None,
        }
    }

    fn held(&self, import: ImportId, lock: LockId) -> Held {
        Held { shared: self.shared.clone(), import, lock, cancels: false }
    }

    /// Gives up unused locks that a request is about to conflict with. Returns the handles that the
    /// request carries. Spec: ptlrpc-ldlm-mgs §23.3.
    pub(crate) async fn early(&self, import: ImportId, conflicts: &[Covered]) -> Vec<Handle> {
        /// The most that a request carries.
        const ROOM: usize = 32;
        let waiting = {
            let mut core = self.core();
            let now = core.now;
            let Some(peer) = core.peer_mut(import) else { return Vec::new() };
            let id = peer.locks.early_cancel(now, conflicts, ROOM);
            let (sender, waiting) = oneshot::channel();
            peer.early.insert(id, sender);
            waiting
        };
        waiting.await.unwrap_or_default()
    }
}

impl Held {
    /// Gives the lock up as soon as it has no other user.
    pub(crate) fn cancel(mut self) {
        self.cancels = true;
    }

    /// Returns the lock.
    pub(crate) fn id(&self) -> LockId {
        self.lock
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut core = self.shared.core();
        let now = core.now;
        if let Some(peer) = core.peer_mut(self.import) {
            if self.cancels {
                peer.locks.release_and_cancel(now, self.lock)
            } else {
                peer.locks.release(now, self.lock)
            };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context of {:?}", self.mount)
    }
}
