//! Discovery: who a peer is, before anything is sent to it. Spec: lnet-behaviour §9.3, §9.4.
//!
//! ```text
//! waiting -> active: ping while the NIDs are not known -> push while one is due -> discovered
//!                    | a ping or push fails                                     -> failed
//! ```
//!
//! One difference from the kernel is on purpose: bad ping info is asked for again a few times
//! with a pause, where the kernel asks at once and for ever.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time};
use fulmar_lnet_wire::ping::{Decoded, Features, PingInfo};
use fulmar_lnet_wire::{Body, Nid, PING_MATCH_BITS, Pid, ProcessId, RESERVED_PORTAL};

use crate::Lnet;
use crate::api::{EventKind, Memory, Output, PingReply, QueryId};
use crate::machine::{OwnEvent, Work};
use crate::matching::Owner;
use crate::message::Stage;
use crate::notice::Notice;
use crate::peer::{Peer, PeerId, PeerState};

/// The peers under discovery. Each has [`PeerState::DISCOVERING`].
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    waiting: VecDeque<PeerId>,
    active: BTreeSet<PeerId>,
}

/// How many peers are discovered at once. A dead one takes its place for a transaction timeout,
/// so it is many; each costs a descriptor and a message.
const ACTIVE_MAX: usize = 1024;
/// How many messages wait for the discovery of one peer.
const PARKED_MAX: usize = 16_384;
/// How often in a row ping info may be unusable or larger than the last time.
const BAD_INFOS_MAX: u32 = 3;
/// The pause after unusable ping info.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Lnet {
    /// Discovers the node with this NID, or learns of it again if `force`;
    /// [`Output::Discovered`] tells the result.
    pub fn discover(&mut self, now: Time, nid: Nid, force: bool) -> QueryId {
        let query = self.new_query();
        if nid.is_loopback() || nid.is_any() {
            let result = Err(Errno::EINVAL);
            self.outputs.push_back(Output::Discovered { query, result });
            return query;
        }
        let peer = self.peers.owner(nid).unwrap_or_else(|| self.create_peer(nid));
        if let Some(found) = self.peers.peer_mut(peer) {
            found.queries.push(query);
            if force && !found.state.has(PeerState::PING_SENT) {
                found.state.insert(PeerState::FORCE_PING);
            }
        }
        self.queue_discovery(peer);
        self.settle(now);
        query
    }

    /// Returns whether messages can be sent to a peer.
    pub(crate) fn is_up_to_date(&self, peer: PeerId) -> bool {
        let Some(found) = self.peers.peer(peer) else { return false };
        let busy = [
            PeerState::DISCOVERING,
            PeerState::REDISCOVER,
            PeerState::FORCE_PING,
            PeerState::FORCE_PUSH,
        ];
        found.state.has(PeerState::DISCOVERED)
            && found.state.has(PeerState::NIDS_UPTODATE)
            && !found.state.has_any(&busy)
            && !self.is_push_due(found)
    }

    /// Has a message wait until its peer is discovered.
    pub(crate) fn park(&mut self, now: Time, message: MessageId, peer: PeerId) {
        let found = self.peers.peer_mut(peer).expect("selection returns what exists");
        if found.parked.len() >= PARKED_MAX {
            return self.finalize_send(now, message, Err(Errno::ENOMEM));
        }
        found.parked.push_back(message);
        self.messages.live(message).stage = Stage::Parked;
        self.queue_discovery(peer);
    }

    /// Has a peer discovered when its turn comes, or goes on with it.
    pub(crate) fn queue_discovery(&mut self, peer: PeerId) {
        let Some(found) = self.peers.peer_mut(peer) else { return };
        if found.state.has(PeerState::DISCOVERING) {
            return self.work.push_back(Work::Advance(peer));
        }
        found.state.insert(PeerState::DISCOVERING);
        self.discovery.waiting.push_back(peer);
    }

    /// Returns the next waiting peer, if another may be active.
    pub(crate) fn next_to_discover(&mut self) -> Option<PeerId> {
        while self.discovery.active.len() < ACTIVE_MAX {
            let peer = self.discovery.waiting.pop_front()?;
            if self.peers.peer(peer).is_some() {
                self.discovery.active.insert(peer);
                return Some(peer);
            }
        }
        None
    }

    /// Does the next thing for a peer under discovery.
    pub(crate) fn advance(&mut self, now: Time, peer: PeerId) {
        if !self.discovery.active.contains(&peer) || self.retries.get(peer).is_some() {
            return;
        }
        let Some(found) = self.peers.peer(peer) else { return };
        let state = found.state;
        if state.has(PeerState::FORCE_PING) || !state.has(PeerState::NIDS_UPTODATE) {
            if !state.has(PeerState::PING_SENT) {
                self.send_ping(now, peer);
            }
        } else if self.is_push_due(found) {
            self.send_push(now, peer);
        } else if !state.has(PeerState::PUSH_SENT) {
            self.discovered(peer);
        }
    }

    fn is_push_due(&self, peer: &Peer) -> bool {
        let state = peer.state;
        let news = self.globals.discovery
            && !state.has(PeerState::NO_DISCOVERY)
            && peer.pushed < self.own.sequence;
        state.has(PeerState::MULTI_RAIL)
            && !state.has(PeerState::PUSH_SENT)
            && (news || state.has(PeerState::FORCE_PUSH))
    }

    /// Queues every peer that has not heard of our latest change.
    pub(crate) fn push_where_due(&mut self) {
        let due = |id: &PeerId| self.peers.peer(*id).is_some_and(|peer| self.is_push_due(peer));
        let peers: Vec<PeerId> = self.peers.ids().filter(due).collect();
        for peer in peers {
            self.queue_discovery(peer);
        }
    }

    /// Pushes to every multi-rail peer, whatever it has acknowledged.
    pub(crate) fn force_push(&mut self) {
        let ids: Vec<PeerId> = self.peers.ids().collect();
        for id in ids {
            if self.peer_has(id, PeerState::MULTI_RAIL) {
                self.mark(id, PeerState::FORCE_PUSH);
                self.queue_discovery(id);
            }
        }
    }

    fn send_ping(&mut self, now: Time, peer: PeerId) {
        let Some(target) = self.contact(peer) else {
            return self.discovery_failed(now, peer, Errno::EHOSTUNREACH);
        };
        let Some(found) = self.peers.peer_mut(peer) else { return };
        found.state.remove(PeerState::FORCE_PING);
        found.state.remove(PeerState::NIDS_UPTODATE);
        found.state.insert(PeerState::PING_SENT);
        let len = found.info_size.clamp(PingInfo::SIZE_MIN, PingInfo::SIZE_MAX);
        let md = self.matching.add_own(Owner::Ping(peer), Memory::Inline, len);
        found.ping = Some(md);
        let body = self.ping_body(md, len);
        self.request(now, md, None, ProcessId::lustre(target), body)
            .expect("the descriptor is new");
    }

    /// Pushes our ping info: along the way that the latest ping reply came, or, if none came, by
    /// whichever pair of interfaces is the least busy. Spec: lnet-wire §9.7.
    fn send_push(&mut self, now: Time, peer: PeerId) {
        let pair = self.peers.peer(peer).and_then(|found| found.pair);
        let pair = pair.filter(|(own, theirs)| {
            self.ni_of(*own).is_some() && self.peers.owner(*theirs) == Some(peer)
        });
        let (source, target) = match pair {
            Some((own, theirs)) => (Some(own), Some(theirs)),
            None => (None, self.best_nid(now, peer).or_else(|| self.contact(peer))),
        };
        let Some(target) = target else {
            return self.discovery_failed(now, peer, Errno::EHOSTUNREACH);
        };
        let bytes = self.info_bytes();
        let len = bytes.len() as u32;
        let owner = Owner::Push(peer, self.own.sequence);
        let md = self.matching.add_own(owner, Memory::Bytes(bytes), len);
        let Some(found) = self.peers.peer_mut(peer) else { return };
        found.state.remove(PeerState::FORCE_PUSH);
        found.state.insert(PeerState::PUSH_SENT);
        found.push = Some(md);
        let body = Body::Put {
            ack: self.matching.handle(md),
            match_bits: PING_MATCH_BITS,
            header_data: 0,
            portal: RESERVED_PORTAL,
            offset: 0,
        };
        let target = ProcessId::lustre(target);
        self.request(now, md, source, target, body).expect("the descriptor is new");
    }

    /// Something has happened to the ping of a peer.
    pub(crate) fn discovery_ping_event(&mut self, now: Time, peer: PeerId, event: OwnEvent) {
        let Some(found) = self.peers.peer_mut(peer) else { return };
        if found.ping != Some(event.md) || (event.kind, event.status) == (EventKind::Send, Ok(())) {
            return;
        }
        found.ping = None;
        found.state.remove(PeerState::PING_SENT);
        // A push that came meanwhile has told what the ping was to tell.
        let known = found.state.has(PeerState::NIDS_UPTODATE);
        match (event.kind, event.status) {
            (EventKind::Reply, Ok(())) => self.ping_answered(now, peer, event.pair, &event.bytes),
            (_, status) => {
                self.unlink(event.md);
                match status {
                    Err(errno) if !known => self.discovery_failed(now, peer, errno),
                    _ => self.queue_discovery(peer),
                }
            }
        }
    }

    fn ping_answered(&mut self, now: Time, peer: PeerId, pair: (Nid, Nid), bytes: &[u8]) {
        let (_, from) = pair;
        let Ok(decoded) = PingInfo::decode(bytes) else {
            return self.bad_info(now, peer, from, "it does not decode");
        };
        let Some(found) = self.peers.peer_mut(peer) else { return };
        if decoded.size as usize > bytes.len() {
            let grew = decoded.size > found.info_size.max(PingInfo::SIZE_MIN);
            found.info_size = found.info_size.max(decoded.size);
            if !grew || found.bad_infos >= BAD_INFOS_MAX {
                return self.bad_info(now, peer, from, "it is cut off");
            }
            found.bad_infos += 1;
            return self.queue_discovery(peer);
        }
        found.bad_infos = 0;
        found.pair = Some(pair);
        self.learn(now, peer, from, decoded);
    }

    /// Uses ping info that is whole.
    fn learn(&mut self, now: Time, peer: PeerId, from: Nid, decoded: Decoded) {
        self.own.push_room = self.own.push_room.max(decoded.size).min(PingInfo::SIZE_MAX);
        let peer = self.merge(now, peer, from, &decoded.info, decoded.size);
        let busy = self.peer_has(peer, PeerState::DISCOVERING);
        if busy || !self.is_up_to_date(peer) {
            self.queue_discovery(peer);
        }
    }

    /// Asks again for ping info after a pause, a few times.
    fn bad_info(&mut self, now: Time, peer: PeerId, from: Nid, reason: &'static str) {
        self.notice(Notice::BadPingInfo { from, reason });
        let Some(found) = self.peers.peer_mut(peer) else { return };
        found.bad_infos += 1;
        if found.bad_infos > BAD_INFOS_MAX {
            found.bad_infos = 0;
            return self.discovery_failed(now, peer, Errno::EPROTO);
        }
        self.retries.set(peer, now + RETRY_DELAY);
    }

    /// Something has happened to the push to a peer.
    pub(crate) fn push_event(&mut self, now: Time, peer: PeerId, sequence: u32, event: OwnEvent) {
        let Some(found) = self.peers.peer_mut(peer) else { return };
        if found.push != Some(event.md) || (event.kind, event.status) == (EventKind::Send, Ok(())) {
            return;
        }
        found.push = None;
        found.state.remove(PeerState::PUSH_SENT);
        match (event.kind, event.status) {
            (EventKind::Ack, Ok(())) => {
                found.pushed = sequence;
                self.work.push_back(Work::Advance(peer));
            }
            (_, status) => {
                self.unlink(event.md);
                let errno = status.err().unwrap_or(Errno::ETIMEDOUT);
                self.discovery_failed(now, peer, errno);
            }
        }
    }

    /// A peer has pushed its ping info to us. It is answered by a push of our own, without a
    /// ping. Spec: lnet-wire §9.7.
    pub(crate) fn push_received(&mut self, now: Time, from: Nid, bytes: &[u8], sent: u32) {
        let Some(peer) = self.peers.owner(from) else { return };
        let reason = match PingInfo::decode(bytes) {
            Ok(decoded) if decoded.size as usize <= bytes.len() => {
                if decoded.info.features.has(Features::MULTI_RAIL) {
                    self.learn(now, peer, from, decoded);
                }
                return;
            }
            Ok(decoded) => {
                // Room for it next time, if the peer has so much to say.
                let size = decoded.size.min(sent).max(self.own.push_room);
                self.own.push_room = size.min(PingInfo::SIZE_MAX);
                "it is cut off"
            }
            Err(_) => "it does not decode",
        };
        self.notice(Notice::BadPingInfo { from, reason });
        if let Some(found) = self.peers.peer_mut(peer) {
            found.state.remove(PeerState::NIDS_UPTODATE);
        }
        self.queue_discovery(peer);
    }

    fn discovered(&mut self, peer: PeerId) {
        self.discovery.active.remove(&peer);
        let nids = self.peers.nids_of(peer);
        let Some(found) = self.peers.peer_mut(peer) else { return };
        let news = !found.state.has(PeerState::DISCOVERED);
        found.state.remove(PeerState::DISCOVERING);
        found.state.remove(PeerState::REDISCOVER);
        found.state.insert(PeerState::DISCOVERED);
        let primary = found.primary;
        let multi_rail = found.state.has(PeerState::MULTI_RAIL);
        let parked = std::mem::take(&mut found.parked);
        let queries = std::mem::take(&mut found.queries);
        if news {
            self.notice(Notice::Discovered { primary, nids: nids.len() });
        }
        self.work.extend(parked.into_iter().map(Work::Launch));
        for query in queries {
            let nids = nids.clone();
            let result = Ok(PingReply { primary, multi_rail, pid: Pid::LUSTRE, nids });
            self.outputs.push_back(Output::Discovered { query, result });
        }
    }

    /// Ends the discovery of a peer with an error. The next message to it begins another.
    fn discovery_failed(&mut self, now: Time, peer: PeerId, errno: Errno) {
        if !self.discovery.active.remove(&peer) {
            return;
        }
        self.retries.clear(peer);
        let Some(found) = self.peers.peer_mut(peer) else { return };
        found.state.remove(PeerState::DISCOVERING);
        found.state.remove(PeerState::FORCE_PING);
        found.state.insert(PeerState::REDISCOVER);
        let primary = found.primary;
        let parked = std::mem::take(&mut found.parked);
        let queries = std::mem::take(&mut found.queries);
        self.gateway_dead(peer);
        self.notice(Notice::DiscoveryFailed { peer: primary, errno });
        for message in parked {
            self.finalize_send(now, message, Err(errno));
        }
        for query in queries {
            self.outputs.push_back(Output::Discovered { query, result: Err(errno) });
        }
    }

    /// Takes a peer out of discovery for good.
    pub(crate) fn leave_discovery(&mut self, peer: PeerId) {
        self.discovery.active.remove(&peer);
        self.retries.clear(peer);
    }

    pub(crate) fn peer_has(&self, peer: PeerId, state: PeerState) -> bool {
        self.peers.peer(peer).is_some_and(|peer| peer.state.has(state))
    }

    fn mark(&mut self, peer: PeerId, state: PeerState) {
        if let Some(found) = self.peers.peer_mut(peer) {
            found.state.insert(state);
        }
    }
}
