//! Whether the bytes that arrived are those that were sent.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_net::Buffer;

use crate::exchange::pattern;

/// Checks messages of one length that lie in a buffer one after the other.
///
/// A message begins and ends with its number; between them is the same pattern each time. To check
/// every byte of every message would be to measure the memory, so each message is checked at both
/// ends and in one page, the next one each time. What was checked is erased, so that the bytes of
/// an earlier message do not pass for those of a later one.
pub(crate) struct Checker {
    pattern: Vec<u8>,
    checked: AtomicU64,
    wrong: Mutex<Option<String>>,
}

impl Checker {
    pub(crate) fn new(len: usize) -> Self {
        assert!(len >= STAMP, "a message has room for its number");
        Self { pattern: pattern(0, len), checked: AtomicU64::new(0), wrong: Mutex::new(None) }
    }

    /// Makes every message in `buffer` one with the pattern and its place for a number.
    pub(crate) fn fill(&self, buffer: &Buffer) {
        for (number, offset) in (0..buffer.len()).step_by(self.pattern.len()).enumerate() {
            buffer.write_at(offset, &self.pattern);
            self.stamp(buffer, offset, number as u64);
        }
    }

    /// Writes the number of the message at `offset`.
    pub(crate) fn stamp(&self, buffer: &Buffer, offset: usize, number: u64) {
        for at in self.stamps() {
            buffer.write_at(offset + at, &number.to_ne_bytes());
        }
    }

    /// Checks the message at `offset`, which should have that number, and erases what it checked.
    pub(crate) fn check(&self, buffer: &Buffer, offset: usize, number: u64) {
        let turn = self.checked.fetch_add(1, Ordering::Relaxed);
        let mut is_right = true;
        for at in self.stamps() {
            let mut stamp = [0; STAMP];
            buffer.read_at(offset + at, &mut stamp);
            is_right &= stamp == number.to_ne_bytes();
        }
        // In the shortest messages both are one.
        self.stamp(buffer, offset, ERASED);
        let page = self.page(turn);
        let mut bytes = [0; PAGE];
        let bytes = &mut bytes[..page.len()];
        buffer.read_at(offset + page.start, bytes);
        is_right &= *bytes == self.pattern[page.clone()];
        buffer.write_at(offset + page.start, &[0; PAGE][..page.len()]);
        if !is_right {
            let text = format!("message {number} at {offset} is not the one that was sent");
            self.wrong.lock().expect("nobody panics here").get_or_insert(text);
        }
    }

    /// Returns how many messages were checked, provided that all were right.
    pub(crate) fn result(&self) -> Result<u64, String> {
        match &*self.wrong.lock().expect("nobody panics here") {
            None => Ok(self.checked.load(Ordering::Relaxed)),
            Some(wrong) => Err(format!(
                "{wrong}: this is a bug of Fulmar, or the memory of this machine is broken"
            )),
        }
    }

    /// Where a message has its number.
    fn stamps(&self) -> [usize; 2] {
        [0, self.pattern.len() - STAMP]
    }

    /// The page between the numbers whose turn it is; empty in a message that is all number.
    fn page(&self, turn: u64) -> Range<usize> {
        let body = STAMP..(self.pattern.len() - STAMP).max(STAMP);
        let pages = body.len().div_ceil(PAGE).max(1) as u64;
        let start = body.start + (turn % pages) as usize * PAGE;
        start..(start + PAGE).min(body.end)
    }
}

/// No message has this number.
const ERASED: u64 = u64::MAX;
/// Bytes in a message's number.
const STAMP: usize = 8;
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_net::{Node, Options, Runtime};

    fn buffer(len: usize) -> Buffer {
        let runtime = Runtime::new(Some(1)).unwrap();
        Node::start(&runtime, Options::default()).unwrap().allocate(len)
    }

    #[test]
    fn a_message_passes_once() {
        for len in [8, 16, 100, 5000, 3 * PAGE + 16] {
            let (checker, buffer) = (Checker::new(len), buffer(2 * len));
            checker.fill(&buffer);
            checker.stamp(&buffer, len, 7);
            checker.check(&buffer, len, 7);
            assert_eq!(checker.result(), Ok(1), "{len} bytes");
            checker.check(&buffer, len, 7);
            assert!(checker.result().is_err(), "{len} bytes");
        }
    }

    #[test]
    fn every_byte_has_its_turn() {
        let len = 3 * PAGE + 100;
        for at in 0..len {
            let checker = Checker::new(len);
            let covered = (0..4).any(|turn| checker.page(turn).contains(&at));
            let stamped = checker.stamps().iter().any(|start| (*start..start + 8).contains(&at));
            assert!(covered != stamped, "byte {at}");
        }
    }

    #[test]
    fn a_byte_that_changed_is_found() {
        let (checker, buffer) = (Checker::new(5000), buffer(5000));
        checker.fill(&buffer);
        checker.stamp(&buffer, 0, 1);
        buffer.write_at(2000, &[buffer.to_vec(2000, 1)[0] ^ 1]);
        checker.check(&buffer, 0, 1);
        assert!(checker.result().is_err());
    }
}
