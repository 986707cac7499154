//! What operations can do.

use std::fmt;
use std::pin::pin;
use std::sync::MutexGuard;
use std::time::Duration;

use fulmar_base::{BufferId, Errno};
use fulmar_ldlm::client::{Coverage, Extra, LockId, LockSpec, Start};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{Flock, LockMode, LockType};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, RequestId};
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::core::{Core, RequestResult};
use super::peer::{Build, EnqueueOutcome, LockWait, Outcome, Peer};
use super::requester::Requester;
use super::{MountId, Shared};

/// The way from an operation of a mount to the machine.
#[derive(Clone)]
pub(crate) struct Context {
    shared: Shared,
    pub(crate) mount: MountId,
}

/// A use of a lock, which ends when it is dropped. Not to be dropped while the core is used.
#[must_use = "the use ends when it is dropped"]
pub(crate) struct LockUse {
    shared: Shared,
    import: ImportId,
    lock: LockId,
    cancels: bool,
}

/// A request for a lock that was executed.
pub(crate) struct LockAnswer {
    /// The lock, if there is one.
    pub(crate) held: Option<LockUse>,
    pub(crate) covered: Option<Coverage>,
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
    ) -> Result<RequestResult, Errno> {
        let (id, waiting) = {
            let mut core = self.core();
            if is_interrupted() {
                buffer.into_iter().for_each(|buffer| core.drop_buffer(buffer));
                return Err(Errno::EINTR);
            }
            core.request(import, request, buffer).ok_or(Errno::ENODEV)?
        };
        self.until_withdrawn(import, waiting, |core| core.withdraw(import, id)).await
    }

    /// Waits for the end of a request. If its requester is interrupted, it is withdrawn as soon as it is not under way.
    async fn until_withdrawn<T>(
        &self,
        import: ImportId,
        mut waiting: oneshot::Receiver<T>,
        withdraw: impl Fn(&mut Core) -> bool,
    ) -> Result<T, Errno> {
        if let Some(requester) = Requester::current() {
            match select(waiting, pin!(requester.interrupted())).await {
                Either::Left((ended, _)) => return ended.map_err(|_| Errno::EIO),
                Either::Right(((), left)) => waiting = left,
            }
            while let Some(changed) = self.unless_withdrawn(import, &withdraw) {
                match select(waiting, changed).await {
                    Either::Left((ended, _)) => return ended.map_err(|_| Errno::EIO),
                    Either::Right((_, left)) => waiting = left,
                }
            }
        }
        waiting.await.map_err(|_| Errno::EIO)
    }

    /// Withdraws a request. If it is under way, returns what ends when the state of the connection changes.
    fn unless_withdrawn(
        &self,
        import: ImportId,
        withdraw: impl Fn(&mut Core) -> bool,
    ) -> Option<oneshot::Receiver<()>> {
        let mut core = self.core();
        if withdraw(&mut core) {
            return None;
        }
        core.peer_mut(import).map(Peer::watch)
    }

    /// An operation that is about to change what is cached goes on only if its requester still waits for it: it may have
    /// waited for long.
    pub(crate) fn check_requester(&self) -> Result<(), Errno> {
        if is_interrupted() { Err(Errno::EINTR) } else { Ok(()) }
    }

    /// Sends a request that is not waited for if the target is away, and returns the reply.
    pub(crate) async fn request_if_there(
        &self,
        import: ImportId,
        request: Request,
    ) -> Option<Box<Message<'static>>> {
        let gone = async {
            loop {
                let changed = {
                    let mut core = self.core();
                    core.peer_mut(import).filter(|peer| peer.is_connected()).map(Peer::watch)
                };
                let Some(changed) = changed else { return };
                let _ = changed.await;
            }
        };
        match select(pin!(gone), pin!(self.request(import, request))).await {
            Either::Left(((), _)) => None,
            Either::Right((reply, _)) => reply.ok(),
        }
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
        wanted: LockSpec,
        build: Option<Build>,
    ) -> Result<LockAnswer, Errno> {
        self.acquire_until(import, wanted, build, std::future::pending()).await
    }

    /// The same until `ends` is ready: then it fails with EINTR, and a lock that is granted afterwards is
    /// given up.
    pub(crate) async fn acquire_until(
        &self,
        import: ImportId,
        wanted: LockSpec,
        build: Option<Build>,
        ends: impl Future<Output = ()> + Send,
    ) -> Result<LockAnswer, Errno> {
        let (lock, waiting) = {
            let mut core = self.core();
            let now = core.now;
            let peer = core.peer_mut(import).ok_or(Errno::ENODEV)?;
            let covered =
                Coverage { resource: wanted.resource, mode: wanted.mode, policy: wanted.policy };
            if is_interrupted() {
                return Err(Errno::EINTR);
            }
            let is_flock = wanted.resource.kind == LockType::FLOCK;
            match peer.locks.acquire(now, wanted)? {
                Start::Held(lock) => {
                    let covered = peer.locks.covered(lock).unwrap_or(covered);
                    drop(core);
                    return Ok(self.held_already(import, lock, covered));
                }
                Start::Sent(lock) => {
                    let (sender, receiver) = oneshot::channel();
                    let (request, reply) = (None, None);
                    let since = (!is_flock).then_some(now);
                    let wait = LockWait { build, request, reply, waiting: sender, since };
                    peer.waits.insert(lock, wait);
                    core.expect_long_waits();
                    (lock, receiver)
                }
            }
        };
        let withdraw = move |core: &mut Core| core.withdraw_enqueue(import, lock);
        let waiting = pin!(self.until_withdrawn(import, waiting, withdraw));
        let ended = match select(waiting, pin!(ends)).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), waiting)) => {
                if let Some(peer) = self.core().peer_mut(import) {
                    peer.locks.interrupt(lock);
                }
                waiting.await
            }
        };
        let EnqueueOutcome { request, reply, outcome } = ended?;
        let (held, covered, extra, conflict) = match outcome {
            Outcome::Granted(lock, covered, extra) => {
                (Some(self.held(import, lock)), Some(covered), Some(extra), None)
            }
            Outcome::Nothing(extra) => (None, None, Some(extra), None),
            Outcome::Tested(conflict) => (None, None, None, conflict),
            Outcome::Failed(errno) => return Err(errno),
        };
        Ok(LockAnswer { held, covered, extra, request, reply, conflict })
    }

    fn held_already(&self, import: ImportId, lock: LockId, covered: Coverage) -> LockAnswer {
        LockAnswer {
            held: Some(self.held(import, lock)),
            covered: Some(covered),
            extra: None,
            request: None,
            reply: None,
            conflict: None,
        }
    }

    fn held(&self, import: ImportId, lock: LockId) -> LockUse {
        LockUse { shared: self.shared.clone(), import, lock, cancels: false }
    }

    /// Gives up unused locks that a request is about to conflict with. Returns the handles that the
    /// request carries. Spec: ptlrpc-ldlm-mgs §23.3.
    pub(crate) async fn early(&self, import: ImportId, conflicts: &[Coverage]) -> Vec<Handle> {
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

/// Returns whether the requester of the operation that this thread polls has gone away.
fn is_interrupted() -> bool {
    Requester::current().is_some_and(|requester| requester.is_interrupted())
}

impl LockUse {
    /// Gives the lock up as soon as it has no other user.
    pub(crate) fn cancel(mut self) {
        self.cancels = true;
    }

    /// Returns the lock.
    pub(crate) fn id(&self) -> LockId {
        self.lock
    }
}

impl Drop for LockUse {
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
