//! The receiving half of a stream: received ranges and the window.

use std::collections::BTreeMap;
use std::ops::Range;

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
    buffer: u64,
    segment: u64,
}

impl Receiver {
    pub(crate) fn new(buffer: u64, segment: u64) -> Self {
        Self { next: 0, beyond: BTreeMap::new(), read: 0, advertised: buffer, buffer, segment }
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

    /// Notes that bytes were read.
    pub(crate) fn handle_read(&mut self, len: u64) {
        self.read += len;
    }

    /// Returns the first missing byte.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the end of the window, which is advertised to the peer next.
    pub(crate) fn advertise_edge(&mut self) -> u64 {
        self.advertised = self.read + self.buffer;
        self.advertised
    }

    /// Returns whether the window has grown enough for an update to the peer.
    pub(crate) fn should_advertise(&self) -> bool {
        let more = self.read + self.buffer - self.advertised;
        more > 0 && more >= (2 * self.segment).min(self.buffer.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_order_bytes_are_kept_until_the_gap_is_filled() {
        let mut receiver = Receiver::new(1_000, 100);
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
        let mut receiver = Receiver::new(1_000, 100);
        receiver.handle_bytes(0..500);
        receiver.handle_read(100);
        assert!(!receiver.should_advertise());
        receiver.handle_read(100);
        assert!(receiver.should_advertise());
        assert_eq!(receiver.advertise_edge(), 1_200);
        assert!(!receiver.should_advertise());
    }
}
