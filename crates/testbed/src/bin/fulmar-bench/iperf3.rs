//! The baseline of bulk: one iperf3 stream over loopback, both ends on this machine.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use fulmar::demo::ocean::iperf3::{IPERF3, ReceiverCounts, Stream};

use crate::Failure;
use crate::process::with_cpu_time;

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    /// Rate in 10^9 bytes per second, measured by the receiver.
    pub(crate) gigabytes_per_second: f64,
    /// CPU seconds of both ends for 10^9 bytes.
    pub(crate) cpu_per_gigabyte: f64,
}

/// Runs iperf3 once.
pub(crate) fn run(duration: Duration) -> Result<Bulk, Failure> {
    let (received, cpu) = with_cpu_time(|| transfer(duration))?;
    Ok(Bulk {
        gigabytes_per_second: received.bytes_per_second() / 1e9,
        cpu_per_gigabyte: cpu / (received.bytes / 1e9),
    })
}

fn transfer(duration: Duration) -> Result<ReceiverCounts, Failure> {
    let (address, port) = (Ipv4Addr::LOCALHOST.into(), free_port()?);
    let seconds = duration.as_secs().max(1) as u32;
    let here = || Command::new(IPERF3);
    Stream { address, port, warmup: 0, seconds }.run(here(), here()).map_err(Failure)
}

/// Returns a port that was free just now.
pub(crate) fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::io("bind"))?;
    Ok(listener.local_addr().map_err(Failure::io("find a free port"))?.port())
}
