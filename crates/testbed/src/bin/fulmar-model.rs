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
    /// How many clients there are
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
    /// The layout of new files: default, plain, wide, parts or mdt; by default each seed draws some
    #[arg(long, value_parser = layout)]
    layout: Option<Layout>,
    /// Restart the servers among the operations
    #[arg(long)]
    restarts: bool,
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
    let (net, scratch) =
        (Net { third: 1 + (std::process::id() % 250) as u8, port: 9977 }, scratch("model"));
    if args.mounts {
        let fulmar = binaries()?.join("fulmar");
        let mut mounts = Mounts::start(&fulmar, &scratch, net, args.clients)?;
        let is_right = explore(args, &mut |steps| mounts.check(steps))?;
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
    let &Args { clients, steps, restarts, together, layout, .. } = args;
    let settings = Settings { clients, steps, restarts, together, layout };
    let (mut seed, mut failures) = (first, 0);
    while begun.elapsed() < limit && failures < args.failures {
        if !examine(args, check, &generate(seed, settings)) {
            println!("seed {seed}\n");
            failures += 1;
        }
        seed += 1;
    }
    println!("{} seeds from {first} on, {failures} failures", seed - first);
    Ok(failures == 0)
}

/// Executes operations. If they fail, prints fewer that do, and how they are repeated.
fn examine(args: &Args, check: Check<'_>, steps: &[Step]) -> bool {
    let Err(failure) = check(steps) else { return true };
    println!("{failure}");
    let few = shrink(steps, args.shrink, &mut |steps| check(steps).is_err());
    let mounts = if args.mounts { " --mounts" } else { "" };
    println!("fulmar-model{mounts} --clients {} --replay /dev/stdin <<'END'", args.clients);
    few.iter().for_each(|step| println!("{step}"));
    println!("END");
    match check(&few) {
        Err(failure) => println!("{failure}"),
        Ok(()) => println!("these do not fail each time"),
    }
    false
}
