//! Where the administrator's selection policies enter: what they say of an object is kept in it.
//! Spec: lnet-behaviour §12.2.

use std::collections::BTreeSet;

use fulmar_lnet_wire::Nid;

use super::Lnet;
use crate::peers::{Peer, PeerId, PeerNi, PeerNiId, Policy};

impl Lnet {
    /// Asks the policies about a NID of a peer that has just become known.
    pub(super) fn apply_policy(&mut self, nid: Nid) {
        if !self.udsp.is_empty()
            && let Some(id) = self.peers.find(nid)
        {
            self.ask_policy(id, &self.own_nids(), &self.gateway_nids());
        }
    }

    /// Policies, interfaces or gateways are others now: asks the policies about everything.
    pub(super) fn udsp_changed(&mut self) {
        for ni in &mut self.nis {
            ni.priority = self.udsp.ni_priority(ni.config.nid);
            ni.net_priority = self.udsp.net_priority(ni.config.nid.net());
        }
        let (ours, gateways) = (self.own_nids(), self.gateway_nids());
        let ids: Vec<PeerNiId> = self.peers.all_nis().map(|(id, _)| id).collect();
        for id in ids {
            self.ask_policy(id, &ours, &gateways);
        }
    }

    fn ask_policy(&mut self, id: PeerNiId, ours: &[Nid], gateways: &[Nid]) {
        let Some(nid) = self.peers.ni(id).map(PeerNi::nid) else { return };
        let policy = Policy {
            priority: self.udsp.peer_ni_priority(nid),
            net_priority: self.udsp.peer_net_priority(nid.net()),
            nids: self.udsp.preferred_nids(nid, ours),
            gateways: self.udsp.preferred_gateways(nid, gateways),
        };
        self.peers.set_policy(id, policy);
    }

    pub(super) fn own_nids(&self) -> Vec<Nid> {
        self.nis.iter().map(|ni| ni.config.nid).collect()
    }

    /// Routes are fewer than peers.
    fn gateway_nids(&self) -> Vec<Nid> {
        let gateways = self.routing.routes();
        let gateways = gateways.filter_map(|(_, route)| self.peers.owner(route.config().gateway));
        let gateways: BTreeSet<PeerId> = gateways.collect();
        let peers = gateways.into_iter().filter_map(|id| self.peers.peer(id));
        peers.map(Peer::primary).collect()
    }
}
