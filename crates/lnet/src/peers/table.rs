//! The table of peers and their NIDs.

use fulmar_base::Time;
use fulmar_lnet_wire::ping::NiStatus;
use fulmar_lnet_wire::{Net, Nid};

use crate::views;

use super::{Output, PEER_NIS_MAX, Peer, PeerId, PeerNi, PeerNiId, PeerState, Peers, Policy};

impl Peers {
    pub(crate) fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id.0).map(|peer| &**peer)
    }

    pub(super) fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(id.0).map(|peer| &mut **peer)
    }

    pub(crate) fn ni(&self, id: PeerNiId) -> Option<&PeerNi> {
        self.nis.get(id.0).map(|ni| &**ni)
    }

    pub(super) fn ni_mut(&mut self, id: PeerNiId) -> Option<&mut PeerNi> {
        self.nis.get_mut(id.0).map(|ni| &mut **ni)
    }

    pub(crate) fn find(&self, nid: Nid) -> Option<PeerNiId> {
        self.nids.get(&nid).copied()
    }

    /// Returns the peer that `nid` belongs to.
    pub(crate) fn owner(&self, nid: Nid) -> Option<PeerId> {
        Some(self.ni(self.find(nid)?)?.peer)
    }

    /// Returns the NID by which applications know the owner of `nid`.
    pub(crate) fn primary(&self, nid: Nid) -> Nid {
        self.owner(nid).and_then(|peer| self.peer(peer)).map_or(nid, |peer| peer.primary)
    }

    /// Returns whether both NIDs belong to one known node, and have said so.
    pub(crate) fn same_peer(&self, a: Nid, b: Nid) -> bool {
        let (Some(a), Some(b)) = (self.find(a), self.find(b)) else { return false };
        let owner = |id| self.ni(id).map(|ni| ni.peer);
        owner(a) == owner(b) && self.is_verified(a) && self.is_verified(b)
    }

    /// Returns whether a response from `source` may answer what went to `target`: `source` has named the
    /// peer that `target` was chosen for. `target` itself may have been listed by that peer only.
    pub(crate) fn may_answer(&self, target: Nid, source: Nid) -> bool {
        let (Some(target), Some(source)) = (self.find(target), self.find(source)) else {
            return false;
        };
        let owner = |id| self.ni(id).map(|ni| ni.peer);
        owner(target) == owner(source) && self.is_verified(source)
    }

    /// Returns whether other nodes have filled the table.
    pub(crate) fn is_full(&self) -> bool {
        self.nids.len() >= PEER_NIS_MAX || self.has_too_many_unknown()
    }

    /// Makes a peer of one NID that no peer has yet.
    pub(crate) fn create(&mut self, nid: Nid) -> PeerId {
        let id = PeerId(self.peer_names.make());
        self.peers.insert(id.0, Box::new(Peer::new(nid)));
        self.add_nid(id, nid);
        id
    }

    /// Gives `peer` a NID, which its present owner loses.
    pub(crate) fn add_nid(&mut self, peer: PeerId, nid: Nid) {
        if let Some(ni) = self.find(nid) {
            return self.move_ni(ni, peer);
        }
        let id = PeerNiId(self.ni_names.make());
        self.nids.insert(nid, id);
        self.nis.insert(id.0, Box::new(PeerNi::new(nid, peer)));
        self.peer_mut(peer).expect("the peer exists").nis.push(id);
        self.outputs.push_back(Output::Added(id, nid));
    }

    /// Moves a NID to another peer. An owner that is left without NIDs stays: the caller knows
    /// what becomes of its messages.
    fn move_ni(&mut self, id: PeerNiId, to: PeerId) {
        let Some(ni) = self.ni_mut(id) else { return };
        let from = std::mem::replace(&mut ni.peer, to);
        if from != to {
            ni.verified = false;
            if let Some(old) = self.peer_mut(from) {
                old.nis.retain(|other| *other != id);
            }
            self.peer_mut(to).expect("the peer exists").nis.push(id);
        }
    }

    /// Removes a NID from its peer. Messages that hold its credits keep it alive, but it is not seen.
    pub(crate) fn remove_nid(&mut self, nid: Nid) {
        let Some(id) = self.nids.remove(&nid) else { return };
        let ni = self.ni_mut(id).expect("an index names what exists");
        ni.retired = true;
        let peer = ni.peer;
        if let Some(peer) = self.peer_mut(peer) {
            peer.nis.retain(|other| *other != id);
        }
        self.launch_waiting(id);
        self.outputs.push_back(Output::Retired(id));
    }

    /// Returns whether anything follows from the inputs.
    #[inline]
    pub(crate) fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Returns the next thing that follows from the inputs.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns whether a peer NI is deleted.
    pub(crate) fn is_retired(&self, id: PeerNiId) -> bool {
        self.ni(id).is_some_and(|ni| ni.retired)
    }

    /// Forgets a deleted peer NI, once no message refers to it.
    pub(crate) fn forget(&mut self, id: PeerNiId) {
        assert!(self.is_retired(id), "only what is deleted is forgotten");
        self.nis.remove(id.0);
        self.ni_names.release(id.0);
    }

    /// Deletes a peer with its NIDs and returns what it was.
    pub(super) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        for nid in self.nids_of(id) {
            self.remove_nid(nid);
        }
        let gone = self.peers.remove(id.0)?;
        self.peer_names.release(id.0);
        Some(*gone)
    }

    /// Returns the NIDs of a peer, the primary first if it is one of them.
    pub(crate) fn nids_of(&self, id: PeerId) -> Vec<Nid> {
        let Some(peer) = self.peer(id) else { return Vec::new() };
        let nis = peer.nis.iter().filter_map(|ni| self.ni(*ni));
        let mut nids: Vec<Nid> = nis.map(|ni| ni.nid).collect();
        if let Some(index) = nids.iter().position(|nid| *nid == peer.primary) {
            nids[..=index].rotate_right(1);
        }
        nids
    }

    /// Returns the peer NIs on a network.
    pub(crate) fn on_net(&self, net: Net) -> impl Iterator<Item = PeerNiId> {
        let on_net = self.nids.iter().filter(move |(nid, _)| nid.net() == net);
        on_net.map(|(_, id)| *id)
    }

    /// A network is no longer local: its NIDs go, but for those of peers that are still reached.
    pub(crate) fn net_removed(&mut self, net: Net, local: &[Net]) {
        let gone: Vec<Nid> = self.nids.keys().copied().filter(|nid| nid.net() == net).collect();
        for nid in gone {
            let owner = self.owner(nid).expect("an indexed NID has an owner");
            let reachable = self.nids_of(owner).iter().any(|other| local.contains(&other.net()));
            self.remove_nid(nid);
            if reachable {
                self.add_nid(owner, nid);
            }
        }
    }

    /// Returns the peers that have no NID left.
    pub(crate) fn orphans(&self) -> Vec<PeerId> {
        let is_orphan = |id: &PeerId| self.peer(*id).is_some_and(|peer| peer.nis.is_empty());
        self.ids().filter(is_orphan).collect()
    }

    /// Returns the peers in the order in which they became known.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PeerId> + use<> {
        self.peers.names().into_iter().map(PeerId)
    }

    /// Returns every peer NI that exists, deleted ones with messages under way included.
    pub(crate) fn all_nis(&self) -> impl Iterator<Item = (PeerNiId, &PeerNi)> {
        self.nis.names().into_iter().filter_map(|id| Some((PeerNiId(id), self.ni(PeerNiId(id))?)))
    }

    /// Returns whether a peer exists and has this state.
    pub(crate) fn has(&self, peer: PeerId, state: PeerState) -> bool {
        self.peer(peer).is_some_and(|peer| peer.state.has(state))
    }

    /// Marks a peer NI as the latest used.
    pub(crate) fn stamp(&mut self, id: PeerNiId, stamp: u64) {
        if let Some(ni) = self.ni_mut(id) {
            ni.stamp = stamp;
        }
    }

    /// Notes the node's NID by which a peer without multi-rail knows it.
    pub(crate) fn prefer(&mut self, id: PeerNiId, nid: Nid) {
        if let Some(ni) = self.ni_mut(id) {
            ni.preferred = Some(nid);
        }
    }

    pub(crate) fn set_policy(&mut self, id: PeerNiId, policy: Policy) {
        if let Some(ni) = self.ni_mut(id) {
            ni.policy = policy;
        }
    }

    /// Something has come from a peer NI. A node that sends a request from a NID uses it, whatever
    /// it reported of it before; responses have no choice. Returns the peer.
    pub(crate) fn heard(&mut self, now: Time, id: PeerNiId, request: bool) -> Option<PeerId> {
        let ni = self.ni_mut(id)?;
        ni.used = Some(now);
        ni.status = NiStatus::UP;
        ni.reported_down &= !request;
        Some(ni.peer)
    }

    /// Notes whether the LND finds a path to a peer NI, and returns the peer.
    pub(crate) fn set_lost(&mut self, id: PeerNiId, lost: bool) -> Option<PeerId> {
        let ni = self.ni_mut(id)?;
        ni.lost = lost;
        Some(ni.peer)
    }

    /// Notes whether a peer NI lives.
    pub(crate) fn set_alive(&mut self, id: PeerNiId, alive: bool) {
        if let Some(ni) = self.ni_mut(id) {
            ni.status = if alive { NiStatus::UP } else { NiStatus::DOWN };
        }
    }

    /// Adds to what a peer NI has carried.
    pub(crate) fn count(&mut self, id: PeerNiId, add: impl FnOnce(&mut views::Traffic)) {
        if let Some(ni) = self.ni_mut(id) {
            add(&mut ni.traffic);
        }
    }

    /// Checks that the three tables agree.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (id, ni) in self.nis.iter() {
            let id = PeerNiId(id);
            let listed = self.peer(ni.peer).is_some_and(|peer| peer.nis.contains(&id));
            if listed == ni.retired || (self.find(ni.nid) == Some(id)) == ni.retired {
                return Err(format!("{:?} is half deleted", ni.nid));
            }
        }
        if self.nids.len() == self.nis.iter().filter(|(_, ni)| !ni.retired).count() {
            Ok(())
        } else {
            Err("the index of NIDs names what does not exist".into())
        }
    }
}
