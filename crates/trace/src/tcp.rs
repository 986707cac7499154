//! Connections from segments: bytes in the order of sending.
//!
//! Segments may be repeated (captured on two interfaces, or retransmitted), overlap, or be
//! reordered. The bytes before a gap in the capture are kept; those after it are lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fulmar_base::Time;
use fulmar_lnet_wire::socklnd::ACCEPT_PORT;

use crate::capture::Capture;
use crate::segment::Segment;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Sent by the connecting side.
    FromActive,
    /// Sent by the accepting side.
    FromPassive,
}

impl Direction {
    /// Returns the opposite direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::FromActive => Self::FromPassive,
            Self::FromPassive => Self::FromActive,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// How much of the start of a connection was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// All of it.
    Handshake,
    /// A SYN without an answer.
    Attempt,
    /// Nothing: it is older than the capture.
    Earlier,
}

/// Bytes of one direction that one packet completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The time of the packet.
    pub time: Time,
    /// Their direction.
    pub direction: Direction,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// One direction of a connection was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The time.
    pub time: Time,
    /// The direction whose sender ended it.
    pub direction: Direction,
    /// Whether by RST rather than by FIN.
    pub reset: bool,
}

/// One TCP connection, or an attempt at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The connecting side.
    pub active: SocketAddr,
    /// The accepting side.
    pub passive: SocketAddr,
    /// How much of the start was captured.
    pub start: Start,
    /// The time of the first packet.
    pub opened: Time,
    /// The bytes of both directions, in the order of time. No chunk is empty.
    pub chunks: Vec<Chunk<'a>>,
    /// The ends of its directions: one FIN of each direction, and one RST of each.
    pub ends: Vec<End>,
    streams: [Stream<'a>; 2],
}

impl<'a> Connection<'a> {
    fn new(active: SocketAddr, passive: SocketAddr, start: Start, opened: Time) -> Self {
        let (chunks, ends, streams) = (Vec::new(), Vec::new(), Default::default());
        Self { active, passive, start, opened, chunks, ends, streams }
    }

    /// Returns the sender of one direction.
    pub fn sender(&self, direction: Direction) -> SocketAddr {
        match direction {
            Direction::FromActive => self.active,
            Direction::FromPassive => self.passive,
        }
    }

    /// Returns whether bytes of the direction are lost because they follow a gap.
    pub fn has_gap(&self, direction: Direction) -> bool {
        !self.streams[direction.index()].waiting.is_empty()
    }

    fn direction(&self, segment: &Segment<'_>) -> Direction {
        if segment.source == self.active { Direction::FromActive } else { Direction::FromPassive }
    }

    /// Returns whether this SYN is a repetition of the one that opened the connection.
    fn was_opened_by(&self, segment: &Segment<'_>) -> bool {
        let stream = &self.streams[self.direction(segment).index()];
        stream.first == Some(segment.sequence.wrapping_add(1)) && self.start != Start::Earlier
    }

    fn handle_segment(&mut self, time: Time, segment: &Segment<'a>) {
        let direction = self.direction(segment);
        let stream = &mut self.streams[direction.index()];
        if segment.has(Segment::SYN) {
            stream.begin(segment.sequence.wrapping_add(1));
            if segment.has(Segment::ACK) {
                self.streams[direction.reverse().index()].begin(segment.acknowledged);
                self.start = Start::Handshake;
            }
            return;
        }
        if !segment.payload.is_empty() {
            let chunks = &mut self.chunks;
            stream.handle_bytes(segment.sequence, segment.payload, |bytes| {
                chunks.push(Chunk { time, direction, bytes });
            });
            if self.start == Start::Attempt {
                self.start = Start::Handshake;
            }
        }
        for (flag, reset) in [(Segment::FIN, false), (Segment::RST, true)] {
            let same = |end: &End| end.direction == direction && end.reset == reset;
            if segment.has(flag) && !self.ends.iter().any(same) {
                self.ends.push(End { time, direction, reset });
            }
        }
    }
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stream<'a> {
    /// The sequence number of the first byte, if known.
    first: Option<u32>,
    /// The number of delivered bytes.
    delivered: u64,
    /// Segments after a gap, by the position of their first byte.
    waiting: BTreeMap<u64, &'a [u8]>,
}

impl<'a> Stream<'a> {
    fn begin(&mut self, sequence: u32) {
        self.first.get_or_insert(sequence);
    }

    fn handle_bytes(&mut self, sequence: u32, bytes: &'a [u8], mut deliver: impl FnMut(&'a [u8])) {
        let first = *self.first.get_or_insert(sequence);
        let next = first.wrapping_add(self.delivered as u32);
        // Sequence numbers wrap around: a very large distance is negative.
        let ahead = i64::from(sequence.wrapping_sub(next) as i32);
        let position = self.delivered as i64 + ahead;
        let (position, bytes) = match u64::try_from(position) {
            Ok(position) => (position, bytes),
            // Bytes before the first known one.
            Err(_) => (0, bytes.get(position.unsigned_abs() as usize..).unwrap_or_default()),
        };
        if bytes.is_empty() {
            return;
        }
        let kept = self.waiting.entry(position).or_insert(bytes);
        if kept.len() < bytes.len() {
            *kept = bytes;
        }
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > self.delivered {
                break;
            }
            let (position, bytes) = entry.remove_entry();
            let known = usize::try_from(self.delivered - position).unwrap_or(usize::MAX);
            if let Some(news) = bytes.get(known..).filter(|news| !news.is_empty()) {
                self.delivered += news.len() as u64;
                deliver(news);
            }
        }
    }
}

/// Every TCP connection of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// The connections in the order of their first packets.
    pub connections: Vec<Connection<'a>>,
}

impl<'a> Conversation<'a> {
    /// Assembles the segments of a capture.
    pub fn of(capture: &Capture<'a>) -> Self {
        let mut this = Self::default();
        // Ports are reused: segments belong to the latest connection of a pair.
        let mut latest = BTreeMap::new();
        for packet in &capture.packets {
            let Some(segment) = Segment::of_packet(packet) else { continue };
            let pair = [segment.source.min(segment.target), segment.source.max(segment.target)];
            let known = latest.get(&pair).copied();
            let known = known.filter(|&at: &usize| !opens_another(&segment, &this.connections[at]));
            let index = known.unwrap_or_else(|| {
                this.connections.push(begin(&segment, packet.time));
                this.connections.len() - 1
            });
            latest.insert(pair, index);
            this.connections[index].handle_segment(packet.time, &segment);
        }
        this
    }
}

/// Returns whether the segment belongs to a later connection than `known` between the same ports.
fn opens_another(segment: &Segment<'_>, known: &Connection<'_>) -> bool {
    let unanswered = known.streams[Direction::FromPassive.index()].first.is_none();
    let answers = segment.source == known.passive && known.start != Start::Earlier && unanswered;
    segment.has(Segment::SYN)
        && !known.was_opened_by(segment)
        && !(segment.has(Segment::ACK) && answers)
}

/// Returns the connection to which its first captured segment belongs.
fn begin<'a>(segment: &Segment<'a>, time: Time) -> Connection<'a> {
    let syn = segment.has(Segment::SYN);
    let from_passive = if syn {
        segment.has(Segment::ACK)
    } else {
        // LNet listens on one port. Otherwise the first sender is assumed to be the connecting
        // side.
        segment.source.port() == ACCEPT_PORT && segment.target.port() != ACCEPT_PORT
    };
    let (active, passive) = if from_passive {
        (segment.target, segment.source)
    } else {
        (segment.source, segment.target)
    };
    let start = if syn { Start::Attempt } else { Start::Earlier };
    Connection::new(active, passive, start, time)
}

#[cfg(test)]
mod tests;
