//! `fulmar sim run`.

use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_sim::{Options, Outcome, run};

use super::flavour::{Flavour, LINES_KEPT, keep, report};
use crate::context::print;

/// Run one random cluster with faults and checkers
///
/// The seed determines the number of nodes, the network between them, the operations and the
/// faults. First faults are injected; then all are repaired, and every operation must end. The
/// same seed gives the same run, with the same log. For a run that fails, prints the last log
/// lines, the command that repeats it, and the name of a capture of its traffic.
///
/// Exit status: 0 if no checker found an error; 1 if one did, or a requested file cannot be
/// written; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number of nodes, instead of the one that the seed gives
    #[arg(long, value_name = "N", conflicts_with_all = ["rails", "routed", "hostile"],
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    nodes: Option<u32>,
    #[command(flatten)]
    flavour: Flavour,
    /// Print all events
    #[arg(long)]
    log: bool,
    /// Write the traffic to this file, for tshark or Wireshark; bulk data is zeros
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

pub(super) fn main(args: &Args) -> ExitCode {
    let mut options = args.flavour.draw(args.seed);
    if let Some(nodes) = args.nodes {
        options.nodes = nodes;
    }
    match run(&options, if args.log { usize::MAX } else { LINES_KEPT }) {
        Ok(outcome) => {
            let printed = print(&describe(&options, &outcome, args.log)) == 0;
            let kept = args.pcap.as_ref().is_none_or(|file| keep(&options, file));
            if kept && printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            report(&failure, args.pcap.as_deref());
            ExitCode::FAILURE
        }
    }
}

/// Returns a description of the run, with all events if `log`.
fn describe(options: &Options, outcome: &Outcome, log: bool) -> String {
    let mut text = format!("{options}\n");
    for line in outcome.log.iter().filter(|_| log) {
        text += &format!("{line}\n");
    }
    text + &format!("{outcome}\n")
}
