//! One node beside a real Lustre node: the checks, and their report.

use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;
use fulmar_lnet_wire::{NetType, Nid, ProcessId};
use fulmar_net::exchange::Exchange;
use fulmar_net::{NiAddress, NiOptions, Node, Runtime};
use fulmar_socklnd::AcceptMode;
use fulmar_text::duration;

use super::checks::{CHECKS, Probe};

/// Which node is checked, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The node.
    pub nid: Nid,
    /// Our interface; by default the one from which this machine reaches the node.
    pub interface: Option<NiAddress>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The TCP port of both nodes.
    pub port: u16,
    /// Whose connections our node accepts.
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
/// Why nothing could be checked, and what to do about it.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Box<dyn Error>> {
    let is_tcp = options.nid.net().kind() == NetType::TCP;
    let address = options.nid.ip().filter(|_| is_tcp).ok_or_else(|| {
        format!("{} is on a network that is not supported: name a NID on tcp", options.nid)
    })?;
    let remote = SocketAddr::new(address, options.port);
    let local = match &options.interface {
        Some(interface) => interface.clone(),
        None => NiAddress::Ip(route(remote)?),
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
    let checked = Exchange::open(&node).map_err(|errno| format!("our own node fails: {errno}"));
    let checked = checked.map(|exchange| {
        let (node, timeout) = (node.admin(), options.timeout);
        check(&Probe { node, exchange, own, peer, remote, timeout }, out)
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
        let took = duration(begun.elapsed());
        let (verdict, evidence) = match &result {
            Ok(evidence) => ("PASS", evidence),
            Err(evidence) => ("FAIL", evidence),
        };
        let number = number + 1;
        writeln!(out, "{number:>3}  {verdict}  {name:<NAME_WIDTH$} {took:>8}  {evidence}")?;
        out.flush()?;
        passed += usize::from(result.is_ok());
        if number == 1 && result.is_err() {
            let rest = CHECKS.len() - 1;
            writeln!(out, "\nWithout a connection the other {rest} checks cannot be made.")?;
            break;
        }
    }
    Ok(passed)
}

/// Returns the address from which this machine reaches another.
fn route(remote: SocketAddr) -> Result<IpAddr, String> {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the system only chooses the route.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    let ip = remote.ip();
    chosen.map(|address| address.ip()).map_err(|error| {
        format!(
            "this machine has no route to {ip}: {error}. See `ip route get {ip}`, or name one of \
             its interfaces"
        )
    })
}

/// Returns why a node does not answer, as far as a bare TCP connection tells.
pub(super) fn diagnose(probe: &Probe, errno: Errno) -> String {
    let Probe { remote, own, peer, .. } = probe;
    let (ip, port, nid) = (remote.ip(), remote.port(), peer.nid);
    match TcpStream::connect_timeout(remote, probe.timeout.min(Duration::from_secs(3))) {
        Ok(_) => format!(
            "{errno}. Port {port} of {ip} accepts TCP connections, but not LNet's. Is {nid} one of \
             the node's own NIDs (`lctl list_nids` there)? It refuses callers with source ports \
             above 1023 unless accept=all is set there: run as root, or with \
             CAP_NET_BIND_SERVICE. What it says of {own} stands in its kernel log (`dmesg`)"
        ),
        Err(error) => format!(
            "TCP port {port} of {ip} cannot be reached: {error}. Is LNet up there (`lnetctl net \
             show`), and does a firewall between here and there let port {port} pass both ways?"
        ),
    }
}

const NAME_WIDTH: usize = 36;
