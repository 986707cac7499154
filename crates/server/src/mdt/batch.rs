//! Batches: requests for the attributes of many files in one. Spec: mdt-ost §7.16.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::format::{
    BATCH, BATCH_REPLY, BatchRequests, ENQUEUE_GETATTR, INTENT, LOCK_REPLY,
};
use fulmar_lustre_wire::ldlm::{Disposition, IntentOps, LockReply};
use fulmar_lustre_wire::mdt::{BatchHeader, BatchReply, BatchRequest};
use fulmar_lustre_wire::message::{Body, Container, Head, Message};
use fulmar_lustre_wire::{Content, Opcode, Status, portal};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::Request;

use super::MdtTarget;
use super::intent::Wait;
use crate::context::Context;
use crate::memory::Memory;
use crate::target::Answer;

/// The most bytes of requests: what one message of LNet moves.
const DATA_MAX: usize = 1 << 20;
/// The most bytes of replies, so that their message is not too long.
const REPLY_MAX: usize = Container::LEN_MAX - 1024;

impl<M: Memory> MdtTarget<M> {
    /// Executes a batch: its parts one after the other, up to one that fails, or that would have to wait for a lock.
    ///
    /// The client does not know yet of the locks that it has got for the parts before: who waits for these, and has
    /// the other one, would wait for ever. The client asks for the rest again.
    pub(super) async fn batch(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let message = &request.message;
        let header = message.require(&BATCH).map_err(|_| Errno::EPROTO)?;
        let requests = match header.inline_len {
            0 => match self.fetch(&context, &request, &header).await? {
                Some(requests) => requests,
                None => return Ok(Answer::None),
            },
            len => {
                let data = header.data.0.get(..len as usize).ok_or(Errno::EPROTO)?;
                let only = BatchRequest::decode(data, message.order).map_err(|_| Errno::EPROTO)?;
                BatchRequests(vec![only])
            }
        };
        let mut parts = Vec::new();
        for BatchRequest { count, messages, .. } in &requests.0 {
            let more = Container::decode_batch(&messages.0, *count).map_err(|_| Errno::EPROTO)?;
            parts.extend(more.into_iter().map(Container::into_owned));
        }
        let room = (header.reply_size as usize).min(REPLY_MAX);
        let (done, result) = self.execute_parts(&context, &request, parts, room).await;
        let status = result.map_or_else(Status::failed, |()| Status::OK);
        Ok(Answer::Reply(Message::reply(message.format(), status).with(&BATCH_REPLY, &done)))
    }

    /// Fetches the requests of a batch that are not in its message. `None` if that fails.
    async fn fetch(
        &self,
        context: &Context,
        request: &Request,
        header: &BatchHeader,
    ) -> Result<Option<BatchRequests>, Errno> {
        let len = (header.buffers as usize).saturating_mul(BatchRequests::BUFFER_LEN);
        if len == 0 || len > DATA_MAX {
            return Err(Errno::EPROTO);
        }
        let moved = self.memories.allocate(request.from.nid, len)?;
        let (buffer, offset, _) = moved.span();
        let span = (buffer, offset, len as u64);
        let bulk = Bulk::new(Direction::ToServer, portal::MDS_BULK, span, 0);
        if context.transfer(request, bulk, 1).await.is_err() {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        moved.memory().read_at(0, &mut bytes);
        let requests = BatchRequests::decode(&bytes, request.message.order);
        requests.map(Some).map_err(|_| Errno::EPROTO)
    }

    /// Executes parts one after the other. Returns the replies to those that were executed, which have at most `room`
    /// bytes, and why the next one was not.
    async fn execute_parts(
        self: Arc<Self>,
        context: &Context,
        request: &Request,
        parts: Vec<Container<'static>>,
        room: usize,
    ) -> (BatchReply, Result<(), Errno>) {
        let mut done = BatchReply::default();
        let head = done.to_bytes().len();
        for part in parts {
            let reply = match self.clone().execute_part(context, request, part).await {
                Ok(reply) => reply,
                Err(errno) => return (done, Err(errno)),
            };
            let lock = reply.get(&LOCK_REPLY).ok().flatten().map(|lock| lock.handle);
            let reply = reply.into_part(Head::default());
            if head + done.messages.0.len() + reply.len() > room {
                // Its client does not get to know of the lock.
                context.give_up(request, lock.into_iter().collect());
                return (done, Err(Errno::EOVERFLOW));
            }
            reply.encode(&mut done.messages.0);
            done.count += 1;
        }
        (done, Ok(()))
    }

    /// Executes a part as a request of its own. Returns its reply, with a lock.
    async fn execute_part(
        self: Arc<Self>,
        context: &Context,
        request: &Request,
        part: Container<'static>,
    ) -> Result<Message<'static>, Errno> {
        if part.head.part != BatchRequest::GETATTR {
            return Err(Errno::EOPNOTSUPP);
        }
        let body = Body { opcode: Opcode::LDLM_ENQUEUE, ..request.message.body };
        let message = Message::of_part(part, body, &ENQUEUE_GETATTR);
        let intent = message.require(&INTENT).map_err(|_| Errno::EPROTO)?;
        if intent.ops != IntentOps::GETATTR {
            return Err(Errno::EOPNOTSUPP);
        }
        let Request { id, target, export, xid, from, peer, checks_versions, .. } = *request;
        let asked = Request { id, target, export, xid, from, peer, checks_versions, message };
        let (asked, begun) = (Arc::new(asked), (self.clock)());
        let executed =
            self.clone().getattr(context.clone(), asked.clone(), intent.ops, Wait::Never);
        let reply = match executed.await {
            Ok(Answer::Reply(reply)) => reply,
            Ok(_) | Err(Errno::EAGAIN) => return Err(Errno::ECANCELED),
            Err(errno) => return Err(errno),
        };
        match (reply.body.status, reply.get(&LOCK_REPLY)) {
            (Status::OK, Ok(Some(_))) => {
                let took = (self.clock)().saturating_sub(begun);
                self.mdt.spent(&self.call(&asked), &reply, took);
                Ok(reply)
            }
            (_, Ok(Some(lock))) => Err(why(&lock)),
            (status, _) => Err(status.errno().unwrap_or(Errno::ECANCELED)),
        }
    }
}

/// Returns why an intent gave no lock.
fn why(lock: &LockReply) -> Errno {
    let is_missing = Disposition(lock.result1).has(Disposition::LOOKUP_NEG);
    match i32::try_from(lock.result2) {
        Ok(result) if result < 0 => Errno(result.saturating_neg()),
        _ if is_missing => Errno::ENOENT,
        _ => Errno::ECANCELED,
    }
}
