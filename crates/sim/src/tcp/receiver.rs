//! The receiving half of a stream: received ranges and the window.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fulmar_base::Time;

use super::autotune::ReceiveBuffer;
use crate::options::Tcp;

/// The receiving half of a stream.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The first missing byte.
    next: u64,
    /// Received ranges beyond it, as start and end; they do not touch.
    beyond: BTreeMap<u64, u64>,
    /// The first unread byte.
    read: u64,
    /// The end of the window that was advertised to the peer.
    advertised: u64,
    buffer: ReceiveBuffer,
    segment: u64,
}

impl Receiver {
    pub(crate) fn new(tcp: &Tcp) -> Self {
        let segment = tcp.segment();
        let buffer = ReceiveBuffer::new(tcp.read_buffer, segment, tcp.autotune);
        let advertised = buffer.window();
        Self { next: 0, beyond: BTreeMap::new(), read: 0, advertised, buffer, segment }
    }

    /// Handles received bytes, and returns how many more can be read now.
    pub(crate) fn handle_bytes(&mut self, bytes: Range<u64>) -> u64 {
        let before = self.next;
        if bytes.start > self.next {
            self.keep(bytes);
            return 0;
        }
        self.next = self.next.max(bytes.end);
        while let Some(entry) = self.beyond.first_entry().filter(|e| *e.key() <= self.next) {
            self.next = self.next.max(entry.remove());
        }
        self.next - before
    }

    /// Keeps bytes that arrived out of order.
    fn keep(&mut self, bytes: Range<u64>) {
        let Range { mut start, mut end } = bytes;
        while let Some((&first, &last)) = self.beyond.range(..=end).next_back() {
            if last < start {
                break;
            }
            (start, end) = (start.min(first), end.max(last));
            self.beyond.remove(&first);
        }
        self.beyond.insert(start, end);
    }

    /// Notes that bytes were read. The round trip is zero while it is unknown.
    pub(crate) fn handle_read(&mut self, now: Time, len: u64, round_trip: Duration) {
        self.read += len;
        self.buffer.handle_read(now, len, round_trip);
    }

    /// Returns whether bytes before received ones are missing.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// Returns the first missing byte.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the end of the window, which is advertised to the peer next.
    pub(crate) fn advertise_edge(&mut self) -> u64 {
        self.advertised = self.read + self.buffer.window();
        self.advertised
    }

    /// Returns whether the window has grown enough for an update to the peer.
    pub(crate) fn should_advertise(&self) -> bool {
        let window = self.buffer.window();
        let more = self.read + window - self.advertised;
        more > 0 && more >= (2 * self.segment).min(window.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        let tcp = Tcp { mtu: 152, ..Tcp::default() };
        Receiver::new(&tcp.with_buffers(1_000))
    }

    #[test]
    fn out_of_order_bytes_are_kept_until_the_gap_is_filled() {
        let mut receiver = receiver();
        assert_eq!(receiver.handle_bytes(0..10), 10);
        assert_eq!(receiver.handle_bytes(20..30), 0);
        assert_eq!(receiver.handle_bytes(40..50), 0);
        assert_eq!(receiver.handle_bytes(25..41), 0);
        assert_eq!(receiver.beyond.len(), 1);
        assert_eq!(receiver.handle_bytes(5..15), 5, "partly a duplicate");
        assert_eq!(receiver.handle_bytes(15..20), 35);
        assert_eq!((receiver.next(), receiver.beyond.len()), (50, 0));
    }

    #[test]
    fn the_window_is_advertised_when_it_has_grown_enough() {
        let mut receiver = receiver();
        receiver.handle_bytes(0..500);
        receiver.handle_read(Time::ZERO, 100, Duration::ZERO);
        assert!(!receiver.should_advertise());
        receiver.handle_read(Time::ZERO, 100, Duration::ZERO);
        assert!(receiver.should_advertise());
        assert_eq!(receiver.advertise_edge(), 1_200);
        assert!(!receiver.should_advertise());
    }
}
