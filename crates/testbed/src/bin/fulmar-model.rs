//! Execute random operations on files by several clients, and compare what they return with a model.
#![forbid(unsafe_code)]
// This program uses real clocks, sockets and arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use fulmar_testbed::kill::{Net, scratch};
use fulmar_testbed::lab::binaries;
use fulmar_testbed::model::agent;
use fulmar_testbed::model::agents::Agents;
use fulmar_testbed::model::library::Library;
use fulmar_testbed::model::mounts::Mounts;
use fulmar_testbed::model::{Failure, Layout, Settings, Step, generate, parse, shrink};

/// Execute random operations on files, and compare what they return with a model
#[derive(Debug, Parser)]
#[command(name = "fulmar-model")]
struct Args {
    /// How long new seeds are begun
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// The first seed
    #[arg(long)]
    seed: Option<u64>,
    /// End after so many failures
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// How many clients there are; with --on as many as there are commands
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=8))]
    clients: u8,
    /// How many operations a seed has
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Use mounts by the program fulmar instead of the client library
    #[arg(long)]
    mounts: bool,
    /// Let clients do some operations at the same time
    #[arg(long)]
    together: bool,
    /// Use a directory that is mounted, by a command for each client that begins `fulmar-model --agent DIRECTORY`, there or by ssh
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["mounts", "faults", "clients"])]
    on: Vec<String>,
    /// Execute operations in this directory that are read from standard input, for a tester with --on
    #[arg(long, value_name = "DIRECTORY", exclusive = true)]
    agent: Option<PathBuf>,
    /// The layout of new files: default, plain, wide, parts or mdt; by default each seed draws some
    #[arg(long, value_parser = layout)]
    layout: Option<Layout>,
    /// Have faults among the operations: servers that restart, connections that break, clients that are evicted
    #[arg(long)]
    faults: bool,
    /// Leave out operations by their verbs, as `allocate,seek`: what these servers do not support
    #[arg(long, value_name = "VERBS", value_delimiter = ',')]
    without: Vec<String>,
    /// Execute the operations of this file instead, one in a line
    #[arg(long)]
    replay: Option<PathBuf>,
    /// How many runs may be used to find fewer operations that fail
    #[arg(long, default_value_t = 400)]
    shrink: usize,
}

fn layout(word: &str) -> Result<Layout, String> {
    word.parse().map_err(|()| "a layout is default, plain, wide, parts or mdt".to_owned())
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fulmar-model: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A run of operations on a file system.
type Check<'a> = &'a mut dyn FnMut(&[Step]) -> Result<(), Box<Failure>>;

/// Returns whether everything was as the model says.
fn run(args: &Args) -> Result<bool, String> {
    if let Some(directory) = &args.agent {
        agent::serve(directory, std::io::stdin().lock(), std::io::stdout().lock())?;
        return Ok(true);
    }
    if !args.on.is_empty() {
        let mut agents = Agents::start(&args.on, true)?;
        return explore(args, &mut |steps| agents.check(steps));
    }
    let (net, scratch) =
        (Net { third: 1 + (std::process::id() % 250) as u8, port: 9977 }, scratch("model"));
    if args.mounts {
        let fulmar = binaries()?.join("fulmar");
        let mut mounts = Mounts::start(&fulmar, &scratch, net, args.clients)?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut agents = mounts.agents(&own)?;
        let is_right = explore(args, &mut |steps| mounts.check(&mut agents, steps))?;
        drop(agents);
        mounts.stop()?;
        return Ok(is_right);
    }
    let mut library = Library::start(&scratch, net, args.clients)?;
    let is_right = explore(args, &mut |steps| library.check(steps))?;
    library.stop()?;
    Ok(is_right)
}

/// Executes the operations of a file, or of as many seeds as there is time for.
fn explore(args: &Args, check: Check<'_>) -> Result<bool, String> {
    if let Some(file) = &args.replay {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        return Ok(examine(args, check, &parse(&text)?));
    }
    let first = args.seed.unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
    let (begun, limit) = (Instant::now(), Duration::from_secs(args.seconds));
    let &Args { steps, faults, together, layout, .. } = args;
    let settings = Settings { clients: clients(args), steps, faults, together, layout };
    let (mut seed, mut failures) = (first, 0);
    while begun.elapsed() < limit && failures < args.failures {
        let mut steps = generate(seed, settings);
        steps.retain(|step| args.without.iter().all(|verb| verb != step.operation.verb()));
        if !examine(args, check, &steps) {
            println!("seed {seed}\n");
            failures += 1;
        }
        seed += 1;
    }
    println!("{} seeds from {first} on, {failures} failures", seed - first);
    Ok(failures == 0)
}

fn clients(args: &Args) -> u8 {
    if args.on.is_empty() { args.clients } else { args.on.len().min(255) as u8 }
}

/// Returns the arguments that say what executes the operations.
fn executor(args: &Args) -> String {
    if args.on.is_empty() {
        let mounts = if args.mounts { " --mounts" } else { "" };
        return format!("{mounts} --clients {}", args.clients);
    }
    let quote = |command: &String| format!(" --on '{}'", command.replace('\'', "'\\''"));
    args.on.iter().map(quote).collect()
}

/// Executes operations. If they fail, prints fewer that do, and how they are repeated.
fn examine(args: &Args, check: Check<'_>, steps: &[Step]) -> bool {
    let Err(failure) = check(steps) else { return true };
    println!("{failure}");
    let few = shrink(steps, args.shrink, &mut |steps| check(steps).is_err());
    println!("fulmar-model{} --replay /dev/stdin <<'END'", executor(args));
    few.iter().for_each(|step| println!("{step}"));
    println!("END");
    match check(&few) {
        Err(failure) => println!("{failure}"),
        Ok(()) => println!("these do not fail each time"),
    }
    false
}
