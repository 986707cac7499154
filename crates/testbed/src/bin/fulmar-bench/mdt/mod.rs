//! The family `mdt`: files that clients in another process create and look at, over loopback, and how
//! long an MDT with many files takes to start.
//!
//! The directories of the targets are in memory (`/dev/shm`) where there is that, so that no disk is
//! measured.

mod client;
mod requests;
mod start;

use serde::{Deserialize, Serialize};

use crate::ost::Scratch;
use crate::process::Worker;
use crate::report::{Bar, Figure};
use crate::rpc::Rates;
use crate::stats::{Series, interleave};
use crate::{Effort, Failure, argument, iperf3, ping_pong};

pub(crate) use client::run as run_client;
pub(crate) use start::{fill, run as run_start, starting};

/// What each of the clients repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// A file is created and opened by an intent, and closed. It has an object on an OST.
    Create,
    /// The attributes of a file are requested.
    GetAttr,
}

/// Creations with 64 under way, beside a plain TCP ping-pong.
pub(crate) fn create(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = ("mdt.create_c64.rate", "mdt.create_c64.vs_tcp_pingpong");
    measure(effort, Load::Create, names, 1.0)
}

/// Reads of attributes with 64 under way, beside a plain TCP ping-pong.
pub(crate) fn getattr(effort: Effort) -> Result<Vec<Figure>, Failure> {
    let names = ("mdt.getattr_c64.rate", "mdt.getattr_c64.vs_tcp_pingpong");
    measure(effort, Load::GetAttr, names, 3.0)
}

fn measure(
    effort: Effort,
    load: Load,
    (rate, ratio): (&'static str, &'static str),
    bar: f64,
) -> Result<Vec<Figure>, Failure> {
    let ours = || run(load, effort);
    let (ours, bare) = interleave(effort.repeats, ours, || ping_pong::run(effort.duration))?;
    let (ours, bare) = (Series::new(ours), Series::new(bare));
    Ok(vec![
        Figure::median(rate, &ours, "1/s").beside_median(&bare),
        Figure::ratio(ratio, &ours, &bare).held_to(Bar::AtLeast(bar)),
    ])
}

/// Runs a load from one process to another, and returns how many operations ended in a second.
fn run(load: Load, effort: Effort) -> Result<f64, Failure> {
    let scratch = Scratch::new()?;
    let port = iperf3::free_port()?.to_string();
    let mut server = Worker::start(&["mdt-server", &port, scratch.path()?])?;
    server.line()?;
    let seconds = effort.duration.as_secs_f64().to_string();
    let load = serde_json::to_string(&load).expect("a load is plain");
    let client = Worker::start(&["mdt-client", &port, &load, &seconds])?;
    let rates = client.finish()?;
    server.finish()?;
    argument::<Rates>(&rates).map(|rates| rates.requests_per_second())
}
