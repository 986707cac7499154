//! Messages between processes: one offers memory, others store in it and fetch from it.
//!
//! Each is a node of its own and prints its progress in lines of JSON, so that a test can cut a cable
//! meanwhile and see the effect. All data that arrives is checked.

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

pub use flood::{Flooded, flood};
pub use load::load;
pub use serve::serve;

use crate::witness::{Terms, Witness};

/// The lengths of messages.
pub const SIZES: [usize; 4] = [8, 4096, 65536, MTU as usize];
/// How many messages of each length have a place of their own.
pub const PLACES: usize = 64;

/// The node of a process.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its NIDs, the primary one first.
    pub nids: Vec<Nid>,
    /// How it reaches other networks.
    pub routes: Vec<RouteConfig>,
    /// Messages that may be under way to each NID of a peer; that of each NI if not given.
    pub peer_credits: Option<u32>,
    /// Seconds that an answer may take.
    pub transaction_timeout: Option<u32>,
    /// How many connections of each bulk kind are opened to a peer; 0 for what suits the link.
    pub conns_per_peer: u32,
}

/// What a load does.
#[derive(Clone, Debug)]
pub struct Work {
    /// The node to which messages go.
    pub target: Nid,
    /// Lengths of messages, in turns; out of [`SIZES`].
    pub sizes: Vec<usize>,
    /// Whether messages are stored.
    pub puts: bool,
    /// Whether messages are fetched; with both, in turns.
    pub gets: bool,
    /// How many messages are under way at once.
    pub window: usize,
}

/// The counters of a load, printed every [`TICK`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Messages that were acknowledged, or fetched.
    pub done: u64,
    /// Their payload.
    pub bytes: u64,
    /// Messages that failed.
    pub failed: u64,
}

/// The outcome of a load, printed at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The last sample.
    pub sum: Sample,
    /// Messages that were not answered at all.
    pub lost: u64,
    /// The longest time of a message, in milliseconds.
    pub longest_ms: u64,
    /// The first failures, for people.
    pub failures: Vec<String>,
    /// What is wrong with what was fetched.
    pub wrong: Option<String>,
    /// Which invariants were broken: what the node's [`Witness`] found.
    pub broken: Option<String>,
    /// Messages that the node has sent again.
    pub resent: u64,
}

/// The report of the serving process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Messages that were stored.
    pub puts: u64,
    /// Messages that were fetched.
    pub gets: u64,
    /// Messages that were stored twice.
    pub repeated: u64,
    /// What is wrong with what was stored.
    pub wrong: Option<String>,
    /// Which invariants were broken: what the node's [`Witness`] found.
    pub broken: Option<String>,
}

impl Served {
    /// Returns what is wrong, if anything; `resent` messages were sent again, and may have come
    /// twice. Spec: lnet-behaviour §17, invariant 18.
    pub fn fault(&self, resent: u64) -> Option<String> {
        let twice = (self.repeated > resent).then(|| {
            format!("{} messages came twice, and {resent} were sent again", self.repeated)
        });
        self.wrong.clone().or_else(|| self.broken.clone()).or(twice)
    }
}

impl Outcome {
    /// Returns what is wrong, if anything: every message must have been answered with the right data
    /// and must have left nothing behind.
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
        // A proxy in between may connect from any port.
        options.config.socklnd.accept = AcceptMode::All;
        let globals = &mut options.config.lnet.globals;
        if let Some(seconds) = self.transaction_timeout {
            *globals = Globals { transaction_timeout: seconds, ..globals.clone() };
            // An attempt to connect must fail while there is time to try another way.
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

/// Where a message of a length is stored, or fetched from.
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
fn tell(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("plain values are JSON"));
}

/// Waits until standard input ends.
fn wait_for_the_end() {
    // An error ends it too.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
