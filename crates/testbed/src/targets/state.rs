//! How the targets are set up, and what they keep and have done.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_base::Time;
use fulmar_ldlm::server::Times;
use fulmar_lustre_wire::Handle;
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Server;
use serde::{Deserialize, Serialize};

use super::TargetHost;

/// How a host behaves.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions {
    /// How long the holder of a lock may take for a callback, and to cancel it when others wait; by
    /// default as long as with kernel servers.
    pub lock_timeout: Option<Duration>,
    /// Whether each request is printed.
    pub prints_requests: bool,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { lock_timeout: None, prints_requests: true }
    }
}

impl TargetOptions {
    /// Returns how long holders of locks may take.
    pub(super) fn times(&self) -> Times {
        self.lock_timeout.map_or_else(Times::default, |limit| Times {
            cancel_min: limit,
            cancel_max: limit,
            prolonged_max: limit,
            answer: limit,
        })
    }
}

/// What the targets keep for clients, and what they have done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Exports, and the locks of all targets.
    pub exports: usize,
    /// Locks of all targets.
    pub locks: usize,
    /// Transfers of bulk data under way.
    pub transfers: usize,
    /// Requests without a reply since the start, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Requests that were refused since the start before a target saw them, by errno.
    pub refused: BTreeMap<i32, u64>,
    /// Requests, callbacks or locks under way, in words.
    pub busy: Option<String>,
}

impl TargetHost {
    /// Returns what the targets keep. Checks the invariants of all tables.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn kept(&self, server: &Server) -> Result<Kept, String> {
        server.check_invariants()?;
        let state = self.state();
        for locks in &state.locks {
            locks.check_invariants()?;
        }
        let mut kept = Kept {
            exports: server.exports().len(),
            locks: state.locks.iter().map(|locks| locks.len()).sum(),
            transfers: state.moves.len(),
            busy: server.is_idle().err(),
            ..Kept::default()
        };
        let under_way = [state.enqueues.len(), state.callbacks.len(), state.buffers.len()];
        if kept.busy.is_none() && under_way != [0; 3] {
            kept.busy = Some(format!("requests, callbacks and buffers: {under_way:?}"));
        }
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
    pub fn evict_all(&self, server: &mut Server, now: Time) {
        let exports: Vec<Handle> = server.exports().iter().map(|(export, _)| export).collect();
        exports.into_iter().for_each(|export| {
            server.evict(now, export, Eviction::Administrator);
        });
    }
}
