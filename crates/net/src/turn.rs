//! Turns: a call of a node's machine, and the handling of its outputs.
//!
//! ```text
//! turn:  lock { report the results of earlier actions; call the machine; collect } -> Actions
//!        loop {
//!            dial, write, copy, answer; handle the events of a service      (without the lock)
//!            lock { report the results; collect }                           -> Actions
//!        } until there are no more actions
//! ```
//!
//! Any thread takes turns: an I/O thread when a socket is ready, a thread of an application when it
//! calls the API. The events of a service are handled by one thread at a time, in order: the one
//! that finds events of a service that no other thread serves. If there are several such services,
//! another thread is notified. The posts of a handler are executed when it has returned, so that
//! one system call sends many small messages.
//!
//! Writes of a few small messages are reported together with the next report of the thread, or when
//! it is idle.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use fulmar_base::{Errno, Time};
use fulmar_lnet::EventDone;
use smallvec::{SmallVec, smallvec};
use tracing::error;

use crate::actions::{Actions, LoopCopy, Rare, Report};
use crate::conn::Conn;
use crate::core::{Core, State};
use crate::dial;
use crate::dispatch;
use crate::failure::catch;
use crate::notices;
use crate::queues::Claim;
use crate::runtime::Message;
use crate::service::Service;
use crate::shared::Shared;
use crate::thread::Thread;

thread_local! {
    /// The nodes whose handlers this thread is calling, innermost last, and the actions that the
    /// handlers' calls have caused.
    static HANDLING: RefCell<Vec<(u64, Actions)>> = const { RefCell::new(Vec::new()) };
    /// Reports that are deferred.
    static DEFERRED: RefCell<Vec<(Arc<Shared>, Report)>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether this thread is calling a handler, which must not wait.
pub(crate) fn in_handler() -> bool {
    HANDLING.with_borrow(|levels| !levels.is_empty())
}

/// Makes the deferred reports of this thread, and returns whether there were any.
pub(crate) fn report_deferred() -> bool {
    let deferred = DEFERRED.take();
    let any = !deferred.is_empty();
    for (node, report) in deferred {
        node.conclude(report);
    }
    any
}

/// Discards the deferred reports of this thread for a node.
pub(crate) fn forget_deferred(key: u64) {
    let gone = DEFERRED.with_borrow_mut(|deferred| {
        deferred.extract_if(.., |(node, _)| node.key == key).collect::<Vec<_>>()
    });
    drop(gone);
}

impl Shared {
    /// Calls the machine, and executes the actions that follow.
    ///
    /// # Errors
    /// ESHUTDOWN if the node was stopped, EIO if its machine has failed.
    pub(crate) fn turn<R>(
        self: &Arc<Self>,
        call: impl FnOnce(&mut Core, Time, &mut Actions) -> R,
    ) -> Result<R, Errno> {
        let mut actions = Actions::default();
        let deferred = self.take_deferred();
        let result = self.locked(&mut actions, deferred, call);
        self.carry_out(actions);
        result
    }

    /// Runs `call`, whose turns only collect actions; then executes them.
    pub(crate) fn together<R>(self: &Arc<Self>, call: impl FnOnce() -> R) -> R {
        let level = Level::enter(self.key);
        let result = call();
        self.carry_out(level.leave());
        result
    }

    /// Writes the queue of a connection, and executes the actions that follow.
    pub(crate) fn flush(self: &Arc<Self>, conn: &Arc<Conn>) {
        self.carry_out(Actions { flush: smallvec![conn.clone()], ..Actions::default() });
    }

    /// Makes the deferred reports of this thread, and handles the events of services that no thread
    /// serves.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        let deferred = self.take_deferred();
        if !deferred.is_empty() {
            self.conclude(deferred);
        }
        self.carry_out(Actions { dispatch: true, ..Actions::default() });
    }

    /// Reports the results of actions, and executes the actions that follow.
    fn conclude(self: &Arc<Self>, report: Report) {
        let mut actions = Actions::default();
        let _ = self.locked(&mut actions, report, |_, _, _| ());
        self.carry_out(actions);
    }

    /// Calls the machine under the lock. A panic of the machine fails this node and no other.
    fn locked<R>(
        self: &Arc<Self>,
        actions: &mut Actions,
        report: Report,
        call: impl FnOnce(&mut Core, Time, &mut Actions) -> R,
    ) -> Result<R, Errno> {
        let mut core = self.core.lock();
        match core.state {
            State::Running => {}
            State::Failed => return Err(Errno::EIO),
            State::Stopped => return Err(Errno::ESHUTDOWN),
        }
        let locked = self.lock_times.then(Instant::now);
        let now = self.runtime.now();
        let called = catch(|| {
            core.report(now, report, actions);
            let result = call(&mut core, now, actions);
            core.drain(now, self, actions);
            core.arm(actions);
            result
        });
        core.lock.turns += 1;
        if let Some(locked) = locked {
            core.lock.held += locked.elapsed();
        }
        called.map_err(|failure| {
            self.close_failed(core, failure, actions);
            Errno::EIO
        })
    }

    /// Executes actions and reports the results, until no actions follow. A panic fails this node and
    /// no other.
    pub(crate) fn carry_out(self: &Arc<Self>, actions: Actions) {
        if let Err(failure) = catch(|| self.execute(actions)) {
            self.fail(failure);
        }
    }

    fn execute(self: &Arc<Self>, mut actions: Actions) {
        if self.leave_to_outer(&mut actions) {
            return;
        }
        let mut rounds = 0;
        for turn in 0.. {
            let mut report = Report::default();
            self.perform(&mut actions, &mut report);
            if std::mem::take(&mut actions.dispatch) {
                if rounds < ROUNDS_MAX {
                    rounds += 1;
                    actions = self.serve(&mut report.handled);
                    self.perform(&mut actions, &mut report);
                } else {
                    // The thread serves other nodes too, or belongs to the application.
                    self.runtime.post(self.home, Message::Dispatch(self.clone()));
                }
            }
            let more = actions.dispatch;
            if !more && report.can_wait() && Thread::is_current() {
                return self.defer(report);
            }
            if report.is_empty() {
                if more {
                    continue;
                }
                return;
            }
            if let Some(thread) = Thread::current().filter(|_| turn >= TURNS_MAX) {
                // Messages may follow each other without end: the thread has others to read.
                self.defer(report);
                return self.runtime.post(thread, Message::Dispatch(self.clone()));
            }
            report.merge(self.take_deferred());
            let _ = self.locked(&mut actions, report, |_, _, _| ());
            actions.dispatch |= more;
        }
    }

    /// In a handler of this node, leaves `actions` to the turn that called the handler.
    fn leave_to_outer(&self, actions: &mut Actions) -> bool {
        HANDLING.with_borrow_mut(|levels| {
            let outer = levels.iter_mut().rev().find(|(key, _)| *key == self.key);
            outer.map(|(_, outer)| outer.merge(std::mem::take(actions))).is_some()
        })
    }

    /// Defers a report until this thread makes another one to the node, or is idle.
    fn defer(self: &Arc<Self>, report: Report) {
        if report.is_empty() {
            return;
        }
        DEFERRED.with_borrow_mut(|deferred| {
            match deferred.iter_mut().find(|(node, _)| node.key == self.key) {
                Some((_, earlier)) => earlier.merge(report),
                None => deferred.push((self.clone(), report)),
            }
        });
    }

    fn take_deferred(&self) -> Report {
        let found = DEFERRED.with_borrow_mut(|deferred| {
            let place = deferred.iter().position(|(node, _)| node.key == self.key)?;
            Some(deferred.swap_remove(place))
        });
        found.map_or_else(Report::default, |(_, report)| report)
    }

    /// Executes all actions except handling events.
    fn perform(self: &Arc<Self>, actions: &mut Actions, report: &mut Report) {
        if let Some(rare) = actions.rare.as_mut() {
            self.dial(std::mem::take(&mut rare.dial), report);
        }
        for conn in actions.flush.drain(..) {
            let flushed = conn.flush(&self.counters);
            if flushed.finished || (flushed.error.is_some() && conn.is_ended()) {
                let message = Message::Forget { conn: conn.clone(), linger: false };
                self.runtime.post(conn.thread, message);
            }
            if flushed.moved {
                self.runtime.watch.written(self, &conn);
            }
            if flushed.sent > 0 || flushed.error.is_some() {
                report.flushed.push((conn, flushed));
            }
        }
        if let Some(rare) = actions.rare.take() {
            self.perform_rare(*rare);
        }
        if let Some(at) = actions.arm.take() {
            self.runtime.post(self.home, Message::Arm(self.clone(), at));
        }
    }

    /// Begins to open connections.
    fn dial(self: &Arc<Self>, dials: Vec<(Arc<Conn>, IpAddr, SocketAddr)>, report: &mut Report) {
        for (conn, local, remote) in dials {
            let tos = self.tos_at(local);
            match dial::dial(local, remote, tos, &self.runtime.unprivileged) {
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

    /// Executes rare actions, except dialling, which precedes them.
    fn perform_rare(self: &Arc<Self>, rare: Rare) {
        for (conn, linger) in rare.close {
            self.runtime.post(conn.thread, Message::Forget { conn, linger });
        }
        for conn in rare.resume {
            self.runtime.post(conn.thread, Message::Resume(conn));
        }
        if !rare.copy.is_empty() {
            // Deferred: messages of a node to itself could continue for ever.
            self.runtime.post(self.home, Message::Copy(self.clone(), rare.copy));
        }
        for answer in rare.answers {
            answer();
        }
        for notice in rare.notices {
            let (now, level) = (self.runtime.now(), notices::level(&notice));
            self.log.write(now, level, &notice, &self.counters);
        }
    }

    /// Copies the messages of the node to itself.
    pub(crate) fn copy(self: &Arc<Self>, copies: Vec<LoopCopy>) {
        for (_, ends) in &copies {
            if let Some((from, to)) = ends {
                to.copy_from(from);
                self.counters.payload_bytes_looped.add(to.len());
            }
        }
        let _ = self.turn(|core, now, _| {
            for (copy, _) in copies {
                core.machine.handle_copied(now, copy);
            }
        });
    }

    /// Handles the events of a service that no thread serves, if there is one. Returns the actions
    /// of its handler.
    fn serve(self: &Arc<Self>, handled: &mut SmallVec<[EventDone; 4]>) -> Actions {
        let mut actions = Actions::default();
        let notify = || self.runtime.post_to_another(Message::Dispatch(self.clone()));
        let more = dispatch::serve(&self.queues, notify, |Claim { service, handler, events }| {
            handled.extend(events.iter().filter_map(|delivery| delivery.event.done));
            self.counters.events.add(events.len());
            let level = Level::enter(self.key);
            let service = Service::new(self.clone(), *service);
            let called = catch(|| handler.handle(&service, events));
            if let Err(failure) = called {
                self.counters.handler_panics.add(1);
                error!(
                    node = self.log.name(),
                    service = service.id().0,
                    "a handler panicked; its events count as handled: {failure}"
                );
            }
            events.clear();
            actions = level.leave();
        });
        actions.dispatch |= more;
        // No thread waits for it before that, and each notification is a system call.
        if self.end.is_set() {
            self.quiet.notify_all();
        }
        actions
    }
}

/// Marks that this thread calls a handler of a node.
struct Level;

impl Level {
    fn enter(key: u64) -> Self {
        HANDLING.with_borrow_mut(|levels| levels.push((key, Actions::default())));
        Self
    }

    /// Returns the actions of the handler's calls.
    fn leave(self) -> Actions {
        std::mem::forget(self);
        HANDLING.with_borrow_mut(Vec::pop).expect("a level was entered").1
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        // Reached only after a panic.
        HANDLING.with_borrow_mut(Vec::pop);
    }
}

/// After this number of turns a thread reads its connections again.
const TURNS_MAX: usize = 32;
/// After this number of rounds another thread handles the events.
const ROUNDS_MAX: usize = 16;
