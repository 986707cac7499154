//! Whether a node of LNet answers: its hello, its ping, and what they tell of it.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use fulmar_control::api::{Client, Ping};
use fulmar_lnet_wire::ping::Features;
use fulmar_lnet_wire::{Nid, ProcessId};
use fulmar_net::exchange::{Exchange, feature_names};
use fulmar_net::{NiAddress, NiOptions, Node, Runtime};
use fulmar_socklnd::AcceptMode;
use serde::{Deserialize, Serialize};

use super::command::output;

/// What came of asking a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LnetSeen {
    /// It answered.
    Answered(LnetAnswer),
    /// It did not.
    Silent {
        /// Who asked.
        by: String,
        /// Why there is no answer, as far as that is known.
        why: String,
    },
    /// It could not be asked.
    NotAsked {
        /// Why.
        why: String,
    },
}

/// What a node answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LnetAnswer {
    /// Who asked: a node of this program, or the one that runs on this host.
    pub by: String,
    /// How long the first ping took, with the handshake, in microseconds.
    pub first_us: u64,
    /// The median of the pings after it, in microseconds.
    pub ping_us: Option<u64>,
    /// The version of the socket LND that the hello has settled on.
    pub socklnd: Option<u32>,
    /// The port that we called from.
    pub source_port: Option<u16>,
    /// Its process.
    pub pid: Option<u32>,
    /// What it can do: the bits of its ping info.
    pub features: Option<u32>,
    /// The same in words.
    pub feature_names: Option<String>,
    /// Its NIDs.
    pub nids: Vec<String>,
}

impl LnetAnswer {
    /// Returns the releases of Lustre that have what this node has, as far as the wire tells.
    pub fn release(&self) -> Option<&'static str> {
        let features = Features(self.features?);
        Some(match features {
            f if f.has(Features::METADATA) => "2.17 or later",
            f if f.has(Features::LARGE_ADDR) => "2.16 or later",
            f if f.has(Features::DISCOVERY) => "2.11 or later",
            f if f.has(Features::MULTI_RAIL) => "2.10 or later, with discovery off",
            _ => "2.9 or earlier, or without multi-rail",
        })
    }
}

/// Returns what asks the Fulmar node of this host: at this control socket, or where it is by default.
pub fn client(control: Option<&Path>) -> Client {
    control.map_or_else(Client::at_default, Client::new)
}

/// Asks the node with a NID, at TCP port `port`. If a node runs on this host already, that one asks:
/// Fulmar's, which is that of `client`, or the kernel's. `listens` says whether any does.
pub fn ask(nid: Nid, port: u16, client: &Client, listens: bool, timeout: Duration) -> LnetSeen {
    let Some(address) = nid.ip() else {
        return LnetSeen::NotAsked { why: format!("{nid} is not on a network of TCP") };
    };
    if std::os::unix::net::UnixStream::connect(client.path()).is_ok() {
        return by_fulmar(client, nid, timeout);
    }
    if Path::new("/sys/module/lnet").exists() {
        return by_kernel(nid, timeout);
    }
    if listens && port == fulmar_lnet_wire::socklnd::ACCEPT_PORT {
        let why = "a node runs on this host, which cannot be asked: run this as its user, or name \
                   its control socket by --control";
        return LnetSeen::NotAsked { why: why.to_owned() };
    }
    by_own(nid, SocketAddr::new(address, port), timeout)
}

/// Asks by the Fulmar node that runs here.
fn by_fulmar(client: &Client, nid: Nid, timeout: Duration) -> LnetSeen {
    let by = format!("the Fulmar node at {}", client.path().display());
    let begun = Instant::now();
    let seconds = timeout.as_secs().clamp(1, 60) as u32;
    let asked = client.call(&Ping { nids: vec![nid], source: None, timeout: Some(seconds) });
    let first_us = begun.elapsed().as_micros() as u64;
    match asked {
        Err(error) => LnetSeen::NotAsked { why: format!("{by} does not ask: {error}") },
        Ok(answers) => match answers.into_iter().next().map(|answer| answer.result) {
            Some(Ok(reply)) => {
                let nids = reply.nids.iter().map(ToString::to_string).collect();
                LnetSeen::Answered(LnetAnswer { by, first_us, nids, ..LnetAnswer::default() })
            }
            Some(Err(errno)) => {
                let why = std::io::Error::from_raw_os_error(errno).to_string();
                LnetSeen::Silent { by, why }
            }
            None => LnetSeen::NotAsked { why: format!("{by} says nothing") },
        },
    }
}

/// Asks by the kernel's node of this host.
fn by_kernel(nid: Nid, timeout: Duration) -> LnetSeen {
    let by = "this host's kernel, by lnetctl ping".to_owned();
    let begun = Instant::now();
    let seconds = timeout.as_secs().clamp(1, 4).to_string();
    match output("lnetctl", &["ping", "--timeout", &seconds, &nid.to_string()]) {
        Some(text) if text.contains("nid:") => {
            let nids = text.lines().filter_map(|line| line.split_once("nid:"));
            let nids = nids.map(|(_, nid)| nid.trim().to_owned());
            let nids = nids.filter(|nid| nid != "0@lo").collect();
            let first_us = begun.elapsed().as_micros() as u64;
            LnetSeen::Answered(LnetAnswer { by, first_us, nids, ..LnetAnswer::default() })
        }
        Some(text) => LnetSeen::Silent { by, why: text.trim().to_owned() },
        None => LnetSeen::Silent { by, why: "lnetctl ping failed".to_owned() },
    }
}

/// Asks by a node of our own, which listens nowhere and goes when it has asked.
fn by_own(nid: Nid, remote: SocketAddr, timeout: Duration) -> LnetSeen {
    let local = match crate::measure::local_address(remote) {
        Ok(local) => local,
        Err(why) => return LnetSeen::NotAsked { why },
    };
    let begin = || -> Result<(Runtime, Node), Box<dyn std::error::Error>> {
        let runtime = Runtime::new(Some(1))?;
        let mut settings = fulmar_net::Options::default();
        settings.config.socklnd.accept = AcceptMode::None;
        settings.config.socklnd.accept_port = remote.port();
        let node = Node::start(&runtime, settings)?;
        let mut ni = NiOptions::at(local);
        (ni.net, ni.address) = (nid.net(), NiAddress::Ip(local));
        if let Err(error) = node.admin().add_ni(ni) {
            node.stop();
            return Err(error.into());
        }
        Ok((runtime, node))
    };
    // The node works as long as its runtime is held.
    let (_runtime, node) = match begin() {
        Ok(both) => both,
        Err(error) => return LnetSeen::NotAsked { why: error.to_string() },
    };
    let seen = ask_with(&node, ProcessId::lustre(nid), local, timeout);
    node.stop();
    seen
}

/// Pings after the first, whose median is told.
const PINGS: usize = 15;
/// All of them take no longer.
const PINGS_TIME_MAX: Duration = Duration::from_secs(1);

fn ask_with(node: &Node, peer: ProcessId, local: IpAddr, timeout: Duration) -> LnetSeen {
    let by = format!("a node of this program at {local}");
    let begun = Instant::now();
    let admin = node.admin();
    let reply = match admin.ping(peer, None, timeout) {
        Ok(reply) => reply,
        Err(errno) => return LnetSeen::Silent { by, why: errno.to_string() },
    };
    let first_us = begun.elapsed().as_micros() as u64;
    let conn = admin.connections().into_iter().find(|conn| conn.info.peer.nid == peer.nid);
    let exchange = Exchange::open(node);
    let info = exchange.and_then(|exchange| exchange.ping_info(peer, timeout)).ok();
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < PINGS && begun.elapsed() < PINGS_TIME_MAX {
        let sent = Instant::now();
        if admin.ping(peer, None, timeout).is_err() {
            break;
        }
        times.push(sent.elapsed().as_micros() as u64);
    }
    times.sort_unstable();
    LnetSeen::Answered(LnetAnswer {
        by,
        first_us,
        ping_us: times.get(times.len() / 2).copied(),
        socklnd: conn.as_ref().map(|conn| conn.info.version.number()),
        source_port: conn.map(|conn| conn.info.local.port()),
        pid: Some(reply.pid.0),
        features: info.as_ref().map(|info| info.features.0),
        feature_names: info.map(|info| feature_names(info.features)),
        nids: reply.nids.iter().map(ToString::to_string).collect(),
    })
}
