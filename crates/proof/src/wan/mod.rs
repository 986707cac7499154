//! Two sites with an ocean between them: what `lst` carries across it, and what was foretold.
//!
//! ```text
//! direct     a ══════════ link ══════════ b           tcp
//! routed     a ── ra ══════ link ══════ rb ── b       tcp, tcp1 on the link, tcp2
//! ```

pub mod demo;
mod foretell;
mod printed;
mod sites;
mod trial;

use std::time::Duration;

use fulmar_link::Rate;
use fulmar_tune::advice::{Advice, Congestion, Site, Whose, advise};
use fulmar_tune::model::{Direction, Hold, Kind, Path};

pub use foretell::{Foretold, foretell};
pub use printed::as_printed;
pub use sites::{SHORES, Sites};
pub use trial::Trial;

/// A long link between two sites.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ocean {
    /// What the link carries each way, frames and all.
    pub rate: Rate,
    /// There and back.
    pub round_trip: Duration,
    /// Whether a router stands at each end, and the nodes behind it.
    pub routed: bool,
}

/// The longest packets of all lines.
pub const MTU: u16 = 9000;

/// How the nodes are set, and what `lst` asks of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// For people.
    pub name: String,
    /// Messages to one peer at once.
    pub peer_credits: u32,
    /// Messages of an interface at once.
    pub credits: u32,
    /// Messages that a router takes from one neighbour at once; 0 for its `peer_credits`.
    pub peer_buffer_credits: u32,
    /// Buffers of 1 MiB that a router has; 0 for what suits its memory.
    pub large_buffers: u32,
    /// Connections of each bulk kind between two nodes.
    pub conns_per_peer: u32,
    /// How long a message keeps its credits.
    pub hold: Hold,
    /// RPCs in flight.
    pub concurrency: u32,
    /// Which way the data goes.
    pub direction: Direction,
}

impl Ocean {
    /// Returns a link of this rate and round trip between two nodes.
    pub fn new(rate: Rate, round_trip: Duration) -> Self {
        Self { rate, round_trip, routed: false }
    }

    /// Returns what its narrowest line carries in payload.
    pub fn path(&self) -> Path {
        Path::of_line(self.rate.bits(), u32::from(MTU), self.round_trip)
    }

    /// Returns how much of the link so many bytes of payload per second are.
    pub fn share(&self, bytes_per_second: f64) -> f64 {
        bytes_per_second * 8.0 / self.rate.bits() as f64
    }

    /// Returns the congestion control that TCP has at both ends.
    pub fn congestion(&self) -> Congestion {
        self.advice(Direction::Write).plan.congestion
    }

    /// Returns what `fulmar tune` says of one node at each end.
    pub fn advice(&self, direction: Direction) -> Advice {
        advise(&Site {
            line_bits: self.rate.bits(),
            interface_bits: None,
            rtt: self.round_trip,
            mtu: u32::from(MTU),
            // Told by who made the link, as by who pays for one of his own.
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
    /// As `fulmar tune` advises.
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
        }
    }

    /// The same RPCs and connections, with the credits that a kernel node has unless it is told
    /// otherwise, held as long as it does.
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

    /// From which payload on a message asks to be acknowledged.
    fn zc_min_payload(&self) -> Option<u32> {
        (self.hold == Hold::RoundTrip).then_some(KERNEL_ZC_MIN_PAYLOAD)
    }
}

/// What a kernel node has. Spec: lnet-behaviour §13.6.
const KERNEL_ZC_MIN_PAYLOAD: u32 = 16_384;
