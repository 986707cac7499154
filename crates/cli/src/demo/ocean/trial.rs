//! Trials of `lst` across the link.

use std::time::Duration;

use fulmar_tune::model::Direction;

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
        let test = match setup.direction {
            Direction::Read => "brw read --size 1M",
            Direction::Write => "brw write --size 1M",
        };
        let lst = Lst {
            concurrency: setup.concurrency,
            warmup: self.warmup.as_secs_f64(),
            ..Lst::new(&nodes.nids[0], &nodes.nids[1], test, self.duration.as_secs_f64())
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
        let start = |at, settings: Settings| sites.start(at, &setup.apply(settings));
        let [a, b] = sites.ends();
        if !sites.ocean().routed {
            let settings = || Settings::networks(&format!("tcp({DEVICE})"));
            let ends = [start(a, settings())?, start(b, settings())?];
            let nids = LINK_IPS.map(|address| format!("{address}@tcp"));
            return Ok(Self { ends, nids, _routers: Vec::new() });
        }
        let mut routers = Vec::new();
        for (side, link_host) in sites.link_hosts().into_iter().enumerate() {
            let (own, other) = (NETS[side], NETS[1 - side]);
            let settings = Settings::networks(&format!("{own}(eth0),tcp1({DEVICE})"));
            let route = format!("{other} {}@tcp1", LINK_IPS[1 - side]);
            routers.push(start(link_host, settings.routes(&route).router())?);
        }
        let end = |side: usize, at| {
            let (own, other) = (NETS[side], NETS[1 - side]);
            let gate = format!("{}@{own}", ROUTER_IPS[side]);
            let settings = Settings::networks(&format!("{own}(eth0)"));
            start(at, settings.routes(&format!("tcp1 {gate}; {other} 2 {gate}")))
        };
        let ends = [end(0, a)?, end(1, b)?];
        let nids = [0, 1].map(|side| format!("{}@{}", NODE_IPS[side], NETS[side]));
        // A node that called a router too early retries after a while.
        for (side, node) in ends.iter().enumerate() {
            let ping = format!("lnetctl ping --timeout 2 {}", nids[1 - side]);
            node.wait_until("connected to the other", |node| node.run(&ping).is_ok())?;
        }
        Ok(Self { ends, nids, _routers: routers })
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
