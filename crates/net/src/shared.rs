//! The state of a node that threads share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use fulmar_base::Time;
use fulmar_lnet_wire::Nid;
use fulmar_node::Node as Machine;
use tracing::error;

use crate::actions::Actions;
use crate::core::{Core, State};
use crate::counters::Counters;
use crate::failure::{End, Failure};
use crate::listener::Listener;
use crate::lock::Lock;
use crate::notices::Log;
use crate::queues::{Queues, ServiceRemains};
use crate::runtime::{self, Message};
use crate::tap::Tap;
use crate::thread::TimeoutHandler;
use crate::turn::in_handler;

/// The state of a node that threads share.
pub(crate) struct Shared {
    /// The key of the node in the tables of the threads.
    pub(crate) key: u64,
    pub(crate) runtime: Arc<runtime::Shared>,
    /// The thread that calls the node for its timeouts.
    pub(crate) home: usize,
    pub(crate) core: Lock<Core>,
    /// Locked after `core`, if both are.
    pub(crate) queues: Lock<Queues>,
    /// Whether the queues were full when something was added last; written under their lock.
    were_full: AtomicBool,
    /// Notified when a thread has handled the events of a service of a node that has ended.
    pub(crate) quiet: Condvar,
    pub(crate) counters: Counters,
    pub(crate) listeners: Lock<BTreeMap<IpAddr, ListenerUse>>,
    /// The CPTs of addresses whose connections are bound to some.
    pub(crate) cpts: Lock<BTreeMap<IpAddr, Vec<usize>>>,
    /// The types of service of addresses whose connections have one.
    pub(crate) tos: Lock<BTreeMap<IpAddr, u8>>,
    /// Network interfaces whose links are watched, and whether they are up.
    pub(crate) links: Lock<BTreeMap<Nid, bool>>,
    pub(crate) log: Log,
    /// Set before the callers that wait for answers are notified.
    pub(crate) end: End,
    /// The time for which the node's lock is held is measured.
    pub(crate) lock_times: bool,
}

/// What listens at an address.
pub(crate) struct ListenerUse {
    /// One for each port.
    pub(crate) listeners: Vec<Arc<Listener>>,
    /// How many network interfaces have the address.
    pub(crate) users: usize,
}

impl Shared {
    pub(crate) fn new(
        runtime: &Arc<runtime::Shared>,
        machine: Machine,
        name: String,
        tap: Option<Arc<dyn Tap>>,
        lock_times: bool,
    ) -> Arc<Self> {
        let key = runtime.next_key();
        let node = Arc::new(Self {
            key,
            runtime: runtime.clone(),
            home: key as usize % runtime.threads(),
            core: Lock::new(Core::new(machine, tap)),
            queues: Lock::default(),
            were_full: AtomicBool::new(false),
            quiet: Condvar::new(),
            counters: Counters::default(),
            listeners: Lock::default(),
            cpts: Lock::default(),
            tos: Lock::default(),
            links: Lock::default(),
            log: Log::new(name),
            end: End::default(),
            lock_times,
        });
        runtime.add(&node);
        node
    }

    /// Reads the guarded state.
    pub(crate) fn view<R>(&self, look: impl FnOnce(&Core) -> R) -> R {
        look(&self.core.lock())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.view(|core| core.state == State::Running)
    }

    /// Returns the I/O thread for a new connection at one of our addresses.
    pub(crate) fn assign(&self, local: IpAddr) -> usize {
        let cpts = self.cpts.lock();
        self.runtime.assign(cpts.get(&local).map(Vec::as_slice))
    }

    /// Returns the type of service of connections at one of our addresses.
    pub(crate) fn tos_at(&self, local: IpAddr) -> Option<u8> {
        self.tos.lock().get(&local).copied()
    }

    /// Records whether the queues are full.
    pub(crate) fn note_waiting(&self, queues: &Queues) {
        self.were_full.store(queues.is_full(), Ordering::Relaxed);
    }

    /// Returns whether so many events wait for their services that no more should be added.
    pub(crate) fn has_many_events(&self) -> bool {
        if !self.were_full.load(Ordering::Relaxed) {
            return false;
        }
        let queues = self.queues.lock();
        self.note_waiting(&queues);
        queues.is_full()
    }

    /// Ends the node: nothing of it is left in any thread when this returns.
    pub(crate) fn stop(self: &Arc<Self>) {
        let mut actions = Actions::default();
        self.end.set(Ok(()));
        let remains = self.core.lock().clear(State::Stopped, &mut actions);
        self.clear_queues();
        drop(remains);
        self.unlisten_all();
        self.carry_out(actions);
        self.runtime.leave(self.key);
    }

    /// Closes a node that has failed outside of its machine.
    pub(crate) fn fail(self: &Arc<Self>, failure: Failure) {
        let mut actions = Actions::default();
        self.close_failed(self.core.lock(), failure, &mut actions);
        self.carry_out(actions);
    }

    /// Closes a node that has failed, unless it has ended before.
    pub(crate) fn close_failed(
        &self,
        mut core: MutexGuard<'_, Core>,
        failure: Failure,
        actions: &mut Actions,
    ) {
        if core.state != State::Running {
            return;
        }
        error!(
            node = self.log.name(),
            "the node has failed and is closed: {failure}; this is a defect, please report it"
        );
        self.end.set(Err(failure));
        let remains = core.clear(State::Failed, actions);
        drop(core);
        let closed = self.queues.lock().clear();
        drop(remains);
        self.unlisten_all();
        closed.into_iter().for_each(ServiceRemains::finish);
    }

    fn unlisten_all(&self) {
        let listeners = std::mem::take(&mut *self.listeners.lock());
        for listener in listeners.into_values().flat_map(|at| at.listeners) {
            listener.close();
            self.runtime.post(self.home, Message::Unlisten(listener));
        }
    }

    /// Ends every service, and waits for the threads that handle events.
    fn clear_queues(&self) {
        let mut queues = self.queues.lock();
        let closed = queues.clear();
        if !in_handler() {
            while queues.busy() > 0 {
                queues = self.quiet.wait(queues).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(queues);
        closed.into_iter().for_each(ServiceRemains::finish);
    }
}

impl TimeoutHandler for Shared {
    fn key(&self) -> u64 {
        self.key
    }

    fn node(&self) -> &Shared {
        self
    }

    fn handle_timeout(self: Arc<Self>) {
        let _ = self.turn(|core, now: Time, _| core.handle_timeout(now));
    }
}
