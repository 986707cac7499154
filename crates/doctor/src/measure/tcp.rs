//! TCP throughput, and the round trips of small packets under load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Direction, Pinger, Spread};
use crate::remote::{Examiner, RemoteError, Reply, Request, StreamStats, unexpected};
use crate::remote::{receive_all, send_all};

/// A TCP load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Load {
    pub direction: Direction,
    pub streams: u32,
    pub time: Duration,
}

/// The result of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpRun {
    /// Direction of the data.
    pub direction: Direction,
    /// Number of connections.
    pub streams: u32,
    /// Received bytes.
    pub bytes: u64,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Mean rate, in bits per second.
    pub mean: f64,
    /// Rate of the second half, after slow start, in bits per second.
    pub settled: f64,
    /// Counters of the sender's kernel.
    pub sender: StreamStats,
    /// Round trips of small datagrams under this load.
    pub loaded: Option<Spread>,
}

impl TcpRun {
    /// Returns the share of retransmitted segments.
    pub fn retransmitted(&self) -> f64 {
        match self.sender.segments {
            0 => 0.0,
            segments => self.sender.retransmits as f64 / segments as f64,
        }
    }

    /// Returns the share of the sender's busy time that `micros` is.
    pub fn limited(&self, micros: u64) -> f64 {
        match self.sender.busy_us {
            0 => 0.0,
            busy => (micros as f64 / busy as f64).min(1.0),
        }
    }
}

/// Longest time that setting up or ending the streams may add.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a load on the path.
///
/// # Errors
/// Why the remote host did not answer as expected.
pub fn measure(examiner: &Examiner, load: Load) -> Result<TcpRun, RemoteError> {
    let Load { direction, streams: count, time } = load;
    let streams = examiner.attach(count)?;
    let millis = time.as_millis() as u64;
    examiner.send(&match direction {
        Direction::Out => Request::Receive { streams: count, millis },
        Direction::In => Request::Send { streams: count, millis },
    })?;
    examiner.ready(TIMEOUT)?;
    // Round trips count only after the load has ramped up.
    let pinger = Pinger::start(examiner, time / 3);
    let (arrived, ours) = match direction {
        Direction::Out => (None, send_all(streams, time)),
        Direction::In => (Some(receive_all(streams, time + TIMEOUT / 2)), StreamStats::default()),
    };
    let loaded = pinger.and_then(Pinger::finish);
    let theirs = match examiner.receive(TIMEOUT)? {
        Reply::Streams(seen) => seen,
        other => return Err(unexpected(examiner.peer(), "stream statistics", other)),
    };
    let (bytes, micros, settled, sender) = match arrived {
        None => (theirs.received, theirs.micros, theirs.settled, ours),
        Some(arrived) => (arrived.bytes, arrived.time.as_micros() as u64, arrived.settled, theirs),
    };
    let seconds = micros as f64 / 1e6;
    let mean = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    Ok(TcpRun { direction, streams: count, bytes, seconds, mean, settled, sender, loaded })
}
