//! What the runs of a seed are like, and how one that fails is told.

use std::path::{Path, PathBuf};

use fulmar_sim::options::Canary;
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
    /// Plant a fault in the simulator itself, which its checkers must find
    #[arg(long, value_name = "FAULT", value_parser = canary)]
    pub(super) canary: Option<Canary>,
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
        Options { canary: self.canary, ..options }
    }

    /// Returns the flavour of one seed of a swarm.
    pub(super) fn share(self, seed: u64) -> Self {
        let planted_anywhere = !matches!(self.canary, Some(Canary::LostForward | Canary::LostPool));
        match self {
            Self { selftest: false, rails: false, routed: false, .. } if planted_anywhere => Self {
                selftest: seed % 8 == 5,
                rails: seed % 8 == 6,
                routed: seed % 8 == 7,
                ..self
            },
            // Only routers can forget what routers do.
            Self { selftest: false, rails: false, .. } => Self { routed: true, ..self },
            _ => self,
        }
    }
}

fn canary(name: &str) -> Result<Canary, String> {
    let found = Canary::ALL.into_iter().find(|canary| canary.name() == name);
    found.ok_or_else(|| format!("a fault is one of {}", Canary::ALL.map(Canary::name).join(", ")))
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
