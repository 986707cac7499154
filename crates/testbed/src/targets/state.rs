//! What the targets keep and have done.

use std::collections::BTreeMap;

use fulmar_base::Time;
use fulmar_lustre_wire::Handle;
use fulmar_net::Buffer;
use fulmar_rpc::export::Eviction;
use fulmar_server::{Memories, Targets};
use serde::{Deserialize, Serialize};

/// What the targets keep for clients, and what they have done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetState {
    /// Exports, and the locks of all targets.
    pub exports: usize,
    /// Locks of all targets.
    pub locks: usize,
    /// Bytes of bulk data under way.
    pub moving: usize,
    /// Requests without a reply since the start, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Requests that were refused since the start before a target saw them, by errno.
    pub refused: BTreeMap<i32, u64>,
    /// Requests, callbacks or locks under way, in words.
    pub busy: Option<String>,
}

/// Returns what the targets keep. Checks the invariants of all tables.
///
/// # Errors
/// The invariant that does not hold.
pub fn kept(targets: &Targets, memories: &Memories<Buffer>) -> Result<TargetState, String> {
    targets.check_invariants()?;
    let server = targets.server();
    let mut kept = TargetState {
        exports: server.exports().len(),
        locks: targets.locks_len(),
        moving: memories.taken(),
        busy: targets.is_idle().err(),
        ..TargetState::default()
    };
    for stats in (0..).map_while(|partition| server.stats(partition)) {
        for (why, count) in &stats.dropped {
            *kept.dropped.entry(format!("{why:?}")).or_default() += count;
        }
        for (errno, count) in &stats.refused {
            *kept.refused.entry(errno.0).or_default() += count;
        }
    }
    Ok(kept)
}

/// Evicts all clients, as an administrator does.
pub fn evict_all(targets: &mut Targets, now: Time) {
    targets.with_server(now, |server| {
        let exports: Vec<Handle> = server.exports().iter().map(|(export, _)| export).collect();
        for export in exports {
            server.evict(now, export, Eviction::Administrator);
        }
    });
}
