//! What a debug log has of the requests, locks and connections of this client. The end of the target of such an event is
//! its type in the masks of a node. What no mask selects costs one comparison: the text is not made.

use std::fmt;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::LOCK_REQUEST;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, Status};
use fulmar_rpc::import::{Import, RequestId, State};
use tracing::{Level, debug, enabled, trace};

const REQUESTS: &str = "fulmar_client::rpc::rpctrace";
const LOCKS: &str = "fulmar_client::ldlm::dlmtrace";
const CONNECTIONS: &str = "fulmar_client::rpc::ha";

pub(super) fn tells_requests() -> bool {
    enabled!(target: REQUESTS, Level::TRACE)
}

pub(super) fn tells_locks() -> bool {
    enabled!(target: LOCKS, Level::TRACE)
}

/// Returns the name of a target, such as `lv-OST0000`.
pub(super) fn name(import: &Import) -> String {
    let name = import.target().uuid.to_string();
    name.strip_suffix("_UUID").unwrap_or(&name).to_owned()
}

/// A request is sent.
pub(super) fn sent(target: &str, opcode: Opcode, id: RequestId) {
    trace!(target: REQUESTS, "{target}: sending {opcode:?}, request {}", id.0);
}

/// It has ended.
pub(super) fn done(
    target: &str,
    opcode: Opcode,
    id: RequestId,
    result: &Result<Box<Message<'static>>, Errno>,
    took: Duration,
) {
    let (id, took) = (id.0, took.as_micros());
    let status = match result {
        Ok(reply) => reply.body.status,
        Err(errno) => Status::failed(*errno),
    };
    match status.errno() {
        None => trace!(target: REQUESTS, "{target}: {opcode:?}, request {id}, took {took} us: ok"),
        Some(_) => {
            trace!(target: REQUESTS, "{target}: {opcode:?}, request {id}, took {took} us: {status}");
        }
    }
}

/// The locks of a request or a callback.
struct Locks<'a>(&'a Message<'a>);

impl fmt::Display for Locks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(Some(request)) = self.0.get(&LOCK_REQUEST) else { return f.write_str("no lock") };
        match request.lock.requested.0 {
            // A cancel names locks by their handles only.
            0 => {
                let count = (request.count as usize).clamp(1, request.handles.len().max(1));
                let all = request.handles.iter().take(count);
                all.enumerate().try_for_each(|(n, handle)| {
                    write!(f, "{}{handle}", if n > 0 { ", " } else { "the lock " })
                })
            }
            _ => {
                let handle = request.handles.first().copied().unwrap_or_default();
                write!(f, "a {}, handle {handle}", request.lock)
            }
        }
    }
}

/// A request about locks is sent.
pub(super) fn asked(target: &str, message: &Message<'_>) {
    let opcode = message.body.opcode;
    if [Opcode::LDLM_ENQUEUE, Opcode::LDLM_CONVERT, Opcode::LDLM_CANCEL].contains(&opcode) {
        trace!(target: LOCKS, "{target}: {opcode:?} of {}", Locks(message));
    }
}

/// The server calls about a lock.
pub(super) fn called(target: &str, message: &Message<'_>) {
    trace!(target: LOCKS, "{target}: {:?} of {}", message.body.opcode, Locks(message));
}

/// So many operations wait for locks, and have done so for a time.
pub(super) fn waits(import: Option<&Import>, count: usize, since: Duration) {
    if let Some(import) = import {
        let (target, nid, since) = (name(import), import.nid(), since.as_secs());
        tracing::warn!(
            target: LOCKS,
            "{target} at {nid} has not granted {count} lock(s) for {since} s: other clients have them. One that does \
             not answer loses its locks 100 s after it was called, or later where cancels are slow"
        );
    }
}

/// A connection has another state.
pub(super) fn state(import: Option<&Import>, state: State) {
    if let Some(import) = import {
        let (target, nid) = (name(import), import.nid());
        match state {
            State::Evicted => {
                tracing::warn!(target: CONNECTIONS, "{target} at {nid} has evicted this client")
            }
            _ => debug!(target: CONNECTIONS, "{target} at {nid}: {state:?}"),
        }
    }
}
