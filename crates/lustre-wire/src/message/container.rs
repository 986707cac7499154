//! The container of every message: a header and up to 32 buffers, each on 8 bytes.
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 4 | number of buffers n |
//! | 4 | 4 | `flavor` |
//! | 8 | 4 | magic 0x0bd00bd3 |
//! | 12 | 4 | `reply_room` |
//! | 16 | 4 | `checksum` |
//! | 20 | 4 | `flags` |
//! | 24 | 4 | `part`; 4 zeros |
//! | 32 | 4n | lengths of the buffers |
//!
//! Header and buffers are each filled up to a multiple of 8 bytes. Spec: ptlrpc-ldlm-mgs §4.

use std::borrow::Cow;

use fulmar_wire::{DecodeError, Field, Order, Reader, Writer, wire_flags};
use serde::Serialize;

use super::Flavor;

/// The words of a container beside its buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Head {
    /// How the message is protected.
    pub flavor: Flavor,
    /// In a request, the bytes that the client has for the reply; in a reply, 0.
    pub reply_room: u32,
    /// The checksum of an early reply, else 0.
    pub checksum: u32,
    /// What the sender of a request supports.
    pub flags: HeaderFlags,
    /// In a part of a batch: its operation, or its result. Else 0.
    pub part: u32,
}

wire_flags! {
    /// What the sender of a request supports.
    pub struct HeaderFlags(u32) {
        /// Adaptive timeouts: replies have an offset, and there may be early ones.
        AT_SUPPORT = 0x1,
        /// Checksums of early replies in the form of release 1.8.
        CKSUM_INCOMPAT18 = 0x2,
    }
}

impl Head {
    /// Writes all that is before the buffers, which have these lengths.
    pub(super) fn write_with(&self, lens: impl Iterator<Item = usize> + Clone, w: &mut Writer<'_>) {
        let count = lens.clone().count();
        w.u32(count as u32);
        self.flavor.write(w);
        w.u32(MAGIC);
        w.u32(self.reply_room);
        w.u32(self.checksum);
        self.flags.write(w);
        w.u32(self.part);
        w.zeros(4);
        lens.for_each(|len| w.u32(len as u32));
        w.zeros(padding(4 * count));
    }
}

/// Writes a buffer and what fills it up.
pub(super) fn write_buffer(buffer: &[u8], w: &mut Writer<'_>) {
    w.bytes(buffer);
    w.zeros(padding(buffer.len()));
}

/// Buffers in a container: an RPC message, a wrapped one, or a part of a batch.
#[doc(alias = "lustre_msg_v2")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container<'a> {
    /// The other words.
    pub head: Head,
    /// The byte order of the sender; it applies to the buffers too.
    pub order: Order,
    /// The buffers, at least 1 and at most [`Container::BUFFERS_MAX`]. Empty ones keep their place.
    pub buffers: Vec<Cow<'a, [u8]>>,
}

const MAGIC: u32 = 0x0bd0_0bd3;
/// Bytes before the lengths.
const FIXED_LEN: usize = 32;

impl<'a> Container<'a> {
    /// The most buffers of a message.
    pub const BUFFERS_MAX: usize = 32;
    /// The longest message in bytes.
    #[doc(alias = "PTLRPC_MAX_BUFLEN")]
    pub const LEN_MAX: usize = 1000 << 10;

    /// Decodes the container at the start of `bytes`; bytes after it are ignored.
    ///
    /// # Errors
    /// If the magic number is wrong, a limit is exceeded, or bytes are missing.
    /// Spec: ptlrpc-ldlm-mgs §4.2.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::decode_next(bytes).map(|(container, _)| container)
    }

    /// Decodes the containers of a batch, which follow each other. Bytes after `count` of them are
    /// ignored.
    ///
    /// # Errors
    /// If one is not valid.
    pub fn decode_batch(bytes: &'a [u8], count: u16) -> Result<Vec<Self>, DecodeError> {
        let mut rest = bytes;
        let mut parts = Vec::new();
        for _ in 0..count {
            let (part, len) = Self::decode_next(rest)?;
            rest = rest.get(len..).unwrap_or_default();
            parts.push(part);
        }
        Ok(parts)
    }

    /// Decodes the container at the start of `bytes`, and returns its length.
    fn decode_next(bytes: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut r = Reader::new(bytes, Order::Little);
        r.take("message.header", 8)?;
        let magic = r.array("message.magic")?;
        let Some(order) = Order::of_magic(magic, MAGIC) else {
            return Err(DecodeError::Magic { got: u32::from_le_bytes(magic) });
        };
        let mut r = Reader::new(bytes, order);
        let count = r.u32("message.buffer_count")?;
        if !(1..=Self::BUFFERS_MAX as u32).contains(&count) {
            return Err(DecodeError::Range { field: "message.buffer_count", got: count.into() });
        }
        let count = count as usize;
        let flavor = Field::read(&mut r, "message.flavor")?;
        r.take("message.magic", 4)?;
        let head = Head {
            flavor,
            reply_room: r.u32("message.reply_room")?,
            checksum: r.u32("message.checksum")?,
            flags: Field::read(&mut r, "message.flags")?,
            part: r.u32("message.part")?,
        };
        r.take("message.padding", 4)?;
        let mut lens = Reader::new(r.take("message.lengths", 4 * count)?, order);
        r.take("message.lengths", padding(4 * count))?;
        let mut whole = FIXED_LEN + padded(4 * count);
        let mut buffers = Vec::with_capacity(count);
        for _ in 0..count {
            let len = lens.u32("message.lengths")? as usize;
            whole = whole.saturating_add(len).saturating_add(7) & !7;
            if whole > Self::LEN_MAX {
                return Err(DecodeError::Range { field: "message.lengths", got: len as u64 });
            }
            buffers.push(Cow::Borrowed(r.take("message.buffer", len)?));
            r.take("message.buffer_padding", padding(len))?;
        }
        Ok((Self { head, order, buffers }, whole))
    }

    /// Returns the length of the whole message in bytes.
    pub fn len(&self) -> usize {
        len_of(self.buffers.iter().map(|buffer| buffer.len()))
    }

    /// Returns whether there are no buffers, as in no valid message.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Appends the message, in its byte order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        let w = &mut Writer::new(out, self.order);
        self.head.write_with(self.buffers.iter().map(|buffer| buffer.len()), w);
        for buffer in &self.buffers {
            write_buffer(buffer, w);
        }
    }

    /// Copies what is borrowed.
    pub fn into_owned(self) -> Container<'static> {
        let buffers = self.buffers.into_iter().map(|buffer| Cow::Owned(buffer.into_owned()));
        Container { head: self.head, order: self.order, buffers: buffers.collect() }
    }
}

/// Returns the length of a message whose buffers have these lengths.
pub fn len_with(buffers: &[usize]) -> usize {
    len_of(buffers.iter().copied())
}

pub(super) fn len_of(buffers: impl Iterator<Item = usize> + Clone) -> usize {
    FIXED_LEN + padded(4 * buffers.clone().count()) + buffers.map(padded).sum::<usize>()
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

fn padding(len: usize) -> usize {
    padded(len) - len
}
