//! The acceptor's request: the first bytes on a new TCP connection, before the hello.
//!
//! ```text
//! version 1, 16 bytes   0 magic u32  4 version u32  8 target u64
//! version 2, 28 bytes   0 magic u32  4 version u32  8 target, large [20]
//! ```
//!
//! In the sender's byte order, which follows from the magic; the large NID is never swapped. An
//! accepted request has no answer. Spec: lnet-wire §3.

use fulmar_wire::{DecodeError, Order, Reader, Writer};

use crate::nid::Nid;

/// A request to the acceptor for a connection with the network interface `target`.
#[doc(alias = "lnet_acceptor_connreq")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnRequest {
    /// The NID to connect to. Its address decides the version.
    pub target: Nid,
}

impl ConnRequest {
    /// The magic number of the acceptor.
    pub const MAGIC: u32 = 0xacce_7100;
    /// The length of the longest form in bytes.
    pub const LEN_MAX: usize = 28;

    /// Decodes a request at the start of `bytes`.
    ///
    /// Returns `Ok(None)` while bytes are missing, then the request and its length in bytes.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, DecodeError> {
        let Some((magic, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let Some(order) = Order::of_magic(*magic, Self::MAGIC) else {
            return Err(DecodeError::Magic { got: u32::from_le_bytes(*magic) });
        };
        let mut r = Reader::new(rest, order);
        let Ok(version) = r.u32("connreq.version") else { return Ok(None) };
        let target = match version {
            1 => Nid::decode_small(&mut r, "connreq.nid"),
            2 => Nid::decode_large(&mut r, "connreq.nid"),
            got => return Err(DecodeError::Version { got }),
        };
        match target {
            Ok(target) => Ok(Some((Self { target }, bytes.len() - r.rest().len()))),
            Err(DecodeError::Short { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends the request to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out, Order::Little);
        w.u32(Self::MAGIC);
        if self.target.is_large() {
            w.u32(2);
            self.target.encode_large(&mut w);
        } else {
            w.u32(1);
            self.target.encode_small(&mut w);
        }
    }

    /// Appends the answer of an acceptor to an unknown protocol: its own magic and version, and no
    /// NID. Spec: lnet-wire §3.3.
    pub fn encode_refusal(out: &mut Vec<u8>) {
        let mut w = Writer::new(out, Order::Little);
        w.u32(Self::MAGIC);
        w.u32(1);
        w.u64(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_wire::testing::hex;

    #[test]
    fn both_versions_in_either_order() {
        let small = hex("00 71 ce ac 01 00 00 00 02 00 00 0a 00 00 02 00");
        let (request, used) = ConnRequest::decode(&small).unwrap().unwrap();
        assert_eq!((request.target.to_small(), used), (Some(0x0002_0000_0a00_0002), 16));
        let swapped = hex("ac ce 71 00 00 00 00 01 00 02 00 00 0a 00 00 02");
        assert_eq!(ConnRequest::decode(&swapped).unwrap().unwrap().0, request);
        let large = hex("00 71 ce ac 02 00 00 00 0c 02 00 00 20 01 0d b8
             00 00 00 00 00 00 00 00 00 00 00 02");
        let (request, used) = ConnRequest::decode(&large).unwrap().unwrap();
        assert_eq!(used, 28);
        let mut out = Vec::new();
        request.encode(&mut out);
        assert_eq!(out, large);
    }

    #[test]
    fn missing_bytes_are_not_an_error_and_wrong_bytes_are() {
        let bytes = hex("00 71 ce ac 01 00 00 00 02 00 00 0a 00 00 02 00");
        for len in 0..bytes.len() {
            assert_eq!(ConnRequest::decode(&bytes[..len]), Ok(None), "{len} bytes");
        }
        let version = hex("00 71 ce ac 03 00 00 00");
        assert_eq!(ConnRequest::decode(&version), Err(DecodeError::Version { got: 3 }));
        let magic = hex("63 69 72 45");
        assert_eq!(ConnRequest::decode(&magic), Err(DecodeError::Magic { got: 0x4572_6963 }));
    }
}
