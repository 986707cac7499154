//! The closed model beside the simulation, and why they differ where they do.

use fulmar_tune::model::{self, Load, Nic, Settings};
use serde::Serialize;

use super::grid::{BUFFERS, CABLE_MBPS, CREDITS, Hold, Key, MTU, TRUNK_MBPS, TRUNKS};
use crate::predict::Prediction;
use crate::scenario::{Credits, Direction};

/// What the closed model says of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Closed {
    /// Payload of all clients together.
    pub bytes_per_second: f64,
    /// What binds.
    pub bound: model::Bound,
    /// The term that binds, with its numbers.
    pub formula: String,
}

/// Returns what the closed model says of a point.
pub fn closed(key: &Key) -> Closed {
    let bits = TRUNK_MBPS * TRUNKS as u64 * 1_000_000;
    let path = model::Path::of_line(bits, MTU, key.distance.round_trip());
    let load = Load {
        clients: key.clients,
        servers: key.servers(),
        pairs: key.clients,
        concurrency: key.concurrency,
        rpc_bytes: key.size.into(),
        message_bytes: key.size.into(),
        direction: match key.direction {
            Direction::Read => model::Direction::Read,
            Direction::Write => model::Direction::Write,
        },
        kind: model::Kind::Selftest,
    };
    let is_held = key.hold == Hold::Kernel && key.size >= Credits::KERNEL_ZERO_COPY;
    let settings = Settings {
        peer_credits: key.peer_credits,
        credits: CREDITS,
        socket_buffer: BUFFERS,
        bulk_connections: 1,
        hold: if is_held { model::Hold::RoundTrip } else { model::Hold::Written },
        cache: None,
        nic: Some(Nic { rate: model::payload_rate(CABLE_MBPS * 1_000_000, MTU) }),
        routers: None,
    };
    let said = model::predict(&path, &load, &settings);
    let binding = said.terms.iter().find(|term| term.what == said.bound);
    Closed {
        bytes_per_second: said.bytes_per_second,
        bound: said.bound,
        formula: binding.map_or(String::new(), |term| term.formula.clone()),
    }
}

/// Returns how far the simulation is from the closed model, of what that says: 0.05 is 5 % more.
pub(super) fn error(prediction: &Prediction, closed: &Closed) -> f64 {
    prediction.bytes_per_second / closed.bytes_per_second - 1.0
}

/// Returns why the closed model is not about a point, unless it is.
pub(super) fn why_not(_point: &super::Point) -> Option<&'static str> {
    None
}
