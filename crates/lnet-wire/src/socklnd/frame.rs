//! The 24 bytes before every message in versions 2 to 4.
//!
//! ```text
//! 0 kind u32   4 checksum u32   8 cookie 0 u64   16 cookie 1 u64
//! ```
//!
//! In the byte order of the sender's hello. Spec: lnet-wire §6.

use std::ops::Range;

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum};

wire_enum! {
    /// The kind of a frame.
    pub struct FrameKind(u32) {
        /// Nothing follows: the cookies are the content.
        NOOP = 0xc0,
        /// An LNet header and its payload.
        LNET = 0xc1,
    }
}

/// The header of a frame.
#[doc(alias = "ksock_msg_hdr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// CRC-32 without the final inversion, or 0 for none.
    #[doc(alias = "ksh_csum")]
    pub checksum: u32,
    /// Requests an acknowledgement of this message (LNET), or acknowledges (NOOP).
    #[doc(alias = "ksh_zc_cookies")]
    pub cookies: [u64; 2],
}

impl FrameHeader {
    /// The length of the header in bytes.
    pub const LEN: usize = 24;
    /// The offset of the checksum in the header.
    pub const CHECKSUM: Range<usize> = 4..8;
    /// The second cookie of a keepalive NOOP.
    #[doc(alias = "SOCKNAL_KEEPALIVE_PING")]
    pub const KEEPALIVE: u64 = 1;

    /// Returns the header of a message without a request for acknowledgement.
    pub const fn lnet() -> Self {
        Self { kind: FrameKind::LNET, checksum: 0, cookies: [0, 0] }
    }

    /// Returns the header of a message that requests an acknowledgement with `cookie`.
    pub const fn zero_copy(cookie: u64) -> Self {
        Self { kind: FrameKind::LNET, checksum: 0, cookies: [cookie, 0] }
    }

    /// Returns a NOOP that acknowledges one cookie.
    pub const fn acknowledge(cookie: u64) -> Self {
        Self { kind: FrameKind::NOOP, checksum: 0, cookies: [0, cookie] }
    }

    /// Writes a little-endian checksum into an encoded header: it covers bytes that only the driver
    /// has. A head that is too short is not changed.
    pub fn set_checksum(head: &mut [u8], checksum: u32) {
        if let Some(field) = head.get_mut(Self::CHECKSUM) {
            field.copy_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Decodes a header that fills `bytes`. Unknown kinds are accepted.
    pub fn decode(bytes: &[u8], order: Order) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes, order);
        let header = Self {
            kind: FrameKind(r.u32("frame.kind")?),
            checksum: r.u32("frame.checksum")?,
            cookies: [r.u64("frame.cookie0")?, r.u64("frame.cookie1")?],
        };
        r.finish("frame header")?;
        Ok(header)
    }

    /// Appends the header to `out`.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        let mut w = Writer::new(out, order);
        w.u32(self.kind.0);
        w.u32(self.checksum);
        w.u64(self.cookies[0]);
        w.u64(self.cookies[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_wire::testing::{hex, round_trip};

    #[test]
    fn a_keepalive_is_a_noop_with_cookie_one() {
        let bytes = hex("c0 00 00 00 00 00 00 00 | NOOP, no checksum
             00 00 00 00 00 00 00 00 |
             01 00 00 00 00 00 00 00 | keepalive");
        let decode = |bytes: &[u8]| FrameHeader::decode(bytes, Order::Little);
        let header = round_trip(&bytes, decode, |header, out| header.encode(Order::Little, out));
        assert_eq!(header, FrameHeader::acknowledge(FrameHeader::KEEPALIVE));
    }

    #[test]
    fn a_big_endian_peer_is_understood() {
        let mut bytes = Vec::new();
        FrameHeader::acknowledge(0x2a).encode(Order::Big, &mut bytes);
        assert_eq!(bytes[..4], [0, 0, 0, 0xc0]);
        assert_eq!(FrameHeader::decode(&bytes, Order::Big), Ok(FrameHeader::acknowledge(0x2a)));
    }
}
