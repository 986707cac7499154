//! The checksum of version 2: CRC-32 without the final inversion (JAMCRC).
//!
//! On version 2 it covers frame header (with zero as the checksum), LNet header and payload; a peer
//! of version 3 or 4 that sends one covers only the payload. Spec: lnet-wire §6.5.

use fulmar_lnet_wire::socklnd::FrameHeader;

/// The state before the first byte.
pub const INITIAL: u32 = 0xffff_ffff;

/// Continues over `bytes`. The state after the last byte is the checksum.
pub fn update(state: u32, bytes: &[u8]) -> u32 {
    // The crate crc32fast uses finished checksums, which are inverted at start and end.
    let mut hasher = crc32fast::Hasher::new_with_initial(!state);
    hasher.update(bytes);
    !hasher.finalize()
}

/// Returns the checksum of a message whose head has zeros at [`FrameHeader::CHECKSUM`].
pub fn of(head: &[u8], payload: &[u8]) -> u32 {
    update(update(INITIAL, head), payload)
}

/// Returns the state after a received head, with its checksum counted as zero.
pub(crate) fn of_received_head(head: &[u8]) -> u32 {
    let state = update(INITIAL, &head[..FrameHeader::CHECKSUM.start]);
    let state = update(state, &[0; FrameHeader::CHECKSUM.end - FrameHeader::CHECKSUM.start]);
    update(state, &head[FrameHeader::CHECKSUM.end..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_wire::Order;

    #[test]
    fn known_values() {
        assert_eq!(of(b"123456789", b""), 0x340b_c6d9);
        assert_eq!(of(b"", b"LNETPUT!"), 0x5119_6033);
        let mut noop = Vec::new();
        FrameHeader::acknowledge(0x2a).encode(Order::Little, &mut noop);
        assert_eq!(of(&noop, b""), 0x5fed_449e);
        FrameHeader::set_checksum(&mut noop, 0x5fed_449e);
        assert_eq!(of_received_head(&noop), 0x5fed_449e);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let bytes: Vec<u8> = (0..=255).collect();
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(of(head, tail), update(INITIAL, &bytes));
        }
    }
}
