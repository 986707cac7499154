//! Checksums of the data of reads and writes. Spec: mdt-ost §18.2.
//!
//! ```text
//! CRC32, CRC32C     the usual choice; at memory speed, with instructions of the processor where there are some
//! ADLER             what a client uses if a target offers nothing else
//! T10IP, T10CRC     a guard for each sector of 512 or 4096 bytes, and Adler-32 of all guards
//! ```
//!
//! A [`Checksum`] gets the data in pieces of any length, in the order of the ranges, and never keeps
//! them: the owner of the bytes feeds it. Sectors begin at multiples of their size in the object,
//! and anew in each range. Clients and targets use the same code: a client sends the checksum of a
//! write with its request, a target that of a read with its reply.
#![forbid(unsafe_code)]

use adler2::Adler32;
use crc_fast::{CrcAlgorithm, Digest};
use fulmar_lustre_wire::ost::{ChecksumKind, Niobuf};

/// The checksum of data that come in pieces of any length, in order.
pub struct Checksum {
    state: State,
    /// What is left of each range: where, and how many bytes.
    ranges: Vec<(u64, u64)>,
    next: usize,
}

enum State {
    /// And whether the bits of the result are inverted once more.
    Crc(Box<Digest>, bool),
    Adler(Adler32),
    Sectors(Sectors),
}

/// Adler-32 of a guard for each sector.
struct Sectors {
    adler: Adler32,
    size: u64,
    guard: Guard,
    /// Whether the sector has bytes.
    begun: bool,
}

enum Guard {
    /// The sum of 16-bit words in the order of the network, and the first byte of the next one.
    Ip(u64, Option<u8>),
    Crc(Box<Digest>),
}

impl Checksum {
    /// Begins the checksum of the data of these ranges of an object; `None` if the kind is not known.
    pub fn new(kind: ChecksumKind, ranges: impl IntoIterator<Item = (u64, u64)>) -> Option<Self> {
        let crc = |algorithm, inverts| State::Crc(Box::new(Digest::new(algorithm)), inverts);
        let sectors = |size, guard| {
            State::Sectors(Sectors { adler: Adler32::new(), size, guard, begun: false })
        };
        let state = match kind {
            // Lustre's CRC-32 is not inverted at the end.
            ChecksumKind::CRC32 => crc(CrcAlgorithm::Crc32IsoHdlc, true),
            ChecksumKind::CRC32C => crc(CrcAlgorithm::Crc32Iscsi, false),
            ChecksumKind::ADLER => State::Adler(Adler32::new()),
            ChecksumKind::T10IP512 => sectors(512, Guard::Ip(0, None)),
            ChecksumKind::T10IP4K => sectors(4096, Guard::Ip(0, None)),
            ChecksumKind::T10CRC512 => sectors(512, Guard::crc()),
            ChecksumKind::T10CRC4K => sectors(4096, Guard::crc()),
            _ => return None,
        };
        let ranges = ranges.into_iter().filter(|(_, len)| *len > 0).collect();
        Some(Self { state, ranges, next: 0 })
    }

    /// Begins the checksum of the data of a write.
    pub fn of_write(kind: ChecksumKind, ranges: &[Niobuf]) -> Option<Self> {
        Self::new(kind, ranges.iter().map(|range| (range.offset, range.len.into())))
    }

    /// Adds the next data. What is behind the last range does not count.
    pub fn update(&mut self, mut data: &[u8]) {
        while let Some((offset, left)) = self.ranges.get_mut(self.next)
            && !data.is_empty()
        {
            let len = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
            let (now, later) = data.split_at(len);
            match &mut self.state {
                State::Crc(digest, _) => digest.update(now),
                State::Adler(adler) => adler.write_slice(now),
                State::Sectors(sectors) => sectors.update(*offset, now),
            }
            (*offset, *left, data) = (*offset + len as u64, *left - len as u64, later);
            if *left == 0 {
                self.next += 1;
                if let State::Sectors(sectors) = &mut self.state {
                    sectors.end();
                }
            }
        }
    }

    /// Returns the checksum.
    pub fn finish(mut self) -> u32 {
        if let State::Sectors(sectors) = &mut self.state {
            sectors.end();
        }
        match self.state {
            State::Crc(digest, inverts) => {
                let value = digest.finalize() as u32;
                if inverts { !value } else { value }
            }
            State::Adler(adler) => adler.checksum(),
            State::Sectors(sectors) => sectors.adler.checksum(),
        }
    }
}

impl Sectors {
    /// Adds data at an offset of the object.
    fn update(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let room = self.size - offset % self.size;
            let (now, later) = data.split_at((room as usize).min(data.len()));
            self.guard.update(now);
            self.begun = true;
            offset += now.len() as u64;
            data = later;
            if offset.is_multiple_of(self.size) {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.begun) {
            self.adler.write_slice(&self.guard.take());
        }
    }
}

impl Guard {
    fn crc() -> Self {
        Self::Crc(Box::new(Digest::new(CrcAlgorithm::Crc16T10Dif)))
    }

    fn update(&mut self, mut data: &[u8]) {
        match self {
            Self::Ip(sum, first) => {
                if let Some(high) = first.take() {
                    let Some((&low, rest)) = data.split_first() else {
                        *first = Some(high);
                        return;
                    };
                    *sum += word(high, low);
                    data = rest;
                }
                let (words, rest) = data.as_chunks::<2>();
                *sum += sum_of(words.as_flattened());
                *first = rest.first().copied();
            }
            Self::Crc(digest) => digest.update(data),
        }
    }

    /// Returns the guard as it is sent, and begins the next one.
    fn take(&mut self) -> [u8; 2] {
        let guard = match self {
            Self::Ip(sum, first) => {
                let mut sum = std::mem::take(sum) + word(first.take().unwrap_or(0), 0);
                while sum > 0xffff {
                    sum = (sum & 0xffff) + (sum >> 16);
                }
                !(sum as u16)
            }
            Self::Crc(digest) => {
                let guard = digest.finalize() as u16;
                digest.reset();
                guard
            }
        };
        [(guard >> 8) as u8, guard as u8]
    }
}

/// Returns the sum of the words of an even number of bytes.
fn sum_of(data: &[u8]) -> u64 {
    const LANES: usize = 32;
    /// So many bytes cannot overflow a lane: each adds at most 255.
    const PART: usize = 256 * LANES;
    let mut sum = 0;
    for part in data.chunks(PART) {
        // The compiler adds all lanes at once.
        let (rows, rest) = part.as_chunks::<LANES>();
        let mut lanes = [0u16; LANES];
        for row in rows {
            for (lane, byte) in lanes.iter_mut().zip(row) {
                *lane = lane.wrapping_add(u16::from(*byte));
            }
        }
        let (lanes, _) = lanes.as_chunks::<2>();
        sum += lanes.iter().map(|&[high, _]| u64::from(high) << 8).sum::<u64>();
        sum += lanes.iter().map(|&[_, low]| u64::from(low)).sum::<u64>();
        let (words, _) = rest.as_chunks::<2>();
        sum += words.iter().map(|&[high, low]| word(high, low)).sum::<u64>();
    }
    sum
}

fn word(high: u8, low: u8) -> u64 {
    u64::from(high) << 8 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: ChecksumKind, offset: u64, data: &[u8]) -> u32 {
        let mut whole = Checksum::new(kind, [(offset, data.len() as u64)]).unwrap();
        whole.update(data);
        let whole = whole.finish();
        for piece in [1, 7, 4096] {
            let mut parts = Checksum::new(kind, [(offset, data.len() as u64)]).unwrap();
            data.chunks(piece).for_each(|part| parts.update(part));
            assert_eq!(parts.finish(), whole, "{kind:?} in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn known_values() {
        let digits = b"123456789";
        assert_eq!(of(ChecksumKind::CRC32, 0, digits), !0xcbf4_3926);
        assert_eq!(of(ChecksumKind::CRC32C, 0, digits), 0xe306_9283);
        assert_eq!(of(ChecksumKind::ADLER, 0, digits), 0x091e_01de);
        // CRC-16/T10-DIF of the digits is d0db.
        let guards = adler2::adler32_slice(&[0xd0, 0xdb]);
        assert_eq!(of(ChecksumKind::T10CRC512, 0, digits), guards);
        assert_eq!(of(ChecksumKind::T10CRC4K, 4096, digits), guards);
    }

    #[test]
    fn sectors_begin_at_offsets_of_the_object_and_anew_in_each_range() {
        let data: Vec<u8> = (0..3000u32).map(|n| (n % 251) as u8).collect();
        for kind in [ChecksumKind::T10IP512, ChecksumKind::T10CRC512] {
            assert_ne!(of(kind, 0, &data), of(kind, 100, &data));
            let mut two = Checksum::new(kind, [(0, 700), (700, 2300)]).unwrap();
            two.update(&data);
            assert_ne!(two.finish(), of(kind, 0, &data));
        }
        assert!(Checksum::new(ChecksumKind::NONE, []).is_none());
    }

    #[test]
    fn large_sums_do_not_overflow() {
        let data = vec![0xff; 65_536 + 6];
        assert_eq!(sum_of(&data), 0xffff * (32_768 + 3));
        let rising: Vec<u8> = (0..40_000u32).map(|n| (n * 7 % 256) as u8).collect();
        let (words, _) = rising.as_chunks::<2>();
        assert_eq!(sum_of(&rising), words.iter().map(|&[high, low]| word(high, low)).sum::<u64>());
    }

    #[test]
    fn the_short_read_of_the_specification() {
        // mdt-ost §26.4.
        let mut page = b"one\n".to_vec();
        page.resize(4096, 0);
        assert_eq!(of(ChecksumKind::T10IP4K, 0, &page), 0x00df_00b3);
    }
}
