//! RPC messages: a container, the RPC body, and the buffers of the operation.
//!
//! A [`Container`] is what is on the wire. [`Message`] is one without protection, whose first buffer
//! is a [`Body`]. Messages of the flavor plain contain another message ([`Plain`]).
//!
//! The other buffers have names: the fields of a [`Format`]. A ping has none:
//!
//! ```
//! use fulmar_lustre_wire::format::PING;
//! use fulmar_lustre_wire::message::{HeaderFlags, Message};
//! use fulmar_lustre_wire::{Handle, Opcode, Status};
//!
//! # fn main() -> Result<(), fulmar_wire::DecodeError> {
//! let mut ping = Message::request(&PING);
//! ping.head.reply_room = 224;
//! ping.head.flags = HeaderFlags::AT_SUPPORT | HeaderFlags::CKSUM_INCOMPAT18;
//! ping.body.handle = Handle(0x5b78_e991_5370_3d85);
//! ping.body.timeout = 11;
//! let bytes = ping.to_bytes();
//!
//! let request = Message::decode(&bytes)?;
//! assert_eq!(request.body.opcode, Opcode::OBD_PING);
//! let reply = Message::reply(request.format(), Status::OK);
//! assert_eq!(reply.to_bytes().len(), 224);
//! # Ok(()) }
//! ```
//!
//! An intent has many. The format of a received request follows from its content, that of a reply
//! from its request:
//!
//! ```
//! use fulmar_lustre_wire::format::{ENQUEUE_GETATTR, INTENT, LOCK_REPLY, LOCK_REQUEST, MDT_BODY, NAME};
//! use fulmar_lustre_wire::ldlm::{Intent, IntentOps, LockFlags, LockReply, LockRequest, LockType};
//! use fulmar_lustre_wire::mdt::MdtBody;
//! use fulmar_lustre_wire::message::Message;
//! use fulmar_lustre_wire::{Fid, Name, Status};
//!
//! # fn main() -> Result<(), fulmar_wire::DecodeError> {
//! let mut lock = LockRequest { flags: LockFlags::HAS_INTENT, ..LockRequest::default() };
//! lock.lock.resource.kind = LockType::IBITS;
//! let bytes = Message::request(&ENQUEUE_GETATTR)
//!     .with(&LOCK_REQUEST, &lock)
//!     .with(&INTENT, &Intent { ops: IntentOps::GETATTR })
//!     .with(&MDT_BODY, &MdtBody { fid: Fid::ROOT, ..MdtBody::default() })
//!     .with(&NAME, &Name::new("passwd").expect("there is no NUL"))
//!     .to_bytes();
//!
//! let request = Message::decode(&bytes)?;
//! assert_eq!(request.format(), &ENQUEUE_GETATTR);
//! assert_eq!(request.require(&MDT_BODY)?.fid, Fid::ROOT);
//! assert_eq!(request.require(&NAME)?.as_bytes(), b"passwd");
//!
//! let bytes = Message::reply(request.format(), Status::OK)
//!     .with(&LOCK_REPLY, &LockReply::default())
//!     .to_bytes();
//! let reply = Message::decode(&bytes)?.answering(request.format());
//! assert_eq!(reply.get(&LOCK_REPLY)?, Some(LockReply::default()));
//! assert_eq!(reply.get(&MDT_BODY)?, None);
//! # Ok(()) }
//! ```

mod access;
mod body;
mod container;
mod flavor;
mod plain;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer};

pub use body::{Body, ConnectOpFlags, Job, Kind, MessageFlags};
pub use container::{Container, Head, HeaderFlags, len_with};
pub use flavor::{Flavor, Part, Policy};
pub use plain::{BulkHash, Plain, User};

use crate::format::Format;
use crate::{Opcode, Status};

/// A request or a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The words of the container.
    pub head: Head,
    /// The byte order of the sender: [`Order::Little`] in messages of this node.
    pub order: Order,
    /// What every message contains.
    pub body: Body,
    /// Which buffers follow. That of a reply depends on its request: [`Message::answering`].
    format: &'static Format,
    /// The buffers after the body.
    buffers: Vec<Cow<'a, [u8]>>,
}

/// The length of a message with only a body: a ping, and an early reply. A reply is stored after the
/// place of an early reply of this length. Spec: ptlrpc-ldlm-mgs §7.3.
pub const EARLY_LEN: usize = 224;

impl<'a> Message<'a> {
    /// Decodes a message of the policy null.
    ///
    /// # Errors
    /// If the message is not valid, or is protected: it is then a [`Container`] to unwrap.
    /// Spec: ptlrpc-ldlm-mgs §4.2.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Container { head, order, mut buffers } = Container::decode(bytes)?;
        if head.flavor.policy() != Policy::NULL {
            return Err(DecodeError::Range { field: "flavor", got: head.flavor.0.into() });
        }
        // A container has at least one buffer.
        let first = buffers.remove(0);
        let body = Body::read(&mut Reader::new(&first, order), "body")?;
        let format = match body.kind {
            Kind::REQUEST => Format::of_request(body.opcode, &buffers, order),
            _ => Format::of(body.opcode),
        };
        Ok(Self { head, order, body, format, buffers })
    }

    /// Returns the message as a container.
    pub fn container(&self) -> Container<'_> {
        let mut body = Vec::with_capacity(Body::LEN);
        self.body.write(&mut Writer::new(&mut body, self.order));
        let rest = self.buffers.iter().map(|buffer| Cow::Borrowed(buffer.as_ref()));
        let buffers = std::iter::once(Cow::Owned(body)).chain(rest).collect();
        Container { head: self.head, order: self.order, buffers }
    }

    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(&self.head, &self.body, out);
    }

    /// Appends the message with other words and another body: each transmission of a request has its
    /// own.
    pub fn encode_as(&self, head: &Head, body: &Body, out: &mut Vec<u8>) {
        let buffers = self.buffers.iter().map(AsRef::as_ref);
        let lens = std::iter::once(body.encoded_len()).chain(buffers.clone().map(<[u8]>::len));
        out.reserve(container::len_of(lens.clone()));
        let w = &mut Writer::new(out, self.order);
        head.write_with(lens, w);
        body.write(w);
        buffers.for_each(|buffer| container::write_buffer(buffer, w));
    }

    /// Returns the encoded message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }

    /// Copies what is borrowed.
    pub fn into_owned(self) -> Message<'static> {
        let buffers = self.buffers.into_iter().map(|buffer| Cow::Owned(buffer.into_owned()));
        let Self { head, order, body, format, .. } = self;
        Message { head, order, body, format, buffers: buffers.collect() }
    }

    /// Returns an early reply to a request for `opcode`: the server wants `timeout` seconds since the
    /// request arrived, of which `elapsed` have passed. Spec: ptlrpc-ldlm-mgs §7.4.
    pub fn early_reply(opcode: Opcode, timeout: u32, elapsed: u32) -> Self {
        let body = Body { timeout, service_time: elapsed, ..Body::reply(opcode, Status::OK) };
        let head = Head { checksum: checksum(&body, Order::Little), ..Head::default() };
        let format = Format::of(opcode);
        Self { head, order: Order::Little, body, format, buffers: Vec::new() }
    }

    /// Returns whether the checksum is that of an early reply.
    pub fn has_early_checksum(&self) -> bool {
        self.head.checksum == checksum(&self.body, self.order)
    }
}

/// Returns the checksum of an early reply: CRC-32 of its body, without the inversion at the end.
fn checksum(body: &Body, order: Order) -> u32 {
    let mut bytes = Vec::with_capacity(Body::LEN);
    body.write(&mut Writer::new(&mut bytes, order));
    !crc32fast::hash(&bytes)
}
