//! Locks: what their namespaces want, and what the targets answer.

use fulmar_base::Errno;
use fulmar_ldlm::client::{Answer, Output};
use fulmar_lustre_wire::format::{
    CANCEL, CONVERT, ENQUEUE, ENQUEUE_EXTENT, ENQUEUE_FLOCK, LAYOUT, LOCK_REPLY, LOCK_REQUEST, LVB,
    OST_LVB,
};
use fulmar_lustre_wire::ldlm::{LockRequest, LockType};
use fulmar_lustre_wire::message::{Body, Message, len_with};
use fulmar_lustre_wire::{Opcode, portal};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, RequestId};

use super::core::{Core, RequestWaiter};
use super::peer::{Build, EnqueueOutcome, Outcome};

/// The length of a [`LockReply`](fulmar_lustre_wire::ldlm::LockReply).
pub(crate) const REPLY_LEN: usize = 112;
/// The most bytes of a value block of an object.
pub(crate) const LVB_LEN: usize = 56;

impl Core {
    /// Does what the locks of a target want.
    pub(super) fn lock_output(&mut self, import: ImportId, output: Output) {
        match output {
            Output::Enqueue { lock, request } => {
                let Some(peer) = self.peers.get_mut(&import) else { return };
                let Some(wait) = peer.waits.get_mut(&lock) else { return };
                let Some(Build { make, in_batch }) = wait.build.take() else {
                    self.send(import, plain(&request), RequestWaiter::Enqueue(lock));
                    return;
                };
                let request = make(&request);
                if in_batch {
                    peer.batch.push((lock, request))
                } else {
                    let _ = self.send(import, request, RequestWaiter::Enqueue(lock));
                }
            }
            Output::Granted { lock, covered, extra } => {
                self.end(import, lock, Outcome::Granted(lock, *covered, *extra));
            }
            Output::NoLock { lock, extra } => self.end(import, lock, Outcome::Nothing(*extra)),
            Output::Tested { lock, conflict } => self.end(import, lock, Outcome::Tested(conflict)),
            Output::Failed { lock, errno } => self.end(import, lock, Outcome::Failed(errno)),
            Output::Flush { lock, covered, discard } => {
                self.flush(import, lock, &covered, discard);
            }
            Output::Cancel { id, request } => {
                let message = Message::request(&CANCEL).with(&LOCK_REQUEST, &request);
                let room = len_with(&[Body::LEN]);
                let request = Request::new(message, room).at(portal::LDLM_CANCEL_REQUEST).once();
                self.send(import, request, RequestWaiter::Cancel(id));
            }
            Output::Convert { lock, request } => {
                let message = Message::request(&CONVERT).with(&LOCK_REQUEST, &request);
                let room = len_with(&[Body::LEN, REPLY_LEN]);
                let request = Request::new(message, room).at(portal::LDLM_CANCEL_REQUEST);
                self.send(import, request, RequestWaiter::Convert(lock));
            }
            Output::Answer { callback, status, lvb } => {
                let Some((id, format)) = self.callbacks.remove(&(import, callback)) else { return };
                let mut reply = Message::reply(format, status);
                if format.opcode == Opcode::LDLM_GL_CALLBACK && !lvb.is_empty() {
                    reply = match format.reply.first().map(|field| field.name()) {
                        Some(name) if name == OST_LVB.name() => reply.with_bytes(&OST_LVB, lvb),
                        _ => reply.with_bytes(&LVB, lvb),
                    };
                }
                self.both.callbacks.reply(self.now, id, reply);
            }
            Output::Glimpse { callback, lock } => {
                let (now, lvb) = (self.now, self.glimpsed(import, lock));
                if let Some(peer) = self.peers.get_mut(&import) {
                    peer.locks.attributes(now, callback, lock, lvb);
                }
            }
            Output::Early { id, handles } => {
                let Some(peer) = self.peers.get_mut(&import) else { return };
                if let Some(waiting) = peer.early.remove(&id) {
                    let _ = waiting.send(handles);
                }
            }
            Output::Replay { lock, request } => {
                let request = plain(&request).replaying_lock();
                self.send(import, request, RequestWaiter::Replay(lock));
            }
            Output::Replayed => self.both.client.locks_replayed(self.now, import),
            Output::Reconnect => self.both.client.reconnect(self.now, import),
            Output::Evicted => self.evicted(import),
        }
    }

    /// Tells an operation how its request for a lock has ended.
    fn end(&mut self, import: ImportId, lock: fulmar_ldlm::client::LockId, outcome: Outcome) {
        let Some(peer) = self.peers.get_mut(&import) else { return };
        let Some(wait) = peer.waits.remove(&lock) else { return };
        let (request, reply) = (wait.request, wait.reply);
        if wait.waiting.send(EnqueueOutcome { request, reply, outcome }).is_err() {
            peer.locks.release(self.now, lock);
            self.touched.insert(import);
        }
    }

    /// Handles the reply to a request about locks.
    pub(super) fn lock_reply(
        &mut self,
        (import, request): (ImportId, RequestId),
        waiting: RequestWaiter,
        result: Result<Box<Message<'static>>, Errno>,
    ) {
        let now = self.now;
        let Some(peer) = self.peer_mut(import) else { return };
        match waiting {
            RequestWaiter::Enqueue(lock) => match result {
                Ok(reply) => {
                    let lvb = lvb_of(&reply);
                    let answer = answer(&reply, &lvb);
                    if let Some(wait) = peer.waits.get_mut(&lock) {
                        wait.request = Some(request);
                    }
                    peer.locks.handle_enqueued(now, lock, Ok(answer));
                    if let Some(wait) = peer.waits.get_mut(&lock) {
                        wait.reply = Some(reply);
                    }
                }
                Err(errno) => peer.locks.handle_enqueued(now, lock, Err(errno)),
            },
            RequestWaiter::Replay(lock) => match result {
                Ok(reply) => peer.locks.handle_replayed(now, lock, Ok(answer(&reply, &[]))),
                Err(errno) => peer.locks.handle_replayed(now, lock, Err(errno)),
            },
            RequestWaiter::Convert(lock) => {
                let reply = result.map(|reply| reply.get(&LOCK_REPLY).ok().flatten());
                peer.locks.handle_converted(now, lock, reply);
            }
            RequestWaiter::Cancel(id) => peer.locks.handle_cancelled(id, result.map(drop)),
            RequestWaiter::Batch(..) | RequestWaiter::Operation(..) => {}
        }
    }
}

/// Returns a request for a lock without an intent.
pub(crate) fn plain(lock: &LockRequest) -> Request {
    let (format, modifies) = match lock.lock.resource.kind {
        LockType::EXTENT => (&ENQUEUE_EXTENT, false),
        LockType::FLOCK => (&ENQUEUE_FLOCK, true),
        _ => (&ENQUEUE, false),
    };
    let message = Message::request(format).with(&LOCK_REQUEST, lock);
    let request = Request::new(message, len_with(&[Body::LEN, REPLY_LEN, LVB_LEN]));
    if modifies { request.modifying() } else { request }
}

fn answer<'a>(reply: &Message<'_>, lvb: &'a [u8]) -> Answer<'a> {
    let status = reply.body.status;
    Answer { status, reply: reply.get(&LOCK_REPLY).ok().flatten(), lvb }
}

/// Returns the value block of a reply, which only some formats have.
fn lvb_of(reply: &Message<'_>) -> Vec<u8> {
    let bytes = match reply.format().variant {
        Some("EXTENT") => reply.bytes(&OST_LVB),
        Some("LAYOUT") => reply.bytes(&LAYOUT),
        // A glimpse of data on an MDT.
        None => reply.bytes(&LVB),
        _ => None,
    };
    bytes.unwrap_or_default().to_vec()
}
