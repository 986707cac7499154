//! The cached bytes of one object: ranges, each with a state and with memory.
//!
//! ```text
//!  nothing ──► Reading ──► Clean ──► nothing           read, and given up or dropped under a lock
//!     │           │          │ ▲
//!     └───────────┴── write ─┤ └──────── Writing ──► nothing     the write failed
//!                            ▼              ▲
//!                          Dirty ── RPC ────┘
//! ```
//!
//! * A write takes its range from whatever state, with memory of its own. So data on the wire never change,
//!   no write waits for that, and nothing is copied: an RPC and a replay still have the old bytes.
//! * A read under way gets only what is still marked as `Reading` when it arrives. What was written or
//!   dropped meanwhile is not replaced by old data.
//! * A piece without memory is zeros: a hole, or what is behind the end of its object.

use std::collections::BTreeSet;
use std::ops::Range;

use fulmar_base::{BufferId, Span};

use crate::buffers::Buffers;
use crate::cache::RpcId;
use crate::ranges::{Part, RangeMap};

/// The state of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// As at the target.
    Clean,
    /// To be written.
    Dirty,
    /// Being written, and not changed since.
    Writing(RpcId),
    /// Being read.
    Reading(RpcId),
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) buffer: BufferId,
    pub(crate) offset: u64,
}

impl Memory {
    /// Returns the span of the first bytes.
    pub(crate) fn span(self, len: u64) -> Span {
        Span { buffer: self.buffer, offset: self.offset, len: len as u32 }
    }

    pub(crate) fn skip(self, by: u64) -> Self {
        Self { offset: self.offset + by, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    state: State,
    memory: Option<Memory>,
}

impl Part for Piece {
    fn skip(self, by: u64) -> Self {
        Self { memory: self.memory.map(|memory| memory.skip(by)), ..self }
    }
}

/// What is known of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// Its bytes; zeros without memory.
    Bytes(Option<Memory>),
    /// They are being read.
    Coming(RpcId),
    /// Nothing.
    Missing,
}

/// The cached ranges of an object.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pieces: RangeMap<Piece>,
    /// The starts of the pieces in each buffer.
    by_buffer: BTreeSet<(BufferId, u64)>,
}

impl Pages {
    /// Returns what is known of a range, in order and without gaps.
    pub(crate) fn look(&self, range: Range<u64>) -> Vec<(Range<u64>, PageState)> {
        let (mut at, mut found) = (range.start, Vec::new());
        for (part, piece) in self.pieces.overlapping(range.clone()) {
            if at < part.start {
                found.push((at..part.start, PageState::Missing));
            }
            at = part.end;
            let what = match piece.state {
                State::Reading(rpc) => PageState::Coming(rpc),
                _ => PageState::Bytes(piece.memory),
            };
            found.push((part, what));
        }
        if at < range.end {
            found.push((at..range.end, PageState::Missing));
        }
        found
    }

    /// Returns whether a byte is the last of its piece.
    pub(crate) fn is_last(&self, at: u64) -> bool {
        self.pieces.get(at).is_none_or(|(range, _)| range.end == at + 1)
    }

    /// Returns whether something in a range is not at the target.
    pub(crate) fn has_unwritten(&self, range: Range<u64>) -> bool {
        let is_unwritten = |state| matches!(state, State::Dirty | State::Writing(_));
        self.pieces.overlapping(range).any(|(_, piece)| is_unwritten(piece.state))
    }

    /// Returns in how many pieces the dirty bytes of a range are, at most `limit`, and where these end.
    pub(crate) fn count(&self, range: Range<u64>, limit: usize) -> (usize, u64) {
        let (mut count, mut end) = (0, range.start);
        for (part, _) in self.pieces.overlapping(range).take(limit) {
            (count, end) = (count + 1, part.end);
        }
        (count, end)
    }

    /// A read is under way: it gets what is not known.
    pub(crate) fn expect(&mut self, range: Range<u64>, rpc: RpcId, buffers: &mut Buffers) {
        for gap in self.pieces.gaps(range) {
            self.add(gap, Piece { state: State::Reading(rpc), memory: None }, buffers);
        }
    }

    /// A read has brought a range; without memory, zeros.
    pub(crate) fn arrived(
        &mut self,
        range: Range<u64>,
        rpc: RpcId,
        memory: Option<Memory>,
        buffers: &mut Buffers,
    ) {
        for part in self.in_state(range.clone(), State::Reading(rpc)) {
            self.take(part.clone(), buffers);
            let memory = memory.map(|memory| memory.skip(part.start - range.start));
            self.add(part, Piece { state: State::Clean, memory }, buffers);
        }
    }

    /// A read has failed, or is given up.
    pub(crate) fn not_arrived(&mut self, range: Range<u64>, rpc: RpcId, buffers: &mut Buffers) {
        for part in self.in_state(range, State::Reading(rpc)) {
            self.take(part, buffers);
        }
    }

    /// A range is written.
    pub(crate) fn write(&mut self, range: Range<u64>, memory: Memory, buffers: &mut Buffers) {
        self.take(range.clone(), buffers);
        self.add(range, Piece { state: State::Dirty, memory: Some(memory) }, buffers);
    }

    /// A dirty range is sent. Its buffers get a pin for each span that is returned.
    pub(crate) fn sent(
        &mut self,
        range: Range<u64>,
        rpc: RpcId,
        buffers: &mut Buffers,
    ) -> Vec<Span> {
        let mut spans = Vec::new();
        let pieces: Vec<_> = self.pieces.overlapping(range).collect();
        for (part, piece) in pieces {
            assert_eq!(piece.state, State::Dirty, "only dirty data are sent");
            let memory = piece.memory.expect("dirty data have memory");
            buffers.pin(memory.buffer);
            spans.push(memory.span(part.end - part.start));
            self.take(part.clone(), buffers);
            self.add(part, Piece { state: State::Writing(rpc), ..piece }, buffers);
        }
        spans
    }

    /// A write has ended. What failed is forgotten: the target says what there is.
    pub(crate) fn written(
        &mut self,
        range: Range<u64>,
        rpc: RpcId,
        ok: bool,
        buffers: &mut Buffers,
    ) {
        for part in self.in_state(range, State::Writing(rpc)) {
            for (part, piece) in self.take(part, buffers) {
                if ok {
                    self.add(part, Piece { state: State::Clean, ..piece }, buffers);
                }
            }
        }
    }

    /// Drops what is in a range: what is clean or being read, and with `dirty` also what is dirty.
    pub(crate) fn discard(&mut self, range: Range<u64>, dirty: bool, buffers: &mut Buffers) {
        let goes = |state| match state {
            State::Clean | State::Reading(_) => true,
            State::Dirty => dirty,
            State::Writing(_) => false,
        };
        let parts = self.pieces.overlapping(range).filter(|(_, piece)| goes(piece.state));
        let parts: Vec<_> = parts.map(|(part, _)| part).collect();
        for part in parts {
            self.take(part, buffers);
        }
    }

    /// Drops what is in a buffer, which has no pins: all of it is clean.
    pub(crate) fn evict(&mut self, buffer: BufferId, buffers: &mut Buffers) {
        let first = (buffer, 0)..=(buffer, u64::MAX);
        let starts: Vec<_> = self.by_buffer.range(first).map(|(_, start)| *start).collect();
        for start in starts {
            let (range, piece) = self.pieces.get(start).expect("a piece of the buffer");
            assert_eq!(piece.state, State::Clean, "only clean data are given up");
            self.take(range, buffers);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn in_state(&self, range: Range<u64>, state: State) -> Vec<Range<u64>> {
        let parts = self.pieces.overlapping(range).filter(|(_, piece)| piece.state == state);
        parts.map(|(part, _)| part).collect()
    }

    fn add(&mut self, range: Range<u64>, piece: Piece, buffers: &mut Buffers) {
        let Range { start, end } = range;
        self.pieces.insert(range, piece);
        self.attach(start, piece, buffers);
        // The first byte at a border tells the value of the second part.
        for at in [start, end] {
            let second = self.pieces.get(at).map(|(_, piece)| piece);
            if self.pieces.join(at) {
                self.detach(at, second.expect("the part that was joined"), buffers);
            }
        }
    }

    fn take(&mut self, range: Range<u64>, buffers: &mut Buffers) -> Vec<(Range<u64>, Piece)> {
        for at in [range.start, range.end] {
            if let Some(second) = self.pieces.cut(at) {
                self.attach(at, second, buffers);
            }
        }
        let removed = self.pieces.remove(range);
        for (part, piece) in &removed {
            self.detach(part.start, *piece, buffers);
        }
        removed
    }

    fn attach(&mut self, start: u64, piece: Piece, buffers: &mut Buffers) {
        if let Some(Memory { buffer, .. }) = piece.memory {
            if piece.state == State::Dirty {
                buffers.pin(buffer);
            }
            buffers.add_piece(buffer);
            self.by_buffer.insert((buffer, start));
        }
    }

    fn detach(&mut self, start: u64, piece: Piece, buffers: &mut Buffers) {
        if let Some(Memory { buffer, .. }) = piece.memory {
            self.by_buffer.remove(&(buffer, start));
            buffers.drop_piece(buffer);
            if piece.state == State::Dirty {
                buffers.unpin(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
