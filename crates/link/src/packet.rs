//! A packet of a TUN device, and its splitting.
//!
//! ```text
//! vnet header  10 bytes   flags, type, header length, segment length, checksum start and offset
//! IP header    v4 or v6, perhaps with extensions
//! TCP or UDP header
//! payload      up to 64 KiB: segments of the length in the vnet header
//! ```
//!
//! The vnet header (`struct virtio_net_hdr`) is in the host's byte order. The network stack
//! offloads segmentation and checksums to the device; the remote stack accepts the packet
//! unsegmented.

use std::ops::Range;

use crate::shaper::Train;

/// The length of the vnet header.
pub(crate) const VNET: usize = 10;
/// The longest packet, including the vnet header.
pub(crate) const LONGEST: usize = VNET + 65_535;

/// The overhead of an Ethernet frame on the line: preamble and start 8, header 14, checksum 4, gap
/// 12 bytes.
const FRAMING: u32 = 38;
/// The shortest payload of a frame.
const SHORTEST: u32 = 46;

/// The checksum field has only the sum of the pseudo-header; the device completes it.
const NEEDS_CHECKSUM: u8 = 1;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// The flag of a type whose segments carry ECN.
const ECN: u8 = 0x80;

const CWR: u8 = 0x80;
const FIN_AND_PSH: u8 = 0x09;

/// The positions of the parts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes from the vnet header to the end of the IP header.
    transport: usize,
    /// Bytes before the payload.
    payload: usize,
    /// Payload of each segment but the last.
    segment: usize,
    /// The kind of packet.
    kind: Kind,
    /// The offset of the checksum from `transport`.
    checksum: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Any other packet, which is not split.
    Whole,
    Tcp,
    Udp,
}

impl Layout {
    /// Parses the headers of a packet of this machine's network stack. Unknown packets are not
    /// split.
    pub(crate) fn of(packet: &[u8]) -> Self {
        Self::of_train(packet).unwrap_or(Self {
            transport: VNET,
            payload: VNET.min(packet.len()),
            segment: packet.len().saturating_sub(VNET),
            kind: Kind::Whole,
            checksum: 0,
            len: packet.len(),
        })
    }

    fn of_train(packet: &[u8]) -> Option<Self> {
        let header: &[u8; VNET] = packet.first_chunk()?;
        let native = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let (segment, start, checksum) = (native(4), native(6), native(8));
        let kind = match header[1] & !ECN {
            TCP_V4 | TCP_V6 => Kind::Tcp,
            UDP => Kind::Udp,
            _ => return None,
        };
        if header[0] & NEEDS_CHECKSUM == 0 || segment == 0 {
            return None;
        }
        let transport = VNET + start;
        let own = match kind {
            Kind::Tcp => usize::from(packet.get(transport + 12)? >> 4) * 4,
            Kind::Udp => 8,
            Kind::Whole => return None,
        };
        let ip = match packet.get(VNET)? >> 4 {
            4 => 20,
            6 => 40,
            _ => return None,
        };
        let payload = transport + own;
        let sound = start >= ip && own >= checksum + 2 && payload < packet.len();
        sound.then_some(Self { transport, payload, segment, kind, checksum, len: packet.len() })
    }

    /// Returns the segments on the line.
    pub(crate) fn train(&self) -> Train {
        let headers = self.payload.saturating_sub(VNET);
        let on_line = |len: usize| {
            let ip = u32::try_from(headers + len).unwrap_or(u32::MAX - FRAMING);
            ip.max(SHORTEST) + FRAMING
        };
        let payload = self.len - self.payload;
        let count = payload.div_ceil(self.segment.max(1)).max(1);
        let last = payload - (count - 1) * self.segment;
        Train {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            each: on_line(self.segment),
            last: on_line(last),
        }
    }

    /// Writes a packet of some of the segments to `out`, and returns its length.
    ///
    /// # Panics
    /// If `packet` is not that of the layout, or has fewer segments.
    pub(crate) fn cut(&self, packet: &[u8], segments: Range<u32>, out: &mut [u8]) -> usize {
        let total = self.train().count;
        assert!(!segments.is_empty() && segments.end <= total, "{segments:?} of {total}");
        if segments.len() == total as usize {
            out[..packet.len()].copy_from_slice(packet);
            return packet.len();
        }
        let first = segments.start as usize * self.segment;
        let end = (segments.end as usize * self.segment).min(self.len - self.payload);
        let len = self.payload + end - first;
        let out = &mut out[..len];
        out[..self.payload].copy_from_slice(&packet[..self.payload]);
        out[self.payload..].copy_from_slice(&packet[self.payload + first..self.payload + end]);
        if segments.len() == 1 {
            // One segment is not segmented further. Its checksum is still incomplete.
            out[1] = 0;
            out[2..6].fill(0);
        }
        self.fix_ip(out, segments.start);
        self.fix_transport(out, first, &segments, total);
        len
    }

    fn fix_ip(&self, out: &mut [u8], first: u32) {
        let len = out.len() - VNET;
        let ip = &mut out[VNET..];
        if ip[0] >> 4 == 6 {
            return put_u16(ip, 4, len - 40);
        }
        put_u16(ip, 2, len);
        // The stack numbers the segments of a packet in order, starting with its number.
        let id = u16_at(ip, 4).wrapping_add(first as u16);
        put_u16(ip, 4, usize::from(id));
        put_u16(ip, 10, 0);
        let header = usize::from(ip[0] & 0xf) * 4;
        let sum = !sum(&ip[..header]);
        put_u16(ip, 10, usize::from(sum));
    }

    fn fix_transport(&self, out: &mut [u8], first: usize, segments: &Range<u32>, total: u32) {
        let (old, new) = (self.len - self.transport, out.len() - self.transport);
        let transport = &mut out[self.transport..];
        // The pseudo-header includes the length.
        let changed = [u16_at(transport, self.checksum), !(old as u16), new as u16];
        put_u16(transport, self.checksum, usize::from(fold(changed)));
        if self.kind == Kind::Udp {
            return put_u16(transport, 4, new);
        }
        let sequence = (u32::from(u16_at(transport, 4)) << 16) | u32::from(u16_at(transport, 6));
        let sequence = sequence.wrapping_add(first as u32);
        put_u16(transport, 4, (sequence >> 16) as usize);
        put_u16(transport, 6, (sequence & 0xffff) as usize);
        if segments.end != total {
            transport[13] &= !FIN_AND_PSH;
        }
        if segments.start != 0 {
            transport[13] &= !CWR;
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    (u16::from(bytes[at]) << 8) | u16::from(bytes[at + 1])
}

fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    bytes[at] = (value >> 8) as u8;
    bytes[at + 1] = value as u8;
}

/// Returns the sum of 16-bit words of the Internet checksum, not complemented.
fn fold(words: impl IntoIterator<Item = u16>) -> u16 {
    let mut sum: u64 = words.into_iter().map(u64::from).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn sum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| (u16::from(pair[0]) << 8) | pair.get(1).copied().map_or(0, u16::from);
    fold(bytes.chunks(2).map(word))
}

#[cfg(test)]
mod tests;
