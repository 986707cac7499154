//! The words of routing: what an administrator configures. Spec: lnet-behaviour §8, §13.5.

use fulmar_base::Errno;
use fulmar_lnet_wire::{Net, Nid};

/// Module parameters of routing. Defaults are those of a 2.17 node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingConfig {
    /// Messages for others are forwarded from the start.
    pub forwarding: bool,
    /// How many router buffers there may be.
    pub buffers: RouterBuffers,
    /// Messages that may be forwarded from one peer NI at once, where its network does not say;
    /// 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
    /// LNDs are believed when they say that a gateway is down.
    pub auto_down: bool,
    /// Routes are not used before their gateways have been discovered.
    pub check_routers_before_use: bool,
    /// Routes are not used whose gateway has no working interface on the network behind.
    pub avoid_asym_router_failure: bool,
    /// Seconds between two checks of a gateway; 0 for none.
    pub alive_router_check_interval: u32,
    /// Seconds that are allowed for the answer to such a check.
    pub router_ping_timeout: u32,
}

impl Default for RoutingConfig {
    fn default() -> Self {
        Self {
            forwarding: false,
            buffers: RouterBuffers::default(),
            peer_buffer_credits: 0,
            auto_down: true,
            check_routers_before_use: false,
            avoid_asym_router_failure: true,
            alive_router_check_interval: 60,
            router_ping_timeout: 50,
        }
    }
}

/// How many router buffers of each class there may be. Spec: lnet-behaviour §8.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterBuffers {
    /// For messages without payload.
    pub tiny: u32,
    /// For up to 4 KiB.
    pub small: u32,
    /// For up to 1 MiB.
    pub large: u32,
}

impl Default for RouterBuffers {
    fn default() -> Self {
        Self { tiny: 2048, small: 16384, large: 1024 }
    }
}

/// A route as it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// The network that it leads to.
    pub net: Net,
    /// The next hop.
    pub gateway: Nid,
    /// 1 to 255; `None` counts as 1 and is shown as -1.
    pub hops: Option<u32>,
    /// Smaller is preferred.
    pub priority: u32,
    /// What a failure takes from the health of the gateway, instead of the value of the node.
    pub health_sensitivity: Option<u32>,
}

impl RouteConfig {
    /// Returns a route without preferences.
    pub fn new(net: Net, gateway: Nid) -> Self {
        Self { net, gateway, hops: None, priority: 0, health_sensitivity: None }
    }

    /// Checks whether a node with these NIDs can have the route, whatever other routes it has.
    ///
    /// # Errors
    /// EINVAL if the network or the gateway is a wildcard, `0@lo`, or they are of one network, or
    /// the hops are not 1 to 255; EPERM if the gateway is one of the NIDs; EEXIST if the network is
    /// that of one; EHOSTUNREACH if the gateway is on the network of none.
    pub fn check(&self, own: impl Iterator<Item = Nid> + Clone) -> Result<(), Errno> {
        let Self { net, gateway, hops, .. } = *self;
        let is_local = |net: Net| own.clone().any(|nid| nid.net() == net);
        let senseless = gateway.is_any() || gateway.is_loopback() || gateway.net() == net;
        let no_net = net == Net::ANY || net == Net::LOOPBACK;
        if senseless || no_net || hops.is_some_and(|hops| !(1..=255).contains(&hops)) {
            return Err(Errno::EINVAL);
        }
        if own.clone().any(|nid| nid == gateway) {
            return Err(Errno::EPERM);
        }
        if is_local(net) {
            return Err(Errno::EEXIST);
        }
        if is_local(gateway.net()) { Ok(()) } else { Err(Errno::EHOSTUNREACH) }
    }
}

/// What is asked of a router as to messages for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forwarding {
    /// Forward them.
    Enable,
    /// Tell peers to go elsewhere, and stop when they have had time to.
    Disable,
    /// Push peers elsewhere now, and stop when nothing more comes.
    Drain,
}
