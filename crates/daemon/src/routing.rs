//! Routes, forwarding and the health of rails of a running node. Spec: lnet-behaviour §8, §11.

use fulmar_base::Errno;
use fulmar_control::api::{AdminError, NetSet, Nids, PeerSet};
use fulmar_control::config::{BuffersConf, RouteConf};
use fulmar_control::show;
use fulmar_lnet::{Forwarding, RouteConfig};
use fulmar_lnet_wire::Nid;

use crate::admin::{Daemon, Result};

impl Daemon {
    pub(super) fn routes(&self) -> Vec<show::Route> {
        self.node.routes()
    }

    pub(super) fn routers(&self) -> Vec<show::Router> {
        self.node.routers()
    }

    pub(super) fn routing(&self) -> show::Routing {
        self.node.routing()
    }

    /// Adds a route.
    pub(super) fn add_route(&self, route: &RouteConf) -> std::result::Result<(), Errno> {
        let config = RouteConfig::from(route);
        self.node.route_add(config)
    }

    pub(super) fn add_routes(&self, routes: &[RouteConf]) -> Result<()> {
        let add =
            |route| self.add_route(route).map_err(|errno| AdminError::route_add(errno, route));
        routes.iter().try_for_each(add)
    }

    /// Removes routes. One that is absent does not keep the others from it.
    pub(super) fn delete_routes(&self, routes: &[RouteConf]) -> Result<()> {
        let mut absent = None;
        for route in routes {
            match self.node.route_del(Some(route.net), Some(route.gateway)) {
                Err(Errno::ENOENT) => {
                    absent.get_or_insert_with(|| AdminError::route_del(Errno::ENOENT, route));
                }
                done => done.map_err(|errno| AdminError::route_del(errno, route))?,
            }
        }
        absent.map_or(Ok(()), Err)
    }

    /// Adds a route of an lnet.conf at the start. An identical existing route is not an
    /// error.
    pub(super) fn import_route(&self, route: &RouteConf) -> std::result::Result<(), Errno> {
        let there = || self.routes().iter().any(|known| RouteConf::from(known) == route.normal());
        match self.add_route(route) {
            Err(Errno::EEXIST) if there() => Ok(()),
            added => added,
        }
    }

    pub(super) fn set_routing(&self, enable: bool) -> Result<()> {
        let forwarding = if enable { Forwarding::Enable } else { Forwarding::Disable };
        self.node.set_forwarding(forwarding).map_err(|errno| AdminError::routing(errno, "routing"))
    }

    pub(super) fn drain(&self) -> Result<()> {
        self.node
            .set_forwarding(Forwarding::Drain)
            .map_err(|errno| AdminError::routing(errno, "routing"))
    }

    /// Changes the given numbers of buffers. They take effect when the node is a router.
    pub(super) fn set_buffers(&self, counts: &BuffersConf, what: &str) -> Result<()> {
        if *counts == BuffersConf::default() {
            return Ok(());
        }
        let wanted = counts.over(self.node.routing_config().buffers);
        self.node.set_router_buffers(wanted).map_err(|errno| AdminError::routing(errno, what))
    }

    /// Sets the health and the administrative state of the NIs `meant`.
    pub(super) fn set_rails(&self, request: &NetSet, meant: &[Nid]) -> Result<()> {
        for nid in meant {
            if let Some(health) = request.health {
                self.node.set_ni_health(Some(*nid), health).map_err(|errno| {
                    AdminError::new(errno, format!("cannot set health of {nid}: {errno}"))
                })?;
            }
            if let Some(enabled) = request.enabled {
                self.node.set_ni_enabled(*nid, enabled).map_err(|errno| {
                    AdminError::new(errno, format!("cannot set state of {nid}: {errno}"))
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn set_peer(&self, request: &PeerSet) -> Result<()> {
        let PeerSet { nid, health, state } = *request;
        let refused = |what: &str, errno: Errno| {
            let error = AdminError::new(errno, format!("cannot set {what} of peer: {errno}"));
            match errno {
                Errno::ENOENT => error.with_hint("\"lnetctl peer list\" lists the peers"),
                _ => error,
            }
        };
        if let Some(health) = health {
            self.node.set_peer_ni_health(nid, health).map_err(|errno| refused("health", errno))?;
        }
        match (nid, state) {
            (_, None) => Ok(()),
            (Some(nid), Some(state)) => {
                self.node.set_peer_state(nid, state).map_err(|errno| refused("state", errno))
            }
            (None, Some(_)) => Err(AdminError::new(Errno::EINVAL, "invalid peer state param")
                .with_hint("a state applies to one peer: give --nid NID")),
        }
    }

    pub(super) fn recovery(&self, peers: bool) -> Nids {
        let recovery = self.node.recovery();
        Nids { nids: if peers { recovery.peer } else { recovery.local } }
    }
}
