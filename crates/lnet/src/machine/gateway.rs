//! Gateways: the peers that routes go through. Spec: lnet-behaviour §8.8.

use fulmar_base::Time;
use fulmar_lnet_wire::ping::{Features, NiStatus, PingInfo};
use fulmar_lnet_wire::{Net, Nid};

use super::Lnet;
use super::Work;
use crate::notice::Notice;
use crate::peers::{Peer, PeerId, PeerNi, PeerNiId};
use crate::routing::RouteId;
use crate::views;

impl Lnet {
    /// Routes have changed, or a gateway has turned out to be another peer: makes the gateways
    /// those of all routes.
    pub(super) fn settle_gateways(&mut self, now: Time) {
        let nids: Vec<Nid> =
            self.routing.routes().map(|(_, route)| route.config().gateway).collect();
        let owner = |nid| self.peers.owner(nid).unwrap_or_else(|| self.peers.create(nid));
        let peers: Vec<PeerId> = nids.into_iter().map(owner).collect();
        self.follow_peers(now);
        for peer in self.routing.settle_gateways(&peers) {
            self.check_gateway(now, peer);
        }
        if !self.udsp.is_empty() {
            self.udsp_changed();
        }
    }

    /// A peer has turned out to be another: what is known of it as a gateway is of that one.
    pub(super) fn move_gateway(&mut self, from: PeerId, into: PeerId) {
        if self.routing.move_gateway(from, into) {
            self.work.push_back(Work::Gateways);
        }
    }

    /// A network of ours is removed: so are the routes whose gateways are on it.
    pub(super) fn forget_gateways_on(&mut self, net: Net) {
        let gone = self.routing.routes().filter(|(_, route)| route.config().gateway.net() == net);
        let gone: Vec<RouteId> = gone.map(|(id, _)| id).collect();
        self.remove_routes(&gone);
    }

    /// Asks a gateway for its state, over the next of the networks that it shares with this node.
    pub(super) fn check_gateway(&mut self, now: Time, peer: PeerId) {
        if !self.routing.begin_check(now, peer) {
            return;
        }
        self.peers.force_ping(peer);
        self.peers.queue(peer);
        self.follow_peers(now);
    }

    /// Returns the network over which a gateway is to be checked.
    pub(super) fn check_net(&self, peer: PeerId) -> Option<Net> {
        if !self.routing.is_gateway(peer) {
            return None;
        }
        let mut shared: Vec<Net> = Vec::new();
        for nid in self.peers.nids_of(peer) {
            if self.is_local(nid.net()) && !shared.contains(&nid.net()) {
                shared.push(nid.net());
            }
        }
        self.routing.check_net(peer, &shared)
    }

    /// Uses what a gateway reports of itself.
    pub(super) fn gateway_described(&mut self, peer: PeerId, info: &PingInfo) {
        if !self.routing.is_gateway(peer) {
            return;
        }
        let refuses = info.features.has(Features::RTE_DISABLED);
        let mut nets: Vec<(Net, bool)> = Vec::new();
        for entry in &info.entries {
            let up = entry.status == NiStatus::UP;
            match nets.iter_mut().find(|(net, _)| *net == entry.nid.net()) {
                Some((_, any)) => *any |= up,
                None => nets.push((entry.nid.net(), up)),
            }
        }
        self.routing.describe(peer, refuses, nets);
        self.gateway_alive(peer);
    }

    /// Something came from a peer: if it is a gateway, it answers.
    pub(super) fn gateway_alive(&mut self, peer: PeerId) {
        if self.routing.set_alive(peer, true)
            && let Some(found) = self.peers.peer(peer)
        {
            let gateway = found.primary();
            self.notice(Notice::GatewayUp { gateway });
        }
    }

    /// A gateway has not answered: none of its interfaces is up, as far as is known.
    pub(super) fn gateway_dead(&mut self, peer: PeerId) {
        if !self.routing.is_gateway(peer) {
            return;
        }
        let Some(found) = self.peers.peer(peer) else { return };
        let (gateway, nis) = (found.primary(), found.nis().to_vec());
        for id in nis {
            self.peers.set_alive(id, false);
        }
        if self.routing.set_alive(peer, false) {
            self.notice(Notice::GatewayDown { gateway });
        }
    }

    /// An LND finds no path to a NID of a gateway. Without any other the gateway is dead.
    pub(super) fn gateway_ni_lost(&mut self, peer: PeerId, ni: PeerNiId) {
        if !self.routing.config().auto_down || !self.routing.is_gateway(peer) {
            return;
        }
        self.peers.set_alive(ni, false);
        let nis = self.peers.peer(peer).map_or(&[][..], Peer::nis);
        let near = |id: &PeerNiId| self.is_local(self.peer_net(*id));
        let up = |id: &PeerNiId| self.peers.ni(*id).is_some_and(PeerNi::is_alive);
        if !nis.iter().any(|id| near(id) && up(id)) {
            self.gateway_dead(peer);
        }
    }

    /// Returns the gateways of routes.
    pub fn routers(&self) -> Vec<views::Router> {
        let view = |id: PeerId| {
            let (routes, alive) = self.routing.gateway(id)?;
            let peer = self.peers.peer(id)?;
            let users = peer.nis().iter().map(|ni| self.credits.peer_ni_level(*ni).users());
            let users = u32::try_from(users.sum::<u64>()).unwrap_or(u32::MAX);
            Some(views::Router { nid: peer.primary(), refs: 1 + routes + users, routes, alive })
        };
        self.peers.ids().filter_map(view).collect()
    }
}
