//! One node, as a pure machine: the LNet core over its LNDs.
//!
//! This is what the driver runs over real sockets and the simulator over virtual ones. It only
//! carries messages between [`Lnet`] and the LNDs, which do not know each other, and knows no
//! service by name.
//!
//! After each `handle_*` and each call of a handle, drain [`Node::poll_output`] in order:
//!
//! ```text
//! Stream Dial     -> open a connection, then handle_dialled
//!        Write    -> append to what is written on the connection, then handle_sent(bytes)
//!        Close    -> close it, and before anything else handle_stopped(bytes)
//! Resume          -> need() of the connection has changed: read on
//! Copy            -> copy between two memories, then handle_copied
//! Event           -> to the queue of its service; when it is handled, handle_event_done if it asks
//! Pinged, Discovered, Notice -> tell whoever asked
//! Crossing        -> tell whoever watches the node
//! ```
#![forbid(unsafe_code)]

mod admin;
pub mod check;
mod lnd;
mod outputs;
mod service;

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnd::{Closed, DialError, Lnd as Interface, Need};
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
    /// Those of the core.
    pub lnet: lnet::Config,
    /// Those of the socket LND.
    pub socklnd: socklnd::Config,
}

/// LNet over its LNDs.
#[derive(Debug)]
pub struct Node {
    lnet: Lnet,
    /// The socket LND is the first.
    lnds: Vec<Lnd>,
    /// The connection whose bytes are being handled: its owner looks at `need` by itself.
    reading: Option<ConnId>,
    /// Crossings are reported.
    watched: bool,
    outputs: VecDeque<Output>,
}

impl Node {
    /// Returns a node without network interfaces, but for `0@lo`.
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

    /// Makes a service, with a queue of events of its own.
    pub fn open_service(&mut self, config: ServiceConfig) -> ServiceId {
        self.lnet.open_service(config)
    }

    /// Returns what a service may do.
    pub fn service(&mut self, now: Time, id: ServiceId) -> ServiceHandle<'_> {
        ServiceHandle::new(self, now, id)
    }

    /// Returns what an administrator may do.
    pub fn admin(&mut self, now: Time) -> Admin<'_> {
        Admin::new(self, now)
    }

    /// Has every message that passes between the core and an LND reported by
    /// [`Output::Crossing`], or not any more.
    pub fn report_crossings(&mut self, report: bool) {
        self.watched = report;
    }

    /// Returns the core, to look at.
    pub fn lnet(&self) -> &Lnet {
        &self.lnet
    }

    /// Returns the socket LND, to look at.
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

    /// Takes a connection that the listener accepted. `None` refuses it: then close it.
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

    /// Takes the outcome of a dial: our address, or why there is no connection.
    pub fn handle_dialled(
        &mut self,
        now: Time,
        conn: ConnId,
        result: Result<SocketAddr, DialError>,
    ) {
        self.socket().handle_dialled(now, conn, result);
        self.pump(now);
    }

    /// Takes bytes from a connection and returns how many were used. The rest are payload, to be
    /// put where [`Node::need`] says, or cannot be used yet.
    pub fn handle_bytes(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> usize {
        self.reading = Some(conn);
        let mut rest = bytes;
        while !rest.is_empty() && matches!(self.need(conn), Need::Bytes(_)) {
            let used = self.socket().handle_bytes(now, conn, rest);
            self.pump(now);
            assert!(used > 0, "a machine that needs bytes takes some");
            rest = rest.get(used..).unwrap_or_default();
        }
        self.reading = None;
        bytes.len() - rest.len()
    }

    /// Takes note that `len` bytes went where [`Need::Payload`] said.
    pub fn handle_payload(&mut self, now: Time, conn: ConnId, len: u32, crc: Option<u32>) {
        self.reading = Some(conn);
        self.socket().handle_payload(now, conn, len, crc);
        self.pump(now);
        self.reading = None;
    }

    /// Takes note that the socket has taken `bytes` more of what was to be written.
    pub fn handle_sent(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socket().handle_sent(now, conn, bytes);
        self.pump(now);
    }

    /// Takes the answer to [`Close`](fulmar_lnd::Stream::Close): nothing more is written, and the
    /// socket had taken so many more bytes.
    pub fn handle_stopped(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socket().handle_stopped(now, conn, bytes);
        self.pump(now);
    }

    /// Takes note that the link or the address of a network interface has gone, or is there again.
    pub fn handle_link(&mut self, now: Time, nid: Nid, up: bool) {
        // The core first: what it has to send goes another way then.
        self.lnet.handle_link(now, nid, up);
        if let Some(lnd) = self.lnd_of(nid) {
            lnd.handle_link(now, nid, up);
        }
        self.pump(now);
    }

    /// Takes note that TCP sends the same bytes again and again on a connection and hears nothing.
    pub fn handle_stalled(&mut self, now: Time, conn: ConnId) {
        self.socket().handle_stalled(now, conn);
        self.pump(now);
    }

    /// Takes note that a TCP window limits what is sent on a connection, and cannot be made larger.
    pub fn handle_window_limited(&mut self, now: Time, conn: ConnId) {
        self.socket().handle_window_limited(now, conn);
        self.pump(now);
    }

    /// Takes the end of a connection, as its socket reports it. The socket had taken `bytes` more
    /// than [`Node::handle_sent`] has reported: the messages that end among them may have arrived.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId, bytes: u64, how: Closed) {
        if bytes > 0 {
            self.socket().handle_sent(now, conn, bytes);
        }
        self.socket().handle_closed(now, conn, how);
        self.pump(now);
    }

    /// Takes the end of an [`Output::Copy`].
    pub fn handle_copied(&mut self, now: Time, copy: CopyId) {
        self.lnet.handle_copied(now, copy);
        self.pump(now);
    }

    /// Takes note that the handler of an event has returned.
    pub fn handle_event_done(&mut self, now: Time, done: EventDone) {
        self.lnet.handle_event_done(now, done);
        self.pump(now);
    }

    /// Takes note that an LND of [`Node::add_lnd`] has outputs.
    pub fn handle_lnd_ready(&mut self, now: Time) {
        self.pump(now);
    }

    /// Takes the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        for lnd in &mut self.lnds {
            lnd.handle_timeout(now);
        }
        self.lnet.handle_timeout(now);
        self.pump(now);
    }

    /// Returns when to call [`Node::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lnds = self.lnds.iter().filter_map(Lnd::poll_timeout);
        lnds.chain(self.lnet.poll_timeout()).min()
    }

    /// Returns the next thing to do, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns what is to be read from a connection next.
    pub fn need(&self, conn: ConnId) -> Need {
        self.socklnd().need(conn)
    }

    fn lnd_of(&mut self, nid: Nid) -> Option<&mut Lnd> {
        let kind = nid.net().kind();
        self.lnds.iter_mut().find(|lnd| lnd.net_type() == kind)
    }

    /// Carries messages between the core and its LNDs until none has more to say.
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
