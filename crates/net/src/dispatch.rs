//! How a thread handles the events of a service: one thread at a time, and no event remains.
//!
//! `models/` tests every interleaving of the threads.

use crate::lock::Lock;
use crate::queues::{Claim, Queues};

/// Handles the events of a service that no thread serves, if there is one. If other services wait
/// as well, `notify` is called first, so that another thread serves them. Returns whether any
/// service waits afterwards: then the calling thread calls again, or notifies another thread.
pub(crate) fn serve(
    queues: &Lock<Queues>,
    notify: impl FnOnce(),
    handle: impl FnOnce(&mut Claim),
) -> bool {
    let (claim, more) = {
        let mut queues = queues.lock();
        (queues.claim(), queues.is_ready())
    };
    let Some(mut claim) = claim else { return false };
    if more {
        notify();
    }
    handle(&mut claim);
    claim.events.clear();
    let mut queues = queues.lock();
    queues.release(claim.service, claim.events);
    queues.is_ready()
}
