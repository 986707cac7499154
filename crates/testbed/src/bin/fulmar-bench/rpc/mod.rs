//! The family `rpc`: Lustre's RPC layer between two nodes over loopback, and a server with many
//! clients.

pub(crate) mod client;
mod exports;
pub(crate) mod server;

use serde::{Deserialize, Serialize};

use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, argument, iperf3, ping_pong};

pub(crate) use client::run as run_client;
pub(crate) use exports::{CLIENTS, hold as hold_clients};
pub(crate) use server::run as run_server;

const MIB: u32 = 1 << 20;

/// The requests that a client repeats.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// A request without data.
    Echo { concurrency: u32 },
    /// A read or a write of some bytes.
    Bulk { write: bool, size: u32, concurrency: u32 },
}

/// The results of the measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rates {
    pub(crate) requests: f64,
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
}

impl Rates {
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests / self.seconds
    }

    pub(crate) fn gigabytes_per_second(&self) -> f64 {
        self.bytes / self.seconds / 1e9
    }
}

/// Requests that the server answers at once, one and 64 at a time, beside a plain TCP ping-pong.
pub(crate) fn latency(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let run = |concurrency| {
        transfer(Load::Echo { concurrency }, effort).map(|rates| rates.requests_per_second())
    };
    let ours = || Ok((run(1)?, run(64)?));
    let (ours, bare) = interleave(effort.repeats, ours, || ping_pong::run(effort.duration))?;
    let one = Series::new(ours.iter().map(|(one, _)| *one));
    let many = Series::new(ours.iter().map(|(_, many)| *many));
    let bare = Series::new(bare);
    Ok(vec![
        Figure::median("rpc.echo_c1.rate", &one, "1/s").beside_median(&bare),
        Figure::ratio("rpc.echo_c1.vs_tcp_pingpong", &one, &bare).held_to(Bar::AtLeast(0.6)),
        Figure::median("rpc.echo_c64.rate", &many, "1/s").beside_median(&bare),
        Figure::ratio("rpc.echo_c64.vs_tcp_pingpong", &many, &bare).held_to(Bar::AtLeast(5.0)),
    ])
}

/// Reads and writes beside one iperf3 stream.
pub(crate) fn bulk(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let cases = [
        (("rpc.bulk_1m_c8.rate", "rpc.bulk_1m_c8.vs_iperf3"), false, MIB, 8, true),
        (("rpc.bulk_16m_c4.rate", "rpc.bulk_16m_c4.vs_iperf3"), false, 16 * MIB, 4, true),
        (("rpc.bulk_write_1m_c8.rate", "rpc.bulk_write_1m_c8.vs_iperf3"), true, MIB, 8, false),
    ];
    let mut figures = Vec::new();
    for ((rate, ratio), write, size, concurrency, has_bar) in cases {
        let load = Load::Bulk { write, size, concurrency };
        let ours = || transfer(load, effort).map(|rates| rates.gigabytes_per_second());
        let (ours, theirs) = interleave(effort.repeats, ours, || iperf3::run(effort.duration))?;
        let ours = Series::new(ours);
        let theirs = Series::new(theirs.iter().map(|bulk| bulk.gigabytes_per_second));
        figures.push(Figure::median(rate, &ours, "GB/s").beside_median(&theirs));
        let ratio = Figure::ratio(ratio, &ours, &theirs);
        figures.push(if has_bar { ratio.held_to(Bar::AtLeast(0.9)) } else { ratio });
    }
    Ok(figures)
}

/// The memory of a server with many clients that are at rest.
pub(crate) fn memory(_effort: Effort) -> Result<Vec<Figure>, Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["rpc-server", &port])?;
    server.line()?;
    let alone = server.resident_mib()?;
    let mut clients = Worker::start(&["rpc-clients", &port])?;
    let connected = clients.line()?;
    if connected != CLIENTS.to_string() {
        return Err(Failure(format!("{connected} of {CLIENTS} clients are connected")));
    }
    let resident = server.resident_mib()?;
    clients.finish()?;
    server.finish()?;
    let figure = Figure::plain("rpc.10000_exports.rss_mib", resident, "MiB").beside(alone);
    Ok(vec![figure.held_to(Bar::AtMost(200.0))])
}

/// Runs a load from one process to another.
fn transfer(load: Load, effort: Effort) -> Result<Rates, Failure> {
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["rpc-server", &port])?;
    server.line()?;
    let seconds = effort.duration.as_secs_f64().to_string();
    let load = serde_json::to_string(&load).expect("a load is plain");
    let client = Worker::start(&["rpc-client", &port, &load, &seconds])?;
    let rates = client.finish()?;
    server.finish()?;
    argument(&rates)
}
