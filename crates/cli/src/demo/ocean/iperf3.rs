//! One stream of iperf3, the baseline of bulk throughput.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use fulmar_link::Program;

/// The name of the program.
pub const IPERF3: &str = "iperf3";

/// A stream to measure.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Address on which the server listens.
    pub address: IpAddr,
    /// Port of the server.
    pub port: u16,
    /// Seconds before the measurement, in which TCP opens its windows.
    pub warmup: u32,
    /// Seconds of the measurement, at least 1.
    pub seconds: u32,
}

/// The counts of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverCounts {
    /// Payload in bytes.
    pub bytes: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl ReceiverCounts {
    /// Returns the payload in bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.bytes / self.seconds
    }
}

/// Returns whether iperf3 is installed.
pub fn is_installed() -> bool {
    let version = Command::new(IPERF3).arg("--version").stdout(Stdio::null()).status();
    !version.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

impl Stream {
    /// Runs the stream. Each command starts [`IPERF3`] at one end.
    ///
    /// # Errors
    /// The output of iperf3.
    pub fn run(&self, mut client: Command, mut server: Command) -> Result<ReceiverCounts, String> {
        let Self { address, port, warmup, seconds } = self;
        let [address, port] = [address.to_string(), port.to_string()];
        server.args(["-s", "-1", "--forceflush", "-B", &address, "-p", &port]);
        let mut server = Program::start(&mut server)?;
        server.wait_for("Server listening")?;
        let [seconds, warmup] = [seconds, warmup].map(u32::to_string);
        client.args(["-c", &address, "-p", &port, "-t", &seconds, "-O", &warmup, "-J"]);
        let report = Program::start(&mut client)?.all()?;
        let received = received(&report)?;
        server.finish()?;
        Ok(received)
    }
}

fn received(report: &str) -> Result<ReceiverCounts, String> {
    let json: serde_json::Value =
        serde_json::from_str(report).map_err(|_| format!("iperf3 printed no JSON: {report}"))?;
    let sum = &json["end"]["sum_received"];
    match (sum["bytes"].as_f64(), sum["seconds"].as_f64()) {
        (Some(bytes), Some(seconds)) if bytes > 0.0 && seconds > 0.0 => {
            Ok(ReceiverCounts { bytes, seconds })
        }
        _ => Err(format!("iperf3 transferred nothing: {}", json["error"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_uses_the_receiver_count_and_passes_errors_on() {
        let report = r#"{"end": {"sum_received": {"bytes": 2e9, "seconds": 1.5}}}"#;
        assert_eq!(received(report), Ok(ReceiverCounts { bytes: 2e9, seconds: 1.5 }));
        let error = received(r#"{"error": "unable to connect", "end": {}}"#).unwrap_err();
        assert!(error.contains("unable to connect"));
    }
}
