//! Gateways: whether they live, and what they say of their networks. Spec: lnet-behaviour §8.8.

use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::ping::{Features, NiStatus, PingInfo};
use fulmar_lnet_wire::{Net, Nid};

use crate::Lnet;
use crate::machine::{Timer, Work};
use crate::notice::Notice;
use crate::peer::{PeerId, PeerNiId, PeerState};
use crate::route::RouteId;
use crate::views;

/// What is known of a peer as a gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// How many routes go through it.
    routes: u32,
    /// It answers.
    pub(crate) alive: bool,
    /// It says that it does not forward.
    pub(crate) refuses: bool,
    /// It has told of its networks at least once.
    pub(crate) described: bool,
    /// Its networks, and whether one of its interfaces there is up.
    nets: Vec<(Net, bool)>,
    /// Counts checks: each goes over the next of our common networks.
    checks: usize,
}

impl Gateway {
    fn new(alive: bool) -> Self {
        let nets = Vec::new();
        Self { routes: 0, alive, refuses: false, described: false, nets, checks: 0 }
    }
}

impl Lnet {
    /// Routes have changed, or a gateway has turned out to be another peer: sees to it that every
    /// route has its gateway, and nobody else is one.
    pub(crate) fn settle_gateways(&mut self, now: Time) {
        let routes: Vec<Nid> = self.routes.iter().map(|(_, route)| route.gateway).collect();
        let ids: Vec<PeerId> = self.peers.ids().collect();
        for id in &ids {
            if let Some(gateway) = self.gateway_mut(*id) {
                gateway.routes = 0;
            }
        }
        let alive = !self.router.config.check_routers_before_use;
        for nid in routes {
            let peer = self.peers.owner(nid).unwrap_or_else(|| self.create_peer(nid));
            let Some(found) = self.peers.peer_mut(peer) else { continue };
            let known = found.gateway.is_some();
            found.gateway.get_or_insert_with(|| Box::new(Gateway::new(alive))).routes += 1;
            if !known {
                self.check_gateway(now, peer);
            }
        }
        for id in ids {
            let Some(found) = self.peers.peer_mut(id) else { continue };
            if found.gateway.as_ref().is_some_and(|gateway| gateway.routes == 0) {
                found.gateway = None;
                self.timers.clear(Timer::CheckGateway(id));
            }
        }
        if !self.udsp.is_empty() {
            self.udsp_changed();
        }
    }

    /// A peer has turned out to be another: what is known of it as a gateway is of that one.
    pub(crate) fn move_gateway(&mut self, from: PeerId, into: PeerId) {
        let gone = self.peers.peer_mut(from).and_then(|peer| peer.gateway.take());
        let Some(gone) = gone else { return };
        let next = self.timers.get(Timer::CheckGateway(from));
        self.timers.clear(Timer::CheckGateway(from));
        let Some(found) = self.peers.peer_mut(into) else { return };
        if found.gateway.is_none() {
            found.gateway = Some(gone);
            if let Some(at) = next {
                self.timers.set(Timer::CheckGateway(into), at);
            }
        }
        self.work.push_back(Work::Gateways);
    }

    /// A network of ours is going: so do the routes whose gateways are on it.
    pub(crate) fn forget_gateways_on(&mut self, net: Net) {
        let gone = self.routes.iter().filter(|(_, route)| route.gateway.net() == net);
        let gone: Vec<RouteId> = gone.map(|(id, _)| id).collect();
        self.remove_routes(&gone);
    }

    /// Asks a gateway how it is, over the next of the networks that it shares with us.
    pub(crate) fn check_gateway(&mut self, now: Time, peer: PeerId) {
        let Some(gateway) = self.gateway_mut(peer) else { return };
        gateway.checks += 1;
        let interval = self.router.config.alive_router_check_interval;
        if interval > 0 {
            let pause = Duration::from_secs(interval.into());
            self.timers.set(Timer::CheckGateway(peer), now + pause);
        }
        if let Some(found) = self.peers.peer_mut(peer)
            && !found.state.has(PeerState::PING_SENT)
        {
            found.state.insert(PeerState::FORCE_PING);
        }
        self.queue_discovery(peer);
    }

    /// Returns the network over which a gateway is to be checked.
    pub(crate) fn check_net(&self, peer: PeerId) -> Option<Net> {
        let checks = self.peers.peer(peer)?.gateway.as_ref()?.checks;
        let mut shared: Vec<Net> = Vec::new();
        for nid in self.peers.nids_of(peer) {
            if self.is_local(nid.net()) && !shared.contains(&nid.net()) {
                shared.push(nid.net());
            }
        }
        shared.get(checks.checked_rem(shared.len())?).copied()
    }

    /// Takes what a gateway says of itself.
    pub(crate) fn gateway_described(&mut self, peer: PeerId, info: &PingInfo) {
        let refuses = info.features.has(Features::RTE_DISABLED);
        let mut nets: Vec<(Net, bool)> = Vec::new();
        for entry in &info.entries {
            let up = entry.status == NiStatus::UP;
            match nets.iter_mut().find(|(net, _)| *net == entry.nid.net()) {
                Some((_, any)) => *any |= up,
                None => nets.push((entry.nid.net(), up)),
            }
        }
        let Some(gateway) = self.gateway_mut(peer) else { return };
        gateway.refuses = refuses;
        gateway.nets = nets;
        gateway.described = true;
        self.gateway_alive(peer);
    }

    /// Returns whether an interface of a gateway on `net` is up; `None` if it has none, as far as
    /// it has told.
    pub(crate) fn gateway_has(&self, peer: PeerId, net: Net) -> Option<bool> {
        let gateway = self.peers.peer(peer)?.gateway.as_ref()?;
        gateway.nets.iter().find(|(other, _)| *other == net).map(|(_, up)| *up)
    }

    /// Something came from a gateway: it lives.
    pub(crate) fn gateway_alive(&mut self, peer: PeerId) {
        let Some(found) = self.peers.peer_mut(peer) else { return };
        let primary = found.primary;
        let Some(gateway) = &mut found.gateway else { return };
        if !std::mem::replace(&mut gateway.alive, true) {
            self.notice(Notice::GatewayUp { gateway: primary });
        }
    }

    /// A gateway has not answered: none of its interfaces is up, as far as we know.
    pub(crate) fn gateway_dead(&mut self, peer: PeerId) {
        let Some(found) = self.peers.peer_mut(peer) else { return };
        let (primary, nis) = (found.primary, found.nis.clone());
        let Some(gateway) = &mut found.gateway else { return };
        let news = std::mem::replace(&mut gateway.alive, false);
        for id in nis {
            if let Some(ni) = self.peers.ni_mut(id) {
                ni.status = NiStatus::DOWN;
            }
        }
        if news {
            self.notice(Notice::GatewayDown { gateway: primary });
        }
    }

    /// An LND finds no way to a NID of a gateway. Without any other it is dead.
    pub(crate) fn gateway_ni_lost(&mut self, peer: PeerId, ni: PeerNiId) {
        if !self.router.config.auto_down || self.gateway_mut(peer).is_none() {
            return;
        }
        if let Some(ni) = self.peers.ni_mut(ni) {
            ni.status = NiStatus::DOWN;
        }
        let nis = self.peers.peer(peer).map_or(&[][..], |peer| &peer.nis);
        let near = |id: &PeerNiId| self.is_local(self.peer_net(*id));
        let up = |id: &PeerNiId| self.peers.ni(*id).is_some_and(|ni| ni.status == NiStatus::UP);
        if !nis.iter().any(|id| near(id) && up(id)) {
            self.gateway_dead(peer);
        }
    }

    /// Returns the gateways of routes.
    pub fn routers(&self) -> Vec<views::Router> {
        let view = |id: PeerId| {
            let peer = self.peers.peer(id)?;
            let gateway = peer.gateway.as_ref()?;
            let users = peer.nis.iter().map(|ni| self.credits.peer_ni_level(*ni).users());
            let users: u64 = users.sum();
            Some(views::Router {
                nid: peer.primary,
                refs: 1 + gateway.routes + u32::try_from(users).unwrap_or(u32::MAX),
                routes: gateway.routes,
                alive: gateway.alive,
            })
        };
        self.peers.ids().filter_map(view).collect()
    }

    fn gateway_mut(&mut self, peer: PeerId) -> Option<&mut Gateway> {
        self.peers.peer_mut(peer)?.gateway.as_deref_mut()
    }
}
