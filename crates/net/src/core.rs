//! The state that a node's lock guards: the machine, and the objects that its outputs refer to.
//!
//! Except for [`Conn::end`], this module does not call the operating system: the outputs of the
//! machine are collected in [`Actions`], which are executed without the lock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Payload, Sink, Time};
use fulmar_lnd::{CloseCause, DialError, Need, Stream};
use fulmar_lnet::{Event, EventDone, MdId, PingReply, QueryId, ServiceId};
use fulmar_node::{Node as Machine, Output};
use smallvec::SmallVec;

use crate::actions::{Actions, Report};
use crate::alarm::Alarm;
use crate::batch::Posting;
use crate::conn::Conn;
use crate::counters::Counters;
use crate::memories::{DescriptorKey, Memories};
use crate::memory::Piece;
use crate::queues::{Delivery, Queues};
use crate::rx::{Next, PayloadPart};
use crate::shared::Shared;
use crate::tap::{Tap, Taps};
use crate::tx::{Body, Item};

/// The result of a ping or a discovery.
pub(crate) type Answer = Result<PingReply, Errno>;

/// The state that a node's lock guards.
pub(crate) struct Core {
    pub(crate) machine: Machine,
    pub(crate) state: State,
    pub(crate) conns: BTreeMap<ConnId, Arc<Conn>>,
    /// The channels to callers that wait for answers to queries.
    pub(crate) queries: BTreeMap<QueryId, SyncSender<Answer>>,
    memories: Memories,
    /// When the node is called for its timeouts at the latest.
    alarm: Alarm,
    pub(crate) lock: LockUse,
    taps: Taps,
}

/// Whether a node can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// The machine panicked.
    Failed,
    Stopped,
}

/// How a node's lock was used since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// How often it was taken to call the machine.
    pub turns: u64,
    /// How long it was held for that, if [`Options::lock_times`](crate::Options::lock_times) is
    /// set.
    pub held: Duration,
}

impl Core {
    pub(crate) fn new(mut machine: Machine, tap: Option<Arc<dyn Tap>>) -> Self {
        let taps = Taps { first: tap, later: None };
        machine.report_crossings(!taps.is_empty());
        Self {
            machine,
            state: State::Running,
            conns: BTreeMap::new(),
            queries: BTreeMap::new(),
            memories: Memories::default(),
            alarm: Alarm::NONE,
            lock: LockUse::default(),
            taps,
        }
    }

    /// Replaces the observer that the node did not have at its start.
    pub(crate) fn observe(&mut self, observer: Option<Arc<dyn Tap>>) {
        self.taps.later = observer;
        self.machine.report_crossings(!self.taps.is_empty());
    }

    /// Posts a batch of a service, and appends the results in order.
    pub(crate) fn post(
        &mut self,
        now: Time,
        service: ServiceId,
        postings: impl IntoIterator<Item = Posting>,
        results: &mut SmallVec<[Result<MdId, Errno>; 4]>,
        actions: &mut Actions,
    ) {
        let first = results.len();
        let mut ops = SmallVec::<[_; 4]>::new();
        // Of each operation that is posted: the descriptor that it makes, and its result's place.
        let mut posted = SmallVec::<[(Option<DescriptorKey>, usize); 4]>::new();
        for posting in postings {
            let key = posting.check().map(|()| {
                let (op, key) = posting.name(&mut self.memories);
                ops.push(op);
                posted.push((key, results.len()));
            });
            results.push(key.map(|()| MdId(0)));
        }
        // They are kept for a tap only.
        let seen = if self.taps.is_empty() { SmallVec::new() } else { ops.clone() };
        let (mut places, mut seen) = (posted.iter(), seen.iter());
        let (memories, taps) = (&mut self.memories, &self.taps);
        self.machine.service(now, service).post(ops, |result| {
            let (key, place) = places.next().expect("each operation has one result");
            if let Some(op) = seen.next() {
                taps.all().for_each(|tap| tap.posted(op, result));
            }
            if let (Some(key), Err(_)) = (key, &result) {
                actions.rare().released.extend(memories.remove(*key));
            }
            results[*place] = result;
        });
        debug_assert!(places.next().is_none() && results.len() >= first);
    }

    /// Collects the outputs of the machine, and puts events into the queues of their services.
    pub(crate) fn drain(&mut self, now: Time, node: &Shared, actions: &mut Actions) {
        let mut queues: Option<MutexGuard<'_, Queues>> = None;
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Stream(stream) => self.stream(now, stream, node, actions),
                Output::Resume { conn } => {
                    actions.rare().resume.extend(self.conns.get(&conn).cloned());
                }
                Output::Copy { copy, from, to } => {
                    let ends = self.ends(from, to);
                    actions.rare().copy.push((copy, ends));
                }
                Output::Event { service, event, bytes } => {
                    let delivery = self.delivery(event, bytes);
                    let queues = queues.get_or_insert_with(|| node.queues.lock());
                    if let Some(delivery) = queues.push(service, delivery) {
                        self.not_handled(now, delivery, actions);
                    }
                }
                Output::Pinged { query, result } | Output::Discovered { query, result } => {
                    if let Some(waiting) = self.queries.remove(&query) {
                        // The caller may have stopped waiting.
                        let answer = move || drop(waiting.try_send(result));
                        actions.rare().answers.push(Box::new(answer));
                    }
                }
                Output::Allocate { buffer, len } => self.memories.allocate(buffer, len),
                Output::Release { buffer } => {
                    actions.rare().released.extend(self.memories.release(buffer));
                }
                Output::Notice(notice) => actions.rare().notices.push(notice),
                Output::Crossing(crossing) => {
                    self.taps.all().for_each(|tap| tap.crossing(&self.machine, &crossing));
                }
            }
        }
        if let Some(queues) = queues {
            actions.dispatch |= queues.is_ready();
            node.note_waiting(&queues);
        }
    }

    fn stream(&mut self, now: Time, stream: Stream, node: &Shared, actions: &mut Actions) {
        match stream {
            Stream::Dial { conn: id, local, remote } => {
                let thread = node.assign(local);
                let conn = Arc::new(Conn::new(id, remote, thread, &node.runtime));
                self.conns.insert(id, conn.clone());
                actions.rare().dial.push((conn, local, remote));
            }
            Stream::Write { conn, head, payload, checksum } => {
                if let Some(conn) = self.conns.get(&conn) {
                    let body = match payload {
                        Payload::Empty => Body::Empty,
                        Payload::Inline(bytes) => Body::Inline(bytes),
                        Payload::Span(span) => Body::Piece(self.memories.piece(span)),
                    };
                    conn.tx.push(Item { head, body, checksum });
                    actions.flush(conn.clone());
                }
            }
            Stream::Close { conn: id, flush } => {
                if let Some(conn) = self.conns.remove(&id) {
                    let unreported = conn.end(flush);
                    self.machine.handle_stopped(now, id, unreported);
                    if flush {
                        actions.flush(conn.clone());
                    }
                    actions.rare().close.push((conn, flush));
                }
            }
        }
    }

    /// Returns where a copy goes from and to; `None` for nowhere.
    fn ends(&self, from: Payload, to: Sink) -> Option<(Piece, Piece)> {
        match (from, to) {
            (Payload::Span(from), Sink::Span(to)) => {
                assert!(to.len <= from.len, "a copy fills {} bytes with {}", to.len, from.len);
                Some((self.memories.piece(from), self.memories.piece(to)))
            }
            (Payload::Inline(_), _) | (_, Sink::Inline { .. }) => {
                unreachable!("a machine copies its own bytes itself")
            }
            (Payload::Empty, _) | (_, Sink::Discard { .. }) => None,
        }
    }

    fn delivery(&mut self, event: Event, bytes: Vec<u8>) -> Delivery {
        let key = DescriptorKey(event.user);
        let event = Event { user: self.memories.user(key), ..event };
        self.taps.all().for_each(|tap| tap.event(&event));
        let memory = if event.unlinked { self.memories.remove(key) } else { None };
        Delivery::new(event, bytes, memory)
    }

    /// Reports an event of a closed service as handled at once, since no handler gets it.
    fn not_handled(&mut self, now: Time, delivery: Delivery, actions: &mut Actions) {
        if let Some(done) = delivery.event.done {
            self.event_done(now, done);
        }
        actions.rare().unclaimed.push(delivery);
    }

    /// The handler of an event has returned, or there is none any more.
    pub(crate) fn event_done(&mut self, now: Time, done: EventDone) {
        self.taps.all().for_each(|tap| tap.handled(done));
        self.machine.handle_event_done(now, done);
    }

    /// Requests an earlier call, if the machine has an earlier deadline.
    pub(crate) fn arm(&mut self, actions: &mut Actions) {
        if let Some(next) = self.alarm.set(self.machine.poll_timeout()) {
            actions.arm = Some(next);
        }
    }

    /// Handles the results of earlier actions.
    pub(crate) fn report(&mut self, now: Time, report: Report, actions: &mut Actions) {
        for (conn, flushed) in report.flushed {
            if conn.is_ended() {
                continue;
            }
            if flushed.sent > 0 {
                conn.note_reported(flushed.sent);
                self.machine.handle_sent(now, conn.id, flushed.sent);
            }
            if let Some(errno) = flushed.error {
                self.ended(now, &conn, CloseCause::WriteError(errno), actions);
            }
        }
        for (conn, errno) in report.not_dialled {
            self.dialled(now, &conn, Err(errno), actions);
        }
        for done in report.handled {
            self.event_done(now, done);
        }
    }

    /// Handles the timeout that [`Actions::arm`] requested.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.alarm.fired();
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
    }

    /// Handles the result of a dial.
    pub(crate) fn dialled(
        &mut self,
        now: Time,
        conn: &Arc<Conn>,
        result: Result<SocketAddr, Errno>,
        actions: &mut Actions,
    ) {
        if conn.is_ended() {
            return;
        }
        if result.is_err() {
            self.forget(conn, actions);
        }
        self.machine.handle_dialled(now, conn.id, result.map_err(DialError));
    }

    /// Handles the end of a connection, as its socket reports it.
    pub(crate) fn ended(
        &mut self,
        now: Time,
        conn: &Arc<Conn>,
        how: CloseCause,
        actions: &mut Actions,
    ) {
        if !conn.is_ended() {
            // Written bytes may have arrived, including those that no thread has reported yet.
            let unreported = self.forget(conn, actions);
            self.machine.handle_closed(now, conn.id, unreported, how);
        }
    }

    fn forget(&mut self, conn: &Arc<Conn>, actions: &mut Actions) -> u64 {
        self.conns.remove(&conn.id);
        let unreported = conn.end(false);
        actions.rare().close.push((conn.clone(), false));
        unreported
    }

    /// Handles what was `placed` where [`Next`] said, then `staged` bytes. Returns what to receive
    /// next, and how many of the staged bytes the machine cannot use yet.
    pub(crate) fn received(
        &mut self,
        now: Time,
        conn: &Conn,
        placed: Option<PayloadPart>,
        staged: &[u8],
        node: &Shared,
        actions: &mut Actions,
    ) -> (Next, usize) {
        if conn.is_ended() {
            return (Next::Pause, 0);
        }
        if let Some(PayloadPart { len, crc }) = placed {
            self.machine.handle_payload(now, conn.id, len, crc);
        }
        let mut rest = staged;
        loop {
            let mut need = self.machine.need(conn.id);
            if matches!(need, Need::Payload { sink: Sink::Span(_), .. }) {
                // A router buffer is allocated before it is named, so it must exist.
                self.drain(now, node, actions);
                need = self.machine.need(conn.id);
            }
            if rest.is_empty() || !matches!(need, Need::Bytes(_) | Need::Payload { .. }) {
                return (Next::new(need, self.place_of(need)), rest.len());
            }
            rest = match need {
                Need::Payload { sink, crc } => {
                    let (bytes, after) = rest.split_at(rest.len().min(sink.len() as usize));
                    let crc = crc.map(|crc| fulmar_socklnd::checksum::update(crc, bytes));
                    self.place(sink, bytes, &node.counters);
                    self.machine.handle_payload(now, conn.id, bytes.len() as u32, crc);
                    after
                }
                _ => &rest[self.machine.handle_bytes(now, conn.id, rest)..],
            };
        }
    }

    fn place_of(&self, need: Need) -> Option<Piece> {
        match need {
            Need::Payload { sink: Sink::Span(span), .. } => Some(self.memories.piece(span)),
            _ => None,
        }
    }

    /// Copies payload that was read together with a header to its memory.
    fn place(&self, sink: Sink, bytes: &[u8], counters: &Counters) {
        match sink {
            Sink::Discard { .. } => counters.payload_bytes_discarded.add(bytes.len()),
            Sink::Span(span) => {
                self.memories.piece(span).write(0, bytes);
                counters.payload_bytes_staged_in.add(bytes.len());
            }
            Sink::Inline { .. } => unreachable!("a machine takes inline bytes itself"),
        }
    }

    /// Releases everything that the node holds. The caller drops the result without the lock.
    pub(crate) fn clear(&mut self, state: State, actions: &mut Actions) -> impl Sized + use<> {
        self.state = state;
        for (_, conn) in std::mem::take(&mut self.conns) {
            conn.end(false);
            actions.rare().close.push((conn, false));
        }
        let memories = std::mem::take(&mut self.memories);
        (memories, std::mem::take(&mut self.queries))
    }
}
