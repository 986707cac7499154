//! RPC messages: a container, the RPC body, and the buffers of the operation.
//!
//! A [`Container`] is what is on the wire. The first buffer of a [`Message`] is a [`Body`]. In the
//! flavor plain a container has such a message in it, and is wrapped and unwrapped here: only the
//! [`Flavor`] of a message tells the difference.
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
pub use flavor::{Flavor, HashKind, Part, Policy};
pub use plain::{BulkHash, User};

use plain::Plain;

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
    /// In the flavor plain, the user of a request.
    pub user: Option<Box<User>>,
    /// In the flavor plain, how bulk data are protected.
    pub bulk: Option<BulkHash>,
    /// Which buffers follow. That of a reply depends on its request: [`Message::answering`].
    format: &'static Format,
    /// The buffers after the body.
    buffers: Vec<Cow<'a, [u8]>>,
}

/// The length of a message with only a body: a ping, and an early reply. A reply is stored after the
/// place of an early reply of this length. Spec: ptlrpc-ldlm-mgs §7.3.
pub const EARLY_LEN: usize = 224;

impl<'a> Message<'a> {
    /// Decodes a message of the policies null and plain.
    ///
    /// # Errors
    /// If the message is not valid, or is protected in another way.
    /// Spec: ptlrpc-ldlm-mgs §4.2, §9.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let container = Container::decode(bytes)?;
        let flavor = container.head.flavor;
        match flavor.policy() {
            Policy::NULL => Self::of(container),
            Policy::PLAIN => Self::unwrap(Plain::of(container)?),
            _ => Err(DecodeError::Range { field: "flavor", got: flavor.0.into() }),
        }
    }

    fn of(container: Container<'a>) -> Result<Self, DecodeError> {
        let Container { head, order, mut buffers } = container;
        // A container has at least one buffer.
        let first = buffers.remove(0);
        let body = Body::read(&mut Reader::new(&first, order), "body")?;
        let format = match body.kind {
            Kind::REQUEST => Format::of_request(body.opcode, &buffers, order),
            _ => Format::of(body.opcode),
        };
        Ok(Self { head, order, body, user: None, bulk: None, format, buffers })
    }

    fn unwrap(plain: Plain<'a>) -> Result<Self, DecodeError> {
        let Plain { flavor, checksum, message, user, bulk } = plain;
        let Cow::Borrowed(bytes) = message else { unreachable!("it was decoded from bytes") };
        let mut message = Self::of(Container::decode(bytes)?)?;
        (message.head.flavor, message.head.checksum) = (flavor, checksum);
        message.user = user.map(|user| Box::new(user.into_owned()));
        message.bulk = bulk;
        Ok(message)
    }

    /// Appends the encoded message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(&self.head, &self.body, out);
    }

    /// Appends the message with other words and another body: each transmission of a request has its
    /// own.
    pub fn encode_as(&self, head: &Head, body: &Body, out: &mut Vec<u8>) {
        if head.flavor.policy() != Policy::PLAIN {
            return self.encode_bare(head, body, out);
        }
        let plain = Plain {
            flavor: head.flavor,
            checksum: head.checksum,
            message: self.inside(head, body).into(),
            user: self.user.as_deref().map(Cow::Borrowed),
            bulk: self.bulk,
        };
        plain.wrap().encode(out);
    }

    /// Returns the message that is inside one of the flavor plain.
    fn inside(&self, head: &Head, body: &Body) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_bare(&Head { flavor: Flavor::NULL, checksum: 0, ..*head }, body, &mut bytes);
        bytes
    }

    fn encode_bare(&self, head: &Head, body: &Body, out: &mut Vec<u8>) {
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
        let Self { head, order, body, user, bulk, format, .. } = self;
        Message { head, order, body, user, bulk, format, buffers: buffers.collect() }
    }

    /// Returns an early reply to a request for `opcode` of this flavor: the server wants `timeout`
    /// seconds since the request arrived, of which `elapsed` have passed.
    /// Spec: ptlrpc-ldlm-mgs §7.4.
    pub fn early_reply(flavor: Flavor, opcode: Opcode, timeout: u32, elapsed: u32) -> Self {
        let mut early = Self::reply(Format::of(opcode), Status::OK);
        early.buffers.clear();
        (early.body.timeout, early.body.service_time) = (timeout, elapsed);
        early.head.flavor = flavor;
        early.head.checksum = early.early_checksum();
        early
    }

    /// Returns whether the checksum is that of an early reply.
    pub fn has_early_checksum(&self) -> bool {
        self.head.checksum == self.early_checksum()
    }

    /// Returns the checksum of an early reply: CRC-32 of its body, or of what is wrapped, without the
    /// inversion at the end.
    fn early_checksum(&self) -> u32 {
        let bytes = match self.head.flavor.policy() {
            Policy::PLAIN => self.inside(&self.head, &self.body),
            _ => {
                let mut bytes = Vec::with_capacity(Body::LEN);
                self.body.write(&mut Writer::new(&mut bytes, self.order));
                bytes
            }
        };
        !crc32fast::hash(&bytes)
    }
}
