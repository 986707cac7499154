//! `fulmar-hostile`: attackers of [`fulmar_testbed::hostile`], and experiments with them.
#![forbid(unsafe_code)]
// This program uses real clocks, sockets and arguments.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use fulmar_testbed::hostile::{self, ATTACKS, Mix};
use fulmar_testbed::lab::{Lab, binaries};
use fulmar_text::{Table, left};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Attack a node in many ways, and require that others are served
#[derive(Debug, Parser)]
#[command(name = "fulmar-hostile")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all attacks
    List,
    /// Run attacks one by one, and measure the service of the attacked node
    Measure {
        /// Only attacks whose names begin with this
        #[arg(default_value = "")]
        only: String,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Run random mixes of attacks, and require that the node survives
    Mix {
        /// The seed of the first mix; the next one has the next seed
        #[arg(long)]
        seed: Option<u64>,
        /// Begin no other mix after this time
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// How long each mix attacks
        #[arg(long, default_value_t = 8)]
        each: u64,
        /// Only these attacks
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// The process of an attacker, until standard input ends
    #[command(hide = true)]
    Attack { orders: String },
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::List => {
            list();
            Ok(())
        }
        Command::Measure { only, seed } => measure(&only, seed),
        Command::Mix { seed, seconds, each, only } => {
            let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
            mix(seed, Duration::from_secs(seconds), Duration::from_secs(each), &only)
        }
        Command::Attack { orders } => attack(&orders),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulmar-hostile: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    let mut table = Table::new([left("attack"), left("setup"), left("what the attacker does")]);
    for attack in ATTACKS {
        let setup = format!("{:?}", attack.setup);
        table.row([attack.name.to_owned(), setup, attack.what.to_owned()]);
    }
    print!("{table}");
}

fn measure(only: &str, seed: u64) -> Result<(), String> {
    let binaries = binaries()?;
    let (mut all, mut failed) = (Vec::new(), 0);
    for attack in ATTACKS.iter().filter(|attack| attack.name.starts_with(only)) {
        eprintln!("{}: {} ...", attack.name, attack.what);
        match hostile::measure(&Lab::new(&binaries)?, attack, seed) {
            Ok(measured) => {
                eprint!("{}", hostile::table(std::slice::from_ref(&measured)));
                all.push(measured);
            }
            Err(why) => {
                failed += 1;
                eprintln!("{why}");
            }
        }
    }
    print!("{}", hostile::table(&all));
    if failed == 0 { Ok(()) } else { Err(format!("{failed} attacks cannot be measured")) }
}

fn mix(seed: u64, time: Duration, each: Duration, only: &[String]) -> Result<(), String> {
    let binaries = binaries()?;
    let only: Vec<&str> = only.iter().map(String::as_str).collect();
    let (begun, mut failed) = (Instant::now(), Vec::new());
    for seed in seed.. {
        if begun.elapsed() >= time {
            break;
        }
        let mix = Mix::new(seed, &only);
        println!("{mix}");
        match hostile::mix(&Lab::new(&binaries)?, &mix, each) {
            Ok(survived) => println!("  {survived:?}"),
            Err(why) => {
                println!("  FAILED: {why}");
                failed.push(seed.to_string());
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let seeds = failed.join(", ");
    Err(format!("repeat with: fulmar-hostile mix --seconds 1 --seed SEED, where SEED is {seeds}"))
}

/// Runs an attack on the last core alone.
fn attack(orders: &str) -> Result<(), String> {
    let orders = serde_json::from_str(orders).map_err(|error| format!("{orders:?}: {error}"))?;
    pin()?;
    // An attacker has as many descriptors as it may have.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let end = Arc::new(AtomicBool::new(false));
    let ended = end.clone();
    std::thread::spawn(move || {
        // An error ends it too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ended.store(true, Ordering::Relaxed);
    });
    let tally = hostile::run(&orders, end)?;
    println!("{}", serde_json::to_string(&tally).expect("a tally is plain"));
    Ok(())
}

fn pin() -> Result<(), String> {
    let last = fulmar_net::usable_cores().pop().ok_or("no core may be used")?;
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).map_err(|error| format!("cannot use core {last} alone: {error}"))
}
