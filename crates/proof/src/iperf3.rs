//! The yardstick: one stream of iperf3 over the link.

use std::path::Path;
use std::process::Command;

use crate::lab::{Host, Program};

/// Returns the payload in bytes per second that a stream carries from one host to another at
/// `address`, after `warmup` seconds; `None` where iperf3 is not installed.
///
/// # Errors
/// What it said.
pub(super) fn stream(
    [from, to]: [&Host; 2],
    address: &str,
    (warmup, seconds): (u32, u32),
) -> Result<Option<f64>, String> {
    if Command::new(IPERF3).arg("--version").output().is_err() {
        return Ok(None);
    }
    let mut server = to.command(Path::new(IPERF3));
    let mut server = Program::start(server.args(["-s", "-1", "--forceflush", "-B", address]))?;
    server.wait_for("Server listening")?;
    let seconds = seconds.to_string();
    let warmup = warmup.to_string();
    let words = ["-c", address, "-t", &seconds, "-O", &warmup, "-J"];
    let report = from.run(IPERF3, &words)?;
    received(&report).map(Some)
}

fn received(report: &str) -> Result<f64, String> {
    let json: serde_json::Value =
        serde_json::from_str(report).map_err(|error| format!("iperf3 printed no JSON: {error}"))?;
    let bits = json["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.filter(|bits| *bits > 0.0)
        .map(|bits| bits / 8.0)
        .ok_or_else(|| format!("iperf3 moved nothing: {}", json["error"]))
}

const IPERF3: &str = "iperf3";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_count_is_taken_and_errors_are_passed_on() {
        let report = r#"{"end": {"sum_received": {"bits_per_second": 8e9}}}"#;
        assert_eq!(received(report), Ok(1e9));
        assert!(received(r#"{"error": "unable to connect"}"#).unwrap_err().contains("connect"));
    }
}
