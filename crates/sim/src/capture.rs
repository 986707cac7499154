//! What the connections of a run carry, as a file that Wireshark reads.
//!
//! Bytes are recorded as they arrive, in order: what was lost and sent again is there once. Bulk
//! is zeros, since it has no bytes here.

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
    /// A call was taken.
    pub(crate) fn open(&mut self, now: Time, tcp: TcpId, ends: [SocketAddr; 2]) {
        if self.has_room() {
            self.flows.insert(tcp, self.writer.open(now, ends[0], ends[1]));
        }
    }

    /// A call was refused.
    pub(crate) fn refuse(&mut self, now: Time, ends: [SocketAddr; 2]) {
        if self.has_room() {
            self.writer.refuse(now, ends[0], ends[1]);
        }
    }

    /// Something has arrived that `from` wrote.
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

    /// A reset has arrived that `from` sent, or its end has gone without a word.
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
/// What comes after so many bytes is not in the file.
const FILE_MAX: usize = 1 << 30;
