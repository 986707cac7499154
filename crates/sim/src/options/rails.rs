//! Clusters with several interfaces per node, several networks, and routers between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fulmar_base::Rng;
use fulmar_lnet::{Globals, RouteConfig, RouterBuffers, RoutingConfig};
use fulmar_lnet_wire::{Net, Nid};

use super::{Kind, Mix, Options, pick};
use crate::{HostId, Port};

/// The interfaces of the nodes, and the routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rails {
    /// For each node, the `tcp` network numbers of its interfaces.
    pub interfaces: Vec<Vec<u16>>,
    /// The routers.
    pub routers: Vec<HostId>,
    /// The routes of each node.
    pub routes: Vec<(HostId, RouteConfig)>,
    /// Routing settings of every node; only routers forward.
    pub routing: RoutingConfig,
    /// Global settings of every node, except discovery.
    pub globals: Globals,
}

impl Rails {
    /// Returns equal nodes with an interface on each of these networks.
    pub fn even(nodes: usize, nets: &[u16]) -> Self {
        Self::new(vec![nets.to_vec(); nodes], &[])
    }

    /// Returns nodes with these interfaces and routers, and with all needed routes: through the
    /// routers on the node's networks that have the fewest hops.
    pub fn new(interfaces: Vec<Vec<u16>>, routers: &[u32]) -> Self {
        let mut rails = Self {
            interfaces,
            routers: routers.iter().copied().map(HostId).collect(),
            routes: Vec::new(),
            routing: RoutingConfig::default(),
            globals: Globals::default(),
        };
        rails.routes = rails.needed_routes();
        rails
    }

    /// Returns the network of an interface.
    pub fn net(&self, port: Port) -> Option<Net> {
        let number = *self.interfaces.get(port.host.0 as usize)?.get(usize::from(port.index))?;
        Some(net(number))
    }

    /// Returns the interfaces of a node.
    pub fn ports(&self, host: HostId) -> impl Iterator<Item = Port> + use<> {
        let count = self.interfaces.get(host.0 as usize).map_or(0, Vec::len);
        (0..count as u8).map(move |index| Port { host, index })
    }

    /// Returns the least number of routers between a node and each network.
    fn distances(&self, from: HostId) -> BTreeMap<u16, u32> {
        let own = &self.interfaces[from.0 as usize];
        let mut distances: BTreeMap<u16, u32> = own.iter().map(|net| (*net, 0)).collect();
        loop {
            let before = distances.len();
            for router in &self.routers {
                let nets = &self.interfaces[router.0 as usize];
                let nearest = nets.iter().filter_map(|net| distances.get(net)).min().copied();
                let Some(nearest) = nearest else { continue };
                for net in nets {
                    let distance = distances.entry(*net).or_insert(nearest + 1);
                    *distance = (*distance).min(nearest + 1);
                }
            }
            if distances.len() == before {
                return distances;
            }
        }
    }

    fn needed_routes(&self) -> Vec<(HostId, RouteConfig)> {
        let mut routes = Vec::new();
        let of_routers: BTreeMap<HostId, BTreeMap<u16, u32>> =
            self.routers.iter().map(|router| (*router, self.distances(*router))).collect();
        for host in (0..self.interfaces.len() as u32).map(HostId) {
            for (number, hops) in self.distances(host).into_iter().filter(|(_, hops)| *hops > 0) {
                for router in self.routers.iter().filter(|router| **router != host) {
                    let Some(gateway) = self.gateway(host, *router) else { continue };
                    if of_routers[router].get(&number) != Some(&(hops - 1)) {
                        continue;
                    }
                    let (net, hops) = (net(number), Some(hops));
                    routes.push((host, RouteConfig { hops, ..RouteConfig::new(net, gateway) }));
                }
            }
        }
        routes
    }

    /// Returns the NID of a router on a network of `host`.
    fn gateway(&self, host: HostId, router: HostId) -> Option<Nid> {
        let own: BTreeSet<u16> = self.interfaces[host.0 as usize].iter().copied().collect();
        let ports = self.ports(router).zip(&self.interfaces[router.0 as usize]);
        let (port, number) = ports.into_iter().find(|(_, net)| own.contains(net))?;
        Some(Nid::of_ip(net(*number), port.ip()))
    }
}

/// Number of faults of each kind of interfaces and routers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RailFaults {
    /// Links that go down for a while; the node is notified.
    pub cuts: u32,
    /// Links that silently lose all packets for a while.
    pub silent_cuts: u32,
    /// Interfaces that the administrator removes for a while.
    pub removals: u32,
    /// Interfaces that the administrator disables for a while.
    pub switches: u32,
    /// Routers that crash and restart.
    pub router_crashes: u32,
    /// Routers whose forwarding the administrator disables for a while.
    pub stops: u32,
    /// Routers that the administrator drains for a while.
    pub drains: u32,
}

impl RailFaults {
    fn draw(rng: &mut Rng, routed: bool) -> Self {
        let mut often =
            |max, possible| if possible && !rng.one_in(2) { rng.between(1, max) as u32 } else { 0 };
        Self {
            cuts: often(4, true),
            silent_cuts: often(3, true),
            removals: often(3, true),
            switches: often(3, true),
            router_crashes: often(3, routed),
            stops: often(2, routed),
            drains: often(2, routed),
        }
    }

    pub(crate) fn total(&self) -> u32 {
        let Self { cuts, silent_cuts, removals, switches, router_crashes, stops, drains } = self;
        cuts + silent_cuts + removals + switches + router_crashes + stops + drains
    }
}

impl Options {
    /// Draws the options of a run in which nodes have several interfaces.
    pub fn draw_rails(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ RAILS_STREAM);
        let interfaces = draw_interfaces(&mut rng);
        Self::on(seed, &mut rng, Rails::new(interfaces, &[]))
    }

    /// Draws the options of a run in which messages pass routers.
    pub fn draw_routed(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ ROUTED_STREAM);
        let mut rails = match rng.below(3) {
            0 => draw_chain(&mut rng),
            _ => draw_groups(&mut rng),
        };
        // Few buffers make long queues in the pools.
        rails.routing.buffers = RouterBuffers {
            tiny: *pick(&mut rng, &[1, 4, 512]),
            small: *pick(&mut rng, &[1, 4, 512]),
            large: *pick(&mut rng, &[1, 2, 64]),
        };
        rails.routing.peer_buffer_credits = *pick(&mut rng, &[0, 0, 1, 3]);
        Self::on(seed, &mut rng, rails)
    }

    /// Returns plain options with these interfaces; see [`Options::plain`].
    pub fn plain_on(rails: Rails) -> Self {
        Self { rails: Some(rails.clone()), ..Self::plain(rails.interfaces.len() as u32) }
    }

    fn on(seed: u64, rng: &mut Rng, rails: Rails) -> Self {
        let mut options = Self::draw(seed);
        let calm = options.faults.is_none();
        options.nodes = rails.interfaces.len() as u32;
        options.old_nodes = 0;
        if !calm {
            options.faults.rails = RailFaults::draw(rng, !rails.routers.is_empty());
        }
        // Request buffers may be late, but not so late that a router drops the requests.
        options.lateness = options.lateness.min(Duration::from_secs(3));
        options.operations = rng.between(10, 120) as u32;
        if !rails.routers.is_empty() {
            // Routing requires discovery: it shows which routes are up.
            options.discovery = true;
            options.network.tcp = options.network.tcp.with_buffers(1 << 20);
            options.mix = options.mix.without(Kind::Mutual, rng);
            // A zero-copy acknowledgement may be queued behind a message that waits for a router
            // buffer which is held until that acknowledgement is read: a deadlock.
            options.zc_min_payload = None;
        }
        options.rails = Some(rails);
        options
    }
}

/// Draws interfaces so that any two nodes share a network.
fn draw_interfaces(rng: &mut Rng) -> Vec<Vec<u16>> {
    let nodes = rng.between(2, 4);
    let two_nets = rng.one_in(2);
    let mut interfaces: Vec<Vec<u16>> = (0..nodes)
        .map(|_| {
            let mut own = vec![0; rng.between(1, 3) as usize];
            if two_nets {
                own.extend(vec![1; rng.between(0, 2) as usize]);
            }
            own
        })
        .collect();
    if let [first, ..] = &mut interfaces[..]
        && first.len() == 1
    {
        first.push(u16::from(two_nets));
    }
    interfaces
}

/// Draws two networks with one to three nodes each, and one or two routers between them.
fn draw_groups(rng: &mut Rng) -> Rails {
    let mut interfaces = Vec::new();
    for net in [0, 1] {
        let rails = rng.between(1, 2) as usize;
        interfaces.extend(vec![vec![net; rails]; rng.between(1, 3) as usize]);
    }
    let first = interfaces.len() as u32;
    let routers: Vec<u32> = (0..rng.between(1, 2) as u32).map(|n| first + n).collect();
    for _ in &routers {
        interfaces.push(if rng.one_in(3) { vec![0, 1, 0] } else { vec![0, 1] });
    }
    Rails::new(interfaces, &routers)
}

/// Draws a chain of three networks.
fn draw_chain(rng: &mut Rng) -> Rails {
    let mut interfaces = vec![vec![0], vec![0, 1], vec![1, 2], vec![2]];
    if rng.one_in(2) {
        interfaces.push(vec![1]);
    }
    Rails::new(interfaces, &[1, 2])
}

impl Mix {
    /// Returns the mix without one kind.
    fn without(&self, kind: Kind, rng: &mut Rng) -> Self {
        let weights = self
            .weights
            .map(|(other, weight)| if other == kind { (other, 0) } else { (other, weight) });
        if weights.iter().all(|(_, weight)| *weight == 0) {
            Self::only(*pick(rng, &[Kind::Put, Kind::Get]))
        } else {
            Self { weights }
        }
    }
}

impl fmt::Display for Rails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "networks of the interfaces of each node")?;
        for (host, nets) in self.interfaces.iter().enumerate() {
            let nets: Vec<String> = nets.iter().map(u16::to_string).collect();
            write!(f, "{} n{host} {}", if host == 0 { ":" } else { "," }, nets.join(" "))?;
        }
        if !self.routers.is_empty() {
            let RoutingConfig { buffers, peer_buffer_credits, .. } = self.routing;
            let routers: Vec<String> = self.routers.iter().map(HostId::to_string).collect();
            let RouterBuffers { tiny, small, large } = buffers;
            write!(f, "; routers {}", routers.join(" "))?;
            write!(f, ", {tiny} tiny, {small} small, {large} large buffers")?;
            write!(f, ", peer buffer credits {peer_buffer_credits}")?;
        }
        Ok(())
    }
}

/// Returns a network by its number.
const fn net(number: u16) -> Net {
    Net::new(Net::TCP.kind(), number)
}

/// Give these options random streams of their own.
const RAILS_STREAM: u64 = 0x7261_696c_7300_0000;
const ROUTED_STREAM: u64 = 0x726f_7574_6564_0000;

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host: u32, index: u8) -> Port {
        Port { host: HostId(host), index }
    }

    #[test]
    fn nodes_on_two_networks_get_routes_and_their_router_none() {
        let rails = Rails::new(vec![vec![0], vec![1], vec![0, 1]], &[2]);
        let route = |host, number, index| {
            let gateway = Nid::of_ip(net(1 - number), port(2, index).ip());
            (HostId(host), RouteConfig { hops: Some(1), ..RouteConfig::new(net(number), gateway) })
        };
        assert_eq!(rails.routes, [route(0, 1, 0), route(1, 0, 1)]);
    }

    #[test]
    fn hops_are_counted_along_a_chain_of_routers() {
        let rails = Rails::new(vec![vec![0], vec![0, 1], vec![1, 2], vec![2]], &[1, 2]);
        let hops: Vec<(u32, u16, Option<u32>)> =
            rails.routes.iter().map(|(host, r)| (host.0, r.net.number(), r.hops)).collect();
        let want = [(0, 1, 1), (0, 2, 2), (1, 2, 1), (2, 0, 1), (3, 0, 2), (3, 1, 1)];
        assert_eq!(hops, want.map(|(host, net, hops)| (host, net, Some(hops))));
    }

    #[test]
    fn seeds_draw_every_topology() {
        let routed: Vec<Options> = (0..60).map(Options::draw_routed).collect();
        let rails = |options: &Options| options.rails.clone().expect("drawn");
        assert!(routed.iter().any(|options| rails(options).routers.len() == 2));
        assert!(routed.iter().any(|options| rails(options).routing.buffers.large == 1));
        assert!(routed.iter().any(|options| options.faults.is_none()));
        assert!(routed.iter().any(|options| options.faults.rails.drains > 0));
        let railed: Vec<Options> = (0..60).map(Options::draw_rails).collect();
        assert!(railed.iter().any(|options| rails(options).interfaces.contains(&vec![0, 1])));
        assert!(railed.iter().all(|options| rails(options).interfaces[0].len() > 1));
    }
}
