//! Kinds of runs of the simulator, and how a failed run is reported.

use std::path::{Path, PathBuf};

use fulmar_sim::options::Defect;
use fulmar_sim::{Failure, Options, capture};

use crate::context::complain;

/// Kind of the runs; a swarm without one runs all kinds, each on its share of the seeds
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Flavour {
    /// Administrators run selftests
    #[arg(long)]
    selftest: bool,
    /// Nodes have several interfaces
    #[arg(long, conflicts_with = "selftest")]
    rails: bool,
    /// Routers connect the nodes
    #[arg(long, conflicts_with_all = ["selftest", "rails"])]
    routed: bool,
    /// Hostile hosts are among the nodes
    #[arg(long, conflicts_with_all = ["selftest", "rails", "routed"])]
    hostile: bool,
    /// Add a deliberate defect to the simulator, which its checkers must find
    #[arg(long, value_name = "DEFECT", value_parser = defect)]
    pub(super) defect: Option<Defect>,
}

impl Flavour {
    /// Draws the options for a seed.
    pub(super) fn draw(self, seed: u64) -> Options {
        let options = match self {
            Self { selftest: true, .. } => Options::draw_selftest(seed),
            Self { rails: true, .. } => Options::draw_rails(seed),
            Self { routed: true, .. } => Options::draw_routed(seed),
            Self { hostile: true, .. } => Options::draw_hostile(seed),
            _ => Options::draw(seed),
        };
        Options { defect: self.defect, ..options }
    }

    /// Returns the kind of run for one seed of a swarm.
    pub(super) fn share(self, seed: u64) -> Self {
        if self.selftest || self.rails || self.routed || self.hostile {
            return self;
        }
        match self.defect {
            // These defects are in the forwarding of routers.
            Some(Defect::LostForward | Defect::LostPool) => Self { routed: true, ..self },
            // These are in what hostile hosts do.
            Some(Defect::Impersonated | Defect::Blocked) => Self { hostile: true, ..self },
            _ => Self {
                hostile: seed % 8 == 4,
                selftest: seed % 8 == 5,
                rails: seed % 8 == 6,
                routed: seed % 8 == 7,
                ..self
            },
        }
    }
}

fn defect(name: &str) -> Result<Defect, String> {
    let found = Defect::ALL.into_iter().find(|defect| defect.name() == name);
    found.ok_or_else(|| {
        format!("the defect must be one of {}", Defect::ALL.map(Defect::name).join(", "))
    })
}

/// Reports a failure, and writes the traffic of the run as a capture for Wireshark.
pub(super) fn report(failure: &Failure, file: Option<&Path>) {
    complain(&format!("{failure}\n"));
    let name = format!("sim-{}.pcapng", failure.options.seed);
    let file = file.map_or_else(|| PathBuf::from(name), Path::to_owned);
    keep(&failure.options, &file);
}

/// Repeats a run and writes its traffic to `file`. Returns whether that succeeded.
pub(super) fn keep(options: &Options, file: &Path) -> bool {
    let place = file.display();
    match std::fs::write(file, capture(options)) {
        Ok(()) => {
            complain(&format!("traffic of the run: tshark -d tcp.port==988,lnet -r {place}\n"));
            true
        }
        Err(error) => {
            complain(&format!("fulmar: cannot write the capture {place}: {error}\n"));
            false
        }
    }
}

/// Number of log lines that are kept to explain a failure.
pub(super) const LINES_KEPT: usize = 200;
