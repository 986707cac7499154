//! What ping info changes in the peer table. Spec: lnet-behaviour §9.5.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::ping::{DecodedInfo, Features, NiStatus, PingInfo};
use fulmar_lnet_wire::{Net, Nid};

use super::{Output, Peer, PeerId, PeerNiId, PeerState, Peers};

/// What ping info is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surroundings<'a> {
    /// The NIDs of this node.
    pub(crate) ours: &'a [Nid],
    /// The networks that this node reaches by the peer.
    pub(crate) behind: &'a [Net],
    /// The peers that are gateways.
    pub(crate) gateways: &'a [PeerId],
}

/// How many of the NIDs that a peer lists are used, unless it is configured. Each costs memory, and
/// time in each push.
const LISTED_MAX: usize = 256;

impl Peers {
    /// Uses the ping info that `peer` has sent from its NID `from`, and returns the peer that it
    /// turns out to be.
    pub(crate) fn merge(
        &mut self,
        now: Time,
        peer: PeerId,
        from: Nid,
        decoded: &DecodedInfo,
        known: Surroundings<'_>,
    ) -> PeerId {
        let Surroundings { ours, behind, .. } = known;
        let (info, size) = (&decoded.info, decoded.size);
        let discovers = self.own.discovers && info.features.has(Features::DISCOVERY);
        let multi_rail = discovers && info.features.has(Features::MULTI_RAIL);
        let primary = info.primary().filter(|nid| multi_rail && self.may_be_of(peer, *nid, ours));
        let peer = primary.map_or(peer, |primary| self.record_of(peer, from, primary, behind));
        let Some(found) = self.peer_mut(peer) else { return peer };
        found.state.set(PeerState::NO_DISCOVERY, !discovers);
        let routes = !info.features.has(Features::RTE_DISABLED);
        found.state.set(PeerState::ROUTER_ENABLED, routes);
        found.state.insert(PeerState::NIDS_UPTODATE);
        found.sequence = info.sequence;
        found.info_size = found.info_size.max(size);
        let configured = found.state.has(PeerState::CONFIGURED);
        let was_multi_rail = found.state.has(PeerState::MULTI_RAIL);
        if !multi_rail {
            if was_multi_rail && !configured {
                self.split(peer);
            }
            return peer;
        }
        if configured && !was_multi_rail {
            return peer;
        }
        if !was_multi_rail {
            self.become_multi_rail(peer);
        }
        let Some(primary) = primary else { return peer };
        let (peer, confirmed) = self.take_primary(now, peer, from, primary, behind);
        if confirmed {
            self.adopt(peer, from, info, known);
            self.verified_behind(peer, behind);
        }
        peer
    }

    /// Applies the states of a peer's interfaces, and returns those that are new, with whether the
    /// interface is up.
    pub(crate) fn note_statuses(&mut self, peer: PeerId, info: &PingInfo) -> Vec<(PeerNiId, bool)> {
        let mut changed = Vec::new();
        for entry in &info.entries {
            let Some(id) = self.find(entry.nid) else { continue };
            let Some(ni) = self.ni_mut(id).filter(|ni| ni.peer == peer) else { continue };
            let (before, up) = (ni.is_up(), entry.status == NiStatus::UP);
            (ni.status, ni.reported_down) = (entry.status, !up);
            if before != up {
                changed.push((id, up));
            }
        }
        changed
    }

    /// All NIDs of a multi-rail peer may be used from all of ours.
    fn become_multi_rail(&mut self, peer: PeerId) {
        let Some(found) = self.peer_mut(peer) else { return };
        found.state.insert(PeerState::MULTI_RAIL);
        for id in found.nis.clone() {
            if let Some(ni) = self.ni_mut(id) {
                ni.preferred = None;
            }
        }
    }

    /// A peer has stopped discovering: its other NIDs are peers of their own again.
    fn split(&mut self, peer: PeerId) {
        let nids = self.nids_of(peer);
        // The primary comes first, if it is among them; it may have gone with its network.
        let Some((kept, others)) = nids.split_first() else { return };
        let Some(found) = self.peer_mut(peer) else { return };
        found.state.remove(PeerState::MULTI_RAIL);
        found.primary = *kept;
        // What is left is a new record: should the peer return, it does not know this node.
        found.pushed = 0;
        for nid in others {
            self.create(*nid);
        }
    }

    /// Returns whether a NID may be one of a peer: it is none of ours.
    fn may_be_of(&self, peer: PeerId, nid: Nid, ours: &[Nid]) -> bool {
        let foreign = !ours.contains(&nid) || self.owner(nid) == Some(peer);
        foreign && !nid.is_any() && !nid.is_loopback()
    }

    /// Moves all that is known of `from`, and waits for it, to `into`.
    pub(super) fn absorb(&mut self, from: PeerId, into: PeerId) {
        for nid in self.nids_of(from) {
            self.add_nid(into, nid);
        }
        self.outputs.push_back(Output::Moved { from, into });
        let Some(gone) = self.take_out(from) else { return };
        let Some(found) = self.peer_mut(into) else { return };
        for state in [PeerState::NO_DISCOVERY, PeerState::ROUTER_ENABLED] {
            found.state.set(state, gone.state.has(state));
        }
        found.state.insert(PeerState::NIDS_UPTODATE);
        if !found.state.has(PeerState::CONFIGURED) {
            found.state.insert(PeerState::MULTI_RAIL);
        }
        found.only_claimed = false;
        found.claimants.extend(gone.claimants);
        found.sequence = gone.sequence;
        found.info_size = found.info_size.max(gone.info_size);
        found.pair = gone.pair.or(found.pair);
        let waits = !gone.parked.is_empty() || !gone.queries.is_empty();
        found.parked.extend(gone.parked);
        found.queries.extend(gone.queries);
        if waits {
            self.queue(into);
        }
        if !self.has(into, PeerState::DISCOVERING) {
            self.answer_claimants(into);
        }
    }

    /// Makes the NIDs of a peer those that it lists. The one that it sent from counts as listed,
    /// or messages to it would begin discovery without end.
    fn adopt(&mut self, peer: PeerId, from: Nid, info: &PingInfo, known: Surroundings<'_>) {
        let configured = self.has(peer, PeerState::CONFIGURED);
        if configured && !self.has(peer, PeerState::MULTI_RAIL) {
            return;
        }
        let most = if configured { self.own.max_nids } else { self.own.max_nids.min(LISTED_MAX) };
        let entries = info.entries.iter().take(most);
        let mut listed: BTreeSet<Nid> = entries.map(|entry| entry.nid).collect();
        if let Some(found) = self.peer_mut(peer) {
            found.listed = listed.iter().copied().collect();
        }
        listed.insert(from);
        for nid in self.nids_of(peer) {
            if !listed.contains(&nid) && !configured {
                self.remove_nid(nid);
            }
        }
        for nid in listed {
            let room = self.peer(peer).is_some_and(|peer| peer.nis.len() < self.own.max_nids);
            if room && self.may_be_of(peer, nid, known.ours) {
                self.claim(peer, nid, known.gateways);
            }
        }
        if self.nids_of(peer).is_empty() {
            self.delete(peer);
        }
    }

    /// Deletes a peer. What waited for its discovery is sent anew, and may make another record.
    pub(crate) fn delete(&mut self, peer: PeerId) {
        self.answer_claimants(peer);
        let Some(gone) = self.take_out(peer) else { return };
        self.outputs.extend(gone.parked.into_iter().map(Output::Launch));
        let cancelled = |query| Output::Answer(query, Err(Errno::ECANCELED));
        self.outputs.extend(gone.queries.into_iter().map(cancelled));
    }

    fn take_out(&mut self, peer: PeerId) -> Option<Peer> {
        self.leave_discovery(peer);
        let gone = self.remove(peer)?;
        self.outputs.push_back(Output::Removed(peer));
        self.outputs.extend([gone.ping, gone.push].into_iter().flatten().map(Output::Unlink));
        Some(gone)
    }
}
