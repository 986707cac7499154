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
    #[command(flatten)]
    flavour: Flavour,
    /// Print every transition, and not only the last ones of a run that fails.
    #[arg(long)]
    log: bool,
}

/// What the runs are like. A swarm of no flavour gives each its share of the seeds.
#[derive(Clone, Copy, Debug, Args)]
struct Flavour {
    /// Have administrators run selftests.
    #[arg(long)]
    selftest: bool,
    /// Give nodes several interfaces.
    #[arg(long, conflicts_with = "selftest")]
    rails: bool,
    /// Put routers between nodes.
    #[arg(long, conflicts_with_all = ["selftest", "rails"])]
    routed: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs many seeds and stops at the first that fails.
    Swarm {
        /// The seeds, as in 0..200; the last is not run.
        #[arg(long, value_parser = seeds)]
        seeds: std::ops::Range<u64>,
        #[command(flatten)]
        flavour: Flavour,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => one(&cli.one),
        Some(Command::Swarm { seeds, flavour }) => swarm(seeds, flavour),
    }
}

fn one(args: &One) -> ExitCode {
    let mut options = args.flavour.draw(args.seed);
    if let Some(nodes) = args.nodes {
        options.nodes = nodes.max(2);
        options.rails = None;
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

fn swarm(seeds: std::ops::Range<u64>, flavour: Flavour) -> ExitCode {
    let (mut runs, mut steps) = (0, 0);
    for seed in seeds {
        match run(&flavour.share(seed).draw(seed), LINES_KEPT) {
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

impl Flavour {
    fn draw(self, seed: u64) -> Options {
        match self {
            Self { selftest: true, .. } => Options::draw_selftest(seed),
            Self { rails: true, .. } => Options::draw_rails(seed),
            Self { routed: true, .. } => Options::draw_routed(seed),
            _ => Options::draw(seed),
        }
    }

    /// Returns the flavour of one seed of a swarm.
    fn share(self, seed: u64) -> Self {
        if self.selftest || self.rails || self.routed {
            return self;
        }
        Self { selftest: seed % 8 == 5, rails: seed % 8 == 6, routed: seed % 8 == 7 }
    }
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
