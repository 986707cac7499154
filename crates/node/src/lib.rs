//! One node, as a pure machine: the LNet core over its LNDs.
//!
//! This is what the driver runs over real sockets and the simulator over virtual ones. It only
//! carries messages between [`Lnet`] and [`Socklnd`], which do not know each other.
//!
//! After each `handle_*` and each [`Node::apply`], drain [`Node::poll_output`] in order:
//!
//! ```text
//! Dial            -> open a connection, then handle_dialled
//! Write           -> append to what is written on the connection, then handle_sent(bytes)
//! Close           -> close it, and before anything else handle_stopped(bytes)
//! Resume          -> need() of the connection has changed: read on
//! Copy            -> copy between two buffers, then handle_copied
//! Event           -> call the handler, then handle_event_done if the event asks for it
//! Task            -> memory and questions of the selftest: handle_checked, handle_measured
//! Answer          -> tell whoever gave the command
//! Pinged, Discovered, Notice -> tell whoever asked
//! Crossing        -> tell whoever watches the node
//! ```
#![forbid(unsafe_code)]

pub mod check;
mod outputs;
mod selftest;

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnet::{self as lnet, CopyId, EventDone, Lnet, NiTunables, Received, RxId, SendFailure};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::selftest::{Damage, Usage};
use fulmar_socklnd::{self as socklnd, Closed, DialError, Need, SendError, Socklnd};

pub use fulmar_selftest::console::{Answer as ConsoleAnswer, Keyed};
pub use fulmar_selftest::{
    CommandId, Config as SelftestConfig, Contents, Notice as SelftestNotice, QuestionId, Selftest,
    Task,
};
pub use outputs::{Crossing, Notice, Output};

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Those of the core.
    pub lnet: lnet::Config,
    /// Those of the socket LND.
    pub socklnd: socklnd::Config,
}

/// One network interface of a node, on a `tcp` network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiConfig {
    /// Its NID.
    pub nid: Nid,
    /// Its credits.
    pub tunables: NiTunables,
    /// Constant for the life of the interface and never used again: nanoseconds of wall clock.
    pub incarnation: u64,
    /// How many connections of each bulk kind are opened to a peer; at least 1.
    pub conns_per_peer: u32,
}

/// LNet over its LNDs.
#[derive(Debug)]
pub struct Node {
    lnet: Lnet,
    socklnd: Socklnd,
    selftest: Option<selftest::Service>,
    /// The connection whose bytes are being handled: its owner looks at `need` by itself.
    reading: Option<ConnId>,
    /// Somebody watches what passes between the core and the LNDs.
    watched: bool,
    outputs: VecDeque<Output>,
}

impl Node {
    /// Returns a node without network interfaces, but for `0@lo`.
    pub fn new(config: Config) -> Self {
        Self {
            lnet: Lnet::new(config.lnet),
            socklnd: Socklnd::new(config.socklnd),
            selftest: None,
            reading: None,
            watched: false,
            outputs: VecDeque::new(),
        }
    }

    /// Adds a network interface.
    ///
    /// # Errors
    /// As [`Lnet::add_ni`].
    pub fn add_ni(&mut self, now: Time, ni: NiConfig) -> Result<(), Errno> {
        let NiConfig { nid, tunables, incarnation, conns_per_peer } = ni;
        let lnd_timeout = self.socklnd.config().timeout;
        self.lnet.add_ni(now, lnet::NiConfig { nid, tunables, lnd_timeout })?;
        self.socklnd.add_ni(socklnd::NiConfig { nid, incarnation, conns_per_peer });
        self.pump(now);
        Ok(())
    }

    /// Removes a network interface and closes its connections.
    ///
    /// # Errors
    /// As [`Lnet::remove_ni`].
    pub fn remove_ni(&mut self, now: Time, nid: Nid) -> Result<(), Errno> {
        self.lnet.remove_ni(now, nid)?;
        self.socklnd.remove_ni(now, nid);
        self.pump(now);
        Ok(())
    }

    /// Calls the API of the core, and carries what comes of it to the LNDs.
    pub fn apply<R>(&mut self, now: Time, call: impl FnOnce(&mut Lnet) -> R) -> R {
        let result = call(&mut self.lnet);
        self.pump(now);
        result
    }

    /// Makes the node a test node and a console of LNet selftest.
    ///
    /// # Errors
    /// EALREADY if it is one; EPERM if the application has taken a portal of selftest in another
    /// mode.
    pub fn open_selftest(&mut self, now: Time, config: SelftestConfig) -> Result<(), Errno> {
        if self.selftest.is_some() {
            return Err(Errno::EALREADY);
        }
        self.selftest = Some(selftest::Service::open(now, config, &mut self.lnet)?);
        self.pump(now);
        Ok(())
    }

    /// Returns the selftest machine, to look at.
    pub fn selftest(&self) -> Option<&Selftest> {
        self.selftest.as_ref().map(|service| &service.machine)
    }

    /// Gives a command to the console, which ends with [`Output::Answer`].
    ///
    /// # Errors
    /// EOPNOTSUPP if the node has no selftest.
    pub fn selftest_command(&mut self, now: Time, command: Keyed) -> Result<CommandId, Errno> {
        let service = self.selftest.as_mut().ok_or(Errno::EOPNOTSUPP)?;
        let id = service.command(now, &self.lnet, command);
        self.pump(now);
        Ok(id)
    }

    /// Takes the outcome of an [`Task::Check`].
    pub fn handle_checked(&mut self, now: Time, id: QuestionId, result: Result<(), Damage>) {
        if let Some(service) = &mut self.selftest {
            service.machine.handle_checked(now, id, result);
        }
        self.pump(now);
    }

    /// Takes the answer to an [`Task::Measure`].
    pub fn handle_measured(&mut self, now: Time, id: QuestionId, usage: Usage) {
        if let Some(service) = &mut self.selftest {
            service.machine.handle_measured(now, id, usage);
        }
        self.pump(now);
    }

    /// Has every message that passes between the core and an LND told by [`Output::Crossing`], or
    /// not any more.
    pub fn tell_crossings(&mut self, tell: bool) {
        self.watched = tell;
    }

    /// Returns the core, to look at.
    pub fn lnet(&self) -> &Lnet {
        &self.lnet
    }

    /// Returns the socket LND, to look at.
    pub fn socklnd(&self) -> &Socklnd {
        &self.socklnd
    }

    /// Changes how many bulk connections are opened to each peer of an interface.
    pub fn set_conns_per_peer(&mut self, nid: Nid, conns: u32) {
        self.socklnd.set_conns_per_peer(nid, conns);
    }

    /// Closes every connection with a peer.
    pub fn close_peer(&mut self, now: Time, peer: Nid) {
        self.socklnd.close_peer(now, peer);
        self.pump(now);
    }

    /// Takes a connection that the listener accepted, or refuses it: then close it.
    pub fn handle_accepted(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnId> {
        let conn = self.socklnd.handle_accepted(now, local, remote);
        self.pump(now);
        conn
    }

    /// Takes the outcome of an [`Output::Dial`]: our address, or why there is no connection.
    pub fn handle_dialled(
        &mut self,
        now: Time,
        conn: ConnId,
        result: Result<SocketAddr, DialError>,
    ) {
        self.socklnd.handle_dialled(now, conn, result);
        self.pump(now);
    }

    /// Takes bytes from a connection and returns how many were used. The rest are payload, to be
    /// put where [`Node::need`] says, or cannot be used yet.
    pub fn handle_bytes(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> usize {
        self.reading = Some(conn);
        let mut rest = bytes;
        while !rest.is_empty() && matches!(self.socklnd.need(conn), Need::Bytes(_)) {
            let used = self.socklnd.handle_bytes(now, conn, rest);
            self.pump(now);
            assert!(used > 0, "a machine that needs bytes takes some");
            rest = rest.get(used..).unwrap_or_default();
        }
        self.reading = None;
        bytes.len() - rest.len()
    }

    /// Takes word that `len` bytes went where [`Need::Payload`] said.
    pub fn handle_payload(&mut self, now: Time, conn: ConnId, len: u32, crc: Option<u32>) {
        self.reading = Some(conn);
        self.socklnd.handle_payload(now, conn, len, crc);
        self.pump(now);
        self.reading = None;
    }

    /// Takes word that the socket has taken `bytes` more of what was to be written.
    pub fn handle_sent(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socklnd.handle_sent(now, conn, bytes);
        self.pump(now);
    }

    /// Takes the answer to an [`Output::Close`]: nothing more is written, and so many more bytes
    /// had been taken by the socket.
    pub fn handle_stopped(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.socklnd.handle_stopped(now, conn, bytes);
        self.pump(now);
    }

    /// Takes word that the link or the address of a network interface has gone, or is there again.
    pub fn handle_link(&mut self, now: Time, nid: Nid, up: bool) {
        // The core first: what it has to send goes another way then.
        self.lnet.handle_link(now, nid, up);
        self.socklnd.handle_link(now, nid, up);
        self.pump(now);
    }

    /// Takes word that TCP has heard nothing on a connection for some time though it sent.
    pub fn handle_stalled(&mut self, now: Time, conn: ConnId) {
        self.socklnd.handle_stalled(now, conn);
        self.pump(now);
    }

    /// Takes word that a connection has ended, and that its socket had taken so many more `bytes`.
    pub fn handle_closed(&mut self, now: Time, conn: ConnId, bytes: u64, how: Closed) {
        // In one go: what may be sent because of the one must not go to what the other ends.
        self.socklnd.handle_sent(now, conn, bytes);
        self.socklnd.handle_closed(now, conn, how);
        self.pump(now);
    }

    /// Takes word that an [`Output::Copy`] is done.
    pub fn handle_copied(&mut self, now: Time, copy: CopyId) {
        self.apply(now, |lnet| lnet.handle_copied(now, copy));
    }

    /// Takes word that the handler of an event has returned.
    pub fn handle_event_done(&mut self, now: Time, done: EventDone) {
        self.apply(now, |lnet| lnet.handle_event_done(now, done));
    }

    /// Takes the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.socklnd.handle_timeout(now);
        self.lnet.handle_timeout(now);
        if let Some(service) = &mut self.selftest {
            service.machine.handle_timeout(now);
        }
        self.pump(now);
    }

    /// Returns when to call [`Node::handle_timeout`] next, if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let selftest = self.selftest().and_then(Selftest::poll_timeout);
        [self.socklnd.poll_timeout(), self.lnet.poll_timeout(), selftest]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the next thing to do, if any.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns what is to be read from a connection next.
    pub fn need(&self, conn: ConnId) -> Need {
        self.socklnd.need(conn)
    }

    /// Carries messages between the core, its LNDs and its services until none has more to say.
    fn pump(&mut self, now: Time) {
        loop {
            if let Some(output) = self.socklnd.poll_output() {
                self.route_socklnd(now, output);
            } else if let Some(output) = self.lnet.poll_output() {
                self.route_lnet(now, output);
            } else if !self.serve(now) {
                break;
            }
        }
    }

    /// Does one thing that a service wants; tells whether there was one.
    fn serve(&mut self, now: Time) -> bool {
        let Some(service) = &mut self.selftest else { return false };
        let Some(wish) = service.machine.poll_output() else { return false };
        self.outputs.extend(service.carry_out(now, &mut self.lnet, wish));
        true
    }

    fn route_socklnd(&mut self, now: Time, output: socklnd::Output) {
        use socklnd::Output as From;
        let output = match output {
            From::Dial { conn, local, remote } => Output::Dial { conn, local, remote },
            From::Write { conn, head, payload, checksum } => {
                Output::Write { conn, head, payload, checksum }
            }
            From::Close { conn, flush } => Output::Close { conn, flush },
            From::Notice(notice) => Output::Notice(Notice::Socklnd(notice)),
            From::Path { ni, peer, news } => return self.lnet.handle_path(now, ni, peer, news),
            From::Received { conn, ni, from, header } => {
                self.crossing(|| Crossing::Received { conn, ni, peer: from.nid, header });
                let (rx, from) = (rx_of(conn), from.nid);
                return self.lnet.handle_received(now, Received { rx, ni, from, header });
            }
            From::Completed { conn, result } => {
                return self.lnet.handle_receive_done(now, rx_of(conn), result);
            }
            From::Sent { message, result } => {
                self.crossing(|| Crossing::Returned { message, sent: result.is_ok() });
                let result = result.map_err(|error| (failure(error), error.errno()));
                return self.lnet.handle_sent(now, message, result);
            }
        };
        self.outputs.push_back(output);
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
                let lnet::SendRequest { message, ni, next_hop, header, payload } = request;
                self.crossing(|| {
                    let payload = payload.clone();
                    Crossing::Handed { message, ni, peer: next_hop, header, payload }
                });
                let request = socklnd::SendRequest { message, ni, next_hop, header, payload };
                return self.socklnd.send(now, request);
            }
            From::Verdict { rx, verdict } => {
                let conn = ConnId(rx.0);
                self.socklnd.handle_verdict(now, conn, verdict);
                if self.reading == Some(conn) {
                    return;
                }
                Output::Resume { conn }
            }
            From::Copy { copy, from, to } => Output::Copy { copy, from, to },
            From::Event(event) => Output::Event(event),
            From::Service { event, bytes } => {
                if let Some(service) = &mut self.selftest {
                    service.handle_event(now, &mut self.lnet, &event, bytes);
                }
                return;
            }
            From::Allocate { buffer, len } => Output::Allocate { buffer, len },
            From::Release { buffer } => Output::Release { buffer },
            From::Pinged { query, result } => Output::Pinged { query, result },
            From::Discovered { query, result } => Output::Discovered { query, result },
            From::Notice(notice) => Output::Notice(Notice::Lnet(notice)),
        };
        self.outputs.push_back(output);
    }
}

/// A connection receives one message at a time, so its number names the message too.
fn rx_of(conn: ConnId) -> RxId {
    RxId(conn.0)
}

fn failure(error: SendError) -> SendFailure {
    match error {
        SendError::Local(_) => SendFailure::LocalError,
        SendError::LocalDropped(_) => SendFailure::LocalDropped,
        SendError::RemoteDropped(_) => SendFailure::RemoteDropped,
        SendError::RemoteError(_) => SendFailure::RemoteError,
        SendError::NetworkTimeout => SendFailure::NetworkTimeout,
    }
}
