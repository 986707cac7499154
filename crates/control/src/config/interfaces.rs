//! NIDs for the names of interfaces. Spec: lnet-admin §18.1, lnet-wire §5.2.

use std::net::IpAddr;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lnd::NiTunables;
use fulmar_lnet_wire::{Net, NetType, Nid};
use fulmar_net::Interface;
use thiserror::Error;

use super::model::{Ip2NetsConf, NetConf, NiConf};
use super::module_strings::Ip2NetsRule;
use super::node::NodeConfig;
use super::parameters::{Module, Parameters};

/// The source of the machine's interfaces.
pub trait Interfaces {
    /// Returns all interfaces in the system's order.
    fn list(&self) -> Vec<Interface>;
}

/// An NI that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NiSpec {
    /// Its NID.
    pub nid: Nid,
    /// The name of its interface.
    pub interface: String,
    /// Its address is not the first usable one of the interface: the name alone would not select it.
    pub is_secondary: bool,
    /// Its credits.
    pub tunables: NiTunables,
    /// Connections of each bulk kind to a peer, 1 or more.
    pub conns_per_peer: u32,
    /// How long its LND waits for a peer, if not for the time of the node.
    pub timeout: Option<Duration>,
    /// The IP type of service; −1 to leave it.
    pub tos: i32,
    /// CPU partitions, if they were given.
    pub cpts: Option<Vec<u32>>,
}

impl NiSpec {
    /// Returns whether it is at the interface of this name, or has this address.
    pub fn is_at(&self, interface: &str) -> bool {
        let ip = interface.parse::<IpAddr>().ok();
        self.interface == interface || ip.is_some() && self.nid.ip() == ip
    }
}

/// Why a network cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ResolveError {
    /// The error number of Lustre's tools.
    pub errno: Errno,
    /// The error.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl ResolveError {
    fn new(errno: Errno, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { errno, message: message.into(), help: help.into() }
    }
}

type Result<T> = std::result::Result<T, ResolveError>;

/// Returns the NIs of `nets`, in order. `parameters` are the defaults of an NI.
///
/// # Errors
/// If an interface or a network is not available; the help lists the available ones.
pub fn resolve(
    nets: &[NetConf],
    parameters: &Parameters,
    interfaces: &dyn Interfaces,
) -> Result<Vec<NiSpec>> {
    let finder = Finder { all: interfaces.list(), parameters };
    let mut specs: Vec<NiSpec> = Vec::new();
    for net in nets {
        for ni in &net.nis {
            specs.extend(finder.nis(net.net, ni)?);
        }
    }
    for (index, spec) in specs.iter().enumerate() {
        if specs[..index].iter().any(|earlier| earlier.nid == spec.nid) {
            let message = format!("{} ({}) is given twice", spec.nid, spec.interface);
            let help = "give each interface once for each network";
            return Err(ResolveError::new(Errno::EEXIST, message, help));
        }
    }
    Ok(specs)
}

/// Returns the NIs of entries of `ip2nets` in lnet.conf; the first matching entry of a net is used.
///
/// # Errors
/// If no entry matches, or an interface or a network is not available.
pub fn resolve_ip2nets(
    entries: &[Ip2NetsConf],
    parameters: &Parameters,
    interfaces: &dyn Interfaces,
) -> Result<Vec<NiSpec>> {
    let mut nets: Vec<NetConf> = Vec::new();
    for entry in entries {
        if nets.iter().any(|net| net.net == entry.net) {
            continue;
        }
        let named = &entry.ni.interfaces;
        let applies = |interface: &Interface| {
            let considered =
                named.is_empty() && !is_loopback(interface) || named.contains(&interface.name);
            considered && interface.up && matches(&interface.addresses, &entry.ranges)
        };
        let names: Vec<String> =
            interfaces.list().into_iter().filter(applies).map(|found| found.name).collect();
        if !names.is_empty() {
            let ni = NiConf { interfaces: names, ..entry.ni.clone() };
            nets.push(NetConf { net: entry.net, nis: vec![ni] });
        }
    }
    if nets.is_empty() {
        return Err(nothing_applies(&interfaces.list()));
    }
    resolve(&nets, parameters, interfaces)
}

pub(crate) fn node_nis(config: &NodeConfig, interfaces: &dyn Interfaces) -> Result<Vec<NiSpec>> {
    let parameters = &config.options.parameters;
    let mut nets = node_nets(config, interfaces)?;
    if !config.lnet.ip2nets.is_empty() {
        let mut specs = resolve(&nets, parameters, interfaces)?;
        specs.extend(resolve_ip2nets(&config.lnet.ip2nets, parameters, interfaces)?);
        return Ok(specs);
    }
    if nets.is_empty() {
        nets.push(NetConf { net: Net::TCP, nis: vec![NiConf::default()] });
    }
    resolve(&nets, parameters, interfaces)
}

/// Returns the networks of a node, except those of entries of `ip2nets` in lnet.conf.
fn node_nets(config: &NodeConfig, interfaces: &dyn Interfaces) -> Result<Vec<NetConf>> {
    let mut nets = config.lnet.nets.clone();
    nets.extend(config.options.networks.clone().unwrap_or_default());
    if let Some(rules) = &config.options.ip2nets {
        nets.extend(applying(rules, &interfaces.list())?);
    }
    Ok(nets)
}

/// Returns all that keeps the networks of a node from being started.
pub(crate) fn node_problems(config: &NodeConfig, interfaces: &dyn Interfaces) -> Vec<ResolveError> {
    let Err(first) = node_nis(config, interfaces) else { return Vec::new() };
    let nets = node_nets(config, interfaces).unwrap_or_default();
    let alone = |net: &NetConf| {
        let single = |ni| NetConf { net: net.net, nis: vec![ni] };
        let nis = net.nis.iter().flat_map(NiConf::singles);
        nis.map(single).collect::<Vec<_>>()
    };
    let parameters = &config.options.parameters;
    let each = nets.iter().flat_map(alone);
    let mut all: Vec<ResolveError> =
        each.filter_map(|net| resolve(&[net], parameters, interfaces).err()).collect();
    if !all.contains(&first) {
        all.insert(0, first);
    }
    all
}

/// Returns the nets of all the rules that apply to an address of this machine.
fn applying(rules: &[Ip2NetsRule], all: &[Interface]) -> Result<Vec<NetConf>> {
    let applies = |rule: &&Ip2NetsRule| all.iter().any(|i| matches(&i.addresses, &rule.patterns));
    let nets: Vec<NetConf> = rules.iter().filter(applies).flat_map(|r| r.nets.clone()).collect();
    if nets.is_empty() { Err(nothing_applies(all)) } else { Ok(nets) }
}

fn matches(ips: &[IpAddr], patterns: &[super::pattern::AddressPattern]) -> bool {
    let one = |ip: &IpAddr| patterns.iter().any(|pattern| pattern.matches(*ip));
    patterns.is_empty() || ips.iter().any(one)
}

fn nothing_applies(all: &[Interface]) -> ResolveError {
    let help = format!("add an entry for an address of this node, which has {}", describe(all));
    ResolveError::new(Errno::ENOENT, "No ip2nets rules applied", help)
}

fn is_loopback(interface: &Interface) -> bool {
    interface.addresses.iter().any(IpAddr::is_loopback)
}

/// `eth0 (10.0.0.1), lo (127.0.0.1)`.
fn describe(all: &[Interface]) -> String {
    let one = |interface: &Interface| {
        let ips: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        match (interface.up, ips.is_empty()) {
            (false, _) => format!("{} (down)", interface.name),
            (true, true) => format!("{} (no address)", interface.name),
            (true, false) => format!("{} ({})", interface.name, ips.join(", ")),
        }
    };
    if all.is_empty() {
        return "no interfaces".into();
    }
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

struct Finder<'a> {
    all: Vec<Interface>,
    parameters: &'a Parameters,
}

impl Finder<'_> {
    fn nis(&self, net: Net, ni: &NiConf) -> Result<Vec<NiSpec>> {
        if net.kind() != NetType::TCP {
            let message = format!("network {net} needs an LND that this node does not have");
            return Err(ResolveError::new(Errno::ENETDOWN, message, "use tcp, tcp1, tcp2, …"));
        }
        let mut specs = Vec::new();
        for name in &ni.interfaces {
            let (mut ip, interface) = self.by_name(net, name)?;
            // The NID of an export says which address was meant, if it is an export of this node.
            if let Some(meant) = ni.nid.and_then(Nid::ip).filter(|ip| has(interface, *ip)) {
                ip = meant;
            }
            specs.push(self.spec(net, ni, ip, interface));
        }
        if let (Some(nid), true) = (ni.nid, specs.is_empty()) {
            let (ip, interface) = self.by_nid(nid)?;
            specs.push(self.spec(net, ni, ip, interface));
        }
        if specs.is_empty() {
            let (ip, interface) = self.first(net)?;
            specs.push(self.spec(net, ni, ip, interface));
        }
        Ok(specs)
    }

    /// Finds an interface by its name or by one of its addresses.
    fn by_name(&self, net: Net, name: &str) -> Result<(IpAddr, &Interface)> {
        if let Ok(ip) = name.parse::<IpAddr>() {
            let found = self.all.iter().find(|interface| has(interface, ip));
            return found.map(|interface| (ip, interface)).ok_or_else(|| {
                self.missing(format!("no interface of this node has the address {name} for {net}"))
            });
        }
        let Some(interface) = self.all.iter().find(|interface| interface.name == name) else {
            return Err(self.missing(format!("there is no interface {name} for {net}")));
        };
        if !interface.up {
            let message = format!("the interface {name} for {net} is down");
            let help = format!("bring it up: ip link set {name} up");
            return Err(ResolveError::new(Errno::ENETDOWN, message, help));
        }
        let ip = address(interface).ok_or_else(|| {
            self.missing(format!("the interface {name} for {net} has no IP address"))
        })?;
        Ok((ip, interface))
    }

    fn by_nid(&self, nid: Nid) -> Result<(IpAddr, &Interface)> {
        let found = nid
            .ip()
            .and_then(|ip| Some((ip, self.all.iter().find(|interface| has(interface, ip))?)));
        found.ok_or_else(|| self.missing(format!("no interface of this node has the NID {nid}")))
    }

    /// Finds the first interface that other nodes can reach.
    fn first(&self, net: Net) -> Result<(IpAddr, &Interface)> {
        let usable = |i: &&Interface| i.up && !is_loopback(i) && address(i).is_some();
        let found = self.all.iter().find(usable).and_then(|i| Some((address(i)?, i)));
        found.ok_or_else(|| self.missing(format!("no interface can be used for {net}")))
    }

    fn missing(&self, message: String) -> ResolveError {
        let help = format!("use one of this node's: {}", describe(&self.all));
        ResolveError::new(Errno::ENETDOWN, message, help)
    }

    fn spec(&self, net: Net, ni: &NiConf, ip: IpAddr, found: &Interface) -> NiSpec {
        let sock = |name| self.parameters.number(Module::Ksocklnd, name);
        let given = &ni.tunables;
        let mut tunables = self.parameters.tunables();
        tunables.peer_timeout = given.peer_timeout.unwrap_or(tunables.peer_timeout);
        // 0 stands for the default.
        let some = |n: Option<u32>| n.filter(|n| *n > 0);
        tunables.peer_credits = some(given.peer_credits).unwrap_or(tunables.peer_credits);
        tunables.peer_buffer_credits =
            given.peer_buffer_credits.unwrap_or(tunables.peer_buffer_credits);
        tunables.credits = some(given.credits).unwrap_or(tunables.credits);
        let conns = ni.lnd.conns_per_peer.or(sock("conns_per_peer").map(|n| n as u32));
        let timeout = some(ni.lnd.timeout);
        NiSpec {
            nid: Nid::of_ip(net, ip),
            interface: found.name.clone(),
            is_secondary: address(found) != Some(ip),
            tunables,
            conns_per_peer: conns
                .filter(|conns| *conns > 0)
                .unwrap_or_else(|| found.conns_per_peer()),
            timeout: timeout.map(|seconds| Duration::from_secs(seconds.into())),
            tos: ni.lnd.tos.or(sock("tos").map(|n| n as i32)).unwrap_or(-1),
            cpts: ni.cpts.clone(),
        }
    }
}

/// Returns whether an interface has an address. Linux answers on all of 127/8, although it lists
/// only 127.0.0.1.
fn has(interface: &Interface, ip: IpAddr) -> bool {
    interface.addresses.contains(&ip) || ip.is_loopback() && ip.is_ipv4() && is_loopback(interface)
}

/// Returns an address that other nodes can use, IPv4 before IPv6.
fn address(interface: &Interface) -> Option<IpAddr> {
    let usable = |ip: &&IpAddr| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let mut usable: Vec<&IpAddr> = interface.addresses.iter().filter(usable).collect();
    usable.sort_by_key(|ip| ip.is_ipv6());
    usable.first().map(|ip| **ip)
}
