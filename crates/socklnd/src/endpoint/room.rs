//! Room for incoming connections: which give way when there are as many as there may be.
//!
//! A connection that gives way is closed like any other. So only those of idle peers lose their
//! protection, and what a peer sends just then is lost as on a connection that breaks. It connects
//! again when it has something to send.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use fulmar_base::{ConnId, Time};
use fulmar_lnd::Notice;

use super::Socklnd;
use super::links::Cause;
use crate::Config;
use crate::callers::Limits;
use crate::conn::{Conn, Phase};
use crate::peer::{DialState, Peer, PeerKey};

impl Socklnd {
    /// Sets for how many incoming connections the owner has room from now on; if it is `full`, for
    /// no more than there are.
    pub fn limit_incoming(&mut self, most: usize, full: bool) {
        self.incoming_max = if full { most.min(self.callers.all()) } else { most };
    }

    /// Returns when the owner should accept another connection. A later one than now gives the
    /// connection whose place is needed the time to send its first message.
    pub fn accepts_at(&self, now: Time) -> Time {
        match self.callers.first_uncrowded().filter(|_| self.callers.is_full(self.limits())) {
            Some(since) => now.max(since + FIRST_MESSAGE),
            None => now,
        }
    }

    /// Lets a connection give way, since the owner had no place for another one. Returns when it should
    /// accept the next.
    pub fn handle_no_place(&mut self, now: Time) -> Time {
        self.limit_incoming(self.incoming_max, true);
        let next = self.accepts_at(now);
        if next == now {
            self.free_place(now, self.limits());
        }
        next
    }

    /// Makes room for another connection from `address`; returns whether there is.
    pub(super) fn make_room(&mut self, now: Time, address: IpAddr) -> bool {
        let limits = self.limits();
        if let Some(surplus) = self.callers.surplus_of(address, limits) {
            self.give_way(now, surplus);
        }
        while self.callers.is_full(limits) {
            if !self.free_place(now, limits) {
                return false;
            }
        }
        true
    }

    /// Lets the first to go give way, if there is one.
    fn free_place(&mut self, now: Time, limits: Limits) -> bool {
        if self.callers.protected() > limits.protected() {
            self.unprotect_idle(now);
        }
        let Some(conn) = self.callers.first_to_go() else { return false };
        self.give_way(now, conn);
        true
    }

    /// Handles a message on an incoming connection that is on probation: protects the connections
    /// of the peer if there is room. A peer that has been connected for a while takes the place of
    /// an idle one.
    pub(super) fn prove(&mut self, now: Time, id: ConnId, key: PeerKey) {
        self.callers.hear(id);
        let limits = self.limits();
        let opened = match self.conns.get(&id).map(|conn| &conn.phase) {
            Some(Phase::Open(open)) => open.opened,
            _ => now,
        };
        if self.callers.protected() >= limits.protected() && opened + IN_USE <= now {
            self.unprotect_idle(now);
        }
        self.protect(now, key, limits);
    }

    /// Protects a new incoming connection of a peer that has others: protected ones, or some that
    /// this node has opened.
    pub(super) fn admit(&mut self, now: Time, id: ConnId, key: PeerKey) {
        let links = self.peers.get(&key).map_or(&[][..], |peer| &peer.links);
        let mut others = links.iter().filter(|link| link.conn != id);
        if others.any(|link| !self.callers.is_on_probation(link.conn)) {
            self.protect(now, key, self.limits());
        }
    }

    fn limits(&self) -> Limits {
        let Config { incoming_max, handshakes_max, handshakes_per_address, .. } = self.config;
        let all = incoming_max.min(self.incoming_max);
        let probation = (all / 2).min(handshakes_max).max(1);
        Limits { all, probation, of_address: handshakes_per_address }
    }

    /// Protects the connections of a peer, as far as there is room.
    fn protect(&mut self, now: Time, key: PeerKey, limits: Limits) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        for link in &peer.links {
            if self.callers.protected() < limits.protected()
                && self.callers.is_on_probation(link.conn)
            {
                self.callers.protect(link.conn);
                set_probation(&mut self.conns, link.conn, false);
                self.callers.note_use(key, peer.used.replace(now), now);
            }
        }
    }

    /// Ends the protection of the peer that has been idle for longest, if it is for a while.
    fn unprotect_idle(&mut self, now: Time) {
        for _ in 0..LOOKS_MAX {
            let Some((seen, key)) = self.callers.least_recent() else { return };
            if seen + IN_USE > now {
                return;
            }
            let peer = self.peers.get(&key).expect("a peer with a connection is known");
            // Of a peer in use, the recorded time was out of date.
            let last = self.idle_since(peer).unwrap_or(now);
            if last + IN_USE <= now {
                return self.unprotect(key);
            }
            let peer = self.peers.get_mut(&key).expect("it was found");
            self.callers.note_use(key, peer.used.replace(last), last);
        }
    }

    fn unprotect(&mut self, key: PeerKey) {
        let peer = self.peers.get_mut(&key).expect("a peer with a connection is known");
        self.callers.forget_peer(key, peer.used.take());
        for link in &peer.links {
            if self.callers.is_protected(link.conn) {
                self.callers.hear(link.conn);
                set_probation(&mut self.conns, link.conn, true);
            }
        }
    }

    /// Returns since when there was no message from a peer or to it; `None` if one is under way.
    fn idle_since(&self, peer: &Peer) -> Option<Time> {
        let waits = !peer.queue.is_empty()
            || matches!(peer.dialler.state, DialState::Trying(_))
            || !peer.zero_copy.is_empty();
        let mut last = Time::ZERO;
        for link in &peer.links {
            let Conn { phase: Phase::Open(open), tx, .. } = &self.conns[&link.conn] else {
                unreachable!("links are open connections")
            };
            if tx.queued() > 0 || !open.rx.is_between_messages() {
                return None;
            }
            last = last.max(open.rx.used()).max(tx.used());
        }
        (!waits).then_some(last)
    }

    /// Closes a connection on probation, with the others of its peer unless some are protected.
    fn give_way(&mut self, now: Time, id: ConnId) {
        let conn = &self.conns[&id];
        let Phase::Open(open) = &conn.phase else {
            let remote = conn.remote;
            self.counters.refused_handshakes += 1;
            self.notice(Notice::TooManyHandshakes { remote });
            return self.refuse(id, None);
        };
        let key = open.key;
        self.counters.gave_way += 1;
        self.notice(Notice::GaveWay { remote: conn.remote });
        let links = self.peers.get(&key).map_or(&[][..], |peer| &peer.links);
        if links.iter().all(|link| self.callers.is_on_probation(link.conn)) {
            self.close_links(&key, Cause::GaveWay);
        } else {
            self.drop_link(&key, id, Cause::GaveWay, true);
        }
        self.settle(now, key);
    }
}

fn set_probation(conns: &mut BTreeMap<ConnId, Conn>, id: ConnId, on_probation: bool) {
    if let Some(Conn { phase: Phase::Open(open), .. }) = conns.get_mut(&id) {
        open.on_probation = on_probation;
    }
}

/// A peer is in use for this long after its last message.
const IN_USE: Duration = Duration::from_secs(1);
/// How long a newcomer and this node may take for its handshake and its first message.
const FIRST_MESSAGE: Duration = Duration::from_millis(200);
/// How many peers are examined in a search for an idle one. The next search goes on from there.
const LOOKS_MAX: usize = 64;
