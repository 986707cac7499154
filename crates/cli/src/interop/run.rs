//! Runs a node to check a real Lustre node, and reports the results.

use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::route;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;
use fulmar_lnet_wire::{NetType, Nid, ProcessId};
use fulmar_net::exchange::Exchange;
use fulmar_net::{NiAddress, NiOptions, Node, Runtime};
use fulmar_socklnd::AcceptMode;
use fulmar_text::duration;

use super::checks::{CHECKS, Probe};
use crate::reach::port_report;

/// The node to check, and the local settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// NID of the node.
    pub nid: Nid,
    /// Local interface; by default the one with the route to the node.
    pub interface: Option<NiAddress>,
    /// Timeout of an answer.
    pub timeout: Duration,
    /// The TCP port of both nodes.
    pub port: u16,
    /// Which connections the local node accepts.
    pub accept: AcceptMode,
}

impl Options {
    /// Returns the usual settings for a node: port 988, privileged callers only, 10 seconds.
    pub fn new(nid: Nid) -> Self {
        let (timeout, accept) = (Duration::from_secs(10), AcceptMode::Secure);
        Self { nid, interface: None, timeout, port: ACCEPT_PORT, accept }
    }
}

/// Returns the network interface that is named by its address or by its name.
pub fn interface(text: &str) -> NiAddress {
    match text.parse() {
        Ok(address) => NiAddress::Ip(address),
        Err(_) => NiAddress::Interface(text.to_owned()),
    }
}

/// Checks a node, prints the result of each check, and returns whether all passed.
///
/// # Errors
/// Why no check could run, with a remedy.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Box<dyn Error>> {
    let is_tcp = options.nid.net().kind() == NetType::TCP;
    let address = options.nid.ip().filter(|_| is_tcp).ok_or_else(|| {
        format!("{} is on a network that is not supported: use a NID on tcp", options.nid)
    })?;
    let remote = SocketAddr::new(address, options.port);
    let local = match &options.interface {
        Some(interface) => interface.clone(),
        None => NiAddress::Ip(route(remote).map_err(|error| no_route(remote.ip(), &error))?),
    };
    let runtime = Runtime::new(None)?;
    let mut settings = fulmar_net::Options::default();
    settings.config.socklnd.accept = options.accept;
    settings.config.socklnd.accept_port = options.port;
    let node = Node::start(&runtime, settings)?;
    let mut ni = NiOptions::at(address);
    (ni.net, ni.address) = (options.nid.net(), local);
    let own = match node.admin().add_ni(ni) {
        Ok(own) => own,
        Err(error) => {
            node.stop();
            return Err(error.into());
        }
    };
    writeln!(out, "Fulmar at {own} checks {} on TCP port {}.\n", options.nid, options.port)?;
    let peer = ProcessId::lustre(options.nid);
    let checked = Exchange::open(&node).map_err(|errno| format!("this node failed: {errno}"));
    let checked = checked.map(|exchange| {
        let (node, timeout) = (node.admin(), options.timeout);
        check(&Probe { node, exchange, peer, remote, timeout }, out)
    });
    node.stop();
    let passed = checked??;
    writeln!(out, "\n{passed} of {} checks passed.", CHECKS.len())?;
    Ok(passed == CHECKS.len())
}

/// Makes the checks and returns how many passed.
fn check(probe: &Probe, out: &mut dyn Write) -> std::io::Result<usize> {
    let mut passed = 0;
    for (number, (name, check)) in CHECKS.iter().enumerate() {
        let begun = Instant::now();
        let result = check(probe);
        let (verdict, evidence) = match &result {
            Ok(evidence) => ("PASS", evidence),
            Err(evidence) => ("FAIL", evidence),
        };
        let number = number + 1;
        report(out, (number, name), verdict, begun.elapsed(), evidence)?;
        passed += usize::from(result.is_ok());
        if number == 1 && result.is_err() {
            let rest = CHECKS.len() - 1;
            writeln!(out, "\nThe other {rest} checks need a connection.")?;
            break;
        }
    }
    Ok(passed)
}

/// Prints the result of a check.
pub(super) fn report(
    out: &mut dyn Write,
    (number, name): (usize, &str),
    verdict: &str,
    took: Duration,
    evidence: &str,
) -> std::io::Result<()> {
    let took = duration(took);
    writeln!(out, "{number:>3}  {verdict}  {name:<NAME_WIDTH$} {took:>8}  {evidence}")?;
    out.flush()
}

/// Says that there is no route to a node.
fn no_route(ip: IpAddr, error: &std::io::Error) -> String {
    format!(
        "this machine has no route to {ip}: {error}. See `ip route get {ip}`, or select one of its \
         interfaces with --interface"
    )
}

/// Returns why a node does not answer, found out with a plain TCP connection.
pub(super) fn diagnose(probe: &Probe, errno: Errno) -> String {
    let report = port_report(probe.remote, probe.peer.nid, probe.timeout);
    format!("{errno}. {report}")
}

const NAME_WIDTH: usize = 42;
