//! Trials of `lst` across the link.

use std::time::Duration;

use super::sites::{DEVICE, LINK_IPS, NODE_IPS, ROUTER_IPS};
use super::{Lst, Node, Settings, Setup, Sites};

/// Durations of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Warm-up, in which TCP opens its windows.
    pub warmup: Duration,
    /// Measurement.
    pub duration: Duration,
}

impl Trial {
    /// Runs `lst` from one site to the other, and returns the payload in bytes per second.
    ///
    /// # Errors
    /// Fails if nodes do not start or RPCs failed.
    pub fn run(&self, sites: &Sites, setup: &Setup) -> Result<f64, String> {
        let nodes = Nodes::start(sites, setup)?;
        let test = format!("brw {} --size {}", setup.direction.name(), setup.size);
        let lst = Lst {
            concurrency: setup.concurrency,
            warmup: self.warmup.as_secs_f64(),
            ..Lst::new(&nodes.nids[0], &nodes.nids[1], &test, self.duration.as_secs_f64())
        };
        lst.run(&nodes.ends[0])?.rate()
    }
}

/// The nodes of a trial, stopped at its end.
struct Nodes {
    ends: [Node; 2],
    nids: [String; 2],
    _routers: Vec<Node>,
}

impl Nodes {
    fn start(sites: &Sites, setup: &Setup) -> Result<Self, String> {
        let [a, b] = sites.ends();
        if !sites.ocean().routed {
            let settings = setup.apply(Settings::networks(&format!("tcp({DEVICE})")));
            let ends = [sites.start(a, &settings)?, sites.start(b, &settings)?];
            let nids = LINK_IPS.map(|address| format!("{address}@tcp"));
            return Ok(Self { ends, nids, _routers: Vec::new() });
        }
        let routers = sites.start_routers(setup)?;
        let ends =
            [sites.start(a, &behind_router(0, setup))?, sites.start(b, &behind_router(1, setup))?];
        sites.wait_for_routes(&ends)?;
        Ok(Self { ends, nids: [0, 1].map(nid_behind_router), _routers: routers })
    }
}

/// Returns the settings of a node behind the router of site A (0) or B (1).
pub fn behind_router(side: usize, setup: &Setup) -> Settings {
    let (own, other) = (NETS[side], NETS[1 - side]);
    let gate = format!("{}@{own}", ROUTER_IPS[side]);
    let settings = Settings::networks(&format!("{own}(eth0)"));
    setup.apply(settings.routes(&format!("tcp1 {gate}; {other} 2 {gate}")))
}

/// Returns its NID.
pub fn nid_behind_router(side: usize) -> String {
    format!("{}@{}", NODE_IPS[side], NETS[side])
}

impl Sites {
    /// Starts a router at each end of the link.
    ///
    /// # Errors
    /// Why a node does not start.
    pub fn start_routers(&self, setup: &Setup) -> Result<Vec<Node>, String> {
        let router = |(side, link_host)| {
            let (own, other) = (NETS[side], NETS[1 - side]);
            let settings = Settings::networks(&format!("{own}(eth0),tcp1({DEVICE})"));
            let route = format!("{other} {}@tcp1", LINK_IPS[1 - side]);
            self.start(link_host, &setup.apply(settings.routes(&route).router()))
        };
        self.link_hosts().into_iter().enumerate().map(router).collect()
    }

    /// Waits until the nodes behind both routers can reach each other.
    ///
    /// # Errors
    /// Which one cannot.
    pub fn wait_for_routes(&self, ends: &[Node; 2]) -> Result<(), String> {
        // A node that called a router too early retries after a while.
        for (side, node) in ends.iter().enumerate() {
            let ping = format!("lnetctl ping --timeout 2 {}", nid_behind_router(1 - side));
            node.wait_until("connected to the other", |node| node.run(&ping).is_ok())?;
        }
        Ok(())
    }
}

impl Setup {
    fn apply(&self, settings: Settings) -> Settings {
        let mut settings = settings
            .ksocklnd("peer_credits", self.peer_credits)
            .ksocklnd("credits", self.credits)
            .ksocklnd("peer_buffer_credits", self.peer_buffer_credits)
            .ksocklnd("conns_per_peer", self.conns_per_peer);
        if let Some(least) = self.zc_min_payload() {
            settings = settings.ksocklnd("zc_min_payload", least);
        }
        match self.large_buffers {
            0 => settings,
            buffers => settings.lnet("large_router_buffers", buffers),
        }
    }
}

/// The networks of the sites behind routers.
const NETS: [&str; 2] = ["tcp", "tcp2"];
