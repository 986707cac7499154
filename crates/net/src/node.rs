//! One node at work: a call into its machine, and what comes of it.
//!
//! ```text
//! turn:  lock { call the machine; collect what it wants done } -> Todo
//!        loop {
//!            dial, write, copy, answer; call handlers         (without the lock)
//!            lock { report what became of that; collect }      -> Todo
//!        } until there is nothing to report
//! ```
//!
//! Any thread takes turns: an I/O thread when a socket has something, an application's when it calls
//! the API. Handlers are called by one thread at a time, in the order of the events: whichever finds
//! events and nobody who calls handlers. What a handler asks for is done when the handlers of the
//! batch have returned, so that many small messages leave by one system call.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_base::{Errno, Time};
use fulmar_lnet::EventDone;
use fulmar_lnet_wire::Nid;
use fulmar_node::Node as Machine;
use smallvec::{SmallVec, smallvec};
use tracing::error;

use crate::buffer::Table;
use crate::core::{Core, Delivery, LoopCopy, Report, Seldom, State, Todo};
use crate::counters::Counters;
use crate::dial;
use crate::listener::Listener;
use crate::lock::Lock;
use crate::notices::Log;
use crate::runtime::{self, Message};
use crate::selftest::Job;
use crate::tap::Tap;

/// A node, as the threads share it.
pub(crate) struct Shared {
    /// Names the node in the tables of the threads.
    pub(crate) key: u64,
    pub(crate) runtime: Arc<runtime::Shared>,
    /// The thread that calls the node for its timeouts.
    pub(crate) home: usize,
    core: Lock<Core>,
    /// Told when a thread stops calling handlers of a node that has ended.
    quiet: Condvar,
    pub(crate) table: Arc<Table>,
    pub(crate) counters: Counters,
    /// By address, with the number of network interfaces that have it.
    pub(crate) listeners: Lock<BTreeMap<IpAddr, (Arc<Listener>, usize)>>,
    /// Network interfaces whose links are watched, and whether they are up.
    pub(crate) links: Lock<BTreeMap<Nid, bool>>,
    log: Log,
}

thread_local! {
    /// The nodes whose handlers this thread is calling, innermost last, and what the handlers'
    /// calls want done.
    static HANDLING: RefCell<Vec<(u64, Todo)>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether this thread is calling a handler.
pub(crate) fn in_handler() -> bool {
    HANDLING.with_borrow(|levels| !levels.is_empty())
}

impl Shared {
    pub(crate) fn new(
        runtime: &Arc<runtime::Shared>,
        machine: Machine,
        name: String,
        tap: Option<Arc<dyn Tap>>,
    ) -> Arc<Self> {
        let key = runtime.next_key();
        Arc::new(Self {
            key,
            runtime: runtime.clone(),
            home: key as usize % runtime.threads(),
            core: Lock::new(Core::new(machine, tap)),
            quiet: Condvar::new(),
            table: Arc::default(),
            counters: Counters::default(),
            listeners: Lock::default(),
            links: Lock::default(),
            log: Log::new(name),
        })
    }

    /// Calls into the machine, and does what comes of it.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if its machine has failed.
    pub(crate) fn turn<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&mut Core, Time, &mut Todo) -> R,
    ) -> Result<R, Errno> {
        let mut todo = Todo::default();
        let result = self.locked(&mut todo, Take::IfFree, call);
        self.carry_out(todo);
        result
    }

    /// Looks at the machine without changing it.
    pub(crate) fn view<R>(&self, look: impl FnOnce(&Core) -> R) -> R {
        look(&self.core.lock())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.view(|core| core.state == State::Running)
    }

    /// Writes what waits, and does what comes of it.
    pub(crate) fn flush(self: &Arc<Self>, conn: &Arc<crate::conn::Conn>) {
        self.carry_out(Todo { flush: smallvec![conn.clone()], ..Todo::default() });
    }

    /// Calls the machine under the lock. A panic in there costs this node, and no other.
    fn locked<R>(
        self: &Arc<Self>,
        todo: &mut Todo,
        take: Take,
        call: impl FnOnce(&mut Core, Time, &mut Todo) -> R,
    ) -> Result<R, Errno> {
        let mut core = self.core.lock();
        match core.state {
            State::Running => {}
            State::Failed => return Err(Errno::EIO),
            State::Stopped => return Err(Errno::ESHUTDOWN),
        }
        let now = self.runtime.now();
        let called = catch_unwind(AssertUnwindSafe(|| {
            let result = call(&mut core, now, todo);
            core.drain(now, todo, &self.table, &self.runtime);
            core.arm(todo);
            result
        }));
        match called {
            Ok(result) => {
                if take == Take::Mine || (take == Take::IfFree && !core.dispatching) {
                    todo.events = std::mem::take(&mut core.events);
                    core.dispatching = !todo.events.is_empty();
                }
                Ok(result)
            }
            Err(_) => {
                let remains = core.clear(State::Failed, todo);
                drop(core);
                drop(remains);
                error!(
                    node = self.key,
                    "the node has failed and is closed: a bug, please report it"
                );
                Err(Errno::EIO)
            }
        }
    }

    /// Does what `todo` says, reports it, and goes on until nothing comes of it.
    fn carry_out(self: &Arc<Self>, mut todo: Todo) {
        if self.leave_to_outer(&mut todo) {
            return;
        }
        let mut dispatch = Dispatch::default();
        loop {
            dispatch.active |= !todo.events.is_empty();
            dispatch.pending.append(&mut todo.events);
            let mut report = Report::default();
            self.perform(&mut todo, &mut report);
            if dispatch.active {
                todo = self.call_handlers(&mut dispatch.pending, &mut report.handled);
                self.perform(&mut todo, &mut report);
                dispatch.rounds += 1;
                if dispatch.rounds == ROUNDS_MAX {
                    self.stop_dispatching(&mut dispatch);
                    dispatch.retired = true;
                }
            }
            let take = dispatch.take();
            if report.is_empty() && take != Take::Mine {
                if dispatch.pending.is_empty() {
                    break;
                }
                continue;
            }
            let reported = self.locked(&mut todo, take, |core, now, todo| {
                core.report(now, report, todo);
            });
            if reported.is_err() {
                self.stop_dispatching(&mut dispatch);
                self.perform(&mut todo, &mut Report::default());
                return;
            }
            if take == Take::Mine && todo.events.is_empty() {
                dispatch.active = false;
            }
        }
        if dispatch.retired {
            self.runtime.post(self.home, Message::Dispatch(self.clone()));
        }
    }

    /// In a handler of this node, leaves `todo` to the turn that called the handler.
    fn leave_to_outer(&self, todo: &mut Todo) -> bool {
        HANDLING.with_borrow_mut(|levels| {
            let outer = levels.iter_mut().rev().find(|(key, _)| *key == self.key);
            outer.map(|(_, outer)| outer.merge(std::mem::take(todo))).is_some()
        })
    }

    /// Does everything but calling handlers.
    fn perform(self: &Arc<Self>, todo: &mut Todo, report: &mut Report) {
        if let Some(seldom) = todo.seldom.as_mut() {
            self.dial(std::mem::take(&mut seldom.dial), report);
        }
        for conn in todo.flush.drain(..) {
            let flushed = conn.flush(&self.counters);
            if flushed.finished || (flushed.error.is_some() && conn.is_ended()) {
                let message = Message::Forget { conn: conn.clone(), linger: false };
                self.runtime.post(conn.thread, message);
            }
            if flushed.sent > 0 {
                self.runtime.watch.written(self, &conn);
            }
            if flushed.sent > 0 || flushed.error.is_some() {
                report.flushed.push((conn, flushed));
            }
        }
        if let Some(seldom) = todo.seldom.take() {
            self.perform_seldom(*seldom, report);
        }
        if let Some(at) = todo.arm.take() {
            self.runtime.post(self.home, Message::Arm(self.clone(), at));
        }
    }

    /// Begins to open connections.
    fn dial(
        self: &Arc<Self>,
        dials: Vec<(Arc<crate::conn::Conn>, IpAddr, SocketAddr)>,
        report: &mut Report,
    ) {
        for (conn, local, remote) in dials {
            match dial::dial(local, remote, &self.runtime.unprivileged) {
                Ok(socket) => {
                    conn.set_socket(socket);
                    let thread = conn.thread;
                    let message = Message::Register { node: self.clone(), conn, dialling: true };
                    self.runtime.post(thread, message);
                }
                Err(errno) => report.not_dialled.push((conn, errno)),
            }
        }
    }

    /// Does what is seldom to be done, but for dialling, which comes first.
    fn perform_seldom(self: &Arc<Self>, seldom: Seldom, report: &mut Report) {
        for (conn, linger) in seldom.close {
            self.runtime.post(conn.thread, Message::Forget { conn, linger });
        }
        for conn in seldom.resume {
            self.runtime.post(conn.thread, Message::Resume(conn));
        }
        if !seldom.copy.is_empty() {
            // Not here and now: what a node sends to itself may go on for ever.
            self.runtime.post(self.home, Message::Copy(self.clone(), seldom.copy));
        }
        for answer in seldom.answers {
            answer();
        }
        drop(seldom.released);
        report.outcomes.extend(seldom.jobs.into_iter().map(Job::run));
        if !seldom.notices.is_empty() {
            self.log.write(self.runtime.now(), seldom.notices, &self.counters);
        }
    }

    /// Copies what the node sends to itself.
    pub(crate) fn copy(self: &Arc<Self>, copies: Vec<LoopCopy>) {
        for (_, ends) in &copies {
            if let Some((from, to)) = ends {
                to.region.copy_from(to.offset, &from.region, from.offset, to.len);
                self.counters.payload_bytes_looped.add(to.len);
            }
        }
        let _ = self.turn(|core, now, _| {
            for (copy, _) in copies {
                core.machine.handle_copied(now, copy);
            }
        });
    }

    /// Calls handlers for a while, and returns what they want done.
    fn call_handlers(
        self: &Arc<Self>,
        pending: &mut VecDeque<Delivery>,
        handled: &mut SmallVec<[EventDone; 4]>,
    ) -> Todo {
        HANDLING.with_borrow_mut(|levels| levels.push((self.key, Todo::default())));
        let node = crate::Node(self.clone());
        let started = Instant::now();
        let mut count = 0;
        while let Some(Delivery { event, handler, .. }) = pending.pop_front() {
            count += 1;
            let called = catch_unwind(AssertUnwindSafe(|| handler.handle(&node, &event)));
            if called.is_err() {
                self.counters.handler_panics.add(1);
                error!(
                    node = self.log.name(),
                    ?event,
                    "a handler panicked; its event counts as handled"
                );
            }
            handled.extend(event.done);
            if started.elapsed() > BATCH_TIME_MAX {
                break;
            }
        }
        self.counters.events.add(count);
        let (_, todo) = HANDLING.with_borrow_mut(Vec::pop).expect("just pushed");
        todo
    }

    /// Puts back the events that were taken, for another thread.
    fn stop_dispatching(&self, dispatch: &mut Dispatch) {
        if !std::mem::take(&mut dispatch.active) {
            return;
        }
        let mut pending = std::mem::take(&mut dispatch.pending);
        let mut core = self.core.lock();
        core.dispatching = false;
        if core.state == State::Running {
            pending.append(&mut core.events);
            core.events = std::mem::take(&mut pending);
        }
        drop(core);
        drop(pending);
        self.quiet.notify_all();
    }

    /// Ends the node: nothing of it is left in any thread when this returns.
    pub(crate) fn stop(self: &Arc<Self>) {
        let mut todo = Todo::default();
        let mut core = self.core.lock();
        let remains = core.clear(State::Stopped, &mut todo);
        if !in_handler() {
            core = self.wait_until_quiet(core);
        }
        drop(core);
        drop(remains);
        let listeners = std::mem::take(&mut *self.listeners.lock());
        for (listener, _) in listeners.into_values() {
            self.runtime.post(self.home, Message::Unlisten(listener));
        }
        self.carry_out(todo);
        self.runtime.leave(self.key);
    }

    fn wait_until_quiet<'a>(&self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        while core.dispatching {
            core = self.quiet.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
        core
    }
}

/// A turn's calls of handlers.
#[derive(Default)]
struct Dispatch {
    /// Events taken, whose handlers are to be called.
    pending: VecDeque<Delivery>,
    /// This is the thread that calls the node's handlers.
    active: bool,
    rounds: usize,
    /// The thread has called enough of them: it has others to serve, or is the application's.
    retired: bool,
}

impl Dispatch {
    fn take(&self) -> Take {
        match (self.active, self.retired) {
            (true, _) if self.pending.is_empty() => Take::Mine,
            (true, _) | (false, true) => Take::Never,
            (false, false) => Take::IfFree,
        }
    }
}

/// Whether to take the events that wait for their handlers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    /// Unless another thread is calling handlers.
    IfFree,
    /// This is that thread; without events it is not any more.
    Mine,
    /// Not now.
    Never,
}

/// After so many rounds a thread lets another call the handlers.
const ROUNDS_MAX: usize = 16;
/// After so long what handlers asked for is done before more of them are called.
const BATCH_TIME_MAX: Duration = Duration::from_micros(200);
