//! Paths to peers: handling of silent failures, and of failures of the local link.
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

use super::dial::ATTEMPT_MAX;
use super::links::{Cause, undelivered};
use super::{Socklnd, Timer};
use crate::peer::{DialState, PeerKey};

impl Socklnd {
    pub(super) fn is_down(&self, ni: &Nid) -> bool {
        self.down.contains(ni)
    }

    /// Reports the state of the path to a peer, if it changed.
    pub(super) fn tell(&mut self, key: PeerKey, state: PathState) {
        if let Some(peer) = self.peers.get_mut(&key)
            && peer.reported != Some(state)
        {
            peer.reported = Some(state);
            self.path(key, state);
        }
    }

    pub(super) fn path(&mut self, key: PeerKey, state: PathState) {
        if key.can_be_dialled() {
            let PeerKey { ni, peer } = key;
            self.outputs.push_back(Output::Path { ni, peer: peer.nid, state });
        }
    }

    /// Reports that the path to a peer is down, if there was one.
    pub(super) fn tell_lost(&mut self, key: PeerKey) {
        let reported = self.peers.get(&key).and_then(|peer| peer.reported);
        if matches!(reported, Some(PathState::Up | PathState::Stalled)) {
            self.tell(key, PathState::Down);
        }
    }

    /// Handles a stalled connection. For a retired one the stall is already known.
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
            if up { self.link_up(now, key) } else { self.link_down(now, key) }
        }
    }

    /// Stops using the connections with a peer, but leaves them open.
    fn link_down(&mut self, now: Time, key: PeerKey) {
        let retired = self.retire(now, &key);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.returning |= retired;
        // The owner already knows the state of the link; a later connection is reported.
        peer.reported = None;
        let queue = std::mem::take(&mut peer.queue);
        if let DialState::Trying(attempt) = peer.dialler.state {
            peer.dialler.state = DialState::Idle;
            self.close_conn(attempt.conn, false);
        }
        for queued in queue {
            self.fail_message(&queued.request, undelivered(true, Errno::ENETDOWN));
        }
        self.settle(now, key);
    }

    /// Clears failures, and dials peers that had connections.
    fn link_up(&mut self, now: Time, key: PeerKey) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.forgive();
        let blinked = |since: &Time| now.since(*since) < BLINK;
        if peer.dialler.returning
            && peer.retired().any(|link| link.retired.as_ref().is_some_and(blinked))
        {
            // TCP will soon retransmit lost data; new connections would not be faster.
            self.use_again(now, key, blinked);
            return self.settle(now, key);
        }
        if peer.dialler.returning || !peer.queue.is_empty() {
            return self.reopen(now, key);
        }
        if let DialState::BackedOff = peer.dialler.state {
            peer.dialler.state = DialState::Idle;
        }
        self.settle(now, key);
    }

    /// Opens more connections to a peer if TCP windows limit the throughput: doubles their number,
    /// up to the limit of the interface. Does nothing before those are open, or if the peer cannot
    /// be dialled.
    pub(super) fn widen(&mut self, now: Time, key: PeerKey) {
        let Some(ni) = self.nis.get(&key.ni).filter(|_| key.can_be_dialled()) else { return };
        let limit = ni.conns_max;
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let usual = peer.usual_conns(Some(ni));
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
        if let DialState::Trying(attempt) = peer.dialler.state {
            // It started before the failure was known, and may wait for long.
            self.close_conn(attempt.conn, false);
        }
        self.timers.clear(Timer::Dial(key));
        let timeout = self.timeout_of(key.ni);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        peer.dialler.state = DialState::Idle;
        peer.dialler.begin_round(now, timeout);
        self.settle(now, key);
    }

    /// Retires all connections with a peer, and returns whether there were any. If that happens
    /// repeatedly, closes the oldest ones.
    fn retire(&mut self, now: Time, key: &PeerKey) -> bool {
        let Some(peer) = self.peers.get_mut(key) else { return false };
        let usual = peer.usual_conns(self.nis.get(&key.ni));
        let mut retired = 0;
        for link in peer.links.iter_mut().filter(|link| link.retired.is_none()) {
            link.retired = Some(now);
            retired += 1;
            if !key.can_be_dialled() {
                self.timers.set(Timer::Conn(link.conn), now + RETIRED_LOOK);
            }
        }
        if retired > 0 {
            // Earlier ones say nothing about the path that has failed now.
            peer.dialler.forget_refusals();
        }
        self.counters.retired += retired;
        let set = 1 + (2 * usual + peer.more_out) as usize;
        let excess = peer.links.len().saturating_sub(SETS_MAX * set);
        for conn in peer.links.iter().take(excess).map(|link| link.conn).collect::<Vec<_>>() {
            self.drop_link(key, conn, Cause::Spent, true);
        }
        retired > 0
    }

    /// Checks whether a retired connection can be used again or closed. `last` is its last
    /// activity, and `heard` the last time that the peer was heard.
    pub(super) fn check_retired(
        &mut self,
        now: Time,
        (id, key): (ConnId, PeerKey),
        last: Time,
        heard: Time,
    ) {
        let limit = self.timeout_of(key.ni) * RETIRED_MAX;
        let down = self.is_down(&key.ni);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let connected = peer.active().next().is_some();
        // Dialling cannot replace it, so a working connection is used again.
        let backed_off = matches!(peer.dialler.state, DialState::BackedOff);
        let alone = !connected && (backed_off || !key.can_be_dialled());
        let Some(link) = peer.links.iter_mut().find(|link| link.conn == id) else { return };
        let Some(since) = link.retired else { return };
        if (connected || alone) && heard > since && !down {
            // The path works in both directions, and this connection is alive.
            link.retired = None;
            self.tell(key, PathState::Up);
            return self.flush_queue(now, &key);
        }
        if alone {
            self.timers.set(Timer::Conn(id), now + RETIRED_LOOK);
        }
        if !connected && last.max(since) + limit <= now {
            // While others are in use it stays: the peer could take its end for theirs.
            self.fail_conn(now, id, Cause::Spent);
        }
    }

    /// Handles that a peer refuses a new connection: perhaps it counts the retired ones, since its TCP is silent
    /// for as long as the outage has lasted. What it had to send on them would be lost if they were closed now. The first
    /// refusals may also come from a peer that is dialling itself, and whose SYN waits for its retransmission.
    pub(super) fn look_at_retired(&mut self, now: Time, key: PeerKey) {
        let Some(peer) = self.peers.get(&key) else { return };
        let (Some(refused), Some(retired)) = (peer.dialler.refused_since, peer.retired_at()) else {
            return;
        };
        let last = peer.retired().filter(|link| link.retired == Some(retired));
        if last.into_iter().any(|link| self.conns[&link.conn].heard() > retired + LATE_MAX) {
            // TCP has recovered on one of them, and does so on the others.
            return self.use_again(now, key, |since| *since == retired);
        }
        let outage = refused.since(retired).min(OUTAGE_MAX);
        if now.since(refused) >= outage + ATTEMPT_MAX {
            self.close_retired(key);
        }
    }

    /// Uses retired connections again.
    fn use_again(&mut self, now: Time, key: PeerKey, which: impl Fn(&Time) -> bool) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        for link in &mut peer.links {
            link.retired = link.retired.filter(|since| !which(since));
        }
        peer.dialler.returning = false;
        self.tell(key, PathState::Up);
        self.flush_queue(now, &key);
    }

    fn close_retired(&mut self, key: PeerKey) {
        let Some(peer) = self.peers.get(&key) else { return };
        let retired: Vec<_> = peer.retired().map(|link| link.conn).collect();
        for conn in retired {
            self.drop_link(&key, conn, Cause::Spent, true);
        }
    }
}

/// A link outage shorter than this is ignored: TCP then waits at most about as long again.
const BLINK: Duration = Duration::from_secs(2);
/// The TCP of a peer is waited for as if the outage had lasted no longer than this.
const OUTAGE_MAX: Duration = Duration::from_secs(16);
/// How late this node may read what had arrived before an outage.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How many sets of connections with one peer are kept when paths fail repeatedly.
const SETS_MAX: usize = 8;
/// How soon a retired connection that cannot be replaced is checked again.
const RETIRED_LOOK: Duration = Duration::from_secs(4);
/// A retired connection is closed this many timeouts after its last activity: LNet no longer waits
/// for messages that were sent on it.
const RETIRED_MAX: u32 = 4;
