//! Reading one connection.
//!
//! A connection that carries bulk is read exactly: a header, then payload into its memory together
//! with the next header. The thread reads a payload to its end by itself; the machine is notified
//! when it is complete, and of progress once a second. A connection that carries small messages is
//! read into the thread's scratch memory, many messages at once; their few bytes of payload are
//! copied once more. The kind of a connection is derived from its traffic.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_base::Sink;
use fulmar_lnd::{CloseCause, Need};

use crate::conn::Conn;
use crate::errno_of;
use crate::memory::Piece;
use crate::shared::Shared;
use crate::sys::{self, Sinks};

/// What to receive next.
pub(crate) enum Next {
    /// Bytes for the machine; this number completes a header.
    Bytes(usize),
    /// A payload.
    Payload(Payload),
    /// Nothing for now.
    Pause,
}

/// A payload that is being received.
pub(crate) struct Payload {
    place: Place,
    len: usize,
    /// Number of bytes received since the last report to the machine.
    got: usize,
    /// When that was; known if the payload does not arrive at once.
    since: Option<Instant>,
    /// The checksum so far, if there is one.
    crc: Option<u32>,
}

enum Place {
    Memory(Piece),
    /// The payload is discarded.
    Nowhere,
}

/// The part of a payload that was received since the last report to the machine.
pub(crate) struct PayloadPart {
    pub(crate) len: u32,
    pub(crate) crc: Option<u32>,
}

impl Next {
    /// Translates what the machine needs; `piece` is the memory of a sink.
    pub(crate) fn new(need: Need, piece: Option<Piece>) -> Self {
        match need {
            Need::Bytes(count) => Self::Bytes(count),
            Need::Payload { sink, crc } => {
                let len = sink.len() as usize;
                let place = match (sink, piece) {
                    (Sink::Span(_), Some(piece)) => Place::Memory(piece),
                    _ => Place::Nowhere,
                };
                Self::Payload(Payload { place, len, got: 0, since: None, crc })
            }
            Need::Verdict | Need::Wait | Need::Nothing => Self::Pause,
        }
    }
}

/// The reading half of a connection, known to its thread alone.
pub(crate) struct Rx {
    next: Next,
    /// Bytes that the machine could not use yet; without memory unless it pauses.
    kept: Vec<u8>,
    /// Number of reads in a row without a large payload.
    small: u8,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This number of bytes was read, and there may be more.
    More(usize),
    /// There are no more bytes, except perhaps the end of the stream.
    Empty,
    /// There are no bytes.
    Blocked,
    /// The machine reads nothing now, or has ended the connection.
    Paused,
    /// The connection has ended.
    Ended(CloseCause),
}

impl Rx {
    pub(crate) fn new() -> Self {
        Self { next: Next::Pause, kept: Vec::new(), small: 0 }
    }

    /// Returns whether the connection carries small messages, as far as its traffic shows.
    pub(crate) fn is_small(&self) -> bool {
        self.small >= SMALL_ENOUGH
    }

    /// Asks the machine what to read, after it paused or before anything was read.
    pub(crate) fn resume(&mut self, node: &Arc<Shared>, conn: &Arc<Conn>) {
        if matches!(self.next, Next::Pause) {
            let kept = std::mem::take(&mut self.kept);
            self.hand_over(node, conn, None, &kept);
        }
    }

    /// Reads once, by way of `scratch` where that must be; of small messages at most `most` bytes.
    pub(crate) fn step(
        &mut self,
        node: &Arc<Shared>,
        conn: &Arc<Conn>,
        scratch: &mut Scratch,
        most: usize,
    ) -> Step {
        let small = self.is_small();
        let (wanted, result) = match &self.next {
            Next::Pause => return Step::Paused,
            Next::Bytes(count) => {
                // One message must be taken whole.
                let len = if small { most.max(*count) } else { *count }.min(SCRATCH);
                let mut sinks = Sinks::new();
                sinks.push_bytes(&mut scratch[..len]);
                (len, sys::receive(conn.socket(), &sinks))
            }
            Next::Payload(payload) => {
                let mut sinks = Sinks::new();
                if !payload.offer(&mut sinks, scratch, header_len(conn)) {
                    return Step::Paused;
                }
                let received = conn.receive(|socket| sys::receive(socket, &sinks));
                let Some(result) = received else { return Step::Paused };
                (sinks.len(), result)
            }
        };
        node.counters.reads.add(1);
        match result {
            Ok(0) => Step::Ended(CloseCause::Eof),
            Ok(len) => {
                self.take(node, conn, len, scratch);
                if len < wanted { Step::Empty } else { Step::More(len) }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                node.counters.reads_empty.add(1);
                Step::Blocked
            }
            Err(error) => Step::Ended(CloseCause::ReadError(errno_of(&error))),
        }
    }

    /// Handles `len` bytes that were received as `next` says.
    fn take(&mut self, node: &Arc<Shared>, conn: &Arc<Conn>, len: usize, scratch: &Scratch) {
        match &mut self.next {
            Next::Pause => unreachable!("nothing is read while the machine pauses"),
            Next::Bytes(_) => self.hand_over(node, conn, None, &scratch[..len]),
            Next::Payload(payload) => {
                let placed = len.min(payload.len);
                match payload.place {
                    Place::Memory(_) => node.counters.payload_bytes_direct_in.add(placed),
                    Place::Nowhere => node.counters.payload_bytes_discarded.add(placed),
                }
                let whole = payload.advance(placed);
                if whole || payload.is_report_due() {
                    let report = payload.report();
                    // A discarded payload was read into the scratch memory.
                    let after = if whole { payload.after(scratch, placed, len) } else { &[] };
                    if whole {
                        // Who learns now that the memory is filled may use it again at once.
                        self.next = Next::Pause;
                    }
                    self.hand_over(node, conn, Some(report), after);
                }
            }
        }
    }

    fn hand_over(
        &mut self,
        node: &Arc<Shared>,
        conn: &Arc<Conn>,
        placed: Option<PayloadPart>,
        staged: &[u8],
    ) {
        let taken =
            node.turn(|core, now, actions| core.received(now, conn, placed, staged, node, actions));
        let (next, unused) = taken.unwrap_or((Next::Pause, 0));
        self.small = match &next {
            Next::Payload(Payload { place: Place::Memory(_), len, .. }) if *len >= LARGE => 0,
            Next::Payload(Payload { place: Place::Memory(_), .. }) => SMALL_ENOUGH,
            Next::Payload(_) | Next::Bytes(_) => self.small.saturating_add(1),
            Next::Pause => self.small,
        };
        if unused > 0 {
            self.kept = staged[staged.len() - unused..].to_vec();
        }
        self.next = next;
    }
}

impl Payload {
    /// Adds the memory of the missing bytes and, after it, room for the next header. Returns
    /// whether there is any.
    fn offer<'a>(
        &'a self,
        sinks: &mut Sinks<'a>,
        scratch: &'a mut Scratch,
        header_len: usize,
    ) -> bool {
        match &self.place {
            Place::Memory(piece) => {
                let at = piece.len() - self.len;
                if sinks.push_piece(piece, at) {
                    sinks.push_bytes(&mut scratch[..header_len]);
                }
            }
            Place::Nowhere => sinks.push_bytes(&mut scratch[..self.len.min(SCRATCH)]),
        }
        sinks.len() > 0
    }

    /// Records that `placed` more bytes were received; returns whether that is all.
    fn advance(&mut self, placed: usize) -> bool {
        if let (Place::Memory(piece), Some(crc)) = (&self.place, &mut self.crc) {
            *crc = piece.checksum(piece.len() - self.len, placed, *crc);
        }
        self.len -= placed;
        self.got += placed;
        self.len == 0
    }

    fn is_report_due(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.since.get_or_insert(now)) >= REPORT_INTERVAL
    }

    fn report(&mut self) -> PayloadPart {
        self.since = None;
        PayloadPart { len: std::mem::take(&mut self.got) as u32, crc: self.crc }
    }

    /// Returns the bytes that were received after the payload.
    fn after<'a>(&self, scratch: &'a Scratch, placed: usize, len: usize) -> &'a [u8] {
        match self.place {
            Place::Memory(_) => &scratch[..len - placed],
            Place::Nowhere => &[],
        }
    }
}

/// Returns how many bytes a message begins with: version 4 is spoken over IPv6, and its headers are
/// longer. Less only means a second read; more, that the start of a payload is copied.
fn header_len(conn: &Conn) -> usize {
    if conn.remote.is_ipv6() { 24 + 96 } else { 24 + 72 }
}

/// The size of a thread's memory for headers and small payloads, and the most bytes that a
/// connection keeps while the machine does not read from it.
pub(crate) type Scratch = [u8; SCRATCH];

/// Room for some 150 small messages.
pub(crate) const SCRATCH: usize = 16 << 10;
/// A payload of this length is read directly into its memory: one message of the default
/// `min_bulk`, less its headers.
const LARGE: usize = 1024 - 24 - 96;
/// After this number of reads without a large payload the connection is assumed to carry small
/// messages. A handshake has fewer.
const SMALL_ENOUGH: u8 = 16;
/// How often to report progress of a long payload.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
