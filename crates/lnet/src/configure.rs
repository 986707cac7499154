//! Peers that an administrator adds and deletes. Spec: lnet-behaviour §2.5, §9.4.

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::Nid;

use crate::Lnet;
use crate::peer::{PeerId, PeerState};

impl Lnet {
    /// Adds a peer, or NIDs to a peer that has this primary NID. What is configured wins over
    /// what discovery finds.
    ///
    /// # Errors
    /// EINVAL if a NID is ours, `0@lo` or a wildcard; EEXIST if another configured peer has one;
    /// EPERM if the peer is configured the other way as to multi-rail.
    pub fn peer_add(
        &mut self,
        now: Time,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), Errno> {
        let all = || std::iter::once(&primary).chain(nids);
        let usable = |nid: &Nid| !nid.is_any() && !nid.is_loopback() && self.ni_of(*nid).is_none();
        if !all().all(usable) || (!multi_rail && nids.iter().any(|nid| *nid != primary)) {
            return Err(Errno::EINVAL);
        }
        let known = self.peers.owner(primary).and_then(|id| Some((id, self.peers.peer(id)?)));
        if let Some((_, peer)) = known.filter(|(_, peer)| peer.state.has(PeerState::CONFIGURED)) {
            if peer.primary != primary {
                return Err(Errno::EEXIST);
            }
            if peer.state.has(PeerState::MULTI_RAIL) != multi_rail {
                return Err(Errno::EPERM);
            }
        }
        let own = known.map(|(id, _)| id);
        if all().any(|nid| self.is_taken(*nid, own)) {
            return Err(Errno::EEXIST);
        }
        let peer = own.unwrap_or_else(|| self.create_peer(primary));
        if let Some(found) = self.peers.peer_mut(peer) {
            found.primary = primary;
            found.state.insert(PeerState::CONFIGURED);
            found.state.set(PeerState::MULTI_RAIL, multi_rail);
        }
        for nid in nids {
            let owner = self.peers.owner(*nid);
            self.give_nid(peer, *nid);
            if let Some(owner) = owner.filter(|owner| self.peers.nids_of(*owner).is_empty()) {
                self.delete_peer(owner);
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Deletes NIDs of a peer, or all of it if its primary NID is among them or none is given.
    ///
    /// # Errors
    /// ENOENT if no peer has this primary NID, or it has not these NIDs.
    pub fn peer_del(&mut self, now: Time, primary: Nid, nids: &[Nid]) -> Result<(), Errno> {
        let peer = self.peers.owner(primary).ok_or(Errno::ENOENT)?;
        let is_primary = self.peers.peer(peer).is_some_and(|peer| peer.primary == primary);
        let of_peer = |nid: &Nid| self.peers.owner(*nid) == Some(peer);
        if !is_primary || !nids.iter().all(of_peer) {
            return Err(Errno::ENOENT);
        }
        if nids.is_empty() || nids.contains(&primary) {
            self.delete_peer(peer);
        } else {
            for nid in nids {
                self.remove_nid(*nid);
            }
        }
        self.settle(now);
        Ok(())
    }

    /// Returns whether a NID belongs to a configured peer other than `own`.
    fn is_taken(&self, nid: Nid, own: Option<PeerId>) -> bool {
        let owner = self.peers.owner(nid);
        let configured = |id| self.peer_has(id, PeerState::CONFIGURED);
        owner.is_some_and(|id| Some(id) != own && configured(id))
    }
}
