//! Two sites with a long link between them: the throughput of `lst`, measured and predicted.
//!
//! ```text
//! direct     a ══════════ link ══════════ b           tcp
//! routed     a ── ra ══════ link ══════ rb ── b       tcp, tcp1 on the link, tcp2
//! ```

mod files;
pub mod iperf3;
mod lst;
mod node;
mod predict;
mod show;
mod sites;
mod trial;

use std::time::Duration;

use fulmar_link::{Line, Rate};
use fulmar_tune::advice::{Advice, Congestion, Site, Whose, advise};
use fulmar_tune::model::{Direction, Hold, Kind, Path};

pub use files::{Mount, Servers, check_mounts};
pub use lst::{Lst, LstLine, LstLoad, LstReport};
pub use node::{Node, Runner, Settings};
pub use predict::{OceanPrediction, predict};
pub use show::{Options, run};
pub use sites::{DEVICE, LINK_IPS, Sites};
pub use trial::{Trial, behind_router, nid_behind_router};

/// A long link between two sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ocean {
    /// Rate of the link in each direction, headers included.
    pub rate: Rate,
    /// Round-trip time of the link.
    pub round_trip: Duration,
    /// Whether there is a router at each end, with the nodes behind the routers.
    pub routed: bool,
}

/// MTU of all lines, in bytes.
pub const MTU: u16 = 9000;

/// The settings of the nodes, and the load of `lst`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Name, for display.
    pub name: String,
    /// Messages in flight to one peer (`peer_credits`).
    pub peer_credits: u32,
    /// Messages in flight on an interface (`credits`).
    pub credits: u32,
    /// Messages that a router accepts from one neighbour at once; 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
    /// Number of 1 MiB buffers of a router; 0 to derive it from its memory.
    pub large_buffers: u32,
    /// Connections of each bulk kind between two nodes.
    pub conns_per_peer: u32,
    /// How long a message holds its credits.
    pub hold: Hold,
    /// RPCs in flight.
    pub concurrency: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// Bytes of a transfer.
    pub size: u32,
}

impl Ocean {
    /// Returns a link with this rate and round-trip time between two nodes.
    pub fn new(rate: Rate, round_trip: Duration) -> Self {
        Self { rate, round_trip, routed: false }
    }

    /// Returns the line of the link in each direction.
    fn lines(&self) -> [Line; 2] {
        [Line::new(self.rate, self.round_trip / 2); 2]
    }

    /// Returns the path, with the payload rate of its slowest line.
    pub fn path(&self) -> Path {
        Path::of_line(self.rate.bits(), u32::from(MTU), self.round_trip)
    }

    /// Returns a payload rate as a share of the link.
    pub fn share(&self, bytes_per_second: f64) -> f64 {
        bytes_per_second * 8.0 / self.rate.bits() as f64
    }

    /// Returns the congestion control of TCP at both ends.
    pub fn congestion(&self) -> Congestion {
        self.advice(Direction::Write).plan.congestion
    }

    /// Returns the advice of `fulmar tune` for one node at each end.
    pub fn advice(&self, direction: Direction) -> Advice {
        advise(&Site {
            line_bits: self.rate.bits(),
            interface_bits: None,
            rtt: self.round_trip,
            mtu: u32::from(MTU),
            // The emulated link is configured without losses.
            loss: Some(0.0),
            nodes: 1,
            routers: u32::from(self.routed),
            memory: None,
            connections: None,
            whose: Whose::Fulmar,
            kind: Kind::Selftest,
            direction,
        })
    }
}

impl Setup {
    /// The settings that `fulmar tune` advises.
    pub fn advised(advice: &Advice) -> Self {
        let plan = &advice.plan;
        Self {
            name: "as fulmar tune advises".to_owned(),
            peer_credits: plan.peer_credits,
            credits: plan.credits,
            peer_buffer_credits: plan.peer_buffer_credits,
            large_buffers: plan.large_buffers,
            conns_per_peer: plan.conns_per_peer,
            hold: Hold::Written,
            concurrency: plan.concurrency,
            direction: advice.site.direction,
            size: 1 << 20,
        }
    }

    /// The same RPCs and connections, with the default credits of a kernel node, which are held for
    /// a round trip.
    pub fn kernel_credits(advice: &Advice) -> Self {
        Self {
            name: "kernel's default credits".to_owned(),
            peer_credits: 8,
            credits: 256,
            peer_buffer_credits: 0,
            large_buffers: 0,
            hold: Hold::RoundTrip,
            ..Self::advised(advice)
        }
    }

    /// Returns the least payload of a message that requests a zero-copy acknowledgement.
    fn zc_min_payload(&self) -> Option<u32> {
        (self.hold == Hold::RoundTrip).then_some(KERNEL_ZC_MIN_PAYLOAD)
    }
}

/// The default of a kernel node. Spec: lnet-behaviour §13.6.
const KERNEL_ZC_MIN_PAYLOAD: u32 = 16_384;
