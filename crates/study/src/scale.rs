//! A scenario of very many nodes: clients on one network reach servers on another, over an ocean,
//! through parallel routers.
//!
//! ```text
//! console, clients ── switch ══ routers ══ switch ── servers
//!            tcp                               tcp1
//! ```
//!
//! Each client uses a few of the routers, so that the load is even, as at sites with many routers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use fulmar_lnet::{RouteConfig, RouterBuffers};
use fulmar_lnet_wire::{Net, Nid};
use fulmar_sim::options::{Line, Network, Rails, Selftest, Site, Tcp};
use fulmar_sim::{HostId, Options};
use serde::Serialize;

use crate::predict::shares;
use crate::scenario::Direction;
use crate::session::{Session, StudyError, Test, brw};

/// The size and the duration of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Number of clients: at most 16,000.
    pub nodes: u32,
    /// Number of routers.
    pub routers: u32,
    /// Number of servers.
    pub servers: u32,
    /// Number of routers that each client uses.
    pub routers_of_node: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// Bytes of a transfer; each client has one at a time.
    pub transfer: u32,
    /// Round trip between client and server.
    pub round_trip: Duration,
    /// Virtual duration of the measurement.
    pub measured: Duration,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            nodes: 10_000,
            routers: 64,
            servers: 16,
            routers_of_node: 4,
            direction: Direction::Write,
            transfer: 64 << 10,
            round_trip: Duration::from_micros(50_500),
            measured: Duration::from_secs(1),
        }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// The size.
    pub size: Size,
    /// Payload rate of all clients together.
    pub bytes_per_second: f64,
    /// RPCs during the measurement.
    pub rpcs: u64,
    /// Payload rate with one RPC of each client at a time and no queueing.
    pub ideal_bytes_per_second: f64,
    /// Least and greatest bytes that a router forwarded, relative to the mean.
    pub router_shares: (f64, f64),
    /// Least and greatest number of RPCs that a server answered, relative to the mean.
    pub server_shares: (f64, f64),
    /// Open connections of all nodes at the end, each counted once.
    pub connections: u64,
    /// The most buffers that a router used at a time, by class.
    pub buffers: Buffers,
    /// Number of simulation steps.
    pub steps: u64,
    /// Real time until all nodes were in the session, and from then to the end.
    pub took: (Duration, Duration),
    /// Peak memory of the process in bytes; 0 if unknown.
    pub memory: u64,
    /// The virtual time at the end.
    pub virtual_time: Duration,
}

/// Router buffers: the most in use, and the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Buffers {
    pub tiny: (u64, u64),
    pub small: (u64, u64),
    pub large: (u64, u64),
}

impl Scale {
    /// Returns the simulation steps per second of real time.
    pub fn steps_per_second(&self) -> f64 {
        self.steps as f64 / (self.took.0 + self.took.1).as_secs_f64()
    }
}

/// Runs the scenario; `progress` receives a text at the start of each stage.
///
/// # Errors
/// If the size is not supported, or nodes do not answer.
pub fn run(size: Size, progress: impl Fn(&str)) -> Result<Scale, StudyError> {
    check(&size)?;
    let start = Instant::now();
    let Size { nodes, servers, .. } = size;
    progress(&format!("{nodes} nodes and {} routers start and join a session", size.routers));
    let (clients, servers) = (1..nodes + 1, nodes + 1..nodes + 1 + servers);
    let mut session = Session::begin(&options(&size))?;
    session.add(Test {
        name: "load".into(),
        clients,
        servers: servers.clone(),
        spec: brw(size.direction, size.transfer),
        concurrency: 1,
    })?;
    let joined = start.elapsed();
    progress("the load starts");
    session.start(Duration::ZERO)?;
    // Connections are opened, and discoveries end.
    pass(&mut session, WARM_UP.max(size.round_trip * 10))?;
    progress(&format!("measuring for {} s", size.measured.as_secs_f64()));
    let before = session.answered_by(servers.clone());
    pass(&mut session, size.measured)?;
    let after = session.answered_by(servers);
    let counts = after.iter().zip(&before).map(|(after, before)| after - before);
    Ok(scale(&size, &session, &counts.collect::<Vec<_>>(), (joined, start.elapsed() - joined)))
}

fn check(size: &Size) -> Result<(), StudyError> {
    let Size { nodes, routers, servers, routers_of_node, .. } = *size;
    let complain = |what: &str| Err(StudyError(what.to_owned()));
    match () {
        () if !(1..=NODES_MAX).contains(&nodes) => {
            complain("the number of nodes must be 1 to 16,000")
        }
        () if !(1..=ROUTERS_MAX).contains(&routers) => {
            complain("the number of routers must be 1 to 1,000")
        }
        () if !(1..=1000).contains(&servers) => {
            complain("the number of servers must be 1 to 1,000")
        }
        () if !(1..=routers).contains(&routers_of_node) => {
            complain("the number of routers per node must be 1 to the number of routers")
        }
        () => Ok(()),
    }
}

fn scale(size: &Size, session: &Session, counts: &[u64], took: (Duration, Duration)) -> Scale {
    let rpcs: u64 = counts.iter().sum();
    let transfer = f64::from(size.transfer);
    let round_trips = if size.direction == Direction::Write { 2 } else { 1 };
    let ideal = (size.round_trip * round_trips).as_secs_f64();
    let world = &session.world;
    let (mut forwarded, mut buffers) = (Vec::new(), Buffers::default());
    for router in routers(size) {
        let Some(node) = world.node(HostId(router)) else { continue };
        let routing = node.lnet().routing();
        forwarded.push(routing.transits.iter().map(|transit| transit.bytes).sum());
        let used = |class: usize| {
            let pool = &routing.pools[class];
            (i64::from(pool.buffers) - pool.credits_min).max(0) as u64
        };
        let more = |most: &mut (u64, u64), class: usize| {
            *most = (most.0.max(used(class)), routing.pools[class].buffers.into());
        };
        more(&mut buffers.tiny, 0);
        more(&mut buffers.small, 1);
        more(&mut buffers.large, 2);
    }
    let conns = |host| world.node(host).map_or(0, |node| node.socklnd().conns().len() as u64);
    Scale {
        size: *size,
        bytes_per_second: rpcs as f64 * transfer / size.measured.as_secs_f64(),
        rpcs,
        ideal_bytes_per_second: f64::from(size.nodes) * transfer / ideal,
        router_shares: shares(&forwarded),
        server_shares: shares(counts),
        connections: world.host_ids().map(conns).sum::<u64>() / 2,
        buffers,
        steps: session.steps,
        took,
        memory: memory(),
        virtual_time: Duration::from_nanos(world.now().0),
    }
}

fn pass(session: &mut Session, time: Duration) -> Result<(), StudyError> {
    let end = session.world.now() + time;
    let what = "the end of the measurement";
    session.until(what, time + Duration::from_secs(60), |session| session.world.now() >= end)
}

fn routers(size: &Size) -> std::ops::Range<u32> {
    let first = 1 + size.nodes + size.servers;
    first..first + size.routers
}

fn options(size: &Size) -> Options {
    let routers = routers(size);
    let servers = size.nodes + 1..routers.start;
    let fast = Line::new(100_000, Duration::ZERO);
    let node = Line::new(10_000, Duration::ZERO);
    // The ocean is between the routers and the servers.
    let far = Line::new(10_000, size.round_trip / 2);
    let near_site = Site::of(0..1 + size.nodes, node.clone()).and(routers.clone(), 0, node);
    let far_site = Site::of(servers.clone(), fast).and(routers.clone(), 1, far);
    let tcp = Tcp { mtu: 9000, ..Tcp::default() };
    let network = Network::sites(vec![near_site, far_site], vec![]);
    Options {
        network: Network { tcp, ..network },
        rails: Some(rails(size, servers, routers.clone())),
        selftest: Some(Selftest::default()),
        ..Options::plain(routers.end)
    }
}

/// The interfaces of all nodes, and their routes.
fn rails(size: &Size, servers: std::ops::Range<u32>, routers: std::ops::Range<u32>) -> Rails {
    let nets = |host: u32| match host {
        _ if routers.contains(&host) => vec![0, 1],
        _ if servers.contains(&host) => vec![1],
        _ => vec![0],
    };
    let mut rails = Rails::even(1, &[0]);
    rails.interfaces = (0..routers.end).map(nets).collect();
    rails.routers = routers.clone().map(HostId).collect();
    let [near, far] = [0, 1].map(|number| Net::new(Net::TCP.kind(), number));
    let route = |host: u32, router: u32, to: Net, index: u32, own: Net| {
        // The simulator's addresses: 10.0.0.1 and up, 10.1.0.1 and up.
        let address = std::net::Ipv4Addr::from(0x0a00_0001 + router + (index << 16));
        let gateway = Nid::of_ip(own, address.into());
        (HostId(host), RouteConfig::new(to, gateway))
    };
    let apart = size.routers / size.routers_of_node;
    for host in 0..servers.start {
        // Host 0 is the console; it uses as many routers as a client.
        for n in 0..size.routers_of_node {
            let router = routers.start + (host + n * apart) % size.routers;
            rails.routes.push(route(host, router, far, 0, near));
        }
    }
    for (number, host) in servers.clone().enumerate() {
        // The routers that its clients use, also for its own requests.
        let clients = (1..servers.start).skip(number).step_by(servers.len());
        let all = clients.flat_map(|client| {
            (0..size.routers_of_node).map(move |n| (client + n * apart) % size.routers)
        });
        let all: BTreeSet<u32> = all.collect();
        let router = |n| route(host, routers.start + n, near, 1, far);
        rails.routes.extend(all.into_iter().map(router));
    }
    rails.routing.buffers = RouterBuffers::default();
    // A node is also reached by routers that it does not use itself.
    rails.globals.drop_asym_route = false;
    rails
}

/// Returns the peak memory of this process in bytes, as reported by Linux.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

const NODES_MAX: u32 = 16_000;
const ROUTERS_MAX: u32 = 1000;
const WARM_UP: Duration = Duration::from_secs(1);
