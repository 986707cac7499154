//! `fulmar sim run`.

use std::path::PathBuf;
use std::process::ExitCode;

use fulmar_sim::{Options, Outcome, run};

use super::flavour::{Flavour, LINES_KEPT, keep, report};
use crate::context::print;

/// Run one cluster with faults and checkers, drawn from a seed
///
/// The seed says how many nodes there are, what the network between them is like, what they do
/// and what goes wrong. First faults strike; then all is healed, and every operation must end.
/// The same seed is the same run, to the byte of its log. Of one that fails the last lines are
/// printed, the command that repeats it, and the name of a capture of what was said.
///
/// Exit status: 0 all is well; 1 a checker found something, or what was asked for cannot be
/// written; 2 the command is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What everything random is drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many nodes, instead of what the seed draws
    #[arg(long, value_name = "N", conflicts_with_all = ["rails", "routed"],
        value_parser = clap::value_parser!(u32).range(2..=10_000))]
    nodes: Option<u32>,
    #[command(flatten)]
    flavour: Flavour,
    /// Print everything that happens
    #[arg(long)]
    log: bool,
    /// Keep what the nodes say to each other, for tshark or Wireshark; bulk is zeros
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
            let printed = print(&told(&options, &outcome, args.log)) == 0;
            let kept = args.pcap.as_ref().is_none_or(|file| keep(&options, file));
            if kept && printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            report(&failure, args.pcap.as_deref());
            ExitCode::FAILURE
        }
    }
}

/// Returns what the run was, with everything that happened if that is asked for.
fn told(options: &Options, outcome: &Outcome, log: bool) -> String {
    let mut text = format!("{options}\n");
    for line in outcome.log.iter().filter(|_| log) {
        text += &format!("{line}\n");
    }
    text + &format!("{outcome}\n")
}
