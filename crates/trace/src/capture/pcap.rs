//! The pcap format, which `tcpdump` writes.
//!
//! ```text
//! file     0 magic u32  4 version u32  8 unused u64  16 snap length u32  20 link type u32
//! packet   0 seconds u32  4 fraction u32  8 captured u32  12 original u32  16 bytes
//! ```
//!
//! The magic determines the byte order and the unit of the fraction.

use fulmar_base::Time;
use fulmar_wire::{DecodeError, Order, Reader};

use super::{Capture, CaptureError, LinkType, Packet};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

pub(super) fn read(file: &[u8]) -> Result<Capture<'_>, CaptureError> {
    let Some(magic) = file.first_chunk() else { return Err(CaptureError::Unknown) };
    let known = [(MICROSECONDS, 1000), (NANOSECONDS, 1)];
    let found = known
        .into_iter()
        .find_map(|(number, nanos)| Order::of_magic(*magic, number).map(|order| (order, nanos)));
    let Some((order, nanos)) = found else { return Err(CaptureError::Unknown) };
    let mut r = Reader::new(file, order);
    let damaged = |why| CaptureError::Damaged { offset: 0, why };
    r.take("file.header", 20).map_err(damaged)?;
    // The upper half has flags.
    let link = LinkType(r.u32("file.link").map_err(damaged)? as u16);
    let mut capture = Capture::default();
    while !r.rest().is_empty() {
        match packet(&mut r, link, nanos) {
            Ok(packet) => capture.packets.push(packet),
            Err(_) => {
                capture.truncated = true;
                break;
            }
        }
    }
    Ok(capture)
}

fn packet<'a>(r: &mut Reader<'a>, link: LinkType, nanos: u64) -> Result<Packet<'a>, DecodeError> {
    let (seconds, fraction) = (r.u32("packet.seconds")?, r.u32("packet.fraction")?);
    let captured = r.u32("packet.captured")?;
    r.u32("packet.original")?;
    let bytes = r.take("packet.bytes", captured as usize)?;
    let time = Time(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * nanos);
    Ok(Packet { time, link, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_wire::Writer;

    fn file(order: Order, magic: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut w = Writer::new(&mut file, order);
        w.u32(magic);
        w.zeros(16);
        w.u32(1);
        for number in [2, 3, 5, 99] {
            w.u32(number);
        }
        w.bytes(b"bytes");
        file
    }

    #[test]
    fn both_orders_and_both_units_are_understood() {
        for order in [Order::Little, Order::Big] {
            for (magic, fraction) in [(MICROSECONDS, 3_000), (NANOSECONDS, 3)] {
                let file = file(order, magic);
                let capture = Capture::read(&file).unwrap();
                let time = Time(2_000_000_000 + fraction);
                let packet = Packet { time, link: LinkType::ETHERNET, bytes: b"bytes" };
                assert_eq!(capture, Capture { packets: vec![packet], truncated: false });
            }
        }
    }

    #[test]
    fn the_error_for_other_files_says_how_to_capture() {
        for file in [b"".as_slice(), b"abc", b"something else"] {
            let error = Capture::read(file).unwrap_err().to_string();
            assert!(error.contains("tcpdump -w"), "{error}");
        }
        let whole = file(Order::Little, NANOSECONDS);
        assert!(Capture::read(&whole[..23]).is_err());
        for len in 25..whole.len() {
            let capture = Capture::read(&whole[..len]).unwrap();
            assert_eq!(capture, Capture { packets: vec![], truncated: true });
        }
    }
}
