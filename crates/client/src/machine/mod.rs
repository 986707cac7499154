//! The machine of the mounts of a node: imports, locks, callbacks, and the operations that use them.
//!
//! ```text
//!  FileSystem ── operations (async) ──► Context ──► Core: imports, locks, caches ──► rpc::Client ──► LNet
//!                      ▲                               ▲                           rpc::Server (callbacks)
//!                      └────────── replies, locks ─────┘
//! ```
//!
//! An operation is an async function over a [`Context`]. The machine polls the operations where it
//! handles its inputs; they have no thread, and no clock but the machine's. What an operation has begun
//! goes on without a waiting caller.

mod batch;
pub(crate) mod context;
pub(crate) mod core;
mod debug_log;
pub(crate) mod enqueue;
mod flush;
mod long_waits;
pub(crate) mod peer;
pub(crate) mod replay;
pub(crate) mod requester;

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_base::{Errno, Rng, Time};
use fulmar_ldlm::client::LockId;
use fulmar_lnet::{Event, MdId, Service, ServiceConfig, ServiceOutput};
use fulmar_rpc::XidSource;
use fulmar_rpc::client::{Client, ImportId};
use fulmar_rpc::import::Sender;
use fulmar_tasks::{Task, Tasks};

use self::context::Context;
use self::core::Core;
pub(crate) use self::flush::Upcall;

/// A mount of a node. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MountId(pub(crate) u64);

/// The state of the machine, which operations use while the machine polls them.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Core>>);

impl Shared {
    /// Uses the state. Not across an await.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this thread polls operations of the machine, so that it cannot be called.
    pub(crate) fn is_polled_here(&self) -> bool {
        POLLED.get() == Arc::as_ptr(&self.0)
    }
}

thread_local! {
    /// The state of the machine whose operations this thread polls.
    static POLLED: Cell<*const Mutex<Core>> = const { Cell::new(std::ptr::null()) };
}

/// The mounts of a node, as a service of LNet.
pub(crate) struct Mounts {
    shared: Shared,
    tasks: Tasks,
}

/// What the machine needs of its node.
#[derive(Debug)]
pub(crate) struct MountsConfig {
    /// The XIDs of the node.
    pub(crate) xids: XidSource,
    /// Random numbers, other ones at each start.
    pub(crate) random: Rng,
    /// The time since 1970 when the machine's time was 0.
    pub(crate) epoch: Duration,
    /// Whom requests are from.
    pub(crate) sender: Sender,
}

impl Mounts {
    /// Options of the service for LNet.
    pub(crate) const CONFIG: ServiceConfig = Client::CONFIG;

    /// Returns a machine without mounts.
    pub(crate) fn new(config: MountsConfig) -> Self {
        Self { shared: Shared(Arc::new(Mutex::new(Core::new(config)))), tasks: Tasks::new() }
    }

    pub(crate) fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Begins an operation.
    pub(crate) fn spawn(&mut self, now: Time, operation: Task) {
        self.tasks.spawn(operation);
        self.follow(now);
    }

    /// What a lock covers was dropped outside too.
    pub(crate) fn flushed(&mut self, now: Time, import: ImportId, lock: LockId) {
        self.shared.core().flushed(now, import, lock);
        self.follow(now);
    }

    /// Does what the parts want of each other, until they want nothing.
    fn follow(&mut self, now: Time) {
        self.shared.core().now = now;
        loop {
            let before = POLLED.replace(Arc::as_ptr(&self.shared.0));
            let was_busy = self.tasks.poll();
            POLLED.set(before);
            let mut core = self.shared.core();
            let was_settled = !core.settle(now);
            let (spawned, errands) = (core.take_spawned(), core.take_errands());
            drop(core);
            if !was_busy && was_settled && spawned.is_empty() && errands.is_empty() {
                return;
            }
            spawned.into_iter().for_each(|task| self.tasks.spawn(task));
            for (mount, errand) in errands {
                let cx = Context::new(self.shared.clone(), mount);
                self.tasks.spawn(Box::pin(cx.run_errand(errand)));
            }
        }
    }
}

impl Service for Mounts {
    type Request = Upcall;

    fn handle_event(&mut self, now: Time, event: &Event, bytes: Vec<u8>) {
        self.shared.core().both().handle_event(now, event, bytes);
        self.follow(now);
    }

    fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        self.shared.core().both().handle_posted(now, user, result);
        self.follow(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.shared.core().handle_timeout(now);
        self.follow(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.shared.core().poll_timeout()
    }

    fn poll_output(&mut self) -> Option<ServiceOutput<Upcall>> {
        let mut core = self.shared.core();
        if let Some(upcall) = core.upcalls.pop_front() {
            return Some(ServiceOutput::Host(upcall));
        }
        match core.both().poll_output()? {
            ServiceOutput::Post(op) => Some(ServiceOutput::Post(op)),
            ServiceOutput::Host(wanted) => unreachable!("{wanted:?} was taken before"),
        }
    }
}

impl fmt::Debug for Mounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mounts, {:?}", self.tasks)
    }
}
