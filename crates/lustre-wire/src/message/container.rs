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
        let lens = (0..count).map(|_| r.u32("message.lengths"));
        let lens = lens.collect::<Result<Vec<u32>, _>>()?;
        r.take("message.lengths", padding(4 * count))?;
        let mut whole = FIXED_LEN + padded(4 * count);
        let mut buffers = Vec::with_capacity(count);
        for len in lens {
            let len = len as usize;
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
        let buffers = self.buffers.iter().map(|buffer| padded(buffer.len()));
        len_of_header(self.buffers.len()) + buffers.sum::<usize>()
    }

    /// Returns whether there are no buffers, as in no valid message.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Appends the message, in its byte order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let order = self.order;
        out.reserve(self.len());
        let mut w = Writer::new(out, order);
        w.u32(self.buffers.len() as u32);
        self.head.flavor.write(&mut w);
        w.u32(MAGIC);
        w.u32(self.head.reply_room);
        w.u32(self.head.checksum);
        self.head.flags.write(&mut w);
        w.u32(self.head.part);
        w.zeros(4);
        for buffer in &self.buffers {
            w.u32(buffer.len() as u32);
        }
        w.zeros(padding(4 * self.buffers.len()));
        for buffer in &self.buffers {
            w.bytes(buffer);
            w.zeros(padding(buffer.len()));
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
    len_of_header(buffers.len()) + buffers.iter().map(|&len| padded(len)).sum::<usize>()
}

fn len_of_header(buffers: usize) -> usize {
    FIXED_LEN + padded(4 * buffers)
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}

fn padding(len: usize) -> usize {
    padded(len) - len
}
