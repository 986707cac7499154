//! Requests of a server to its clients: callbacks about locks. Spec: ptlrpc-ldlm-mgs §22.
//!
//! ```text
//! call --> sent --> reply -----------------------------------> Called
//!           |  ^
//!           |  +-- late, or the client has connected again: the same number
//!           +-- not sent: again after a pause
//!
//! limit, client gone ----------------------------------------> Called with an errno
//! ```
//!
//! A client takes a bounded number of requests of a node, so that many calls are sent as others end.
//!
//! The client is known by its export: the node of its last CONNECT, and the handle by which it knows
//! the connection. There is nothing to connect: a client that does not answer within the limit is its
//! target's concern. A call may be executed twice, if its first reply was lost.
//!
//! A server sends requests to its clients over their exports: to the node of the last CONNECT, with
//! the client's handle of the connection. There is nothing to connect: a call is sent again until
//! its reply, its limit, or the end of the export (`Task::Called`); what a client has not answered
//! goes to its next connection at once. At most 512 calls of a client are under way, others wait
//! and their limits do not begin: a node drops what exceeds its bound for one node, and that would
//! be sent again only after a timeout. At a client node callbacks are the requests of a `Server`
//! with the portal of callbacks, whose exports are the connections of its imports (`admit_server`).

mod check;
mod reply;
mod send;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, Table, Time, Timers};
use fulmar_lnet::{Event, EventKind, MdId, Op};
use fulmar_lnet_wire::ProcessId;
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::message::{Container, Flavor, Message, Part};

use crate::export::Export;
use crate::timeouts::{Limits, Timeouts};
use crate::{Xid, XidSource};
use send::Descriptor;

/// A request to a client. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A request for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    message: Message<'static>,
    reply_len: usize,
    limit: Duration,
}

impl Call {
    /// Returns a request whose reply has at most `reply_len` bytes, and that is sent again until there
    /// is a reply or the time `limit` is over.
    ///
    /// # Panics
    /// If replies are never so long.
    pub fn new(message: Message<'static>, reply_len: usize, limit: Duration) -> Self {
        assert!(reply_len <= Container::LEN_MAX, "{reply_len} bytes are too many");
        Self { message, reply_len, limit }
    }
}

/// What the owner must do or know, in order.
#[derive(Debug)]
pub(crate) enum Output {
    /// Post this to LNet.
    Post(Op),
    /// A call has ended.
    Called { export: Handle, call: CallId, result: Result<Message<'static>, Errno> },
}

/// The calls of a server.
#[derive(Debug)]
pub(crate) struct Reverse {
    xids: XidSource,
    limits: Limits,
    /// The clients that were called, by their exports.
    clients: BTreeMap<Handle, Client>,
    calls: Table<Active>,
    /// What LNet has, by [`Md::user`](fulmar_lnet::Md::user) without [`USER`].
    posted: Table<Descriptor>,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
}

/// [`Md::user`](fulmar_lnet::Md::user) of calls has this bit.
pub(crate) const USER: u64 = 1 << 61;

/// A call that could not be sent is sent again after so long.
const PAUSE: Duration = Duration::from_secs(2);

/// The most calls that a client has not answered: others wait. Its node drops requests of a node that has sent
/// too many, which would be sent again only after a timeout; four targets of a node together are below its bound.
pub(crate) const UNDER_WAY_MAX: usize = 512;

/// How to call a client.
#[derive(Debug)]
struct Client {
    to: ProcessId,
    connection: Handle,
    flavor: Flavor,
    flags: ConnectFlags,
    flags2: ConnectFlags2,
    timeouts: Timeouts,
    /// Its calls, by their numbers.
    calls: BTreeMap<Xid, CallId>,
    /// Those that wait until others have ended, and are not sent yet.
    waiting: BTreeSet<Xid>,
}

impl Client {
    fn is_full(&self) -> bool {
        self.calls.len() - self.waiting.len() >= UNDER_WAY_MAX
    }
}

#[derive(Debug)]
struct Active {
    export: Handle,
    call: Call,
    xid: Xid,
    /// The transmission that a reply is expected to.
    sent: Option<SendState>,
    is_resent: bool,
}

#[derive(Clone, Copy, Debug)]
struct SendState {
    /// The memory for the reply, in the table of what was posted.
    reply: u64,
    /// The request, in the same table as long as LNet has it.
    request: u64,
    at: Time,
    has_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A call is sent again: its reply is late, or it could not be sent.
    Resend(CallId),
    /// The call has no more time.
    Limit(CallId),
}

impl Reverse {
    pub(crate) fn new(xids: XidSource, limits: Limits) -> Self {
        Self {
            xids,
            limits,
            clients: BTreeMap::new(),
            calls: Table::default(),
            posted: Table::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Sends a request to the client of an export.
    pub(crate) fn call(
        &mut self,
        now: Time,
        handle: Handle,
        export: &Export,
        call: Call,
    ) -> CallId {
        let limits = self.limits;
        let client = self.clients.entry(handle).or_insert_with(|| Client {
            to: export.peer,
            connection: export.connection,
            flavor: export.flavor.from_part(Part::CLIENT),
            flags: export.flags,
            flags2: export.flags2,
            timeouts: Timeouts::new(limits),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
        });
        let xid = self.xids.allocate();
        let active = Active { export: handle, call, xid, sent: None, is_resent: false };
        let id = CallId(self.calls.insert(active));
        let waits = client.is_full();
        client.calls.insert(xid, id);
        if waits {
            client.waiting.insert(xid);
        } else {
            self.begin(now, id)
        }
        id
    }

    /// Sends a call for the first time. Its time begins now: that of others is not its client's fault.
    fn begin(&mut self, now: Time, id: CallId) {
        let Some(active) = self.calls.get(id.0) else { return };
        self.timers.set(Timer::Limit(id), now + active.call.limit);
        self.transmit(now, id);
    }

    /// Sends the calls that need not wait any more.
    fn begin_next(&mut self, now: Time, handle: Handle) {
        while let Some(client) = self.clients.get_mut(&handle).filter(|one| !one.is_full()) {
            let next = client.waiting.pop_first().and_then(|xid| client.calls.get(&xid).copied());
            let Some(next) = next else { return };
            self.begin(now, next);
        }
    }

    /// Ends a call of which nothing more is to be known. Returns whether it was under way.
    pub(crate) fn forget(&mut self, now: Time, id: CallId) -> bool {
        let Some(export) = self.remove(id) else { return false };
        self.begin_next(now, export);
        true
    }

    /// Removes a call, and returns its export.
    fn remove(&mut self, id: CallId) -> Option<Handle> {
        let active = self.calls.remove(id.0)?;
        self.timers.clear(Timer::Resend(id));
        self.timers.clear(Timer::Limit(id));
        if let Some(client) = self.clients.get_mut(&active.export) {
            client.calls.remove(&active.xid);
            client.waiting.remove(&active.xid);
        }
        self.withdraw(active.sent);
        Some(active.export)
    }

    /// Handles the reconnect of a client: what it has not answered is sent again at once, since what was
    /// sent to its earlier connection may be lost.
    pub(crate) fn reconnected(&mut self, now: Time, handle: Handle, export: &Export) {
        let Some(client) = self.clients.get_mut(&handle) else { return };
        (client.to, client.connection) = (export.peer, export.connection);
        client.flavor = export.flavor.from_part(Part::CLIENT);
        (client.flags, client.flags2) = (export.flags, export.flags2);
        let sent = client.calls.iter().filter(|(xid, _)| !client.waiting.contains(xid));
        let sent: Vec<CallId> = sent.map(|(_, id)| *id).collect();
        for id in sent {
            self.resend(now, id);
        }
    }

    /// Ends the calls of a client that is gone.
    pub(crate) fn gone(&mut self, handle: Handle) {
        let Some(client) = self.clients.remove(&handle) else { return };
        for call in client.calls.into_values() {
            self.remove(call);
            let result = Err(Errno::ENOTCONN);
            self.outputs.push_back(Output::Called { export: handle, call, result });
        }
    }

    /// Handles an event of one of its descriptors, and the bytes that came with it.
    pub(crate) fn handle_event(&mut self, now: Time, event: &Event, bytes: &[u8]) {
        let user = event.user & !USER;
        let Some(&posted) = self.posted.get(user) else { return };
        if event.unlinked {
            self.posted.remove(user);
        }
        if posted.is_withdrawn {
            return;
        }
        match (posted.is_reply, event.kind, event.status) {
            (true, EventKind::Put, Ok(())) => self.handle_reply(now, posted.call, event, bytes),
            (true, EventKind::Unlink, _) | (false, EventKind::Send, Err(_)) => {
                self.pause(now, posted.call);
            }
            _ => {}
        }
    }

    /// Handles the result of a post.
    pub(crate) fn handle_posted(&mut self, now: Time, user: u64, result: Result<MdId, Errno>) {
        let user = user & !USER;
        let Some(posted) = self.posted.get_mut(user) else { return };
        match result {
            Ok(md) => {
                posted.md = Some(md);
                if posted.is_withdrawn && posted.is_reply {
                    self.outputs.push_back(Output::Post(Op::Unlink(md)));
                }
            }
            Err(_) => {
                let Descriptor { call, is_withdrawn, .. } = *posted;
                self.posted.remove(user);
                if !is_withdrawn {
                    self.pause(now, call);
                }
            }
        }
    }

    /// Handles the passing of time.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Resend(id) => self.resend(now, id),
                Timer::Limit(id) => self.end(now, id, Err(Errno::ETIMEDOUT)),
            }
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Reports the end of a call.
    fn end(&mut self, now: Time, id: CallId, result: Result<Message<'static>, Errno>) {
        let Some(export) = self.calls.get(id.0).map(|active| active.export) else { return };
        self.forget(now, id);
        self.outputs.push_back(Output::Called { export, call: id, result });
    }
}
