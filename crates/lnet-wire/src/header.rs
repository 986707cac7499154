//! The LNet header and the four bodies.
//!
//! ```text
//! small NIDs, 72 bytes    0 target u64  8 source u64  16 target pid  20 source pid
//!                        24 type u32   28 payload length u32  32 body [40]
//! large NIDs, 96 bytes    0 target [20] 20 source [20] 40 target pid  44 source pid
//!                        48 type u32   52 payload length u32  56 body [40]
//!
//! ACK    0 handle [16]  16 match bits u64  24 accepted length u32
//! PUT    0 handle [16]  16 match bits u64  24 header data u64  32 portal u32  36 offset u32
//! GET    0 handle [16]  16 match bits u64  24 portal u32  28 offset u32  32 sink length u32
//! REPLY  0 handle [16]
//! ```
//!
//! Always little-endian, independent of the peer's byte order; the handle and the header data are
//! opaque and never swapped. The unused end of a body is zero. Spec: lnet-wire §7.

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum};

use crate::nid::{Nid, Pid};

wire_enum! {
    /// The type of a message.
    pub struct MessageType(u32) {
        /// A PUT was accepted.
        ACK = 0,
        /// Store the payload.
        PUT = 1,
        /// Send data.
        GET = 2,
        /// The data that a GET requested.
        REPLY = 3,
        /// The handshake of socklnd version 1; never in the message stream.
        HELLO = 4,
    }
}

/// Identifies a memory descriptor of the node that created it. Other nodes return its 16 bytes
/// unchanged.
#[doc(alias = "lnet_handle_wire")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// Chosen at the start of a node, so that answers to an earlier incarnation match nothing.
    #[doc(alias = "wh_interface_cookie")]
    pub interface: u64,
    /// The descriptor; never reused by one incarnation.
    #[doc(alias = "wh_object_cookie")]
    pub object: u64,
}

impl Handle {
    /// No descriptor: no acknowledgement is requested. Both words must match.
    pub const NONE: Self = Self { interface: u64::MAX, object: u64::MAX };

    fn decode(r: &mut Reader<'_>, field: &'static str) -> Result<Self, DecodeError> {
        Ok(Self { interface: r.u64(field)?, object: r.u64(field)? })
    }

    fn encode(self, w: &mut Writer<'_>) {
        w.u64(self.interface);
        w.u64(self.object);
    }
}

/// The part of a header that depends on its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Body {
    /// The target accepted `accepted` bytes of a PUT.
    Ack { handle: Handle, match_bits: u64, accepted: u32 },
    /// Store the payload at a portal of the target.
    Put {
        /// The handle for the ACK, or [`Handle::NONE`].
        ack: Handle,
        match_bits: u64,
        /// 64 bits of the sender for the target's event.
        header_data: u64,
        portal: u32,
        offset: u32,
    },
    /// Send up to `sink_len` bytes from a portal of the target.
    Get {
        /// The handle for the REPLY.
        reply: Handle,
        match_bits: u64,
        portal: u32,
        offset: u32,
        sink_len: u32,
    },
    /// The payload is the data that a GET requested.
    Reply { handle: Handle },
}

impl Body {
    /// Returns the type for the header.
    pub fn message_type(&self) -> MessageType {
        match self {
            Self::Ack { .. } => MessageType::ACK,
            Self::Put { .. } => MessageType::PUT,
            Self::Get { .. } => MessageType::GET,
            Self::Reply { .. } => MessageType::REPLY,
        }
    }
}

/// The form of NIDs in a header, which depends on the version of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderForm {
    /// 72 bytes, socklnd versions 1 to 3.
    Small,
    /// 96 bytes, socklnd version 4.
    Large,
}

#[expect(clippy::len_without_is_empty, reason = "no header is empty")]
impl HeaderForm {
    /// Returns the length of the header in bytes.
    pub const fn len(self) -> usize {
        match self {
            Self::Small => 72,
            Self::Large => 96,
        }
    }
}

/// The header of every LNet message.
#[doc(alias = "lnet_hdr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The final destination, not the next hop.
    pub target: Nid,
    /// The original sender.
    pub source: Nid,
    /// The process at the destination; receivers do not check it.
    pub target_pid: Pid,
    /// The process that sent the message.
    pub source_pid: Pid,
    /// The length of the payload in bytes.
    pub payload_len: u32,
    /// The part that depends on the type.
    pub body: Body,
}

impl Header {
    /// The length of the longest form in bytes.
    pub const LEN_MAX: usize = HeaderForm::Large.len();

    /// Decodes a header that fills `bytes`.
    ///
    /// Lengths are not checked: see [`Header::check`].
    pub fn decode(bytes: &[u8], form: HeaderForm) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes, Order::Little);
        let (target, source) = match form {
            HeaderForm::Small => (
                Nid::decode_small(&mut r, "lnet.target")?,
                Nid::decode_small(&mut r, "lnet.source")?,
            ),
            HeaderForm::Large => (
                Nid::decode_large(&mut r, "lnet.target")?,
                Nid::decode_large(&mut r, "lnet.source")?,
            ),
        };
        let target_pid = Pid(r.u32("lnet.target_pid")?);
        let source_pid = Pid(r.u32("lnet.source_pid")?);
        let kind = MessageType(r.u32("lnet.type")?);
        let payload_len = r.u32("lnet.payload_length")?;
        let body = decode_body(kind, &mut r.sub("lnet.body", BODY_LEN)?)?;
        r.finish("lnet header")?;
        Ok(Self { target, source, target_pid, source_pid, payload_len, body })
    }

    /// Appends the header to `out`.
    ///
    /// # Panics
    /// If a NID has no small form and `form` requires one.
    pub fn encode(&self, form: HeaderForm, out: &mut Vec<u8>) {
        let start = out.len();
        let mut w = Writer::new(out, Order::Little);
        match form {
            HeaderForm::Small => {
                self.target.encode_small(&mut w);
                self.source.encode_small(&mut w);
            }
            HeaderForm::Large => {
                self.target.encode_large(&mut w);
                self.source.encode_large(&mut w);
            }
        }
        w.u32(self.target_pid.0);
        w.u32(self.source_pid.0);
        w.u32(self.body.message_type().0);
        w.u32(self.payload_len);
        encode_body(&self.body, &mut w);
        out.resize(start + form.len(), 0);
    }

    /// Checks that the type allows the payload length. Spec: lnet-wire §8.6.
    pub fn check(&self) -> Result<(), DecodeError> {
        let max = match self.body {
            Body::Ack { .. } | Body::Get { .. } => 0,
            Body::Put { .. } | Body::Reply { .. } => crate::MTU,
        };
        if self.payload_len > max {
            let got = self.payload_len.into();
            return Err(DecodeError::Range { field: "lnet.payload_length", got });
        }
        Ok(())
    }
}

/// Bytes in the union of the bodies.
const BODY_LEN: usize = 40;

fn decode_body(kind: MessageType, r: &mut Reader<'_>) -> Result<Body, DecodeError> {
    Ok(match kind {
        MessageType::ACK => Body::Ack {
            handle: Handle::decode(r, "ack.handle")?,
            match_bits: r.u64("ack.match_bits")?,
            accepted: r.u32("ack.mlength")?,
        },
        MessageType::PUT => Body::Put {
            ack: Handle::decode(r, "put.handle")?,
            match_bits: r.u64("put.match_bits")?,
            header_data: r.u64("put.hdr_data")?,
            portal: r.u32("put.portal")?,
            offset: r.u32("put.offset")?,
        },
        MessageType::GET => Body::Get {
            reply: Handle::decode(r, "get.handle")?,
            match_bits: r.u64("get.match_bits")?,
            portal: r.u32("get.portal")?,
            offset: r.u32("get.offset")?,
            sink_len: r.u32("get.sink_length")?,
        },
        MessageType::REPLY => Body::Reply { handle: Handle::decode(r, "reply.handle")? },
        MessageType(got) => {
            return Err(DecodeError::Range { field: "lnet.type", got: got.into() });
        }
    })
}

fn encode_body(body: &Body, w: &mut Writer<'_>) {
    match *body {
        Body::Ack { handle, match_bits, accepted } => {
            handle.encode(w);
            w.u64(match_bits);
            w.u32(accepted);
        }
        Body::Put { ack, match_bits, header_data, portal, offset } => {
            ack.encode(w);
            w.u64(match_bits);
            w.u64(header_data);
            w.u32(portal);
            w.u32(offset);
        }
        Body::Get { reply, match_bits, portal, offset, sink_len } => {
            reply.encode(w);
            w.u64(match_bits);
            w.u32(portal);
            w.u32(offset);
            w.u32(sink_len);
        }
        Body::Reply { handle } => handle.encode(w),
    }
}

#[cfg(test)]
mod tests;
