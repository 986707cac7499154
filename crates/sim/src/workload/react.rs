//! The reactions of applications to signals.

use std::time::Duration;

use fulmar_lnet::{Event, EventKind};

use super::{Plan, REQUEST_USER, Workload};
use crate::HostId;
use crate::check::ledger::{Ledger, MdKey};
use crate::signal::Signal;
use crate::world::World;

impl Workload {
    /// Handles a signal of a node.
    pub fn react(&mut self, world: &World, ledger: &Ledger, signal: &Signal) {
        match signal {
            Signal::Event { host, event } => self.event(world, ledger, *host, event),
            Signal::Answered { host, query, result } => {
                self.queries.insert((*host, *query), Some(result.clone()));
            }
            Signal::Crashed { host } => self.queries.retain(|(one, _), _| one != host),
            _ => {}
        }
    }

    fn event(&mut self, world: &World, ledger: &Ledger, host: HostId, event: &Event) {
        let incarnation = world.incarnation(host);
        if event.unlinked && event.user == REQUEST_USER {
            // The buffer is full: post another one, unless it was unlinked on purpose.
            if event.kind != EventKind::Unlink {
                self.post_later(world, host);
            }
            return;
        }
        let key = MdKey { host, incarnation, md: event.md };
        let own = ledger.mds.get(&key).is_some_and(|record| record.operation.is_some());
        let failed = event.kind == EventKind::Send && event.status.is_err() && !event.unlinked;
        // Half of the applications give up soon; the others rely on response tracking.
        if own && failed && self.rng.one_in(2) {
            let after = Duration::from_nanos(self.rng.below(1_000_000_000));
            self.agenda.push(world.now() + after, Plan::Unlink(key));
        }
    }
}
