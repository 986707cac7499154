//! Runs seeds, and reports how to repeat failed runs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::Violation;
use crate::cluster::Cluster;
use crate::log::Log;
use crate::options::Options;

/// The result of a successful run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of steps.
    pub steps: u64,
    /// Number of operations.
    pub operations: usize,
    /// Duration in virtual seconds.
    pub seconds: u64,
    /// Digest of the whole log; equal for equal runs.
    pub digest: u64,
    /// The last lines of the log.
    pub log: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, operations, seconds, digest, .. } = self;
        write!(f, "{operations} operations, {steps} steps, {seconds} s, log digest {digest:016x}")
    }
}

/// A failed run. Its text contains everything that is needed to repeat it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The violation that a checker found.
    pub violation: Violation,
    /// The options of the run.
    pub options: Options,
    /// The last lines of its log.
    pub log: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.options)?;
        for line in &self.log {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "FAILED {}", self.violation)?;
        write!(f, "repeat with: {} --log", self.command())
    }
}

impl Failure {
    /// Returns the command that repeats the run.
    pub fn command(&self) -> String {
        let mut command = format!("fulmar sim run --seed {}", self.options.seed);
        if self.options.rails.is_none()
            && self.options.hostile.is_none()
            && self.options.nodes != Options::draw(self.options.seed).nodes
        {
            command += &format!(" --nodes {}", self.options.nodes);
        }
        if self.options.selftest.is_some() {
            command += " --selftest";
        }
        if self.options.hostile.is_some() {
            command += " --hostile";
        } else if let Some(rails) = &self.options.rails {
            command += if rails.routers.is_empty() { " --rails" } else { " --routed" };
        }
        if let Some(defect) = self.options.defect {
            command += " --defect ";
            command += defect.name();
        }
        command
    }
}

/// Runs a cluster, and returns the traffic of its connections as a pcapng file. A failed run is
/// recorded up to its failure.
pub fn capture(options: &Options) -> Vec<u8> {
    let mut cluster = Cluster::new(options, Log::new(0));
    cluster.world.record();
    // The result is ignored; after a panic only the recording is read.
    let _ = catch_unwind(AssertUnwindSafe(|| cluster.run()));
    cluster.world.recorded()
}

/// Runs a cluster, keeping the last `keep` lines of its log.
///
/// # Errors
/// The failure; a panic of a state machine is reported as a violation.
pub fn run(options: &Options, keep: usize) -> Result<Outcome, Box<Failure>> {
    let mut cluster = Cluster::new(options, Log::new(keep));
    // After a panic the cluster is only read, and then dropped.
    let verdict = catch_unwind(AssertUnwindSafe(|| cluster.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(Violation { checker: "panic", text: text.unwrap_or_default() })
    });
    let log = cluster.world.log();
    let lines = log.lines().map(str::to_owned).collect();
    match verdict {
        Ok(()) => Ok(Outcome {
            steps: cluster.steps(),
            operations: cluster.ledger.operations.len(),
            seconds: cluster.world.now().as_secs(),
            digest: log.digest(),
            log: lines,
        }),
        Err(violation) => {
            Err(Box::new(Failure { violation, options: options.clone(), log: lines }))
        }
    }
}
