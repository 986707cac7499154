//! The file of `fulmar sim path`: nodes, the links between their sites, and loads.
//!
//! ```text
//! time: 10s                             # all of these have the defaults of the command line
//! warmup: 5s
//! seed: 0
//! mtu: 9000
//! peer_credits: 8
//! credits: 256
//! conns_per_peer: 1
//! held: no
//! large_router_buffers: 1024
//! peer_buffer_credits: 0
//! tcp: [rmem=64M, congestion=bbr]       # as --tcp
//! links:
//!     - between: [east, west]
//!       rate: 10Gbit
//!       rtt: 50.5ms
//!       loss: 0.001%                    # and jitter, queue
//! nodes:
//!     - name: clients
//!       count: 4
//!       interfaces: [{site: east, net: tcp, rate: 10Gbit}]
//!     - name: gate
//!       router: yes
//!       interfaces: [{site: east, net: tcp, rate: 40Gbit}, {site: east, net: tcp1, rate: 40Gbit}]
//! loads:
//!     - {test: write, from: clients, to: servers, concurrency: 8, size: 1M}
//! ```

use std::time::Duration;

use fulmar_base::quantity;
use fulmar_lnet_wire::Net;

use super::diagnostic::{Diagnostic, Source, Text};
use super::lnet_conf::{boolean, each, required};
use super::yaml::{self, Node};

type Result<T> = std::result::Result<T, Diagnostic>;

/// A file of `fulmar sim path`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathFile {
    /// The links.
    pub links: Vec<LinkConf>,
    /// The groups of nodes.
    pub nodes: Vec<NodesConf>,
    /// The loads.
    pub loads: Vec<LoadConf>,
    /// Options of the command line that the file sets, with their values, as `peer-credits` and `8`.
    pub options: Vec<(&'static str, String)>,
    /// Whether credits are held for a round trip.
    pub held: bool,
    /// The router credits of each peer; 0 for its peer credits.
    pub peer_buffer_credits: u32,
}

/// A link between two sites.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct LinkConf {
    pub between: [String; 2],
    /// In bits per second.
    pub rate: u64,
    pub rtt: Duration,
    pub loss: f64,
    pub jitter: Option<Duration>,
    /// In bytes.
    pub queue: Option<u64>,
}

/// Equal nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NodesConf {
    pub name: String,
    pub count: u32,
    pub router: bool,
    pub interfaces: Vec<InterfaceConf>,
}

/// An interface of each node of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct InterfaceConf {
    pub site: String,
    pub net: u16,
    /// In bits per second.
    pub rate: u64,
}

/// A load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LoadConf {
    /// The places of its groups in the list of nodes.
    pub from: usize,
    pub to: usize,
    /// `write`, `read` or `ping`.
    pub test: String,
    /// In bytes.
    pub size: u64,
    pub concurrency: u32,
}

/// Keys that are options of the command line too.
const OPTIONS: [(&str, &str); 8] = [
    ("time", "time"),
    ("warmup", "warmup"),
    ("seed", "seed"),
    ("mtu", "mtu"),
    ("peer_credits", "peer-credits"),
    ("credits", "credits"),
    ("conns_per_peer", "conns"),
    ("large_router_buffers", "router-buffers"),
];
const OTHERS: [&str; 6] = ["held", "peer_buffer_credits", "tcp", "links", "nodes", "loads"];
/// The most nodes of a group.
const NODES_MAX: i64 = 10_000;
/// The most RPCs of a client in flight.
const CONCURRENCY_MAX: i64 = 1024;

impl PathFile {
    /// Parses a file.
    ///
    /// # Errors
    /// Points at the first error.
    pub fn parse(source: &Source) -> Result<Self> {
        let mut file = Self::default();
        let root = yaml::parse(source)?;
        let mut loads = None;
        for (key, value) in root.entries("the file")? {
            if let Some((_, option)) = OPTIONS.iter().find(|(name, _)| *name == key.s) {
                file.options.push((option, value.text(key.s)?.s.to_owned()));
                continue;
            }
            match key.s {
                "held" => file.held = boolean(value.text(key.s)?)?,
                "peer_buffer_credits" => {
                    file.peer_buffer_credits = value.text(key.s)?.u32(key.s)?
                }
                "tcp" => {
                    for one in value.items(key.s)? {
                        file.options.push(("tcp", one.text("a setting")?.s.to_owned()));
                    }
                }
                "links" => file.links = each(value, key.s, link)?,
                "nodes" => file.nodes = each(value, key.s, nodes)?,
                "loads" => loads = Some(value),
                _ => {
                    let known: Vec<&str> = OPTIONS.iter().map(|one| one.0).chain(OTHERS).collect();
                    return Err(key.unknown("key", &known));
                }
            }
        }
        let loads = loads.ok_or_else(|| {
            source.whole().error("the file has no loads").with_help("add \"loads:\" with one")
        })?;
        file.loads = each(loads, "loads", |node| load(node, &file.nodes))?;
        Ok(file)
    }
}

fn link(node: &Node<'_>) -> Result<LinkConf> {
    let (mut between, mut rate, mut rtt) = (None, None, Duration::ZERO);
    let (mut loss, mut jitter, mut queue) = (0.0, None, None);
    for (key, value) in node.entries("a link")? {
        match key.s {
            "between" => between = Some(pair(value)?),
            "rate" => rate = Some(of(value.text(key.s)?, quantity::rate)?),
            "rtt" => rtt = of(value.text(key.s)?, quantity::time)?,
            "loss" => loss = of(value.text(key.s)?, quantity::share)?,
            "jitter" => jitter = Some(of(value.text(key.s)?, quantity::time)?),
            "queue" => queue = Some(of(value.text(key.s)?, quantity::size)?),
            _ => {
                let known = ["between", "rate", "rtt", "loss", "jitter", "queue"];
                return Err(key.unknown("key of a link", &known));
            }
        }
    }
    let (between, rate) = (required(node, "between", between)?, required(node, "rate", rate)?);
    Ok(LinkConf { between, rate, rtt, loss, jitter, queue })
}

fn pair(value: &Node<'_>) -> Result<[String; 2]> {
    match value.items("between")? {
        [one, other] => Ok([name(one)?, name(other)?]),
        _ => Err(value.place().error("a link is between two sites").with_help("write [a, b]")),
    }
}

fn nodes(node: &Node<'_>) -> Result<NodesConf> {
    let (mut found, mut count, mut router, mut interfaces) = (None, 1, false, Vec::new());
    for (key, value) in node.entries("nodes")? {
        match key.s {
            "name" => found = Some(name(value)?),
            "count" => count = value.text(key.s)?.number(key.s, 1, NODES_MAX)? as u32,
            "router" => router = boolean(value.text(key.s)?)?,
            "interfaces" => interfaces = each(value, key.s, interface)?,
            _ => {
                let known = ["name", "count", "router", "interfaces"];
                return Err(key.unknown("key of nodes", &known));
            }
        }
    }
    if interfaces.is_empty() {
        return required(node, "interfaces", None);
    }
    Ok(NodesConf { name: required(node, "name", found)?, count, router, interfaces })
}

fn interface(node: &Node<'_>) -> Result<InterfaceConf> {
    let (mut site, mut net, mut rate) = (None, 0, None);
    for (key, value) in node.entries("an interface")? {
        match key.s {
            "site" => site = Some(name(value)?),
            "net" => net = tcp_net(value.text(key.s)?)?,
            "rate" => rate = Some(of(value.text(key.s)?, quantity::rate)?),
            _ => return Err(key.unknown("key of an interface", &["site", "net", "rate"])),
        }
    }
    Ok(InterfaceConf {
        site: required(node, "site", site)?,
        net,
        rate: required(node, "rate", rate)?,
    })
}

fn load(node: &Node<'_>, all: &[NodesConf]) -> Result<LoadConf> {
    let (mut from, mut to, mut test) = (None, None, "write".to_owned());
    let (mut size, mut concurrency) = (1 << 20, 1);
    for (key, value) in node.entries("a load")? {
        match key.s {
            "from" => from = Some(group(value.text(key.s)?, all)?),
            "to" => to = Some(group(value.text(key.s)?, all)?),
            "test" => test = of_tests(value.text(key.s)?)?,
            "size" => size = of(value.text(key.s)?, quantity::size)?,
            "concurrency" => {
                concurrency = value.text(key.s)?.number(key.s, 1, CONCURRENCY_MAX)? as u32;
            }
            _ => {
                let known = ["from", "to", "test", "size", "concurrency"];
                return Err(key.unknown("key of a load", &known));
            }
        }
    }
    let (from, to) = (required(node, "from", from)?, required(node, "to", to)?);
    Ok(LoadConf { from, to, test, size, concurrency })
}

fn group(name: Text<'_>, all: &[NodesConf]) -> Result<usize> {
    let known: Vec<&str> = all.iter().map(|nodes| nodes.name.as_str()).collect();
    all.iter()
        .position(|nodes| nodes.name == name.s)
        .ok_or_else(|| name.unknown("name of nodes", &known))
}

fn of_tests(text: Text<'_>) -> Result<String> {
    let known = ["write", "read", "ping"];
    if known.contains(&text.s) { Ok(text.s.to_owned()) } else { Err(text.unknown("test", &known)) }
}

fn name(node: &Node<'_>) -> Result<String> {
    Ok(node.text("a name")?.s.to_owned())
}

fn tcp_net(text: Text<'_>) -> Result<u16> {
    let net: Net = text.parse()?;
    match net.kind() == Net::TCP.kind() {
        true => Ok(net.number()),
        false => Err(text.error("the simulator has networks of TCP only").with_help("write tcp1")),
    }
}

fn of<T>(text: Text<'_>, parse: fn(&str) -> std::result::Result<T, String>) -> Result<T> {
    parse(text.s).map_err(|error| text.error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
time: 2s
peer_credits: 16
held: yes
tcp: [rmem=64M]
links:
    - {between: [east, west], rate: 10Gbit, rtt: 50ms, loss: 0.01%}
nodes:
    - {name: clients, count: 4, interfaces: [{site: east, rate: 1Gbit}]}
    - name: server
      interfaces: [{site: west, net: tcp1, rate: 10Gbit}]
loads:
    - {test: read, from: clients, to: server, concurrency: 8, size: 64k}
";

    fn parse(text: &str) -> Result<PathFile> {
        PathFile::parse(&Source::new("path.yaml", text))
    }

    #[test]
    fn a_file_gives_links_nodes_loads_and_options() {
        let file = parse(FILE).unwrap();
        let options = [("time", "2s"), ("peer-credits", "16"), ("tcp", "rmem=64M")];
        assert_eq!(file.options, options.map(|(name, value)| (name, value.to_owned())));
        assert!(file.held);
        assert_eq!(file.links[0].rtt, Duration::from_millis(50));
        assert_eq!((file.links[0].rate, file.links[0].loss), (10_000_000_000, 0.0001));
        assert_eq!((file.nodes[0].count, file.nodes[1].interfaces[0].net), (4, 1));
        let load = LoadConf { from: 0, to: 1, test: "read".into(), size: 65_536, concurrency: 8 };
        assert_eq!(file.loads, [load]);
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        for (from, to, says) in [
            ("rtt: 50ms", "rrt: 50ms", "6:45: error: unknown key of a link \"rrt\""),
            ("to: server", "to: servers", "12:39: error: unknown name of nodes \"servers\""),
            ("rate: 10Gbit, rtt", "rtt", "6:7: error: this entry has no \"rate\""),
            ("net: tcp1", "net: o2ib", "networks of TCP only"),
            ("[east, west]", "[east]", "between two sites"),
            ("held: yes", "held: maybe", "\"maybe\" is not a boolean"),
            ("loads:", "load:", "unknown key \"load\""),
            ("1Gbit", "fast", "not a valid rate"),
        ] {
            let error = parse(&FILE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
        assert!(parse("time: 1s\n").unwrap_err().to_string().contains("no loads"));
    }
}
