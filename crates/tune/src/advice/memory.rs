//! What a node keeps in memory for the settings, and what is done if it is too much.

use fulmar_text::count;
use serde::Serialize;

use super::{Plan, Site};
use crate::model::Kind;

/// The part of a node's memory that all of it together may take.
const PART: f64 = 0.5;
/// Nothing is reduced to less than this part of what fills the line.
const SCALE_MIN: f64 = 1. / 256.;

/// Something that takes memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// What it is, with the numbers.
    pub what: String,
    /// Bytes at most.
    pub bytes: u64,
}

/// What a node keeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Of a client or server.
    pub node: Vec<Share>,
    /// Of a router; empty without routers.
    pub router: Vec<Share>,
    /// What one of them may take: half of what it has, if that is known.
    pub limit: Option<u64>,
    /// The part of what fills the line that fits into it: 1 if all of it does.
    pub scale: f64,
}

impl Memory {
    /// Returns the bytes that the largest of the nodes keeps.
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
            node.push(Share { what: "dirty or read ahead besides".into(), bytes: flight });
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

/// Returns the plan that fits into the site's memory, and what it takes.
pub(super) fn fitting(site: &Site) -> (Plan, Memory) {
    let mut scale = 1.;
    loop {
        let plan = Plan::new(site, scale);
        let memory = Memory::of(site, &plan);
        let total = memory.total() as f64;
        match memory.limit {
            Some(limit) if total > limit as f64 && scale > SCALE_MIN => {
                // Parts of it do not shrink, so that it may take several steps.
                scale = (scale * (limit as f64 / total).min(0.95)).max(SCALE_MIN);
            }
            _ => return (plan, memory),
        }
    }
}
