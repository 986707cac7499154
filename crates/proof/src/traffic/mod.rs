//! Messages between processes: one offers memory, others store in it and fetch from it.
//!
//! Each is a node of its own and tells in lines of JSON how it fares, so that whoever started it can
//! cut a cable meanwhile and see what came of it. What arrives is checked.

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

/// The lengths of messages that are offered room.
pub const SIZES: [usize; 4] = [8, 4096, 65536, MTU as usize];
/// How many messages of each length have a place of their own.
pub const PLACES: usize = 64;

/// How a process takes part.
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
    /// To whom.
    pub target: Nid,
    /// Lengths of messages, in turns; of [`SIZES`].
    pub sizes: Vec<usize>,
    /// Whether messages are stored.
    pub puts: bool,
    /// Whether messages are fetched; with both, in turns.
    pub gets: bool,
    /// How many messages are under way at once.
    pub window: usize,
}

/// How a load fares, told every [`TICK`].
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

/// What became of a load, told at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The last sample.
    pub sum: Sample,
    /// Messages that were answered neither well nor ill.
    pub lost: u64,
    /// The longest that a message took, in milliseconds.
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

/// What the serving process saw.
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
    /// Returns what is not as it should be, if anything; `resent` messages were sent again, and may
    /// have come twice. Spec: lnet-behaviour §17, invariant 18.
    pub fn fault(&self, resent: u64) -> Option<String> {
        let twice = (self.repeated > resent).then(|| {
            format!("{} messages came twice, and {resent} were sent again", self.repeated)
        });
        self.wrong.clone().or_else(|| self.broken.clone()).or(twice)
    }
}

impl Outcome {
    /// Returns what is not as it should be, if anything: every message was answered, with the right
    /// data, and left nothing behind.
    pub fn fault(&self) -> Option<String> {
        let Self { sum, lost, failures, wrong, broken, .. } = self;
        let failed = sum.failed;
        let said = wrong.iter().chain(broken).chain(failures);
        let said = said.map(String::as_str).collect::<Vec<_>>().join("; ");
        let fault = failed + lost > 0 || wrong.is_some() || broken.is_some();
        fault.then(|| format!("{failed} messages failed, {lost} were not answered: {said}"))
    }
}

/// How often a load tells how it fares.
pub const TICK: Duration = Duration::from_millis(20);

const PORTAL: u32 = 41;

impl Endpoint {
    /// Returns a process with these NIDs, and everything else as usual.
    pub fn new(nids: Vec<Nid>) -> Self {
        Self {
            nids,
            routes: Vec::new(),
            peer_credits: None,
            transaction_timeout: None,
            conns_per_peer: 0,
        }
    }

    /// Starts the node, and has it watched.
    fn start(&self, runtime: &Runtime) -> Result<(Node, Arc<Witness>), String> {
        let usual = Terms::default();
        let peer_credits = self.peer_credits.unwrap_or(usual.peer_credits);
        let witness = Witness::new(Terms { peer_credits, ..usual });
        let mut options = Options { tap: Some(witness.clone()), ..Options::default() };
        // What stands between may call from any port.
        options.config.socklnd.accept = AcceptMode::All;
        let globals = &mut options.config.lnet.globals;
        if let Some(seconds) = self.transaction_timeout {
            *globals = Globals { transaction_timeout: seconds, ..globals.clone() };
            // A call that nobody answers must fail while there is time to try another way.
            let attempts = globals.retry_count + 1;
            options.config.socklnd.timeout =
                Duration::from_secs((seconds.saturating_sub(1) / attempts).max(1).into());
        }
        for nid in &self.nids {
            options.nis.push(self.ni(*nid)?);
        }
        let node = Node::start(runtime, options).map_err(|error| error.to_string())?;
        for route in &self.routes {
            let added = node.call(|lnet, now| lnet.route_add(now, *route)).and_then(|added| added);
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
        Ok(NiOptions { net: nid.net(), address, tunables, conns_per_peer })
    }
}

/// Where a message of a length is stored, or fetched from.
fn match_bits(size: usize, put: bool) -> u64 {
    (size as u64) << 1 | u64::from(put)
}

fn process(nid: Nid) -> ProcessId {
    ProcessId::lustre(nid)
}

/// Returns the time as samples tell it.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Tells something in a line of JSON.
fn tell(value: &impl Serialize) {
    println!("{}", serde_json::to_string(value).expect("plain values are JSON"));
}

/// Waits until standard input ends.
fn wait_for_the_end() {
    // An error is as good an end as any.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}
