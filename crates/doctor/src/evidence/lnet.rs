//! Pings an LNet node, and reads its version, features and NIDs.

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

/// The result of pinging a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LnetResult {
    /// It answered.
    Answered(LnetAnswer),
    /// It did not.
    NoAnswer {
        /// The node that sent the ping.
        by: String,
        /// The error.
        why: String,
    },
    /// No ping could be sent.
    NotSent {
        /// Why.
        why: String,
    },
}

/// The answer of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LnetAnswer {
    /// The node that sent the ping: one of this program, or the one that runs on this host.
    pub by: String,
    /// Time of the first ping, including the handshake, in microseconds.
    pub first_us: u64,
    /// Median of the later pings, in microseconds.
    pub ping_us: Option<u64>,
    /// The negotiated version of the socket LND protocol.
    pub socklnd: Option<u32>,
    /// The source port of our connection.
    pub source_port: Option<u16>,
    /// Its process ID (PID) in LNet.
    pub pid: Option<u32>,
    /// The feature bits of its ping info.
    pub features: Option<u32>,
    /// The names of the features.
    pub feature_names: Option<String>,
    /// Its NIDs.
    pub nids: Vec<String>,
}

impl LnetAnswer {
    /// Returns the releases of Lustre that announce these features.
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

/// Returns a client of the local Fulmar node, at this control socket or of the one that runs.
pub fn client(control: Option<&Path>) -> Client {
    control.map_or_else(Client::of_running, Client::new)
}

/// Pings a NID, at TCP port `port`. If a node runs on this host, that one sends the ping: Fulmar's
/// node behind `client`, or the kernel's. `listens` is whether any local process listens on port
/// 988.
pub fn ping(nid: Nid, port: u16, client: &Client, listens: bool, timeout: Duration) -> LnetResult {
    let Some(address) = nid.ip() else {
        return LnetResult::NotSent { why: format!("{nid} is not on a TCP network") };
    };
    if std::os::unix::net::UnixStream::connect(client.path()).is_ok() {
        return by_fulmar(client, nid, timeout);
    }
    if Path::new("/sys/module/lnet").exists() {
        return by_kernel(nid, timeout);
    }
    if listens && port == fulmar_lnet_wire::socklnd::ACCEPT_PORT {
        let why = "the control socket of the node on this host is not accessible: run this \
                   command as the node's user, or give the path of the socket with --control";
        return LnetResult::NotSent { why: why.to_owned() };
    }
    by_own_node(nid, SocketAddr::new(address, port), timeout)
}

/// Pings with the Fulmar node that runs on this host.
fn by_fulmar(client: &Client, nid: Nid, timeout: Duration) -> LnetResult {
    let by = format!("the Fulmar node at {}", client.path().display());
    let start = Instant::now();
    let seconds = timeout.as_secs().clamp(1, 60) as u32;
    let called = client.call(&Ping { nids: vec![nid], source: None, timeout: Some(seconds) });
    let first_us = start.elapsed().as_micros() as u64;
    match called {
        Err(error) => LnetResult::NotSent { why: format!("{by} cannot ping: {error}") },
        Ok(answers) => match answers.into_iter().next().map(|answer| answer.result) {
            Some(Ok(reply)) => {
                let nids = reply.nids.iter().map(ToString::to_string).collect();
                LnetResult::Answered(LnetAnswer { by, first_us, nids, ..LnetAnswer::default() })
            }
            Some(Err(errno)) => {
                let why = std::io::Error::from_raw_os_error(errno).to_string();
                LnetResult::NoAnswer { by, why }
            }
            None => LnetResult::NotSent { why: format!("{by} returned no result") },
        },
    }
}

/// Pings with the kernel node of this host.
fn by_kernel(nid: Nid, timeout: Duration) -> LnetResult {
    let by = "the kernel node of this host (lnetctl ping)".to_owned();
    let start = Instant::now();
    let seconds = timeout.as_secs().clamp(1, 4).to_string();
    match output("lnetctl", &["ping", "--timeout", &seconds, &nid.to_string()]) {
        Some(text) if text.contains("nid:") => {
            let nids = text.lines().filter_map(|line| line.split_once("nid:"));
            let nids = nids.map(|(_, nid)| nid.trim().to_owned());
            let nids = nids.filter(|nid| nid != "0@lo").collect();
            let first_us = start.elapsed().as_micros() as u64;
            LnetResult::Answered(LnetAnswer { by, first_us, nids, ..LnetAnswer::default() })
        }
        Some(text) => LnetResult::NoAnswer { by, why: text.trim().to_owned() },
        None => LnetResult::NoAnswer { by, why: "lnetctl ping failed".to_owned() },
    }
}

/// Pings with a temporary node of our own, which does not listen.
fn by_own_node(nid: Nid, remote: SocketAddr, timeout: Duration) -> LnetResult {
    let local = match crate::measure::local_address(remote) {
        Ok(local) => local,
        Err(why) => return LnetResult::NotSent { why },
    };
    let start_node = || -> Result<(Runtime, Node), Box<dyn std::error::Error>> {
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
    // The node works only while its runtime exists.
    let (_runtime, node) = match start_node() {
        Ok(both) => both,
        Err(error) => return LnetResult::NotSent { why: error.to_string() },
    };
    let seen = ping_with(&node, ProcessId::lustre(nid), local, timeout);
    node.stop();
    seen
}

/// Number of pings after the first; their median is reported.
const PINGS: usize = 15;
/// Longest time of all of them.
const PINGS_TIME_MAX: Duration = Duration::from_secs(1);

fn ping_with(node: &Node, peer: ProcessId, local: IpAddr, timeout: Duration) -> LnetResult {
    let by = format!("a temporary node at {local}");
    let start = Instant::now();
    let admin = node.admin();
    let reply = match admin.ping(peer, None, timeout) {
        Ok(reply) => reply,
        Err(errno) => return LnetResult::NoAnswer { by, why: errno.to_string() },
    };
    let first_us = start.elapsed().as_micros() as u64;
    let conn = admin.connections().into_iter().find(|conn| conn.info.peer.nid == peer.nid);
    let exchange = Exchange::open(node);
    let info = exchange.and_then(|exchange| exchange.ping_info(peer, timeout)).ok();
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < PINGS && start.elapsed() < PINGS_TIME_MAX {
        let sent = Instant::now();
        if admin.ping(peer, None, timeout).is_err() {
            break;
        }
        times.push(sent.elapsed().as_micros() as u64);
    }
    times.sort_unstable();
    LnetResult::Answered(LnetAnswer {
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
