//! One direction of a connection: from the queue of the writing node to the inbox of the reading
//! node.
//!
//! Data in flight are not copied: transmissions refer to byte numbers, and bytes that have arrived
//! in order move from the content of the socket to the inbox.

use std::collections::VecDeque;
use std::sync::Arc;

use fulmar_base::{BufferId, Payload, Span, Time};

use super::Segment;
use super::delay::AckDelay;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::fabric::Path;
use crate::options::Tcp;
use crate::world::BurstId;

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Written data that the socket has not taken yet.
    unsent: VecDeque<Chunk>,
    /// Bytes that the socket has taken; a FIN counts as one.
    taken: u64,
    /// Whether a writer that found the socket full waits until a third of its buffer is free.
    late_writer: bool,
    was_full: bool,
    /// Data that the socket has taken and that have not arrived in order yet.
    content: VecDeque<Segment>,
    /// The lengths of the parts of the content that were never transmitted, and whether they are
    /// bulk data.
    untransmitted: VecDeque<(u64, bool)>,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) inbox: VecDeque<Segment>,
    /// The lanes of the data and of the acknowledgements.
    pub(crate) path: Option<Arc<Path>>,
    /// Whether it is queued at the interface.
    pub(crate) is_queued: bool,
    /// Number of pending acknowledgements of the reader.
    pub(crate) acks_due: u32,
    /// When the reader acknowledges.
    pub(crate) ack_delay: AckDelay,
    /// The bursts whose acknowledgements are delayed, and when that ends.
    pub(crate) delayed: Vec<BurstId>,
    pub(crate) delayed_until: Option<Time>,
    /// Whether a pacing event is scheduled.
    pub(crate) is_paced: bool,
    /// The time of the current timer event; others are stale.
    pub(crate) armed: Option<Time>,
    /// When the tail of the last burst reaches the first switch, to keep the order.
    pub(crate) last_tail: Time,
    /// When the last acknowledgement arrives.
    pub(crate) last_ack: Time,
    /// Whether the node was notified that the stream is stalled.
    pub(crate) stall_reported: bool,
}

#[derive(Debug)]
struct Chunk {
    data: ChunkData,
    /// Whether its last byte ends an LNet message.
    ends_message: bool,
    /// The router buffer that holds it until it is written.
    kept_in: Option<BufferId>,
}

#[derive(Debug)]
enum ChunkData {
    Bytes { bytes: Vec<u8>, start: usize },
    Bulk(Span),
}

impl Stream {
    /// Returns a new stream.
    pub(crate) fn new(tcp: &Tcp, path: Option<Arc<Path>>) -> Self {
        let burst_max = path.as_ref().map_or(0, |path| path.burst_max);
        Self {
            unsent: VecDeque::new(),
            taken: 0,
            late_writer: tcp.late_writers,
            was_full: false,
            content: VecDeque::new(),
            untransmitted: VecDeque::new(),
            sender: Sender::new(tcp, burst_max),
            receiver: Receiver::new(tcp),
            inbox: VecDeque::new(),
            path,
            is_queued: false,
            acks_due: 0,
            ack_delay: AckDelay::new(tcp.delayed_acks, tcp.segment()),
            delayed: Vec::new(),
            delayed_until: None,
            is_paced: false,
            armed: None,
            last_tail: Time::ZERO,
            last_ack: Time::ZERO,
            stall_reported: false,
        }
    }

    /// Appends data to write. `kept_in` is the router buffer that holds the payload, if any.
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

    /// Returns whether bulk data of this buffer are still unwritten.
    pub(crate) fn will_write(&self, name: BufferId) -> bool {
        let of_it =
            |chunk: &Chunk| matches!(chunk.data, ChunkData::Bulk(span) if span.buffer == name);
        self.unsent.iter().any(of_it)
    }

    /// Returns whether data in this router buffer are still unwritten.
    pub(crate) fn is_kept_in(&self, name: BufferId) -> bool {
        self.unsent.iter().any(|chunk| chunk.kept_in == Some(name))
    }

    pub(crate) fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Drops all data that have not arrived.
    pub(crate) fn abort(&mut self) {
        self.unsent.clear();
        self.content.clear();
        self.untransmitted.clear();
        self.sender.abort();
        self.taken = self.sender.next();
    }

    /// Moves data into the socket as far as it has room, and returns the numbers of bytes and of
    /// completed messages.
    pub(crate) fn take(&mut self) -> (u64, u32) {
        let (mut len, mut messages) = (0, 0);
        if self.was_full && self.sender.is_mostly_full(self.taken) {
            return (0, 0);
        }
        self.was_full = false;
        while let Some(chunk) = self.unsent.front_mut() {
            let room = self.sender.room(self.taken);
            if room == 0 {
                self.was_full = self.late_writer;
                break;
            }
            let (segment, over) = chunk.take(room);
            if over {
                messages += u32::from(chunk.ends_message);
                self.unsent.pop_front();
            }
            len += segment.len();
            self.put(segment);
        }
        (len, messages)
    }

    /// Appends a segment to the content of the socket, such as a FIN or a forged message.
    pub(crate) fn put(&mut self, segment: Segment) {
        let len = segment.len();
        let bulk = matches!(segment, Segment::Bulk(_));
        match self.untransmitted.back_mut() {
            Some((last, kind)) if *kind == bulk => *last += len,
            _ => self.untransmitted.push_back((len, bulk)),
        }
        self.content.push_back(segment);
        self.taken += len;
    }

    /// Returns the number of bytes that the socket has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns whether the next untransmitted data are bulk data.
    pub(crate) fn next_is_bulk(&self) -> bool {
        self.untransmitted.front().is_some_and(|(_, bulk)| *bulk)
    }

    /// Notes that so many bytes were transmitted for the first time.
    pub(crate) fn transmitted(&mut self, mut len: u64) {
        while len > 0 {
            let Some((first, _)) = self.untransmitted.front_mut() else { return };
            let part = len.min(*first);
            *first -= part;
            len -= part;
            if *first == 0 {
                self.untransmitted.pop_front();
            }
        }
    }

    /// Removes and returns data that have arrived in order.
    pub(crate) fn deliver(&mut self, mut len: u64) -> Vec<Segment> {
        let mut delivered = Vec::new();
        while len > 0 {
            let Some(first) = self.content.front_mut() else { break };
            let whole = first.len();
            if whole <= len {
                len -= whole;
                delivered.extend(self.content.pop_front());
            } else {
                delivered.push(first.split_to(len as usize));
                len = 0;
            }
        }
        delivered
    }

    /// Removes the first `len` bytes from the inbox.
    pub(crate) fn consume(&mut self, len: usize) {
        let Some(first) = self.inbox.front_mut() else { return };
        if first.len() <= len as u64 {
            self.inbox.pop_front();
        } else {
            first.split_to(len);
        }
    }

    /// Merges the bytes at the front of the inbox, so that one read may return several writes.
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
}

impl Chunk {
    /// Removes up to `limit` bytes, and returns whether that was the rest.
    fn take(&mut self, limit: u64) -> (Segment, bool) {
        match &mut self.data {
            ChunkData::Bytes { bytes, start } => {
                let end = bytes.len().min(start.saturating_add(limit as usize));
                let piece = match (*start, end == bytes.len()) {
                    (0, true) => std::mem::take(bytes),
                    (start, _) => bytes[start..end].to_vec(),
                };
                *start = end;
                (Segment::Bytes(piece), end >= bytes.len())
            }
            ChunkData::Bulk(span) => {
                let len = u64::from(span.len).min(limit) as u32;
                let piece = Span { len, ..*span };
                *span = span.advance(len);
                (Segment::Bulk(piece), span.len == 0)
            }
        }
    }
}

impl Segment {
    /// Returns its length in bytes; a FIN counts as one.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Bulk(span) => u64::from(span.len),
            Self::Fin => 1,
        }
    }

    /// Splits off and returns the first `len` bytes.
    fn split_to(&mut self, len: usize) -> Self {
        match self {
            Self::Bytes(bytes) => {
                let rest = bytes.split_off(len);
                Self::Bytes(std::mem::replace(bytes, rest))
            }
            Self::Bulk(span) => {
                let first = Span { len: len as u32, ..*span };
                *span = span.advance(len as u32);
                Self::Bulk(first)
            }
            Self::Fin => Self::Fin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: u64, len: u32) -> Span {
        Span { buffer: BufferId(1), offset, len }
    }

    fn stream(buffer: u64) -> Stream {
        Stream::new(&Tcp::default().with_buffers(buffer), None)
    }

    #[test]
    fn the_socket_takes_up_to_its_buffer_and_counts_completed_messages() {
        let mut stream = stream(10);
        stream.write(vec![7; 4], Payload::Span(span(100, 20)), true, None);
        assert_eq!(stream.take(), (10, 0));
        assert_eq!(stream.take(), (0, 0));
        assert!(!stream.next_is_bulk());
        stream.transmitted(4);
        assert!(stream.next_is_bulk());
        let delivered = stream.deliver(8);
        assert!(matches!(&delivered[0], Segment::Bytes(bytes) if *bytes == [7; 4]));
        assert!(matches!(delivered[1], Segment::Bulk(piece) if piece == span(100, 4)));
        stream.sender.handle_room(Time(1), 8, 100);
        assert_eq!(stream.take(), (8, 0));
        stream.sender.handle_room(Time(1), 18, 100);
        assert_eq!(stream.take(), (6, 1));
        assert!(!stream.has_unsent());
    }

    #[test]
    fn a_late_writer_waits_until_a_third_of_the_buffer_is_free() {
        let tcp = Tcp { late_writers: true, ..Tcp::default() };
        let mut stream = Stream::new(&tcp.with_buffers(9), None);
        stream.write(vec![7; 30], Payload::Empty, true, None);
        assert_eq!(stream.take(), (9, 0));
        stream.sender.handle_room(Time(1), 2, 100);
        assert_eq!(stream.take(), (0, 0));
        stream.sender.handle_room(Time(1), 3, 100);
        assert_eq!(stream.take(), (3, 0));
    }

    #[test]
    fn merged_bytes_keep_their_order_and_stop_at_bulk_data() {
        let mut stream = stream(0);
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
