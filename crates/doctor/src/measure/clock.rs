//! How far both clocks are apart.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::far::{Examiner, FarError, Reply, Request, unexpected};

/// How far both clocks are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockSeen {
    /// How much the far clock is ahead, in microseconds.
    pub ahead_us: f64,
    /// How wrong that may be, in microseconds: half the round trip.
    pub error_us: f64,
}

/// Exchanges of which the quickest counts.
const EXCHANGES: usize = 9;

/// Compares both clocks.
///
/// # Errors
/// Why the far end is no help.
pub fn measure(far: &Examiner) -> Result<ClockSeen, FarError> {
    let mut best: Option<ClockSeen> = None;
    for _ in 0..EXCHANGES {
        let (begun, before) = (Instant::now(), now_us());
        let their = match far.ask(&Request::Clock, Duration::from_secs(5))? {
            Reply::Clock { unix_ns } => unix_ns as f64 / 1e3,
            other => return Err(unexpected(far.who(), "its clock", other)),
        };
        let half = begun.elapsed().as_secs_f64() * 1e6 / 2.0;
        let seen = ClockSeen { ahead_us: their - (before + half), error_us: half };
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
