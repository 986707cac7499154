//! Capture files: the packets in them, whatever wrote them.

use fulmar_base::Time;
use fulmar_wire::DecodeError;
use thiserror::Error;

mod pcap;
mod pcapng;

pub(crate) use pcapng::{encode_file_header, encode_packet};

/// What precedes the IP header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet; also the Linux loopback.
    pub const ETHERNET: Self = Self(1);
    /// Nothing.
    pub const RAW_IP: Self = Self(101);
    /// 16 bytes of Linux: captured on the interface `any`.
    pub const LINUX_COOKED: Self = Self(113);
    /// 20 bytes of Linux: captured on the interface `any`, later.
    pub const LINUX_COOKED_V2: Self = Self(276);
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When, in nanoseconds of the capturing host's wall clock.
    pub time: Time,
    /// What the packet begins with.
    pub link: LinkType,
    /// The packet, as far as it was captured.
    pub bytes: &'a [u8],
}

/// The packets of a capture file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture<'a> {
    /// The packets.
    pub packets: Vec<Packet<'a>>,
    /// Whether the file ends inside a packet, as that of a killed capture does.
    pub truncated: bool,
}

impl<'a> Capture<'a> {
    /// Reads a pcapng or a pcap file of either byte order. Compressed ones go through
    /// [`decompress`](crate::decompress) first.
    pub fn read(file: &'a [u8]) -> Result<Self, CaptureError> {
        match file {
            [0x0a, 0x0d, 0x0d, 0x0a, ..] => pcapng::read(file),
            _ => pcap::read(file),
        }
    }
}

/// Why a file is no capture that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum CaptureError {
    /// It is something else.
    #[error(
        "this is neither a pcapng nor a pcap file: capture with \"tcpdump -w FILE port 988\", or \
         convert with \"editcap -F pcapng IN OUT\""
    )]
    Unknown,
    /// A block's length contradicts its content or the file.
    #[error("the capture is damaged at byte {offset}: {why}")]
    Damaged { offset: usize, why: DecodeError },
    /// It does not decompress.
    #[error("the file does not decompress ({why}): was it copied whole?")]
    Gzip { why: String },
    /// It decompresses to too much.
    #[error("the file decompresses to more than {max} bytes: cut it with \"editcap -c\"")]
    TooLarge { max: u64 },
}
