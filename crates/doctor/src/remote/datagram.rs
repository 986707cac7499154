//! Datagrams between both hosts.
//!
//! ```text
//! 0 magic  4 kind  8 token u64  16 number u64  24 time u64  32 padding
//! ```
//!
//! Little-endian. The time is in nanoseconds since the sender started.

use std::net::IpAddr;

use fulmar_wire::{Order, Reader, Writer};

/// Length of the header; padding follows.
pub(crate) const HEADER_LEN: usize = 32;
const MAGIC: u32 = 0x4644_6f63;

/// The purpose of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramKind {
    /// Requests an answer.
    Echo,
    /// The answer, with the same number and time.
    Echoed,
    /// Is counted by the receiver.
    Flood,
    /// Tests whether this size arrives.
    Probe,
}

const KINDS: [DatagramKind; 4] =
    [DatagramKind::Echo, DatagramKind::Echoed, DatagramKind::Flood, DatagramKind::Probe];

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) kind: DatagramKind,
    pub(crate) token: u64,
    pub(crate) number: u64,
    pub(crate) time: u64,
}

impl Datagram {
    /// Parses one; `None` if it is not valid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes, Order::Little);
        if reader.u32("magic").ok()? != MAGIC {
            return None;
        }
        let kind = *KINDS.get(reader.u32("kind").ok()? as usize)?;
        let mut next = |field| reader.u64(field).ok();
        Some(Self { kind, token: next("token")?, number: next("number")?, time: next("time")? })
    }

    /// Writes one of `len` bytes, at least [`HEADER_LEN`].
    pub(crate) fn encode(&self, len: usize, out: &mut Vec<u8>) {
        out.clear();
        let mut writer = Writer::new(out, Order::Little);
        writer.u32(MAGIC);
        writer.u32(KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u32);
        writer.u64(self.token);
        writer.u64(self.number);
        writer.u64(self.time);
        writer.zeros(len.saturating_sub(HEADER_LEN));
    }
}

/// Bytes that Ethernet adds to a packet: preamble, header, checksum and inter-frame gap.
const FRAMING: u32 = 8 + 14 + 4 + 12;

/// Returns the length of the IP and UDP headers of a datagram, in bytes.
pub(crate) fn headers(address: IpAddr) -> u32 {
    if address.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// Returns the bytes on Ethernet of an unfragmented datagram with `size` bytes of payload.
pub(crate) fn on_wire(size: u32, address: IpAddr) -> u32 {
    size.saturating_add(headers(address) + FRAMING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_takes_1538_bytes_of_ethernet() {
        for address in ["10.0.0.1", "fd00::1"] {
            let address = address.parse().unwrap();
            assert_eq!(on_wire(1500 - headers(address), address), 1538);
        }
    }

    #[test]
    fn a_datagram_survives_a_round_trip_and_garbage_is_rejected() {
        let mut bytes = Vec::new();
        for kind in KINDS {
            let datagram = Datagram { kind, token: 7, number: 8, time: 9 };
            datagram.encode(100, &mut bytes);
            assert_eq!((bytes.len(), Datagram::decode(&bytes)), (100, Some(datagram)));
        }
        assert_eq!(Datagram::decode(&bytes[..HEADER_LEN - 1]), None);
        bytes[4] = 200;
        assert_eq!(Datagram::decode(&bytes), None);
        assert_eq!(Datagram::decode(b"garbage that is long enough for a header"), None);
    }
}
