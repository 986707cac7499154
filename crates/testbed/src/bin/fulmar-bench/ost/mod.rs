//! The family `ost`: reads and writes of an OST in a directory by a client in another process, over
//! loopback.
//!
//! The files are in memory (`/dev/shm`) where there is that, so that no disk is measured. One file is
//! read or written from its start to its end, again and again, as the cache of a client does it.

mod client;
mod files;
mod server;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::rpc::Rates;
use crate::stats::Series;
use crate::{Effort, Failure, argument, iperf3};

pub(crate) use client::run as run_client;
pub(crate) use server::{FILE_SYSTEM, run as run_server};

const MIB: u32 = 1 << 20;
/// The length of the file: more than the caches of a processor have.
const FILE: u64 = 256 << 20;

/// The requests that the client repeats.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    write: bool,
    /// Whether both ends compute the checksums that a client and an OST of now choose.
    checksums: bool,
    size: u32,
    concurrency: u32,
}

/// The names of the figures of a load.
struct Names {
    rate: &'static str,
    vs_iperf3: &'static str,
    vs_files: &'static str,
}

/// Reads of a file in the page cache.
pub(crate) fn read(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let plain = Names {
        rate: "ost.read_1m.rate",
        vs_iperf3: "ost.read_1m.vs_iperf3",
        vs_files: "ost.read_1m.vs_pread",
    };
    let unchecked = Names {
        rate: "ost.read_1m_unchecked.rate",
        vs_iperf3: "ost.read_1m_unchecked.vs_iperf3",
        vs_files: "ost.read_1m_unchecked.vs_pread",
    };
    measure(effort, false, 0.85, &plain, &unchecked)
}

/// Writes of a file that exists already, as a cache writes them.
pub(crate) fn write(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let plain = Names {
        rate: "ost.write_1m.rate",
        vs_iperf3: "ost.write_1m.vs_iperf3",
        vs_files: "ost.write_1m.vs_pwrite",
    };
    let unchecked = Names {
        rate: "ost.write_1m_unchecked.rate",
        vs_iperf3: "ost.write_1m_unchecked.vs_iperf3",
        vs_files: "ost.write_1m_unchecked.vs_pwrite",
    };
    measure(effort, true, 0.7, &plain, &unchecked)
}

/// Measures with checksums, which the bar is for, and without.
fn measure(
    effort: Effort,
    write: bool,
    bar: f64,
    plain: &Names,
    unchecked: &Names,
) -> Result<Vec<Figure>, Failure> {
    let load = Load { write, checksums: true, size: MIB, concurrency: 8 };
    let [mut with, mut without, mut files, mut streams] = [const { Vec::new() }; 4];
    for _ in 0..effort.repeats {
        let scratch = Scratch::new()?;
        with.push(transfer(scratch.path()?, load, effort)?);
        without.push(transfer(scratch.path()?, Load { checksums: false, ..load }, effort)?);
        files.push(files::run(&scratch.0, load, effort.duration)?);
        drop(scratch);
        streams.push(iperf3::run(effort.duration)?.gigabytes_per_second);
    }
    let [with, without, files, streams] = [with, without, files, streams].map(Series::new);
    let mut figures = Vec::new();
    for (names, ours, bar) in [(plain, &with, Some(bar)), (unchecked, &without, None)] {
        figures.push(Figure::median(names.rate, ours, "GB/s").beside_median(&streams));
        let ratio = Figure::ratio(names.vs_iperf3, ours, &streams);
        figures.push(match bar {
            Some(bar) => ratio.held_to(Bar::AtLeast(bar)),
            None => ratio,
        });
        figures.push(Figure::ratio(names.vs_files, ours, &files));
    }
    Ok(figures)
}

/// Runs a load from one process to another, and returns its rate in 10^9 bytes per second.
fn transfer(directory: &str, load: Load, effort: Effort) -> Result<f64, Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["ost-server", &port, directory])?;
    server.line()?;
    let seconds = effort.duration.as_secs_f64().to_string();
    let load = serde_json::to_string(&load).expect("a load is plain");
    let client = Worker::start(&["ost-client", &port, &load, &seconds])?;
    let rates = client.finish()?;
    server.finish()?;
    argument::<Rates>(&rates).map(|rates| rates.gigabytes_per_second())
}

/// A directory in memory, if the system has that, which is removed with this.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, Failure> {
        let shared = Path::new("/dev/shm");
        let root = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = root.join(format!("fulmar-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .map_err(Failure::io(format!("create {}", path.display())))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> Result<&str, Failure> {
        self.0.to_str().ok_or_else(|| Failure("a strange path".to_owned()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
