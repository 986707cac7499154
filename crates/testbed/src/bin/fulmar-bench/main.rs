//! `fulmar-bench` measures Fulmar against baselines: iperf3, haproxy, a plain TCP ping-pong, other file
//! systems, and Fulmar itself with a smaller load.
//!
//! Fulmar and the baseline run alternately, several times each, and medians are compared, so that
//! the ratios do not depend on the machine. Each figure is written as soon as it is measured. A
//! case whose repeats differ by more than a tenth was disturbed: in the time that is left when all
//! are measured, the most disturbed cases are measured again. The worker processes are this same
//! program, with hidden subcommands.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod client;
mod fuse;
mod hostile;
mod iperf3;
mod ldlm;
mod link;
mod lnet;
mod lst;
mod mdt;
mod multirail;
mod namespaces;
mod ost;
mod others;
mod ping_pong;
mod process;
mod report;
mod router;
mod rpc;
mod sim;
mod stats;
mod wan;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

use report::Figure;

#[derive(Parser)]
#[command(about = "Measures Fulmar against baselines")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure, print a table, and write the figures to a file.
    Run {
        /// Only figures whose names begin with this, such as `lnet` or `lnet.put_8b`.
        #[arg(long, default_value = "", value_parser = prefix)]
        only: String,
        /// File for the figures, as JSON.
        #[arg(long, default_value = "target/bench/results.json")]
        results: PathBuf,
        /// Duration of each trial in seconds.
        #[arg(long, default_value_t = 3)]
        seconds: u64,
        /// Number of repeats of each trial.
        #[arg(long, default_value_t = 5)]
        repeats: usize,
        /// Measure disturbed cases again until this number of minutes is over.
        #[arg(long, default_value_t = 18)]
        minutes: u64,
    },
    #[command(hide = true)]
    PingPongServer,
    #[command(hide = true)]
    PingPongClient { address: SocketAddr, seconds: f64 },
    #[command(hide = true)]
    LnetTarget { port: u16, flow: String },
    #[command(hide = true)]
    LnetSource { port: u16, flow: String, seconds: f64 },
    #[command(hide = true)]
    LnetRest { port: u16, seconds: f64 },
    #[command(hide = true)]
    LnetHub { port: u16, peers: u32 },
    #[command(hide = true)]
    LnetPeers { port: u16, peers: u32 },
    #[command(hide = true)]
    FuseLoad { load: String, mount: PathBuf, shared: PathBuf },
    #[command(hide = true)]
    ClientServer { port: u16, directory: PathBuf },
    #[command(hide = true)]
    ClientLoad { port: u16, load: String },
    #[command(hide = true)]
    LdlmLocks { files: u32 },
    #[command(hide = true)]
    LdlmServer { port: u16 },
    #[command(hide = true)]
    LdlmClient { port: u16, concurrency: u32, seconds: f64 },
    #[command(hide = true)]
    LstServer { port: u16 },
    #[command(hide = true)]
    LstClient { port: u16, load: String, seconds: f64 },
    #[command(hide = true)]
    MdtServer { port: u16, directory: PathBuf },
    #[command(hide = true)]
    MdtClient { port: u16, load: String, seconds: f64 },
    #[command(hide = true)]
    MdtFill { directory: PathBuf, files: u32 },
    #[command(hide = true)]
    MdtStart { directory: PathBuf },
    #[command(hide = true)]
    OstServer { port: u16, directory: PathBuf },
    #[command(hide = true)]
    OstClient { port: u16, load: String, seconds: f64 },
    #[command(hide = true)]
    RpcServer { port: u16 },
    #[command(hide = true)]
    RpcClient { port: u16, load: String, seconds: f64 },
    #[command(hide = true)]
    RpcClients { port: u16 },
    #[command(hide = true)]
    LinkEcho { to: IpAddr, expected_us: u64 },
}

/// The cases: the common prefix of figure names, and the function that measures them.
type Case = (&'static str, fn(Effort) -> Result<Vec<Figure>, Failure>);

const CASES: &[Case] = &[
    ("link.tcp_gbps", link::tcp),
    ("link.delay_error", link::delay),
    ("lnet.put_1m", lnet::bulk),
    ("lnet.put_8b", lnet::latency),
    ("lnet.put_16m_4096_segments", lnet::segments),
    ("lnet.lock", lnet::lock),
    ("lnet.rest_cpu", lnet::rest),
    ("lnet.idle_1000_peers", lnet::idle),
    ("ldlm.million_locks", ldlm::million),
    ("ldlm.enqueue_c64", ldlm::latency),
    ("lst.brw_", lst::bulk),
    ("lst.ping", lst::latency),
    ("lst.node_c64", lst::memory),
    ("rpc.echo_", rpc::latency),
    ("rpc.bulk_", rpc::bulk),
    ("rpc.10000_exports", rpc::memory),
    ("mdt.create_c64", mdt::create),
    ("mdt.getattr_c64", mdt::getattr),
    ("mdt.open_10m", mdt::starting),
    ("ost.read_1m", ost::read),
    ("ost.write_1m", ost::write),
    ("client.lib_read_2g", client::read),
    ("client.lib_write_2g", client::write),
    ("fuse.write_2g", fuse::write),
    ("fuse.read_2g", fuse::read),
    ("fuse.ls_10000", fuse::list),
    ("fuse.untar", fuse::untar),
    ("fuse.random_4k", fuse::random),
    ("multirail.two_rails", multirail::two_rails),
    ("multirail.cut", multirail::cut),
    ("multirail.silence", multirail::silence),
    ("router.forward_1m", router::forward),
    ("router.two_groups", router::two_groups),
    ("router.stopped_receiver", router::stopped_receiver),
    ("wan.lst_tuned", wan::tuned),
    ("wan.lst_default", wan::unconfigured),
    ("wan.model", wan::predicted),
    ("wan.path", wan::five_points),
    ("wan.file_read", wan::read),
    ("wan.file_write", wan::write),
    ("wan.ls_1000", wan::list),
    ("wan.open_read_close_1000.", wan::open_striped),
    ("wan.open_read_close_1000_dom", wan::open_inline),
    ("wan.open_read_close_1000_warm", wan::open_warm),
    ("hostile.", hostile::attacks),
    ("sim.sc11", sim::sc11),
];

/// Duration and number of trials.
#[derive(Clone, Copy)]
struct Effort {
    duration: Duration,
    repeats: usize,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run { only, results, seconds, repeats, minutes } => {
            let duration = Duration::from_secs(seconds);
            let effort = Effort { duration, repeats: repeats.max(1) };
            run(&only, &results, effort, Duration::from_secs(minutes * 60))
        }
        Command::PingPongServer => ping_pong::serve(),
        Command::PingPongClient { address, seconds } => {
            ping_pong::call(address, Duration::from_secs_f64(seconds))
        }
        Command::LnetTarget { port, flow } => {
            argument(&flow).and_then(|flow| lnet::receive(port, flow))
        }
        Command::LnetSource { port, flow, seconds } => argument(&flow)
            .and_then(|flow| lnet::send(port, flow, Duration::from_secs_f64(seconds))),
        Command::LnetRest { port, seconds } => {
            lnet::run_idle_nodes(port, Duration::from_secs_f64(seconds))
        }
        Command::LnetHub { port, peers } => lnet::serve_peers(port, peers),
        Command::LnetPeers { port, peers } => lnet::hold_peers(port, peers),
        Command::FuseLoad { load, mount, shared } => {
            argument(&load).and_then(|load| fuse::run_load(load, &mount, &shared))
        }
        Command::ClientServer { port, directory } => ost::run_server(port, &directory, 2, true),
        Command::ClientLoad { port, load } => {
            argument(&load).and_then(|load| client::run_load(port, load))
        }
        Command::LdlmLocks { files } => ldlm::hold_locks(files),
        Command::LdlmServer { port } => ldlm::run_server(port),
        Command::LdlmClient { port, concurrency, seconds } => {
            ldlm::run_client(port, concurrency, Duration::from_secs_f64(seconds))
        }
        Command::LinkEcho { to, expected_us } => {
            link::send_echoes(to, Duration::from_micros(expected_us))
        }
        Command::LstServer { port } => lst::serve(port),
        Command::MdtServer { port, directory } => ost::run_server(port, &directory, 1, true),
        Command::MdtClient { port, load, seconds } => {
            let seconds = Duration::from_secs_f64(seconds);
            argument(&load).and_then(|load| mdt::run_client(port, load, seconds))
        }
        Command::MdtFill { directory, files } => mdt::fill(&directory, files),
        Command::MdtStart { directory } => mdt::run_start(&directory),
        Command::OstServer { port, directory } => ost::run_server(port, &directory, 1, false),
        Command::OstClient { port, load, seconds } => {
            let seconds = Duration::from_secs_f64(seconds);
            argument(&load).and_then(|load| ost::run_client(port, load, seconds))
        }
        Command::RpcServer { port } => rpc::run_server(port),
        Command::RpcClients { port } => rpc::hold_clients(port),
        Command::RpcClient { port, load, seconds } => {
            let seconds = Duration::from_secs_f64(seconds);
            argument(&load).and_then(|load| rpc::run_client(port, load, seconds))
        }
        Command::LstClient { port, load, seconds } => {
            let seconds = Duration::from_secs_f64(seconds);
            argument(&load).and_then(|load| lst::run_load(port, load, seconds))
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

/// Parses an argument of a hidden subcommand.
fn argument<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| Failure(format!("cannot read {text:?}: {error}")))
}

/// Measures all cases, then again those that were disturbed, until `time` is over.
fn run(only: &str, results: &Path, effort: Effort, time: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    let (mut all, mut failures) = (vec![], vec![]);
    let record = |all: &[CaseReport]| {
        let figures: Vec<Figure> = all.iter().flat_map(|one| one.shown(only)).cloned().collect();
        report::record(results, &figures).map(|()| figures)
    };
    for case in CASES.iter().filter(|(name, _)| overlaps(name, only)) {
        eprintln!("measuring {} ...", case.0);
        match CaseReport::new(*case, effort) {
            Ok(measured) => all.push(measured),
            Err(failure) => {
                eprintln!("  {}: {failure}", case.0);
                failures.push(format!("{}: {failure}", case.0));
            }
        }
        record(&all)?;
    }
    while let Some(worst) = most_disturbed(&mut all, time.saturating_sub(begun.elapsed())) {
        let percent = worst.spread() * 100.0;
        eprintln!("the repeats of {} spread by {percent:.0} %: again ...", worst.case.0);
        worst.measure_again(effort)?;
        record(&all)?;
    }
    let figures = record(&all)?;
    print!("{}", report::table(&figures));
    println!("wrote {}", results.display());
    let missed = figures.iter().filter(|figure| figure.holds == Some(false));
    failures.extend(missed.map(|figure| format!("{} misses its bar", figure.name)));
    if failures.is_empty() { Ok(()) } else { Err(Failure(failures.join("; "))) }
}

/// A case and its least disturbed figures.
struct CaseReport {
    case: Case,
    figures: Vec<Figure>,
    attempts: usize,
    /// Duration of the first measurement.
    took: Duration,
}

impl CaseReport {
    fn new(case: Case, effort: Effort) -> Result<Self, Failure> {
        let begun = Instant::now();
        let figures = (case.1)(effort)?;
        Ok(Self { case, figures, attempts: 1, took: begun.elapsed() })
    }

    fn measure_again(&mut self, effort: Effort) -> Result<(), Failure> {
        let again = (self.case.1)(effort)?;
        self.attempts += 1;
        if spread(&again) < self.spread() {
            self.figures = again;
        }
        Ok(())
    }

    fn spread(&self) -> f64 {
        spread(&self.figures)
    }

    fn shown(&self, only: &str) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.name.starts_with(only))
    }
}

fn spread(figures: &[Figure]) -> f64 {
    figures.iter().map(|figure| figure.spread).fold(0.0, f64::max)
}

/// Returns the case that was disturbed most, of those that can be measured again in the time that
/// is left.
fn most_disturbed(all: &mut [CaseReport], left: Duration) -> Option<&mut CaseReport> {
    let disturbed = all
        .iter_mut()
        .filter(|one| one.spread() > SPREAD_MAX && one.attempts < ATTEMPTS_MAX && one.took <= left);
    disturbed.max_by(|a, b| a.spread().total_cmp(&b.spread()))
}

/// The largest number of measurements of a case.
const ATTEMPTS_MAX: usize = 3;
/// Repeats that differ by more were disturbed.
const SPREAD_MAX: f64 = 0.1;

/// Parses the prefix of a figure name.
fn prefix(only: &str) -> Result<String, String> {
    if CASES.iter().any(|(name, _)| overlaps(name, only)) {
        return Ok(only.to_owned());
    }
    let names: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    Err(format!("there are {}", names.join(", ")))
}

/// Returns whether names of figures of `case` can begin with `only`.
fn overlaps(case: &str, only: &str) -> bool {
    case.starts_with(only) || only.starts_with(case)
}

/// A description of a failure.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    /// Returns a function that describes a failed operation.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(spread: f64, attempts: usize, seconds: u64) -> CaseReport {
        let figure = Figure { spread, ..Figure::plain("lnet.rest_cpu", 1.0, "cores") };
        let took = Duration::from_secs(seconds);
        CaseReport { case: ("lnet.rest_cpu", lnet::rest), figures: vec![figure], attempts, took }
    }

    #[test]
    fn the_most_disturbed_case_that_fits_is_measured_again() {
        let mut all =
            [measured(0.5, 3, 5), measured(0.4, 1, 60), measured(0.3, 2, 30), measured(0.05, 1, 5)];
        let mut next = |left| {
            most_disturbed(&mut all, Duration::from_secs(left)).map(|one| one.figures[0].spread)
        };
        assert_eq!(next(100), Some(0.4));
        assert_eq!(next(59), Some(0.3));
        assert_eq!(next(29), None);
    }
}
