//! TCP segments in packets: Ethernet, IPv4 or IPv6, and TCP.
//!
//! VLANs, fragments and IPv6 extension headers are not supported.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fulmar_wire::{DecodeError, Order, Reader, Writer};

use crate::capture::{LinkType, Packet};

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub target: SocketAddr,
    /// The sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The sequence number that the sender expects next.
    pub acknowledged: u32,
    /// [`Segment::SYN`] and so on.
    pub flags: u8,
    /// The payload.
    pub payload: &'a [u8],
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;

impl<'a> Segment<'a> {
    /// The sender closes its direction.
    pub const FIN: u8 = 0x01;
    /// The sender opens the connection.
    pub const SYN: u8 = 0x02;
    /// The connection is reset.
    pub const RST: u8 = 0x04;
    /// The bytes are to be delivered at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;

    /// Returns whether all of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Returns the segment of a packet; `None` if there is none, or a header is incomplete.
    pub fn of_packet(packet: &Packet<'a>) -> Option<Self> {
        let mut r = Reader::new(packet.bytes, Order::Big);
        Self::decode(&mut r, packet.link).ok().flatten()
    }

    fn decode(r: &mut Reader<'a>, link: LinkType) -> Result<Option<Self>, DecodeError> {
        let protocol = match link {
            LinkType::ETHERNET => {
                r.take("ethernet.addresses", 12)?;
                r.u16("ethernet.protocol")?
            }
            LinkType::LINUX_COOKED => {
                r.take("cooked.header", 14)?;
                r.u16("cooked.protocol")?
            }
            LinkType::LINUX_COOKED_V2 => {
                let protocol = r.u16("cooked.protocol")?;
                r.take("cooked.header", 18)?;
                protocol
            }
            LinkType::RAW_IP => match r.rest().first() {
                Some(byte) if byte >> 4 == 4 => IPV4,
                _ => IPV6,
            },
            _ => return Ok(None),
        };
        match protocol {
            IPV4 => Self::decode_ipv4(r),
            IPV6 => Self::decode_ipv6(r),
            _ => Ok(None),
        }
    }

    fn decode_ipv4(r: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let header_len = usize::from(r.u8("ip.version")? & 0x0f) * 4;
        r.u8("ip.service")?;
        let total = usize::from(r.u16("ip.length")?);
        r.u16("ip.id")?;
        let fragment = r.u16("ip.fragment")? & 0x3fff;
        r.u8("ip.ttl")?;
        let protocol = r.u8("ip.protocol")?;
        r.u16("ip.checksum")?;
        let source = Ipv4Addr::from(r.array("ip.source")?);
        let target = Ipv4Addr::from(r.array("ip.target")?);
        if protocol != TCP || fragment != 0 {
            return Ok(None);
        }
        r.take("ip.options", header_len.saturating_sub(20))?;
        Self::decode_tcp(r, total.saturating_sub(header_len), source.into(), target.into())
    }

    fn decode_ipv6(r: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        r.u32("ip.version")?;
        let len = usize::from(r.u16("ip.length")?);
        let protocol = r.u8("ip.next")?;
        r.u8("ip.hops")?;
        let source = Ipv6Addr::from(r.array("ip.source")?);
        let target = Ipv6Addr::from(r.array("ip.target")?);
        if protocol != TCP {
            return Ok(None);
        }
        Self::decode_tcp(r, len, source.into(), target.into())
    }

    /// Decodes `len` bytes of TCP; the bytes after them are padding of the link.
    fn decode_tcp(
        r: &mut Reader<'a>,
        len: usize,
        source: IpAddr,
        target: IpAddr,
    ) -> Result<Option<Self>, DecodeError> {
        // A host with segmentation offload writes a length of 0, and a capture may have truncated
        // the packet.
        let len = if len == 0 { r.rest().len() } else { len.min(r.rest().len()) };
        let mut r = r.sub("tcp", len)?;
        let source = SocketAddr::new(source, r.u16("tcp.source")?);
        let target = SocketAddr::new(target, r.u16("tcp.target")?);
        let sequence = r.u32("tcp.sequence")?;
        let acknowledged = r.u32("tcp.acknowledged")?;
        let header_len = usize::from(r.u8("tcp.offset")? >> 4) * 4;
        let flags = r.u8("tcp.flags")?;
        r.take("tcp.window", 6)?;
        r.take("tcp.options", header_len.saturating_sub(20))?;
        Ok(Some(Self { source, target, sequence, acknowledged, flags, payload: r.rest() }))
    }

    /// Appends the segment as an Ethernet frame with correct checksums to `out`.
    ///
    /// # Panics
    /// If the two addresses are of different families or the payload is too long for a packet.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut tcp = Vec::with_capacity(TCP_HEADER_LEN + self.payload.len());
        self.encode_tcp(&mut tcp);
        let len = u16::try_from(20 + tcp.len()).expect("a segment fits a packet");
        let mut w = Writer::new(out, Order::Big);
        w.bytes(&mac(self.target.ip()));
        w.bytes(&mac(self.source.ip()));
        match (self.source.ip(), self.target.ip()) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                w.u16(IPV4);
                encode_ipv4(len, source, target, &mut w);
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                w.u16(IPV6);
                w.u32(0x6000_0000);
                w.u16(len - 20);
                w.u8(TCP);
                w.u8(64);
                w.bytes(&source.octets());
                w.bytes(&target.octets());
            }
            (source, target) => panic!("{source} and {target} are of different families"),
        }
        w.bytes(&tcp);
    }

    fn encode_tcp(&self, out: &mut Vec<u8>) {
        let len = TCP_HEADER_LEN + self.payload.len();
        // The checksum also covers the pseudo-header.
        let mut pseudo = Vec::new();
        let mut w = Writer::new(&mut pseudo, Order::Big);
        for ip in [self.source.ip(), self.target.ip()] {
            match ip {
                IpAddr::V4(ip) => w.bytes(&ip.octets()),
                IpAddr::V6(ip) => w.bytes(&ip.octets()),
            }
        }
        w.u32(len as u32);
        w.u32(TCP.into());
        let mut header = Vec::new();
        self.encode_tcp_header(0, &mut header);
        let sum = checksum(&[&pseudo, &header, self.payload]);
        self.encode_tcp_header(sum, out);
        out.extend_from_slice(self.payload);
    }

    fn encode_tcp_header(&self, checksum: u16, out: &mut Vec<u8>) {
        let mut w = Writer::new(out, Order::Big);
        w.u16(self.source.port());
        w.u16(self.target.port());
        w.u32(self.sequence);
        w.u32(self.acknowledged);
        w.u8((TCP_HEADER_LEN as u8 / 4) << 4);
        w.u8(self.flags);
        w.u16(u16::MAX); // The largest window.
        w.u16(checksum);
        w.u16(0); // No urgent bytes.
    }
}

fn encode_ipv4(len: u16, source: Ipv4Addr, target: Ipv4Addr, w: &mut Writer<'_>) {
    let header = |checksum, out: &mut Vec<u8>| {
        let mut w = Writer::new(out, Order::Big);
        w.u16(0x4500); // Version 4, 20 bytes of header.
        w.u16(len);
        w.u16(0);
        w.u16(0x4000); // Do not fragment.
        w.u8(64);
        w.u8(TCP);
        w.u16(checksum);
        w.bytes(&source.octets());
        w.bytes(&target.octets());
    };
    let (mut unsummed, mut summed) = (Vec::new(), Vec::new());
    header(0, &mut unsummed);
    header(checksum(&[&unsummed]), &mut summed);
    w.bytes(&summed);
}

const TCP_HEADER_LEN: usize = 20;

/// Returns a locally administered address from the end of the IP address, so that nodes differ.
fn mac(ip: IpAddr) -> [u8; 6] {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            [2, 0, a, b, c, d]
        }
    }
}

/// Returns the Internet checksum of parts. All but the last must have even lengths.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u64::from(pair[0]) << 8 | u64::from(low);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_base::Time;

    fn segment<'a>(source: &str, target: &str, payload: &'a [u8]) -> Segment<'a> {
        let (source, target) = (source.parse().unwrap(), target.parse().unwrap());
        let flags = Segment::ACK | Segment::PSH;
        Segment { source, target, sequence: 7, acknowledged: 9, flags, payload }
    }

    fn of_bytes(link: LinkType, bytes: &[u8]) -> Option<Segment<'_>> {
        Segment::of_packet(&Packet { time: Time::ZERO, link, bytes })
    }

    #[test]
    fn both_families_are_decoded_without_the_padding_of_the_link() {
        for (source, target) in
            [("10.0.0.1:1023", "10.0.0.2:988"), ("[fd00::1]:1023", "[fd00::2]:988")]
        {
            for payload in [b"".as_slice(), b"odd", &[7; 65_000]] {
                let value = segment(source, target, payload);
                let mut frame = Vec::new();
                value.encode(&mut frame);
                frame.extend([0xee; 6]);
                assert_eq!(of_bytes(LinkType::ETHERNET, &frame), Some(value));
            }
        }
    }

    #[test]
    fn every_link_type_has_the_same_segment() {
        let value = segment("10.0.0.1:1023", "10.0.0.2:988", b"payload");
        let mut frame = Vec::new();
        value.encode(&mut frame);
        let ip = &frame[14..];
        assert_eq!(of_bytes(LinkType::RAW_IP, ip), Some(value));
        let cooked = [&[0; 14], [8, 0].as_slice(), ip].concat();
        assert_eq!(of_bytes(LinkType::LINUX_COOKED, &cooked), Some(value));
        let cooked = [[8, 0].as_slice(), &[0; 18], ip].concat();
        assert_eq!(of_bytes(LinkType::LINUX_COOKED_V2, &cooked), Some(value));
        assert_eq!(of_bytes(LinkType(147), &frame), None);
    }

    #[test]
    fn checksums_are_correct() {
        let mut frame = Vec::new();
        segment("10.0.0.1:1023", "10.0.0.2:988", b"payload").encode(&mut frame);
        assert_eq!(checksum(&[&frame[14..34]]), 0);
        let len = (frame.len() as u32 - 34).to_be_bytes();
        assert_eq!(checksum(&[&frame[26..34], &len, &[0, TCP], &frame[34..]]), 0);
    }

    #[test]
    fn other_packets_and_truncated_headers_have_no_segment() {
        let mut frame = Vec::new();
        segment("10.0.0.1:1023", "10.0.0.2:988", b"").encode(&mut frame);
        for len in 0..frame.len() {
            assert_eq!(of_bytes(LinkType::ETHERNET, &frame[..len]), None, "{len} bytes");
        }
        for (at, byte) in [(23, 17), (20, 0x20), (12, 9)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert_eq!(of_bytes(LinkType::ETHERNET, &other), None, "byte {at}");
        }
    }
}
