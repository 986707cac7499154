//! Routes as administrators add them, and the choice of a gateway. Spec: lnet-behaviour §8.1 to §8.3.

use std::cmp::Reverse;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::{Net, Nid};

use super::Lnet;
use super::Work;
use super::select::best;
use crate::health::Target;
use crate::peers::{PeerId, PeerNi, PeerNiId};
use crate::routing::{FIRST_STAMPS, Route, RouteConfig, RouteId};
use crate::views;

/// The part of a path that leads over a gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detour {
    pub(super) route: Option<RouteId>,
    /// The gateway's NID that is the next hop.
    pub(super) next_hop: PeerNiId,
}

impl Lnet {
    /// Adds a route. Its gateway is checked at once.
    ///
    /// # Errors
    /// Those of [`RouteConfig::check`]; EEXIST if the route exists.
    pub fn route_add(&mut self, now: Time, route: RouteConfig) -> Result<(), Errno> {
        let RouteConfig { net, gateway, .. } = route;
        route.check(self.nis.iter().map(|ni| ni.config.nid))?;
        let known = self.peers.owner(gateway);
        let same =
            |other: Nid| other == gateway || (known.is_some() && self.peers.owner(other) == known);
        if self.routing.routes_to(net).any(|(_, other)| same(other.config().gateway)) {
            return Err(Errno::EEXIST);
        }
        // Nodes that start together must not all begin with the same gateway.
        let stamp = self.rng.below(FIRST_STAMPS);
        self.routing.add_route(route, stamp);
        self.settle_gateways(now);
        self.settle(now);
        Ok(())
    }

    /// Deletes the routes that lead to `net`, if that is given, by `gateway`, if that is.
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn route_del(
        &mut self,
        now: Time,
        net: Option<Net>,
        gateway: Option<Nid>,
    ) -> Result<(), Errno> {
        let meant = |route: &RouteConfig| {
            net.is_none_or(|net| route.net == net)
                && gateway.is_none_or(|nid| {
                    route.gateway == nid || self.peers.same_peer(nid, route.gateway)
                })
        };
        let gone = self.routing.routes().filter(|(_, route)| meant(route.config()));
        let gone: Vec<RouteId> = gone.map(|(id, _)| id).collect();
        if gone.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.remove_routes(&gone);
        self.settle(now);
        Ok(())
    }

    pub(super) fn remove_routes(&mut self, gone: &[RouteId]) {
        self.routing.remove_routes(gone);
        self.work.push_back(Work::Gateways);
    }

    /// Returns the routes in the order in which they were added.
    pub fn routes(&self) -> Vec<views::Route> {
        let view = |route: &Route| {
            let RouteConfig { net, gateway, hops, priority, health_sensitivity } = *route.config();
            let (messages, latency) = route.traffic();
            let peer = self.peers.owner(gateway);
            views::Route {
                net,
                gateway,
                hops,
                priority,
                health_sensitivity,
                up: self.is_usable(route.config()),
                single_hop: hops.is_none_or(|hops| hops == 1)
                    && peer.and_then(|peer| self.routing.gateway_has(peer, net)).is_some(),
                messages,
                latency: latency.into(),
            }
        };
        self.routing.routes().map(|(_, route)| view(route)).collect()
    }

    /// Returns whether a route would carry messages now. Spec: lnet-behaviour §8.2.
    pub(super) fn is_usable(&self, route: &RouteConfig) -> bool {
        let Some(id) = self.peers.owner(route.gateway) else { return false };
        let Some(peer) = self.peers.peer(id) else { return false };
        self.routing.may_use(route, id)
            && peer
                .nis()
                .iter()
                .filter_map(|ni| self.peers.ni(*ni))
                .any(|ni| self.is_local(ni.nid().net()) && ni.is_alive())
    }

    /// Finds the best gateway to `net`, on the network `from`, or on any of ours. `target`
    /// is the NID that the message is for. Spec: lnet-behaviour §8.3.
    pub(super) fn detour(
        &self,
        now: Time,
        net: Net,
        from: Option<Net>,
        target: Nid,
    ) -> Option<Detour> {
        let candidates = self.routing.routes_to(net).filter_map(|(id, route)| {
            if !self.is_usable(route.config()) {
                return None;
            }
            let peer = self.peers.owner(route.config().gateway)?;
            let next_hop = self.best_gateway_ni(now, peer, from)?;
            Some((Detour { route: Some(id), next_hop }, route, self.peers.ni(next_hop)?))
        });
        let target = self.peers.find(target).and_then(|id| self.peers.ni(id));
        let preferred = target.map_or(&[][..], |target| &target.policy().gateways);
        let key = |(detour, route, ni): &(Detour, &Route, &PeerNi)| {
            let gateway = self.peers.peer(ni.peer());
            (
                !gateway.is_some_and(|peer| preferred.contains(&peer.primary())),
                route.config().priority,
                route.config().hops.unwrap_or(1),
                Reverse(self.health.value(Target::PeerNi(detour.next_hop))),
                self.credits.queued_bytes(detour.next_hop),
                Reverse(self.credits.left_of_peer_ni(detour.next_hop)),
                route.stamp(),
            )
        };
        best(candidates, key).map(|(detour, ..)| detour)
    }

    /// Returns the NID of a gateway that is the next hop, on `from` or on any of our networks.
    fn best_gateway_ni(&self, now: Time, peer: PeerId, from: Option<Net>) -> Option<PeerNiId> {
        let nis = self.peers.peer(peer)?.nis().iter().copied();
        let near = nis.filter(|id| {
            let net = self.peer_net(*id);
            from.map_or_else(|| self.is_local(net), |from| from == net)
        });
        best(near, |id| self.peer_ni_key(now, *id, None))
    }

    /// Returns what a failure takes from the health of a gateway, if a route says so. Of several the
    /// last counts.
    pub(super) fn sensitivity_of_gateway(&self, peer: PeerId) -> Option<u32> {
        if !self.routing.is_gateway(peer) {
            return None;
        }
        let configs = self.routing.routes().map(|(_, route)| route.config());
        let by_it = configs.filter(|route| self.peers.owner(route.gateway) == Some(peer));
        by_it.filter_map(|route| route.health_sensitivity).last()
    }

    /// Returns the networks that routes through a peer lead to.
    pub(super) fn nets_behind(&self, peer: PeerId) -> Vec<Net> {
        if !self.routing.is_gateway(peer) {
            return Vec::new();
        }
        let configs = self.routing.routes().map(|(_, route)| route.config());
        let by_it = configs.filter(|route| self.peers.owner(route.gateway) == Some(peer));
        by_it.map(|route| route.net).collect()
    }

    /// Returns the route by which a gateway leads to `net`, if there is one.
    pub(super) fn route_by(&self, peer: PeerId, net: Net) -> Option<RouteId> {
        let by = |route: &Route| self.peers.owner(route.config().gateway) == Some(peer);
        self.routing.routes_to(net).find(|(_, route)| by(route)).map(|(id, _)| id)
    }
}
