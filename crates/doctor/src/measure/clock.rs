//! The offset between the clocks of both hosts.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::remote::{Examiner, RemoteError, Reply, Request, unexpected};

/// The offset between both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockResult {
    /// How far the remote clock is ahead, in microseconds.
    pub ahead_us: f64,
    /// The error of that, in microseconds: half the round trip.
    pub error_us: f64,
}

/// Number of exchanges; the one with the shortest round trip counts.
const EXCHANGES: usize = 9;

/// Measures the clock offset.
///
/// # Errors
/// Why the remote host did not answer as expected.
pub fn measure(examiner: &Examiner) -> Result<ClockResult, RemoteError> {
    let mut best: Option<ClockResult> = None;
    for _ in 0..EXCHANGES {
        let (start, before) = (Instant::now(), now_us());
        let their = match examiner.call(&Request::Clock, Duration::from_secs(5))? {
            Reply::Clock { unix_ns } => unix_ns as f64 / 1e3,
            other => return Err(unexpected(examiner.peer(), "a clock reading", other)),
        };
        let half = start.elapsed().as_secs_f64() * 1e6 / 2.0;
        let seen = ClockResult { ahead_us: their - (before + half), error_us: half };
        if best.is_none_or(|best| seen.error_us < best.error_us) {
            best = Some(seen);
        }
    }
    Ok(best.unwrap_or_default())
}

fn now_us() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as f64 / 1e3
}
