//! A virtual TCP connection: two ordered streams with finite windows.
//!
//! ```text
//! Write -> unsent --(window)--> flight --(rate, delay)--> inbox --(Need)--> node
//!                     |                                              |
//!                     +-> handle_sent                 window grows <-+ a delay later
//! ```
//!
//! The window stands for both socket buffers: bytes are in it from the moment in which the
//! socket takes them until the news that they were read has come back.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fulmar_base::{BufferId, ConnId, Payload, Span, Time};

use crate::{HostId, Port};

/// What travels on a connection. Bulk names the memory that it was written from.
#[derive(Debug)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    Bulk(Span),
    Fin,
    Reset,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Dialler,
    Acceptor,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Dialler, Self::Acceptor];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Acceptor,
            Self::Acceptor => Self::Dialler,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndState {
    /// The handshake of TCP is under way, or the node has not accepted yet.
    Waiting,
    Open,
    /// The node has closed it; what was to be written is still being written.
    Flushing,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) host: HostId,
    /// The interface whose link it uses.
    pub(crate) port: Port,
    pub(crate) addr: SocketAddr,
    /// The node's name for the connection, once it has one.
    pub(crate) id: Option<ConnId>,
    pub(crate) state: EndState,
    /// What this end writes.
    pub(crate) stream: Stream,
    /// How many bytes the socket has taken that the node was not told of.
    pub(crate) unreported: u64,
    /// A slow reader looks again later.
    pub(crate) read_pending: bool,
}

/// A connection, or an attempt at one.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) dialler: End,
    pub(crate) acceptor: End,
    pub(crate) dialled: Time,
}

impl Connection {
    pub(crate) fn end(&self, side: Side) -> &End {
        match side {
            Side::Dialler => &self.dialler,
            Side::Acceptor => &self.acceptor,
        }
    }

    pub(crate) fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Dialler => &mut self.dialler,
            Side::Acceptor => &mut self.acceptor,
        }
    }

    /// The stream that `side` reads.
    pub(crate) fn incoming(&mut self, side: Side) -> &mut Stream {
        &mut self.end_mut(side.other()).stream
    }

    pub(crate) fn is_over(&self) -> bool {
        Side::BOTH.iter().all(|side| self.end(*side).state == EndState::Closed)
    }
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    unsent: VecDeque<Chunk>,
    /// How many bytes the socket would take now.
    pub(crate) window: u64,
    /// With the times of their arrival, which never decrease.
    pub(crate) flight: VecDeque<(Time, Segment)>,
    /// Whether an event waits for the head of `flight`.
    pub(crate) armed: bool,
    pub(crate) inbox: VecDeque<Segment>,
    /// Window news that a partition keeps back.
    pub(crate) window_held: u64,
}

#[derive(Debug)]
struct Chunk {
    data: ChunkData,
    /// Its last byte ends an LNet message.
    ends_message: bool,
    /// The buffer of a router that it is kept in until it is written.
    kept_in: Option<BufferId>,
}

#[derive(Debug)]
enum ChunkData {
    Bytes { bytes: Vec<u8>, start: usize },
    Bulk(Span),
}

/// A piece that the socket has taken.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) segment: Segment,
    pub(crate) len: u64,
    pub(crate) ends_message: bool,
}

impl Stream {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            unsent: VecDeque::new(),
            window,
            flight: VecDeque::new(),
            armed: false,
            inbox: VecDeque::new(),
            window_held: 0,
        }
    }

    /// Appends to what is to be written; a router may keep the payload in a buffer until then.
    pub(crate) fn write(
        &mut self,
        head: Vec<u8>,
        payload: Payload,
        is_message: bool,
        kept_in: Option<BufferId>,
    ) {
        let alone = payload.is_empty();
        if !head.is_empty() {
            let data = ChunkData::Bytes { bytes: head, start: 0 };
            self.unsent.push_back(Chunk { data, ends_message: is_message && alone, kept_in: None });
        }
        let data = match payload {
            Payload::Empty => return,
            Payload::Inline(bytes) => ChunkData::Bytes { bytes: bytes.to_vec(), start: 0 },
            Payload::Span(span) => ChunkData::Bulk(span),
        };
        if !alone {
            self.unsent.push_back(Chunk { data, ends_message: is_message, kept_in });
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns whether bulk of this buffer is still to be written.
    pub(crate) fn is_to_write(&self, name: BufferId) -> bool {
        let of_it =
            |chunk: &Chunk| matches!(chunk.data, ChunkData::Bulk(span) if span.buffer == name);
        self.unsent.iter().any(of_it)
    }

    /// Returns whether something that a router keeps in this buffer is still to be written.
    pub(crate) fn is_kept_in(&self, name: BufferId) -> bool {
        self.unsent.iter().any(|chunk| chunk.kept_in == Some(name))
    }

    pub(crate) fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Returns whether bulk memory, and not bytes, is next to be written.
    pub(crate) fn next_is_bulk(&self) -> bool {
        matches!(self.unsent.front(), Some(Chunk { data: ChunkData::Bulk(_), .. }))
    }

    /// Takes up to `limit` bytes of what is to be written, as far as the window allows.
    pub(crate) fn take(&mut self, limit: u64) -> Option<Piece> {
        let limit = limit.min(self.window);
        let chunk = self.unsent.front_mut()?;
        if limit == 0 {
            return None;
        }
        let (segment, len, over) = match &mut chunk.data {
            ChunkData::Bytes { bytes, start } => {
                let end = bytes.len().min(*start + limit as usize);
                let piece = bytes[*start..end].to_vec();
                *start = end;
                let len = piece.len() as u64;
                (Segment::Bytes(piece), len, end == bytes.len())
            }
            ChunkData::Bulk(span) => {
                let len = u64::from(span.len).min(limit) as u32;
                let piece = Span { len, ..*span };
                *span = span.advance(len);
                (Segment::Bulk(piece), u64::from(len), span.len == 0)
            }
        };
        let ends_message = over && chunk.ends_message;
        if over {
            self.unsent.pop_front();
        }
        self.window -= len;
        Some(Piece { segment, len, ends_message })
    }

    /// Takes the first `len` bytes of bulk, or of anything, out of the inbox.
    pub(crate) fn consume(&mut self, len: usize) {
        let over = match self.inbox.front_mut() {
            Some(Segment::Bytes(bytes)) => {
                bytes.drain(..len);
                bytes.is_empty()
            }
            Some(Segment::Bulk(span)) => {
                *span = span.advance(len as u32);
                span.len == 0
            }
            _ => false,
        };
        if over {
            self.inbox.pop_front();
        }
    }

    /// Joins the bytes at the front of the inbox, so that one read sees more than one write.
    pub(crate) fn coalesce(&mut self) {
        let is_bytes = |segment: &Segment| matches!(segment, Segment::Bytes(_));
        let run = self.inbox.iter().take_while(|segment| is_bytes(segment)).count();
        if run < 2 {
            return;
        }
        let mut joined = Vec::new();
        for segment in self.inbox.drain(..run) {
            if let Segment::Bytes(bytes) = segment {
                joined.extend(bytes);
            }
        }
        self.inbox.push_front(Segment::Bytes(joined));
    }

    /// Lets everything that is under way arrive at `at` or later.
    pub(crate) fn postpone(&mut self, at: Time) {
        for (arrival, _) in &mut self.flight {
            *arrival = (*arrival).max(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_base::BufferId;

    fn span(offset: u64, len: u32) -> Span {
        Span { buffer: BufferId(1), offset, len }
    }

    #[test]
    fn the_socket_takes_no_more_than_the_window_and_says_where_messages_end() {
        let mut stream = Stream::new(10);
        stream.write(vec![7; 4], Payload::Span(span(100, 20)), true, None);
        let head = stream.take(64).unwrap();
        assert!(matches!(head.segment, Segment::Bytes(bytes) if bytes == [7; 4]));
        assert!(!head.ends_message);
        let bulk = stream.take(64).unwrap();
        assert!(matches!(bulk.segment, Segment::Bulk(piece) if piece == span(100, 6)));
        assert!(stream.take(64).is_none());
        stream.window = 64;
        let rest = stream.take(64).unwrap();
        assert!(matches!(rest.segment, Segment::Bulk(piece) if piece == span(106, 14)));
        assert!(rest.ends_message);
        assert!(!stream.has_unsent());
    }

    #[test]
    fn joined_bytes_keep_their_order_and_stop_at_bulk() {
        let mut stream = Stream::new(0);
        stream.inbox.extend([
            Segment::Bytes(vec![1]),
            Segment::Bytes(vec![2, 3]),
            Segment::Bulk(span(0, 5)),
            Segment::Bytes(vec![4]),
        ]);
        stream.coalesce();
        assert_eq!(stream.inbox.len(), 3);
        stream.consume(2);
        assert!(matches!(stream.inbox.front(), Some(Segment::Bytes(bytes)) if *bytes == [3]));
    }
}
