//! Turns evidence into findings. The functions are pure: the same evidence gives the same findings.
//!
//! The evidence of a remote host is not trusted: it is only compared and printed, and arithmetic on
//! it saturates.

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

/// The rate and the round trip of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathNeed {
    /// Bits per second: the speed of the slower link, or the measured rate if that is higher or the
    /// speed is unknown.
    pub rate: f64,
    /// The shortest round trip, in microseconds.
    pub round_trip_us: f64,
}

impl PathNeed {
    /// Returns the bandwidth-delay product, in bytes.
    pub fn bytes(&self) -> u64 {
        (self.rate / 8.0 * self.round_trip_us / 1e6).clamp(0.0, 1e15) as u64
    }

    /// Returns whether the path is long enough for windows to matter.
    pub fn is_long(&self) -> bool {
        self.round_trip_us >= LONG_US
    }
}

/// The least round trip of a long path: 1 MB in flight at 1 Gbit/s.
const LONG_US: f64 = 8_000.0;
