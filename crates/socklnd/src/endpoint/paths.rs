//! The ways to peers: what happens when one fails and nothing says so, or when our own link does.
//! Spec: lnet-behaviour §8.8, §14.1.
//!
//! ```text
//!          +---------- first connection ----------+
//!          v                                      |
//!         Up --- TCP hears nothing ---> Stalled --+-- a minute without one ---> Down
//!          |                                                                     ^
//!          +----------- last connection ends, and none is being opened ----------+
//! ```

use std::time::Duration;

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnd::{Notice, Output, PathState};
use fulmar_lnet_wire::Nid;

use super::links::{Cause, undelivered};
use super::{Socklnd, Timer};
use crate::peer::{Dialling, PeerKey};

impl Socklnd {
    pub(super) fn is_down(&self, ni: &Nid) -> bool {
        self.down.contains(ni)
    }

    /// Tells the owner of the way to a peer, unless it knows.
    pub(super) fn tell(&mut self, key: PeerKey, state: PathState) {
        if let Some(peer) = self.peers.get_mut(&key)
            && peer.told != Some(state)
        {
            peer.told = Some(state);
            self.path(key, state);
        }
    }

    pub(super) fn path(&mut self, key: PeerKey, state: PathState) {
        if key.can_be_dialled() {
            let PeerKey { ni, peer } = key;
            self.outputs.push_back(Output::Path { ni, peer: peer.nid, state });
        }
    }

    /// Tells the owner that nothing is left of the way to a peer, if there was one.
    pub(super) fn tell_lost(&mut self, key: PeerKey) {
        let told = self.peers.get(&key).and_then(|peer| peer.told);
        if matches!(told, Some(PathState::Up | PathState::Stalled)) {
            self.tell(key, PathState::Down);
        }
    }

    /// TCP hears nothing from the peer on one of its connections. Of a retired one that was known.
    pub(super) fn path_stalled(&mut self, now: Time, key: PeerKey, conn: ConnId) {
        let active = self.peers.get(&key).into_iter().flat_map(|peer| peer.active());
        if !active.into_iter().any(|link| link.conn == conn) {
            return;
        }
        self.retire(now, &key);
        self.notice(Notice::Stalled { ni: key.ni, peer: key.peer });
        self.tell(key, PathState::Stalled);
        self.reopen(now, key);
    }

    pub(super) fn link(&mut self, now: Time, ni: Nid, up: bool) {
        let changed = if up { self.down.remove(&ni) } else { self.down.insert(ni) };
        if !changed {
            return;
        }
        self.notice(Notice::Link { ni, up });
        let keys = self.peers.range(PeerKey::first_of(ni)..).map(|(key, _)| *key);
        for key in keys.take_while(|key| key.ni == ni).collect::<Vec<_>>() {
            match up {
                true => self.link_up(now, key),
                false => self.link_down(now, key),
            }
        }
    }

    /// Leaves the connections with a peer as they are, and sends nothing more by them.
    fn link_down(&mut self, now: Time, key: PeerKey) {
        let retired = self.retire(now, &key);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.returning |= retired;
        // The owner hears of the link itself; a connection after this is news.
        peer.told = None;
        let queue = std::mem::take(&mut peer.queue);
        if let Dialling::Trying(attempt) = peer.dialler.state {
            peer.dialler.state = Dialling::Idle;
            self.close_conn(attempt.conn, false);
        }
        for queued in queue {
            self.fail_message(&queued.request, undelivered(true, Errno::ENETDOWN));
        }
        self.settle(now, key);
    }

    /// Forgets failures, and dials whom there were connections with.
    fn link_up(&mut self, now: Time, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.forgive();
        let blinked = |since: &Time| now.since(*since) < BLINK;
        if peer.dialler.returning
            && peer.retired().any(|link| link.retired.as_ref().is_some_and(blinked))
        {
            // TCP is about to send again what was lost; new connections would not be sooner.
            for link in &mut peer.links {
                link.retired = link.retired.filter(|since| !blinked(since));
            }
            peer.dialler.returning = false;
            self.tell(key, PathState::Up);
            self.flush_queue(now, &key);
            return self.settle(now, key);
        }
        if peer.dialler.returning || !peer.queue.is_empty() {
            return self.reopen(now, key);
        }
        if let Dialling::BackedOff = peer.dialler.state {
            peer.dialler.state = Dialling::Idle;
        }
        self.settle(now, key);
    }

    /// Opens more connections to a peer to which TCP windows limit what is sent: twice as many as there
    /// are, up to the limit of the interface. Nothing changes before those are open, or if the peer
    /// cannot be dialled.
    pub(super) fn widen(&mut self, now: Time, key: PeerKey) {
        let Some(ni) = self.nis.get(&key.ni).filter(|_| key.can_be_dialled()) else { return };
        let (usual, limit) = (ni.conns_per_peer.max(1), ni.conns_max);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let wanted = usual + peer.more_out;
        if wanted >= limit || peer.bulk_out() < wanted as usize {
            return;
        }
        let conns = limit.min(2 * wanted);
        peer.more_out = conns - usual;
        self.notice(Notice::WindowLimited { peer: key.peer.nid, conns });
        self.settle(now, key);
    }

    /// Dials a peer now, and every few seconds for a while.
    fn reopen(&mut self, now: Time, key: PeerKey) {
        if !key.can_be_dialled() {
            return self.settle(now, key);
        }
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.hurry(now);
        if let Dialling::Trying(attempt) = peer.dialler.state {
            // It began before the way was known to be bad, and may be waiting for long.
            self.close_conn(attempt.conn, false);
        }
        self.timers.clear(Timer::Dial(key));
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.state = Dialling::Idle;
        peer.dialler.begin_round(now, &self.config);
        self.settle(now, key);
    }

    /// Retires all connections with a peer, and returns whether there were any. Where that happens
    /// again and again the oldest are closed.
    fn retire(&mut self, now: Time, key: &PeerKey) -> bool {
        let conns_per_peer = self.nis.get(&key.ni).map_or(1, |ni| ni.conns_per_peer.max(1));
        let Some(peer) = self.peers.get_mut(key) else { return false };
        let mut retired = 0;
        for link in peer.links.iter_mut().filter(|link| link.retired.is_none()) {
            link.retired = Some(now);
            retired += 1;
            if !key.can_be_dialled() {
                self.timers.set(Timer::Conn(link.conn), now + RETIRED_LOOK);
            }
        }
        self.counters.retired += retired;
        let set = 1 + (2 * conns_per_peer + peer.more_out) as usize;
        let excess = peer.links.len().saturating_sub(SETS_MAX * set);
        for conn in peer.links.iter().take(excess).map(|link| link.conn).collect::<Vec<_>>() {
            self.drop_link(key, conn, Cause::Spent, true);
        }
        retired > 0
    }

    /// Looks whether a retired connection can be used again, or be done without. `last` is when
    /// there was life in it last, and `heard` when the peer was heard.
    pub(super) fn look_at_retired(
        &mut self,
        now: Time,
        (id, key): (ConnId, PeerKey),
        last: Time,
        heard: Time,
    ) {
        let patience = self.config.timeout * RETIRED_MAX;
        let down = self.is_down(&key.ni);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let connected = peer.active().next().is_some();
        // Nothing better can be had by us: what lives is good enough.
        let backed_off = matches!(peer.dialler.state, Dialling::BackedOff);
        let alone = !connected && (backed_off || !key.can_be_dialled());
        let Some(link) = peer.links.iter_mut().find(|link| link.conn == id) else { return };
        let Some(since) = link.retired else { return };
        if (connected || alone) && heard > since && !down {
            // The way is good in both directions, and this connection is alive.
            link.retired = None;
            self.tell(key, PathState::Up);
            return self.flush_queue(now, &key);
        }
        if alone {
            self.timers.set(Timer::Conn(id), now + RETIRED_LOOK);
        }
        if !connected && last.max(since) + patience <= now {
            // With others in use it would stay: its end could be taken for theirs by the peer.
            self.fail_conn(now, id, Cause::Spent);
        }
    }

    /// Closes what the peer may count against the number of its connections.
    pub(super) fn close_retired(&mut self, now: Time, key: PeerKey) {
        let Some(peer) = self.peers.get(&key) else { return };
        let retired: Vec<_> = peer.retired().map(|link| link.conn).collect();
        for conn in retired {
            self.drop_link(&key, conn, Cause::Spent, true);
        }
        self.settle(now, key);
    }
}

/// A link that was away for less has only blinked: TCP waits about as long again at most.
const BLINK: Duration = Duration::from_secs(2);
/// So many sets of connections with one peer are kept when ways fail again and again.
const SETS_MAX: usize = 8;
/// How soon a retired connection is looked at again that cannot be replaced.
const RETIRED_LOOK: Duration = Duration::from_secs(4);
/// So many timeouts after the last life in it a retired connection is closed: LNet has given up
/// waiting for what was sent on it.
const RETIRED_MAX: u32 = 4;
