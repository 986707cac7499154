//! The receiving half of a stream: what has come, in whatever order, and the room for more.

use std::collections::BTreeMap;
use std::ops::Range;

/// The receiving half of a stream.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The first byte that has not come.
    next: u64,
    /// What has come beyond it: ends by starts, apart from each other.
    beyond: BTreeMap<u64, u64>,
    /// The first byte that was not read.
    read: u64,
    /// The peer was told that there is room up to here.
    told: u64,
    buffer: u64,
    segment: u64,
}

impl Receiver {
    pub(crate) fn new(buffer: u64, segment: u64) -> Self {
        Self { next: 0, beyond: BTreeMap::new(), read: 0, told: buffer, buffer, segment }
    }

    /// Takes bytes that have come, and returns how many can be read that could not before.
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

    /// Keeps what came too early.
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

    /// Takes word that bytes were read.
    pub(crate) fn handle_read(&mut self, len: u64) {
        self.read += len;
    }

    /// Returns the first byte that has not come.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns up to where there is room; the peer is about to be told.
    pub(crate) fn tell_edge(&mut self) -> u64 {
        self.told = self.read + self.buffer;
        self.told
    }

    /// Returns whether there is so much more room than the peer knows that it should be told.
    pub(crate) fn has_news(&self) -> bool {
        let more = self.read + self.buffer - self.told;
        more > 0 && more >= (2 * self.segment).min(self.buffer.div_ceil(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_early_is_kept_until_the_gap_is_filled() {
        let mut receiver = Receiver::new(1_000, 100);
        assert_eq!(receiver.handle_bytes(0..10), 10);
        assert_eq!(receiver.handle_bytes(20..30), 0);
        assert_eq!(receiver.handle_bytes(40..50), 0);
        assert_eq!(receiver.handle_bytes(25..41), 0);
        assert_eq!(receiver.beyond.len(), 1);
        assert_eq!(receiver.handle_bytes(5..15), 5, "again, and more");
        assert_eq!(receiver.handle_bytes(15..20), 35);
        assert_eq!((receiver.next(), receiver.beyond.len()), (50, 0));
    }

    #[test]
    fn room_is_told_when_there_is_enough_of_it() {
        let mut receiver = Receiver::new(1_000, 100);
        receiver.handle_bytes(0..500);
        receiver.handle_read(100);
        assert!(!receiver.has_news());
        receiver.handle_read(100);
        assert!(receiver.has_news());
        assert_eq!(receiver.tell_edge(), 1_200);
        assert!(!receiver.has_news());
    }
}
