//! One measurement: from a session of its own to figures.
//!
//! ```text
//! session, groups, tests ─ run ─ warm-up ─ sample ─ look each second ─ sample ─ stop ─ end
//! ```
//!
//! Figures are the differences of the two samples; errors are counted from before the run. A node that
//! fails meanwhile is not asked again, and the others continue.

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
    /// Replaces other sessions.
    pub(super) force: bool,
}

/// Which clients load which servers.
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

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// Clients, then those that are only servers.
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
    /// Why it failed, if it did.
    pub(super) trouble: Option<String>,
}

impl Outcome {
    /// Returns whether the figures are those of a load without errors.
    pub(super) fn is_fine(&self) -> bool {
        self.remarks.is_empty()
            && self.nodes.iter().all(|node| node.errors == 0 && node.trouble.is_none())
    }
}

/// How often the counters are read.
const TICK: Duration = Duration::from_secs(1);
/// How long clients may take to end their RPCs.
const GRACE: Duration = Duration::from_secs(10);
/// How often they are asked whether they have ended.
const GRACE_TICK: Duration = Duration::from_millis(100);

/// Measures. The session is over when this returns, also with an error.
pub(super) fn measure(
    console: &mut dyn Console,
    clock: &dyn Clock,
    cell: &Cell,
    live: &mut dyn FnMut(&Tick),
) -> Result<Outcome, Failure> {
    let session = Session::begin(console, &cell.name, cell.force)?;
    let mut drive = Drive { session, clock, cell, nodes: roster(&cell.flows) };
    drive.install()?;
    drive.look()?;
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
    /// Before the load.
    before: Stats,
    /// After the warm-up.
    start: Option<Sample>,
    now: Sample,
    trouble: Option<String>,
}

/// Returns the nodes of all flows, each once: clients, then those that are only servers.
fn roster(flows: &[Flow]) -> Vec<Node> {
    let mut nodes: BTreeMap<Nid, usize> = BTreeMap::new();
    let mut roster: Vec<Node> = Vec::new();
    let mut place = |nid: Nid| {
        let at = *nodes.entry(nid).or_insert(roster.len());
        if at == roster.len() {
            let (before, now) = (Stats::default(), Sample::default());
            let (client, server, start, trouble) = (false, false, None, None);
            roster.push(Node { nid, client, server, before, start, now, trouble });
        }
        at
    };
    let clients: Vec<usize> = flows.iter().flat_map(|flow| &flow.from).map(|n| place(*n)).collect();
    let servers: Vec<usize> = flows.iter().flat_map(|flow| &flow.to).map(|n| place(*n)).collect();
    clients.into_iter().for_each(|at| roster[at].client = true);
    servers.into_iter().for_each(|at| roster[at].server = true);
    roster
}

impl Drive<'_> {
    /// Takes the nodes into the session and gives them their tests.
    fn install(&mut self) -> Result<(), Failure> {
        for (number, flow) in self.cell.flows.iter().enumerate() {
            let (from, to) = (format!("clients{number}"), format!("servers{number}"));
            for (group, nodes) in [(&from, &flow.from), (&to, &flow.to)] {
                let (group, nodes) = (group.clone(), nodes.clone());
                self.session.ask("make a group", Command::AddGroup { group: group.clone() })?;
                self.session
                    .all("take the nodes into the session", Command::AddNodes { group, nodes })?;
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
            self.session.all("give the nodes their test", test)?;
        }
        Ok(())
    }

    /// Reads the nodes each second until the time is over; returns whether the user has stopped it
    /// earlier. It also ends when no client is busy any more.
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
            self.look()?;
            live(&self.tick(elapsed, &seen));
            seen = self.nodes.iter().map(|node| node.now.stats).collect();
            if !self.nodes.iter().any(Node::is_at_work) {
                return Ok(false);
            }
        }
    }

    /// Returns the progress since the nodes were `seen`.
    fn tick(&self, elapsed: Duration, seen: &[Stats]) -> Tick {
        let (mut bytes_per_second, mut rpcs_per_second) = (0.0, 0.0);
        let clients = self.nodes.iter().zip(seen).filter(|(node, _)| node.client);
        for (node, before) in clients {
            let now = &node.now.stats;
            let ms = now.running_ms.wrapping_sub(before.running_ms);
            // The state of a node that failed does not change, so no time has passed for it.
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

    /// Reads the counters of the nodes that still answer.
    fn look(&mut self) -> Result<(), Failure> {
        self.look_at(self.healthy())
    }

    fn look_at(&mut self, nids: Vec<Nid>) -> Result<(), Failure> {
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

    /// Reads everything from the nodes that answer. Nodes that failed before are asked again: only the
    /// path to them may have failed for a moment.
    fn sample(&mut self) -> Result<(), Failure> {
        self.look_at(self.nodes.iter().map(|node| node.nid).collect())?;
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

    /// Returns the node of an answer and its value, unless the node has failed.
    fn place<T: Clone>(&mut self, answer: &NodeAnswer<T>) -> Option<(&mut Node, T)> {
        let node = self.nodes.iter_mut().find(|node| node.nid == answer.nid)?;
        node.trouble = trouble(answer);
        Some((node, answer.result.clone().ok()?))
    }

    /// Stops the load, ends the session and computes the figures.
    fn finish(mut self, interrupted: bool) -> Result<Outcome, Failure> {
        let mut remarks = Vec::new();
        let failed = self.nodes.iter().any(|node| node.trouble.is_some());
        self.session.stop(interrupted || failed)?;
        let patient_until = self.clock.now() + GRACE;
        while let active @ 1.. = self.session.active()? {
            if self.clock.now() >= patient_until {
                remarks.push(format!(
                    "{active} clients still waited for RPCs when the session was ended, {} s after \
                     they were told to stop",
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
    /// Returns whether it is a client that is busy, as far as is known.
    fn is_at_work(&self) -> bool {
        self.client && self.trouble.is_none() && self.now.stats.active_batches > 0
    }

    fn errors(&self) -> u64 {
        errors(&self.before, &self.now.stats)
    }

    fn outcome(self, test: TestSpec) -> NodeOutcome {
        let errors = self.errors();
        let stopped = self.start.is_some() && self.client && !self.is_at_work();
        let trouble = self.trouble.or_else(|| {
            stopped.then(|| "stopped early: a test ends at its first error".to_owned())
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
