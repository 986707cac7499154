//! An import: one target as a client sees it. Spec: ptlrpc-ldlm-mgs §6, §12, §14, §16.
//!
//! ```text
//! New ── connect ──► Connecting ── granted ───────────────────────────────────────────► Full ──► Idle
//!                     ▲  │   │                                                          ▲ │ unused
//!     time to try ────┘  │   └── the target recovers ──► Replay ──► ReplayLocks         │ │
//!    Disconnected ◄── refused, silent                        ──► ReplayWait ──► Recover ┘ │ late, failed,
//!         ▲                                                                               │ unknown to
//!         └───────────────────────────────────────────────────────────────────────────────┘ the server
//! ```
//!
//! Requests wait until the import is full, and while the most requests are in flight. A request that
//! is late fails the connection, not the request: it is sent again, with the same number, when the
//! import is connected. A server that has forgotten the client evicts it: the requests that it knows
//! then fail with EIO.
//!
//! A request that was a transaction is kept until the target reports it on disk, and an open until its
//! close is. A target that has restarted gets them again, in the order of the transactions, then the
//! locks of the owner, then the final ping.
//!
//! Pure. Every input takes the XIDs of the node, since inputs send messages. Drain
//! [`Import::poll_output`] after each input.

mod bulk;
mod call;
mod connect;
mod disconnect;
mod end;
mod idle;
mod replay;
mod replay_list;
mod reply;
mod search;
mod send;
mod slots;
mod stats;
mod target;
#[cfg(test)]
mod tests;
mod wait_queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fulmar_base::{Errno, Table, Time, Timers};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, format};

pub use bulk::{BulkResult, PostedBulk};
pub use call::{Arrival, ReplyRoom, Request, RequestId, Transmission, TransmissionId};
pub(crate) use send::expect_reply;
pub use stats::{Stats, Transfers};
pub use target::{Sender, Target, TargetKind};

use crate::timeouts::{CONNECT_TIMEOUT, Timeouts};
use crate::{Xid, XidSource};
use bulk::Release;
use call::{Call, Purpose};
use replay::Progress;
use replay_list::ReplayList;
use search::Search;
use slots::Slots;
use wait_queue::WaitQueue;

/// The state of an import. Spec: ptlrpc-ldlm-mgs §14.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was never connected.
    New,
    /// The target was asked for a connection.
    Connecting,
    /// Requests are sent.
    Full,
    /// The target recovers, and gets the transactions again that it has lost.
    Replay,
    /// The owner sends lock replays, then calls [`Import::locks_replayed`].
    ReplayLocks,
    /// The target waits for other clients. It has been told that there is nothing more to replay.
    ReplayWait,
    /// What has no reply is sent again. [`State::Full`] follows at once.
    Recover,
    /// The connection ended since it was not used. The next request connects.
    Idle,
    /// The target has forgotten the client; requests and everything that it had granted are lost, and so is what is
    /// kept, if it has restarted. What it has on disk was released before. [`State::Full`] follows at once.
    Evicted,
    /// There is no connection, for this reason. The import tries again.
    Disconnected(Errno),
    /// There is no connection and will be none: requests fail with this error.
    Closed(Errno),
}

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Post memory for the bulk data and the reply, then send the request.
    Transmit(Transmission),
    /// A reply to this transmission is no longer expected, nor bulk data. If it had bulk data,
    /// [`Import::handle_bulk`] says when their memory is free.
    Withdraw(TransmissionId),
    /// A request has ended, and LNet does not use the memory of its bulk data any more, unless the
    /// request is kept.
    Done {
        /// Which.
        request: RequestId,
        /// The reply, whose status may be an error of the operation; or why the request was not
        /// processed.
        result: Result<Box<Message<'static>>, Errno>,
        /// The bytes of bulk data that the last transmission moved.
        moved: u64,
        /// Whether it is kept with its bulk data: the memory is the import's until
        /// [`Output::Released`].
        keeps_data: bool,
    },
    /// The bulk data of a request that was kept are not needed any more: they are on disk, or the
    /// target has forgotten this client. Their memory is the owner's again.
    Released {
        /// Which.
        request: RequestId,
    },
    /// An open was executed again. Take what has changed in its reply, such as the handle of the file,
    /// also into requests by [`Import::message_mut`]; then call [`Import::continue_replay`].
    Replayed {
        /// The open.
        request: RequestId,
        /// The reply.
        reply: Box<Message<'static>>,
    },
    /// The state has changed.
    State(State),
}

/// What ends at a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The answer to the connect or to the disconnect.
    Answer,
    /// The time to try to connect.
    Retry,
    /// The first reply to a request.
    Reply,
    /// The time to send a request again that the server has not finished.
    Postponed(RequestId),
    /// The time to ping.
    Ping,
    /// The end of a connection that is not used.
    Idle,
}

/// The message that changes the connection.
#[derive(Clone, Copy, Debug)]
enum Handshake {
    Connect { id: TransmissionId, sent: Time },
    Disconnect { id: TransmissionId, is_idle: bool },
}

/// One target as a client sees it.
#[derive(Debug)]
pub struct Import {
    target: Target,
    state: State,
    /// The export of this client at the target.
    export: Handle,
    /// What the target has granted.
    granted: ConnectData,
    /// What the owner holds of its grant, once it has said so.
    held: Option<u32>,
    /// The number of attempts to connect.
    connection_count: u32,
    /// Whether it was ever connected.
    is_known: bool,
    /// Whether the target has transactions that can be replayed.
    is_replayable: bool,
    /// Whether the owner uses the connection even if no request is sent.
    is_in_use: bool,
    search: Search,
    handshake: Option<Handshake>,
    /// Whether the connection that is being made ends at once.
    is_ending: bool,
    calls: Table<Call>,
    /// Requests to be sent, in order.
    waiting: WaitQueue,
    /// Lock replays to be sent.
    lock_replays: VecDeque<RequestId>,
    slots: Slots,
    kept: ReplayList,
    progress: Progress,
    /// The requests that replies are expected to, by their transmissions.
    in_flight: BTreeMap<TransmissionId, RequestId>,
    /// The transmissions that were withdrawn, and whose bulk memory LNet may still use.
    releasing: BTreeMap<TransmissionId, Release>,
    /// The replays whose bulk memory LNet may use, and the requests that they repeat.
    replaying: BTreeMap<TransmissionId, RequestId>,
    /// The numbers that were sent and have no reply.
    unreplied: BTreeSet<Xid>,
    /// How many pings have no answer.
    pings: usize,
    next_transmission: u64,
    timeouts: Timeouts,
    /// What was done since the counters were cleared, and before.
    stats: Stats,
    cleared: Stats,
    timers: Timers<Timer>,
    /// When replies are late.
    replies: Timers<RequestId>,
    outputs: VecDeque<Output>,
}

impl Import {
    /// Returns an import that is not connected.
    ///
    /// # Panics
    /// If the target has no NID.
    pub fn new(target: Target) -> Self {
        assert!(!target.nids.is_empty(), "a target has a NID");
        Self {
            state: State::New,
            export: Handle::NONE,
            granted: ConnectData::default(),
            held: None,
            connection_count: 0,
            is_known: false,
            is_replayable: false,
            is_in_use: false,
            search: Search::new(target.nids.len()),
            handshake: None,
            is_ending: false,
            calls: Table::default(),
            waiting: WaitQueue::default(),
            lock_replays: VecDeque::new(),
            slots: Slots::new(),
            kept: ReplayList::default(),
            progress: Progress::default(),
            in_flight: BTreeMap::new(),
            releasing: BTreeMap::new(),
            replaying: BTreeMap::new(),
            unreplied: BTreeSet::new(),
            pings: 0,
            next_transmission: 0,
            timeouts: Timeouts::new(target.limits),
            stats: Stats::default(),
            cleared: Stats::default(),
            timers: Timers::default(),
            replies: Timers::default(),
            outputs: VecDeque::new(),
            target,
        }
    }

    /// Returns the target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the NID that is connected, or is tried.
    pub fn nid(&self) -> Nid {
        self.target.nids[self.search.current()]
    }

    /// Returns what was done since the start.
    pub fn stats(&self) -> Stats {
        let mut all = self.cleared.clone();
        all.merge(&self.stats);
        all
    }

    /// Returns what was done since [`Import::clear_stats`].
    pub fn recent_stats(&self) -> &Stats {
        &self.stats
    }

    /// Begins [`Import::recent_stats`] again.
    pub fn clear_stats(&mut self) {
        self.cleared.merge(&std::mem::take(&mut self.stats));
    }

    /// Returns what the target has granted; nothing before the first connection.
    pub fn granted(&self) -> &ConnectData {
        &self.granted
    }

    /// Says how much of the target's grant the owner holds, in bytes: a restarted target learns it from the next
    /// connection.
    pub fn hold_grant(&mut self, bytes: u32) {
        self.held = Some(bytes);
    }

    /// Connects, unless that has begun or the import is closed.
    pub fn connect(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == State::New {
            self.send_connect(now, xids);
        }
    }

    /// Handles a request, and sends it when the import is connected and few enough are in flight.
    pub fn request(&mut self, now: Time, xids: &mut XidSource, request: Request) -> RequestId {
        let is_lock_replay = request.is_lock_replay;
        let purpose = if is_lock_replay { Purpose::LockReplay } else { Purpose::Owner };
        let id = RequestId(self.calls.insert(Call::new(request, purpose)));
        match self.state {
            State::Closed(errno) => self.end(id, Err(errno)),
            _ if self.is_closing() => self.end(id, Err(Errno::ESHUTDOWN)),
            State::ReplayLocks if is_lock_replay => {
                self.lock_replays.push_back(id);
                self.send_lock_replays(now, xids);
            }
            _ if is_lock_replay => self.end(id, Err(Errno::ENOTCONN)),
            state => {
                self.wait(id);
                match state {
                    State::Idle => self.send_connect(now, xids),
                    _ => self.send_waiting(now, xids),
                }
            }
        }
        id
    }

    /// Handles what arrived in the room for the reply to a transmission.
    pub fn handle_reply(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        id: TransmissionId,
        arrival: Arrival<'_>,
    ) {
        match self.handshake {
            Some(Handshake::Connect { id: connect, sent }) if connect == id => {
                self.handle_connect_reply(now, xids, sent, arrival);
            }
            Some(Handshake::Disconnect { id: disconnect, .. }) if disconnect == id => {
                self.disconnected(now, xids);
            }
            _ => {
                if let Some(&request) = self.in_flight.get(&id) {
                    self.handle_call_reply(now, xids, request, arrival);
                }
            }
        }
    }

    /// Handles the failure of a transmission: the target was not reached.
    pub fn handle_failure(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        id: TransmissionId,
        errno: Errno,
    ) {
        match self.handshake {
            Some(Handshake::Connect { id: connect, .. }) if connect == id => {
                self.connect_failed(now, xids, errno);
            }
            Some(Handshake::Disconnect { id: disconnect, .. }) if disconnect == id => {
                self.disconnected(now, xids);
            }
            _ if self.in_flight.contains_key(&id) => self.lose(now, xids, errno),
            _ => {}
        }
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time, xids: &mut XidSource) {
        while let Some(timer) = self.pop_due(now) {
            match timer {
                Timer::Answer => match self.handshake {
                    Some(Handshake::Connect { .. }) => {
                        self.connect_failed(now, xids, Errno::ETIMEDOUT)
                    }
                    _ => self.disconnected(now, xids),
                },
                Timer::Retry => self.send_connect(now, xids),
                Timer::Reply => self.lose(now, xids, Errno::ETIMEDOUT),
                Timer::Postponed(id) => {
                    if self.may_resend(id) {
                        self.wait(id);
                        self.send_waiting(now, xids);
                    }
                }
                Timer::Ping => self.send_ping(now, xids),
                Timer::Idle => self.end_idle(now, xids),
            }
        }
    }

    /// Returns when to call [`Import::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next().into_iter().chain(self.replies.next()).min()
    }

    fn stop_timers(&mut self) {
        (self.timers, self.replies) = Default::default();
    }

    /// Returns what is due first, and forgets it.
    fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let reply = self.replies.next().filter(|at| *at <= now);
        if reply.is_some_and(|reply| self.timers.next().is_none_or(|other| reply <= other)) {
            self.replies.pop_due(now);
            return Some(Timer::Reply);
        }
        self.timers.pop_due(now)
    }

    /// Returns the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(Output::State(state));
        }
    }

    /// Shows the target that this client is there, also while an earlier ping has no answer: it may be
    /// lost.
    fn send_ping(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == State::Full {
            self.send_own(now, xids, Purpose::Ping);
        }
    }

    /// Sends a ping, which waits for no other request.
    fn send_own(&mut self, now: Time, xids: &mut XidSource, purpose: Purpose) {
        let ping = Request::new(Message::request(&format::PING), EMPTY_LEN).once();
        let id = RequestId(self.calls.insert(Call::new(ping, purpose)));
        self.pings += 1;
        self.transmit(now, xids, id);
    }

    /// Lets a request wait until it may be sent.
    fn wait(&mut self, id: RequestId) {
        if let Some(call) = self.calls.get(id.0) {
            self.waiting.push_back(call.lane(), id);
        }
    }
}

/// The length of a reply without buffers.
const EMPTY_LEN: usize = fulmar_lustre_wire::message::EARLY_LEN;
