//! Routing: routes and their gateways, and what this node forwards as a router.
//! Spec: lnet-behaviour §8.
//!
//! ```text
//! add_route, remove_routes             the routes; settle_gateways makes their gateways match
//! describe, set_alive                  what is learnt of a gateway -> whether that is new
//! switch, forwarding_due -> Step       forwarding is switched on or off, in steps
//! take_buffer, give_back_buffer        messages in transit -> who holds a buffer from now on
//! pop_due -> Timer                     a gateway is to be checked, a step is due
//! ```
//!
//! # How a router works
//!
//! ```text
//! header ──► router credit of the previous hop ──► buffer of its class ──► payload ──► select, credits, LND ──► all returned
//!               (waits: connection not read)         (waits: the same)
//! ```
//!
//! A message in transit is an ordinary message that also holds a `Transit`. The core names the
//! buffers, and the owner allocates them when first needed (`Allocate`), reuses them last in first
//! out, and frees them when routing is switched off. A pool is shared by lanes, one for each target
//! NID: a lane may hold as many buffers as are free, so that any number of stopped receivers leaves
//! some for the others. A returned buffer goes to the network, and there to the lane, that holds
//! the fewest. A message is never forwarded back to the previous hop.
//!
//! **Gateways** are peers with routes. They are discovered every minute over each common network in
//! turn; the state of their networks in the ping info decides which routes are usable. Any message
//! from a gateway shows that it is alive.
//!
//! **Switching off.** `set routing 0` informs peers by the next ping and waits; `routing drain`
//! pushes to them at once, forwards the messages in transit and is off after two seconds without
//! traffic.

mod config;
mod gateways;
mod pool;
mod router;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fulmar_base::{Time, Timers};
use fulmar_lnet_wire::Net;
use fulmar_lnet_wire::selftest::Histogram;

use crate::peers::PeerId;
use crate::views::RoutingState;

pub use config::{Forwarding, RouteConfig, RouterBuffers, RoutingConfig};
use gateways::Gateway;
use pool::Pool;
pub(crate) use router::{Buffer, Step};
use routes::Routes;
pub(crate) use routes::{FIRST_STAMPS, Route, RouteId};

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The next check of a gateway.
    CheckGateway(PeerId),
    /// The next step of a router that is switched on or off.
    Forwarding,
    /// The next search for networks from which this router hears nothing.
    Silence,
}

/// What passed from one network to another.
#[derive(Debug, Default)]
struct Traffic {
    messages: u64,
    bytes: u64,
    latency: Histogram,
}

/// The routes of a node, and the router that it may be.
#[derive(Debug)]
pub(crate) struct Routing {
    config: RoutingConfig,
    routes: Routes,
    gateways: BTreeMap<PeerId, Gateway>,
    state: RoutingState,
    /// Tiny, small and large buffers; empty before the node first is a router.
    pools: [Pool; 3],
    /// When something was last taken to be forwarded.
    last: Time,
    transits: BTreeMap<(Net, Net), Traffic>,
    /// Counts buffers, to name them.
    buffers: u64,
    timers: Timers<Timer>,
}

impl Routing {
    pub(crate) fn new(config: RoutingConfig) -> Self {
        Self {
            config,
            routes: Routes::default(),
            gateways: BTreeMap::new(),
            state: RoutingState::Disabled,
            pools: router::pools(),
            last: Time::ZERO,
            transits: BTreeMap::new(),
            buffers: 0,
            timers: Timers::default(),
        }
    }

    pub(crate) fn config(&self) -> &RoutingConfig {
        &self.config
    }

    /// Returns when the next deadline is.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns the next deadline that has passed.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        self.timers.pop_due(now)
    }

    pub(crate) fn add_route(&mut self, config: RouteConfig, stamp: u64) -> RouteId {
        self.routes.add(config, stamp)
    }

    pub(crate) fn remove_routes(&mut self, ids: &[RouteId]) {
        for id in ids {
            self.routes.remove(*id);
        }
    }

    pub(crate) fn has_routes(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Returns whether a route leads to `net`.
    pub(crate) fn leads_to(&self, net: Net) -> bool {
        self.routes.lead_to(net)
    }

    /// Returns the routes that lead to `net`, in the order in which they were added.
    pub(crate) fn routes_to(&self, net: Net) -> impl Iterator<Item = (RouteId, &Route)> {
        self.routes.to(net)
    }

    /// Returns the routes in the order in which they were added.
    pub(crate) fn routes(&self) -> impl Iterator<Item = (RouteId, &Route)> {
        self.routes.iter()
    }

    /// Counts a message that goes by a route.
    pub(crate) fn count(&mut self, route: Option<RouteId>) {
        self.routes.count(route);
    }

    /// Counts how long the response took to something that went by a route.
    pub(crate) fn record(&mut self, route: Option<RouteId>, nsec: u64) {
        self.routes.record(route, nsec);
    }

    /// Marks a route as the latest used.
    pub(crate) fn stamp(&mut self, route: Option<RouteId>) {
        self.routes.stamp(route);
    }

    /// Checks that the indices of the routes agree.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.routes.check()
    }
}
