//! Requests and their replies.

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{FIEMAP, OST_BODY};
use fulmar_lustre_wire::ldlm::ResourceId;
use fulmar_lustre_wire::message::{Message, MessageFlags};
use fulmar_lustre_wire::ost::{Fiemap, Obdo};
use fulmar_lustre_wire::{Content, Handle, Status};
use fulmar_store::StoreError;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The client's export.
    pub export: Handle,
    /// Its primary NID.
    pub nid: Nid,
    /// Its XID.
    pub xid: u64,
    /// The time in seconds since 1970, for attributes whose times the client does not say.
    pub now: i64,
    /// The request.
    pub message: &'a Message<'a>,
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The reply. Its status may be an error.
    pub reply: Message<'static>,
    /// The transaction of the store that must be durable before the reply is sent.
    pub durable: Option<u64>,
    /// The object whose attributes have changed.
    pub changed: Option<ResourceId>,
    /// The object that is gone: what clients have cached of it is to be dropped.
    pub gone: Option<ResourceId>,
}

impl Answer {
    /// Returns the answer that is only a reply.
    pub fn new(reply: Message<'static>) -> Self {
        Self { reply, durable: None, changed: None, gone: None }
    }
}

/// Why a request about the data of an object fails.
#[derive(Debug)]
pub enum Failure {
    /// The reply has no buffers.
    Refused(Errno),
    /// The reply has a body.
    Failed(Errno, Box<Obdo>),
    /// The store did not do it.
    Store(StoreError),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// Returns what the client is told.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused(errno) | Self::Failed(errno, _) => *errno,
            Self::Store(error) => errno_of(error),
        }
    }
}

/// Returns what a client is told of an error of the store.
pub fn errno_of(error: &StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::ReadOnly { .. } => Errno::EROFS,
        StoreError::Conflict => Errno::EAGAIN,
        _ => Errno::EIO,
    }
}

impl Call<'_> {
    /// Returns whether it was sent before, or executed before the restart.
    pub fn is_again(&self) -> bool {
        let flags = self.message.body.flags;
        flags.has(MessageFlags::RESENT) || flags.has(MessageFlags::REPLAY)
    }

    /// Returns whether the client repeats what it did before a restart.
    pub fn is_replay(&self) -> bool {
        self.message.body.flags.has(MessageFlags::REPLAY)
    }

    /// Returns the body of a request about an object.
    ///
    /// # Errors
    /// EPROTO if it has none.
    pub fn body(&self) -> Result<Obdo, Errno> {
        self.message.require(&OST_BODY).map_err(|_| Errno::EPROTO)
    }

    /// Makes the reply to a request about an object that has failed, if it has a body.
    ///
    /// # Errors
    /// The status of a reply without buffers.
    pub fn finish(&self, result: Result<Answer, Failure>) -> Result<Answer, Errno> {
        result.or_else(|failure| match failure {
            Failure::Failed(errno, body) => {
                let reply = Message::reply(self.message.format(), Status::failed(errno));
                Ok(Answer::new(reply.with(&OST_BODY, &body)))
            }
            failure => Err(failure.errno()),
        })
    }

    /// Returns the reply to the question where an object has data. Clients want as many bytes as they sent.
    pub fn reply_with_map(&self, map: &Fiemap) -> Message<'static> {
        let mut bytes = map.to_bytes();
        let room = self.message.bytes(&FIEMAP).map_or(0, <[u8]>::len);
        bytes.resize(bytes.len().max(room), 0);
        Message::reply(self.message.format(), Status::OK).with_bytes(&FIEMAP, bytes)
    }

    /// Returns the successful reply to a request with only a body.
    pub fn reply_with(&self, body: &Obdo) -> Message<'static> {
        Message::reply(self.message.format(), Status::OK).with(&OST_BODY, body)
    }
}
