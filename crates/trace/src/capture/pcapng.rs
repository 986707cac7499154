//! The pcapng format: blocks, each with its length at the start and at the end.
//!
//! ```text
//! any block   0 kind u32  4 length u32  8 body, padded to 4  length-4 length u32
//! section     8 byte-order magic u32  12 major u16  14 minor u16  16 section length u64
//! interface   8 link type u16  10 reserved u16  12 snap length u32  16 options
//! packet      8 interface u32  12 time high u32  16 time low u32  20 captured u32
//!            24 original u32  28 bytes, padded to 4
//! option      0 code u16  2 length u16  4 value, padded to 4
//! ```
//!
//! Each section has its own byte order and its own interfaces.

use fulmar_base::Time;
use fulmar_wire::{DecodeError, Order, Reader, Writer};

use super::{Capture, CaptureError, LinkType, Packet};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The option with the unit of time of an interface.
const TIME_RESOLUTION: u16 = 9;
/// Kind, length, and length at the end.
const BLOCK_LEN_MIN: usize = 12;

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// The negative exponent of ten, or of two if the highest bit is set.
    resolution: u8,
}

impl Interface {
    fn time(self, units: u64) -> Time {
        let exponent = u32::from(self.resolution & 0x7f);
        let base: u128 = if self.resolution & 0x80 == 0 { 10 } else { 2 };
        let per_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
        let nanos = u128::from(units) * 1_000_000_000 / per_second;
        Time(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

pub(super) fn read(file: &[u8]) -> Result<Capture<'_>, CaptureError> {
    let mut capture = Capture::default();
    let mut order = Order::Little;
    let mut interfaces = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let offset = file.len() - rest.len();
        let damaged = |why| CaptureError::Damaged { offset, why };
        if rest.len() < BLOCK_LEN_MIN {
            capture.truncated = true;
            break;
        }
        if let Some(section) = section_order(rest).map_err(damaged)? {
            order = section;
            interfaces.clear();
        }
        let mut r = Reader::new(rest, order);
        let kind = r.u32("block.kind").map_err(damaged)?;
        let len = r.u32("block.length").map_err(damaged)?;
        if (len as usize) < BLOCK_LEN_MIN || !len.is_multiple_of(4) {
            return Err(damaged(DecodeError::Range { field: "block.length", got: len.into() }));
        }
        let Some((block, after)) = rest.split_at_checked(len as usize) else {
            capture.truncated = true;
            break;
        };
        rest = after;
        let body = Reader::new(&block[8..block.len() - 4], order);
        match kind {
            INTERFACE => interfaces.push(interface(body).map_err(damaged)?),
            PACKET => capture.packets.push(packet(body, &interfaces).map_err(damaged)?),
            // Statistics, names and the like; their length is all that matters.
            _ => {}
        }
    }
    Ok(capture)
}

/// Returns the byte order of a section header, or `None` for any other block.
fn section_order(block: &[u8]) -> Result<Option<Order>, DecodeError> {
    let mut r = Reader::new(block, Order::Little);
    // The same in both orders.
    if r.u32("block.kind")? != SECTION {
        return Ok(None);
    }
    r.u32("block.length")?;
    let mut magic = r;
    match Order::of_magic(r.array("section.magic")?, BYTE_ORDER_MAGIC) {
        Some(order) => Ok(Some(order)),
        None => Err(DecodeError::Magic { got: magic.u32("section.magic")? }),
    }
}

fn interface(mut r: Reader<'_>) -> Result<Interface, DecodeError> {
    let link = LinkType(r.u16("interface.link")?);
    r.take("interface.snap_length", 6)?;
    let mut interface = Interface { link, resolution: 6 };
    while !r.rest().is_empty() {
        let (code, len) = (r.u16("option.code")?, r.u16("option.length")?);
        let value = r.take("option.value", usize::from(len).next_multiple_of(4))?;
        match (code, value) {
            (0, _) => break,
            (TIME_RESOLUTION, [resolution, ..]) => interface.resolution = *resolution,
            _ => {}
        }
    }
    Ok(interface)
}

fn packet<'a>(mut r: Reader<'a>, interfaces: &[Interface]) -> Result<Packet<'a>, DecodeError> {
    let index = r.u32("packet.interface")?;
    let Some(interface) = interfaces.get(index as usize) else {
        return Err(DecodeError::Range { field: "packet.interface", got: index.into() });
    };
    let (high, low) = (r.u32("packet.time")?, r.u32("packet.time")?);
    let time = interface.time(u64::from(high) << 32 | u64::from(low));
    let captured = r.u32("packet.captured")?;
    r.u32("packet.original")?;
    let bytes = r.take("packet.bytes", captured as usize)?;
    Ok(Packet { time, link: interface.link, bytes })
}

/// Appends a section and its only interface: Ethernet, nanoseconds.
pub(crate) fn encode_file_header(out: &mut Vec<u8>) {
    let mut w = Writer::new(out, Order::Little);
    w.u32(SECTION);
    w.u32(28);
    w.u32(BYTE_ORDER_MAGIC);
    w.u16(1);
    w.u16(0);
    w.u64(u64::MAX); // The length of the section is unknown.
    w.u32(28);
    w.u32(INTERFACE);
    w.u32(32);
    w.u16(LinkType::ETHERNET.0);
    w.u16(0);
    w.u32(0); // Packets are complete.
    w.u16(TIME_RESOLUTION);
    w.u16(1);
    w.bytes(&[9, 0, 0, 0]);
    w.u32(0); // The end of the options.
    w.u32(32);
}

/// Appends a packet of the only interface.
pub(crate) fn encode_packet(time: Time, packet: &[u8], out: &mut Vec<u8>) {
    let padding = packet.len().next_multiple_of(4) - packet.len();
    let len = (32 + packet.len() + padding) as u32;
    let mut w = Writer::new(out, Order::Little);
    w.u32(PACKET);
    w.u32(len);
    w.u32(0);
    w.u32((time.0 >> 32) as u32);
    w.u32(time.0 as u32);
    w.u32(packet.len() as u32);
    w.u32(packet.len() as u32);
    w.bytes(packet);
    w.zeros(padding);
    w.u32(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        encode_file_header(&mut file);
        encode_packet(Time(1 << 40), &[1, 2, 3], &mut file);
        encode_packet(Time((1 << 40) + 1), &[4; 8], &mut file);
        file
    }

    #[test]
    fn written_files_can_be_read() {
        let file = file();
        let capture = read(&file).unwrap();
        let packet = |time, bytes| Packet { time: Time(time), link: LinkType::ETHERNET, bytes };
        let packets =
            vec![packet(1 << 40, [1, 2, 3].as_slice()), packet((1 << 40) + 1, [4; 8].as_slice())];
        assert_eq!(capture, Capture { packets, truncated: false });
    }

    #[test]
    fn a_killed_capture_is_read_up_to_its_end() {
        let file = file();
        for len in 1..file.len() {
            let Ok(capture) = read(&file[..len]) else { panic!("{len} bytes are an error") };
            let expected = usize::from(len >= 96) + usize::from(len >= 136);
            assert_eq!(capture.packets.len(), expected, "{len} bytes");
            assert_eq!(capture.truncated, ![28, 60, 96].contains(&len), "{len} bytes");
        }
    }

    #[test]
    fn a_big_endian_section_has_its_own_interfaces() {
        let mut bytes = file();
        let big = |w: &mut Writer<'_>| {
            w.u32(SECTION);
            w.u32(28);
            w.u32(BYTE_ORDER_MAGIC);
            w.u32(1 << 16);
            w.u64(u64::MAX);
            w.u32(28);
            w.u32(INTERFACE);
            w.u32(20);
            w.u16(LinkType::LINUX_COOKED.0);
            w.zeros(6);
            w.u32(20);
            w.u32(PACKET);
            w.u32(36);
            w.zeros(8);
            w.u32(7);
            w.u32(4);
            w.u32(4);
            w.bytes(b"abcd");
            w.u32(36);
        };
        big(&mut Writer::new(&mut bytes, Order::Big));
        let capture = read(&bytes).unwrap();
        assert_eq!(capture.packets.len(), 3);
        let (time, link) = (Time(7_000), LinkType::LINUX_COOKED);
        assert_eq!(capture.packets[2], Packet { time, link, bytes: b"abcd" });
    }

    #[test]
    fn damage_is_reported_with_its_place() {
        let mut damaged = file();
        damaged[64] = 13;
        let error = read(&damaged).unwrap_err().to_string();
        assert_eq!(error, "the capture is damaged at byte 60: block.length may not be 0xd");
        let mut damaged = file();
        damaged[68] = 1;
        let error = read(&damaged).unwrap_err().to_string();
        assert_eq!(error, "the capture is damaged at byte 60: packet.interface may not be 0x1");
    }

    #[test]
    fn any_resolution_of_time_is_understood() {
        let time =
            |resolution, units| Interface { link: LinkType::ETHERNET, resolution }.time(units);
        assert_eq!(time(6, 3), Time(3_000));
        assert_eq!(time(0, 3), Time::from_secs(3));
        assert_eq!(time(0x80 | 10, 1024), Time::from_secs(1));
        assert_eq!(time(127, u64::MAX), Time::ZERO);
        assert_eq!(time(0, u64::MAX), Time::MAX);
    }
}
