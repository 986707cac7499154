//! One measurement, in its own session.
//!
//! ```text
//! session, groups, tests ─ run ─ warm-up ─ sample ─ read each second ─ sample ─ stop ─ end
//! ```
//!
//! Results are the differences of the two samples; errors are counted from before the run. A node
//! that fails during the run is not queried again, and the others continue.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_lnet_wire::Nid;
use fulmar_selftest::console::{Command, NodeAnswer, Stats, TestSpec};

use super::clock::Clock;
use super::measure::{Figures, Sample, errors, passed};
use super::session::{Failure, Session, trouble};
use crate::console::Console;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    /// The name of the session.
    pub(super) name: String,
    /// Loads that run at the same time.
    pub(super) flows: Vec<Flow>,
    pub(super) test: TestSpec,
    pub(super) concurrency: u32,
    pub(super) distribute: (u32, u32),
    pub(super) time: Duration,
    pub(super) warmup: Duration,
    /// Whether to replace other sessions.
    pub(super) force: bool,
}

/// A load from clients to servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) from: Vec<Nid>,
    pub(super) to: Vec<Nid>,
}

/// The progress of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) elapsed: Duration,
    pub(super) time: Duration,
    pub(super) bytes_per_second: f64,
    pub(super) rpcs_per_second: f64,
    pub(super) errors: u64,
    pub(super) nodes: usize,
    pub(super) failed: usize,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Clients, then nodes that are only servers.
    pub(super) nodes: Vec<NodeOutcome>,
    pub(super) interrupted: bool,
    /// Notes for the user.
    pub(super) remarks: Vec<String>,
}

/// The result of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeOutcome {
    pub(super) nid: Nid,
    pub(super) client: bool,
    pub(super) server: bool,
    pub(super) figures: Option<Figures>,
    pub(super) errors: u64,
    /// Why the node failed, if it did.
    pub(super) trouble: Option<String>,
}

impl Outcome {
    /// Returns whether all nodes completed without errors.
    pub(super) fn is_fine(&self) -> bool {
        self.remarks.is_empty()
            && self.nodes.iter().all(|node| node.errors == 0 && node.trouble.is_none())
    }
}

/// How often the counters are read.
const TICK: Duration = Duration::from_secs(1);
/// How long clients may take to complete their RPCs.
const GRACE: Duration = Duration::from_secs(10);
/// How often clients are checked meanwhile.
const GRACE_TICK: Duration = Duration::from_millis(100);

/// Runs a measurement. The session has ended when this returns, also with an error.
pub(super) fn measure(
    console: &mut dyn Console,
    clock: &dyn Clock,
    cell: &Cell,
    live: &mut dyn FnMut(&Tick),
) -> Result<Outcome, Failure> {
    let session = Session::begin(console, &cell.name, cell.force)?;
    let mut drive = Drive { session, clock, cell, nodes: unique_nodes(&cell.flows) };
    drive.install()?;
    drive.read_counters()?;
    drive.nodes.iter_mut().for_each(|node| node.before = node.now.stats);
    drive.session.run()?;
    let mut interrupted = clock.wait(cell.warmup);
    if !interrupted {
        drive.sample()?;
        drive.nodes.iter_mut().for_each(|node| node.start = Some(node.now.clone()));
        interrupted = drive.watch(live)?;
        drive.sample()?;
    }
    drive.finish(interrupted)
}

struct Drive<'a> {
    session: Session<'a>,
    clock: &'a dyn Clock,
    cell: &'a Cell,
    nodes: Vec<Node>,
}

/// The last known state of a node.
#[derive(Clone, Debug)]
struct Node {
    nid: Nid,
    client: bool,
    server: bool,
    /// Counters before the load.
    before: Stats,
    /// Counters after the warm-up.
    start: Option<Sample>,
    now: Sample,
    trouble: Option<String>,
}

/// Returns the nodes of all flows without duplicates: clients, then nodes that are only servers.
fn unique_nodes(flows: &[Flow]) -> Vec<Node> {
    let mut nodes: BTreeMap<Nid, usize> = BTreeMap::new();
    let mut unique_nodes: Vec<Node> = Vec::new();
    let mut place = |nid: Nid| {
        let at = *nodes.entry(nid).or_insert(unique_nodes.len());
        if at == unique_nodes.len() {
            let (before, now) = (Stats::default(), Sample::default());
            let (client, server, start, trouble) = (false, false, None, None);
            unique_nodes.push(Node { nid, client, server, before, start, now, trouble });
        }
        at
    };
    let clients: Vec<usize> = flows.iter().flat_map(|flow| &flow.from).map(|n| place(*n)).collect();
    let servers: Vec<usize> = flows.iter().flat_map(|flow| &flow.to).map(|n| place(*n)).collect();
    clients.into_iter().for_each(|at| unique_nodes[at].client = true);
    servers.into_iter().for_each(|at| unique_nodes[at].server = true);
    unique_nodes
}

impl Drive<'_> {
    /// Adds the nodes to the session and assigns their tests.
    fn install(&mut self) -> Result<(), Failure> {
        for (number, flow) in self.cell.flows.iter().enumerate() {
            let (from, to) = (format!("clients{number}"), format!("servers{number}"));
            for (group, nodes) in [(&from, &flow.from), (&to, &flow.to)] {
                let (group, nodes) = (group.clone(), nodes.clone());
                self.session.ask("create a group", Command::AddGroup { group: group.clone() })?;
                self.session
                    .all("add the nodes to the session", Command::AddNodes { group, nodes })?;
            }
            let test = Command::AddTest {
                batch: self.session.batch(),
                test: self.cell.test,
                loops: -1,
                concurrency: self.cell.concurrency,
                distribute: self.cell.distribute,
                from,
                to,
            };
            self.session.all("add the test to the nodes", test)?;
        }
        Ok(())
    }

    /// Reads the nodes each second until the time is over; returns whether the user stopped it
    /// earlier. Also ends when no client is busy any more.
    fn watch(&mut self, live: &mut dyn FnMut(&Tick)) -> Result<bool, Failure> {
        let start = self.clock.now();
        let mut seen: Vec<Stats> = self.nodes.iter().map(|node| node.now.stats).collect();
        loop {
            let left = (start + self.cell.time).saturating_sub(self.clock.now());
            if self.clock.wait(left.min(TICK)) {
                return Ok(true);
            }
            let elapsed = self.clock.now().saturating_sub(start);
            if elapsed >= self.cell.time {
                return Ok(false);
            }
            self.read_counters()?;
            live(&self.tick(elapsed, &seen));
            seen = self.nodes.iter().map(|node| node.now.stats).collect();
            if !self.nodes.iter().any(Node::is_busy) {
                return Ok(false);
            }
        }
    }

    /// Returns the progress since the counters in `seen`.
    fn tick(&self, elapsed: Duration, seen: &[Stats]) -> Tick {
        let (mut bytes_per_second, mut rpcs_per_second) = (0.0, 0.0);
        let clients = self.nodes.iter().zip(seen).filter(|(node, _)| node.client);
        for (node, before) in clients {
            let now = &node.now.stats;
            let ms = now.running_ms.wrapping_sub(before.running_ms);
            // The counters of a failed node do not change, so its time does not advance.
            if ms > 0 {
                let (bytes, rpcs) = passed(self.cell.test, before, now);
                bytes_per_second += bytes as f64 * 1e3 / f64::from(ms);
                rpcs_per_second += rpcs as f64 * 1e3 / f64::from(ms);
            }
        }
        Tick {
            elapsed,
            time: self.cell.time,
            bytes_per_second,
            rpcs_per_second,
            errors: self.nodes.iter().map(Node::errors).sum(),
            nodes: self.nodes.len(),
            failed: self.nodes.iter().filter(|node| node.trouble.is_some()).count(),
        }
    }

    /// Reads the counters of the nodes that have not failed.
    fn read_counters(&mut self) -> Result<(), Failure> {
        self.read_counters_of(self.healthy())
    }

    fn read_counters_of(&mut self, nids: Vec<Nid>) -> Result<(), Failure> {
        if nids.is_empty() {
            return Ok(());
        }
        for answer in self.session.stats(nids)? {
            if let Some((node, stats)) = self.place(&answer) {
                node.now.stats = stats;
            }
        }
        Ok(())
    }

    /// Reads all counters. Retries nodes that failed before: perhaps only the path to them failed
    /// for a moment.
    fn sample(&mut self) -> Result<(), Failure> {
        self.read_counters_of(self.nodes.iter().map(|node| node.nid).collect())?;
        let nids = self.healthy();
        if nids.is_empty() {
            return Ok(());
        }
        for answer in self.session.measures(nids)? {
            if let Some((node, measures)) = self.place(&answer) {
                node.now.measures = measures;
            }
        }
        Ok(())
    }

    fn healthy(&self) -> Vec<Nid> {
        self.nodes.iter().filter(|node| node.trouble.is_none()).map(|node| node.nid).collect()
    }

    /// Returns the node and value of an answer, unless the node has failed.
    fn place<T: Clone>(&mut self, answer: &NodeAnswer<T>) -> Option<(&mut Node, T)> {
        let node = self.nodes.iter_mut().find(|node| node.nid == answer.nid)?;
        node.trouble = trouble(answer);
        Some((node, answer.result.clone().ok()?))
    }

    /// Stops the load, ends the session and computes the results.
    fn finish(mut self, interrupted: bool) -> Result<Outcome, Failure> {
        let mut remarks = Vec::new();
        let failed = self.nodes.iter().any(|node| node.trouble.is_some());
        self.session.stop(interrupted || failed)?;
        let patient_until = self.clock.now() + GRACE;
        while let active @ 1.. = self.session.active()? {
            if self.clock.now() >= patient_until {
                remarks.push(format!(
                    "clients with RPCs in flight {} s after the stop: {active}",
                    GRACE.as_secs()
                ));
                break;
            }
            self.clock.rest(GRACE_TICK);
        }
        if let Err(error) = self.session.end() {
            remarks.push(error.to_string());
        }
        let test = self.cell.test;
        let nodes = self.nodes.into_iter().map(|node| node.outcome(test)).collect();
        Ok(Outcome { nodes, interrupted, remarks })
    }
}

impl Node {
    /// Returns whether the node is a client with RPCs in flight, as far as known.
    fn is_busy(&self) -> bool {
        self.client && self.trouble.is_none() && self.now.stats.active_batches > 0
    }

    fn errors(&self) -> u64 {
        errors(&self.before, &self.now.stats)
    }

    fn outcome(self, test: TestSpec) -> NodeOutcome {
        let errors = self.errors();
        let stopped = self.start.is_some() && self.client && !self.is_busy();
        let trouble = self.trouble.or_else(|| {
            stopped.then(|| "stopped early: a test stops at its first error".to_owned())
        });
        let figures = match &self.start {
            Some(start) if trouble.is_none() && self.client => {
                Figures::of_client(test, start, &self.now)
            }
            Some(start) if trouble.is_none() => Figures::of_server(start, &self.now),
            _ => None,
        };
        let Self { nid, client, server, .. } = self;
        NodeOutcome { nid, client, server, figures, errors, trouble }
    }
}
