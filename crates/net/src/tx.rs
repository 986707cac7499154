//! What is to be written on one connection.
//!
//! The thread that adds to an idle queue writes it at once. While one thread writes, others only
//! add, and the writer takes what they added. When the socket is full the queue is blocked, and the
//! I/O thread of the connection goes on when it can.
//!
//! What the socket has taken is reported when a message is whole. A long message that is taken
//! slowly is reported in parts, so that the machine sees progress.

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
use crate::relay::{Ended, Relay, Taken};
use crate::sys::{self, Sources};

/// The bytes behind a head.
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

/// One write that the machine asked for.
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

/// What a flush has done.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// So many bytes are to be reported to the machine.
    pub(crate) sent: u64,
    /// The socket has taken bytes.
    pub(crate) moved: bool,
    pub(crate) error: Option<Errno>,
    /// All is written, and the connection was to be closed then.
    pub(crate) finished: bool,
}

#[derive(Default)]
pub(crate) struct Tx {
    /// How many bytes the socket has taken, counted before anybody can learn that it has.
    written: AtomicU64,
    relay: Relay<Item, Writer>,
}

/// The progress of the thread that writes.
#[derive(Default)]
struct Writer {
    /// So many bytes of the first item are written.
    skip: usize,
    /// So many bytes were given out to be reported,
    reported: u64,
    /// and when, if the first item was in part then.
    reported_at: Option<Instant>,
}

impl Tx {
    /// Appends a write; the caller flushes it.
    pub(crate) fn push(&self, item: Item) {
        self.relay.push(item);
    }

    /// Has the connection closed once all is written.
    pub(crate) fn close_when_written(&self) {
        self.relay.close_when_empty();
    }

    /// Returns how many bytes the socket has taken.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Notes that the socket is writable again, and returns whether to flush.
    pub(crate) fn handle_writable(&self) -> bool {
        self.relay.handle_room()
    }

    /// Forgets what is not written, and returns when nobody is writing any more.
    pub(crate) fn stop(&self) {
        self.relay.stop();
    }

    /// Writes until there is no more, the socket is full, or somebody else is writing.
    pub(crate) fn flush(&self, socket: BorrowedFd<'_>, counters: &Counters) -> Flushed {
        let mut flushed = Flushed::default();
        let write = |Taken { items, writer }: &mut Taken<Item, Writer>| {
            let (sent, full) = writer.write(items, socket, counters)?;
            flushed.moved |= sent > 0;
            self.written.fetch_add(sent as u64, Ordering::Release);
            Ok::<_, io::Error>(full)
        };
        let ended = self.relay.flush(write, |writer, ended| (writer.report(self.written()), ended));
        if let Some((sent, ended)) = ended {
            flushed.sent = sent;
            match ended {
                Ended::Empty { closing } => flushed.finished = closing,
                Ended::Failed(error) => flushed.error = Some(errno_of(&error)),
                Ended::Blocked | Ended::Stopped => {}
            }
        }
        flushed
    }
}

impl Writer {
    /// Writes once. Returns how much went, and whether the socket is full now.
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

    /// Forgets what is written.
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

    /// Returns how many bytes are to be reported, of `written` in all.
    fn report(&mut self, written: u64) -> u64 {
        let whole = written - self.skip as u64;
        let upto = if whole > self.reported {
            self.reported_at = None;
            whole
        } else if written > self.reported {
            // A clock is read for what does not fit into the socket only.
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

/// So many messages are written by one system call.
const BATCH_MAX: usize = 64;
/// How long the machine goes without a report while the socket takes a long message.
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
    fn goes_on_where_a_full_socket_stopped_and_reports_whole_messages() {
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
        assert_eq!(reported[0], 6, "the first is whole, the second is not");
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
    fn a_message_that_is_taken_slowly_is_reported_in_parts() {
        let mut writer = Writer { skip: 10, ..Writer::default() };
        assert_eq!(writer.report(10), 0, "it is not whole");
        writer.reported_at = Some(Instant::now() - REPORT_INTERVAL);
        writer.skip = 30;
        assert_eq!(writer.report(30), 30);
        writer.skip = 40;
        assert_eq!(writer.report(40), 0, "it was reported just now");
        writer.skip = 0;
        assert_eq!(writer.report(100), 70, "it is whole");
        assert_eq!(writer.report(100), 0);
    }

    #[test]
    fn a_stopped_queue_forgets_everything() {
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
