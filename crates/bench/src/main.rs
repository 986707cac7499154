//! `fulmar-bench` measures Fulmar against its yardsticks: iperf3, haproxy, a bare TCP ping-pong, and
//! itself with less.
//!
//! Ours and the yardstick run in turns, several times each; medians are compared, so that what the
//! figures say holds on any machine. The processes that do the work are this same program, with
//! subcommands that are not shown.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod iperf3;
mod link;
mod lnet;
mod lst;
mod multirail;
mod namespaces;
mod ping_pong;
mod process;
mod report;
mod router;
mod sim;
mod stats;
mod wan;

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use report::Figure;

#[derive(Parser)]
#[command(about = "Measures Fulmar against its yardsticks")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure, print a table, and write the figures down.
    Run {
        /// Only figures whose names begin so, such as `lnet` or `lnet.put_8b`.
        #[arg(long, default_value = "", value_parser = prefix)]
        only: String,
        /// The file that gets the figures as JSON.
        #[arg(long, default_value = "target/bench/results.json")]
        results: PathBuf,
        /// Seconds of each trial.
        #[arg(long, default_value_t = 3)]
        seconds: u64,
        /// How often each trial is repeated.
        #[arg(long, default_value_t = 5)]
        repeats: usize,
    },
    #[command(hide = true)]
    PingPongServer,
    #[command(hide = true)]
    PingPongClient { address: SocketAddr, seconds: f64 },
    #[command(hide = true)]
    LnetTarget { port: u16 },
    #[command(hide = true)]
    LnetSource { port: u16, len: u32, window: u32, seconds: f64 },
    #[command(hide = true)]
    LnetHub { port: u16, peers: u32 },
    #[command(hide = true)]
    LnetPeers { port: u16, peers: u32 },
    #[command(hide = true)]
    LstServer { port: u16 },
    #[command(hide = true)]
    LstClient { port: u16, load: String, seconds: f64 },
    #[command(hide = true)]
    LinkEcho { to: IpAddr, expected_us: u64 },
}

/// What measures the figures whose names begin so.
type Case = (&'static str, fn(Effort) -> Result<Vec<Figure>, Failure>);

const CASES: &[Case] = &[
    ("link.tcp_gbps", link::tcp),
    ("link.delay_error", link::delay),
    ("lnet.put_1m", lnet::bulk),
    ("lnet.put_8b", lnet::latency),
    ("lnet.idle_1000_peers", lnet::idle),
    ("lst.brw_", lst::bulk),
    ("lst.ping", lst::latency),
    ("lst.node_c64", lst::memory),
    ("multirail.two_rails", multirail::two_rails),
    ("multirail.cut", multirail::cut),
    ("multirail.silence", multirail::silence),
    ("router.forward_1m", router::forward),
    ("router.two_groups", router::two_groups),
    ("router.stopped_receiver", router::stopped_receiver),
    ("wan.lst_tuned", wan::tuned),
    ("wan.model", wan::foretold),
    ("sim.sc11", sim::sc11),
];

/// How long and how often each trial runs.
#[derive(Clone, Copy)]
struct Effort {
    duration: Duration,
    repeats: usize,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run { only, results, seconds, repeats } => {
            let duration = Duration::from_secs(seconds);
            run(&only, &results, Effort { duration, repeats: repeats.max(1) })
        }
        Command::PingPongServer => ping_pong::serve(),
        Command::PingPongClient { address, seconds } => {
            ping_pong::call(address, Duration::from_secs_f64(seconds))
        }
        Command::LnetTarget { port } => lnet::receive(port),
        Command::LnetSource { port, len, window, seconds } => {
            lnet::send(port, lnet::Flow { len, window }, Duration::from_secs_f64(seconds))
        }
        Command::LnetHub { port, peers } => lnet::serve_peers(port, peers),
        Command::LnetPeers { port, peers } => lnet::hold_peers(port, peers),
        Command::LinkEcho { to, expected_us } => {
            link::send_echoes(to, Duration::from_micros(expected_us))
        }
        Command::LstServer { port } => lst::serve(port),
        Command::LstClient { port, load, seconds } => {
            let load = serde_json::from_str(&load);
            let load = load.map_err(|error| Failure(format!("no load: {error}")));
            load.and_then(|load| lst::run_load(port, load, Duration::from_secs_f64(seconds)))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fulmar-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(only: &str, results: &Path, effort: Effort) -> Result<(), Failure> {
    let mut figures = vec![];
    for (name, measure) in CASES.iter().filter(|(name, _)| overlaps(name, only)) {
        eprintln!("measuring {name} ...");
        figures.extend(measure(effort)?.into_iter().filter(|f| f.name.starts_with(only)));
    }
    let text = serde_json::to_string_pretty(&figures).expect("figures are plain numbers");
    if let Some(directory) = results.parent() {
        fs::create_dir_all(directory).map_err(Failure::io("create the results' directory"))?;
    }
    fs::write(results, text + "\n").map_err(Failure::io(format!("write {}", results.display())))?;
    print!("{}", report::table(&figures));
    println!("written to {}", results.display());
    let missed = figures.iter().filter(|figure| figure.holds == Some(false)).count();
    match missed {
        0 => Ok(()),
        missed => Err(Failure(format!("{missed} figures miss their bars"))),
    }
}

/// Takes the beginning of a figure's name.
fn prefix(only: &str) -> Result<String, String> {
    if CASES.iter().any(|(name, _)| overlaps(name, only)) {
        return Ok(only.to_owned());
    }
    let names: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    Err(format!("there are {}", names.join(", ")))
}

/// Whether figures of `case` may have names that begin with `only`.
fn overlaps(case: &str, only: &str) -> bool {
    case.starts_with(only) || only.starts_with(case)
}

/// What went wrong, for people.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    /// Says what could not be done.
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
