//! What a node's lock guards: the machine, and what its words refer to.
//!
//! Nothing here meets the operating system (but for [`Conn::end`]): what the machine wants done is
//! collected in a [`Todo`], to be done without the lock.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use fulmar_base::{ConnId, Errno, Payload, Sink, Time};
use fulmar_lnet::{CopyId, Event, EventDone, Md, MdId, PingReply, QueryId};
use fulmar_node::{CommandId, ConsoleAnswer, Node as Machine, Notice, Output, Task};
use fulmar_socklnd::{Closed, DialError, Need};
use slab::Slab;
use smallvec::SmallVec;

use crate::Handler;
use crate::buffer::{Buffer, Piece, Region, Table};
use crate::conn::Conn;
use crate::counters::Counters;
use crate::runtime::Shared;
use crate::rx::Next;
use crate::selftest::{Buffers, Job, Outcome, damage_word};
use crate::tap::Tap;
use crate::tx::{Body, Flushed, Item};

/// How a ping or a discovery ends.
pub(crate) type Answer = Result<PingReply, Errno>;

/// What a node's lock guards.
pub(crate) struct Core {
    pub(crate) machine: Machine,
    pub(crate) state: State,
    pub(crate) conns: BTreeMap<ConnId, Arc<Conn>>,
    /// Who waits for the answers to which queries.
    pub(crate) queries: BTreeMap<QueryId, SyncSender<Answer>>,
    /// Who waits for the answers to which commands of the selftest's console.
    pub(crate) commands: BTreeMap<CommandId, SyncSender<ConsoleAnswer>>,
    /// The memory of the selftest, and of messages for others.
    buffers: Buffers,
    /// The descriptors, at the places that the machine knows as [`Md::user`].
    descriptors: Slab<Descriptor>,
    /// Events that no thread has taken yet, in order.
    pub(crate) events: VecDeque<Delivery>,
    /// A thread is calling handlers; it comes back for `events`.
    pub(crate) dispatching: bool,
    /// When the node is called for its timeouts at the latest.
    pub(crate) armed: Time,
    tap: Option<Arc<dyn Tap>>,
}

/// Whether a node can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// The machine panicked.
    Failed,
    Stopped,
}

/// A memory descriptor of the application. It holds the buffer.
struct Descriptor {
    /// Known as soon as the machine has named it.
    md: Option<MdId>,
    handler: Arc<dyn Handler>,
    user: u64,
    region: Arc<Region>,
}

/// An event on its way to its handler.
pub(crate) struct Delivery {
    pub(crate) event: Event,
    pub(crate) handler: Arc<dyn Handler>,
    /// The buffer of a descriptor that is no more; freed when the handler has returned.
    pub(crate) _region: Option<Arc<Region>>,
}

/// What is to be done without the lock.
///
/// Every message makes a few of these, so what it needs is here and what is seldom needed is apart.
#[derive(Default)]
pub(crate) struct Todo {
    /// Connections with something to write.
    pub(crate) flush: SmallVec<[Arc<Conn>; 2]>,
    pub(crate) arm: Option<Time>,
    /// Set for the thread that calls the handlers.
    pub(crate) events: VecDeque<Delivery>,
    pub(crate) seldom: Option<Box<Seldom>>,
}

/// A copy within the node: from where and to where, or nowhere.
pub(crate) type LoopCopy = (CopyId, Option<(Piece, Piece)>);

/// What is to be done when connections come and go, or somebody asks.
#[derive(Default)]
pub(crate) struct Seldom {
    pub(crate) dial: Vec<(Arc<Conn>, IpAddr, SocketAddr)>,
    /// Connections that their I/O thread forgets: at once, or soon if they are still written to.
    pub(crate) close: Vec<(Arc<Conn>, bool)>,
    pub(crate) resume: Vec<Arc<Conn>>,
    pub(crate) copy: Vec<LoopCopy>,
    /// Tell those who wait.
    pub(crate) answers: Vec<Box<dyn FnOnce() + Send>>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) notices: Vec<Notice>,
    /// Memory that the machine needs no more, to be dropped.
    pub(crate) released: Vec<Buffer>,
}

impl Todo {
    /// Adds what another call of the same thread wants done. The events are not its business.
    pub(crate) fn merge(&mut self, other: Self) {
        for conn in other.flush {
            self.flush(conn);
        }
        self.arm = self.arm.into_iter().chain(other.arm).min();
        assert!(other.events.is_empty(), "one thread calls the handlers");
        if let Some(other) = other.seldom {
            let own = self.seldom();
            own.dial.extend(other.dial);
            own.close.extend(other.close);
            own.resume.extend(other.resume);
            own.copy.extend(other.copy);
            own.answers.extend(other.answers);
            own.jobs.extend(other.jobs);
            own.notices.extend(other.notices);
            own.released.extend(other.released);
        }
    }

    fn flush(&mut self, conn: Arc<Conn>) {
        // The connections of one batch are few; one that is listed twice costs an idle look.
        if !self.flush.iter().rev().take(4).any(|listed| Arc::ptr_eq(listed, &conn)) {
            self.flush.push(conn);
        }
    }

    fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }
}

/// What became of a [`Todo`].
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) flushed: SmallVec<[(Arc<Conn>, Flushed); 2]>,
    pub(crate) not_dialled: Vec<(Arc<Conn>, Errno)>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) handled: SmallVec<[EventDone; 4]>,
}

impl Report {
    pub(crate) fn is_empty(&self) -> bool {
        self.flushed.is_empty()
            && self.not_dialled.is_empty()
            && self.outcomes.is_empty()
            && self.handled.is_empty()
    }
}

impl Core {
    pub(crate) fn new(mut machine: Machine, tap: Option<Arc<dyn Tap>>) -> Self {
        machine.tell_crossings(tap.is_some());
        Self {
            machine,
            state: State::Running,
            conns: BTreeMap::new(),
            queries: BTreeMap::new(),
            commands: BTreeMap::new(),
            buffers: Buffers::default(),
            descriptors: Slab::new(),
            events: VecDeque::new(),
            dispatching: false,
            armed: Time::MAX,
            tap,
        }
    }

    /// Makes a descriptor by `make`, whose events go to `handler`.
    pub(crate) fn describe(
        &mut self,
        md: Md,
        region: Arc<Region>,
        handler: Arc<dyn Handler>,
        make: impl FnOnce(&mut Machine, Md) -> Result<MdId, Errno>,
    ) -> Result<MdId, Errno> {
        if md.offset.checked_add(md.len).is_none_or(|end| end > region.len() as u64) {
            return Err(Errno::EINVAL);
        }
        let descriptor = Descriptor { md: None, handler, user: md.user, region };
        let place = self.descriptors.insert(descriptor);
        let made = make(&mut self.machine, Md { user: place as u64, ..md });
        match made {
            Ok(id) => self.descriptors[place].md = Some(id),
            Err(_) => drop(self.descriptors.remove(place)),
        }
        made
    }

    /// Collects what the machine wants done.
    pub(crate) fn drain(
        &mut self,
        now: Time,
        todo: &mut Todo,
        table: &Arc<Table>,
        runtime: &Arc<Shared>,
    ) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Dial { conn: id, local, remote } => {
                    let conn = Arc::new(Conn::new(id, remote, runtime));
                    self.conns.insert(id, conn.clone());
                    todo.seldom().dial.push((conn, local, remote));
                }
                Output::Write { conn, head, payload, checksum } => {
                    if let Some(conn) = self.conns.get(&conn) {
                        conn.tx.push(Item { head, body: body(payload, table), checksum });
                        todo.flush(conn.clone());
                    }
                }
                Output::Close { conn: id, flush } => {
                    if let Some(conn) = self.conns.remove(&id) {
                        let untold = conn.end(flush);
                        self.machine.handle_stopped(now, id, untold);
                        if flush {
                            todo.flush(conn.clone());
                        }
                        todo.seldom().close.push((conn, flush));
                    }
                }
                Output::Resume { conn } => {
                    todo.seldom().resume.extend(self.conns.get(&conn).cloned());
                }
                Output::Copy { copy, from, to } => {
                    todo.seldom().copy.push((copy, ends(from, to, table)))
                }
                Output::Event(event) => self.queue_event(event),
                Output::Pinged { query, result } | Output::Discovered { query, result } => {
                    answer(self.queries.remove(&query), result, todo);
                }
                Output::Answer { command, answer: result } => {
                    answer(self.commands.remove(&command), result, todo);
                }
                Output::Allocate { buffer, len } => {
                    self.buffers.allocate(table, buffer, len);
                }
                Output::Release { buffer } | Output::Task(Task::Release { buffer }) => {
                    todo.seldom().released.extend(self.buffers.release(buffer));
                }
                Output::Task(Task::Allocate { buffer, len, contents }) => {
                    self.buffers.allocate_filled(table, buffer, len, contents);
                }
                Output::Task(Task::Damage { span, add }) => damage_word(&table.resolve(span), add),
                Output::Task(Task::Check { id, span, check, order }) => {
                    let piece = table.resolve(span);
                    todo.seldom().jobs.push(Job::Check { id, piece, check, order });
                }
                Output::Task(Task::Measure { id }) => {
                    let conns = self.conns.values().cloned().collect();
                    todo.seldom().jobs.push(Job::Measure { id, conns });
                }
                Output::Notice(notice) => todo.seldom().notices.push(notice),
                Output::Crossing(crossing) => {
                    if let Some(tap) = &self.tap {
                        tap.crossing(&self.machine, &crossing);
                    }
                }
            }
        }
    }

    /// Asks to be called earlier than agreed, if the machine wants that.
    pub(crate) fn arm(&mut self, todo: &mut Todo) {
        if let Some(next) = self.machine.poll_timeout()
            && next < self.armed
        {
            self.armed = next;
            todo.arm = Some(next);
        }
    }

    fn queue_event(&mut self, event: Event) {
        let place = event.user as usize;
        let descriptor = &self.descriptors[place];
        assert!(descriptor.md == Some(event.md), "{event:?} is of another descriptor");
        let event = Event { user: descriptor.user, ..event };
        if let Some(tap) = &self.tap {
            tap.event(&event);
        }
        let delivery = if event.unlinked {
            let Descriptor { handler, region, .. } = self.descriptors.remove(place);
            Delivery { event, handler, _region: Some(region) }
        } else {
            Delivery { event, handler: descriptor.handler.clone(), _region: None }
        };
        self.events.push_back(delivery);
    }

    /// Takes what became of the last [`Todo`].
    pub(crate) fn report(&mut self, now: Time, report: Report, todo: &mut Todo) {
        for (conn, flushed) in report.flushed {
            if conn.is_ended() {
                continue;
            }
            if flushed.sent > 0 {
                conn.tell(flushed.sent);
                self.machine.handle_sent(now, conn.id, flushed.sent);
            }
            if let Some(errno) = flushed.error {
                self.ended(now, &conn, Closed::WriteError(errno), todo);
            }
        }
        for (conn, errno) in report.not_dialled {
            self.dialled(now, &conn, Err(errno), todo);
        }
        for outcome in report.outcomes {
            match outcome {
                Outcome::Checked(id, result) => self.machine.handle_checked(now, id, result),
                Outcome::Measured(id, usage) => self.machine.handle_measured(now, id, usage),
            }
        }
        for done in report.handled {
            if let Some(tap) = &self.tap {
                tap.handled(done);
            }
            self.machine.handle_event_done(now, done);
        }
    }

    /// Takes the passing of time, as agreed by [`Todo::arm`].
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.armed = Time::MAX;
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
    }

    /// Takes the outcome of a dial.
    pub(crate) fn dialled(
        &mut self,
        now: Time,
        conn: &Arc<Conn>,
        result: Result<SocketAddr, Errno>,
        todo: &mut Todo,
    ) {
        if conn.is_ended() {
            return;
        }
        if result.is_err() {
            self.forget(conn, todo);
        }
        self.machine.handle_dialled(now, conn.id, result.map_err(DialError));
    }

    /// Takes the end of a connection, as its socket tells.
    pub(crate) fn ended(&mut self, now: Time, conn: &Arc<Conn>, how: Closed, todo: &mut Todo) {
        if !conn.is_ended() {
            // What the socket took may have arrived, also what no thread has reported yet.
            let untold = self.forget(conn, todo);
            self.machine.handle_closed(now, conn.id, untold, how);
        }
    }

    fn forget(&mut self, conn: &Arc<Conn>, todo: &mut Todo) -> u64 {
        self.conns.remove(&conn.id);
        let untold = conn.end(false);
        todo.seldom().close.push((conn.clone(), false));
        untold
    }

    /// Takes `placed` bytes that were received where [`Next`] said, then `staged` bytes. Returns
    /// what to receive next, and how many of the staged bytes the machine cannot use yet.
    pub(crate) fn received(
        &mut self,
        now: Time,
        conn: &Conn,
        placed: Option<(u32, Option<u32>)>,
        staged: &[u8],
        node: &crate::node::Shared,
        todo: &mut Todo,
    ) -> (Next, usize) {
        if conn.is_ended() {
            return (Next::Pause, 0);
        }
        if let Some((len, crc)) = placed {
            self.machine.handle_payload(now, conn.id, len, crc);
        }
        let mut rest = staged;
        loop {
            let mut need = self.machine.need(conn.id);
            if matches!(need, Need::Payload { sink: Sink::Span(_), .. }) {
                // A router's buffer is made for the message: what is named must be there.
                self.drain(now, todo, &node.table, &node.runtime);
                need = self.machine.need(conn.id);
            }
            if rest.is_empty() || !matches!(need, Need::Bytes(_) | Need::Payload { .. }) {
                return (Next::new(need, &node.table), rest.len());
            }
            rest = match need {
                Need::Payload { sink, crc } => {
                    let (bytes, after) = rest.split_at(rest.len().min(sink.len() as usize));
                    let crc = crc.map(|crc| fulmar_socklnd::checksum::update(crc, bytes));
                    place(sink, bytes, &node.table, &node.counters);
                    self.machine.handle_payload(now, conn.id, bytes.len() as u32, crc);
                    after
                }
                _ => &rest[self.machine.handle_bytes(now, conn.id, rest)..],
            };
        }
    }

    /// Gives up everything that the node holds. What is returned is to be dropped without the lock.
    pub(crate) fn clear(&mut self, state: State, todo: &mut Todo) -> impl Sized + use<> {
        self.state = state;
        for (_, conn) in std::mem::take(&mut self.conns) {
            conn.end(false);
            todo.seldom().close.push((conn, false));
        }
        let descriptors = std::mem::take(&mut self.descriptors);
        let waiting = (std::mem::take(&mut self.queries), std::mem::take(&mut self.commands));
        (descriptors, std::mem::take(&mut self.events), waiting, std::mem::take(&mut self.buffers))
    }
}

/// Has the one who waits told; he may have given up.
fn answer<T: Send + 'static>(waiting: Option<SyncSender<T>>, answer: T, todo: &mut Todo) {
    if let Some(waiting) = waiting {
        todo.seldom().answers.push(Box::new(move || drop(waiting.try_send(answer))));
    }
}

/// Copies payload that came along with a header to where it belongs.
fn place(sink: Sink, bytes: &[u8], table: &Table, counters: &Counters) {
    match sink {
        Sink::Discard { .. } => counters.payload_bytes_discarded.add(bytes.len()),
        Sink::Span(span) => {
            let piece = table.resolve(span);
            piece.region.write(piece.offset, bytes);
            counters.payload_bytes_staged_in.add(bytes.len());
        }
        Sink::Inline { .. } => unreachable!("a machine takes inline bytes itself"),
    }
}

fn body(payload: Payload, table: &Table) -> Body {
    match payload {
        Payload::Empty => Body::Empty,
        Payload::Inline(bytes) => Body::Inline(bytes),
        Payload::Span(span) => Body::Piece(table.resolve(span)),
    }
}

/// Returns where a copy goes from and to; `None` for nowhere.
fn ends(from: Payload, to: Sink, table: &Table) -> Option<(Piece, Piece)> {
    match (from, to) {
        (Payload::Span(from), Sink::Span(to)) => {
            assert!(to.len <= from.len, "a copy fills {} bytes with {}", to.len, from.len);
            Some((table.resolve(from), table.resolve(to)))
        }
        (Payload::Inline(_), _) | (_, Sink::Inline { .. }) => {
            unreachable!("a machine copies its own bytes itself")
        }
        (Payload::Empty, _) | (_, Sink::Discard { .. }) => None,
    }
}
