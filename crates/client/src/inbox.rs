//! What the imports have reported, for the callers that wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fulmar_base::{BufferId, Errno};
use fulmar_lustre_wire::message::Message;
use fulmar_net::{Buffer, Host, Job, Memory, Service};
use fulmar_rpc::client::{Client, ImportId, Notice};
use fulmar_rpc::import::{RequestId, State};

/// What the imports have reported.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    reports: Mutex<Reports>,
    changed: Condvar,
    /// Where bulk data go, by its name. The next name is above all.
    memory: Mutex<BTreeMap<BufferId, Arc<Buffer>>>,
}

/// The reply to a request, or why there is none.
pub type Reply = Result<Box<Message<'static>>, Errno>;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) seen: BTreeMap<ImportId, ConnectionState>,
    pub(crate) replies: BTreeMap<(ImportId, RequestId), Reply>,
    /// The node has ended.
    is_closed: bool,
    /// No thread waits for connections and replies any more.
    pub(crate) is_interrupted: bool,
}

/// What an import has reported of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionState {
    /// Requests are sent.
    pub(crate) is_full: bool,
    /// There will be no connection, for this reason.
    pub(crate) closed: Option<Errno>,
    /// Why the last attempt failed.
    pub(crate) failure: Option<Errno>,
    /// How many attempts in succession have not found the target.
    pub(crate) failed: usize,
    /// How often requests could be sent again.
    pub(crate) connections: u64,
}

impl ConnectionState {
    fn take(&mut self, state: State) {
        self.connections += u64::from(state == State::Full && !self.is_full);
        self.is_full = state == State::Full;
        match state {
            State::Full => (self.failed, self.failure) = (0, None),
            State::Disconnected(errno) => {
                self.failure = Some(errno);
                // A target that starts or recovers is there: it is waited for.
                let is_there = matches!(errno, Errno::EBUSY | Errno::EAGAIN | Errno::EALREADY);
                self.failed += usize::from(!is_there);
            }
            State::Closed(errno) => self.closed = Some(errno),
            State::New | State::Connecting | State::Idle | State::Evicted => {}
            // Nothing of this client is replayed.
            State::Replay | State::ReplayLocks | State::ReplayWait | State::Recover => {}
        }
    }
}

impl Inbox {
    /// Gives memory for bulk data a name.
    pub(crate) fn lend(&self, buffer: Arc<Buffer>) -> BufferId {
        let mut memory = self.memory();
        let id = memory.last_key_value().map_or(BufferId(1), |(last, _)| BufferId(last.0 + 1));
        memory.insert(id, buffer);
        id
    }

    /// Receives a name back.
    pub(crate) fn take_back(&self, id: BufferId) {
        self.memory().remove(&id);
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<BufferId, Arc<Buffer>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what `find` finds, as soon as it is there; `None` at the deadline, or when the node
    /// has ended.
    pub(crate) fn wait<R>(
        &self,
        deadline: Instant,
        mut find: impl FnMut(&mut Reports) -> Option<R>,
    ) -> Option<R> {
        let mut reports = self.reports();
        loop {
            if let Some(found) = find(&mut reports) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || reports.is_closed {
                return None;
            }
            let waited = self.changed.wait_timeout(reports, left);
            reports = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that no thread waits for connections and replies any more.
    pub(crate) fn interrupt(&self) {
        self.reports().is_interrupted = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.reports().is_interrupted
    }

    /// Returns what an import has reported.
    pub(crate) fn seen(&self, import: ImportId) -> ConnectionState {
        self.reports().seen.get(&import).copied().unwrap_or_default()
    }

    /// Returns why an import has no connection, if that is known.
    pub(crate) fn failure(&self, import: ImportId) -> Option<Errno> {
        self.reports().seen.get(&import).and_then(|seen| seen.failure)
    }

    fn take(&self, notice: Notice) {
        let mut reports = self.reports();
        match notice {
            Notice::Done { import, request, result, .. } => {
                reports.replies.insert((import, request), result);
            }
            Notice::State { import, state } => reports.seen.entry(import).or_default().take(state),
            // This client opens no files, and writes none.
            Notice::Replayed { .. } | Notice::Released { .. } => {}
        }
        drop(reports);
        self.changed.notify_all();
    }
}

/// The host of the client machine.
#[derive(Debug)]
pub(crate) struct ClientHost(pub(crate) Arc<Inbox>);

impl Host for ClientHost {
    type Service = Client;

    fn memory(&self, buffer: BufferId) -> Option<Memory> {
        self.0.memory().get(&buffer).map(|buffer| Memory::from(&**buffer))
    }

    fn handle(&self, _: &Service, _: &mut Client, notice: Notice) -> Option<Job<Client>> {
        self.0.take(notice);
        None
    }

    fn closed(&self) {
        self.0.reports().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_do_not_find_the_target_are_counted() {
        let mut seen = ConnectionState::default();
        for state in [State::Connecting, State::Disconnected(Errno::EHOSTUNREACH)] {
            seen.take(state);
            seen.take(state);
        }
        assert_eq!((seen.failed, seen.failure), (2, Some(Errno::EHOSTUNREACH)));
        seen.take(State::Disconnected(Errno::EBUSY));
        assert_eq!((seen.failed, seen.failure), (2, Some(Errno::EBUSY)));
        seen.take(State::Full);
        assert_eq!(
            seen,
            ConnectionState { is_full: true, connections: 1, ..ConnectionState::default() }
        );
        seen.take(State::Closed(Errno::EACCES));
        assert_eq!((seen.is_full, seen.closed), (false, Some(Errno::EACCES)));
    }
}
