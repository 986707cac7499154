//! What a debug log has of requests, locks, connections and configurations. Each event is at a level that is
//! not printed by default; the end of its target is its type in the masks of a node.
//!
//! An event of a request or a lock that no mask selects costs one comparison: the text is not made.

use std::fmt;
use std::time::Duration;

use fulmar_ldlm::server::{Callback, Enqueue};
use fulmar_lustre_wire::ldlm::{LockReply, LockRequest};
use fulmar_lustre_wire::{Handle, Opcode, Status, Uuid};
use fulmar_rpc::service::Request;
use tracing::{debug, trace};

const REQUESTS: &str = "fulmar_server::rpc::rpctrace";
const LOCKS: &str = "fulmar_server::ldlm::dlmtrace";
const CONNECTIONS: &str = "fulmar_server::ldlm::ha";
const CONFIGURATIONS: &str = "fulmar_server::mgs::config";

/// What a request is: `MDS_GETATTR x1788 of 10.0.0.1@tcp`, and behind it the job of its process.
struct RequestName<'a>(&'a Request);

impl fmt::Display for RequestName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Request { xid, peer, message, .. }) = self;
        write!(f, "{:?} x{xid} of {}", message.body.opcode, peer.nid)?;
        match message.body.job.map(|job| job.to_string()) {
            Some(job) if !job.is_empty() => write!(f, " for {job}"),
            _ => Ok(()),
        }
    }
}

/// The operation of a request begins.
pub(crate) fn begun(target: &str, request: &Request) {
    trace!(target: REQUESTS, "{target}: handling {}", RequestName(request));
}

/// It has ended with this status; with `None` it has no reply.
pub(crate) fn answered(target: &str, request: &Request, status: Option<Status>, took: Duration) {
    let (request, took) = (RequestName(request), took.as_micros());
    match status.map(Outcome) {
        Some(result) => {
            trace!(target: REQUESTS, "{target}: handled {request} in {took} us: {result}");
        }
        None => trace!(target: REQUESTS, "{target}: dropped {request} after {took} us"),
    }
}

/// What a reply says.
struct Outcome(Status);

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Status::OK => f.write_str("ok"),
            status => status.fmt(f),
        }
    }
}

/// A client wants a lock.
pub(crate) fn wanted(target: &str, enqueue: &Enqueue) {
    let lock = &enqueue.lock;
    let handle = lock.handles.first().copied().unwrap_or_default();
    let asked = lock.lock;
    trace!(target: LOCKS, "{target}: a client wants a {asked}, its handle {handle}");
}

/// It has been told what it gets.
pub(crate) fn told(target: &str, status: Status, reply: &LockReply) {
    let (lock, handle) = (reply.lock, reply.handle);
    match (status.errno(), reply.lock.granted.0) {
        (None, _) if handle == Handle::default() => {
            trace!(target: LOCKS, "{target}: no lock is given: {status}");
        }
        (None, 0) => trace!(target: LOCKS, "{target}: a {lock} waits, handle {handle}"),
        (None, _) => trace!(target: LOCKS, "{target}: a {lock} is granted, handle {handle}"),
        (Some(_), _) => trace!(target: LOCKS, "{target}: a lock is refused: {status}"),
    }
}

/// A client is called about its lock.
pub(crate) fn called(target: &str, callback: &Callback) {
    let (kind, lock) = (callback.kind, callback.lock.lock);
    let handle = callback.lock.handles.first().copied().unwrap_or_default();
    trace!(target: LOCKS, "{target}: {kind:?} callback for a {lock}, the client's handle {handle}");
}

/// A client cancels a lock, or changes what it covers.
pub(crate) fn changed(target: &str, opcode: Opcode, request: &LockRequest) {
    // A cancel of one lock may say that it has none.
    let count = (request.count as usize).clamp(1, request.handles.len().max(1));
    for handle in request.handles.iter().take(count) {
        trace!(target: LOCKS, "{target}: {opcode:?} of the lock {handle}");
    }
}

/// A client gives up locks with another request.
pub(crate) fn given_up(target: &str, locks: &[Handle]) {
    for handle in locks {
        trace!(target: LOCKS, "{target}: a client gives up the lock {handle}");
    }
}

/// A client connects, or disconnects.
pub(crate) fn connection(target: &str, request: &Request, client: Uuid, status: Status) {
    let (opcode, nid, result) = (request.message.body.opcode, request.peer.nid, Outcome(status));
    debug!(target: CONNECTIONS, "{target}: {opcode:?} of {client} at {nid}: {result}");
}

/// A configuration is read, applied or changed.
pub(crate) fn configured(target: impl fmt::Display, what: impl fmt::Display) {
    debug!(target: CONFIGURATIONS, "{target}: {what}");
}
