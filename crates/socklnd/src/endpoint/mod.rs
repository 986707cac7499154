//! The machine: tables of connections and peers, and the dispatch of inputs.

mod accept;
mod dial;
mod links;
mod paths;
mod room;
mod transfer;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::Bound;
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Time, Timers};
#[cfg(doc)]
use fulmar_lnd::Stream;
use fulmar_lnd::{
    CloseCause, DialError, Lnd, Need, NiConfig, Notice, Output, RxId, SendError, SendRequest,
    Verdict,
};
use fulmar_lnet_wire::socklnd::ConnKind;
use fulmar_lnet_wire::{NetType, Nid};
use fulmar_wire::DecodeError;

use crate::callers::Callers;
use crate::conn::{Conn, Phase};
use crate::handshake::Step;
use crate::peer::{Peer, PeerKey};
use crate::{Config, ConnInfo, Counters, PeerInfo};
use links::{Cause, LingeringConn};

/// The socket LND of a node: all its TCP network interfaces.
#[derive(Debug)]
pub struct Socklnd {
    config: Config,
    nis: BTreeMap<Nid, NiConfig>,
    /// Interfaces whose link is down.
    down: BTreeSet<Nid>,
    conns: BTreeMap<ConnId, Conn>,
    /// Unwritten parts of connections that the owner is closing.
    endings: BTreeMap<ConnId, LingeringConn>,
    peers: BTreeMap<PeerKey, Peer>,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
    counters: Counters,
    last_conn: u64,
    callers: Callers,
    /// How many incoming connections the owner has room for.
    incoming_max: usize,
    /// The number of messages sent; orders the use of connections.
    transmitted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Deadline of a handshake, or the next stall check of an open connection.
    Conn(ConnId),
    /// The peer may be dialled again, or removed.
    Dial(PeerKey),
    /// Keepalive check of a silent peer.
    Keepalive(PeerKey),
    /// The next search for messages of the interface that do not move.
    Waiting(Nid),
}

impl Socklnd {
    /// Creates the machine of a node without network interfaces.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            nis: BTreeMap::new(),
            down: BTreeSet::new(),
            conns: BTreeMap::new(),
            endings: BTreeMap::new(),
            peers: BTreeMap::new(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            counters: Counters::default(),
            last_conn: 0,
            callers: Callers::default(),
            incoming_max: usize::MAX,
            transmitted: 0,
        }
    }

    /// Sets how many connections of each bulk kind the interface opens to a peer from now on.
    pub fn set_conns_per_peer(&mut self, nid: Nid, n: u32) {
        if let Some(ni) = self.nis.get_mut(&nid) {
            ni.conns_per_peer = n;
            ni.conns_max = n;
        }
    }

    /// Sets how long the interface waits for its peers from now on.
    pub fn set_timeout(&mut self, nid: Nid, timeout: Duration) {
        if let Some(ni) = self.nis.get_mut(&nid) {
            ni.timeout = Some(timeout);
        }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Handles a connection that a listener accepted. `None` refuses it: the owner closes it.
    pub fn handle_accepted(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<ConnId> {
        self.accept(now, canonical(local), canonical(remote))
    }

    /// Handles the result of [`Stream::Dial`]: the local address, or why there is no connection.
    pub fn handle_dialled(
        &mut self,
        now: Time,
        conn: ConnId,
        result: Result<SocketAddr, DialError>,
    ) {
        let Some(Conn { phase: Phase::Dialling(key), .. }) = self.conns.get(&conn) else { return };
        let key = *key;
        match result {
            Ok(local) => self.call(now, conn, key, canonical(local)),
            Err(DialError(errno)) => {
                self.forget_conn(conn);
                self.dial_failed(now, key, errno);
            }
        }
    }

    /// Handles a stall report: TCP retransmits the same bytes on an open connection for some time
    /// and receives nothing, not even a window update.
    pub fn handle_stalled(&mut self, now: Time, conn: ConnId) {
        if let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get(&conn) {
            let key = open.key;
            self.path_stalled(now, key, conn);
        }
    }

    /// Handles a report that a TCP window limits the throughput of an open connection and cannot be
    /// enlarged.
    pub fn handle_window_limited(&mut self, now: Time, conn: ConnId) {
        if let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get(&conn)
            && open.kind == ConnKind::BULK_OUT
        {
            self.widen(now, open.key);
        }
    }

    /// Handles bytes that [`Need::Bytes`] requested, and returns how many it used. It stops at the
    /// end of each header: then the owner calls [`Self::need`] for the rest.
    pub fn handle_bytes(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> usize {
        let Some(this) = self.conns.get_mut(&conn) else { return 0 };
        match &mut this.phase {
            Phase::Open(open) => {
                let (used, event) = open.rx.take(now, bytes);
                self.handle_event(now, conn, event);
                used
            }
            Phase::Called(ni, handshake) => {
                let ni = *ni;
                let (used, step) = handshake.take(bytes);
                self.handle_called(now, conn, ni, step);
                used
            }
            Phase::Calling(key, handshake) => {
                let key = *key;
                let (used, step) = handshake.take(bytes);
                match step {
                    Step::More | Step::Asked(_) | Step::BadRequest(_) => {}
                    Step::Greeted(hello, order) => {
                        self.handle_answer(now, conn, key, &hello, order);
                    }
                    Step::BadHello(error) => {
                        self.malformed(conn, error);
                        self.fail_call(now, conn, key, Errno::EPROTO);
                    }
                }
                used
            }
            Phase::Dialling(_) => 0,
        }
    }

    /// Handles `len` bytes of payload, stored as [`Need::Payload`] requested, with the checksum
    /// state after them if one was given.
    ///
    /// # Panics
    /// If the connection did not need them.
    pub fn handle_payload(&mut self, now: Time, conn: ConnId, len: u32, crc: Option<u32>) {
        let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get_mut(&conn) else { return };
        let event = open.rx.take_payload(now, len, crc);
        self.handle_event(now, conn, event);
    }

    /// Handles that `bytes` more of the requested [`Stream::Write`]s are in the socket.
    ///
    /// # Panics
    /// If fewer bytes were queued.
    pub fn handle_sent(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.sent(now, conn, bytes);
    }

    /// Handles the answer to [`Stream::Close`]: nothing more is written on the connection, and the
    /// socket had accepted this many bytes more than [`Self::handle_sent`] reported. A message
    /// whose last byte is not among them cannot be delivered.
    ///
    /// # Panics
    /// If fewer bytes were queued.
    pub fn handle_stopped(&mut self, now: Time, conn: ConnId, bytes: u64) {
        self.stopped(now, conn, bytes);
    }

    /// Handles the end of a connection. The owner has already closed it, and has reported every
    /// byte that the socket accepted with [`Self::handle_sent`].
    pub fn handle_closed(&mut self, now: Time, conn: ConnId, how: CloseCause) {
        self.closed(now, conn, how);
    }

    /// Returns the next need of the connection.
    pub fn need(&self, conn: ConnId) -> Need {
        match self.conns.get(&conn).map(|conn| &conn.phase) {
            Some(Phase::Open(open)) => open.rx.need(),
            Some(Phase::Called(_, handshake) | Phase::Calling(_, handshake)) => {
                Need::Bytes(handshake.wanted())
            }
            Some(Phase::Dialling(_)) | None => Need::Nothing,
        }
    }

    /// Returns the open connections, the oldest first.
    pub fn conns(&self) -> Vec<ConnInfo> {
        self.conns_after(None).collect()
    }

    /// Returns the open connections in the order of their IDs, after `after`.
    pub fn conns_after(&self, after: Option<ConnId>) -> impl Iterator<Item = ConnInfo> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.conns.range((from, Bound::Unbounded));
        let open = later.filter_map(|(&id, conn)| match &conn.phase {
            Phase::Open(open) => Some((id, conn, open)),
            Phase::Dialling(_) | Phase::Calling(..) | Phase::Called(..) => None,
        });
        open.map(|(id, conn, open)| ConnInfo {
            conn: id,
            ni: open.key.ni,
            peer: open.key.peer,
            kind: open.kind,
            version: open.rx.version(),
            local: conn.local,
            remote: conn.remote,
            queued: conn.tx.queued(),
            opened: open.opened,
        })
    }

    /// Returns the peers, by NID.
    pub fn peers(&self) -> Vec<PeerInfo> {
        self.peers_after(None).collect()
    }

    /// Returns the peers by NID, after that of `after`.
    pub fn peers_after(&self, after: Option<&PeerInfo>) -> impl Iterator<Item = PeerInfo> {
        let key = |info: &PeerInfo| PeerKey { ni: info.ni, peer: info.peer };
        let from = after.map_or(Bound::Unbounded, |info| Bound::Excluded(key(info)));
        let port = self.config.accept_port;
        let info = move |(key, peer): (&PeerKey, &Peer)| PeerInfo {
            ni: key.ni,
            peer: key.peer,
            dials: peer.dialler.begun,
            remote: key.dial_addrs(port).map(|(_, remote)| remote),
            conns: peer.links.len(),
            queued_messages: peer.queue.len(),
        };
        self.peers.range((from, Bound::Unbounded)).map(info)
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn handle_conn_timer(&mut self, now: Time, id: ConnId) {
        let Some(conn) = self.conns.get(&id) else { return };
        let remote = conn.remote;
        match &conn.phase {
            Phase::Open(_) => self.look_for_stall(now, id),
            Phase::Dialling(key) => {
                let key = *key;
                self.close_conn(id, false);
                self.dial_failed(now, key, Errno::ETIMEDOUT);
            }
            Phase::Calling(key, _) => {
                let key = *key;
                self.silent(remote);
                self.fail_call(now, id, key, Errno::ETIMEDOUT);
            }
            Phase::Called(..) => {
                self.silent(remote);
                self.refuse(id, None);
            }
        }
    }

    /// Returns how long an interface waits for a peer.
    fn timeout_of(&self, ni: Nid) -> Duration {
        self.nis.get(&ni).and_then(|ni| ni.timeout).unwrap_or(self.config.timeout)
    }

    fn new_conn(&mut self, conn: Conn) -> ConnId {
        self.last_conn += 1;
        let id = ConnId(self.last_conn);
        self.conns.insert(id, conn);
        id
    }

    fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    fn silent(&mut self, remote: SocketAddr) {
        self.counters.silent += 1;
        self.notice(Notice::Silent { remote });
    }

    fn malformed(&mut self, conn: ConnId, error: DecodeError) {
        self.counters.malformed += 1;
        if let Some(conn) = self.conns.get(&conn) {
            let remote = conn.remote;
            self.notice(Notice::Malformed { remote, error });
        }
    }

    fn fail_message(&mut self, request: &SendRequest, error: SendError) {
        let message = request.message;
        self.outputs.push_back(Output::Sent { message, result: Err(error) });
    }
}

impl Lnd for Socklnd {
    fn net_type(&self) -> NetType {
        NetType::TCP
    }

    fn timeout(&self) -> Duration {
        self.config.timeout
    }

    fn add_ni(&mut self, _now: Time, ni: &NiConfig) {
        self.nis.insert(ni.nid, ni.clone());
    }

    fn remove_ni(&mut self, _now: Time, nid: Nid) {
        if self.nis.remove(&nid).is_some() {
            self.close_ni(nid);
            self.down.remove(&nid);
        }
    }

    fn send(&mut self, now: Time, request: SendRequest) {
        self.route(now, request);
    }

    fn report_waiting(&mut self, now: Time, nid: Nid) {
        // LNet asks for each message that waits for a credit; one search in this time is enough.
        if self.timers.get(Timer::Waiting(nid)).is_none() {
            self.find_waiting(now, nid);
            self.timers.set(Timer::Waiting(nid), now + waiting::TIMEOUT);
        }
    }

    /// # Panics
    /// If the connection is open and has no message that waits for a verdict, or the sink is larger
    /// than its payload.
    fn handle_verdict(&mut self, now: Time, conn: ConnId, rx: RxId, verdict: Verdict) {
        let Some(Conn { phase: Phase::Open(open), .. }) = self.conns.get_mut(&conn) else {
            // The connection ended between the header and the verdict.
            if verdict != Verdict::Reject {
                let result = Err(Errno::ECONNRESET);
                self.outputs.push_back(Output::Completed { rx, result });
            }
            return;
        };
        match verdict {
            Verdict::Receive(sink) => {
                let event = open.rx.receive(now, rx, sink);
                self.handle_event(now, conn, event);
            }
            Verdict::Wait => open.rx.wait(rx),
            Verdict::Reject => {
                open.rx.abandon();
                self.counters.malformed += 1;
                self.fail_conn(now, conn, Cause::Protocol);
            }
        }
    }

    /// Written data is not withdrawn: if the link recovers soon, TCP delivers it. An interface
    /// without a report is up.
    fn handle_link(&mut self, now: Time, ni: Nid, up: bool) {
        if self.nis.contains_key(&ni) {
            self.link(now, ni, up);
        }
    }

    fn close_peer(&mut self, now: Time, peer: Nid) {
        let all = self.peers.keys().filter(|key| peer.is_any() || key.peer.nid == peer);
        for key in all.copied().collect::<Vec<_>>() {
            self.close_links(&key, Cause::Disconnected);
            self.settle(now, key);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        // New timers are due at the next call at the earliest, however short the settings.
        let due: Vec<_> = std::iter::from_fn(|| self.timers.pop_due(now)).collect();
        for timer in due {
            match timer {
                Timer::Conn(conn) => self.handle_conn_timer(now, conn),
                Timer::Dial(key) => self.handle_dial_timer(now, key),
                Timer::Keepalive(key) => self.handle_keepalive_timer(now, key),
                Timer::Waiting(nid) => self.handle_waiting_timer(now, nid),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

/// Converts IPv4-mapped addresses, which a dual-stack listener reports.
fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
