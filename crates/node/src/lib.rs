//! One node as a pure machine: the LNet core over its LNDs.
//!
//! The driver runs it over real sockets, and the simulator over virtual ones. It only passes
//! messages between [`Lnet`] and the LNDs, which do not know each other, and does not depend on
//! particular services.
//!
//! After each `handle_*` and each call of a handle, call [`Node::poll_output`] until it returns
//! nothing, and process the outputs in order:
//!
//! ```text
//! Stream Dial     -> open a connection, then handle_dialled
//!        Write    -> append to the writes of the connection, then handle_sent(bytes)
//!        Close    -> close it, and before anything else handle_stopped(bytes)
//! Resume          -> need() of the connection has changed: read on
//! Copy            -> copy between two memories, then handle_copied
//! Event           -> to the queue of its service; then handle_event_done if requested
//! Pinged, Discovered, Notice -> report to the requester
//! Crossing        -> report to an observer of the node
//! ```
//!
//! # How a node is put together
//!
//! ```text
//!   applications, RPC services          administrators
//!    net::Service   (narrow handle)      net::Admin
//!         │ batches ▲ events                │
//! ────────┼─────────┼───────────────────────┼──────────────────────────────── driver (threads) or sim (virtual time)
//!         ▼         │                       ▼
//!    node::Node ── lnet::Lnet: connects  matching · peers and discovery · health · routing · credits
//!                     │  ▲
//!           SendRequest  Received, Completed, Sent, Path                          (vocabulary: crate lnd)
//!                     ▼  │
//!               node::Lnd: Socket(Socklnd) | Other(Box<dyn lnd::Lnd>)
//! ```
//!
//! **LNDs.** `lnd` holds the values that LNet and a network driver (LND) exchange, and the trait
//! `Lnd`. `node::Lnd` is an enum over the LNDs that exist, so that a message needs no dynamic call;
//! a driver of another crate, such as the ideal one of the simulator, is boxed. The type of a NID's
//! network selects the LND. The core names a received message (`RxId`) and not its connection: an
//! LND may receive any number of messages on one connection at the same time.
//!
//! **Services.** A user of LNet is a service: it has a `ServiceId`, match entries at portals,
//! descriptors, and one queue of events, which are handled one at a time and in order. Events of
//! different services are handled in parallel. The layers below do not depend on a particular
//! service. `post` takes a batch: attach an entry with its descriptor, bind and PUT, bind and GET,
//! unlink. Each descriptor ends with exactly one event that is marked `unlinked`.
//!
//! **Services that are machines** implement `lnet::Service`: events, results of posts and times go
//! in; posts, and requests to the host that do not concern LNet, come out. LNet's lock does not
//! protect their state. `net::Running` runs one over threads, `sim` in virtual time. LNet selftest
//! is one, and so are the RPC client and server, the mounts of a client and the targets of a
//! server.
//!
//! **Handles.** An application holds a `Service`, an administrator an `Admin`. Neither gives access
//! to the machine, and no safe call of either can crash a node: an invalid argument is answered
//! with an errno.
#![forbid(unsafe_code)]

mod admin;
pub mod check;
mod lnd;
mod outputs;
mod service;

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnd::{CloseCause, DialError, Lnd as Interface, Need};
use fulmar_lnet::{self as lnet, CopyId, EventDone, Lnet, ServiceConfig, ServiceId};
use fulmar_lnet_wire::Nid;
use fulmar_socklnd::{self as socklnd, Socklnd};

pub use admin::Admin;
pub use outputs::{Crossing, Notice, Output};
pub use service::ServiceHandle;

use lnd::Lnd;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the core.
    pub lnet: lnet::Config,
    /// Settings of the socket LND.
    pub socklnd: socklnd::Config,
}

/// LNet over its LNDs.
#[derive(Debug)]
pub struct Node {
    lnet: Lnet,
    /// The first one is the socket LND.
    lnds: Vec<Lnd>,
    /// The connection whose bytes are being handled: its owner calls `need` in any case.
    reading: Option<ConnId>,
    /// Whether crossings are reported.
    watched: bool,
    outputs: VecDeque<Output>,
}

impl Node {
    /// Creates a node whose only network interface is `0@lo`.
    pub fn new(config: Config) -> Self {
        Self {
            lnet: Lnet::new(config.lnet),
            lnds: vec![Lnd::Socket(Box::new(Socklnd::new(config.socklnd)))],
            reading: None,
            watched: false,
            outputs: VecDeque::new(),
        }
    }

    /// Adds an LND.
    ///
    /// # Errors
    /// EEXIST if another serves the same type of networks.
    pub fn add_lnd(&mut self, lnd: Box<dyn Interface>) -> Result<(), Errno> {
        if self.lnds.iter().any(|other| other.net_type() == lnd.net_type()) {
            return Err(Errno::EEXIST);
        }
        self.lnds.push(Lnd::Other(lnd));
        Ok(())
    }

    /// Creates a service with its own event queue.
    pub fn open_service(&mut self, config: ServiceConfig) -> ServiceId {
        self.lnet.open_service(config)
    }

    /// Returns the operations of a service.
    pub fn service(&mut self, now: Time, id: ServiceId) -> ServiceHandle<'_> {
        ServiceHandle::new(self, now, id)
    }

    /// Returns the administrative operations.
    pub fn admin(&mut self, now: Time) -> Admin<'_> {
        Admin::new(self, now)
    }

    /// Sets whether every message between the core and an LND is reported by
    /// [`Output::Crossing`].
    pub fn report_crossings(&mut self, report: bool) {
        self.watched = report;
    }

    /// Returns the core for inspection.
    pub fn lnet(&self) -> &Lnet {
        &self.lnet
    }

    /// Returns the socket LND for inspection.
    pub fn socklnd(&self) -> &Socklnd {
        match &self.lnds[..] {
            [Lnd::Socket(socket), ..] => socket,
            lnds => unreachable!("the socket LND is the first of {lnds:?}"),
        }
    }

    fn socket(&mut self) -> &mut Socklnd {
        match &mut self.lnds[..] {
            [Lnd::Socket(socket), ..] => socket,
            lnds => unreachable!("the socket LND is the first of {lnds:?}"),
        }
    }

    /// Sets for how many incoming connections the owner has room; if it is `full`, for no more than
    /// there are.
    pub fn limit_incoming(&mut self, most: usize, full: bool) {
        self.socket().limit_incoming(most, full);
    }

    /// Returns when another connection should be accepted.
    pub fn accepts_at(&self, now: Time) -> Time {
        self.socklnd().accepts_at(now)
    }

    /// Lets an incoming connection give way, since there was no place for another one. Returns when the
    /// next should be accepted.
    pub fn handle_no_place(&mut self, now: Time) -> Time {
        let next = self.socket().handle_no_place(now);
        self.pump(now);
        next
    }

    /// Handles a connection that the listener accepted. `None` refuses it: then close it.
    pub fn handle_accepted(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnId> {
        let conn = self.socket().handle_accepted(now, local, remote);
        self.pump(now);
        conn
    }

    /// Handles the result of a dial: the local address, or why there is no connection.
    pub fn handle_dialled(
        &mut self,
        now: Time,
        conn: ConnId,
        result: Result<SocketAddr, DialError>,
    ) {
        self.socket().handle_dialled(now, conn, result);
        self.pump(now);
    }

    /// Handles bytes from a connection and returns how many were used. The rest are payload, to be
    /// stored as [`Node::need`] requests, or cannot be used yet.
    pub fn handle_bytes(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> usize {
        self.reading = Some(conn);
        let mut rest = bytes;
        while !rest.is_empty() && matches!(self.need(conn), Need::Bytes(_)) {
            let used = self.socket().handle_bytes(now, conn, rest);
            self.pump(now);
            assert!(used > 0, "a machine that needs bytes uses some");
            rest = rest.get(used..).unwrap_or_default();
        }
        self.reading = None;
        bytes.len() - rest.len()
    }

    /// Handles `len` bytes of payload, stored as [`Need::Payload`] requested.
    pub fn handle_payload(&mut self, now: Time, conn: ConnId, len: u32, crc: Option<u32>) {
        self.reading = Some(conn);
        self.socket().handle_payload(now, conn, len, crc);
        self.pump(now);
        self.reading = None;
    }

    /// Handles that the socket has accepted `bytes` more of the writes.
    pub fn handle_sent(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socket().handle_sent(now, conn, bytes);
        self.pump(now);
    }

    /// Handles the answer to [`Close`](fulmar_lnd::Stream::Close): nothing more is written, and the
    /// socket had accepted this many more bytes.
    pub fn handle_stopped(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socket().handle_stopped(now, conn, bytes);
        self.pump(now);
    }

    /// Handles that the link or the address of a network interface was removed or restored.
    pub fn handle_link(&mut self, now: Time, nid: Nid, up: bool) {
        // The core first: then its messages already take another path.
        self.lnet.handle_link(now, nid, up);
        if let Some(lnd) = self.lnd_of(nid) {
            lnd.handle_link(now, nid, up);
        }
        self.pump(now);
    }

    /// Handles a stall report: TCP retransmits the same bytes on a connection and receives nothing.
    pub fn handle_stalled(&mut self, now: Time, conn: ConnId) {
        self.socket().handle_stalled(now, conn);
        self.pump(now);
    }

    /// Handles a report that a TCP window limits the throughput of a connection and cannot be
    /// enlarged.
    pub fn handle_window_limited(&mut self, now: Time, conn: ConnId) {
        self.socket().handle_window_limited(now, conn);
        self.pump(now);
    }

    /// Handles the end of a connection, as reported by its socket. The socket had accepted `bytes`
    /// more than [`Node::handle_sent`] reported: messages that end among them may have arrived.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId, bytes: u64, how: CloseCause) {
        if bytes > 0 {
            self.socket().handle_sent(now, conn, bytes);
        }
        self.socket().handle_closed(now, conn, how);
        self.pump(now);
    }

    /// Handles the end of an [`Output::Copy`].
    pub fn handle_copied(&mut self, now: Time, copy: CopyId) {
        self.lnet.handle_copied(now, copy);
        self.pump(now);
    }

    /// Handles that the handler of an event has returned.
    pub fn handle_event_done(&mut self, now: Time, done: EventDone) {
        self.lnet.handle_event_done(now, done);
        self.pump(now);
    }

    /// Handles that an LND of [`Node::add_lnd`] has outputs.
    pub fn handle_lnd_ready(&mut self, now: Time) {
        self.pump(now);
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        for lnd in &mut self.lnds {
            lnd.handle_timeout(now);
        }
        self.lnet.handle_timeout(now);
        self.pump(now);
        // What an LND has reported meanwhile may be due for the core at once.
        while self.lnet.poll_timeout().is_some_and(|at| at <= now) {
            self.lnet.handle_timeout(now);
            self.pump(now);
        }
    }

    /// Returns when to call [`Node::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lnds = self.lnds.iter().filter_map(Lnd::poll_timeout);
        lnds.chain(self.lnet.poll_timeout()).min()
    }

    /// Returns the next output, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns what to read from a connection next.
    pub fn need(&self, conn: ConnId) -> Need {
        self.socklnd().need(conn)
    }

    fn lnd_of(&mut self, nid: Nid) -> Option<&mut Lnd> {
        let kind = nid.net().kind();
        self.lnds.iter_mut().find(|lnd| lnd.net_type() == kind)
    }

    /// Passes messages between the core and its LNDs until none is left.
    fn pump(&mut self, now: Time) {
        loop {
            if let Some(output) = self.lnds.iter_mut().find_map(Lnd::poll_output) {
                self.route_lnd(now, output);
            } else if let Some(output) = self.lnet.poll_output() {
                self.route_lnet(now, output);
            } else {
                break;
            }
        }
    }

    fn route_lnd(&mut self, now: Time, output: fulmar_lnd::Output) {
        use fulmar_lnd::Output as From;
        match output {
            From::Stream(stream) => self.outputs.push_back(Output::Stream(stream)),
            From::Notice(notice) => self.outputs.push_back(Output::Notice(Notice::Lnd(notice))),
            From::Path { ni, peer, state } => self.lnet.handle_path(now, ni, peer, state),
            From::Received(received) => {
                self.crossing(|| Crossing::Received(received));
                self.lnet.handle_received(now, received);
            }
            From::Completed { rx, result } => self.lnet.handle_receive_done(now, rx, result),
            From::Waiting { message } => self.lnet.handle_waiting(now, message),
            From::Sent { message, result } => {
                self.crossing(|| Crossing::Returned { message, sent: result.is_ok() });
                self.lnet.handle_sent(now, message, result);
            }
        }
    }

    fn crossing(&mut self, crossing: impl FnOnce() -> Crossing) {
        if self.watched {
            self.outputs.push_back(Output::Crossing(crossing()));
        }
    }

    fn route_lnet(&mut self, now: Time, output: lnet::Output) {
        use lnet::Output as From;
        let output = match output {
            From::Send(request) => {
                self.crossing(|| Crossing::Handed(request.clone()));
                let lnd = self.lnd_of(request.ni).expect("an interface has an LND");
                return lnd.send(now, request);
            }
            From::Verdict { ni, conn, rx, verdict } => {
                let Some(lnd) = self.lnd_of(ni) else { return };
                lnd.handle_verdict(now, conn, rx, verdict);
                if self.reading == Some(conn) || !matches!(self.lnd_of(ni), Some(Lnd::Socket(_))) {
                    return;
                }
                Output::Resume { conn }
            }
            From::ReportWaiting { ni } => {
                if let Some(lnd) = self.lnd_of(ni) {
                    lnd.report_waiting(now, ni);
                }
                return;
            }
            From::Copy { copy, from, to } => Output::Copy { copy, from, to },
            From::Event { service, event, bytes } => Output::Event { service, event, bytes },
            From::Allocate { buffer, len } => Output::Allocate { buffer, len },
            From::Release { buffer } => Output::Release { buffer },
            From::Pinged { query, result } => Output::Pinged { query, result },
            From::Discovered { query, result } => Output::Discovered { query, result },
            From::Notice(notice) => Output::Notice(Notice::Lnet(notice)),
        };
        self.outputs.push_back(output);
    }
}
