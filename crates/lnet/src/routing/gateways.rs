//! Gateways: whether they answer, and the state of their networks. Spec: lnet-behaviour §8.8.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_lnet_wire::Net;

use crate::peers::PeerId;

use super::Routing;
use super::Timer;
use super::config::RouteConfig;

/// What is known of a peer as a gateway.
#[derive(Debug)]
pub(super) struct Gateway {
    /// How many routes go through it.
    routes: u32,
    /// It answers.
    alive: bool,
    /// It reports that it does not forward.
    refuses: bool,
    /// It has reported its networks at least once.
    described: bool,
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

impl Routing {
    /// Makes the gateways those of all routes, in the order of the routes. Returns those that were
    /// none before, which are to be checked.
    pub(crate) fn settle_gateways(&mut self, of_routes: &[PeerId]) -> Vec<PeerId> {
        for gateway in self.gateways.values_mut() {
            gateway.routes = 0;
        }
        let (mut fresh, alive) = (Vec::new(), !self.config.check_routers_before_use);
        for peer in of_routes {
            let gateway = self.gateways.entry(*peer).or_insert_with(|| {
                fresh.push(*peer);
                Gateway::new(alive)
            });
            gateway.routes += 1;
        }
        let used: BTreeSet<PeerId> = of_routes.iter().copied().collect();
        let unused = self.gateways.keys().copied().filter(|peer| !used.contains(peer));
        for peer in unused.collect::<Vec<_>>() {
            self.forget_gateway(peer);
        }
        fresh
    }

    /// A peer has turned out to be another: what is known of it as a gateway is of that one.
    /// Returns whether it is a gateway.
    pub(crate) fn move_gateway(&mut self, from: PeerId, into: PeerId) -> bool {
        let next = self.timers.get(Timer::CheckGateway(from));
        self.timers.clear(Timer::CheckGateway(from));
        let Some(moved) = self.gateways.remove(&from) else { return false };
        if let Entry::Vacant(free) = self.gateways.entry(into) {
            free.insert(moved);
            if let Some(at) = next {
                self.timers.set(Timer::CheckGateway(into), at);
            }
        }
        true
    }

    /// Forgets what is known of a peer as a gateway, and returns whether it is one.
    pub(crate) fn forget_gateway(&mut self, peer: PeerId) -> bool {
        self.timers.clear(Timer::CheckGateway(peer));
        self.gateways.remove(&peer).is_some()
    }

    /// Returns the peers that are gateways.
    pub(crate) fn gateways(&self) -> impl Iterator<Item = PeerId> {
        self.gateways.keys().copied()
    }

    pub(crate) fn is_gateway(&self, peer: PeerId) -> bool {
        self.gateways.contains_key(&peer)
    }

    /// Returns how many routes go through a gateway, and whether it answers.
    pub(crate) fn gateway(&self, peer: PeerId) -> Option<(u32, bool)> {
        self.gateways.get(&peer).map(|gateway| (gateway.routes, gateway.alive))
    }

    pub(crate) fn is_gateway_alive(&self, peer: PeerId) -> bool {
        self.gateways.get(&peer).is_some_and(|gateway| gateway.alive)
    }

    /// Counts a check of a gateway and times the next one. Returns whether the peer is a gateway.
    pub(crate) fn begin_check(&mut self, now: Time, peer: PeerId) -> bool {
        let Some(gateway) = self.gateways.get_mut(&peer) else { return false };
        gateway.checks += 1;
        let interval = self.config.alive_router_check_interval;
        if interval > 0 {
            let next = now + Duration::from_secs(interval.into());
            self.timers.set(Timer::CheckGateway(peer), next);
        }
        true
    }

    /// Returns over which of the networks that a gateway shares with this node it is checked.
    pub(crate) fn check_net(&self, peer: PeerId, shared: &[Net]) -> Option<Net> {
        let checks = self.gateways.get(&peer)?.checks;
        shared.get(checks.checked_rem(shared.len())?).copied()
    }

    /// Records the networks of a gateway, each with whether an interface there is up.
    pub(crate) fn describe(&mut self, peer: PeerId, refuses: bool, nets: Vec<(Net, bool)>) {
        if let Some(gateway) = self.gateways.get_mut(&peer) {
            (gateway.refuses, gateway.nets, gateway.described) = (refuses, nets, true);
        }
    }

    /// Returns whether an interface of a gateway on `net` is up; `None` if it has none, as far as
    /// it has reported.
    pub(crate) fn gateway_has(&self, peer: PeerId, net: Net) -> Option<bool> {
        let gateway = self.gateways.get(&peer)?;
        gateway.nets.iter().find(|(other, _)| *other == net).map(|(_, up)| *up)
    }

    /// Notes whether a gateway answers, and returns whether that is new.
    pub(crate) fn set_alive(&mut self, peer: PeerId, alive: bool) -> bool {
        let gateway = self.gateways.get_mut(&peer);
        gateway.is_some_and(|gateway| std::mem::replace(&mut gateway.alive, alive) != alive)
    }

    /// Returns whether a route may be used, as far as its gateway reports. Spec: lnet-behaviour §8.2.
    pub(crate) fn may_use(&self, route: &RouteConfig, peer: PeerId) -> bool {
        let Some(gateway) = self.gateways.get(&peer).filter(|gateway| gateway.alive) else {
            return false;
        };
        let behind = self.gateway_has(peer, route.net);
        let up_there = match route.hops {
            _ if !self.config.avoid_asym_router_failure => true,
            // Nothing is known of it yet.
            _ if !gateway.described => true,
            Some(1) => behind == Some(true),
            // It is not known what lies behind the next hop.
            _ => behind != Some(false),
        };
        !gateway.refuses && up_there
    }
}
