//! Discovery: the NIDs of a peer are learnt before anything is sent to it.
//! Spec: lnet-behaviour §9.3, §9.4.
//!
//! ```text
//! waiting -> active: ping while the NIDs are not known -> push while one is due -> discovered
//!                    | a ping or push fails                                     -> failed
//! ```
//!
//! One difference from a kernel node is on purpose: bad ping info is requested again a few times
//! with a pause, where a kernel does so at once and for ever.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_base::{Errno, MessageId, Time, Timers};
use fulmar_lnet_wire::ping::{DecodedInfo, PingInfo};
use fulmar_lnet_wire::{Nid, Pid};

use crate::api::{MdId, PingReply, QueryId};
use crate::notice::Notice;

use super::{Output, Own, Peer, PeerId, PeerState, Peers};

/// The peers under discovery. Each has [`PeerState::DISCOVERING`].
#[derive(Debug, Default)]
pub(super) struct Discovery {
    waiting: VecDeque<PeerId>,
    active: BTreeSet<PeerId>,
    /// When peers are pinged again whose ping info was bad.
    retries: Timers<PeerId>,
    /// Until when peers wait for what the primary NID that they claim answers.
    pub(super) claims: Timers<PeerId>,
}

/// What a peer under discovery needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A ping with room for so many bytes: [`Peers::ping_sent`] or [`Peers::failed`].
    Ping(u32),
    /// A push: [`Peers::push_sent`] or [`Peers::failed`].
    Push,
}

/// The answer to a ping: our NID and its NID that carried it, and its bytes; or why there is none.
pub(crate) type Answer<'a> = Result<((Nid, Nid), &'a [u8]), Option<Errno>>;

/// How many peers are discovered at once. A dead one takes its place for a transaction timeout,
/// so it is many; each costs a descriptor and a message.
const ACTIVE_MAX: usize = 1024;
/// How many messages wait for the discovery of one peer, or for one NID to name its peer.
pub(super) const PARKED_MAX: usize = 16_384;
/// How often in a row ping info may be unusable or larger than the last time.
const BAD_INFOS_MAX: u32 = 3;
/// The pause after unusable ping info.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Peers {
    /// Sets what is known of this node.
    pub(crate) fn set_own(&mut self, own: Own) {
        self.own = own;
    }

    /// Begins the discovery of the node with this NID, or another one if `force`, for a query.
    pub(crate) fn discover(&mut self, nid: Nid, force: bool, query: QueryId) {
        if let Some(id) = self.find(nid).filter(|id| !self.is_verified(*id)) {
            return self.query_waits(id, query);
        }
        let peer = self.owner(nid).unwrap_or_else(|| self.create(nid));
        if let Some(found) = self.peer_mut(peer) {
            found.queries.push(query);
        }
        if force {
            self.force_ping(peer);
        }
        self.queue(peer);
    }

    /// Has a peer pinged, whatever is known of it, unless it is being pinged.
    pub(crate) fn force_ping(&mut self, peer: PeerId) {
        if let Some(found) = self.peer_mut(peer)
            && !found.state.has(PeerState::PING_SENT)
        {
            found.state.insert(PeerState::FORCE_PING);
        }
    }

    /// Returns whether messages can be sent to a peer.
    pub(crate) fn is_up_to_date(&self, peer: PeerId) -> bool {
        let Some(found) = self.peer(peer) else { return false };
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

    /// Lets a message wait until its peer is discovered.
    ///
    /// # Errors
    /// ENOMEM if too many wait.
    pub(crate) fn park(&mut self, message: MessageId, peer: PeerId) -> Result<(), Errno> {
        let found = self.peer_mut(peer).expect("selection returns what exists");
        if found.parked.len() >= PARKED_MAX {
            return Err(Errno::ENOMEM);
        }
        found.parked.push_back(message);
        self.queue(peer);
        Ok(())
    }

    /// Has a peer discovered when its turn comes, or goes on with it.
    pub(crate) fn queue(&mut self, peer: PeerId) {
        let Some(found) = self.peer_mut(peer) else { return };
        if found.state.has(PeerState::DISCOVERING) {
            return self.outputs.push_back(Output::Advance(peer));
        }
        found.state.insert(PeerState::DISCOVERING);
        self.discovery.waiting.push_back(peer);
    }

    /// Goes on with the discovery of a peer that needs it after it was learnt of.
    pub(crate) fn resume(&mut self, peer: PeerId) {
        if self.has(peer, PeerState::DISCOVERING) || !self.is_up_to_date(peer) {
            self.queue(peer);
        }
    }

    /// Returns the next waiting peer, if another may be active.
    pub(crate) fn next_to_discover(&mut self) -> Option<PeerId> {
        while self.discovery.active.len() < ACTIVE_MAX {
            let peer = self.discovery.waiting.pop_front()?;
            if self.peer(peer).is_some() {
                self.discovery.active.insert(peer);
                return Some(peer);
            }
        }
        None
    }

    /// Returns when the discovery of a peer can go on.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let Discovery { retries, claims, .. } = &self.discovery;
        [retries.next(), claims.next(), self.late_pushes.next()].into_iter().flatten().min()
    }

    /// Handles the passing of time, and returns a peer whose discovery can go on.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<PeerId> {
        let Discovery { retries, claims, .. } = &mut self.discovery;
        let waiting = retries.pop_due(now).or_else(|| claims.pop_due(now));
        waiting.or_else(|| self.pop_late_push(now))
    }

    /// Returns what a peer under discovery needs next. With nothing left to do, it is discovered.
    pub(crate) fn step(&mut self, peer: PeerId) -> Option<Step> {
        let Discovery { active, retries, .. } = &self.discovery;
        if !active.contains(&peer) || retries.get(peer).is_some() {
            return None;
        }
        let found = self.peer(peer)?;
        let state = found.state;
        if state.has(PeerState::FORCE_PING) || !state.has(PeerState::NIDS_UPTODATE) {
            let len = found.info_size.clamp(PingInfo::SIZE_MIN, PingInfo::SIZE_MAX);
            return (!state.has(PeerState::PING_SENT)).then_some(Step::Ping(len));
        }
        if self.awaits_primary(peer) {
            return None;
        }
        if self.is_push_due(found) {
            return Some(Step::Push);
        }
        if !state.has(PeerState::PUSH_SENT) {
            self.discovered(peer);
        }
        None
    }

    /// Notes the ping of a peer.
    pub(crate) fn ping_sent(&mut self, peer: PeerId, md: MdId) {
        let Some(found) = self.peer_mut(peer) else { return };
        found.state.remove(PeerState::FORCE_PING);
        found.state.remove(PeerState::NIDS_UPTODATE);
        found.state.insert(PeerState::PING_SENT);
        found.ping = Some(md);
    }

    /// Notes the push to a peer.
    pub(crate) fn push_sent(&mut self, peer: PeerId, md: MdId) {
        let Some(found) = self.peer_mut(peer) else { return };
        found.state.remove(PeerState::FORCE_PUSH);
        found.state.insert(PeerState::PUSH_SENT);
        found.push = Some(md);
    }

    fn is_push_due(&self, peer: &Peer) -> bool {
        let state = peer.state;
        let outdated = self.own.discovers
            && !state.has(PeerState::NO_DISCOVERY)
            && peer.pushed < self.own.sequence;
        state.has(PeerState::MULTI_RAIL)
            && !state.has(PeerState::PUSH_SENT)
            && (outdated || state.has(PeerState::FORCE_PUSH))
    }

    /// Queues every peer that does not know our latest change.
    pub(crate) fn push_where_due(&mut self) {
        let due = |id: &PeerId| self.peer(*id).is_some_and(|peer| self.is_push_due(peer));
        for peer in self.ids().filter(due).collect::<Vec<_>>() {
            self.queue(peer);
        }
    }

    /// Queues a push to every multi-rail peer, whatever it has acknowledged.
    pub(crate) fn force_push(&mut self) {
        for id in self.ids() {
            if let Some(found) = self.peer_mut(id).filter(|peer| peer.has(PeerState::MULTI_RAIL)) {
                found.state.insert(PeerState::FORCE_PUSH);
                self.queue(id);
            }
        }
    }

    /// Handles the end of the ping of a peer, and returns ping info that is whole.
    pub(crate) fn ping_ended(
        &mut self,
        now: Time,
        peer: PeerId,
        md: MdId,
        answer: Answer<'_>,
    ) -> Option<DecodedInfo> {
        let found = self.peer_mut(peer).filter(|found| found.ping == Some(md))?;
        found.ping = None;
        found.state.remove(PeerState::PING_SENT);
        // A push that came meanwhile has brought what the ping was to bring.
        let known = found.state.has(PeerState::NIDS_UPTODATE);
        match answer {
            Ok((pair, bytes)) => return self.ping_answered(now, peer, pair, bytes),
            Err(errno) => {
                self.outputs.push_back(Output::Unlink(md));
                match errno {
                    Some(errno) if !known => self.failed(peer, errno),
                    _ => self.queue(peer),
                }
            }
        }
        None
    }

    fn ping_answered(
        &mut self,
        now: Time,
        peer: PeerId,
        pair: (Nid, Nid),
        bytes: &[u8],
    ) -> Option<DecodedInfo> {
        let (_, from) = pair;
        let Ok(decoded) = PingInfo::decode(bytes) else {
            self.bad_info(now, peer, from, "it does not decode");
            return None;
        };
        let found = self.peer_mut(peer)?;
        if decoded.size as usize > bytes.len() {
            let grew = decoded.size > found.info_size.max(PingInfo::SIZE_MIN);
            found.info_size = found.info_size.max(decoded.size);
            if !grew || found.bad_infos >= BAD_INFOS_MAX {
                self.bad_info(now, peer, from, "it is cut off");
            } else {
                found.bad_infos += 1;
                self.queue(peer);
            }
            return None;
        }
        found.bad_infos = 0;
        found.pair = Some(pair);
        Some(decoded)
    }

    /// Requests ping info again after a pause, a few times.
    fn bad_info(&mut self, now: Time, peer: PeerId, from: Nid, reason: &'static str) {
        self.outputs.push_back(Output::Notice(Notice::BadPingInfo { from, reason }));
        let Some(found) = self.peer_mut(peer) else { return };
        found.bad_infos += 1;
        if found.bad_infos > BAD_INFOS_MAX {
            found.bad_infos = 0;
            return self.failed(peer, Errno::EPROTO);
        }
        self.discovery.retries.set(peer, now + RETRY_DELAY);
    }

    /// Handles the end of the push to a peer of our ping info with this sequence number.
    pub(crate) fn push_ended(
        &mut self,
        peer: PeerId,
        md: MdId,
        sequence: u32,
        result: Result<(), Errno>,
    ) {
        let Some(found) = self.peer_mut(peer).filter(|found| found.push == Some(md)) else {
            return;
        };
        found.push = None;
        found.state.remove(PeerState::PUSH_SENT);
        match result {
            Ok(()) => {
                found.pushed = sequence;
                self.outputs.push_back(Output::Advance(peer));
            }
            Err(errno) => {
                self.outputs.push_back(Output::Unlink(md));
                self.failed(peer, errno);
            }
        }
    }

    /// Handles a push whose ping info cannot be used: the peer is pinged instead.
    pub(crate) fn bad_push(&mut self, peer: PeerId, from: Nid, reason: &'static str) {
        self.outputs.push_back(Output::Notice(Notice::BadPingInfo { from, reason }));
        if let Some(found) = self.peer_mut(peer) {
            found.state.remove(PeerState::NIDS_UPTODATE);
        }
        self.queue(peer);
    }

    fn discovered(&mut self, peer: PeerId) {
        self.discovery.active.remove(&peer);
        let nids = self.nids_of(peer);
        let Some(found) = self.peer_mut(peer) else { return };
        let first = !found.state.has(PeerState::DISCOVERED);
        found.state.remove(PeerState::DISCOVERING);
        found.state.remove(PeerState::REDISCOVER);
        found.state.insert(PeerState::DISCOVERED);
        let primary = found.primary;
        let multi_rail = found.state.has(PeerState::MULTI_RAIL);
        let parked = std::mem::take(&mut found.parked);
        let queries = std::mem::take(&mut found.queries);
        if first {
            let notice = Notice::Discovered { primary, nids: nids.len() };
            self.outputs.push_back(Output::Notice(notice));
        }
        self.outputs.extend(parked.into_iter().map(Output::Launch));
        self.answer_claimants(peer);
        for query in queries {
            let nids = nids.clone();
            let result = Ok(PingReply { primary, multi_rail, pid: Pid::LUSTRE, nids });
            self.outputs.push_back(Output::Answer(query, result));
        }
    }

    /// Ends the discovery of a peer with an error. The next message to it begins another.
    pub(crate) fn failed(&mut self, peer: PeerId, errno: Errno) {
        if !self.discovery.active.remove(&peer) {
            return;
        }
        self.discovery.retries.clear(peer);
        let Some(found) = self.peer_mut(peer) else { return };
        found.state.remove(PeerState::DISCOVERING);
        found.state.remove(PeerState::FORCE_PING);
        found.state.insert(PeerState::REDISCOVER);
        let parked = std::mem::take(&mut found.parked);
        let queries = std::mem::take(&mut found.queries);
        let (primary, only_claimed) = (found.primary, found.only_claimed);
        self.outputs.push_back(Output::Failed(peer, errno));
        if !only_claimed {
            let notice = Notice::DiscoveryFailed { peer: primary, errno };
            self.outputs.push_back(Output::Notice(notice));
        }
        let forgotten = only_claimed && parked.is_empty() && queries.is_empty();
        self.outputs.extend(parked.into_iter().map(|message| Output::Fail(message, errno)));
        self.outputs.extend(queries.into_iter().map(|query| Output::Answer(query, Err(errno))));
        if forgotten { self.delete(peer) } else { self.answer_claimants(peer) }
    }

    /// Removes a peer from discovery for good.
    pub(super) fn leave_discovery(&mut self, peer: PeerId) {
        self.discovery.active.remove(&peer);
        self.discovery.retries.clear(peer);
        self.discovery.claims.clear(peer);
        self.late_pushes.clear(peer);
    }
}
