//! Reading one connection.
//!
//! A connection that carries bulk is read exactly: a header, then payload into its buffer together
//! with the next header, so that each message costs one system call for each burst that arrives.
//! One that carries small messages is read into the thread's scratch memory, many messages at once;
//! their few bytes of payload are copied once more. Which of them it is shows in its traffic.

use std::io;
use std::sync::Arc;

use fulmar_base::Sink;
use fulmar_socklnd::{Closed, Need};

use crate::buffer::{Piece, Table};
use crate::conn::Conn;
use crate::errno_of;
use crate::node::Shared;
use crate::sys::{self, Slice};

/// What to receive next.
pub(crate) enum Next {
    /// Bytes for the machine; so many complete a header.
    Bytes(usize),
    /// Payload, there, with the checksum so far.
    Place(Piece, Option<u32>),
    /// So many bytes for nobody.
    Discard(usize),
    /// Nothing for now.
    Pause,
}

impl Next {
    pub(crate) fn new(need: Need, table: &Table) -> Self {
        match need {
            Need::Bytes(count) => Self::Bytes(count),
            Need::Payload { sink: Sink::Span(span), crc } => Self::Place(table.resolve(span), crc),
            Need::Payload { sink, .. } => Self::Discard(sink.len() as usize),
            Need::Verdict | Need::Wait | Need::Nothing => Self::Pause,
        }
    }
}

/// The reading half of a connection, known to its thread alone.
pub(crate) struct Rx {
    next: Next,
    /// Bytes that the machine could not use yet; without memory unless it pauses.
    kept: Vec<u8>,
    /// So many reads in a row have shown no large payload.
    small: u8,
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes were read, and there may be more.
    More(usize),
    /// Nothing more is there, but perhaps the end of the stream.
    Empty,
    /// Nothing is there.
    Blocked,
    /// The machine wants nothing, or has ended the connection.
    Paused,
    /// The connection has ended.
    Ended(Closed),
}

impl Rx {
    pub(crate) fn new() -> Self {
        Self { next: Next::Pause, kept: Vec::new(), small: 0 }
    }

    /// Asks the machine what to read, after it paused or before anything was read.
    pub(crate) fn resume(&mut self, node: &Arc<Shared>, conn: &Conn) {
        if matches!(self.next, Next::Pause) {
            let kept = std::mem::take(&mut self.kept);
            self.hand_over(node, conn, None, &kept);
        }
    }

    /// Reads once, by way of `scratch` where that must be.
    pub(crate) fn step(&mut self, node: &Arc<Shared>, conn: &Conn, scratch: &mut Scratch) -> Step {
        let (wanted, result) = match &mut self.next {
            Next::Pause => return Step::Paused,
            Next::Bytes(count) => {
                let len = if self.small >= SMALL_ENOUGH { SCRATCH } else { (*count).min(SCRATCH) };
                let slice = Slice::of_bytes_mut(&mut scratch[..len]);
                (len, sys::receive(conn.socket(), &mut [slice]))
            }
            Next::Discard(count) => {
                let len = (*count).min(SCRATCH);
                let slice = Slice::of_bytes_mut(&mut scratch[..len]);
                (len, sys::receive(conn.socket(), &mut [slice]))
            }
            Next::Place(piece, _) => {
                let ahead = header_len(conn);
                let slice = Slice::of_bytes_mut(&mut scratch[..ahead]);
                let mut slices = [Slice::of_piece(piece), slice];
                let received = conn.receive(|socket| sys::receive(socket, &mut slices));
                let Some(result) = received else { return Step::Paused };
                (piece.len + ahead, result)
            }
        };
        node.counters.reads.add(1);
        match result {
            Ok(0) => Step::Ended(Closed::Eof),
            Ok(len) => {
                self.take(node, conn, len, scratch);
                if len < wanted { Step::Empty } else { Step::More(len) }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                node.counters.reads_empty.add(1);
                Step::Blocked
            }
            Err(error) => Step::Ended(Closed::ReadError(errno_of(&error))),
        }
    }

    /// Takes `len` bytes that went where `next` says.
    fn take(&mut self, node: &Arc<Shared>, conn: &Conn, len: usize, scratch: &Scratch) {
        let (placed, staged) = match std::mem::replace(&mut self.next, Next::Pause) {
            Next::Pause => unreachable!("nothing is read while the machine pauses"),
            Next::Bytes(_) => (None, &scratch[..len]),
            Next::Discard(_) => {
                node.counters.payload_bytes_discarded.add(len);
                (Some((len as u32, None)), [].as_slice())
            }
            Next::Place(piece, crc) => {
                let placed = len.min(piece.len);
                node.counters.payload_bytes_direct_in.add(placed);
                let crc = crc.map(|crc| piece.region.checksum(piece.offset, placed, crc));
                (Some((placed as u32, crc)), &scratch[..len - placed])
            }
        };
        self.hand_over(node, conn, placed, staged);
    }

    fn hand_over(
        &mut self,
        node: &Arc<Shared>,
        conn: &Conn,
        placed: Option<(u32, Option<u32>)>,
        staged: &[u8],
    ) {
        let taken =
            node.turn(|core, now, todo| core.received(now, conn, placed, staged, node, todo));
        let (next, unused) = taken.unwrap_or((Next::Pause, 0));
        self.small = match &next {
            Next::Place(piece, _) if piece.len >= LARGE => 0,
            Next::Place(..) => SMALL_ENOUGH,
            Next::Bytes(_) | Next::Discard(_) => self.small.saturating_add(1),
            Next::Pause => self.small,
        };
        if unused > 0 {
            self.kept = staged[staged.len() - unused..].to_vec();
        }
        self.next = next;
    }
}

/// Returns how many bytes a message begins with: version 4 is spoken over IPv6, and its headers are
/// longer. Less only means a second read; more, that the start of a payload is copied.
fn header_len(conn: &Conn) -> usize {
    if conn.remote.is_ipv6() { 24 + 96 } else { 24 + 72 }
}

/// A thread's memory for headers and small payloads. So much is also what a connection keeps, at
/// most, while the machine does not want to hear of it.
pub(crate) type Scratch = [u8; SCRATCH];

/// Room for some 150 small messages.
pub(crate) const SCRATCH: usize = 16 << 10;
/// A payload of this length is read straight to where it belongs: one message of the default
/// `min_bulk`, less its headers.
const LARGE: usize = 1024 - 24 - 96;
/// So many reads without a large payload, and the connection is taken to carry small messages. A
/// handshake has fewer.
const SMALL_ENOUGH: u8 = 16;
