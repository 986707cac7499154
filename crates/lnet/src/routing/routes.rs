//! Routes: which networks are behind which gateways. Spec: lnet-behaviour §8.1.

use std::collections::BTreeMap;

use fulmar_lnet_wire::Net;
use fulmar_lnet_wire::selftest::Histogram;

use super::config::RouteConfig;

/// A route; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RouteId(pub(super) u64);

#[derive(Debug)]
pub(crate) struct Route {
    config: RouteConfig,
    /// When it was last chosen; lower is longer ago.
    stamp: u64,
    messages: u64,
    latency: Histogram,
}

/// Routes that were never used have stamps below this.
pub(crate) const FIRST_STAMPS: u64 = 1 << 16;

impl Route {
    pub(crate) fn config(&self) -> &RouteConfig {
        &self.config
    }

    /// Returns when it was last chosen; lower is longer ago.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns how many messages went by it, and how long their responses took.
    pub(crate) fn traffic(&self) -> (u64, &Histogram) {
        (self.messages, &self.latency)
    }
}

/// All routes, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: BTreeMap<RouteId, Route>,
    /// Those to each network, in the same order: every message asks, and routes may be thousands.
    by_net: BTreeMap<Net, Vec<RouteId>>,
    next: u64,
    /// Counts uses.
    uses: u64,
}

impl Routes {
    /// Returns whether a route leads to `net`.
    pub(super) fn lead_to(&self, net: Net) -> bool {
        self.by_net.contains_key(&net)
    }

    /// Returns the routes that lead to `net`.
    pub(super) fn to(&self, net: Net) -> impl Iterator<Item = (RouteId, &Route)> {
        let ids = self.by_net.get(&net).into_iter().flatten();
        ids.map(|id| (*id, &self.routes[id]))
    }

    pub(super) fn add(&mut self, config: RouteConfig, stamp: u64) -> RouteId {
        self.next += 1;
        let id = RouteId(self.next);
        let new = Route { config, stamp, messages: 0, latency: Histogram::default() };
        self.routes.insert(id, new);
        self.by_net.entry(config.net).or_default().push(id);
        id
    }

    pub(super) fn remove(&mut self, id: RouteId) {
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
    pub(super) fn check(&self) -> Result<(), String> {
        let mut walked: BTreeMap<Net, Vec<RouteId>> = BTreeMap::new();
        for (id, route) in &self.routes {
            walked.entry(route.config.net).or_default().push(*id);
        }
        if walked == self.by_net {
            Ok(())
        } else {
            Err(format!("routes by network: {:?}, there are {walked:?}", self.by_net))
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RouteId, &Route)> {
        self.routes.iter().map(|(id, route)| (*id, route))
    }

    /// Counts a message that went by a route.
    pub(super) fn count(&mut self, id: Option<RouteId>) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            route.messages += 1;
        }
    }

    /// Counts how long a response took to something that went by a route.
    pub(super) fn record(&mut self, id: Option<RouteId>, nsec: u64) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            route.latency.record(nsec);
        }
    }

    /// Marks a route as the latest used.
    pub(super) fn stamp(&mut self, id: Option<RouteId>) {
        if let Some(route) = id.and_then(|id| self.routes.get_mut(&id)) {
            self.uses += 1;
            route.stamp = FIRST_STAMPS + self.uses;
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_base::Rng;

    use super::*;
    use fulmar_lnet_wire::Nid;

    #[test]
    fn the_routes_to_a_network_are_those_of_a_walk_whatever_comes_and_goes() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (mut routes, mut known) = (Routes::default(), Vec::new());
            for step in 0..300 {
                if known.is_empty() || rng.below(5) < 3 {
                    let net = Net(Net::TCP.0 + 1 + rng.below(6) as u32);
                    let gateway = Nid::small(Net::TCP, rng.below(9) as u32);
                    known.push(routes.add(RouteConfig::new(net, gateway), step));
                } else {
                    let id = known.swap_remove(rng.below(known.len() as u64) as usize);
                    routes.remove(id);
                    // One that is gone already is nothing to remove.
                    routes.remove(id);
                }
                routes.check().unwrap();
                assert_eq!(routes.is_empty(), known.is_empty());
                for net in (0..8).map(|n| Net(Net::TCP.0 + n)) {
                    let walk = routes.iter().filter(|(_, route)| route.config.net == net);
                    let walk: Vec<RouteId> = walk.map(|(id, _)| id).collect();
                    assert_eq!(routes.to(net).map(|(id, _)| id).collect::<Vec<_>>(), walk);
                    assert_eq!(routes.lead_to(net), !walk.is_empty(), "seed {seed}, step {step}");
                }
            }
        }
    }
}
