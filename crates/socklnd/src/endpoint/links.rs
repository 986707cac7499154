//! Opening and closing: what changes for a peer when a connection comes or goes.
//! Spec: lnet-wire §5.7.

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::socklnd::Version;

use super::{Socklnd, Timer};
use crate::conn::{Agreement, Open, Phase};
use crate::peer::{Dialling, Link, PeerKey};
use crate::rx::{Fault, Rx};
use crate::{Closed, Notice, Output, SendError};

/// Why an open connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The socket says so.
    Socket(Closed),
    /// The peer broke the protocol.
    Protocol,
    /// The peer does not finish its message.
    ReceiveStall,
    /// The peer stopped reading.
    SendStall,
    /// The peer has restarted.
    Restarted,
    /// An administrator wants it.
    Disconnected,
    /// Our interface goes.
    Removed,
}

impl Cause {
    fn errno(self) -> Errno {
        match self {
            Self::Socket(Closed::Eof) | Self::Restarted => Errno::ECONNRESET,
            Self::Socket(Closed::ReadError(errno) | Closed::WriteError(errno)) => errno,
            Self::Protocol => Errno::EPROTO,
            Self::ReceiveStall | Self::SendStall => Errno::ETIMEDOUT,
            Self::Disconnected | Self::Removed => Errno::ESHUTDOWN,
        }
    }

    /// Returns the class of a message that was not written whole. Spec: lnet-behaviour §11.4.
    fn send_error(self) -> SendError {
        match self {
            Self::Socket(Closed::WriteError(Errno::ETIMEDOUT)) | Self::SendStall => {
                SendError::RemoteTimeout
            }
            Self::Socket(Closed::WriteError(_)) | Self::Disconnected | Self::Removed => {
                SendError::Local(self.errno())
            }
            Self::Socket(Closed::Eof | Closed::ReadError(_))
            | Self::Protocol
            | Self::ReceiveStall
            | Self::Restarted => SendError::RemoteError(self.errno()),
        }
    }
}

impl Socklnd {
    /// The handshake is over: messages may flow.
    pub(super) fn open(&mut self, now: Time, id: ConnId, agreement: Agreement) {
        let Agreement { key, kind, known, order, imposed } = agreement;
        let conn = self.conns.get_mut(&id).expect("it was being opened");
        let in_set = key.peer.nid.ip() == Some(conn.remote.ip());
        let rx = Rx::new(known.version, order, now);
        conn.phase = Phase::Open(Open { key, kind, imposed, rx, opened: now, last_used: 0 });
        self.timers.set(Timer::Conn(id), now + self.config.timeout);
        let peer = self.peers.entry(key).or_default();
        peer.links.push(Link { conn: id, kind, in_set });
        peer.dialler.succeeded();
        if let Dialling::BackedOff = peer.dialler.state {
            // It is there again, and perhaps about to open all that is missing itself.
            peer.dialler.state = Dialling::Postponed;
            self.timers.set(Timer::Dial(key), now + self.config.reconnect_min);
        }
        if peer.links.len() == 1 {
            peer.known = Some(known);
            if known.version >= Version::V3 && !self.config.keepalive.is_zero() {
                self.timers.set(Timer::Keepalive(key), now + self.config.keepalive);
            }
            self.notice(Notice::PeerUp { ni: key.ni, peer: key.peer });
        }
        self.flush_queue(now, &key);
    }

    /// The owner reports the end of a connection.
    pub(super) fn closed(&mut self, now: Time, id: ConnId, how: Closed) {
        let Some(conn) = self.conns.get(&id) else { return };
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
                self.handshakes -= 1;
                self.forget_conn(id);
            }
        }
    }

    /// The peer broke the protocol.
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

    /// Ends an open connection, and with it all that the peer has with us from the same address.
    fn end_conn(&mut self, now: Time, id: ConnId, cause: Cause, close: bool) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Phase::Open(Open { key, .. }) = &conn.phase else { return };
        let (key, ip) = (*key, conn.remote.ip());
        self.drop_link(&key, id, cause, close);
        let links = self.peers.get(&key).map_or(&[][..], |peer| &peer.links);
        let siblings = links.iter().map(|link| link.conn);
        let siblings: Vec<_> = siblings.filter(|id| self.conns[id].remote.ip() == ip).collect();
        for sibling in siblings {
            self.drop_link(&key, sibling, cause, true);
        }
        self.settle(now, key);
    }

    /// Closes every open connection with a peer. [`Socklnd::settle`] is left to the caller.
    pub(super) fn close_links(&mut self, key: &PeerKey, cause: Cause) {
        let links = self.peers.get(key).map_or(&[][..], |peer| &peer.links);
        for conn in links.iter().map(|link| link.conn).collect::<Vec<_>>() {
            self.drop_link(key, conn, cause, true);
        }
    }

    /// Closes every open connection with a peer that is not what it was when they were opened.
    pub(super) fn close_stale(&mut self, key: &PeerKey) {
        self.notice(Notice::Restarted { peer: key.peer.nid });
        self.close_links(key, Cause::Restarted);
    }

    /// Closes all that belongs to an interface that is gone.
    pub(super) fn close_ni(&mut self, nid: Nid) {
        let keys = self.peers.range(PeerKey::first_of(nid)..).map(|(key, _)| *key);
        for key in keys.take_while(|key| key.ni == nid).collect::<Vec<_>>() {
            self.close_links(&key, Cause::Removed);
            let Some(peer) = self.peers.remove(&key) else { continue };
            if let Dialling::Trying(attempt) = peer.dialler.state {
                self.close_conn(attempt.conn, false);
            }
            self.timers.clear(Timer::Dial(key));
            for queued in peer.queue {
                self.fail_message(&queued.request, Cause::Removed.send_error());
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

    /// Tells the owner to close a connection whose handshake is not over.
    pub(super) fn close_conn(&mut self, conn: ConnId, flush: bool) {
        self.forget_conn(conn);
        self.outputs.push_back(Output::Close { conn, flush });
    }

    /// Forgets a connection that is closed already.
    pub(super) fn forget_conn(&mut self, conn: ConnId) {
        self.timers.clear(Timer::Conn(conn));
        self.conns.remove(&conn);
    }

    /// Ends one open connection and all that was under way on it.
    fn drop_link(&mut self, key: &PeerKey, id: ConnId, cause: Cause, close: bool) {
        let Some(conn) = self.conns.remove(&id) else { return };
        self.timers.clear(Timer::Conn(id));
        if close {
            self.outputs.push_back(Output::Close { conn: id, flush: false });
        }
        if matches!(&conn.phase, Phase::Open(open) if open.rx.in_message()) {
            self.outputs.push_back(Output::Completed { conn: id, result: Err(cause.errno()) });
        }
        for message in conn.tx.unsent() {
            self.outputs.push_back(Output::Sent { message, result: Err(cause.send_error()) });
        }
        let peer = self.peers.get_mut(key).expect("a peer with a connection is known");
        peer.links.retain(|link| link.conn != id);
        if peer.links.is_empty() {
            peer.known = None;
            self.timers.clear(Timer::Keepalive(*key));
            let errno = cause.errno();
            self.notice(Notice::PeerDown { ni: key.ni, peer: key.peer, errno });
        }
    }
}
