//! An import: one target as a client sees it. Spec: ptlrpc-ldlm-mgs §6, §12, §14, §16.
//!
//! ```text
//! New ── connect ──► Connecting ── granted ──────────────────────────► Full
//!                     ▲  │   │                                         │ │
//!     time to try ────┘  │   └── the target recovers ──► ReplayWait ──►┘ │ late, failed, unknown
//!    Disconnected ◄── refused, silent                                    │ to the server
//!         ▲                                                              │
//!         └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! Requests wait until the import is full, and while the most requests are in flight. A request that
//! is late fails the connection, not the request: it is sent again, with the same number, when the
//! import is connected. A server that has forgotten the client evicts it: the requests that it knows
//! then fail with EIO.
//!
//! An import does not replay yet: [`Request::new`] accepts only operations that are no transactions.
//! The end of the recovery of a target is announced, so that it does not wait for this client.
//!
//! Pure. Every input takes the XIDs of the node, since inputs send messages. Drain
//! [`Import::poll_output`] after each input.

mod call;
mod connect;
mod reply;
mod search;
mod send;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fulmar_base::{Errno, Table, Time, Timers};
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::connect::ConnectData;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, format};

pub use call::{Arrival, Request, RequestId, Transmission, TransmissionId};
pub use target::{Sender, Target, TargetKind};

use crate::timeouts::{CONNECT_TIMEOUT, Timeouts};
use crate::{Xid, XidSource};
use call::{Call, Purpose};
use search::Search;

/// The state of an import. Spec: ptlrpc-ldlm-mgs §14.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was never connected.
    New,
    /// The target was asked for a connection.
    Connecting,
    /// Requests are sent.
    Full,
    /// The target recovers: it has been told that there is nothing to replay.
    ReplayWait,
    /// The target has forgotten the client; requests and everything that it had granted are lost.
    /// [`State::Full`] follows at once.
    Evicted,
    /// There is no connection, for this reason. The import tries again.
    Disconnected(Errno),
    /// There is no connection and will be none: requests fail with this error.
    Closed(Errno),
}

/// What the owner must do or know, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Post memory for the reply, then send the request.
    Transmit(Transmission),
    /// A reply to this transmission is no longer expected.
    Withdraw(TransmissionId),
    /// A request has ended.
    Done {
        /// Which.
        request: RequestId,
        /// The reply, whose status may be an error of the operation; or why the request was not
        /// processed.
        result: Result<Message<'static>, Errno>,
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
    /// The reply to a request.
    Reply(RequestId),
    /// The time to send a request again that the server has not finished.
    Postponed(RequestId),
    /// The time to ping.
    Ping,
}

/// The message that changes the connection.
#[derive(Clone, Copy, Debug)]
enum Handshake {
    Connect { id: TransmissionId, sent: Time },
    Disconnect { id: TransmissionId },
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
    /// The number of attempts to connect.
    connection_count: u32,
    /// Whether it was ever connected.
    is_known: bool,
    search: Search,
    handshake: Option<Handshake>,
    calls: Table<Call>,
    /// Requests to be sent, in order.
    waiting: VecDeque<RequestId>,
    /// The requests that replies are expected to, by their transmissions.
    in_flight: BTreeMap<TransmissionId, RequestId>,
    /// The numbers that were sent and have no reply.
    unreplied: BTreeSet<Xid>,
    /// The ping under way, if any.
    ping: Option<RequestId>,
    next_transmission: u64,
    timeouts: Timeouts,
    timers: Timers<Timer>,
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
            connection_count: 0,
            is_known: false,
            search: Search::new(target.nids.len()),
            handshake: None,
            calls: Table::default(),
            waiting: VecDeque::new(),
            in_flight: BTreeMap::new(),
            unreplied: BTreeSet::new(),
            ping: None,
            next_transmission: 0,
            timeouts: Timeouts::new(target.limits),
            timers: Timers::default(),
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

    /// Returns what the target has granted; nothing before the first connection.
    pub fn granted(&self) -> &ConnectData {
        &self.granted
    }

    /// Connects, unless that has begun or the import is closed.
    pub fn connect(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == State::New {
            self.send_connect(now, xids);
        }
    }

    /// Takes a request, and sends it when the import is connected and few enough are in flight.
    pub fn request(&mut self, now: Time, xids: &mut XidSource, request: Request) -> RequestId {
        let id = RequestId(self.calls.insert(Call::new(request, Purpose::Owner)));
        match self.state {
            State::Closed(errno) => self.end(id, Err(errno)),
            _ if self.is_closing() => self.end(id, Err(Errno::ESHUTDOWN)),
            _ => {
                self.waiting.push_back(id);
                self.send_waiting(now, xids);
            }
        }
        id
    }

    /// Takes what arrived in the room for the reply to a transmission.
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
            Some(Handshake::Disconnect { id: disconnect }) if disconnect == id => self.closed(),
            _ => {
                if let Some(&request) = self.in_flight.get(&id) {
                    self.handle_call_reply(now, xids, request, arrival);
                }
            }
        }
    }

    /// Takes the failure of a transmission: the target was not reached.
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
            Some(Handshake::Disconnect { id: disconnect }) if disconnect == id => self.closed(),
            _ if self.in_flight.contains_key(&id) => self.lose(now, xids, errno),
            _ => {}
        }
    }

    /// Takes the passing of time.
    pub fn handle_timeout(&mut self, now: Time, xids: &mut XidSource) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Answer => match self.handshake {
                    Some(Handshake::Connect { .. }) => {
                        self.connect_failed(now, xids, Errno::ETIMEDOUT)
                    }
                    _ => self.closed(),
                },
                Timer::Retry => self.send_connect(now, xids),
                Timer::Reply(_) => self.lose(now, xids, Errno::ETIMEDOUT),
                Timer::Postponed(id) => {
                    self.waiting.push_back(id);
                    self.send_waiting(now, xids);
                }
                Timer::Ping => self.send_ping(now, xids),
            }
        }
    }

    /// Ends all requests with ESHUTDOWN, and the connection, if there is one, with a message to the
    /// target. [`State::Closed`] follows. Spec: ptlrpc-ldlm-mgs §12.5.
    pub fn disconnect(&mut self, now: Time, xids: &mut XidSource) {
        if matches!(self.state, State::Closed(_)) || self.is_closing() {
            return;
        }
        let was_full = self.state == State::Full;
        self.end_handshake();
        self.fail_all(Errno::ESHUTDOWN);
        self.timers = Timers::default();
        match was_full {
            true => self.send_disconnect(now, xids),
            false => self.closed(),
        }
    }

    /// Returns when to call [`Import::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn is_closing(&self) -> bool {
        matches!(self.handshake, Some(Handshake::Disconnect { .. }))
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(Output::State(state));
        }
    }

    /// Ends a request.
    fn end(&mut self, id: RequestId, result: Result<Message<'static>, Errno>) {
        let Some(call) = self.calls.remove(id.0) else { return };
        self.forget_transmission(id, call.sent.map(|sent| sent.id));
        self.timers.clear(Timer::Postponed(id));
        if let Some(xid) = call.xid {
            self.unreplied.remove(&xid);
        }
        match call.purpose {
            Purpose::Owner => self.outputs.push_back(Output::Done { request: id, result }),
            Purpose::Ping | Purpose::EndOfReplay => self.ping = None,
        }
    }

    /// Stops to expect a reply to the last transmission of a request.
    fn forget_transmission(&mut self, id: RequestId, sent: Option<TransmissionId>) {
        self.timers.clear(Timer::Reply(id));
        if let Some(sent) = sent
            && self.in_flight.remove(&sent).is_some()
        {
            self.outputs.push_back(Output::Withdraw(sent));
        }
    }

    /// Ends all requests.
    fn fail_all(&mut self, errno: Errno) {
        self.waiting.clear();
        let ids: Vec<u64> = self.calls.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.end(RequestId(id), Err(errno));
        }
    }

    /// Loses the connection, and searches the target. What was sent and not answered is sent again,
    /// before what waits, when the import is connected. Spec: ptlrpc-ldlm-mgs §14.5.
    fn lose(&mut self, now: Time, xids: &mut XidSource, errno: Errno) {
        self.timers.clear(Timer::Ping);
        let mut sent: Vec<RequestId> = std::mem::take(&mut self.in_flight).into_values().collect();
        sent.sort_by_key(|id| self.calls.get(id.0).and_then(|call| call.xid));
        for id in sent.into_iter().rev() {
            self.timers.clear(Timer::Reply(id));
            let Some(call) = self.calls.get_mut(id.0) else { continue };
            if let Some(sent) = call.sent.take() {
                self.outputs.push_back(Output::Withdraw(sent.id));
            }
            call.resent = true;
            let is_kept = call.request.resend && call.purpose == Purpose::Owner;
            match is_kept {
                true => self.waiting.push_front(id),
                false => self.end(id, Err(Errno::ETIMEDOUT)),
            }
        }
        self.set_state(State::Disconnected(errno));
        match errno {
            // The node answers, but does not know this client any more.
            Errno::ENOTCONN | Errno::ENODEV => self.connect_at(now, xids, self.search.same(now)),
            _ => self.search_next(now, xids),
        }
    }

    fn send_ping(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == State::Full && self.ping.is_none() {
            self.send_own(now, xids, Purpose::Ping);
        }
    }

    /// Sends a ping, which waits for no other request.
    fn send_own(&mut self, now: Time, xids: &mut XidSource, purpose: Purpose) {
        let ping = Request::new(Message::request(&format::PING), EMPTY_LEN).once();
        let id = RequestId(self.calls.insert(Call::new(ping, purpose)));
        self.ping = Some(id);
        self.transmit(now, xids, id);
    }

    fn closed(&mut self) {
        self.end_handshake();
        self.timers = Timers::default();
        self.set_state(State::Closed(Errno::ESHUTDOWN));
    }

    /// Expects no further answer to a connect or disconnect.
    fn end_handshake(&mut self) {
        self.timers.clear(Timer::Answer);
        if let Some(Handshake::Connect { id, .. } | Handshake::Disconnect { id }) =
            self.handshake.take()
        {
            self.outputs.push_back(Output::Withdraw(id));
        }
    }
}

/// The length of a reply without buffers.
const EMPTY_LEN: usize = fulmar_lustre_wire::message::EARLY_LEN;
