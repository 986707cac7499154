//! `fulmar sim swarm`.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_sim::{Failure, run};

use super::flavour::{Flavour, LINES_KEPT, report};
use crate::context::print;

/// Run many seeds on all processors, and stop at the first that fails
///
/// Without a flavour most seeds are plain, and every eighth is of each other kind. With --defect
/// each run has a deliberate defect in the simulator: a seed that fails has found it, and it is
/// reported if no seed finds it.
///
/// Exit status: 0 if no seed fails; 1 if one does; 2 if the request is invalid.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Range of seeds, such as 0..200; the end is excluded
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Range<u64>,
    #[command(flatten)]
    flavour: Flavour,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (first, end) = text.split_once("..").ok_or("write seeds as a range, such as 0..200")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text:?}: {error}"));
    let seeds = number(first)?..number(end)?;
    if seeds.is_empty() { Err("this range has no seed".to_owned()) } else { Ok(seeds) }
}

pub(super) fn main(args: &Args) -> ExitCode {
    let swarm = Swarm::new(args);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| swarm.work());
        }
    });
    let (runs, steps) = (swarm.runs.into_inner(), swarm.steps.into_inner());
    let failed = swarm.failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (good, text) = match (failed, args.flavour.defect) {
        (None, None) => (true, format!("{runs} seeds, {steps} steps: all good\n")),
        (None, Some(defect)) => {
            (true, format!("{runs} seeds, {steps} steps: {} was NOT found\n", defect.name()))
        }
        (Some(failure), None) => {
            report(&failure, None);
            return ExitCode::FAILURE;
        }
        (Some(failure), Some(defect)) => {
            let (seed, found) = (failure.options.seed, &failure.violation);
            let (name, command) = (defect.name(), failure.command());
            (false, format!("{name} was found by seed {seed}: {found}\n{command}\n"))
        }
    };
    let printed = print(&text) == 0;
    if good && printed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds shared by several threads.
struct Swarm<'a> {
    args: &'a Args,
    next: AtomicU64,
    /// The lowest seed known to fail; later seeds need not run.
    end: AtomicU64,
    failed: Mutex<Option<Box<Failure>>>,
    runs: AtomicU64,
    steps: AtomicU64,
}

impl<'a> Swarm<'a> {
    fn new(args: &'a Args) -> Self {
        Self {
            args,
            next: AtomicU64::new(args.seeds.start),
            end: AtomicU64::new(args.seeds.end),
            failed: Mutex::new(None),
            runs: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    /// Runs seeds until none is left.
    fn work(&self) {
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end.load(Ordering::Relaxed) {
                return;
            }
            let flavour = self.args.flavour.share(seed);
            match run(&flavour.draw(seed), LINES_KEPT) {
                Ok(outcome) => {
                    self.runs.fetch_add(1, Ordering::Relaxed);
                    self.steps.fetch_add(outcome.steps, Ordering::Relaxed);
                }
                Err(failure) => self.fail(seed, failure),
            }
        }
    }

    /// Keeps the failure of the lowest seed, which does not depend on the number of threads.
    fn fail(&self, seed: u64, failure: Box<Failure>) {
        let mut failed = self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if failed.as_ref().is_none_or(|known| seed < known.options.seed) {
            *failed = Some(failure);
            self.end.fetch_min(seed, Ordering::Relaxed);
        }
    }
}
