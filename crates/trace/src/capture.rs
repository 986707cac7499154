//! Capture files and their packets.

use fulmar_base::Time;
use fulmar_wire::DecodeError;
use thiserror::Error;

mod pcap;
mod pcapng;

pub(crate) use pcapng::{encode_file_header, encode_packet};

/// The link layer of a packet, which precedes the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet; also the Linux loopback.
    pub const ETHERNET: Self = Self(1);
    /// No link layer.
    pub const RAW_IP: Self = Self(101);
    /// Linux, 16 bytes: captured on the interface `any`.
    pub const LINUX_COOKED: Self = Self(113);
    /// Linux, 20 bytes: captured on the interface `any`, by newer programs.
    pub const LINUX_COOKED_V2: Self = Self(276);
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds of the capturing host's wall clock.
    pub time: Time,
    /// The link layer.
    pub link: LinkType,
    /// The packet, as far as it was captured.
    pub bytes: &'a [u8],
}

/// The packets of a capture file, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture<'a> {
    /// The packets.
    pub packets: Vec<Packet<'a>>,
    /// Whether the file ends inside a packet, because the capture was killed.
    pub truncated: bool,
}

impl<'a> Capture<'a> {
    /// Parses a pcapng or a pcap file of either byte order. Compressed files need
    /// [`decompress`](crate::decompress) first.
    pub fn read(file: &'a [u8]) -> Result<Self, CaptureError> {
        match file {
            [0x0a, 0x0d, 0x0d, 0x0a, ..] => pcapng::read(file),
            _ => pcap::read(file),
        }
    }
}

/// Why a capture file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum CaptureError {
    /// The format is unknown.
    #[error(
        "this is neither a pcapng nor a pcap file: capture with \"tcpdump -w FILE port 988\", or \
         convert with \"editcap -F pcapng IN OUT\""
    )]
    Unknown,
    /// The length of a block contradicts its content or the file.
    #[error("the capture is damaged at byte {offset}: {why}")]
    Damaged { offset: usize, why: DecodeError },
    /// The file does not decompress.
    #[error("the file does not decompress ({why}): is the copy complete?")]
    Gzip { why: String },
    /// The decompressed file is too large.
    #[error("the file decompresses to more than {max} bytes: cut it with \"editcap -c\"")]
    TooLarge { max: u64 },
}
