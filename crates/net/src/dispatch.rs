//! How a thread handles the events of a service: one thread at a time, and none is left.
//!
//! `models/` tries every order in which threads may come by.

use crate::lock::Lock;
use crate::queues::{Claim, Queues};

/// Handles the events of a service that nobody serves, if there is one. If others wait as well, `tell`
/// is called first, to have another thread come by. Returns whether any waits afterwards: then the
/// calling thread comes again, or has another do so.
pub(crate) fn serve(
    queues: &Lock<Queues>,
    tell: impl FnOnce(),
    handle: impl FnOnce(&mut Claim),
) -> bool {
    let (claim, more) = {
        let mut queues = queues.lock();
        (queues.claim(), queues.is_ready())
    };
    let Some(mut claim) = claim else { return false };
    if more {
        tell();
    }
    handle(&mut claim);
    claim.events.clear();
    let mut queues = queues.lock();
    queues.release(claim.service, claim.events);
    queues.is_ready()
}
