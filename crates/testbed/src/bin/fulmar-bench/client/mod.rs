//! The family `client`: a program that reads or writes a file by the client library, without a mount of
//! the kernel; beside one stream of iperf3, and beside nfs-ganesha with libnfs.
//!
//! An MGS, an MDT and two OSTs are in another process, with their directories in memory (`/dev/shm`) where
//! there is that. The program is a new process for each trial, so it has nothing of the file; all settings
//! are the defaults.

mod load;
mod peer;

use fulmar_testbed::lab::not_run;

use crate::ost::Scratch;
use crate::process::{Worker, with_cpu_time};
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, iperf3};

pub(crate) use load::{Load, run as run_load};
use peer::Peer;

/// A file of 2 GiB is read in blocks of 1 MiB, one after the other.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Read, "client.lib_read_2g", 0.7)
}

/// A file of 2 GiB is written in blocks of 1 MiB, one after the other, and synced.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    measure(effort, Load::Write, "client.lib_write_2g", 0.6)
}

/// The result of a trial, for 10^9 bytes.
struct Trial {
    gigabytes_per_second: f64,
    client_cpu: f64,
    server_cpu: f64,
}

impl Trial {
    fn new(seconds: f64, client_cpu: f64, server_cpu: f64) -> Self {
        let gigabytes = load::FILE as f64 / 1e9;
        Self {
            gigabytes_per_second: gigabytes / seconds,
            client_cpu: client_cpu / gigabytes,
            server_cpu: server_cpu / gigabytes,
        }
    }

    fn show(self, whose: &str) -> Self {
        eprintln!(
            "  {whose}: {:.3} GB/s, CPU s/GB: client {:.2}, servers {:.2}",
            self.gigabytes_per_second, self.client_cpu, self.server_cpu
        );
        self
    }
}

fn measure(effort: Effort, load: Load, name: &str, bar: f64) -> Result<Vec<Figure>, Failure> {
    let scratch = Scratch::new()?;
    let port = iperf3::free_port()?.to_string();
    let mut servers = Worker::start(&["client-server", &port, scratch.path()?])?;
    servers.line()?;
    if load == Load::Read {
        run(&port, Load::Fill)?;
    }
    let peer = Peer::start(&scratch.0.join("ganesha"), load);
    let peer = peer.inspect_err(|why| not_run(&format!("the peer nfs-ganesha: {why}"))).ok();
    let mut theirs = Vec::new();
    let ours = || trial(&servers, &port, load);
    let others = || {
        if let Some(peer) = &peer {
            theirs.push(peer.trial(load, theirs.len())?.show("nfs-ganesha"));
        }
        iperf3::run(effort.duration)
    };
    let (ours, streams) = interleave(effort.repeats, ours, others)?;
    servers.finish()?;
    let of = |value: fn(&Trial) -> f64| Series::new(ours.iter().map(value));
    let rate = of(|trial| trial.gigabytes_per_second);
    let stream = Series::new(streams.iter().map(|one| one.gigabytes_per_second));
    let client = of(|trial| trial.client_cpu);
    let server = of(|trial| trial.server_cpu);
    let named = |what: &str| format!("{name}.{what}");
    let mut figures = vec![
        Figure::median(named("rate"), &rate, "GB/s").beside_median(&stream),
        Figure::ratio(named("vs_iperf3"), &rate, &stream).held_to(Bar::AtLeast(bar)),
        Figure::median(named("client_cpu"), &client, "CPU s/GB"),
        Figure::median(named("server_cpu"), &server, "CPU s/GB"),
    ];
    if !theirs.is_empty() {
        let of = |value: fn(&Trial) -> f64| Series::new(theirs.iter().map(value));
        let (client, server) = (of(|trial| trial.client_cpu), of(|trial| trial.server_cpu));
        let their_rate = of(|trial| trial.gigabytes_per_second);
        figures.extend([
            Figure::ratio(named("vs_ganesha"), &rate, &their_rate),
            Figure::median(named("ganesha_client_cpu"), &client, "CPU s/GB"),
            Figure::median(named("ganesha_server_cpu"), &server, "CPU s/GB"),
        ]);
    }
    Ok(figures)
}

fn trial(servers: &Worker, port: &str, load: Load) -> Result<Trial, Failure> {
    let before = servers.cpu_seconds()?;
    let (seconds, client) = with_cpu_time(|| run(port, load))?;
    let server = servers.cpu_seconds()? - before;
    Ok(Trial::new(seconds, client, server).show("fulmar"))
}

/// Runs a load in another process, and returns how many seconds it took.
fn run(port: &str, load: Load) -> Result<f64, Failure> {
    let load = serde_json::to_string(&load).expect("a load is plain");
    let mut client = Worker::start(&["client-load", port, &load])?;
    let seconds = client.number()?;
    client.finish()?;
    Ok(seconds)
}
