//! The yardstick of bulk: one iperf3 stream over loopback, both ends on this machine.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::process::{Worker, with_cpu_time};

/// What one run moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    /// Bytes per second, in units of 10^9, as the receiver saw them.
    pub(crate) gigabytes_per_second: f64,
    /// CPU seconds of both ends for 10^9 bytes.
    pub(crate) cpu_per_gigabyte: f64,
}

/// Runs iperf3 once.
pub(crate) fn run(duration: Duration) -> Result<Bulk, Failure> {
    let ((bytes, seconds), cpu) = with_cpu_time(|| transfer(duration))?;
    let gigabytes = bytes / 1e9;
    Ok(Bulk { gigabytes_per_second: gigabytes / seconds, cpu_per_gigabyte: cpu / gigabytes })
}

fn transfer(duration: Duration) -> Result<(f64, f64), Failure> {
    let port = free_port()?.to_string();
    let mut server = Worker::spawn(Command::new("iperf3").args([
        "-s",
        "-1",
        "--forceflush",
        "-B",
        "127.0.0.1",
        "-p",
        &port,
    ]))?;
    while !server.line()?.contains("listening") {}
    let seconds = duration.as_secs().max(1).to_string();
    let client = Worker::spawn(Command::new("iperf3").args([
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-t",
        &seconds,
        "-J",
    ]))?;
    let report = client.finish()?;
    server.finish()?;
    received(&report)
}

/// Returns the bytes that the receiver counted, and in how many seconds.
pub(crate) fn received(report: &str) -> Result<(f64, f64), Failure> {
    let json: serde_json::Value = serde_json::from_str(report)
        .map_err(|error| Failure(format!("iperf3 printed no JSON: {error}")))?;
    let sum = &json["end"]["sum_received"];
    match (sum["bytes"].as_f64(), sum["seconds"].as_f64()) {
        (Some(bytes), Some(seconds)) if bytes > 0.0 && seconds > 0.0 => Ok((bytes, seconds)),
        _ => Err(Failure(format!("iperf3 moved nothing: {}", json["error"]))),
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::io("bind"))?;
    Ok(listener.local_addr().map_err(Failure::io("find a free port"))?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_count_is_taken_and_errors_are_passed_on() {
        let report = r#"{"end": {"sum_received": {"bytes": 2e9, "seconds": 1.5}}}"#;
        assert_eq!(received(report).unwrap(), (2e9, 1.5));
        let error = received(r#"{"error": "unable to connect", "end": {}}"#).unwrap_err();
        assert!(error.to_string().contains("unable to connect"));
    }
}
