//! `fulmar sim path`.

mod args;
mod file;
mod show;
mod sweep;
mod tcp;

use std::path::Path;
use std::process::ExitCode;

use fulmar_study::path::{self, Outcome, Plan};
use fulmar_tune::model::Prediction;

use crate::context::{complain, print};
pub(crate) use args::Args;

/// The result of a plan, and what the formula says.
struct PlanResult {
    plan: Plan,
    outcome: Outcome,
    formula: Option<Prediction>,
}

/// Why nothing is printed.
enum Refusal {
    /// The plan cannot be simulated, or a file cannot be written.
    Failed(String),
    /// The request is invalid.
    Wrong(String),
}

pub(crate) fn main(args: &Args) -> ExitCode {
    match run(args) {
        Ok(status) => ExitCode::from(status),
        Err(Refusal::Failed(message)) => {
            complain(&format!("fulmar sim path: {message}\n"));
            ExitCode::FAILURE
        }
        Err(Refusal::Wrong(message)) => {
            complain(&format!("fulmar sim path: {message}\n"));
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<u8, Refusal> {
    if let Some(sweep) = args.sweep() {
        let points = sweep::run(args, sweep)?;
        return Ok(print(&if args.json {
            sweep::json(&points)
        } else {
            sweep::text(sweep, &points)
        }));
    }
    let result = simulate(args.plan().map_err(Refusal::Wrong)?).map_err(Refusal::Failed)?;
    if let Some(file) = &args.svg {
        draw(&result, file).map_err(Refusal::Failed)?;
    }
    Ok(print(&if args.json { show::json(&result) } else { show::text(&result) }))
}

fn simulate(plan: Plan) -> Result<PlanResult, String> {
    let outcome = path::run(&plan).map_err(|error| error.to_string())?;
    let formula = path::closed(&plan);
    Ok(PlanResult { plan, outcome, formula })
}

fn draw(result: &PlanResult, file: &Path) -> Result<(), String> {
    let formula = result.formula.as_ref().map(|formula| formula.bytes_per_second);
    let picture = path::picture(&result.plan, &result.outcome, formula);
    std::fs::write(file, picture.svg()).map_err(|error| {
        format!("cannot write {}: {error}; give another file with --svg", file.display())
    })
}
