//! Requests for the attributes of files that are sent together. Spec: mdt-ost §7.16.
//!
//! Whoever looks up many names in advance requests all of them at the same moment. A target that executes batches gets
//! them in few messages. It stops at the first one that fails or would have to wait: those that it has not executed
//! are sent once more, each alone.
//!
//! Names that are looked up in advance at the same moment go to an MDT in few messages, about nine
//! in each: so many fit beside the header, and need no bulk data. The MDT executes the parts one
//! after the other, up to one that fails or would have to wait for a lock; the client then sends
//! each of the others alone. What a user waits for is never a part of a batch: often it is a name
//! that does not exist yet.

use fulmar_base::Errno;
use fulmar_ldlm::client::LockId;
use fulmar_lustre_wire::connect::ConnectFlags2;
use fulmar_lustre_wire::format::{
    BATCH, BATCH_BUFFERS, BATCH_REPLY, ENQUEUE_GETATTR, LOCK_REQUEST, MDS_BATCH,
};
use fulmar_lustre_wire::ldlm::LockRequest;
use fulmar_lustre_wire::mdt::{BatchBuffer, BatchHeader, BatchReply, BatchRequest};
use fulmar_lustre_wire::message::{Body, Container, Head, Message, len_with};
use fulmar_lustre_wire::{Bytes, Content, List, portal};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::{Request, RequestId};

use super::core::{Core, RequestWaiter};

/// The most bytes of the parts of a batch: with what is before them they are in its message, and not in bulk data.
const PARTS_LEN_MAX: usize = 4000;
/// The room for the reply to a part, for a layout of about twenty stripes. Longer replies are asked for again.
const REPLY_ROOM: usize = 1024;
/// The least room for all replies.
const REPLY_ROOM_MIN: usize = 4096;

/// A request that is, or will be, a part of a batch.
pub(crate) type PartOfBatch = (LockId, Request);

impl Core {
    /// Returns whether a target executes batches.
    pub(crate) fn takes_batches(&self, import: ImportId) -> bool {
        let import = self.both.client.import(import);
        import.is_some_and(|one| one.granted().flags2.has(ConnectFlags2::BATCH_RPC))
    }

    /// Sends the requests to a target that have waited for others.
    pub(super) fn send_batches(&mut self, import: ImportId) {
        let Some(peer) = self.peers.get_mut(&import) else { return };
        let (mut requests, mut parts) = (Vec::new(), BatchRequest::default());
        for (lock, request) in std::mem::take(&mut peer.batch) {
            let part = part_of(request.message());
            if parts.messages.0.len() + part.len() > PARTS_LEN_MAX {
                self.send_batch(import, std::mem::take(&mut requests), std::mem::take(&mut parts));
            }
            part.encode(&mut parts.messages.0);
            parts.count += 1;
            requests.push((lock, request));
        }
        self.send_batch(import, requests, parts);
    }

    /// Sends requests as these parts of a batch; one of them alone.
    fn send_batch(&mut self, import: ImportId, requests: Vec<PartOfBatch>, parts: BatchRequest) {
        match requests.len() {
            0 | 1 => self.send_alone(import, requests),
            _ => drop(self.send(import, batch(&parts), RequestWaiter::Batch(requests))),
        }
    }

    /// Handles the reply to a batch.
    pub(super) fn batch_reply(
        &mut self,
        (import, id): (ImportId, RequestId),
        mut requests: Vec<PartOfBatch>,
        result: Result<Box<Message<'static>>, Errno>,
    ) {
        let replies = result.map(|reply| replies_in(&reply)).unwrap_or_default();
        let rest = requests.split_off(replies.len().min(requests.len()));
        for ((lock, _), reply) in requests.into_iter().zip(replies) {
            self.lock_reply((import, id), RequestWaiter::Enqueue(lock), Ok(Box::new(reply)));
        }
        self.send_alone(import, rest);
    }

    /// Sends requests for locks that somebody still waits for, each alone.
    fn send_alone(&mut self, import: ImportId, requests: Vec<PartOfBatch>) {
        for (lock, request) in requests {
            if self.peers.get(&import).is_some_and(|peer| peer.waits.contains_key(&lock)) {
                self.send(import, request, RequestWaiter::Enqueue(lock));
            }
        }
    }
}

/// Returns a request as a part of a batch, which gives up no locks.
fn part_of(message: &Message<'static>) -> Container<'static> {
    let mut message = message.clone();
    if let Ok(Some(lock)) = message.get(&LOCK_REQUEST) {
        message.set(&LOCK_REQUEST, &LockRequest { count: 0, ..lock });
    }
    message.into_part(Head { part: BatchRequest::GETATTR, ..Head::default() })
}

/// Returns the batch of these parts.
fn batch(parts: &BatchRequest) -> Request {
    let room = REPLY_ROOM_MIN.max(usize::from(parts.count) * REPLY_ROOM);
    let data = parts.to_bytes();
    let header = BatchHeader {
        buffers: 1,
        inline_len: data.len() as u32,
        reply_size: room as u32,
        requests: u32::from(parts.count),
        data: Bytes(data),
        ..BatchHeader::default()
    };
    let message = Message::request(&MDS_BATCH)
        .with(&BATCH, &header)
        .with(&BATCH_BUFFERS, &List(vec![BatchBuffer::default()]));
    Request::new(message, len_with(&[Body::LEN, room])).at(portal::OUT)
}

/// Returns the replies to the parts of a batch that were executed; none if they are not valid.
fn replies_in(reply: &Message<'_>) -> Vec<Message<'static>> {
    let done: BatchReply = reply.get(&BATCH_REPLY).ok().flatten().unwrap_or_default();
    let replies = Message::replies_in(&done, &ENQUEUE_GETATTR).unwrap_or_default();
    replies.into_iter().map(Message::into_owned).collect()
}
