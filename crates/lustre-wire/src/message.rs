//! RPC messages: a container, the RPC body, and the buffers of the operation.
//!
//! A [`Container`] is what is on the wire. [`Message`] is one without protection, whose first buffer
//! is a [`Body`]. Messages of the flavor plain contain another message ([`Plain`]).

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
    /// The buffers after the body.
    pub buffers: Vec<Cow<'a, [u8]>>,
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
        Ok(Self { head, order, body, buffers })
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
        self.container().encode(out);
    }

    /// Copies what is borrowed.
    pub fn into_owned(self) -> Message<'static> {
        let buffers = self.buffers.into_iter().map(|buffer| Cow::Owned(buffer.into_owned()));
        let Self { head, order, body, .. } = self;
        Message { head, order, body, buffers: buffers.collect() }
    }

    /// Returns an early reply to a request for `opcode`: the server wants `timeout` seconds since the
    /// request arrived, of which `elapsed` have passed. Spec: ptlrpc-ldlm-mgs §7.4.
    pub fn early_reply(opcode: Opcode, timeout: u32, elapsed: u32) -> Self {
        let body = Body { timeout, service_time: elapsed, ..Body::reply(opcode, Status::OK) };
        let head = Head { checksum: checksum(&body, Order::Little), ..Head::default() };
        Self { head, order: Order::Little, body, buffers: Vec::new() }
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
