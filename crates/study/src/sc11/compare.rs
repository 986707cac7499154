//! Compares the closed-form model with the simulation, and explains the differences.

use fulmar_tune::model::{self, Bound, Load, Nic, Settings};
use serde::Serialize;

use super::grid::{BUFFERS, CABLE_MBPS, CREDITS, Distance, Hold, Key, MTU, TRUNK_MBPS, TRUNKS};
use super::{Point, line_rate};
use crate::predict::Prediction;
use crate::scenario::{Credits, Direction};

/// The result of the closed-form model for a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClosedForm {
    /// Payload rate of all clients together.
    pub bytes_per_second: f64,
    /// The bottleneck.
    pub bound: Bound,
    /// The limiting term, with its numbers.
    pub formula: String,
}

/// Returns the result of the closed-form model for a point.
pub fn closed(key: &Key) -> ClosedForm {
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
    let result = model::predict(&path, &load, &settings);
    let binding = result.terms.iter().find(|term| term.what == result.bound);
    ClosedForm {
        bytes_per_second: result.bytes_per_second,
        bound: result.bound,
        formula: binding.map_or(String::new(), |term| term.formula.clone()),
    }
}

/// Returns the difference of the simulation, relative to the closed-form model: 0.05 is 5 % more.
pub(super) fn error(prediction: &Prediction, closed: &ClosedForm) -> f64 {
    prediction.bytes_per_second / closed.bytes_per_second - 1.0
}

/// Returns whether the load is more than half of what the trunks carry, and from clients that together
/// can send faster than that.
fn is_crowded(key: &Key, closed: &ClosedForm) -> bool {
    let floods = u64::from(key.clients) * CABLE_MBPS > TRUNK_MBPS * TRUNKS as u64;
    floods && closed.bytes_per_second > 0.5 * line_rate()
}

/// Returns whether queues grow at the trunks although these are not full.
pub(super) fn queues(key: &Key, closed: &ClosedForm) -> bool {
    is_crowded(key, closed) && matches!(closed.bound, Bound::Concurrency | Bound::PeerCredits)
}

/// Returns whether the load is nearly what the cables of the clients carry.
fn fills_cable(key: &Key, closed: &ClosedForm) -> bool {
    let cable = model::payload_rate(CABLE_MBPS * 1_000_000, MTU) as f64;
    closed.bytes_per_second > 0.8 * cable * f64::from(key.clients)
}

/// Returns why the closed-form model does not apply to a point; `None` if it applies.
pub(super) fn why_not(point: &Point) -> Option<&'static str> {
    let Point { key, simulated, closed, .. } = point;
    let is_held = key.hold == Hold::Kernel && key.concurrency > key.peer_credits;
    let is_held_write = key.direction == Direction::Write && is_held;
    match closed.bound {
        Bound::Line | Bound::PeerCredits if is_held_write && is_crowded(key, closed) => {
            Some(CONVOYS)
        }
        _ if queues(key, closed) => Some(QUEUES),
        Bound::PeerCredits if is_held_write && fills_cable(key, closed) => Some(UNSTEADY),
        _ if !simulated.steady => Some(UNSTEADY),
        Bound::Line if key.distance == Distance::BackToBack && key.concurrency == 1 => Some(FEW),
        _ => None,
    }
}

const UNSTEADY: &str = "\
The throughput is not steady: the RPCs of a client form convoys in LNet's queue, which change over \
tens of round trips, above all writes with held credits that nearly fill its cable. The model \
describes only one of these states.";
const CONVOYS: &str = "\
Writes of many clients that nearly fill the trunks, with held credits: requests wait behind data \
in LNet's queue and at the trunks, and this wait lengthens the time for which credits are held.";
const QUEUES: &str = "\
More than half of what the trunks carry, from clients that together can send faster: bursts of \
several clients meet at the trunks and wait there, and RPCs that have waited together stay together. \
This begins after tens of round trips, and costs about a fifth for hundreds more.";
const FEW: &str = "\
One RPC per client back to back: while some RPCs wait for one trunk or cable, another is idle.";
