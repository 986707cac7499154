//! Commands that Lustre's `lst` does not have: `lst run --from … --to …`, which runs a session and
//! prints a table, with sweeps over a grid; and `lst mesh`, from every node to every other.

mod clock;
mod drive;
#[cfg(test)]
mod fake;
mod grid;
mod live;
mod measure;
mod mesh;
mod plan;
mod report;
mod session;
mod stats;
mod sweep;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};

use clap::Parser;
use fulmar_control::tool::{Status, complain, print};

pub(crate) use plan::{MeshArgs, RunArgs};

use clock::{INTERRUPTED, WallClock};
use drive::Cell;
use grid::{Grid, Point};
use live::Live;
use report::Report;
use session::Failure;
use sweep::Sweep;

use super::console::Remote;
use crate::Connect;

/// There were errors, or a node failed.
const FAILED: Status = 1;
/// The request is invalid.
const INVALID: Status = 2;

/// Runs `lst run` with its arguments.
pub(crate) fn run(connect: &Connect<'_>, words: &[String]) -> Status {
    parsed("lst run", words, |args: RunArgs| match args.grid() {
        None => measure_once(connect, &args),
        Some(grid) => measure_grid(connect, &args, grid),
    })
}

/// Runs `lst mesh` with its arguments.
pub(crate) fn mesh(connect: &Connect<'_>, words: &[String]) -> Status {
    parsed("lst mesh", words, |args: MeshArgs| measure_mesh(connect, &args))
}

fn parsed<A: Parser>(
    command: &str,
    words: &[String],
    execute: impl FnOnce(A) -> Result<Status, Failure>,
) -> Status {
    let words = std::iter::once(command).chain(words.iter().map(String::as_str));
    match A::try_parse_from(words) {
        Err(error) => {
            let _ = error.print();
            error.exit_code() as Status
        }
        Ok(args) => execute(args).unwrap_or_else(|failure| fail(command, &failure)),
    }
}

/// Reports why there is no measurement.
fn fail(command: &str, failure: &Failure) -> Status {
    complain(&format!("{command}: {failure}\n"));
    match failure {
        Failure::Invalid(_) | Failure::Exists(_) => INVALID,
        _ => FAILED,
    }
}

fn measure_once(connect: &Connect<'_>, args: &RunArgs) -> Result<Status, Failure> {
    let cell = args.cell(Point::default()).map_err(Failure::Invalid)?;
    let (mut console, clock) = begin(connect)?;
    let mut live = Live::on_stderr(args.progress);
    let outcome = drive::measure(&mut console, &clock, &cell, &mut |tick| live.tick(tick));
    live.clear();
    let outcome = outcome?;
    let report = Report::new(&cell, &outcome);
    print(&match (args.json, args.csv) {
        (true, _) => report.json(),
        (_, true) => report.csv(),
        _ => report.text(),
    });
    Ok(status(outcome.interrupted, outcome.is_fine()))
}

fn measure_grid(connect: &Connect<'_>, args: &RunArgs, grid: &Grid) -> Result<Status, Failure> {
    let cell = |point| Ok((point, args.cell(point)?));
    let cells: Result<Vec<(Point, Cell)>, String> = grid.points().into_iter().map(cell).collect();
    let cells = cells.map_err(Failure::Invalid)?;
    let (mut console, clock) = begin(connect)?;
    let mut live = Live::on_stderr(args.progress);
    let sweep = Sweep::measure(&mut console, &clock, &cells, args.repeats(), &mut live);
    live.clear();
    // A failure without any result is reported as an error, not as a table.
    if sweep.failure.is_none() || sweep.has_figures() {
        print(&match (args.json, args.csv, args.markdown) {
            (true, ..) => report::json(&sweep),
            (_, true, _) => sweep.csv(),
            (_, _, true) => sweep.markdown(),
            _ => sweep.text(),
        });
    }
    let ended = status(sweep.interrupted, sweep.is_fine());
    sweep.failure.map_or(Ok(ended), Err)
}

fn measure_mesh(connect: &Connect<'_>, args: &MeshArgs) -> Result<Status, Failure> {
    let plan = mesh::Plan {
        nodes: args.nodes().map_err(Failure::Invalid)?,
        time: args.time,
        warmup: args.warmup,
        size: args.size,
        concurrency: args.concurrency,
        parallel: args.parallel,
        force: args.force,
    };
    let (mut console, clock) = begin(connect)?;
    let mut live = Live::on_stderr(args.progress);
    let mesh = mesh::run(&mut console, &clock, &plan, &mut live);
    live.clear();
    if mesh.failure.is_none() || mesh.has_figures() {
        print(&if args.json { report::json(&mesh) } else { mesh.text() });
    }
    let ended = status(mesh.interrupted, mesh.is_fine());
    mesh.failure.map_or(Ok(ended), Err)
}

/// Prepares a measurement; does not connect to the node yet.
fn begin<'a>(connect: &'a Connect<'a>) -> Result<(Remote<'a>, WallClock), Failure> {
    let clock = WallClock::start().map_err(Failure::Signals)?;
    // The random seed of the standard library suffices for a key, which must not be 0.
    let key = (RandomState::new().hash_one(std::process::id()) as u32).max(1);
    Ok((Remote::new(connect, key), clock))
}

fn status(interrupted: bool, fine: bool) -> Status {
    match (interrupted, fine) {
        (true, _) => INTERRUPTED,
        (false, true) => 0,
        (false, false) => FAILED,
    }
}
