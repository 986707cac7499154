//! The family `client`: a program that reads or writes a file by the client library, without a mount of
//! the kernel.
//!
//! An MGS, an MDT and two OSTs are in another process, with their directories in memory (`/dev/shm`) where
//! there is that. The program is a new process for each trial, so it has nothing of the file; all settings
//! are the defaults.

mod load;

use crate::ost::Scratch;
use crate::process::{Worker, with_cpu_time};
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, iperf3};

pub(crate) use load::{Load, run as run_load};

/// The names of the figures of a load.
struct Names {
    rate: &'static str,
    vs_iperf3: &'static str,
    client_cpu: &'static str,
    server_cpu: &'static str,
}

/// A file of 2 GiB is read in blocks of 1 MiB, one after the other.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = Names {
        rate: "client.lib_read_2g.rate",
        vs_iperf3: "client.lib_read_2g.vs_iperf3",
        client_cpu: "client.lib_read_2g.client_cpu",
        server_cpu: "client.lib_read_2g.server_cpu",
    };
    measure(effort, Load::Read, &names, 0.7)
}

/// A file of 2 GiB is written in blocks of 1 MiB, one after the other, and synced.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = Names {
        rate: "client.lib_write_2g.rate",
        vs_iperf3: "client.lib_write_2g.vs_iperf3",
        client_cpu: "client.lib_write_2g.client_cpu",
        server_cpu: "client.lib_write_2g.server_cpu",
    };
    measure(effort, Load::Write, &names, 0.6)
}

/// The result of a trial, for 10^9 bytes.
struct Trial {
    gigabytes_per_second: f64,
    client_cpu: f64,
    server_cpu: f64,
}

fn measure(effort: Effort, load: Load, names: &Names, bar: f64) -> Result<Vec<Figure>, Failure> {
    let scratch = Scratch::new()?;
    let port = iperf3::free_port()?.to_string();
    let mut servers = Worker::start(&["client-server", &port, scratch.path()?])?;
    servers.line()?;
    if load == Load::Read {
        run(&port, Load::Fill)?;
    }
    let ours = || trial(&servers, &port, load);
    let (ours, streams) = interleave(effort.repeats, ours, || iperf3::run(effort.duration))?;
    servers.finish()?;
    let of = |value: fn(&Trial) -> f64| Series::new(ours.iter().map(value));
    let rate = of(|trial| trial.gigabytes_per_second);
    let stream = Series::new(streams.iter().map(|one| one.gigabytes_per_second));
    let client = of(|trial| trial.client_cpu);
    let server = of(|trial| trial.server_cpu);
    Ok(vec![
        Figure::median(names.rate, &rate, "GB/s").beside_median(&stream),
        Figure::ratio(names.vs_iperf3, &rate, &stream).held_to(Bar::AtLeast(bar)),
        Figure::median(names.client_cpu, &client, "CPU s/GB"),
        Figure::median(names.server_cpu, &server, "CPU s/GB"),
    ])
}

fn trial(servers: &Worker, port: &str, load: Load) -> Result<Trial, Failure> {
    let before = servers.cpu_seconds()?;
    let (seconds, client) = with_cpu_time(|| run(port, load))?;
    let server = servers.cpu_seconds()? - before;
    let gigabytes = load::FILE as f64 / 1e9;
    let trial = Trial {
        gigabytes_per_second: gigabytes / seconds,
        client_cpu: client / gigabytes,
        server_cpu: server / gigabytes,
    };
    eprintln!(
        "  {:.3} GB/s, CPU s/GB: client {:.2}, servers {:.2}",
        trial.gigabytes_per_second, trial.client_cpu, trial.server_cpu
    );
    Ok(trial)
}

/// Runs a load in another process, and returns how many seconds it took.
fn run(port: &str, load: Load) -> Result<f64, Failure> {
    let load = serde_json::to_string(&load).expect("a load is plain");
    let mut client = Worker::start(&["client-load", port, &load])?;
    let seconds = client.number()?;
    client.finish()?;
    Ok(seconds)
}
