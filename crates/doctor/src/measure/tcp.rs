//! Throughput of TCP, and how long small packets take meanwhile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Pinger, Spread, Way};
use crate::far::{Examiner, FarError, Reply, Request, StreamsSeen, unexpected};
use crate::far::{receive_all, send_all};

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Load {
    pub way: Way,
    pub streams: u32,
    pub time: Duration,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpRun {
    /// Which way the data went.
    pub way: Way,
    /// On how many connections.
    pub streams: u32,
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Bits per second over all that time.
    pub mean: f64,
    /// Bits per second in its second half, when slow start is over.
    pub settled: f64,
    /// What the sender's kernel counted.
    pub sender: StreamsSeen,
    /// Round trips of small datagrams meanwhile.
    pub loaded: Option<Spread>,
}

impl TcpRun {
    /// Returns the share of segments that were sent again.
    pub fn retransmitted(&self) -> f64 {
        match self.sender.segments {
            0 => 0.0,
            segments => self.sender.retransmits as f64 / segments as f64,
        }
    }

    /// Returns the share of the busy time in which one of its limits kept the sender back.
    pub fn limited(&self, micros: u64) -> f64 {
        match self.sender.busy_us {
            0 => 0.0,
            busy => (micros as f64 / busy as f64).min(1.0),
        }
    }
}

/// Streams may take so much longer than the load that they carry.
const PATIENCE: Duration = Duration::from_secs(20);

/// Puts a load on the path.
///
/// # Errors
/// Why the far end is no help.
pub fn measure(far: &Examiner, load: Load) -> Result<TcpRun, FarError> {
    let Load { way, streams: count, time } = load;
    let streams = far.attach(count)?;
    let millis = time.as_millis() as u64;
    far.tell(&match way {
        Way::Out => Request::Receive { streams: count, millis },
        Way::Back => Request::Send { streams: count, millis },
    })?;
    far.ready(PATIENCE)?;
    // Round trips count when the load has come to be.
    let pinger = Pinger::start(far, time / 3);
    let (arrived, ours) = match way {
        Way::Out => (None, send_all(streams, time)),
        Way::Back => (Some(receive_all(streams, time + PATIENCE / 2)), StreamsSeen::default()),
    };
    let loaded = pinger.and_then(Pinger::finish);
    let theirs = match far.hear(PATIENCE)? {
        Reply::Streams(seen) => seen,
        other => return Err(unexpected(far.who(), "streams", other)),
    };
    let (bytes, micros, settled, sender) = match arrived {
        None => (theirs.received, theirs.micros, theirs.settled, ours),
        Some(arrived) => (arrived.bytes, arrived.time.as_micros() as u64, arrived.settled, theirs),
    };
    let seconds = micros as f64 / 1e6;
    let mean = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    Ok(TcpRun { way, streams: count, bytes, seconds, mean, settled, sender, loaded })
}
