//! What operations can do.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_ldlm::server::{Enqueue, IntentResult, Outcome, RequestId as LockRequestId};
use fulmar_lustre_wire::format::LOCK_REQUEST;
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, LockMode, LockReply, LockType, OstLvb, Policy, ResourceId,
};
use fulmar_lustre_wire::message::MessageFlags;
use fulmar_lustre_wire::{Handle, Status};
use fulmar_rpc::bulk::Bulk;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::service::{Request, RequestId};
use fulmar_store::Store;
use futures_channel::oneshot;

use crate::target::{Answer, Operation};

/// The way from an operation of a target to the machine.
#[derive(Clone)]
pub struct Context {
    commands: Arc<Commands>,
    target: TargetId,
}

/// What operations have requested of the machine, in order.
#[derive(Default)]
pub(crate) struct Commands(Mutex<VecDeque<(TargetId, Command)>>);

pub(crate) enum Command {
    Lock(LockRequest, oneshot::Sender<Result<LockGrant, Errno>>),
    Reduce(Handle, InodeBits),
    Unlock(Handle),
    GiveUp(Handle, Vec<Handle>),
    Enqueue(Box<Enqueue>, oneshot::Sender<LockAnswer>),
    Transfer(RequestId, Bulk, u32, oneshot::Sender<Result<u64, Errno>>),
    Changed(ResourceId, OstLvb),
    Used(Handle, ResourceId, Extent),
    Answer(RequestId, Answer),
    Evict(Handle),
    Run(Work),
    Durable(u64, oneshot::Sender<()>),
    Spawn(Operation<()>),
}

/// Work on a target's storage. It is run once, by any thread; then
/// [`Targets::resume`](crate::Targets::resume) is called.
pub struct Work {
    run: Box<dyn FnOnce() + Send>,
    is_brief: bool,
}

/// A lock that an operation wants for itself.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    /// The resource.
    pub resource: ResourceId,
    /// The type.
    pub kind: LockType,
    /// The mode.
    pub mode: LockMode,
    /// The part of the resource.
    pub policy: Policy,
    /// Whether it fails with EAGAIN if others have conflicting locks, and no holder is called back.
    pub is_immediate: bool,
    /// Whether the holders of other locks drop their data: the object goes.
    pub discards_data: bool,
}

impl LockRequest {
    /// Returns a lock that is waited for, and under which holders write their data back.
    pub fn new(resource: ResourceId, kind: LockType, mode: LockMode, policy: Policy) -> Self {
        let (is_immediate, discards_data) = (false, false);
        Self { resource, kind, mode, policy, is_immediate, discards_data }
    }
}

/// A lock that an operation gets, with its bits if it is on an inode.
pub(crate) type LockGrant = (Handle, InodeBits);

/// A lock of an operation, which ends when it is dropped.
#[derive(Debug)]
#[must_use = "a lock ends when it is dropped"]
pub struct Lock {
    /// `None` if it is a client's now.
    context: Option<Context>,
    handle: Handle,
    bits: InodeBits,
}

/// The answer of the lock manager to the enqueue of a client.
#[derive(Debug)]
pub struct LockAnswer {
    /// The status.
    pub status: Status,
    /// The reply.
    pub reply: Box<LockReply>,
    /// The attributes of the object.
    pub lvb: Option<OstLvb>,
}

impl Context {
    pub(crate) fn new(commands: Arc<Commands>, target: TargetId) -> Self {
        Self { commands, target }
    }

    /// Waits for a lock of the operation itself. Clients that have conflicting ones are called back.
    ///
    /// # Errors
    /// Why there is none: EINPROGRESS if too many wait, EAGAIN if it is not free and is wanted at once, or if only
    /// optional bits of an inode are wanted and none is free, ENODEV if the target ends.
    pub async fn lock(&self, wanted: LockRequest) -> Result<Lock, Errno> {
        let (sender, waiting) = oneshot::channel();
        self.push(Command::Lock(wanted, sender));
        let (handle, bits) = waiting.await.unwrap_or(Err(Errno::ENODEV))?;
        Ok(Lock { context: Some(self.clone()), handle, bits })
    }

    /// Gives up bits of a lock on an inode, but not all.
    pub fn give_up_bits(&self, lock: &mut Lock, bits: InodeBits) {
        lock.bits = lock.bits.without(bits);
        self.push(Command::Reduce(lock.handle, lock.bits));
    }

    /// Gives up locks of the client of a request, which it does not need any more.
    pub fn give_up(&self, request: &Request, locks: Vec<Handle>) {
        if !locks.is_empty() {
            self.push(Command::GiveUp(request.export, locks));
        }
    }

    /// Waits for the answer of the lock manager to a client's enqueue.
    ///
    /// # Errors
    /// EPROTO if the request has no lock request, ENODEV if the target ends.
    pub async fn enqueue(&self, request: &Request, outcome: Outcome) -> Result<LockAnswer, Errno> {
        let lock = request.message.require(&LOCK_REQUEST).map_err(|_| Errno::EPROTO)?;
        let enqueue = Enqueue {
            request: LockRequestId(request.id.0),
            export: request.export,
            lock,
            is_resent: request.message.body.flags.has(MessageFlags::RESENT),
            outcome,
        };
        let (sender, waiting) = oneshot::channel();
        self.push(Command::Enqueue(Box::new(enqueue), sender));
        waiting.await.map_err(|_| Errno::ENODEV)
    }

    /// Gives a client's enqueue the lock `lock` of the operation, with what was done about its intent.
    ///
    /// # Errors
    /// As [`Context::enqueue`].
    pub async fn replace(
        &self,
        request: &Request,
        mut lock: Lock,
        result: IntentResult,
    ) -> Result<LockAnswer, Errno> {
        lock.context = None;
        self.enqueue(request, Outcome::Replaced(lock.handle, result)).await
    }

    /// Moves the bulk data of a request, and returns how many bytes there were. The client has at most
    /// `parts_max` parts.
    ///
    /// # Errors
    /// Why not: then the request has no answer ([`Answer::None`]), so that the client sends it again.
    pub async fn transfer(
        &self,
        request: &Request,
        bulk: Bulk,
        parts_max: u32,
    ) -> Result<u64, Errno> {
        let (sender, waiting) = oneshot::channel();
        self.push(Command::Transfer(request.id, bulk, parts_max, sender));
        waiting.await.unwrap_or(Err(Errno::ENODEV))
    }

    /// Runs work that may wait for a disk.
    ///
    /// # Errors
    /// ENODEV if the target ends.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        self.work(false, work).await
    }

    /// Runs work that reads and changes some keys of a store, which takes microseconds as long as the
    /// store is quick ([`Store::is_quick`]).
    ///
    /// # Errors
    /// As [`Context::run`].
    pub async fn run_on_keys<T: Send + 'static>(
        &self,
        store: &Store,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        self.work(store.is_quick(), work).await
    }

    /// Runs work that reads a few pages of an object, which takes microseconds as long as they come from memory
    /// ([`Store::is_quick_to_read`]).
    ///
    /// # Errors
    /// As [`Context::run`].
    pub async fn run_to_read<T: Send + 'static>(
        &self,
        store: &Store,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        self.work(store.is_quick_to_read(), work).await
    }

    async fn work<T: Send + 'static>(
        &self,
        is_brief: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let (sender, waiting) = oneshot::channel();
        let run = move || {
            // No operation waits any more if the target ends.
            let _ = sender.send(work());
        };
        self.push(Command::Run(Work { run: Box::new(run), is_brief }));
        waiting.await.map_err(|_| Errno::ENODEV)
    }

    /// Waits until a transaction of the target's store is on disk. The store is asked to commit it soon.
    ///
    /// # Errors
    /// EIO if the store has ended, ENODEV if the target ends.
    pub async fn durable(&self, store: &Store, number: u64) -> Result<(), Errno> {
        store.want(number);
        let (sender, waiting) = oneshot::channel();
        self.push(Command::Durable(number, sender));
        waiting.await.map_err(|_| Errno::EIO)
    }

    /// Begins an operation without a waiting caller.
    pub fn spawn(&self, operation: impl Future<Output = ()> + Send + 'static) {
        self.push(Command::Spawn(Box::pin(operation)));
    }

    /// Says that an operation has changed the attributes that locks of an object carry.
    pub fn changed(&self, resource: ResourceId, lvb: OstLvb) {
        self.push(Command::Changed(resource, lvb));
    }

    /// Says that the client of a request reads or writes under locks that it has on `extent`: where
    /// others wait for them, it gets more time. Spec: ptlrpc-ldlm-mgs §22.6.
    pub fn used(&self, request: &Request, resource: ResourceId, extent: Extent) {
        self.push(Command::Used(request.export, resource, extent));
    }

    /// Evicts a client, as an administrator requests.
    pub fn evict(&self, export: Handle) {
        self.push(Command::Evict(export));
    }

    pub(crate) fn answer(&self, request: RequestId, answer: Answer) {
        self.push(Command::Answer(request, answer));
    }

    fn push(&self, command: Command) {
        self.commands.queue().push_back((self.target, command));
    }
}

impl Commands {
    pub(crate) fn pop(&self) -> Option<(TargetId, Command)> {
        self.queue().pop_front()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<(TargetId, Command)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    pub(crate) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self { run: Box::new(work), is_brief: false }
    }

    /// Returns whether it takes microseconds, so that a change of threads would cost more.
    pub fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Does it.
    pub fn run(self) {
        (self.run)();
    }
}

impl Lock {
    /// Returns the bits of a lock on an inode: those that were wanted, and those that were free.
    pub fn bits(&self) -> InodeBits {
        self.bits
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(context) = &self.context {
            context.push(Command::Unlock(self.handle));
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context of target {}", self.target.0)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}
