//! The hosts and nodes of an attack.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};

use fulmar_lnet::RouteConfig;
use fulmar_lnet_wire::{Net, NetType, Nid};
use fulmar_net::{NiOptions, Node as Resident, Options, Runtime};
use fulmar_socklnd::AcceptMode;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::attacks::{ALLOWED, BEHIND};
use super::{Orders, Setup, Tally};
use crate::lab::{Host, Lab, Node, Program, Settings, Switch};

/// ```text
/// attacked 10.1.0.1 ── switch ── attacker 10.1.1.1, and behind it 10.3.0.0/16
///    │                   └────── honest   10.1.0.2 a node, .3 pings, .5 to .8 victims, newcomers
///    └── 10.2.0.1, 10.2.0.2 behind      (setup Router)
/// ```
pub(super) struct Stage {
    pub(super) setup: Setup,
    /// The attacked node.
    pub(super) attacked: Node,
    /// The node from which `lst` is run.
    pub(super) honest: Node,
    /// Behind the attacked node, if it routes.
    _behind: Option<Node>,
    /// Nodes whose messages the attacker wants.
    victims: Vec<Resident>,
    runtime: Runtime,
    newcomers: AtomicU8,
    attacker: Host,
    honest_host: Host,
    _switches: Vec<Switch>,
}

pub(super) const ATTACKED: &str = "10.1.0.1@tcp";
pub(super) const HONEST: &str = "10.1.0.2@tcp";
const BEHIND_ATTACKED: &str = "10.2.0.2@tcp1";
const ATTACKED_IPV6: &str = "fd00:77::1@tcp6";
/// The NIDs of two nodes. The first is known to the attacked node before the attack.
pub(super) const VICTIMS: [[&str; 2]; 2] =
    [["10.1.0.5@tcp", "10.1.0.6@tcp"], ["10.1.0.7@tcp", "10.1.0.8@tcp"]];
const PINGER: [u8; 4] = [10, 1, 0, 3];
const DESCRIPTORS: u64 = 256;
/// Lines of a log that describe a failure.
const LOG_LINES: usize = 20;

impl Stage {
    /// Creates the hosts and starts the nodes. The attacked node waits `timeout` seconds for
    /// answers, if given.
    pub(super) fn new(lab: &Lab, setup: Setup, timeout: Option<u32>) -> Result<Self, String> {
        let mut switches = vec![lab.switch("front")?];
        let host = |name: &str, address: &str| -> Result<Host, String> {
            let host = lab.host(name)?;
            switches[0].connect(&host, "eth0", None)?;
            host.address("eth0", address)?;
            Ok(host)
        };
        let attacked = host("attacked", "10.1.0.1/16")?;
        let honest_host = host("honest", "10.1.0.2/16")?;
        let attacker = host("attacker", "10.1.1.1/16")?;
        attacked.ip(&["route", "add", "10.3.0.0/16", "via", "10.1.1.1"])?;
        attacker.ip(&["route", "add", "local", "10.3.0.0/16", "dev", "lo"])?;
        if setup == Setup::Ipv6 {
            let switch = lab.switch("ipv6")?;
            for (host, address) in [(&attacked, "fd00:77::1/64"), (&attacker, "fd00:77::100/64")] {
                switch.connect(host, "eth1", None)?;
                host.address("eth1", address)?;
            }
            switches.push(switch);
            attacked.ip(&["-6", "route", "add", "fd00:3::/64", "via", "fd00:77::100"])?;
            attacker.ip(&["-6", "route", "add", "local", "fd00:3::/64", "dev", "lo"])?;
            // IPv4 needs only the route.
            attacker.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv6/ip_nonlocal_bind"])?;
        }
        let behind = match setup {
            Setup::Router => Some(behind(lab, &attacked)?),
            _ => None,
        };
        let mut settings = settings(setup);
        if let Some(timeout) = timeout {
            settings = settings.lnet("lnet_transaction_timeout", timeout);
        }
        let node = lab.node(&attacked, &settings)?;
        if setup == Setup::FewDescriptors {
            limit_descriptors(node.id())?;
        }
        let mut settings = Settings::networks("tcp(eth0)");
        if setup == Setup::Router {
            settings = settings.routes(&format!("tcp1 {ATTACKED}"));
        }
        let honest = lab.node(&honest_host, &settings)?;
        let runtime = honest_host.inside(|| Runtime::new(Some(1)))?;
        let runtime = runtime.map_err(|error| error.to_string())?;
        let mut stage = Self {
            setup,
            attacked: node,
            honest,
            _behind: behind,
            victims: Vec::new(),
            runtime,
            newcomers: AtomicU8::new(0),
            attacker,
            honest_host,
            _switches: switches,
        };
        for nids in VICTIMS {
            let nids = nids.map(nid);
            let node = stage.resident(&nids)?;
            stage.victims.push(node);
        }
        for victim in VICTIMS[0] {
            stage.reach(victim)?;
        }
        Ok(stage)
    }

    /// Adds the last lines of the logs to the description of a failure.
    pub(super) fn explain(&mut self, why: &str) -> String {
        let mut text = why.trim().to_owned();
        for (name, node) in [("attacked", &mut self.attacked), ("honest", &mut self.honest)] {
            let log = node.new_log();
            let last = &log[log.len().saturating_sub(LOG_LINES)..];
            text += &format!("\nlog of the {name} node:\n  {}", last.join("\n  "));
        }
        text
    }

    /// Returns the NID that honest nodes use.
    pub(super) fn served(&self) -> &'static str {
        if self.setup == Setup::Router { BEHIND_ATTACKED } else { ATTACKED }
    }

    /// Starts the process of an attack.
    pub(super) fn attack(&self, lab: &Lab, name: &str, seed: u64) -> Result<Program, String> {
        let target = if self.setup == Setup::Ipv6 { ATTACKED_IPV6 } else { ATTACKED };
        let behind = (self.setup == Setup::Router).then(|| nid("10.2.0.1@tcp1"));
        let known = VICTIMS.as_flattened().iter().copied().chain([HONEST, "10.1.0.3@tcp"]);
        let orders = Orders {
            attack: name.to_owned(),
            target: nid(target),
            behind,
            victims: known.map(nid).collect(),
            seed,
        };
        let orders = serde_json::to_string(&orders).expect("orders are plain");
        Program::start(self.attacker.command(&lab.attacker()).args(["attack", &orders]))
    }

    /// Ends an attack, and returns what it has counted.
    pub(super) fn end(program: Program) -> Result<Tally, String> {
        let printed = program.finish()?;
        let last = printed.lines().last().unwrap_or_default();
        serde_json::from_str(last).map_err(|error| format!("no tally ({error}) in {printed}"))
    }

    /// Lets the attacked node ping another.
    pub(super) fn reach(&self, nid: &str) -> Result<(), String> {
        self.attacked.run(&format!("lnetctl ping --timeout 5000 {nid}")).map(drop)
    }

    /// Starts the node that pings.
    pub(super) fn pinger(&self) -> Result<Resident, String> {
        self.resident(&[Nid::of_ip(Net::TCP, PINGER.into())])
    }

    /// Starts a node at an address of its own.
    pub(super) fn newcomer(&self) -> Result<Resident, String> {
        let number = self.newcomers.fetch_add(1, Ordering::Relaxed);
        self.resident(&[Nid::of_ip(Net::TCP, Ipv4Addr::new(10, 1, 2, number + 1).into())])
    }

    /// Calls a node of this process on its host.
    pub(super) fn inside<R>(&self, work: impl FnOnce() -> R) -> R {
        self.honest_host.inside(work).expect("the host exists as long as the stage")
    }

    /// Starts a node of this process, on the honest host.
    fn resident(&self, nids: &[Nid]) -> Result<Resident, String> {
        let mut options = Options::default();
        options.config.socklnd.accept = AcceptMode::All;
        for nid in nids {
            let ip = nid.ip().ok_or("the nodes have addresses")?;
            self.honest_host.address("eth0", &format!("{ip}/16"))?;
            options.nis.push(NiOptions { conns_per_peer: 1, ..NiOptions::at(ip) });
        }
        self.inside(|| {
            let node = Resident::start(&self.runtime, options);
            let node = node.map_err(|error| error.to_string())?;
            if self.setup == Setup::Router {
                let (net, gateway) = (Net::new(NetType::TCP, 1), nid(ATTACKED));
                let route = RouteConfig::new(net, gateway);
                let added = node.admin().route_add(route);
                added.map_err(|errno| format!("cannot add the route: {errno}"))?;
            }
            Ok(node)
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.victims.iter().for_each(Resident::stop);
    }
}

/// Starts a node behind the attacked one.
fn behind(lab: &Lab, attacked: &Host) -> Result<Node, String> {
    let host = lab.host("behind")?;
    attacked.cable("eth1", (&host, "eth0"))?;
    attacked.address("eth1", "10.2.0.1/16")?;
    host.address("eth0", "10.2.0.2/16")?;
    lab.node(&host, &Settings::networks("tcp1(eth0)").routes("tcp 10.2.0.1@tcp1"))
}

/// Gives a process only a few descriptors.
fn limit_descriptors(process: u32) -> Result<(), String> {
    let few = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let limited = prlimit(process, Resource::Nofile, few);
    limited.map(drop).map_err(|error| format!("cannot limit the descriptors: {error}"))
}

fn settings(setup: Setup) -> Settings {
    let plain = Settings::networks("tcp(eth0)");
    match setup {
        Setup::Plain | Setup::FewDescriptors | Setup::Targets => plain,
        Setup::Gateway => plain.routes(&format!("{BEHIND} 10.3.0.1@tcp")),
        Setup::Allowed => plain.lnet("accept_nid", format!("\"{ALLOWED} from 10.3.0.1\"")),
        Setup::Router => Settings::networks("tcp(eth0),tcp1(eth1)").router(),
        Setup::Ipv6 => Settings::networks("tcp(eth0),tcp6(eth1)"),
    }
}

pub(super) fn nid(text: &str) -> Nid {
    text.parse().expect("a NID of this file")
}
