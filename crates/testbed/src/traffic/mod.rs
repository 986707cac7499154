//! Messages between processes: one offers memory, others send PUTs and GETs to it.
//!
//! Each is a separate node and prints its progress as lines of JSON, so that a test can cut a cable
//! meanwhile and observe the effect. All received data is checked.

mod flood;
mod load;
mod serve;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulmar_lnet::{Globals, RouteConfig};
use fulmar_lnet_wire::{MTU, Nid, ProcessId};
use fulmar_net::{NiAddress, NiOptions, Node, Options, Runtime};
use fulmar_socklnd::AcceptMode;
use serde::{Deserialize, Serialize};

pub use flood::{FloodReport, flood};
pub use load::load;
pub use serve::serve;

use crate::witness::{Terms, Witness};

/// The lengths of messages.
pub const SIZES: [usize; 4] = [8, 4096, 65536, MTU as usize];
/// Number of slots for messages of each length.
pub const PLACES: usize = 64;

/// The node of a process.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its NIDs, the primary one first.
    pub nids: Vec<Nid>,
    /// Its routes to other networks.
    pub routes: Vec<RouteConfig>,
    /// Messages in flight to each NID of a peer; `None` for the default of each NI.
    pub peer_credits: Option<u32>,
    /// Timeout of an answer in seconds.
    pub transaction_timeout: Option<u32>,
    /// Connections of each bulk kind to a peer; 0 to choose by the link.
    pub conns_per_peer: u32,
}

/// The work of a load.
#[derive(Clone, Debug)]
pub struct Work {
    /// The target node.
    pub target: Nid,
    /// Lengths of messages, in rotation; a subset of [`SIZES`].
    pub sizes: Vec<usize>,
    /// Whether to send PUTs.
    pub puts: bool,
    /// Whether to send GETs; with both, alternately.
    pub gets: bool,
    /// How many messages are in flight at once.
    pub window: usize,
}

/// The counters of a load, printed every [`TICK`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// PUTs acknowledged and GETs answered.
    pub done: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Messages that failed.
    pub failed: u64,
}

/// The outcome of a load, printed at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The last sample.
    pub sum: Sample,
    /// Messages without any answer.
    pub lost: u64,
    /// The longest time of a message, in milliseconds.
    pub longest_ms: u64,
    /// The first failures, for display.
    pub failures: Vec<String>,
    /// Errors in fetched data.
    pub wrong: Option<String>,
    /// Broken invariants found by the [`Witness`] of the node.
    pub broken: Option<String>,
    /// Messages that the node sent again.
    pub resent: u64,
}

/// The report of the serving process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerReport {
    /// PUTs received.
    pub puts: u64,
    /// GETs answered.
    pub gets: u64,
    /// PUTs received twice.
    pub repeated: u64,
    /// Errors in stored data.
    pub wrong: Option<String>,
    /// Broken invariants found by the [`Witness`] of the node.
    pub broken: Option<String>,
}

impl ServerReport {
    /// Returns an error, if any; `resent` messages were sent again, and may have arrived
    /// twice. Spec: lnet-behaviour §17, invariant 18.
    pub fn fault(&self, resent: u64) -> Option<String> {
        let twice = (self.repeated > resent).then(|| {
            format!("{} messages arrived twice, but {resent} were sent again", self.repeated)
        });
        self.wrong.clone().or_else(|| self.broken.clone()).or(twice)
    }
}

impl Outcome {
    /// Returns an error, if any: every message must have been answered with correct data and must
    /// have left nothing behind.
    pub fn fault(&self) -> Option<String> {
        let Self { sum, lost, failures, wrong, broken, .. } = self;
        let failed = sum.failed;
        let said = wrong.iter().chain(broken).chain(failures);
        let said = said.map(String::as_str).collect::<Vec<_>>().join("; ");
        let fault = failed + lost > 0 || wrong.is_some() || broken.is_some();
        fault.then(|| format!("{failed} messages failed, {lost} were not answered: {said}"))
    }
}

/// How often a load prints a sample.
pub const TICK: Duration = Duration::from_millis(20);

const PORTAL: u32 = 41;

impl Endpoint {
    /// Returns a node with these NIDs, and defaults for everything else.
    pub fn new(nids: Vec<Nid>) -> Self {
        Self {
            nids,
            routes: Vec::new(),
            peer_credits: None,
            transaction_timeout: None,
            conns_per_peer: 0,
        }
    }

    /// Starts the node, with a witness.
    fn start(&self, runtime: &Runtime) -> Result<(Node, Arc<Witness>), String> {
        let usual = Terms::default();
        let peer_credits = self.peer_credits.unwrap_or(usual.peer_credits);
        let witness = Witness::new(Terms { peer_credits, ..usual });
        let mut options = Options { tap: Some(witness.clone()), ..Options::default() };
        // A proxy between the nodes may connect from any port.
        options.config.socklnd.accept = AcceptMode::All;
        let globals = &mut options.config.lnet.globals;
        if let Some(seconds) = self.transaction_timeout {
            *globals = Globals { transaction_timeout: seconds, ..globals.clone() };
            // A connection attempt must fail while there is time to try another path.
            let attempts = globals.retry_count + 1;
            options.config.socklnd.timeout =
                Duration::from_secs((seconds.saturating_sub(1) / attempts).max(1).into());
        }
        for nid in &self.nids {
            options.nis.push(self.ni(*nid)?);
        }
        let node = Node::start(runtime, options).map_err(|error| error.to_string())?;
        for route in &self.routes {
            let added = node.admin().route_add(*route);
            added.map_err(|errno| format!("no route to {}: {errno}", route.net))?;
        }
        Ok((node, witness))
    }

    fn ni(&self, nid: Nid) -> Result<NiOptions, String> {
        let ip = nid.ip().ok_or_else(|| format!("{nid} has no IP address"))?;
        let usual = NiOptions::at(ip);
        let mut tunables = usual.tunables;
        tunables.peer_credits = self.peer_credits.unwrap_or(tunables.peer_credits);
        let (address, conns_per_peer) = (NiAddress::Ip(ip), self.conns_per_peer);
        Ok(NiOptions { net: nid.net(), address, tunables, conns_per_peer, ..usual })
    }
}

/// Returns the match bits of messages of a length.
fn match_bits(size: usize, put: bool) -> u64 {
    (size as u64) << 1 | u64::from(put)
}

fn process(nid: Nid) -> ProcessId {
    ProcessId::lustre(nid)
}

/// Returns the present time of samples.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Prints a value as a line of JSON.
fn print_line(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("plain values are JSON"));
}

/// Waits until standard input ends.
fn wait_for_end_of_input() {
    // An error ends it too.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
