//! Which of our interfaces, and which of the peer's, carries a message.
//! Spec: lnet-behaviour §9.3, §10.1 to §10.6.

use std::cmp::Reverse;

use fulmar_base::Errno;
use fulmar_lnet_wire::{Body, Header, Net, Nid, RESERVED_PORTAL};

use crate::Lnet;
use crate::ni::NiId;
use crate::peer::{PeerId, PeerNiId, PeerState};

/// Where a message goes next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    Loopback,
    /// Nowhere before this peer is discovered.
    Discover(PeerId),
    Direct {
        ni: NiId,
        peer_ni: PeerNiId,
    },
}

/// What selection needs to know of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// An application's PUT or GET: discovery comes first, any NID of the peer will do.
    Request,
    /// Ping or push: goes to exactly this NID, discovered or not.
    Reserved,
    /// REPLY or ACK: the pair of NIDs is that of the request.
    Response,
}

fn class(body: &Body) -> Class {
    match *body {
        Body::Put { portal: RESERVED_PORTAL, .. } | Body::Get { portal: RESERVED_PORTAL, .. } => {
            Class::Reserved
        }
        Body::Put { .. } | Body::Get { .. } => Class::Request,
        Body::Ack { .. } | Body::Reply { .. } => Class::Response,
    }
}

impl Lnet {
    /// Chooses the path of a message to the NID in its header, from `source` if that is given.
    ///
    /// # Errors
    /// EINVAL if the given source is not ours; EHOSTUNREACH without a network in common, since
    /// there are no routes; ENOMEM if the peer table is full of strangers.
    pub(crate) fn select(&mut self, header: &Header, source: Option<Nid>) -> Result<Path, Errno> {
        let target = header.target;
        if target.is_loopback() {
            return Ok(Path::Loopback);
        }
        let class = class(&header.body);
        let given = match source {
            Some(nid) => Some(self.ni_of(nid).ok_or(Errno::EINVAL)?.id),
            None => None,
        };
        if source.is_some_and(|source| source.net() != target.net()) {
            return Err(Errno::EHOSTUNREACH);
        }
        if target.is_any() || !self.is_reachable(target) {
            return Err(Errno::EHOSTUNREACH);
        }
        let exact = self.peer_ni_for(target, class == Class::Response)?;
        let peer = self.peers.ni(exact).expect("the peer NI was found or made").peer;
        if class == Class::Request && !self.is_up_to_date(peer) {
            return Ok(Path::Discover(peer));
        }
        if let Some(ni) = given {
            return Ok(Path::Direct { ni, peer_ni: exact });
        }
        let multi_rail = self.peer_has(peer, PeerState::MULTI_RAIL);
        let peer_ni = match class == Class::Request && multi_rail {
            true => self.best_peer_ni(peer).ok_or(Errno::EHOSTUNREACH)?,
            false => exact,
        };
        let ni = match class == Class::Request && !multi_rail {
            true => self.preferred_ni(peer_ni),
            false => self.best_ni(self.peer_net(peer_ni)),
        };
        Ok(Path::Direct { ni: ni.ok_or(Errno::EHOSTUNREACH)?, peer_ni })
    }

    /// Marks the chosen interfaces as the latest used.
    pub(crate) fn stamp(&mut self, ni: NiId, peer_ni: PeerNiId) {
        self.stamps += 1;
        let stamp = self.stamps;
        if let Some(ni) = self.ni_mut(ni) {
            ni.stamp = stamp;
        }
        if let Some(peer_ni) = self.peers.ni_mut(peer_ni) {
            peer_ni.stamp = stamp;
        }
    }

    /// Returns the NID at which a peer can be pinged: its primary, if we are on its network.
    pub(crate) fn contact(&self, peer: PeerId) -> Option<Nid> {
        let nids = self.peers.nids_of(peer);
        nids.iter().find(|nid| self.is_local(nid.net())).or(nids.first()).copied()
    }

    /// Returns the NID of a peer that a message with a free choice goes to.
    pub(crate) fn best_nid(&self, peer: PeerId) -> Option<Nid> {
        self.peers.ni(self.best_peer_ni(peer)?).map(|ni| ni.nid)
    }

    fn is_reachable(&self, target: Nid) -> bool {
        if self.is_local(target.net()) {
            return true;
        }
        let Some(peer) = self.peers.owner(target) else { return false };
        self.peer_has(peer, PeerState::MULTI_RAIL)
            && self.peers.nids_of(peer).iter().any(|nid| self.is_local(nid.net()))
    }

    fn peer_ni_for(&mut self, nid: Nid, stranger: bool) -> Result<PeerNiId, Errno> {
        if let Some(found) = self.peers.find(nid) {
            return Ok(found);
        }
        if stranger && self.peers.is_full() {
            return Err(Errno::ENOMEM);
        }
        let credits = self.peer_credits(nid.net());
        self.peers.create(nid, credits);
        Ok(self.peers.find(nid).expect("the peer was made with this NID"))
    }

    fn peer_net(&self, peer_ni: PeerNiId) -> Net {
        self.peers.ni(peer_ni).map_or(Net::ANY, |ni| ni.nid.net())
    }

    /// Returns the interface on `net` with the most credits, of equals the least recently used.
    fn best_ni(&self, net: Net) -> Option<NiId> {
        let on_net = self.nis.iter().filter(|ni| ni.config.nid.net() == net);
        on_net.min_by_key(|ni| (Reverse(ni.credits.current), ni.stamp)).map(|ni| ni.id)
    }

    /// Returns the interface by which a peer without multi-rail knows us, from now on always.
    fn preferred_ni(&mut self, peer_ni: PeerNiId) -> Option<NiId> {
        let known = self.peers.ni(peer_ni)?.preferred;
        if let Some(ni) = known.and_then(|nid| self.ni_of(nid)) {
            return Some(ni.id);
        }
        let best = self.best_ni(self.peer_net(peer_ni))?;
        let nid = self.ni(best)?.config.nid;
        self.peers.ni_mut(peer_ni)?.preferred = Some(nid);
        Some(best)
    }

    fn best_peer_ni(&self, peer: PeerId) -> Option<PeerNiId> {
        let nis = self.peers.peer(peer)?.nis.iter();
        let local = nis.filter(|id| self.is_local(self.peer_net(**id)));
        local
            .min_by_key(|id| self.peers.ni(**id).map(|ni| (Reverse(ni.credits.current), ni.stamp)))
            .copied()
    }
}
