//! Opening and closing of connections, and the effects on a peer.
//! Spec: lnet-wire §5.7.

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnd::{CloseCause, Notice, Output, PathState, SendError, Stream};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::Version;

use super::transfer::count;
use super::{Socklnd, Timer};
use crate::conn::{Agreement, Open, Phase, Tx};
use crate::peer::{DialState, Link, PeerKey};
use crate::rx::{Fault, Rx};
use crate::zero_copy::ZeroCopy;

/// Why an open connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Socket error or end of stream.
    Socket(CloseCause),
    /// The peer violated the protocol.
    Protocol,
    /// The peer does not complete its message.
    ReceiveStall,
    /// The peer stopped reading.
    SendStall,
    /// The peer has restarted.
    Restarted,
    /// An administrator requested it.
    Disconnected,
    /// The local interface was removed.
    Removed,
    /// It was idle, and its place was needed.
    GaveWay,
    /// It was retired, and is either idle or blocks other connections.
    Spent,
}

impl Cause {
    pub(super) fn errno(self) -> Errno {
        match self {
            Self::Socket(CloseCause::Eof) | Self::Restarted => Errno::ECONNRESET,
            Self::Socket(CloseCause::ReadError(errno) | CloseCause::WriteError(errno)) => errno,
            Self::Protocol => Errno::EPROTO,
            Self::ReceiveStall | Self::SendStall => Errno::ETIMEDOUT,
            Self::Disconnected | Self::Removed | Self::GaveWay | Self::Spent => Errno::ESHUTDOWN,
        }
    }
}

impl Socklnd {
    /// Completes the handshake: messages can be sent.
    pub(super) fn open(&mut self, now: Time, id: ConnId, agreement: Agreement) {
        let Agreement { key, kind, known, order, imposed } = agreement;
        let conn = self.conns.get_mut(&id).expect("it was being opened");
        let in_set = key.peer.nid.ip() == Some(conn.remote.ip());
        let rx = Rx::new(known.version, order, now);
        let (slow_until, last_used) = (Time::ZERO, 0);
        let on_probation = self.callers.is_on_probation(id);
        let open =
            Open { key, kind, imposed, rx, opened: now, slow_until, on_probation, last_used };
        conn.phase = Phase::Open(open);
        self.timers.set(Timer::Conn(id), now + self.timeout_of(key.ni));
        let peer = self.peers.entry(key).or_default();
        peer.links.push(Link { conn: id, kind, in_set, retired: None });
        peer.dialler.succeeded();
        if let DialState::BackedOff = peer.dialler.state {
            // The peer is reachable again, and may open the missing connections itself.
            peer.dialler.state = DialState::Postponed;
            self.timers.set(Timer::Dial(key), now + self.config.reconnect_min);
        }
        if peer.active().count() == 1 {
            peer.known = Some(known);
            if known.version >= Version::V3 && !self.config.keepalive.is_zero() {
                self.timers.set(Timer::Keepalive(key), now + self.config.keepalive);
            }
            self.notice(Notice::PeerUp { ni: key.ni, peer: key.peer });
            self.tell(key, PathState::Up);
        }
        if on_probation {
            self.admit(now, id, key);
        }
        self.flush_queue(now, &key);
    }

    /// Handles the end of a connection.
    pub(super) fn closed(&mut self, now: Time, id: ConnId, how: CloseCause) {
        let Some(conn) = self.conns.get(&id) else {
            // The owner has closed it before it took the request to do so.
            return self.stopped(now, id, 0);
        };
        let errno = Cause::Socket(how).errno();
        match &conn.phase {
            Phase::Open(_) => self.end_conn(now, id, Cause::Socket(how), false),
            Phase::Dialling(key) | Phase::Calling(key, _) => {
                let key = *key;
                self.counters.handshake_failures += 1;
                self.forget_conn(id);
                self.dial_failed(now, key, errno);
            }
            Phase::Called(..) => {
                self.counters.handshake_failures += 1;
                self.forget_conn(id);
            }
        }
    }

    /// Handles a protocol violation of the peer.
    pub(super) fn fault(&mut self, now: Time, id: ConnId, fault: Fault) {
        let Some(conn) = self.conns.get(&id) else { return };
        let remote = conn.remote;
        let notice = match fault {
            Fault::Malformed(error) => {
                self.counters.malformed += 1;
                Notice::Malformed { remote, error }
            }
            Fault::Cookie(cookie) => {
                self.counters.unknown_cookies += 1;
                Notice::UnknownCookie { remote, cookie }
            }
            Fault::Checksum { expected, got } => {
                self.counters.checksum_errors += 1;
                Notice::Checksum { remote, expected, got }
            }
        };
        self.notice(notice);
        self.fail_conn(now, id, Cause::Protocol);
    }

    /// Closes an open connection and its siblings.
    pub(super) fn fail_conn(&mut self, now: Time, id: ConnId, cause: Cause) {
        self.end_conn(now, id, cause, true);
    }

    /// Ends an open connection, and all others of the peer with the same address. The end of a
    /// retired one does not affect others.
    fn end_conn(&mut self, now: Time, id: ConnId, cause: Cause, close: bool) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Phase::Open(Open { key, .. }) = &conn.phase else { return };
        let (key, ip) = (*key, conn.remote.ip());
        let alone = !self.drop_link(&key, id, cause, close);
        let active = self.peers.get(&key).into_iter().flat_map(|peer| peer.active());
        let siblings = active.map(|link| link.conn).filter(|id| self.conns[id].remote.ip() == ip);
        for sibling in siblings.filter(|_| !alone).collect::<Vec<_>>() {
            self.drop_link(&key, sibling, cause, true);
        }
        self.settle(now, key);
    }

    /// Closes all open connections with a peer. The caller must call [`Socklnd::settle`].
    pub(super) fn close_links(&mut self, key: &PeerKey, cause: Cause) {
        let links = self.peers.get(key).map_or(&[][..], |peer| &peer.links);
        for conn in links.iter().map(|link| link.conn).collect::<Vec<_>>() {
            self.drop_link(key, conn, cause, true);
        }
    }

    /// Closes all open connections with an earlier incarnation or version of a peer.
    pub(super) fn close_stale(&mut self, key: &PeerKey) {
        self.notice(Notice::Restarted { peer: key.peer.nid });
        self.close_links(key, Cause::Restarted);
    }

    /// Closes all connections of a removed interface.
    pub(super) fn close_ni(&mut self, nid: Nid) {
        let keys = self.peers.range(PeerKey::first_of(nid)..).map(|(key, _)| *key);
        for key in keys.take_while(|key| key.ni == nid).collect::<Vec<_>>() {
            self.close_links(&key, Cause::Removed);
            let Some(peer) = self.peers.remove(&key) else { continue };
            if let DialState::Trying(attempt) = peer.dialler.state {
                self.close_conn(attempt.conn, false);
            }
            self.timers.clear(Timer::Dial(key));
            for queued in peer.queue {
                self.fail_message(&queued.request, undelivered(true, Errno::ESHUTDOWN));
            }
        }
        let called = self
            .conns
            .iter()
            .filter(|(_, conn)| matches!(&conn.phase, Phase::Called(Some(ni), _) if *ni == nid));
        for conn in called.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.refuse(conn, None);
        }
    }

    /// Requests the owner to close a connection whose handshake is not complete.
    pub(super) fn close_conn(&mut self, conn: ConnId, flush: bool) {
        self.forget_conn(conn);
        self.outputs.push_back(Output::Stream(Stream::Close { conn, flush }));
    }

    /// Removes a connection that is already closed.
    pub(super) fn forget_conn(&mut self, conn: ConnId) {
        self.timers.clear(Timer::Conn(conn));
        self.conns.remove(&conn);
        self.callers.remove(conn);
    }

    /// Ends one open connection and everything in progress on it. Returns whether it could still
    /// take new messages.
    pub(super) fn drop_link(
        &mut self,
        key: &PeerKey,
        id: ConnId,
        cause: Cause,
        close: bool,
    ) -> bool {
        let Some(conn) = self.conns.remove(&id) else { return false };
        self.timers.clear(Timer::Conn(id));
        self.callers.remove(id);
        if close {
            self.outputs.push_back(Output::Stream(Stream::Close { conn: id, flush: false }));
        }
        if let Phase::Open(open) = &conn.phase
            && let Some(rx) = open.rx.in_message()
        {
            self.outputs.push_back(Output::Completed { rx, result: Err(cause.errno()) });
        }
        let ours = cause == Cause::Removed || self.is_down(&key.ni);
        let peer = self.peers.get_mut(key).expect("a peer with a connection is known");
        let zero_copy = peer.zero_copy.split_off(id);
        // They may have been delivered, so they are not sent again.
        let unknown = |message| Output::Sent { message, result: Err(UNACKNOWLEDGED) };
        self.outputs.extend(zero_copy.unacknowledged().map(unknown));
        let error = undelivered(ours, cause.errno());
        let ending = LingeringConn { tx: conn.tx, zero_copy, error };
        if !close {
            self.fail_unsent(ending);
        } else if ending.tx.unsent().next().is_some() {
            self.endings.insert(id, ending);
        }
        let peer = self.peers.get_mut(key).expect("a peer with a connection is known");
        let was_active = peer.active().any(|link| link.conn == id);
        peer.links.retain(|link| link.conn != id);
        if matches!(cause, Cause::Disconnected | Cause::GaveWay) {
            // This is not a failure of the path.
            peer.reported = None;
        }
        if peer.links.is_empty() {
            peer.known = None;
            self.callers.forget_peer(*key, peer.used.take());
            self.timers.clear(Timer::Keepalive(*key));
        }
        if was_active && peer.active().next().is_none() {
            let errno = cause.errno();
            self.notice(Notice::PeerDown { ni: key.ni, peer: key.peer, errno });
        }
        was_active
    }

    /// Handles the end of writing on a closed connection, after this many more bytes.
    pub(super) fn stopped(&mut self, now: Time, id: ConnId, bytes: u64) {
        self.sent_before_end(now, id, bytes);
        if let Some(ending) = self.endings.remove(&id) {
            self.fail_unsent(ending);
        }
    }

    /// Handles that so many more bytes of a closed connection had been written.
    pub(super) fn sent_before_end(&mut self, now: Time, id: ConnId, bytes: u64) {
        let Some(LingeringConn { tx, zero_copy, .. }) = self.endings.get_mut(&id) else { return };
        let (counters, outputs) = (&mut self.counters, &mut self.outputs);
        tx.advance(now, bytes, |written| {
            let end = |cookie| zero_copy.written(now, cookie).or(Some(Err(UNACKNOWLEDGED)));
            outputs.extend(count(counters, written, end));
        });
    }

    fn fail_unsent(&mut self, ending: LingeringConn) {
        for message in ending.tx.unsent() {
            self.outputs.push_back(Output::Sent { message, result: Err(ending.error) });
        }
    }
}

/// A closed connection, until its owner reports how much of it was written.
#[derive(Debug)]
pub(super) struct LingeringConn {
    tx: Tx,
    zero_copy: ZeroCopy,
    /// Result of messages that were not written completely.
    error: SendError,
}

/// Returns the health class of a message that was not received, since its end was never written:
/// it may be sent again. Spec: lnet-behaviour §11.3.
pub(super) fn undelivered(ours: bool, errno: Errno) -> SendError {
    if ours { SendError::local_dropped(errno) } else { SendError::remote_dropped(errno) }
}

/// Result of a message that was written completely, and whose acknowledgement will not arrive. The
/// interface works: a kernel node takes this for a failure of its own, which any peer could cause.
const UNACKNOWLEDGED: SendError = SendError::remote_error(Errno::EIO);
