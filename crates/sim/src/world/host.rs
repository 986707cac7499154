//! One host: addresses, links, and a node while it is up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fulmar_base::{BufferId, ConnId, Errno, Time};
use fulmar_lnd::{NiConfig, NiTunables};
use fulmar_lnet::{Globals, RoutingConfig, Service, ServiceConfig, ServiceId};
use fulmar_lnet_wire::Pid;
use fulmar_lnet_wire::socklnd::Version;
use fulmar_node::{Config, Node};
use fulmar_selftest::{Config as SelftestConfig, SelftestService};

use super::forgery::PingCorruption;
use super::router::RouterBuffer;
use super::{ScheduledEvent, TcpId, World};
use crate::clock::Clock;
use crate::hostile::HostileHost;
use crate::tcp::Side;

/// A host of the simulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// An interface of a host: an address and a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The host.
    pub host: HostId,
    /// The index of the interface.
    pub index: u8,
}

impl Port {
    /// Returns the address: 10.0.0.1 and up, for second interfaces 10.1.0.1 and up.
    pub(crate) fn ip(self) -> IpAddr {
        let of_host = FIRST_ADDRESS + self.host.0;
        Ipv4Addr::from(of_host + (u32::from(self.index) << PORT_SHIFT)).into()
    }

    pub(crate) fn of_ip(ip: IpAddr) -> Option<Self> {
        let IpAddr::V4(ip) = ip else { return None };
        let number = u32::from(ip).checked_sub(FIRST_ADDRESS)?;
        let index = u8::try_from(number >> PORT_SHIFT).ok()?;
        Some(Self { host: HostId(number % (1 << PORT_SHIFT)), index })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.host, self.index))
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("n{}", self.0))
    }
}

#[derive(Debug)]
pub(super) struct Host {
    /// `None` while it is down.
    pub(super) node: Option<Node>,
    /// What runs in place of a node, if the host is hostile.
    pub(super) hostile: Option<HostileHost>,
    /// The selftest of the node, if the options of the run have one.
    pub(super) selftest: Option<SelftestService>,
    /// Counts the starts of the node.
    pub(super) incarnation: u32,
    /// Its clock.
    pub(super) clock: Clock,
    /// Its links, one for each interface.
    pub(super) links: Vec<Link>,
    pub(super) paused_until: Time,
    /// If it reads slowly: the pause after each segment.
    pub(super) read_pause: Option<Duration>,
    /// The time of the current timer event; others are stale.
    pub(super) armed: Option<Time>,
    pub(super) connections: BTreeMap<ConnId, (TcpId, Side)>,
    /// Connections with data that their node does not read yet.
    pub(super) stalled: BTreeSet<ConnId>,
    /// The buffers of a router.
    pub(super) router_buffers: BTreeMap<BufferId, RouterBuffer>,
    /// The corruption of its next reply to a ping.
    pub(super) ping_corruption: Option<PingCorruption>,
    /// The next privileged source port.
    next_port: u16,
}

/// The link of one interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The streams that wait to send.
    pub(super) ready: VecDeque<(TcpId, Side)>,
    /// Whether an event waits for the lane to be free.
    pub(super) is_serving: bool,
    /// All packets are dropped.
    pub(super) cut: bool,
    /// All packets are dropped, and the node is notified.
    pub(super) down: bool,
    /// Connections are refused.
    pub(super) refuses: bool,
    /// The administrator has removed the interface.
    pub(super) removed: bool,
}

impl Host {
    pub(super) fn new(ports: usize, clock: Clock) -> Self {
        Self {
            node: None,
            hostile: None,
            selftest: None,
            incarnation: 0,
            clock,
            links: vec![Link::default(); ports],
            router_buffers: BTreeMap::new(),
            ping_corruption: None,
            paused_until: Time::ZERO,
            read_pause: None,
            armed: None,
            connections: BTreeMap::new(),
            stalled: BTreeSet::new(),
            next_port: 0,
        }
    }

    /// Returns the next timeout of the node or its selftest, while it is up.
    fn poll_timeout(&self) -> Option<Time> {
        let selftest = self.selftest.as_ref().and_then(Service::poll_timeout);
        self.node.as_ref()?.poll_timeout().into_iter().chain(selftest).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(node) = &mut self.node {
            node.handle_timeout(now);
        }
        if let Some(selftest) = &mut self.selftest {
            selftest.handle_timeout(now);
        }
    }

    /// Returns the next privileged source port, 1023 downwards.
    pub(super) fn port(&mut self) -> u16 {
        self.next_port = (self.next_port + 1) % 512;
        1023 - self.next_port
    }
}

impl World {
    /// Starts a node on a host that has none.
    pub(super) fn start(&mut self, host: HostId) {
        let now = self.now;
        let node = self.new_node(host).expect("our configuration is valid");
        let selftest = self.new_selftest();
        let this = self.host_mut(host);
        assert!(this.node.is_none(), "{host} runs already");
        this.node = Some(node);
        this.selftest = selftest;
        this.armed = None;
        let incarnation = this.incarnation;
        for link in &mut this.links {
            link.removed = false;
        }
        self.log.line(now, host, "-", format_args!("start incarnation {incarnation}"));
        self.drain(host);
        self.notify_links(host);
    }

    fn new_node(&mut self, host: HostId) -> Result<Node, Errno> {
        let (time, now) = (self.now, self.shown(host));
        let options = &self.options;
        // Both must differ between incarnations, like nanoseconds of a wall clock.
        let birth = (time.0 + 1) << 12 | u64::from(host.0 & 0xfff);
        let version = if host.0 < options.old_nodes { Version::V2 } else { Version::V3 };
        let rails = options.rails.clone();
        let globals = rails.as_ref().map_or_else(Globals::default, |rails| rails.globals.clone());
        let globals = Globals { discovery: options.discovery, ..globals };
        let routing = rails.as_ref().map_or_else(Default::default, |rails| rails.routing);
        let mut node = Node::new(Config {
            lnet: fulmar_lnet::Config {
                pid: Pid::LUSTRE,
                interface_cookie: birth,
                globals,
                routing: RoutingConfig { forwarding: options.is_router(host), ..routing },
            },
            socklnd: fulmar_socklnd::Config {
                version,
                zc_min_payload: options.zc_min_payload,
                ..fulmar_socklnd::Config::default()
            },
        });
        for port in options.ports(host) {
            node.admin(now).add_ni(self.ni_config(port, birth))?;
        }
        node.admin(now).start();
        for route in self.routes.get(&host).into_iter().flatten().copied() {
            node.admin(now).route_add(route)?;
        }
        assert_eq!(node.open_service(ServiceConfig::default()), APPLICATION);
        if options.selftest.is_some() {
            assert_eq!(node.open_service(SelftestService::CONFIG), SELFTEST);
            let mut opened = Ok(());
            node.service(now, SELFTEST).post(SelftestService::portals(), |result| {
                opened = opened.and(result.map(drop));
            });
            opened?;
        }
        Ok(node)
    }

    fn new_selftest(&self) -> Option<SelftestService> {
        let selftest = self.options.selftest.as_ref()?;
        // Each incarnation reads the clock when it starts.
        let wall_clock = WALL_CLOCK + self.now.0;
        Some(SelftestService::new(SelftestConfig { wall_clock, ..selftest.config.clone() }))
    }

    pub(super) fn ni_config(&self, port: Port, incarnation: u64) -> NiConfig {
        let options = &self.options;
        let tunables = NiTunables {
            peer_credits: options.peer_credits,
            credits: options.credits,
            ..NiTunables::default()
        };
        let conns_per_peer = options.conns_per_peer;
        let (nid, conns_max) = (options.nid(port), conns_per_peer);
        NiConfig { nid, tunables, incarnation, conns_per_peer, conns_max, timeout: None }
    }

    /// Arms the timer for the next timeout of the node.
    pub(super) fn arm(&mut self, host: HostId) {
        let now = self.now;
        let this = self.host_mut(host);
        let Some(at) = this.poll_timeout() else { return };
        let at = this.clock.when(at).max(now);
        if this.armed.is_none_or(|armed| at < armed) {
            this.armed = Some(at);
            self.queue.push(at, ScheduledEvent::Timer { host, at });
        }
    }

    /// Arms the timer again when the timeout may have moved to a later time.
    pub(super) fn arm_anew(&mut self, host: HostId) {
        self.host_mut(host).armed = None;
        self.arm(host);
    }

    /// Returns the time that the clock of a host shows.
    pub(super) fn shown(&self, host: HostId) -> Time {
        self.host(host).clock.show(self.now)
    }

    pub(super) fn timer(&mut self, host: HostId, at: Time) {
        let now = self.now;
        let this = self.host_mut(host);
        if this.armed != Some(at) {
            return;
        }
        if this.paused_until > now {
            let at = this.paused_until;
            this.armed = Some(at);
            return self.queue.push(at, ScheduledEvent::Timer { host, at });
        }
        this.armed = None;
        let now = this.clock.show(now);
        if this.poll_timeout().is_some_and(|due| due <= now) {
            this.handle_timeout(now);
            let due = this.poll_timeout();
            self.drain(host);
            if due.is_some_and(|due| due <= now) {
                self.broken(host, format!("handle_timeout at {now} leaves a deadline of {due:?}"));
            }
        }
        self.arm(host);
    }
}

/// The service of the workload's applications; the first of each node.
pub(super) const APPLICATION: ServiceId = ServiceId(0);
/// The selftest service, if enabled; the second of each node.
pub(super) const SELFTEST: ServiceId = ServiceId(1);
/// A time in 2026, in nanoseconds since 1970.
const WALL_CLOCK: u64 = 1_780_000_000_000_000_000;
/// Bits of an address from this one on are the index of the interface.
const PORT_SHIFT: u32 = 16;
/// 10.0.0.1.
const FIRST_ADDRESS: u32 = 0x0a00_0001;
