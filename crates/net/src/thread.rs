//! One I/O thread: it waits for sockets, timers and messages, and takes the turns that follow.
//!
//! A thread that has just handled small messages polls for some microseconds before it sleeps, so
//! that an answer is not delayed by a wake-up.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fulmar_base::{Time, Timers};
use fulmar_lnd::CloseCause;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use slab::Slab;
use tracing::{Level, warn};

use crate::conn::{Conn, NO_SLOT};
use crate::dial;
use crate::failure::catch;
use crate::listener::{Listener, Stop};
use crate::runtime::{Message, Shared};
use crate::rx::{Rx, SCRATCH, Scratch, Step};
use crate::share::Share;
use crate::shared as node;
use crate::spin::Spin;
use crate::turn::{forget_deferred, report_deferred};

pub(crate) struct Thread {
    index: usize,
    runtime: Arc<Shared>,
    epoll: OwnedFd,
    slots: Slab<Slot>,
    /// The objects that are called for their timeouts, by key.
    timed: BTreeMap<u64, Arc<dyn TimeoutHandler>>,
    timers: Timers<Timer>,
    /// Slots with more to read than their share of a round.
    hungry: Vec<usize>,
    /// Slots that are not read until fewer events wait.
    held: Vec<usize>,
    /// How many slots are served in this round.
    ready: usize,
    scratch: Box<Scratch>,
    spin: Spin,
    exit: bool,
}

/// What a thread calls at a requested time.
pub(crate) trait TimeoutHandler: Send + Sync {
    /// Its key; never reused.
    fn key(&self) -> u64;
    /// The node that it belongs to.
    fn node(&self) -> &node::Shared;
    /// Handles the timeout.
    fn handle_timeout(self: Arc<Self>);
}

/// The kinds of descriptors.
enum Slot {
    Conn(Socket),
    Listener { node: Arc<node::Shared>, listener: Arc<Listener> },
}

struct Socket {
    node: Arc<node::Shared>,
    conn: Arc<Conn>,
    rx: Rx,
    dialling: bool,
    /// It is listed as [`Thread::hungry`] or [`Thread::held`].
    hungry: bool,
    /// The kernel has reported the end of the stream, which it reports only once.
    ending: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Timed(u64),
    /// Accept again.
    Listener(usize),
    /// Stop writing to a connection that has ended.
    Linger(usize),
}

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Thread {
    pub(crate) fn new(index: usize, runtime: Arc<Shared>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = runtime.wake(index);
        epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            index,
            runtime,
            epoll,
            slots: Slab::new(),
            timed: BTreeMap::new(),
            timers: Timers::default(),
            hungry: Vec::new(),
            held: Vec::new(),
            ready: 0,
            scratch: Box::new([0; SCRATCH]),
            spin: Spin::default(),
            exit: false,
        })
    }

    /// Returns which I/O thread of its runtime the calling thread is, if it is one.
    pub(crate) fn current() -> Option<usize> {
        CURRENT.get()
    }

    /// Returns whether the calling thread is an I/O thread, which must not wait for others.
    pub(crate) fn is_current() -> bool {
        Self::current().is_some()
    }

    pub(crate) fn run(mut self) {
        CURRENT.set(Some(self.index));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.exit {
            // The thread continues, so that its nodes can be stopped.
            if let Err(failure) = catch(|| self.round(&mut events)) {
                events.clear();
                self.runtime.fail(&failure);
            }
        }
        report_deferred();
    }

    fn round(&mut self, events: &mut Vec<epoll::Event>) {
        self.wait(events);
        self.hungry.append(&mut self.held);
        self.ready = events.len() + self.hungry.len();
        for event in events.drain(..) {
            if event.data.u64() != WAKE {
                self.handle_ready(event.data.u64() as usize, event.flags);
            }
        }
        for slot in std::mem::take(&mut self.hungry) {
            if let Some(Slot::Conn(socket)) = self.slots.get_mut(slot) {
                socket.hungry = false;
            }
            self.read(slot);
        }
        self.handle_messages();
        self.handle_timers();
    }

    /// Waits until there is something to do.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) {
        self.poll(events, Some(Duration::ZERO));
        if !events.is_empty() || !self.hungry.is_empty() {
            return;
        }
        if report_deferred() {
            self.poll(events, Some(Duration::ZERO));
        }
        if events.is_empty() && (!self.held.is_empty() || !self.spin(events)) {
            self.sleep(events);
        }
    }

    /// Polls for a while, if that is likely to find something; returns whether it did.
    fn spin(&mut self, events: &mut Vec<epoll::Event>) -> bool {
        let mailbox = self.runtime.mailbox(self.index);
        let Some(limit) = self.spin.begin() else { return mailbox.has_messages() };
        let started = Instant::now();
        loop {
            // The thread that answers may need this core.
            std::thread::yield_now();
            self.poll(events, Some(Duration::ZERO));
            let found = !events.is_empty() || mailbox.has_messages();
            if found || started.elapsed() >= limit {
                self.spin.end(found);
                return found;
            }
        }
    }

    fn sleep(&mut self, events: &mut Vec<epoll::Event>) {
        let mailbox = self.runtime.mailbox(self.index);
        let timeout = if mailbox.fall_asleep() {
            let held = (!self.held.is_empty()).then_some(HOLD);
            let next = self.timers.next().map(|at| at.since(self.runtime.now()));
            held.into_iter().chain(next).min()
        } else {
            Some(Duration::ZERO)
        };
        self.poll(events, timeout);
        mailbox.wake_up();
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // After a signal the thread starts another round.
        let _ = epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref());
    }

    fn handle_ready(&mut self, slot: usize, flags: EventFlags) {
        let ended = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        match self.slots.get_mut(slot) {
            Some(Slot::Listener { .. }) => self.accept(slot),
            Some(Slot::Conn(Socket { dialling: true, ending, .. }))
                if flags.intersects(EventFlags::OUT | ended) =>
            {
                *ending |= flags.intersects(ended);
                self.finish_dial(slot);
                self.read(slot);
            }
            Some(Slot::Conn(Socket { dialling: true, .. })) => {}
            Some(Slot::Conn(Socket { conn, node, ending, .. })) => {
                *ending |= flags.intersects(ended);
                if flags.contains(EventFlags::OUT) && conn.tx.handle_writable() {
                    let (conn, node) = (conn.clone(), node.clone());
                    node.flush(&conn);
                }
                if flags.intersects(EventFlags::IN | ended) {
                    self.read(slot);
                }
            }
            None => {}
        }
    }

    /// Reads available bytes, up to the share of a round. After a short read nothing is available,
    /// unless the stream has ended: then the end is read.
    fn read(&mut self, slot: usize) {
        let Some(Slot::Conn(socket)) = self.slots.get_mut(slot) else { return };
        let Socket { node, conn, rx, hungry, ending, .. } = socket;
        if *hungry {
            // It continues when the others were served.
            return;
        }
        if rx.is_small() && node.has_many_events() {
            *hungry = true;
            return self.held.push(slot);
        }
        let mut share = Share::of_each(self.ready);
        loop {
            if conn.is_ended() {
                return;
            }
            let step = rx.step(node, conn, &mut self.scratch, share.small());
            self.spin.note(rx.is_small());
            let len = match step {
                Step::More(len) => len,
                Step::Empty if *ending => 0,
                Step::Blocked => {
                    // The end of the stream, if any, comes with a later event.
                    *ending = false;
                    return;
                }
                Step::Empty | Step::Paused => return,
                Step::Ended(how) => return end(node, conn, how),
            };
            if share.uses(len, rx.is_small()) {
                break;
            }
        }
        *hungry = true;
        self.hungry.push(slot);
    }

    fn finish_dial(&mut self, slot: usize) {
        let Some(Slot::Conn(Socket { node, conn, rx, dialling, .. })) = self.slots.get_mut(slot)
        else {
            return;
        };
        *dialling = false;
        if conn.is_ended() {
            return;
        }
        let outcome = dial::outcome(conn.socket());
        let _ = node.turn(|core, now, actions| core.dialled(now, conn, outcome, actions));
        rx.resume(node, conn);
    }

    fn accept(&mut self, slot: usize) {
        let Some(Slot::Listener { node, listener }) = self.slots.get_mut(slot) else {
            return;
        };
        match listener.accept(node) {
            // The descriptor is level-triggered: epoll reports it while there are connections.
            Stop::Empty | Stop::Yield => {}
            Stop::Later(at) => self.pause(slot, at),
            Stop::Exhausted(error) => {
                node.counters.accept_failures.add(1);
                let line = format_args!(
                    "cannot accept connections at {}: {error}; trying again in {ACCEPT_PAUSE:?} \
                     (raise the limit of open files: `ulimit -n`, LimitNOFILE=)",
                    listener.address
                );
                node.log.write(self.runtime.now(), Level::WARN, &line, &node.counters);
                let until = self.runtime.now() + ACCEPT_PAUSE;
                self.pause(slot, until);
            }
        }
    }

    /// Accepts no connections of a listener for a while.
    fn pause(&mut self, slot: usize, until: Time) {
        let Some(Slot::Listener { listener, .. }) = self.slots.get(slot) else { return };
        let data = EventData::new_u64(slot as u64);
        let _ = epoll::modify(&self.epoll, listener.socket(), data, EventFlags::empty());
        self.timers.set(Timer::Listener(slot), until);
    }

    fn handle_messages(&mut self) {
        let messages = self.runtime.mailbox(self.index).take();
        // Not lost if a message before it causes a panic.
        self.exit |= messages.iter().any(|message| matches!(message, Message::Exit));
        let mut dispatched: Vec<Arc<node::Shared>> = Vec::new();
        for message in messages {
            match message {
                Message::Register { node, conn, dialling } => self.register(node, conn, dialling),
                Message::Forget { conn, linger } => self.forget(&conn, linger),
                Message::Resume(conn) => self.resume(conn.slot.load(Ordering::Relaxed)),
                Message::Listen(node, listener) => self.listen(node, listener),
                Message::Unlisten(listener) => self.unlisten(listener.slot()),
                Message::Arm(timed, at) => self.arm(timed, at),
                // Many are posted while events come faster than they are handled.
                Message::Dispatch(node) if dispatched.iter().any(|one| one.key == node.key) => {}
                Message::Dispatch(node) => dispatched.push(node),
                Message::Copy(node, copies) => node.copy(copies),
                Message::Link(node, nid, up) => {
                    let _ = node.turn(|core, now, _| core.machine.handle_link(now, nid, up));
                }
                Message::Stalled(node, conn) => {
                    let _ = node.turn(|core, now, _| core.machine.handle_stalled(now, conn.id));
                }
                Message::WindowLimited(node, conn) => {
                    let _ = node.turn(|core, now, _| {
                        core.machine.handle_window_limited(now, conn.id);
                    });
                }
                Message::Leave(node, done) => {
                    for one in dispatched.drain(..) {
                        one.dispatch();
                    }
                    self.leave(node);
                    drop(done);
                }
                Message::Exit => {}
            }
        }
        for node in dispatched {
            node.dispatch();
        }
    }

    fn register(&mut self, node: Arc<node::Shared>, conn: Arc<Conn>, dialling: bool) {
        if conn.is_ended() {
            return;
        }
        let entry = self.slots.vacant_entry();
        let slot = entry.key();
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(slot as u64);
        if let Err(error) = epoll::add(&self.epoll, conn.socket(), data, flags) {
            return end(&node, &conn, CloseCause::ReadError(crate::errno_of(&error.into())));
        }
        conn.slot.store(slot, Ordering::Relaxed);
        let socket = Socket { node, conn, rx: Rx::new(), dialling, hungry: false, ending: false };
        if let Slot::Conn(Socket { node, conn, rx, dialling: false, .. }) =
            entry.insert(Slot::Conn(socket))
        {
            rx.resume(node, conn);
        }
    }

    fn forget(&mut self, conn: &Arc<Conn>, linger: bool) {
        let slot = conn.slot.load(Ordering::Relaxed);
        if slot == NO_SLOT {
            return;
        }
        if linger {
            return self.timers.set(Timer::Linger(slot), self.runtime.now() + LINGER_MAX);
        }
        self.remove(slot);
    }

    /// Removes a descriptor.
    fn remove(&mut self, slot: usize) {
        match self.slots.remove(slot) {
            Slot::Conn(Socket { conn, .. }) => {
                self.timers.clear(Timer::Linger(slot));
                conn.slot.store(NO_SLOT, Ordering::Relaxed);
                // Other threads may hold the connection, and so its descriptor, a little longer.
                let _ = epoll::delete(&self.epoll, conn.socket());
                conn.shut_down();
            }
            Slot::Listener { listener, .. } => {
                self.timers.clear(Timer::Listener(slot));
                listener.slot.store(NO_SLOT, Ordering::Relaxed);
                let _ = epoll::delete(&self.epoll, listener.socket());
            }
        }
    }

    fn arm(&mut self, timed: Arc<dyn TimeoutHandler>, at: Time) {
        // The message may arrive after the node was stopped.
        if timed.node().is_running() {
            // Requests of other threads may have overtaken each other. What is called too early asks again.
            self.timers.bring_forward(Timer::Timed(timed.key()), at);
            self.timed.insert(timed.key(), timed);
        }
    }

    /// Removes a node.
    fn leave(&mut self, node: u64) {
        forget_deferred(node);
        let timed = self.timed.iter().filter(|(_, timed)| timed.node().key == node);
        for key in timed.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.timers.clear(Timer::Timed(key));
            self.timed.remove(&key);
        }
        let of_node = self.slots.iter().filter(|(_, slot)| slot.node().key == node);
        let of_node: Vec<usize> = of_node.map(|(slot, _)| slot).collect();
        for slot in of_node {
            self.remove(slot);
        }
    }

    fn resume(&mut self, slot: usize) {
        if let Some(Slot::Conn(Socket { node, conn, rx, dialling: false, .. })) =
            self.slots.get_mut(slot)
        {
            rx.resume(node, conn);
            self.read(slot);
        }
    }

    fn listen(&mut self, node: Arc<node::Shared>, listener: Arc<Listener>) {
        if !node.is_running() {
            return;
        }
        let slot = self.slots.vacant_key();
        let data = EventData::new_u64(slot as u64);
        match epoll::add(&self.epoll, listener.socket(), data, EventFlags::IN) {
            Ok(()) => {
                listener.slot.store(slot, Ordering::Relaxed);
                self.slots.insert(Slot::Listener { node, listener });
            }
            Err(error) => warn!("cannot accept connections at {}: {error}", listener.address),
        }
    }

    fn unlisten(&mut self, slot: usize) {
        if slot != NO_SLOT {
            self.remove(slot);
        }
    }

    fn handle_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.runtime.now();
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Timed(key) => {
                    if let Some(timed) = self.timed.remove(&key) {
                        timed.handle_timeout();
                    }
                }
                Timer::Listener(slot) => {
                    if let Some(Slot::Listener { listener, .. }) = self.slots.get_mut(slot) {
                        let data = EventData::new_u64(slot as u64);
                        let socket = listener.socket();
                        let _ = epoll::modify(&self.epoll, socket, data, EventFlags::IN);
                    }
                }
                Timer::Linger(slot) => {
                    if let Some(Slot::Conn(Socket { conn, .. })) = self.slots.get(slot) {
                        let conn = conn.clone();
                        conn.tx.stop();
                        self.forget(&conn, false);
                    }
                }
            }
        }
    }
}

impl Slot {
    fn node(&self) -> &Arc<node::Shared> {
        match self {
            Self::Conn(Socket { node, .. }) | Self::Listener { node, .. } => node,
        }
    }
}

fn end(node: &Arc<node::Shared>, conn: &Arc<Conn>, how: CloseCause) {
    let _ = node.turn(|core, now, actions| core.ended(now, conn, how, actions));
}

/// The mark of the thread's eventfd among the descriptors.
const WAKE: u64 = u64::MAX;
/// The most descriptors that are served between two checks of the mailbox.
const EVENTS_MAX: usize = 256;
/// How long a listener pauses when there are no descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long small messages stay in the sockets when many events wait: less than these take.
const HOLD: Duration = Duration::from_micros(100);
/// How long the last writes of a connection may take.
const LINGER_MAX: Duration = Duration::from_secs(5);
