//! The result of a plan.

use std::time::Duration;

use serde::Serialize;

use super::waits::{Bottleneck, Waits};

/// The result of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The payload rate of all loads together, in bytes per second.
    pub bytes_per_second: f64,
    /// Each load.
    pub loads: Vec<LoadOutcome>,
    /// Each direction of each link.
    pub links: Vec<LinkUse>,
    /// The bound of the throughput.
    pub bound: Bottleneck,
    /// What data and messages waited for.
    pub waits: Waits,
    /// TCP connections at the end.
    pub connections: usize,
    /// Bytes that TCP retransmitted since the start.
    pub resent_bytes: u64,
    /// The course from the start of the load to the end.
    pub course: Vec<Sample>,
    /// Number of simulation steps.
    pub steps: u64,
}

impl Outcome {
    /// Returns the share in use of the fullest direction of a link.
    pub fn fullest(&self) -> f64 {
        self.links.iter().map(|link| link.share).fold(0.0, f64::max)
    }
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadOutcome {
    /// What it does, from which group to which.
    pub name: String,
    /// RPCs that were answered during the measurement.
    pub rpcs: u64,
    /// RPCs in a second.
    pub rpcs_per_second: f64,
    /// Payload in a second.
    pub bytes_per_second: f64,
    /// Mean duration of an RPC; `None` if none was answered.
    pub mean_latency: Option<Duration>,
}

/// One direction of a link during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkUse {
    /// From which site to which.
    pub name: String,
    /// Bits in a second, including all headers.
    pub bits_per_second: f64,
    /// The share of its rate.
    pub share: f64,
    /// Packets that were lost at random since the start.
    pub lost: u64,
    /// Packets that a full queue dropped since the start.
    pub overflowed: u64,
    /// The longest queue since the start, in bytes.
    pub queued_max: u64,
}

/// One time in the course of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// The time since the start of the load, in seconds.
    pub seconds: f64,
    /// The payload rate of all loads since the last sample, in bytes per second.
    pub bytes_per_second: f64,
    /// The mean congestion window of the connections that carry data, in bytes.
    pub congestion_window: f64,
    /// The mean window of their receivers, in bytes.
    pub receive_window: f64,
    /// The mean of their data in flight, in bytes.
    pub in_flight: f64,
}
