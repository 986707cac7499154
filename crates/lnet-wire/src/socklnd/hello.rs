//! The hello: the first message of each side, after the acceptor's request.
//!
//! ```text
//! version 2, 3   0 magic  4 version  8 source u64  16 target u64  24 source pid  28 target pid
//!  56 bytes     32 source incarnation u64  40 target incarnation u64  48 kind  52 ip count  56 ips
//! version 4      0 magic  4 version  8 source [20]  28 target [20]  48 source pid  52 target pid
//!  80 bytes     56 source incarnation u64  64 target incarnation u64  72 kind  76 ip count
//! version 1      0 magic  4 major u16  6 minor u16  8 source u64  16 target pid  20 source pid
//!  72 bytes     24 type = HELLO  28 4 * ip count  32 incarnation u64  40 kind  44 zero  72 ips
//! ```
//!
//! Versions 2 to 4 are in the sender's byte order, which follows from the magic; version 1 is
//! little-endian and has no target NID. Spec: lnet-wire §4.

use fulmar_wire::{DecodeError, Order, Reader, Writer, wire_enum};

use crate::header::{HeaderForm, MessageType};
use crate::nid::{Nid, Pid, ProcessId};

wire_enum! {
    /// The type of a connection, as the sender of the hello sees it.
    #[doc(alias = "kshm_ctype")]
    pub struct ConnKind(u32) {
        /// Everything; nodes of version 3 and later send nothing on it.
        ANY = 0,
        /// Small messages, in both directions.
        CONTROL = 1,
        /// Large messages to the sender of the hello.
        BULK_IN = 2,
        /// Large messages from the sender of the hello.
        BULK_OUT = 3,
        /// No connection: try again later, or in another version.
        NONE = 0xffff_ffff,
    }
}

impl ConnKind {
    /// Returns the type that the remote side sees, if this type is known.
    pub fn mirror(self) -> Option<Self> {
        match self {
            Self::ANY | Self::CONTROL => Some(self),
            Self::BULK_IN => Some(Self::BULK_OUT),
            Self::BULK_OUT => Some(Self::BULK_IN),
            _ => None,
        }
    }
}

/// A version of the socklnd protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// LNet headers without frames. Always little-endian.
    V1,
    /// Frames, checksums, zero-copy acknowledgements.
    V2,
    /// Keepalives and ranges of cookies.
    V3,
    /// Large NIDs.
    V4,
}

impl Version {
    /// Returns the form of LNet headers in this version.
    pub fn header_form(self) -> HeaderForm {
        match self {
            Self::V1 | Self::V2 | Self::V3 => HeaderForm::Small,
            Self::V4 => HeaderForm::Large,
        }
    }

    /// Returns the version's number.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4 => 4,
        }
    }

    fn framed(number: u32) -> Result<Self, DecodeError> {
        match number {
            2 => Ok(Self::V2),
            3 => Ok(Self::V3),
            4 => Ok(Self::V4),
            got => Err(DecodeError::Version { got }),
        }
    }
}

/// A decoded hello. Any value whose NIDs fit its version can be encoded.
#[doc(alias = "ksock_hello_msg")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the connection, if the remote side agrees.
    pub version: Version,
    /// The sender.
    pub source: ProcessId,
    /// The receiver; it is not checked, and version 1 has no NID here ([`Nid::ANY`]).
    pub target: ProcessId,
    /// The incarnation of the sender's interface: different after each start.
    pub source_incarnation: u64,
    /// Sent as 0 and ignored.
    pub target_incarnation: u64,
    /// The type of the connection, as the sender sees it.
    pub kind: ConnKind,
    /// Obsolete: further addresses of the sender. Decoded with a bound, and not used.
    pub ips: Vec<u32>,
}

impl Hello {
    /// The magic number of versions 2 to 4, and of the acceptor's refusal.
    #[doc(alias = "LNET_PROTO_MAGIC")]
    pub const MAGIC: u32 = 0x4572_6963;
    /// The magic number of version 1.
    #[doc(alias = "LNET_PROTO_TCP_MAGIC")]
    pub const MAGIC_V1: u32 = 0xeebc_0ded;
    /// The most addresses that a peer may list.
    #[doc(alias = "LNET_INTERFACES_NUM")]
    pub const IPS_MAX: usize = 16;
    /// The length of the longest accepted hello in bytes: version 1 with all addresses.
    pub const LEN_MAX: usize = 72 + 4 * Self::IPS_MAX;

    /// Decodes a hello at the start of `bytes`.
    ///
    /// Returns `Ok(None)` while bytes are missing; then the hello, the peer's byte order, and the
    /// length in bytes. An unknown version is reported before the rest arrives.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, Order, usize)>, DecodeError> {
        let Some((magic, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let (order, framed) = match Order::of_magic(*magic, Self::MAGIC) {
            Some(order) => (order, true),
            None if u32::from_le_bytes(*magic) == Self::MAGIC_V1 => (Order::Little, false),
            None => return Err(DecodeError::Magic { got: u32::from_le_bytes(*magic) }),
        };
        let mut r = Reader::new(rest, order);
        let decoded = if framed { Self::decode_framed(&mut r) } else { Self::decode_v1(&mut r) };
        match decoded {
            Ok(hello) => Ok(Some((hello, order, bytes.len() - r.rest().len()))),
            Err(DecodeError::Short { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends the hello, in `order`, to `out`. Version 1 is always little-endian.
    pub fn encode(&self, order: Order, out: &mut Vec<u8>) {
        if self.version == Version::V1 {
            return self.encode_v1(out);
        }
        let mut w = Writer::new(out, order);
        w.u32(Self::MAGIC);
        w.u32(self.version.number());
        if self.version == Version::V4 {
            self.source.nid.encode_large(&mut w);
            self.target.nid.encode_large(&mut w);
        } else {
            self.source.nid.encode_small(&mut w);
            self.target.nid.encode_small(&mut w);
        }
        w.u32(self.source.pid.0);
        w.u32(self.target.pid.0);
        w.u64(self.source_incarnation);
        w.u64(self.target_incarnation);
        w.u32(self.kind.0);
        self.encode_ips(&mut w, 1);
    }

    fn decode_framed(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = Version::framed(r.u32("hello.version")?)?;
        let nid = match version {
            Version::V4 => Nid::decode_large,
            _ => Nid::decode_small,
        };
        let (source_nid, target_nid) = (nid(r, "hello.source")?, nid(r, "hello.target")?);
        let source = ProcessId { nid: source_nid, pid: Pid(r.u32("hello.source_pid")?) };
        let target = ProcessId { nid: target_nid, pid: Pid(r.u32("hello.target_pid")?) };
        let source_incarnation = r.u64("hello.source_incarnation")?;
        let target_incarnation = r.u64("hello.target_incarnation")?;
        let kind = ConnKind(r.u32("hello.kind")?);
        let count = r.u32("hello.ip_count")?;
        let ips = decode_ips(r, count, if version == Version::V4 { 0 } else { Self::IPS_MAX })?;
        Ok(Self { version, source, target, source_incarnation, target_incarnation, kind, ips })
    }

    fn decode_v1(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (major, minor) = (r.u16("hello.major")?, r.u16("hello.minor")?);
        if (major, minor) != (1, 0) {
            return Err(DecodeError::Version { got: major.into() });
        }
        let nid = Nid::decode_small(r, "hello.source")?;
        let target = ProcessId { nid: Nid::ANY, pid: Pid(r.u32("hello.target_pid")?) };
        let source = ProcessId { nid, pid: Pid(r.u32("hello.source_pid")?) };
        let kind = r.u32("hello.type")?;
        if kind != MessageType::HELLO.0 {
            return Err(DecodeError::Range { field: "hello.type", got: kind.into() });
        }
        let payload = r.u32("hello.payload_length")?;
        if payload % 4 != 0 {
            return Err(DecodeError::Range { field: "hello.payload_length", got: payload.into() });
        }
        let source_incarnation = r.u64("hello.incarnation")?;
        let kind = ConnKind(r.u32("hello.kind")?);
        r.take("hello.body", 28)?;
        let ips = decode_ips(r, payload / 4, Self::IPS_MAX)?;
        let (version, target_incarnation) = (Version::V1, 0);
        Ok(Self { version, source, target, source_incarnation, target_incarnation, kind, ips })
    }

    fn encode_v1(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out, Order::Little);
        w.u32(Self::MAGIC_V1);
        w.u16(1);
        w.u16(0);
        self.source.nid.encode_small(&mut w);
        w.u32(self.target.pid.0);
        w.u32(self.source.pid.0);
        w.u32(MessageType::HELLO.0);
        w.u32(4 * self.ips.len() as u32);
        w.u64(self.source_incarnation);
        w.u32(self.kind.0);
        w.zeros(28);
        self.ips.iter().for_each(|&ip| w.u32(ip));
    }

    fn encode_ips(&self, w: &mut Writer<'_>, unit: u32) {
        w.u32(unit * self.ips.len() as u32);
        self.ips.iter().for_each(|&ip| w.u32(ip));
    }
}

fn decode_ips(r: &mut Reader<'_>, count: u32, max: usize) -> Result<Vec<u32>, DecodeError> {
    if count as usize > max {
        return Err(DecodeError::Range { field: "hello.ip_count", got: count.into() });
    }
    let ips = (0..count).map(|_| r.u32("hello.ip")).collect::<Result<Vec<_>, _>>()?;
    if ips.contains(&0) {
        return Err(DecodeError::Range { field: "hello.ip", got: 0 });
    }
    Ok(ips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_wire::testing::hex;

    fn check(text: &str) -> Hello {
        let bytes = hex(text);
        let (hello, order, used) = Hello::decode(&bytes).unwrap().unwrap();
        assert_eq!((order, used), (Order::Little, bytes.len()));
        let mut again = Vec::new();
        hello.encode(order, &mut again);
        assert_eq!(again, bytes);
        for len in 0..bytes.len() {
            assert_eq!(Hello::decode(&bytes[..len]), Ok(None), "{len} bytes");
        }
        hello
    }

    #[test]
    fn version_3() {
        let hello = check(
            "63 69 72 45 03 00 00 00 01 00 00 0a 00 00 02 00
             02 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00
             15 4d fb 3c 08 b3 cc 18 00 00 00 00 00 00 00 00
             01 00 00 00 00 00 00 00",
        );
        assert_eq!(hello.version, Version::V3);
        assert_eq!(hello.source_incarnation, 1_787_000_000_123_456_789);
        assert_eq!(hello.kind, ConnKind::CONTROL);
    }

    #[test]
    fn version_4() {
        let hello = check(
            "63 69 72 45 04 00 00 00 0c 02 00 00 20 01 0d b8
             00 00 00 00 00 00 00 00 00 00 00 01 0c 02 00 00
             20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02
             39 30 00 00 00 00 00 00 15 4d fb 3c 08 b3 cc 18
             00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00",
        );
        assert_eq!(hello.source.nid.ip(), Some("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn version_1() {
        let hello = check(
            "ed 0d bc ee 01 00 00 00 01 00 00 0a 00 00 02 00
             00 00 00 00 39 30 00 00 04 00 00 00 00 00 00 00
             15 4d fb 3c 08 b3 cc 18 01 00 00 00 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
        );
        assert_eq!(hello.version, Version::V1);
    }

    #[test]
    fn listed_addresses_are_consumed_and_limited() {
        let mut hello = check(
            "63 69 72 45 02 00 00 00 01 00 00 0a 00 00 02 00
             02 00 00 0a 00 00 02 00 39 30 00 00 00 00 00 00
             15 4d fb 3c 08 b3 cc 18 00 00 00 00 00 00 00 00
             03 00 00 00 02 00 00 00 01 00 00 0a 01 01 00 0a",
        );
        assert_eq!(hello.ips, [0x0a00_0001, 0x0a00_0101]);
        hello.ips = vec![1; 17];
        let mut bytes = Vec::new();
        hello.encode(Order::Little, &mut bytes);
        let error = DecodeError::Range { field: "hello.ip_count", got: 17 };
        assert_eq!(Hello::decode(&bytes), Err(error));
        hello.ips = vec![7, 0];
        bytes.clear();
        hello.encode(Order::Little, &mut bytes);
        let error = DecodeError::Range { field: "hello.ip", got: 0 };
        assert_eq!(Hello::decode(&bytes), Err(error));
    }

    #[test]
    fn an_unknown_version_is_reported_at_once() {
        let bytes = hex("63 69 72 45 09 00 00 00");
        assert_eq!(Hello::decode(&bytes), Err(DecodeError::Version { got: 9 }));
        let swapped = hex("45 72 69 63 00 00 00 09");
        assert_eq!(Hello::decode(&swapped), Err(DecodeError::Version { got: 9 }));
    }
}
