//! Peers that an administrator adds and deletes. Spec: lnet-behaviour §2.5, §9.4.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;

use super::{PeerId, PeerState, Peers};

impl Peers {
    /// Adds a peer, or NIDs to a peer that has this primary NID.
    ///
    /// # Errors
    /// EEXIST if another configured peer has a NID; EPERM if the peer is configured
    /// otherwise as to multi-rail.
    pub(crate) fn configure(
        &mut self,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), Errno> {
        let known = self.owner(primary).and_then(|id| Some((id, self.peer(id)?)));
        if let Some((_, peer)) = known.filter(|(_, peer)| peer.has(PeerState::CONFIGURED)) {
            if peer.primary != primary {
                return Err(Errno::EEXIST);
            }
            if peer.has(PeerState::MULTI_RAIL) != multi_rail {
                return Err(Errno::EPERM);
            }
        }
        let own = known.map(|(id, _)| id);
        if self.is_taken(primary, own) || nids.iter().any(|nid| self.is_taken(*nid, own)) {
            return Err(Errno::EEXIST);
        }
        let peer = own.unwrap_or_else(|| self.create(primary));
        if let Some(found) = self.peer_mut(peer) {
            found.primary = primary;
            found.state.insert(PeerState::CONFIGURED);
            found.state.set(PeerState::MULTI_RAIL, multi_rail);
        }
        for nid in nids {
            let owner = self.owner(*nid);
            self.add_nid(peer, *nid);
            if let Some(owner) = owner.filter(|owner| self.nids_of(*owner).is_empty()) {
                self.delete(owner);
            }
        }
        Ok(())
    }

    /// Deletes NIDs of a peer, or all of it if its primary NID is among them or none is given.
    ///
    /// # Errors
    /// ENOENT if no peer has this primary NID, or it has not these NIDs.
    pub(crate) fn deconfigure(&mut self, primary: Nid, nids: &[Nid]) -> Result<(), Errno> {
        let peer = self.owner(primary).ok_or(Errno::ENOENT)?;
        let is_primary = self.peer(peer).is_some_and(|peer| peer.primary == primary);
        if !is_primary || !nids.iter().all(|nid| self.owner(*nid) == Some(peer)) {
            return Err(Errno::ENOENT);
        }
        if nids.is_empty() || nids.contains(&primary) {
            self.delete(peer);
        } else {
            for nid in nids {
                self.remove_nid(*nid);
            }
        }
        Ok(())
    }

    /// Returns whether a NID belongs to a configured peer other than `own`.
    fn is_taken(&self, nid: Nid, own: Option<PeerId>) -> bool {
        let owner = self.owner(nid);
        owner.is_some_and(|id| Some(id) != own && self.has(id, PeerState::CONFIGURED))
    }

    /// Sets the state bits of a peer. What is under way stays so: its end is waited for.
    pub(crate) fn set_state(&mut self, peer: PeerId, state: u32) {
        if let Some(found) = self.peer_mut(peer) {
            let busy = PeerState::DISCOVERING.0 | PeerState::PING_SENT.0 | PeerState::PUSH_SENT.0;
            found.state = PeerState((state & !busy) | (found.state.0 & busy));
        }
    }
}
