//! What ping info changes in the peer table. Spec: lnet-behaviour §9.5.

use std::collections::BTreeSet;

use fulmar_base::{Errno, Time};
use fulmar_lnd::FailureClass;
use fulmar_lnet_wire::Nid;
use fulmar_lnet_wire::ping::{Features, NiStatus, PingInfo};

use crate::Lnet;
use crate::api::Output;
use crate::machine::Work;
use crate::peer::{Peer, PeerId, PeerState};

impl Lnet {
    /// Uses what `peer` says of itself by its NID `from`, and returns the peer that it turns out
    /// to be.
    pub(crate) fn merge(
        &mut self,
        now: Time,
        peer: PeerId,
        from: Nid,
        info: &PingInfo,
        size: u32,
    ) -> PeerId {
        let peer = self.merge_nids(peer, from, info, size);
        // Only now is it known which NIDs are its own.
        self.note_statuses(now, peer, info);
        peer
    }

    fn merge_nids(&mut self, peer: PeerId, from: Nid, info: &PingInfo, size: u32) -> PeerId {
        let discovers = self.globals.discovery && info.features.has(Features::DISCOVERY);
        let multi_rail = discovers && info.features.has(Features::MULTI_RAIL);
        let Some(found) = self.peers.peer_mut(peer) else { return peer };
        found.state.set(PeerState::NO_DISCOVERY, !discovers);
        let routes = !info.features.has(Features::RTE_DISABLED);
        found.state.set(PeerState::ROUTER_ENABLED, routes);
        found.state.insert(PeerState::NIDS_UPTODATE);
        found.sequence = info.sequence;
        found.info_size = found.info_size.max(size);
        let configured = found.state.has(PeerState::CONFIGURED);
        let was_multi_rail = found.state.has(PeerState::MULTI_RAIL);
        self.gateway_described(peer, info);
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
        let Some(primary) = info.primary().filter(|nid| self.may_be_of(peer, *nid)) else {
            return peer;
        };
        let peer = self.rename(peer, primary);
        self.adopt(peer, from, info);
        peer
    }

    /// Takes what a peer says of its interfaces. One that goes down loses health once; one that
    /// was never heard of and is up has it all.
    fn note_statuses(&mut self, now: Time, peer: PeerId, info: &PingInfo) {
        let mut gone = BTreeSet::new();
        for entry in &info.entries {
            let Some(id) = self.peers.find(entry.nid) else { continue };
            if self.peers.owner(entry.nid) != Some(peer) {
                continue;
            }
            let Some(ni) = self.peers.ni_mut(id) else { continue };
            let (before, up) = (ni.is_up(), entry.status == NiStatus::UP);
            (ni.status, ni.told_down) = (entry.status, !up);
            if before && !up {
                self.lower_peer_ni(now, id, FailureClass::RemoteDropped);
                gone.insert(id);
            } else if !before && up {
                self.peer_ni_is_back(now, id);
            }
        }
        if !gone.is_empty() {
            self.leave(|path| gone.contains(&path.peer_ni));
        }
    }

    /// All NIDs of a multi-rail peer may be used from all of ours.
    fn become_multi_rail(&mut self, peer: PeerId) {
        let nids = self.peers.nids_of(peer);
        if let Some(found) = self.peers.peer_mut(peer) {
            found.state.insert(PeerState::MULTI_RAIL);
        }
        for nid in nids {
            if let Some(ni) = self.peers.find_mut(nid) {
                ni.preferred = None;
            }
        }
    }

    /// A peer has stopped discovering: its other NIDs are peers of their own again.
    fn split(&mut self, peer: PeerId) {
        let nids = self.peers.nids_of(peer);
        // The primary comes first, if it is among them; it may have gone with its network.
        let Some((kept, others)) = nids.split_first() else { return };
        let Some(found) = self.peers.peer_mut(peer) else { return };
        found.state.remove(PeerState::MULTI_RAIL);
        found.primary = *kept;
        // What is left is a new record: should the peer return, it has not heard of us.
        found.pushed = 0;
        for nid in others {
            self.create_peer(*nid);
        }
    }

    /// Returns whether a peer may call a NID its own: not one that is ours.
    fn may_be_of(&self, peer: PeerId, nid: Nid) -> bool {
        let foreign = self.ni_of(nid).is_none() || self.peers.owner(nid) == Some(peer);
        foreign && !nid.is_any() && !nid.is_loopback()
    }

    /// Gives a peer the primary NID that it asks for. If another record has it, that one absorbs
    /// this one.
    fn rename(&mut self, peer: PeerId, primary: Nid) -> PeerId {
        let Some(found) = self.peers.peer(peer) else { return peer };
        if found.primary == primary || found.state.has(PeerState::CONFIGURED) {
            return peer;
        }
        match self.peers.owner(primary) {
            Some(other) if other != peer => {
                self.absorb(peer, other);
                other
            }
            _ => {
                if let Some(found) = self.peers.peer_mut(peer) {
                    found.primary = primary;
                }
                peer
            }
        }
    }

    /// Moves all that is known of `from`, and waits for it, to `into`.
    fn absorb(&mut self, from: PeerId, into: PeerId) {
        for nid in self.peers.nids_of(from) {
            self.give_nid(into, nid);
        }
        self.move_gateway(from, into);
        let Some(gone) = self.forget_peer(from) else { return };
        let Some(found) = self.peers.peer_mut(into) else { return };
        for state in [PeerState::NO_DISCOVERY, PeerState::ROUTER_ENABLED] {
            found.state.set(state, gone.state.has(state));
        }
        found.state.insert(PeerState::NIDS_UPTODATE);
        if !found.state.has(PeerState::CONFIGURED) {
            found.state.insert(PeerState::MULTI_RAIL);
        }
        found.sequence = gone.sequence;
        found.info_size = found.info_size.max(gone.info_size);
        found.pair = gone.pair.or(found.pair);
        let waits = !gone.parked.is_empty() || !gone.queries.is_empty();
        found.parked.extend(gone.parked);
        found.queries.extend(gone.queries);
        if waits {
            self.queue_discovery(into);
        }
    }

    /// Makes the NIDs of a peer those that it lists. The one that it spoke from counts as listed,
    /// or messages to it would begin discovery without end.
    fn adopt(&mut self, peer: PeerId, from: Nid, info: &PingInfo) {
        let configured = self.peer_has(peer, PeerState::CONFIGURED);
        if configured && !self.peer_has(peer, PeerState::MULTI_RAIL) {
            return;
        }
        let mut listed: BTreeSet<Nid> = info.entries.iter().map(|entry| entry.nid).collect();
        listed.insert(from);
        for nid in self.peers.nids_of(peer) {
            if !listed.contains(&nid) && !configured {
                self.remove_nid(nid);
            }
        }
        let max = self.globals.max_interfaces as usize;
        for nid in listed {
            let room = self.peers.peer(peer).is_some_and(|peer| peer.nis.len() < max);
            if room && self.may_be_of(peer, nid) {
                self.claim(peer, nid);
            }
        }
        if self.peers.nids_of(peer).is_empty() {
            self.delete_peer(peer);
        }
    }

    /// Gives a peer a NID that it lists, unless that is what another is known by.
    fn claim(&mut self, peer: PeerId, nid: Nid) {
        let owner = self.peers.owner(nid);
        if owner == Some(peer) || (owner.is_none() && self.peers.is_full()) {
            return;
        }
        if let Some(other) = owner.and_then(|owner| self.peers.peer(owner)) {
            let known = other.primary == nid && other.state.has(PeerState::MULTI_RAIL);
            if known || other.state.has(PeerState::CONFIGURED) {
                return;
            }
        }
        self.give_nid(peer, nid);
        if let Some(owner) = owner.filter(|owner| self.peers.nids_of(*owner).is_empty()) {
            // Whoever asked for a NID that has turned out to be this peer's asked for this peer.
            let queries = self.peers.peer_mut(owner).map(|gone| std::mem::take(&mut gone.queries));
            self.delete_peer(owner);
            let queries = queries.filter(|queries| !queries.is_empty());
            if let (Some(found), Some(queries)) = (self.peers.peer_mut(peer), queries) {
                found.queries.extend(queries);
                self.queue_discovery(peer);
            }
        }
    }

    /// Deletes a peer. What waited for its discovery is sent anew, and may make another record.
    pub(crate) fn delete_peer(&mut self, peer: PeerId) {
        let Some(gone) = self.forget_peer(peer) else { return };
        self.work.extend(gone.parked.into_iter().map(Work::Launch));
        for query in gone.queries {
            let result = Err(Errno::ECANCELED);
            self.outputs.push_back(Output::Discovered { query, result });
        }
    }

    fn forget_peer(&mut self, peer: PeerId) -> Option<Peer> {
        self.leave_discovery(peer);
        let gone = self.peers.remove(peer);
        self.follow_peers();
        let gone = gone?;
        if self.routing.forget_gateway(peer) {
            self.work.push_back(Work::Gateways);
        }
        for md in [gone.ping, gone.push].into_iter().flatten() {
            self.unlink(md);
        }
        Some(gone)
    }
}
