//! From evidence to findings. Nothing here observes anything: the same evidence is judged the same.
//!
//! A far end's evidence may say anything; it is compared and printed, and no sum of it overflows.

mod clock;
mod host;
mod latency;
mod lnet;
mod mtu;
mod names;
mod nic;
mod port;
mod queue;
mod sockets;
mod tcp;
mod udp;

pub use clock::clock;
pub use host::{cpu, firewall, limits};
pub use latency::latency;
pub use lnet::lnet;
pub use mtu::mtu;
pub use names::names;
pub use nic::{irq, nic, offload};
pub use port::port;
pub use queue::{congestion, queue};
pub use sockets::sockets;
pub use tcp::{Lines, tcp};
pub use udp::udp;

/// What the path carries at best and how long it is, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathNeed {
    /// Bits per second: the speed of the slower link, or what was measured if that is unknown.
    pub rate: f64,
    /// The shortest round trip, in microseconds.
    pub round_trip_us: f64,
}

impl PathNeed {
    /// Returns how many bytes are on their way when the path is full.
    pub fn bytes(&self) -> u64 {
        (self.rate / 8.0 * self.round_trip_us / 1e6).clamp(0.0, 1e15) as u64
    }

    /// Whether the path is long enough for windows to matter.
    pub fn is_long(&self) -> bool {
        self.round_trip_us >= LONG_US
    }
}

/// A path of this round trip is long: a megabyte is on its way at 1 Gbit/s.
const LONG_US: f64 = 8_000.0;
