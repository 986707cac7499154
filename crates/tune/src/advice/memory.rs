//! The memory that the settings need on a node, and the reduction if it is too much.

use fulmar_text::count;
use serde::Serialize;

use super::{Plan, Site};
use crate::model::Kind;

/// The part of a node's memory that the settings may use.
const PART: f64 = 0.5;
/// The minimum scale of the settings that fill the line.
const SCALE_MIN: f64 = 1. / 256.;

/// A use of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The description, with numbers.
    pub what: String,
    /// The maximum in bytes.
    pub bytes: u64,
}

/// The memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The uses of a client or server.
    pub node: Vec<Share>,
    /// The uses of a router; empty without routers.
    pub router: Vec<Share>,
    /// The limit of one node: half of its memory, if known.
    pub limit: Option<u64>,
    /// The scale of the settings that fits: 1 if all fit.
    pub scale: f64,
}

impl Memory {
    /// Returns the bytes of the node with the largest need.
    pub fn total(&self) -> u64 {
        let sum = |shares: &[Share]| shares.iter().map(|share| share.bytes).sum::<u64>();
        sum(&self.node).max(sum(&self.router))
    }

    fn of(site: &Site, plan: &Plan) -> Self {
        let flight = u64::from(plan.concurrency) * plan.rpc_bytes;
        let connections = u64::from(plan.conns_per_peer);
        let buffers = (connections * plan.tcp_buffer).min(2 * flight);
        let mut node = vec![
            Share { what: count(plan.concurrency, "RPC") + " in flight", bytes: flight },
            Share { what: "socket buffers, both ways".into(), bytes: 2 * buffers },
        ];
        if site.kind == Kind::Lustre {
            node.push(Share { what: "dirty or read ahead".into(), bytes: flight });
        }
        let mut router = Vec::new();
        if site.routers > 0 {
            let large = u64::from(plan.large_buffers) << 20;
            let small = u64::from(plan.small_buffers) << 12;
            let what = format!("{} large router buffers", plan.large_buffers);
            router.push(Share { what, bytes: large });
            let what = format!("{} small router buffers", plan.small_buffers);
            router.push(Share { what, bytes: small });
            let through = 2 * plan.in_flight / u64::from(site.routers);
            router.push(Share { what: "socket buffers, both ways".into(), bytes: 2 * through });
        }
        let limit = site.memory.map(|memory| (memory as f64 * PART) as u64);
        Self { node, router, limit, scale: plan.scale }
    }
}

/// Returns the plan that fits the site's memory, and its memory.
pub(super) fn fitting(site: &Site) -> (Plan, Memory) {
    let mut scale = 1.;
    loop {
        let plan = Plan::new(site, scale);
        let memory = Memory::of(site, &plan);
        let total = memory.total() as f64;
        match memory.limit {
            Some(limit) if total > limit as f64 && scale > SCALE_MIN => {
                // Some parts do not shrink, so that several steps may be needed.
                scale = (scale * (limit as f64 / total).min(0.95)).max(SCALE_MIN);
            }
            _ => return (plan, memory),
        }
    }
}
