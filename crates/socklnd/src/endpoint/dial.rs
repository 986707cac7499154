//! Dialling peers: when, in which order, and the effects of their answers. Spec: lnet-wire §4.7,
//! §5.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_base::{ConnId, Errno, Time};
use fulmar_lnd::{Notice, Output, PathState, SendError, Stream};
use fulmar_lnet_wire::socklnd::{ConnKind, Hello};
use fulmar_wire::Order;

use super::links::undelivered;
use super::{Socklnd, Timer};
use crate::conn::{Agreement, Conn, Phase, Tx, WriteContent};
use crate::handshake::{self, Handshake};
use crate::peer::{AnswerJudgement, Attempt, DialState, PeerInstance, PeerKey};

impl Socklnd {
    /// Acts on the state of a peer after a change: dials it or removes it. Every input that changes
    /// a peer ends here.
    pub(super) fn settle(&mut self, now: Time, key: PeerKey) {
        let timeout = self.timeout_of(key.ni);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let DialState::Idle = peer.dialler.state else { return };
        let (down, urgent) = (self.down.contains(&key.ni), peer.dialler.is_urgent(now));
        if peer.queue.is_empty() && peer.links.is_empty() && !urgent {
            if down && peer.dialler.returning {
                return;
            }
            let failing = peer.dialler.is_failing();
            self.tell_lost(key);
            if !failing {
                self.peers.remove(&key);
                self.timers.clear(Timer::Dial(key));
            }
            return;
        }
        let opens = peer.dialler.begun || urgent || peer.more_out > 0;
        if peer.queue.is_empty() && (down || !opens) {
            // The peer that opens connections decides how many there are.
            if !down && peer.active().next().is_none() {
                self.tell_lost(key);
            }
            return;
        }
        let usual = peer.usual_conns(self.nis.get(&key.ni));
        let Some(kind) = peer.missing(usual) else { return };
        if !peer.dialler.begun || peer.dialler.deadline <= now {
            peer.dialler.begin_round(now, timeout);
        }
        self.dial(now, key, kind);
    }

    fn dial(&mut self, now: Time, key: PeerKey, kind: ConnKind) {
        let addrs = key.dial_addrs(self.config.port_of(kind));
        let (local, remote) = addrs.expect("messages only wait for peers that can be dialled");
        let phase = Phase::Dialling(key);
        let local_addr = SocketAddr::new(local, 0);
        let conn = self.new_conn(Conn { local: local_addr, remote, phase, tx: Tx::default() });
        let peer = self.peers.get_mut(&key).expect("a peer that is dialled is known");
        let version = peer.known.map_or_else(
            || handshake::default_version(key.peer.nid, self.config.version),
            |known| known.version,
        );
        peer.dialler.begun = true;
        peer.dialler.state = DialState::Trying(Attempt { since: now, conn, kind, version });
        let stalled = peer.reported == Some(PathState::Stalled);
        let doubtful = stalled || peer.dialler.is_urgent(now) || self.down.contains(&key.ni);
        let deadline = if doubtful { now + ATTEMPT_MAX } else { Time::MAX };
        let deadline = deadline.min(peer.dialler.deadline);
        self.timers.set(Timer::Conn(conn), deadline.max(now));
        self.counters.dialled += 1;
        self.outputs.push_back(Output::Stream(Stream::Dial { conn, local, remote }));
    }

    /// Sends the request and hello on a new connection.
    pub(super) fn call(&mut self, now: Time, id: ConnId, key: PeerKey, local: SocketAddr) {
        let attempt = self.attempt(&key);
        if let Some(peer) = self.peers.get_mut(&key) {
            peer.connected_in(now.since(attempt.since));
        }
        let ni = self.nis.get(&key.ni).expect("a dialling interface exists");
        let head = handshake::call(ni, key.peer.nid, attempt.version, attempt.kind);
        let conn = self.conns.get_mut(&id).expect("it was being dialled");
        conn.local = local;
        conn.phase = Phase::Calling(key, Handshake::calling());
        self.write(now, id, head, WriteContent::Handshake);
    }

    /// Handles the answer of a peer to a dialled connection.
    pub(super) fn handle_answer(
        &mut self,
        now: Time,
        id: ConnId,
        key: PeerKey,
        hello: &Hello,
        order: Order,
    ) {
        let attempt = self.attempt(&key);
        let peer = self.peers.get_mut(&key).expect("a peer that is dialled is known");
        match peer.judge_answer(&key, &attempt, hello) {
            AnswerJudgement::Agreed => {
                peer.dialler.state = DialState::Idle;
                let (kind, known) = (attempt.kind, PeerInstance::from_hello(hello));
                self.open(now, id, Agreement { key, kind, known, order, imposed: false });
                self.settle(now, key);
            }
            AnswerJudgement::WrongPeer => {
                let (wanted, got) = (key.peer.nid, hello.source);
                self.notice(Notice::WrongPeer { wanted, got });
                self.fail_call(now, id, key, Errno::EPROTO);
            }
            AnswerJudgement::WrongKind => self.fail_call(now, id, key, Errno::EPROTO),
            AnswerJudgement::Stale => {
                self.close_conn(id, false);
                self.close_stale(&key);
                self.dial_again(now, key);
            }
            AnswerJudgement::OtherVersion => {
                peer.known = Some(PeerInstance::from_hello(hello));
                self.close_conn(id, false);
                self.dial_again(now, key);
            }
            AnswerJudgement::Refused => {
                peer.dialler.refused(now);
                self.close_conn(id, false);
                self.look_at_retired(now, key);
                self.postpone(now, key);
            }
        }
    }

    /// Cancels a dialled connection after its request was written.
    pub(super) fn fail_call(&mut self, now: Time, conn: ConnId, key: PeerKey, errno: Errno) {
        self.counters.handshake_failures += 1;
        self.close_conn(conn, false);
        self.dial_failed(now, key, errno);
    }

    /// Pauses before the next dial of an unreachable peer, longer each time.
    pub(super) fn dial_failed(&mut self, now: Time, key: PeerKey, errno: Errno) {
        self.counters.dial_failures += 1;
        let down = self.is_down(&key.ni);
        let peer = self.peers.get_mut(&key).expect("a peer that is dialled is known");
        let answered = matches!(errno, Errno::ECONNREFUSED | Errno::EPROTO);
        if peer.dialler.is_urgent(now) && !down && !answered {
            // The path worked until recently and is expected to recover: messages wait for it.
            peer.dialler.state = DialState::Postponed;
            return self.timers.set(Timer::Dial(key), now + URGENT_PAUSE);
        }
        let unconnected = peer.active().next().is_none();
        peer.dialler.calm_down();
        let retry = peer.dialler.back_off(&self.config);
        if peer.links.is_empty() {
            peer.known = None;
        }
        let queue = std::mem::take(&mut peer.queue);
        self.timers.set(Timer::Dial(key), now + retry);
        self.notice(Notice::Unreachable { peer: key.peer.nid, errno, retry });
        if unconnected {
            // Before the failures, so that messages sent again take another path.
            self.tell(key, PathState::Down);
        }
        for queued in queue {
            self.fail_message(&queued.request, dial_error(down, errno));
        }
    }

    pub(super) fn handle_dial_timer(&mut self, now: Time, key: PeerKey) {
        let timeout = self.timeout_of(key.ni);
        let Some(peer) = self.peers.get_mut(&key) else { return };
        match peer.dialler.state {
            DialState::Trying(_) => return,
            DialState::Idle => peer.dialler.forgive(),
            DialState::BackedOff => {
                // If no message is sent to the peer for as long again, its failures are forgotten.
                self.timers.set(Timer::Dial(key), now + self.config.reconnect_max);
            }
            DialState::Postponed => {}
        }
        peer.dialler.state = DialState::Idle;
        peer.dialler.begin_round(now, timeout);
        self.expire_queue(now, &key);
        self.settle(now, key);
    }

    /// Handles a changed incarnation or version of the peer: dials it again.
    fn dial_again(&mut self, now: Time, key: PeerKey) {
        let peer = self.peers.get_mut(&key).expect("a peer that is dialled is known");
        if !peer.dialler.may_retry_at_once() {
            return self.postpone(now, key);
        }
        peer.dialler.state = DialState::Idle;
        self.settle(now, key);
    }

    /// Handles the request of the peer to dial later: it is dialling itself, or has enough
    /// connections.
    fn postpone(&mut self, now: Time, key: PeerKey) {
        let peer = self.peers.get_mut(&key).expect("a peer that is dialled is known");
        let pause = match peer.retired().next() {
            // Perhaps the peer counts the retired connections.
            Some(_) => self.config.reconnect_min / 4,
            None => self.config.reconnect_min,
        };
        peer.dialler.state = DialState::Postponed;
        self.timers.set(Timer::Dial(key), now + pause);
    }

    /// Fails the messages that waited too long for a connection.
    fn expire_queue(&mut self, now: Time, key: &PeerKey) {
        let down = self.is_down(&key.ni);
        let timeout = self.timeout_of(key.ni);
        let Some(peer) = self.peers.get_mut(key) else { return };
        let late = peer.queue.partition_point(|queued| queued.since + timeout <= now);
        for queued in peer.queue.drain(..late).collect::<Vec<_>>() {
            self.fail_message(&queued.request, undelivered(down, Errno::ETIMEDOUT));
        }
    }

    fn attempt(&self, key: &PeerKey) -> Attempt {
        match self.peers.get(key).map(|peer| peer.dialler.state) {
            Some(DialState::Trying(attempt)) => attempt,
            state => unreachable!("a connection to {key:?} is being opened, not {state:?}"),
        }
    }
}

/// Returns the health class of a connect failure. Spec: lnet-behaviour §11.4.
fn dial_error(down: bool, errno: Errno) -> SendError {
    match errno {
        // The local address was removed, and a notification will follow.
        Errno::EADDRNOTAVAIL => SendError::local_dropped(errno),
        _ if down => SendError::local_dropped(errno),
        // A kernel treats the first as a network failure, and the second as a failure of its own
        // interface, which one bad peer could bring down: without a connection nothing was
        // delivered, and another path may work.
        Errno::ETIMEDOUT
        | Errno::EPROTO
        | Errno::ENETDOWN
        | Errno::EHOSTUNREACH
        | Errno::ENETUNREACH
        | Errno::ECONNREFUSED
        | Errno::ECONNRESET => SendError::remote_dropped(errno),
        other => SendError::local_error(other),
    }
}

/// Timeout of one attempt on a path with known problems: TCP sends two SYNs within it.
pub(super) const ATTEMPT_MAX: Duration = Duration::from_secs(3);
/// Interval between the starts of such attempts.
const URGENT_PAUSE: Duration = Duration::from_secs(1);
