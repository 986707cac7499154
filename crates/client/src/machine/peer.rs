//! A target as a mount uses it: its import, and the locks that it has given.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::{Errno, Time};
use fulmar_ldlm::client::{Coverage, EarlyId, Extra, LockId, Namespace};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::{Flock, LockMode, LockRequest};
use fulmar_lustre_wire::message::Message;
use fulmar_rpc::import::{Request, RequestId, State, Stats, TargetKind};
use futures_channel::oneshot;

use super::MountId;
use super::batch::PartOfBatch;

/// A target of a mount.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Which mount it belongs to.
    pub(crate) mount: MountId,
    pub(crate) kind: TargetKind,
    /// By which it names this connection in callbacks.
    pub(super) connection: Handle,
    pub(crate) locks: Namespace,
    pub(crate) state: State,
    /// How often it has evicted this client: what was opened before is lost.
    pub(crate) evictions: u64,
    /// How many NIDs it has, and at how many of them it was not found since it was last connected.
    nids: usize,
    failed: usize,
    failure: Option<Errno>,
    /// The operations that wait for a lock.
    pub(super) waits: BTreeMap<LockId, LockWait>,
    /// The requests that are sent together as soon as no operation has another one.
    pub(super) batch: Vec<PartOfBatch>,
    pub(super) early: BTreeMap<EarlyId, oneshot::Sender<Vec<Handle>>>,
    pub(crate) shown: StatsOptions,
    /// Who wants to know that the state has changed.
    watchers: Vec<oneshot::Sender<()>>,
}

/// What an administrator has set of a target.
#[derive(Debug, Default)]
pub(crate) struct StatsOptions {
    /// Data are transferred without checksums.
    pub(crate) has_no_checksums: bool,
    /// When `stats` was cleared, since 1970.
    pub(crate) stats_begun: Option<Duration>,
    /// When `rpc_stats` was cleared, and what had been done by then.
    pub(crate) rpcs_begun: Option<(Duration, Stats)>,
}

/// Makes the request for a lock: its operation, and what else it needs besides the lock.
pub(crate) struct Build {
    pub(super) make: Box<dyn FnOnce(&LockRequest) -> Request + Send>,
    pub(super) in_batch: bool,
}

impl Build {
    /// The request is sent at once.
    pub(crate) fn alone(make: impl FnOnce(&LockRequest) -> Request + Send + 'static) -> Self {
        Self { make: Box::new(make), in_batch: false }
    }

    /// The request may be sent together with others of the same moment. It is an intent for attributes.
    pub(crate) fn in_batch(make: impl FnOnce(&LockRequest) -> Request + Send + 'static) -> Self {
        Self { make: Box::new(make), in_batch: true }
    }
}

/// An operation that waits for a lock.
pub(super) struct LockWait {
    pub(super) build: Option<Build>,
    /// The request and its reply, once they are known.
    pub(super) request: Option<RequestId>,
    pub(super) reply: Option<Box<Message<'static>>>,
    pub(super) waiting: oneshot::Sender<EnqueueOutcome>,
    /// When it began, unless the log has it, or a program locks a file, which may take any time.
    pub(super) since: Option<Time>,
}

impl std::fmt::Debug for LockWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a wait for request {:?}", self.request)
    }
}

/// How a request for a lock has ended.
pub(crate) struct EnqueueOutcome {
    pub(crate) request: Option<RequestId>,
    /// The reply: what an intent has found is in it.
    pub(crate) reply: Option<Box<Message<'static>>>,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Granted(LockId, Coverage, Extra),
    /// It was executed, and gave no lock.
    Nothing(Extra),
    /// The flock that is in the way.
    Tested(Option<(LockMode, Flock)>),
    Failed(Errno),
}

impl Peer {
    pub(super) fn new(
        mount: MountId,
        kind: TargetKind,
        connection: Handle,
        locks: Namespace,
        nids: usize,
    ) -> Self {
        Self {
            mount,
            kind,
            connection,
            locks,
            state: State::New,
            evictions: 0,
            nids,
            failed: 0,
            failure: None,
            waits: BTreeMap::new(),
            batch: Vec::new(),
            early: BTreeMap::new(),
            shown: StatsOptions::default(),
            watchers: Vec::new(),
        }
    }

    /// Handles a change of the state of the import.
    pub(super) fn set_state(&mut self, state: State) {
        self.state = state;
        match state {
            State::Full => (self.failed, self.failure) = (0, None),
            State::Disconnected(errno) => {
                self.failure = Some(errno);
                // A target that starts or recovers is there: it is waited for.
                let is_there = matches!(errno, Errno::EBUSY | Errno::EAGAIN | Errno::EALREADY);
                self.failed += usize::from(!is_there);
            }
            State::Evicted => self.evictions += 1,
            _ => {}
        }
        for watcher in self.watchers.drain(..) {
            let _ = watcher.send(());
        }
    }

    /// Returns what ends as soon as the state changes.
    pub(crate) fn watch(&mut self) -> oneshot::Receiver<()> {
        let (sender, waiting) = oneshot::channel();
        self.watchers.push(sender);
        waiting
    }

    /// Returns whether requests are sent, or will be as soon as the target has recovered.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(
            self.state,
            State::Full
                | State::Replay
                | State::ReplayLocks
                | State::ReplayWait
                | State::Recover
                | State::Evicted
        )
    }

    /// Returns why there is no connection, if the target was not found at any of its NIDs, or does not
    /// admit this client.
    pub(crate) fn failure(&self) -> Option<Errno> {
        match self.state {
            State::Closed(errno) => Some(errno),
            _ => self.failure.filter(|_| self.failed >= self.nids),
        }
    }
}
