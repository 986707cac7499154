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

use std::str::FromStr;
use std::time::Duration;

use fulmar_base::quantity;
use fulmar_lnet_wire::Net;

use super::diagnostic::{Diagnostic, Source, Text, nearest};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LoadConf {
    /// The places of its groups in the list of nodes.
    pub from: usize,
    pub to: usize,
    pub test: TestConf,
    /// In bytes.
    pub size: u32,
    pub concurrency: u32,
}

/// What the clients of a load do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TestConf {
    Write,
    Read,
    Ping,
}

impl TestConf {
    const ALL: [(&str, Self); 3] =
        [("write", Self::Write), ("read", Self::Read), ("ping", Self::Ping)];
}

impl FromStr for TestConf {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, test)| *test).ok_or_else(|| {
            let known = Self::ALL.map(|(name, _)| name);
            format!("unknown test \"{text}\": {}", nearest(text, &known))
        })
    }
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
/// The slowest line, in bits per second.
const RATE_MIN: u64 = 1_000_000;
/// LNet waits 50 s for an answer, which takes up to two round trips.
const RTT_MAX: Duration = Duration::from_secs(10);
const TRANSFER_MAX: u64 = 1 << 20;

/// Parses the rate of a line.
///
/// # Errors
/// If it is not a rate, or the simulator has no lines so slow.
pub fn line_rate(text: &str) -> std::result::Result<u64, String> {
    match quantity::rate(text)? {
        bits @ RATE_MIN.. => Ok(bits),
        _ => Err(format!("{text} is too slow for the simulator: write 1Mbit or more")),
    }
}

/// Parses a round-trip time.
///
/// # Errors
/// If it is not a time, or nodes would not wait for it.
pub fn round_trip(text: &str) -> std::result::Result<Duration, String> {
    match quantity::time(text)? {
        time if time <= RTT_MAX => Ok(time),
        _ => Err(format!("{text} is longer than nodes wait for an answer: write 10s or less")),
    }
}

/// Parses the size of a transfer.
///
/// # Errors
/// If a test cannot have that size.
pub fn transfer(text: &str) -> std::result::Result<u32, String> {
    match quantity::size(text)? {
        bytes @ 8..=TRANSFER_MAX if bytes.is_multiple_of(8) => Ok(bytes as u32),
        _ => Err(format!(
            "{text} is not the size of a transfer: write a multiple of 8 bytes up to 1M"
        )),
    }
}

impl PathFile {
    /// Parses a file. `set` gets options of the command line that the file sets, with their values, as
    /// `peer-credits` and `8`, and may refuse them.
    ///
    /// # Errors
    /// Points at the first error.
    pub fn parse(
        source: &Source,
        mut set: impl FnMut(&str, &str) -> std::result::Result<(), String>,
    ) -> Result<Self> {
        let mut file = Self::default();
        let root = yaml::parse(source)?;
        let (mut all_nodes, mut loads) = (None, None);
        for (key, value) in root.entries("the file")? {
            if let Some((_, option)) = OPTIONS.iter().find(|(name, _)| *name == key.s) {
                let text = value.text(key.s)?;
                set(option, text.s).map_err(|error| text.error(error))?;
                continue;
            }
            match key.s {
                "held" => file.held = boolean(value.text(key.s)?)?,
                "peer_buffer_credits" => {
                    file.peer_buffer_credits = value.text(key.s)?.u32(key.s)?
                }
                "tcp" => {
                    for one in value.items(key.s)? {
                        let text = one.text("a setting")?;
                        set("tcp", text.s).map_err(|error| text.error(error))?;
                    }
                }
                "links" => file.links = each(value, key.s, link)?,
                "nodes" => all_nodes = Some(value),
                "loads" => loads = Some(value),
                _ => {
                    let known: Vec<&str> = OPTIONS.iter().map(|one| one.0).chain(OTHERS).collect();
                    return Err(key.unknown("key", &known));
                }
            }
        }
        let example = "\"- {name: clients, interfaces: [{site: east, rate: 1Gbit}]}\"";
        let all_nodes = not_empty(source, all_nodes, "nodes", example)?;
        let example = "\"- {test: read, from: clients, to: servers}\"";
        let loads = not_empty(source, loads, "loads", example)?;
        file.nodes = groups(all_nodes, &file.sites())?;
        file.loads = each(loads, "loads", |node| load(node, &file.nodes))?;
        Ok(file)
    }

    /// Returns the sites that links join.
    fn sites(&self) -> Vec<String> {
        self.links.iter().flat_map(|link| &link.between).cloned().collect()
    }
}

/// Returns a list that a file has to have, with one entry at least.
fn not_empty<'a, 's>(
    source: &Source,
    list: Option<&'a Node<'s>>,
    key: &str,
    example: &str,
) -> Result<&'a Node<'s>> {
    let place = match list {
        Some(list) if !list.items(key)?.is_empty() => return Ok(list),
        Some(list) => list.place(),
        None => source.whole(),
    };
    let help = format!("add \"{key}:\" with one, as {example}");
    Err(place.error(format!("the file has no {key}")).with_help(help))
}

/// Returns the groups of nodes, whose names differ. Without links they are all at one site.
fn groups(list: &Node<'_>, sites: &[String]) -> Result<Vec<NodesConf>> {
    let (mut all, mut sites) = (Vec::<NodesConf>::new(), sites.to_vec());
    for node in list.items("nodes")? {
        let group = nodes(node, &mut sites)?;
        if all.iter().any(|other| other.name == group.name) {
            let error = node.place().error(format!("the name \"{}\" is given twice", group.name));
            return Err(error.with_help("give each entry of nodes a name of its own"));
        }
        all.push(group);
    }
    Ok(all)
}

fn link(node: &Node<'_>) -> Result<LinkConf> {
    let (mut between, mut rate, mut rtt) = (None, None, Duration::ZERO);
    let (mut loss, mut jitter, mut queue) = (0.0, None, None);
    for (key, value) in node.entries("a link")? {
        match key.s {
            "between" => between = Some(pair(value)?),
            "rate" => rate = Some(of(value.text(key.s)?, line_rate)?),
            "rtt" => rtt = of(value.text(key.s)?, round_trip)?,
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
        [one, other] => {
            let between = [name(one)?, name(other)?];
            if between[0] == between[1] {
                let error = other.place().error("both ends of the link are the same site");
                Err(error.with_help("name two sites: nodes of one site need no link"))
            } else {
                Ok(between)
            }
        }
        _ => Err(value.place().error("a link is between two sites").with_help("write [a, b]")),
    }
}

fn nodes(node: &Node<'_>, sites: &mut Vec<String>) -> Result<NodesConf> {
    let (mut found, mut count, mut router, mut interfaces) = (None, 1, false, Vec::new());
    for (key, value) in node.entries("nodes")? {
        match key.s {
            "name" => found = Some(name(value)?),
            "count" => count = value.text(key.s)?.number(key.s, 1, NODES_MAX)? as u32,
            "router" => router = boolean(value.text(key.s)?)?,
            "interfaces" => {
                for one in value.items(key.s)? {
                    interfaces.push(interface(one, sites)?);
                }
            }
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

fn interface(node: &Node<'_>, sites: &mut Vec<String>) -> Result<InterfaceConf> {
    let (mut site, mut net, mut rate) = (None, 0, None);
    for (key, value) in node.entries("an interface")? {
        match key.s {
            "site" => site = Some(known_site(value.text("a site")?, sites)?),
            "net" => net = tcp_net(value.text(key.s)?)?,
            "rate" => rate = Some(of(value.text(key.s)?, line_rate)?),
            _ => return Err(key.unknown("key of an interface", &["site", "net", "rate"])),
        }
    }
    Ok(InterfaceConf {
        site: required(node, "site", site)?,
        net,
        rate: required(node, "rate", rate)?,
    })
}

/// Returns a site to which a link leads, or the only one of a file without links.
fn known_site(text: Text<'_>, sites: &mut Vec<String>) -> Result<String> {
    if sites.is_empty() {
        sites.push(text.s.to_owned());
    }
    if sites.iter().any(|site| site == text.s) {
        return Ok(text.s.to_owned());
    }
    let known: Vec<&str> = sites.iter().map(String::as_str).collect();
    let error = text.error(format!("no link leads to the site \"{}\"", text.s));
    Err(error.with_help(format!("{} Or add a link to it", nearest(text.s, &known))))
}

fn load(node: &Node<'_>, all: &[NodesConf]) -> Result<LoadConf> {
    let (mut from, mut to, mut test) = (None, None, TestConf::Write);
    let (mut size, mut concurrency) = (TRANSFER_MAX as u32, 1);
    for (key, value) in node.entries("a load")? {
        match key.s {
            "from" => from = Some(group(value.text(key.s)?, all)?),
            "to" => to = Some(group(value.text(key.s)?, all)?),
            "test" => test = value.text(key.s)?.parse()?,
            "size" => size = of(value.text(key.s)?, transfer)?,
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
    if from == to {
        let error = node.place().error("the nodes of this load would be their own servers");
        return Err(error.with_help("give \"from\" and \"to\" different entries of nodes"));
    }
    Ok(LoadConf { from, to, test, size, concurrency })
}

fn group(name: Text<'_>, all: &[NodesConf]) -> Result<usize> {
    let known: Vec<&str> = all.iter().map(|nodes| nodes.name.as_str()).collect();
    all.iter()
        .position(|nodes| nodes.name == name.s)
        .ok_or_else(|| name.unknown("name of nodes", &known))
}

fn name(node: &Node<'_>) -> Result<String> {
    Ok(node.text("a name")?.s.to_owned())
}

fn tcp_net(text: Text<'_>) -> Result<u16> {
    let net: Net = text.parse()?;
    if net.kind() == Net::TCP.kind() {
        Ok(net.number())
    } else {
        Err(text.error("the simulator has networks of TCP only").with_help("write tcp1"))
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
        PathFile::parse(&Source::new("path.yaml", text), |_, _| Ok(()))
    }

    #[test]
    fn a_file_gives_links_nodes_loads_and_options() {
        let mut options = Vec::new();
        let source = Source::new("path.yaml", FILE);
        let file = PathFile::parse(&source, |name, value| {
            options.push(format!("{name}={value}"));
            Ok(())
        });
        let file = file.unwrap();
        assert_eq!(options, ["time=2s", "peer-credits=16", "tcp=rmem=64M"]);
        assert!(file.held);
        assert_eq!(file.links[0].rtt, Duration::from_millis(50));
        assert_eq!((file.links[0].rate, file.links[0].loss), (10_000_000_000, 0.0001));
        assert_eq!((file.nodes[0].count, file.nodes[1].interfaces[0].net), (4, 1));
        let load = LoadConf { from: 0, to: 1, test: TestConf::Read, size: 65_536, concurrency: 8 };
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
            ("1Gbit}", "0}", "8:"),
            ("rtt: 50ms", "rtt: 1000s", "6:50: error: 1000s is longer than nodes wait"),
            ("size: 64k", "size: 12", "12:69: error: 12 is not the size of a transfer"),
            ("test: read", "test: raed", "unknown test \"raed\": did you mean \"read\"?"),
            ("site: west", "site: wset", "did you mean \"west\"? Or add a link to it"),
            ("[east, west]", "[east, east]", "both ends of the link are the same site"),
            ("to: server", "to: clients", "would be their own servers"),
            ("name: server\n", "name: clients\n", "the name \"clients\" is given twice"),
        ] {
            let error = parse(&FILE.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("time: 1s\n").contains("the file has no nodes"));
        let (before, _) = FILE.split_once("loads:").unwrap();
        assert!(error(before).contains("the file has no loads"));
        assert!(
            error(&format!("{before}loads: []\n")).contains("11:8: error: the file has no loads")
        );
        let refused = PathFile::parse(&Source::new("path.yaml", FILE), |name, _| match name {
            "tcp" => Err("no such setting".to_owned()),
            _ => Ok(()),
        });
        assert!(refused.unwrap_err().to_string().contains("4:7: error: no such setting"));
    }
}
