//! Turns a scenario into options of the simulator.
//!
//! ```text
//! hosts:  0 console | 1.. clients | servers | routers of the clients | routers of the servers
//! nets:   tcp ─ (routers) ─ tcp1 ─ (routers) ─ tcp2, fewer networks without routers
//! ```

use std::ops::Range;
use std::time::Duration;

use fulmar_sim::options::{Network, Rails, Selftest, Site, Trunk};
use fulmar_sim::{HostId, Options};

use crate::scenario::{Routers, Scenario};

/// The numbers of the hosts of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    pub(crate) clients: Range<u32>,
    pub(crate) servers: Range<u32>,
    pub(crate) client_routers: Range<u32>,
    pub(crate) server_routers: Range<u32>,
}

/// The selftest console: a node at the clients' site without load.
pub(crate) const CONSOLE: HostId = HostId(0);

impl Hosts {
    /// Returns the hosts of a scenario.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let routers = scenario.path.routers.as_ref();
        let counts = routers.map_or((0, 0), |all| (all.at_clients, all.at_servers));
        let clients = 1..1 + scenario.clients;
        let servers = clients.end..clients.end + scenario.servers;
        let client_routers = servers.end..servers.end + counts.0;
        let server_routers = client_routers.end..client_routers.end + counts.1;
        Self { clients, servers, client_routers, server_routers }
    }

    fn count(&self) -> u32 {
        self.server_routers.end
    }

    /// Returns the network numbers of each host's interfaces.
    fn interfaces(&self) -> Vec<Vec<u16>> {
        let wide = u16::from(!self.client_routers.is_empty());
        let far = wide + u16::from(!self.server_routers.is_empty());
        let nets = |host: u32| match host {
            _ if host < self.clients.end => vec![0],
            _ if self.servers.contains(&host) => vec![far],
            _ if self.client_routers.contains(&host) => vec![0, wide],
            _ => vec![wide, far],
        };
        (0..self.count()).map(nets).collect()
    }
}

/// Returns the options of the run.
pub(crate) fn options(scenario: &Scenario) -> Options {
    let hosts = Hosts::new(scenario);
    let routed = scenario.path.routers.as_ref();
    let rails = routed.map(|routers| rails(&hosts, routers));
    let credits = &scenario.credits;
    Options {
        network: network(scenario, &hosts),
        peer_credits: credits.peer_credits,
        credits: credits.credits,
        conns_per_peer: credits.conns_per_peer,
        zc_min_payload: credits.zc_min_payload,
        rails,
        selftest: Some(Selftest::default()),
        ..Options::plain(hosts.count())
    }
}

fn rails(hosts: &Hosts, routers: &Routers) -> Rails {
    let forwarding = hosts.client_routers.start..hosts.server_routers.end;
    let mut rails = Rails::new(hosts.interfaces(), &forwarding.collect::<Vec<_>>());
    rails.routing.buffers = routers.buffers;
    rails.routing.peer_buffer_credits = routers.peer_buffer_credits;
    rails
}

fn network(scenario: &Scenario, hosts: &Hosts) -> Network {
    let path = &scenario.path;
    let mut near = Site::of(0..hosts.clients.end, path.client_cable.clone());
    let mut far = Site::of(hosts.servers.clone(), path.server_cable.clone());
    if let Some(Routers { cable, .. }) = &path.routers {
        for index in 0..2 {
            near = near.and(hosts.client_routers.clone(), index, cable.clone());
            far = far.and(hosts.server_routers.clone(), index, cable.clone());
        }
    }
    let trunk = |line: &_| Trunk { between: (0, 1), line: Clone::clone(line) };
    let trunks = path.trunks.iter().map(trunk).collect();
    Network { tcp: path.tcp.clone(), ..Network::sites(vec![near, far], trunks) }
}

/// Longest virtual time to wait for a result.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(600);
