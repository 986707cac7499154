//! The closed model beside the simulation, and why they differ where they do.

use fulmar_tune::model::{self, Bound, Load, Nic, Settings};
use serde::Serialize;

use super::grid::{BUFFERS, CABLE_MBPS, CREDITS, Distance, Hold, Key, MTU, TRUNK_MBPS, TRUNKS};
use super::{Point, line_rate};
use crate::predict::Prediction;
use crate::scenario::{Credits, Direction};

/// What the closed model says of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Closed {
    /// Payload of all clients together.
    pub bytes_per_second: f64,
    /// What binds.
    pub bound: Bound,
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
        direction: key.direction,
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
pub(super) fn why_not(point: &Point) -> Option<&'static str> {
    let Point { key, simulated, closed, .. } = point;
    // What clients can send at once comes to more than the trunks carry.
    let flood = u64::from(key.clients) * CABLE_MBPS > TRUNK_MBPS * TRUNKS as u64;
    let busy = closed.bytes_per_second > 0.5 * line_rate();
    let crowded = key.direction == Direction::Write && flood && busy;
    let held = key.hold == Hold::Kernel && key.concurrency > key.peer_credits;
    match closed.bound {
        _ if !simulated.steady => Some(UNSTEADY),
        Bound::Line | Bound::PeerCredits if crowded && held => Some(CONVOYS),
        Bound::Line if key.distance == Distance::BackToBack && key.concurrency == 1 => Some(FEW),
        _ => None,
    }
}

const UNSTEADY: &str = "\
The throughput still changes when the time is up: RPCs of a client travel in convoys through LNet's \
queue, which come and go over tens of round trips. The model says what comes of one of them.";
const CONVOYS: &str = "\
Writes of many clients that nearly fill the trunks, with credits that are held: requests wait behind \
data in LNet's queue as well as at the trunks, and a credit is held for as much longer as its \
message waits there.";
const FEW: &str = "\
One RPC of a client back to back: while some wait for one trunk or cable, another is idle.";
