//! Writes the data of a run's connections to a capture file for Wireshark.
//!
//! Bytes are recorded when they arrive in order, so retransmissions do not appear. Bulk data has no
//! bytes in the simulator and is recorded as zeros.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fulmar_base::Time;
use fulmar_trace::{CaptureWriter, Direction, FlowId};

use crate::TcpId;
use crate::tcp::{Segment, Side};

/// A capture that is being written.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    writer: CaptureWriter,
    flows: BTreeMap<TcpId, FlowId>,
    file: Vec<u8>,
}

impl Capture {
    /// Records that a connection was accepted.
    pub(crate) fn open(&mut self, now: Time, tcp: TcpId, ends: [SocketAddr; 2]) {
        if self.has_room() {
            self.flows.insert(tcp, self.writer.open(now, ends[0], ends[1]));
        }
    }

    /// Records that a connection was refused.
    pub(crate) fn refuse(&mut self, now: Time, ends: [SocketAddr; 2]) {
        if self.has_room() {
            self.writer.refuse(now, ends[0], ends[1]);
        }
    }

    /// Records a segment that `from` wrote and that has arrived.
    pub(crate) fn segment(&mut self, now: Time, tcp: TcpId, from: Side, segment: &Segment) {
        let Some(flow) = self.flows.get(&tcp).copied().filter(|_| self.has_room()) else { return };
        let direction = direction(from);
        match segment {
            Segment::Bytes(bytes) => self.writer.send(now, flow, direction, bytes),
            Segment::Bulk(span) => {
                let mut left = span.len as usize;
                while left > 0 {
                    let part = left.min(ZEROS.len());
                    self.writer.send(now, flow, direction, &ZEROS[..part]);
                    left -= part;
                }
            }
            Segment::Fin => self.writer.close(now, flow, direction),
        }
        self.file.extend(self.writer.take_bytes());
    }

    /// Records a reset from `from`, or that its side has vanished.
    pub(crate) fn reset(&mut self, now: Time, tcp: TcpId, from: Side) {
        if let Some(flow) = self.flows.remove(&tcp) {
            self.writer.reset(now, flow, direction(from));
        }
    }

    /// Returns the file so far.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.file.extend(self.writer.take_bytes());
        self.file
    }

    fn has_room(&self) -> bool {
        self.file.len() < FILE_MAX
    }
}

fn direction(from: Side) -> Direction {
    match from {
        Side::Dialler => Direction::FromActive,
        Side::Acceptor => Direction::FromPassive,
    }
}

static ZEROS: [u8; 64_000] = [0; 64_000];
/// Data after so many bytes are not in the file.
const FILE_MAX: usize = 1 << 30;
