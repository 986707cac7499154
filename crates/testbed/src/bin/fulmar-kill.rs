//! Kill servers under load, at random points, and require that clients recover and nothing is missing.
#![forbid(unsafe_code)]
// This program uses real clocks, sockets and arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::process::ExitCode;

use clap::Parser;
use fulmar_testbed::kill::{Fault, Net, Options, run, scratch};
use fulmar_testbed::lab::binaries;

/// Kill servers under load, and require that nothing is missing
#[derive(Debug, Parser)]
#[command(name = "fulmar-kill")]
struct Args {
    /// How often a server is killed
    #[arg(long, default_value_t = 200)]
    points: usize,
    /// What repeats a run: which servers, and when
    #[arg(long)]
    seed: Option<u64>,
    /// Start each killed server with an older state of its directory: what must be found
    #[arg(long)]
    roll_back: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
    println!("seed {seed}");
    let done = binaries().and_then(|binaries| {
        let points = args.points;
        let fault = if args.roll_back { Fault::RollBack } else { Fault::None };
        let net = Net { third: 77, port: 9974 };
        let fulmar = binaries.join("fulmar");
        run(&Options { fulmar, scratch: scratch("run"), net, points, seed, fault })
    });
    match done {
        Ok(report) => {
            let (kills, answered) = (&report.kills, fulmar_text::grouped(report.answered));
            let recovery = fulmar_text::duration(report.recovery_max);
            println!(
                "killed: the server of the MDT {} times, those of OSTs {:?} times\n\
                 {answered} requests answered, nothing missing; the longest recovery took {recovery}\n\
                 open files and locks were there in each of {} trials",
                kills[0],
                &kills[1..],
                fulmar_text::grouped(report.audits)
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fulmar-kill: {error}");
            ExitCode::FAILURE
        }
    }
}
