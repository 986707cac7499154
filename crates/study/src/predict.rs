//! Simulates one scenario.

use std::ops::Range;
use std::time::Duration;

use fulmar_lnet_wire::selftest::{Histogram, Slice};
use fulmar_selftest::console::Measures;
use fulmar_sim::{HostId, World};
use serde::{Deserialize, Serialize};

use crate::meter::{Measurement, Meter};
use crate::network::{self, Hosts, TIMEOUT};
use crate::path::{holds_back, lacks_credits, lacks_peer_credits};
use crate::scenario::{Begin, Direction, Scenario};
use crate::session::{Session, StudyError, Test, brw};

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Payload rate of all clients together.
    pub bytes_per_second: f64,
    /// RPC rate of all clients together.
    pub rpcs_per_second: f64,
    /// Mean duration of an RPC.
    pub mean_latency: Duration,
    /// Distribution of RPC durations, if requested.
    pub latencies: Option<Latencies>,
    /// The bottleneck.
    pub binding: Binding,
    /// Virtual duration of the measurement.
    pub measured_over: Duration,
    /// The RPCs in that time.
    pub rpcs: u64,
    /// Whether the rate was steady; otherwise it is that of the last rounds.
    pub steady: bool,
    /// Least and greatest load of a server, relative to the mean.
    pub server_shares: (f64, f64),
    /// Number of simulation steps.
    pub steps: u64,
}

/// Quantiles of RPC durations: bucket limits, each an eighth above the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latencies {
    pub median: Duration,
    pub percentile_90: Duration,
    pub percentile_99: Duration,
}

/// The bottleneck of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The trunks are full.
    Trunks,
    /// The cables of the clients or of the servers are full.
    Cables,
    /// Messages wait for credits of their peer.
    PeerCredits,
    /// Messages wait for credits of their interface.
    Credits,
    /// Routers lack buffers or credits for messages.
    Routers,
    /// No messages wait in LNet: the number of RPCs or the TCP windows limit the throughput.
    RpcsOrWindows,
}

impl Binding {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trunks => "trunks",
            Self::Cables => "cables",
            Self::PeerCredits => "peer_credits",
            Self::Credits => "credits",
            Self::Routers => "routers",
            Self::RpcsOrWindows => "RPCs or TCP windows",
        }
    }
}

/// How long a scenario is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The least number of rounds; in a round each unit runs one RPC.
    pub least_rounds: usize,
    /// The greatest number of rounds.
    pub most_rounds: usize,
    /// Whether to collect RPC durations from clients.
    pub latencies: bool,
}

/// For a single scenario in interactive use.
impl Default for Effort {
    fn default() -> Self {
        Self { least_rounds: 13, most_rounds: 101, latencies: true }
    }
}

/// Simulates a scenario until its throughput is steady. The same scenario gives the same
/// prediction.
///
/// # Errors
/// If nodes do not answer, or there is no result within ten virtual minutes.
pub fn predict(scenario: &Scenario, effort: Effort) -> Result<Prediction, StudyError> {
    let hosts = Hosts::new(scenario);
    let options = network::options(scenario);
    let mut session = Session::begin(&options)?;
    let units = u64::from(scenario.clients) * u64::from(scenario.concurrency);
    for test in tests(scenario, &hosts) {
        session.add(test)?;
    }
    session.meter = Some(Meter::new(units, effort.least_rounds, effort.most_rounds));
    session.start(match scenario.begin {
        Begin::Together => Duration::ZERO,
        Begin::InTurn(over) => over,
    })?;
    let before = if effort.latencies { session.measures()? } else { Vec::new() };
    let (measured, waiting) = watch(scenario, &hosts, &mut session, units)?;
    let binding = full_lines(scenario, measured).unwrap_or_else(|| most_often(&waiting));
    let latencies = if effort.latencies { latencies(&before, &session.measures()?) } else { None };
    let rpcs_per_second = measured.answers as f64 / measured.over.as_secs_f64();
    Ok(Prediction {
        bytes_per_second: rpcs_per_second * f64::from(scenario.size),
        rpcs_per_second,
        mean_latency: Duration::from_secs_f64(units as f64 / rpcs_per_second),
        latencies,
        binding,
        measured_over: measured.over,
        rpcs: measured.answers,
        steady: measured.steady,
        server_shares: shares(&session.answered_by(hosts.servers.clone())),
        steps: session.steps,
    })
}

/// Returns one test for all clients, or one for each if they start in turn.
fn tests(scenario: &Scenario, hosts: &Hosts) -> Vec<Test> {
    let test = |name: String, clients: Range<u32>, servers: Range<u32>| Test {
        name,
        clients,
        servers,
        spec: brw(scenario.direction, scenario.size),
        concurrency: scenario.concurrency,
    };
    let (clients, servers) = (hosts.clients.clone(), hosts.servers.clone());
    match scenario.begin {
        Begin::Together => vec![test("load".into(), clients, servers)],
        Begin::InTurn(_) => {
            let pairs = clients.zip(servers.cycle());
            let one = |(client, server)| {
                test(format!("load-{client}"), client..client + 1, server..server + 1)
            };
            pairs.map(one).collect()
        }
    }
}

/// Runs until the throughput is steady, and samples several times per round what messages wait for.
fn watch(
    scenario: &Scenario,
    hosts: &Hosts,
    session: &mut Session,
    units: u64,
) -> Result<(Measurement, Vec<Option<Binding>>), StudyError> {
    let mut waiting = Vec::new();
    let answers = |session: &Session| session.meter.as_ref().map_or(0, Meter::answers);
    loop {
        let next = answers(session) + (units / SAMPLES).max(1);
        session.until("a steady throughput", TIMEOUT, |session| {
            result(session).is_some() || answers(session) >= next
        })?;
        waiting.push(held_back(scenario, hosts, &session.world));
        if let Some(measured) = result(session) {
            return Ok((measured, waiting));
        }
    }
}

/// Number of samples per round.
const SAMPLES: u64 = 8;

/// Returns the reason for waiting that is in at least a third of the later half of all samples.
fn most_often(waiting: &[Option<Binding>]) -> Binding {
    let later = &waiting[waiting.len() / 2..];
    let often = |binding: &&Binding| {
        let count = later.iter().flatten().filter(|one| one == binding).count();
        3 * count >= later.len()
    };
    later.iter().flatten().find(often).copied().unwrap_or(Binding::RpcsOrWindows)
}

fn result(session: &Session) -> Option<Measurement> {
    session.meter.as_ref()?.result()
}

fn latencies(before: &[Measures], after: &[Measures]) -> Option<Latencies> {
    let mut all = Histogram::default();
    for (n, client) in after.iter().enumerate() {
        let known = before.get(n).map_or(&[][..], |client| &client.buckets);
        let counts = client.buckets.iter().enumerate();
        let counts: Vec<u32> = counts
            .map(|(n, count)| count.saturating_sub(known.get(n).copied().unwrap_or(0)))
            .collect();
        for (number, part) in counts.chunks(Slice::LEN).enumerate() {
            let mut slice = Slice { first: (number * Slice::LEN) as u32, ..Slice::default() };
            slice.counts[..part.len()].copy_from_slice(part);
            all.merge_slice(&slice);
        }
    }
    let at = |share| all.quantile(share).map(Duration::from_nanos);
    Some(Latencies { median: at(0.5)?, percentile_90: at(0.9)?, percentile_99: at(0.99)? })
}

/// Returns the least and the greatest nonzero count, relative to the mean.
pub(crate) fn shares(counts: &[u64]) -> (f64, f64) {
    let used: Vec<u64> = counts.iter().copied().filter(|count| *count > 0).collect();
    let mean = used.iter().sum::<u64>() as f64 / used.len().max(1) as f64;
    let part = |count: Option<u64>| count.map_or(0.0, |count| count as f64 / mean);
    (part(used.iter().copied().min()), part(used.iter().copied().max()))
}

/// A line with this utilisation counts as full.
const FULL: f64 = 0.96;

/// Returns which lines are full, if any.
fn full_lines(scenario: &Scenario, measured: Measurement) -> Option<Binding> {
    let path = &scenario.path;
    let rate = measured.answers as f64 / measured.over.as_secs_f64();
    // Bytes of a transfer on the wire in the direction of the data: a message with its header.
    let on_wire = path.tcp.on_wire(u64::from(scenario.size) + MESSAGE_HEADER) as f64;
    let bits = rate * on_wire * 8.0 / 1e6;
    let trunks: u64 = path.trunks.iter().map(|line| line.rate_mbps).sum();
    // At most as many servers as clients have load.
    let servers = scenario.servers.min(scenario.clients);
    let cables = (path.client_cable.rate_mbps * u64::from(scenario.clients))
        .min(path.server_cable.rate_mbps * u64::from(servers));
    if bits >= FULL * trunks as f64 {
        return Some(Binding::Trunks);
    }
    (bits >= FULL * cables as f64).then_some(Binding::Cables)
}

/// Returns what messages in LNet wait for now.
fn held_back(scenario: &Scenario, hosts: &Hosts, world: &World) -> Option<Binding> {
    let routers = hosts.client_routers.start..hosts.server_routers.end;
    if routers.map(HostId).any(|router| holds_back(world, router)) {
        return Some(Binding::Routers);
    }
    let senders = match scenario.direction {
        Direction::Read => hosts.servers.clone(),
        Direction::Write => hosts.clients.clone(),
    };
    waiting(world, senders)
}

fn waiting(world: &World, mut hosts: Range<u32>) -> Option<Binding> {
    hosts.find_map(|host| {
        if lacks_credits(world, HostId(host)) {
            return Some(Binding::Credits);
        }
        lacks_peer_credits(world, HostId(host)).then_some(Binding::PeerCredits)
    })
}

/// The LNet header with the frame header of the socket LND, in bytes.
const MESSAGE_HEADER: u64 = 96;
