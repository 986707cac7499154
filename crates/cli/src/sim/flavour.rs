//! What the runs of a seed are like, and how one that fails is told.

use std::path::{Path, PathBuf};

use fulmar_sim::options::Defect;
use fulmar_sim::{Failure, Options, capture};

use crate::context::complain;

/// What the runs are like; a swarm of no flavour gives each its share of the seeds
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Flavour {
    /// Have administrators run selftests
    #[arg(long)]
    selftest: bool,
    /// Give nodes several interfaces
    #[arg(long, conflicts_with = "selftest")]
    rails: bool,
    /// Put routers between nodes
    #[arg(long, conflicts_with_all = ["selftest", "rails"])]
    routed: bool,
    /// Add a deliberate defect to the simulator, which its checkers must find
    #[arg(long, value_name = "DEFECT", value_parser = defect)]
    pub(super) defect: Option<Defect>,
}

impl Flavour {
    /// Draws the options of a seed.
    pub(super) fn draw(self, seed: u64) -> Options {
        let options = match self {
            Self { selftest: true, .. } => Options::draw_selftest(seed),
            Self { rails: true, .. } => Options::draw_rails(seed),
            Self { routed: true, .. } => Options::draw_routed(seed),
            _ => Options::draw(seed),
        };
        Options { defect: self.defect, ..options }
    }

    /// Returns the flavour of one seed of a swarm.
    pub(super) fn share(self, seed: u64) -> Self {
        let in_any_flavour = !matches!(self.defect, Some(Defect::LostForward | Defect::LostPool));
        match self {
            Self { selftest: false, rails: false, routed: false, .. } if in_any_flavour => Self {
                selftest: seed % 8 == 5,
                rails: seed % 8 == 6,
                routed: seed % 8 == 7,
                ..self
            },
            // These defects are in the forwarding of routers.
            Self { selftest: false, rails: false, .. } => Self { routed: true, ..self },
            _ => self,
        }
    }
}

fn defect(name: &str) -> Result<Defect, String> {
    let found = Defect::ALL.into_iter().find(|defect| defect.name() == name);
    found.ok_or_else(|| {
        format!("the defect must be one of {}", Defect::ALL.map(Defect::name).join(", "))
    })
}

/// Says what failed, and keeps what the nodes said to each other where Wireshark can read it.
pub(super) fn report(failure: &Failure, file: Option<&Path>) {
    complain(&format!("{failure}\n"));
    let name = format!("sim-{}.pcapng", failure.options.seed);
    let file = file.map_or_else(|| PathBuf::from(name), Path::to_owned);
    keep(&failure.options, &file);
}

/// Runs it again and keeps what the nodes say to each other. Returns whether that could be
/// written.
pub(super) fn keep(options: &Options, file: &Path) -> bool {
    let place = file.display();
    match std::fs::write(file, capture(options)) {
        Ok(()) => {
            complain(&format!("what was said: tshark -d tcp.port==988,lnet -r {place}\n"));
            true
        }
        Err(error) => {
            complain(&format!("fulmar: cannot write the capture {place}: {error}\n"));
            false
        }
    }
}

/// So many lines of the log show what led to a failure.
pub(super) const LINES_KEPT: usize = 200;
