//! Writes captures: connections in, packets out.
//!
//! The packets are those of an ideal network: no loss, and acknowledgements only with the data of
//! the other side.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fulmar_base::Time;

use crate::capture::{encode_file_header, encode_packet};
use crate::segment::Segment;
use crate::tcp::Direction;

/// A connection in a capture that is being written. Unique in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// Writes a pcapng file of TCP connections. Times should not decrease.
#[derive(Clone, Debug)]
pub struct CaptureWriter {
    out: Vec<u8>,
    flows: BTreeMap<FlowId, Flow>,
    /// The number of connections so far.
    calls: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    ends: [SocketAddr; 2],
    /// The sequence number of the next byte of each side.
    next: [u32; 2],
    closed: [bool; 2],
}

/// The most payload bytes of a packet, which with its headers must stay below 64 KiB.
const SEGMENT_MAX: usize = 65_000;
const SYN_ACK: u8 = Segment::SYN | Segment::ACK;

impl Default for CaptureWriter {
    fn default() -> Self {
        let mut out = Vec::new();
        encode_file_header(&mut out);
        Self { out, flows: BTreeMap::new(), calls: 0 }
    }
}

impl CaptureWriter {
    /// Starts a capture.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the part of the file that was written since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Writes a connection from `active` to `passive`.
    ///
    /// # Panics
    /// If one address is IPv4 and the other IPv6.
    pub fn open(&mut self, now: Time, active: SocketAddr, passive: SocketAddr) -> FlowId {
        let (id, mut flow) = self.call(active, passive);
        flow.write(now, Direction::FromActive, Segment::SYN, &[], &mut self.out);
        flow.write(now, Direction::FromPassive, SYN_ACK, &[], &mut self.out);
        flow.write(now, Direction::FromActive, Segment::ACK, &[], &mut self.out);
        self.flows.insert(id, flow);
        id
    }

    /// Writes a refused connection from `active` to `passive`.
    ///
    /// # Panics
    /// If one address is IPv4 and the other IPv6.
    pub fn refuse(&mut self, now: Time, active: SocketAddr, passive: SocketAddr) {
        let (_, mut flow) = self.call(active, passive);
        flow.write(now, Direction::FromActive, Segment::SYN, &[], &mut self.out);
        let flags = Segment::RST | Segment::ACK;
        flow.write(now, Direction::FromPassive, flags, &[], &mut self.out);
    }

    /// Writes bytes that one side sent.
    ///
    /// # Panics
    /// If that side has closed the connection.
    pub fn send(&mut self, now: Time, id: FlowId, direction: Direction, bytes: &[u8]) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| !flow.closed[direction.index()])
        else {
            panic!("{id:?} is closed {direction:?}");
        };
        for bytes in bytes.chunks(SEGMENT_MAX) {
            let flags = Segment::ACK | Segment::PSH;
            flow.write(now, direction, flags, bytes, &mut self.out);
        }
    }

    /// Writes that one side closed its direction. Repetition has no effect.
    pub fn close(&mut self, now: Time, id: FlowId, direction: Direction) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        if !flow.closed[direction.index()] {
            flow.write(now, direction, Segment::FIN | Segment::ACK, &[], &mut self.out);
            flow.closed[direction.index()] = true;
        }
        if flow.closed == [true; 2] {
            self.flows.remove(&id);
        }
    }

    /// Writes that one side reset the connection, which ends both directions.
    pub fn reset(&mut self, now: Time, id: FlowId, direction: Direction) {
        let Some(mut flow) = self.flows.remove(&id) else { return };
        flow.write(now, direction, Segment::RST | Segment::ACK, &[], &mut self.out);
    }

    fn call(&mut self, active: SocketAddr, passive: SocketAddr) -> (FlowId, Flow) {
        let id = FlowId(self.calls);
        self.calls += 1;
        // Sequence numbers differ strongly between connections, so that a new one between the same
        // ports is not mistaken for a repetition.
        let first = (id.0 as u32).wrapping_mul(0x9e37_79b9);
        (id, Flow { ends: [active, passive], next: [first; 2], closed: [false; 2] })
    }
}

impl Flow {
    fn write(
        &mut self,
        now: Time,
        direction: Direction,
        flags: u8,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        let (from, to) = (direction.index(), direction.reverse().index());
        let (source, target) = (self.ends[from], self.ends[to]);
        let sequence = self.next[from];
        let acknowledged = if flags & Segment::ACK == 0 { 0 } else { self.next[to] };
        let mut frame = Vec::new();
        Segment { source, target, sequence, acknowledged, flags, payload }.encode(&mut frame);
        encode_packet(now, &frame, out);
        // SYN and FIN count as one byte.
        let one = u32::from(flags & (Segment::SYN | Segment::FIN) != 0);
        self.next[from] = sequence.wrapping_add(payload.len() as u32).wrapping_add(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use crate::tcp::{Conversation, Start};

    const A: &str = "10.0.0.1:1023";
    const B: &str = "10.0.0.2:988";

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn written_captures_can_be_read() {
        let mut writer = CaptureWriter::new();
        let long = vec![7; 200_000];
        let first = writer.open(Time(1), addr(A), addr(B));
        let second = writer.open(Time(2), addr("[fd00::2]:1022"), addr("[fd00::1]:988"));
        writer.send(Time(3), first, Direction::FromActive, b"request");
        let mut file = writer.take_bytes();
        writer.send(Time(4), second, Direction::FromPassive, &long);
        writer.send(Time(5), first, Direction::FromPassive, b"answer");
        writer.close(Time(6), first, Direction::FromActive);
        writer.close(Time(6), first, Direction::FromActive);
        writer.close(Time(7), first, Direction::FromPassive);
        writer.reset(Time(8), second, Direction::FromActive);
        writer.refuse(Time(9), addr(A), addr(B));
        file.extend(writer.take_bytes());

        let capture = Capture::read(&file).unwrap();
        let connections = Conversation::of(&capture).connections;
        let starts: Vec<Start> = connections.iter().map(|c| c.start).collect();
        assert_eq!(starts, [Start::Handshake, Start::Handshake, Start::Attempt]);
        let chunks: Vec<_> =
            connections[0].chunks.iter().map(|c| (c.time.0, c.direction, c.bytes)).collect();
        let expected = [
            (3, Direction::FromActive, b"request".as_slice()),
            (5, Direction::FromPassive, b"answer"),
        ];
        assert_eq!(chunks, expected);
        assert_eq!(connections[0].ends.len(), 2);
        let lens: Vec<_> = connections[1].chunks.iter().map(|c| c.bytes.len()).collect();
        assert_eq!(lens, [65_000, 65_000, 65_000, 5_000]);
        assert!(connections[1].ends[0].reset);
    }

    #[test]
    #[should_panic(expected = "is closed FromActive")]
    fn a_closed_direction_sends_no_more() {
        let mut writer = CaptureWriter::new();
        let flow = writer.open(Time(1), addr(A), addr(B));
        writer.close(Time(2), flow, Direction::FromActive);
        writer.send(Time(3), flow, Direction::FromActive, b"late");
    }
}
