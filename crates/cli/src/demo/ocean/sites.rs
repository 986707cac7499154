//! The namespaces, the cables and the link of two sites.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulmar_link::{Counters, End, Link, LinkError, Namespace, Options, Tcp};

use super::files::{Mount, Servers};
use super::node::{Node, Runner, Settings};
use super::{MTU, Ocean, iperf3};

/// Two sites joined by a link. The link is removed before the namespaces.
#[derive(Debug)]
pub struct Sites {
    ocean: Ocean,
    link: LinkGuard,
    /// The namespaces of sites A and B at the ends of the link.
    link_hosts: [Arc<Namespace>; 2],
    /// The namespaces of the nodes, if there are routers at the link.
    node_hosts: Option<[Arc<Namespace>; 2]>,
    runner: Runner,
}

struct LinkGuard(Link);

impl std::fmt::Debug for LinkGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(&self.0.lines()).finish()
    }
}

/// The interface at either end of the link.
pub const DEVICE: &str = "wan0";
/// The port of iperf3 servers; nothing else runs in the namespace.
const IPERF3_PORT: u16 = 5201;
/// Addresses of the ends of the link: A's and B's.
pub const LINK_IPS: [&str; 2] = ["10.2.0.1", "10.2.0.2"];
/// The addresses of the hosts behind routers, and those of the routers on that side.
pub(super) const NODE_IPS: [&str; 2] = ["10.1.0.1", "10.3.0.1"];
pub(super) const ROUTER_IPS: [&str; 2] = ["10.1.0.254", "10.3.0.254"];

impl Sites {
    /// Creates the sites, for nodes of the binary `fulmar`. The buffers of TCP are made large
    /// enough for the link, in these namespaces only.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(fulmar: &Path, ocean: Ocean) -> Result<Self, String> {
        Self::with(Runner::new(fulmar)?, ocean)
    }

    /// Creates the sites with the default TCP settings of the system.
    ///
    /// # Errors
    /// The error of the system.
    pub fn with_default_tcp(fulmar: &Path, ocean: Ocean) -> Result<Self, String> {
        Self::make(Runner::new(fulmar)?, ocean)
    }

    /// Creates the sites with an existing runner.
    ///
    /// # Errors
    /// The error of the system.
    pub fn with(runner: Runner, ocean: Ocean) -> Result<Self, String> {
        let sites = Self::make(runner, ocean)?;
        let congestion = Some(ocean.congestion().name().to_owned());
        let tcp = Tcp { congestion, ..Tcp::filling(&ocean.lines()) };
        for namespace in sites.link_hosts.iter().chain(sites.node_hosts.iter().flatten()) {
            tcp.set(namespace.name()).map_err(|error| error.to_string())?;
        }
        Ok(sites)
    }

    fn make(runner: Runner, ocean: Ocean) -> Result<Self, String> {
        let (names, behind) = if ocean.routed {
            (["router-a", "router-b"], Some(["a", "b"]))
        } else {
            (["a", "b"], None)
        };
        let make = |[a, b]: [&str; 2]| -> Result<[Arc<Namespace>; 2], String> {
            Ok([runner.namespace(a)?, runner.namespace(b)?])
        };
        let link_hosts = make(names)?;
        let node_hosts = behind.map(make).transpose()?;
        let lines = ocean.lines();
        let end = |side: usize| End {
            namespace: link_hosts[side].name().to_owned(),
            device: DEVICE.to_owned(),
            addresses: vec![format!("{}/24", LINK_IPS[side])],
        };
        let options = Options { ends: [end(0), end(1)], lines, mtu: MTU, seed: 1 };
        let link = Link::start(&options).map_err(|error| error.to_string())?;
        for (side, node) in node_hosts.iter().flatten().enumerate() {
            cable(node, &link_hosts[side], side).map_err(|error| error.to_string())?;
        }
        Ok(Self { ocean, link: LinkGuard(link), link_hosts, node_hosts, runner })
    }

    /// Returns the rate and round trip of the link.
    pub fn ocean(&self) -> &Ocean {
        &self.ocean
    }

    /// Returns the namespaces at the ends of the link.
    pub fn link_hosts(&self) -> [&Arc<Namespace>; 2] {
        self.link_hosts.each_ref()
    }

    /// Returns the namespaces of the nodes.
    pub fn ends(&self) -> [&Arc<Namespace>; 2] {
        self.node_hosts.as_ref().unwrap_or(&self.link_hosts).each_ref()
    }

    /// Starts a node in one of the namespaces.
    ///
    /// # Errors
    /// Why the node does not start.
    pub fn start(&self, at: &Arc<Namespace>, settings: &Settings) -> Result<Node, String> {
        Node::start(&self.runner, at, settings)
    }

    /// Starts the servers of a file system in one of two namespaces, and waits until clients in the other
    /// one see them at an address.
    ///
    /// # Errors
    /// Why it is not served.
    pub fn serve(
        &self,
        [at, other]: [&Arc<Namespace>; 2],
        directory: &Path,
        settings: &Settings,
        address: &str,
    ) -> Result<Servers, String> {
        let mut servers = self.serve_at(at, directory, settings)?;
        servers.wait_until_seen(&self.runner, other, address)?;
        Ok(servers)
    }

    /// Starts the servers of a file system, which may not be ready yet.
    ///
    /// # Errors
    /// Why they do not start.
    pub fn serve_at(
        &self,
        at: &Arc<Namespace>,
        directory: &Path,
        settings: &Settings,
    ) -> Result<Servers, String> {
        Servers::start(&self.runner, at, directory, settings, None)
    }

    /// Returns the resources of the nodes.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Lets `fill` make files in a file system, which is then on disk and not served any more.
    ///
    /// # Errors
    /// Why it is not served, or the error of `fill`.
    pub fn fill(
        &self,
        at: &Arc<Namespace>,
        directory: &Path,
        settings: &Settings,
        fill: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let mountpoint = self.runner.path("fill");
        let servers = Servers::start(&self.runner, at, directory, settings, Some(&mountpoint))?;
        fill(&mountpoint)?;
        servers.end()
    }

    /// Mounts a file system in one of the namespaces.
    ///
    /// # Errors
    /// Why it is not mounted.
    pub fn mount(
        &self,
        at: &Arc<Namespace>,
        address: &str,
        settings: Option<&Settings>,
    ) -> Result<Mount, String> {
        Mount::start(&self.runner, at, address, settings)
    }

    /// Returns the counters of the link in each direction.
    pub fn counters(&self) -> [Counters; 2] {
        self.link.0.counters()
    }

    /// Returns the payload in bytes per second of one stream of iperf3 over the link, after
    /// `warmup`; `None` where iperf3 is not installed.
    ///
    /// # Errors
    /// The output of iperf3.
    pub fn iperf3(&self, warmup: Duration, duration: Duration) -> Result<Option<f64>, String> {
        let seconds = |time: Duration| time.as_secs_f64().ceil().max(1.0) as u32;
        if !iperf3::is_installed() {
            return Ok(None);
        }
        let address = LINK_IPS[1].parse().expect("it is an address");
        let (warmup, seconds) = (seconds(warmup), seconds(duration));
        let stream = iperf3::Stream { address, port: IPERF3_PORT, warmup, seconds };
        let [client, server] = self.link_hosts().map(|at| at.command(iperf3::IPERF3.as_ref()));
        stream.run(client, server).map(|received| Some(received.bytes_per_second()))
    }
}

/// Connects the namespace of a node to that of the router of its site.
fn cable(node: &Namespace, router: &Namespace, side: usize) -> Result<(), LinkError> {
    node.cable("eth0", (router, "eth0"))?;
    for (end, address) in [(node, NODE_IPS[side]), (router, ROUTER_IPS[side])] {
        end.ip(&["link", "set", "eth0", "mtu", &MTU.to_string()])?;
        end.add_address("eth0", &format!("{address}/24"))?;
    }
    Ok(())
}
