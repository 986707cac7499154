//! The writes of one connection.
//!
//! The thread that adds to an idle queue writes at once. While one thread writes, others only add,
//! and the writing thread takes their items too. When the socket is full the queue is blocked, and
//! the I/O thread of the connection continues when the socket is writable.
//!
//! Written bytes are reported when a message is complete. A long message that is written slowly is
//! reported in parts, so that the machine sees progress.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_lnet_wire::socklnd::FrameHeader;
use fulmar_socklnd::checksum;

use crate::counters::Counters;
use crate::errno_of;
use crate::memory::Piece;
use crate::sys::{self, Sources};
use crate::write_queue::{FlushEnd, WriteBatch, WriteQueue};

/// The bytes after a head.
pub(crate) enum Body {
    Empty,
    Inline(Arc<[u8]>),
    Piece(Piece),
}

impl Body {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Inline(bytes) => bytes.len(),
            Self::Piece(piece) => piece.len(),
        }
    }
}

/// One write that the machine requested.
pub(crate) struct Item {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Body,
    /// The checksum is missing in the head.
    pub(crate) checksum: bool,
}

impl Item {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Puts the checksum of head and body into the head.
    fn seal(&mut self) {
        if !std::mem::take(&mut self.checksum) {
            return;
        }
        let crc = checksum::update(checksum::INITIAL, &self.head);
        let crc = match &self.body {
            Body::Empty => crc,
            Body::Inline(bytes) => checksum::update(crc, bytes),
            Body::Piece(piece) => piece.checksum(0, piece.len(), crc),
        };
        FrameHeader::set_checksum(&mut self.head, crc);
    }
}

/// The result of a flush.
#[derive(Debug, Default)]
pub(crate) struct FlushResult {
    /// Number of bytes to report to the machine.
    pub(crate) sent: u64,
    /// Whether bytes were written.
    pub(crate) moved: bool,
    pub(crate) error: Option<Errno>,
    /// All is written, and the connection is to be closed.
    pub(crate) finished: bool,
}

#[derive(Default)]
pub(crate) struct Tx {
    /// Number of written bytes, counted before another thread can observe the write.
    written: AtomicU64,
    queue: WriteQueue<Item, Writer>,
}

/// The progress of the writing thread.
#[derive(Default)]
struct Writer {
    /// Number of written bytes of the first item.
    skip: usize,
    /// Number of bytes that were returned to be reported.
    reported: u64,
    /// When, if the first item was partly written then.
    reported_at: Option<Instant>,
}

impl Tx {
    /// Appends a write; the caller flushes it.
    pub(crate) fn push(&self, item: Item) {
        self.queue.push(item);
    }

    /// Requests that the connection is closed when all is written.
    pub(crate) fn close_when_written(&self) {
        self.queue.close_when_empty();
    }

    /// Returns the number of written bytes.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Notes that the socket is writable again, and returns whether to flush.
    pub(crate) fn handle_writable(&self) -> bool {
        self.queue.handle_room()
    }

    /// Discards all unwritten items, and returns when no thread is writing.
    pub(crate) fn stop(&self) {
        self.queue.stop();
    }

    /// Writes until the queue is empty or the socket is full. Returns at once if another thread writes.
    pub(crate) fn flush(&self, socket: BorrowedFd<'_>, counters: &Counters) -> FlushResult {
        let mut flushed = FlushResult::default();
        let write = |WriteBatch { items, writer }: &mut WriteBatch<Item, Writer>| {
            let (sent, full) = writer.write(items, socket, counters)?;
            flushed.moved |= sent > 0;
            self.written.fetch_add(sent as u64, Ordering::Release);
            Ok::<_, io::Error>(full)
        };
        let ended = self.queue.flush(write, |writer, ended| (writer.report(self.written()), ended));
        if let Some((sent, ended)) = ended {
            flushed.sent = sent;
            match ended {
                FlushEnd::Empty { closing } => flushed.finished = closing,
                FlushEnd::Failed(error) => flushed.error = Some(errno_of(&error)),
                FlushEnd::Blocked | FlushEnd::Stopped => {}
            }
        }
        flushed
    }
}

impl Writer {
    /// Writes once. Returns the number of bytes, and whether the socket is full.
    fn write(
        &mut self,
        items: &mut VecDeque<Item>,
        socket: BorrowedFd<'_>,
        counters: &Counters,
    ) -> io::Result<(usize, bool)> {
        for item in items.iter_mut().take(BATCH_MAX) {
            item.seal();
        }
        let mut sources = Sources::new();
        for (index, item) in items.iter().take(BATCH_MAX).enumerate() {
            let skip = if index == 0 { self.skip } else { 0 };
            let head = skip.min(item.head.len());
            sources.push_bytes(&item.head[head..]);
            let skip = skip - head;
            match &item.body {
                Body::Empty => {}
                Body::Inline(bytes) => sources.push_bytes(&bytes[skip..]),
                Body::Piece(piece) => sources.push_piece(piece, skip),
            }
            if sources.is_full() {
                break;
            }
        }
        counters.writes.add(1);
        let wanted = sources.len();
        let sent = match sys::send(socket, &sources) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if sent < wanted {
            counters.writes_short.add(1);
        }
        self.advance(items, sent, counters);
        Ok((sent, sent < wanted))
    }

    /// Removes written items.
    fn advance(&mut self, items: &mut VecDeque<Item>, sent: usize, counters: &Counters) {
        let mut done = self.skip + sent;
        let mut payload = 0;
        let mut skip = self.skip;
        while let Some(item) = items.front() {
            let head = item.head.len();
            payload += done.min(item.len()).saturating_sub(head) - skip.saturating_sub(head);
            if done < item.len() {
                break;
            }
            done -= item.len();
            skip = 0;
            items.pop_front();
        }
        self.skip = done;
        counters.payload_bytes_out.add(payload);
        counters.head_bytes_out.add(sent - payload);
    }

    /// Returns how many more bytes to report, of `written` in total.
    fn report(&mut self, written: u64) -> u64 {
        let whole = written - self.skip as u64;
        let upto = if whole > self.reported {
            self.reported_at = None;
            whole
        } else if written > self.reported {
            // The clock is read only for messages that do not fit into the socket.
            let now = Instant::now();
            let since = *self.reported_at.get_or_insert(now);
            if now.duration_since(since) < REPORT_INTERVAL {
                return 0;
            }
            self.reported_at = Some(now);
            written
        } else {
            return 0;
        };
        upto - std::mem::replace(&mut self.reported, upto)
    }
}

/// The most messages that one system call writes.
const BATCH_MAX: usize = 64;
/// How often to report progress of a long message.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Buffer;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn item(head: &[u8], body: Body) -> Item {
        Item { head: head.to_vec(), body, checksum: false }
    }

    #[test]
    fn a_flush_continues_after_a_full_socket_and_reports_complete_messages() {
        let (a, mut b) = UnixStream::pair().unwrap();
        a.set_nonblocking(true).unwrap();
        let buffer = Buffer::new(1 << 20);
        let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 253) as u8).collect();
        buffer.write_at(0, &bytes);
        let (tx, counters) = (Tx::default(), Counters::default());
        let piece = Piece::new(buffer.into(), 0, 1 << 20);
        tx.push(item(b"one", Body::Inline(Arc::from(*b"two"))));
        tx.push(item(b"three", Body::Piece(piece)));
        tx.push(item(b"", Body::Empty));
        tx.close_when_written();
        let mut expected = b"onetwothree".to_vec();
        expected.extend(&bytes);
        let (mut reported, mut got) = (Vec::new(), Vec::new());
        loop {
            let flushed = tx.flush(a.as_fd(), &counters);
            assert_eq!(flushed.error, None);
            reported.push(flushed.sent as usize);
            let mut chunk = vec![0; tx.written() as usize - got.len()];
            b.read_exact(&mut chunk).unwrap();
            got.extend(chunk);
            if flushed.finished {
                break;
            }
            let idle = tx.flush(a.as_fd(), &counters);
            assert_eq!((idle.sent, idle.moved), (0, false), "a blocked queue waits");
            assert!(tx.handle_writable());
        }
        assert!(got == expected);
        assert_eq!(reported[0], 6, "the first is complete, the second is not");
        assert_eq!(reported.iter().sum::<usize>(), expected.len());
        assert_eq!(reported.iter().filter(|sent| **sent > 0).count(), 2);
        let counted = counters.snapshot();
        assert_eq!((counted.payload_bytes_out, counted.head_bytes_out), (3 + (1 << 20), 8));
        assert!(counted.writes_short > 0);
    }

    #[test]
    fn a_checksum_is_put_into_the_head_when_it_is_written() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let (tx, counters) = (Tx::default(), Counters::default());
        let body = Body::Inline(Arc::from(*b"payload"));
        tx.push(Item { head: vec![0; 24], body, checksum: true });
        tx.flush(a.as_fd(), &counters);
        let mut bytes = [0; 31];
        b.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[4..8], checksum::of(&[0; 24], b"payload").to_le_bytes());
    }

    #[test]
    fn a_message_that_is_written_slowly_is_reported_in_parts() {
        let mut writer = Writer { skip: 10, ..Writer::default() };
        assert_eq!(writer.report(10), 0, "it is incomplete");
        writer.reported_at = Some(Instant::now() - REPORT_INTERVAL);
        writer.skip = 30;
        assert_eq!(writer.report(30), 30);
        writer.skip = 40;
        assert_eq!(writer.report(40), 0, "it was reported just now");
        writer.skip = 0;
        assert_eq!(writer.report(100), 70, "it is complete");
        assert_eq!(writer.report(100), 0);
    }

    #[test]
    fn a_stopped_queue_discards_everything() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let (tx, counters) = (Tx::default(), Counters::default());
        tx.push(item(b"never", Body::Empty));
        tx.stop();
        tx.push(item(b"never", Body::Empty));
        assert_eq!(tx.flush(a.as_fd(), &counters).sent, 0);
        drop(a);
        assert_eq!(b.read(&mut [0; 8]).unwrap(), 0);
    }
}
