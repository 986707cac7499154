//! Runs seeds of the simulator.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use fulmar_sim::{Options, options::Canary, run};

/// Runs a cluster of nodes in virtual time, with faults and checkers.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    one: One,
}

#[derive(Debug, Args)]
struct One {
    /// The seed that the run is drawn from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many nodes, instead of what the seed draws.
    #[arg(long)]
    nodes: Option<u32>,
    /// Plant a fault in the simulator itself, which the checkers must find.
    #[arg(long, value_parser = canary)]
    canary: Option<Canary>,
    /// Have administrators run selftests.
    #[arg(long)]
    selftest: bool,
    /// Print every transition, and not only the last ones of a run that fails.
    #[arg(long)]
    log: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs many seeds and stops at the first that fails.
    Swarm {
        /// The seeds, as in 0..200; the last is not run.
        #[arg(long, value_parser = seeds)]
        seeds: std::ops::Range<u64>,
        /// Have administrators run selftests.
        #[arg(long)]
        selftest: bool,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => one(&cli.one),
        Some(Command::Swarm { seeds, selftest }) => swarm(seeds, selftest),
    }
}

fn one(args: &One) -> ExitCode {
    let mut options = draw(args.seed, args.selftest);
    if let Some(nodes) = args.nodes {
        options.nodes = nodes.max(2);
    }
    options.canary = args.canary;
    println!("{options}");
    match run(&options, if args.log { usize::MAX } else { LINES_KEPT }) {
        Ok(outcome) => {
            for line in outcome.log.iter().filter(|_| args.log) {
                println!("{line}");
            }
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn swarm(seeds: std::ops::Range<u64>, selftest: bool) -> ExitCode {
    let (mut runs, mut steps) = (0, 0);
    for seed in seeds {
        match run(&draw(seed, selftest), LINES_KEPT) {
            Ok(outcome) => (runs, steps) = (runs + 1, steps + outcome.steps),
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{runs} seeds, {steps} steps: all good");
    ExitCode::SUCCESS
}

fn draw(seed: u64, selftest: bool) -> Options {
    if selftest { Options::draw_selftest(seed) } else { Options::draw(seed) }
}

fn seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("seeds are a range, as in 0..200")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(first)?..number(end)?)
}

fn canary(name: &str) -> Result<Canary, String> {
    let found = Canary::ALL.into_iter().find(|canary| canary.name() == name);
    found.ok_or_else(|| format!("a canary is one of {}", Canary::ALL.map(Canary::name).join(", ")))
}

/// Enough to see what led to a failure.
const LINES_KEPT: usize = 200;
