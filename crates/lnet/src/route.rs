//! Routes: which networks are behind which gateways. Spec: lnet-behaviour §8.1 to §8.3.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fulmar_base::{Errno, Time};
use fulmar_lnet_wire::selftest::Histogram;
use fulmar_lnet_wire::{Net, Nid};

use crate::Lnet;
use crate::health::Target;
use crate::machine::Work;
use crate::peer::{PeerId, PeerNi, PeerNiId};
use crate::routing::RouteConfig;
use crate::select::best;
use crate::views;

/// A route; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteId(u64);

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: RouteConfig,
    /// When it was last chosen; lower is longer ago.
    stamp: u64,
    messages: u64,
    latency: Histogram,
}

/// Routes that were never used have stamps below this.
const FIRST_STAMPS: u64 = 1 << 16;

/// All routes, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    routes: BTreeMap<RouteId, Route>,
    /// Those to each network, in the same order: every message asks, and routes may be thousands.
    by_net: BTreeMap<Net, Vec<RouteId>>,
    next: u64,
    /// Counts uses.
    uses: u64,
}

impl Routes {
    /// Returns whether a route leads to `net`.
    pub(crate) fn lead_to(&self, net: Net) -> bool {
        self.by_net.contains_key(&net)
    }

    /// Returns the routes that lead to `net`.
    fn to(&self, net: Net) -> impl Iterator<Item = (RouteId, &Route)> {
        let ids = self.by_net.get(&net).into_iter().flatten();
        ids.map(|id| (*id, &self.routes[id]))
    }

    fn add(&mut self, config: RouteConfig, stamp: u64) -> RouteId {
        self.next += 1;
        let id = RouteId(self.next);
        let new = Route { config, stamp, messages: 0, latency: Histogram::default() };
        self.routes.insert(id, new);
        self.by_net.entry(config.net).or_default().push(id);
        id
    }

    fn remove(&mut self, id: RouteId) {
        let Some(Route { config: RouteConfig { net, .. }, .. }) = self.routes.remove(&id) else {
            return;
        };
        let Some(of_net) = self.by_net.get_mut(&net) else { return };
        of_net.retain(|other| *other != id);
        if of_net.is_empty() {
            self.by_net.remove(&net);
        }
    }

    /// Checks that the routes to each network are those that say so.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut walked: BTreeMap<Net, Vec<RouteId>> = BTreeMap::new();
        for (id, route) in &self.routes {
            walked.entry(route.config.net).or_default().push(*id);
        }
        match walked == self.by_net {
            true => Ok(()),
            false => Err(format!("routes by network: {:?}, there are {walked:?}", self.by_net)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RouteId, &RouteConfig)> {
        self.routes.iter().map(|(id, route)| (*id, &route.config))
    }

    /// Counts a message that went by a route.
    pub(crate) fn count(&mut self, id: Option<RouteId>) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            route.messages += 1;
        }
    }

    /// Counts how long a response took to something that went by a route.
    pub(crate) fn record(&mut self, id: Option<RouteId>, nsec: u64) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            route.latency.record(nsec);
        }
    }

    /// Marks a route as the latest used.
    pub(crate) fn stamp(&mut self, id: Option<RouteId>) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            self.uses += 1;
            route.stamp = FIRST_STAMPS + self.uses;
        }
    }
}

/// A message's way over a gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detour {
    pub(crate) route: Option<RouteId>,
    /// The gateway's NID that is the next hop.
    pub(crate) next_hop: PeerNiId,
}

impl Lnet {
    /// Adds a route. Its gateway is checked at once.
    ///
    /// # Errors
    /// EINVAL if the network or the gateway is a wildcard, `0@lo`, or they are of one network, or
    /// the hops are not 1 to 255; EEXIST if the network is ours, or the route exists; EHOSTUNREACH
    /// if the gateway is on none of our networks; EPERM if the gateway is one of our own NIDs.
    pub fn route_add(&mut self, now: Time, route: RouteConfig) -> Result<(), Errno> {
        let RouteConfig { net, gateway, hops, .. } = route;
        let senseless = gateway.is_any() || gateway.is_loopback() || gateway.net() == net;
        let no_net = net == Net::ANY || net == Net::LOOPBACK;
        if senseless || no_net || hops.is_some_and(|hops| !(1..=255).contains(&hops)) {
            return Err(Errno::EINVAL);
        }
        if self.ni_of(gateway).is_some() {
            return Err(Errno::EPERM);
        }
        if self.is_local(net) {
            return Err(Errno::EEXIST);
        }
        if !self.is_local(gateway.net()) {
            return Err(Errno::EHOSTUNREACH);
        }
        let known = self.peers.owner(gateway);
        let same =
            |other: Nid| other == gateway || (known.is_some() && self.peers.owner(other) == known);
        if self.routes.to(net).any(|(_, other)| same(other.config.gateway)) {
            return Err(Errno::EEXIST);
        }
        // Nodes that start together must not all begin with the same gateway.
        let stamp = self.rng.below(FIRST_STAMPS);
        self.routes.add(route, stamp);
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
        let gone: Vec<RouteId> =
            self.routes.iter().filter(|(_, route)| meant(route)).map(|(id, _)| id).collect();
        if gone.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.remove_routes(&gone);
        self.settle(now);
        Ok(())
    }

    pub(crate) fn remove_routes(&mut self, gone: &[RouteId]) {
        for id in gone {
            self.routes.remove(*id);
        }
        self.work.push_back(Work::Gateways);
    }

    /// Returns the routes in the order in which they were added.
    pub fn routes(&self) -> Vec<views::Route> {
        let view = |route: &Route| {
            let RouteConfig { net, gateway, hops, priority } = route.config;
            let peer = self.peers.owner(gateway);
            views::Route {
                net,
                gateway,
                hops,
                priority,
                up: self.is_usable(&route.config),
                single_hop: hops.is_none_or(|hops| hops == 1)
                    && peer.and_then(|peer| self.gateway_has(peer, net)).is_some(),
                messages: route.messages,
                latency: route.latency.clone(),
            }
        };
        self.routes.routes.values().map(view).collect()
    }

    /// Returns whether a route would carry messages now. Spec: lnet-behaviour §8.2.
    pub(crate) fn is_usable(&self, route: &RouteConfig) -> bool {
        let Some(id) = self.peers.owner(route.gateway) else { return false };
        let Some(peer) = self.peers.peer(id) else { return false };
        let Some(gateway) = peer.gateway.as_ref().filter(|gateway| gateway.alive) else {
            return false;
        };
        if gateway.refuses {
            return false;
        }
        let up_here = peer.nis.iter().filter_map(|ni| self.peers.ni(*ni)).any(|ni| {
            self.is_local(ni.nid.net()) && ni.status == fulmar_lnet_wire::ping::NiStatus::UP
        });
        let behind = self.gateway_has(id, route.net);
        let up_there = match route.hops {
            _ if !self.router.config.avoid_asym_router_failure => true,
            // Nothing is known of it yet.
            _ if !gateway.described => true,
            Some(1) => behind == Some(true),
            // It is not known what lies behind the next hop.
            _ => behind != Some(false),
        };
        up_here && up_there
    }

    /// Finds the best way to `net` by a gateway on the network `from`, or on any of ours. `target`
    /// is the NID that the message is for. Spec: lnet-behaviour §8.3.
    pub(crate) fn detour(
        &self,
        now: Time,
        net: Net,
        from: Option<Net>,
        target: Nid,
    ) -> Option<Detour> {
        let candidates = self.routes.to(net).filter_map(|(id, route)| {
            if !self.is_usable(&route.config) {
                return None;
            }
            let peer = self.peers.owner(route.config.gateway)?;
            let next_hop = self.best_gateway_ni(now, peer, from)?;
            Some((Detour { route: Some(id), next_hop }, route, self.peers.ni(next_hop)?))
        });
        let target = self.peers.find(target).and_then(|id| self.peers.ni(id));
        let preferred = target.map_or(&[][..], |target| &target.policy.gateways);
        let key = |(detour, route, ni): &(Detour, &Route, &PeerNi)| {
            let gateway = self.peers.peer(ni.peer);
            (
                !gateway.is_some_and(|peer| preferred.contains(&peer.primary)),
                route.config.priority,
                route.config.hops.unwrap_or(1),
                Reverse(self.health.value(Target::PeerNi(detour.next_hop))),
                self.credits.queued_bytes(detour.next_hop),
                Reverse(self.credits.left_of_peer_ni(detour.next_hop)),
                route.stamp,
            )
        };
        best(candidates, key).map(|(detour, ..)| detour)
    }

    /// Returns the NID of a gateway that is the next hop, on `from` or on any of our networks.
    fn best_gateway_ni(&self, now: Time, peer: PeerId, from: Option<Net>) -> Option<PeerNiId> {
        let nis = self.peers.peer(peer)?.nis.iter().copied();
        let near = nis.filter(|id| {
            let net = self.peer_net(*id);
            from.map_or_else(|| self.is_local(net), |from| from == net)
        });
        best(near, |id| self.peer_ni_key(now, *id, None))
    }

    /// Returns the route by which a gateway leads to `net`, if there is one.
    pub(crate) fn route_by(&self, peer: PeerId, net: Net) -> Option<RouteId> {
        let by = |route: &Route| self.peers.owner(route.config.gateway) == Some(peer);
        self.routes.to(net).find(|(_, route)| by(route)).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;

    use super::*;

    #[test]
    fn the_routes_to_a_network_are_those_of_a_walk_whatever_comes_and_goes() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut routes, mut known) = (Routes::default(), Vec::new());
            for step in 0..300 {
                if known.is_empty() || rng.below(5) < 3 {
                    let net = Net(Net::TCP.0 + 1 + rng.below(6) as u32);
                    let gateway = Nid::small(Net::TCP, rng.below(9) as u32);
                    let config = RouteConfig { net, gateway, hops: None, priority: 0 };
                    known.push(routes.add(config, step));
                } else {
                    let id = known.swap_remove(rng.below(known.len() as u64) as usize);
                    routes.remove(id);
                    // One that is gone already is nothing to remove.
                    routes.remove(id);
                }
                routes.check().unwrap();
                assert_eq!(routes.is_empty(), known.is_empty());
                for net in (0..8).map(|n| Net(Net::TCP.0 + n)) {
                    let walk = routes.iter().filter(|(_, route)| route.net == net);
                    let walk: Vec<RouteId> = walk.map(|(id, _)| id).collect();
                    assert_eq!(routes.to(net).map(|(id, _)| id).collect::<Vec<_>>(), walk);
                    assert_eq!(routes.lead_to(net), !walk.is_empty(), "seed {seed}, step {step}");
                }
            }
        }
    }
}
