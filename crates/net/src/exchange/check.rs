//! Checks that the bytes that arrived are those that were sent.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pattern;
use crate::Buffer;

/// Checks messages of one length that are stored in a buffer one after the other.
///
/// A message begins and ends with its number; between them is a fixed pattern. Checking every byte
/// of every message would measure the memory bandwidth, so each check covers both ends and one page,
/// the next page each time. Checked bytes are erased, so that the bytes of an earlier message are
/// not taken for those of a later one.
#[derive(Debug)]
pub struct Checker {
    pattern: Vec<u8>,
    checked: AtomicU64,
    wrong: Mutex<Option<String>>,
}

impl Checker {
    /// Returns a checker of messages of `len` bytes.
    ///
    /// # Panics
    /// If a message has no room for its number, which is 8 bytes.
    pub fn new(len: usize) -> Self {
        assert!(len >= STAMP, "a message needs room for its number");
        Self { pattern: pattern(0, len), checked: AtomicU64::new(0), wrong: Mutex::new(None) }
    }

    /// Writes the pattern to every message in `buffer`, and its index as its number.
    pub fn fill(&self, buffer: &Buffer) {
        for (number, offset) in (0..buffer.len()).step_by(self.pattern.len()).enumerate() {
            buffer.write_at(offset, &self.pattern);
            self.stamp(buffer, offset, number as u64);
        }
    }

    /// Writes the number of the message at `offset`.
    pub fn stamp(&self, buffer: &Buffer, offset: usize, number: u64) {
        for at in self.stamps() {
            buffer.write_at(offset + at, &number.to_ne_bytes());
        }
    }

    /// Checks the message at `offset`, which must have this number, and erases the checked bytes.
    pub fn check(&self, buffer: &Buffer, offset: usize, number: u64) {
        let turn = self.checked.fetch_add(1, Ordering::Relaxed);
        let mut is_right = true;
        for at in self.stamps() {
            let mut stamp = [0; STAMP];
            buffer.read_at(offset + at, &mut stamp);
            is_right &= stamp == number.to_ne_bytes();
        }
        // In the shortest messages both stamps are the same bytes.
        self.stamp(buffer, offset, ERASED);
        let page = self.page(turn);
        let mut bytes = [0; PAGE];
        let bytes = &mut bytes[..page.len()];
        buffer.read_at(offset + page.start, bytes);
        is_right &= *bytes == self.pattern[page.clone()];
        buffer.write_at(offset + page.start, &[0; PAGE][..page.len()]);
        if !is_right {
            let text = format!("message {number} at offset {offset} has wrong data");
            self.wrong.lock().expect("no holder of the lock panics").get_or_insert(text);
        }
    }

    /// Returns how many messages were checked.
    ///
    /// # Errors
    /// The first message that was wrong.
    pub fn result(&self) -> Result<u64, String> {
        match &*self.wrong.lock().expect("no holder of the lock panics") {
            None => Ok(self.checked.load(Ordering::Relaxed)),
            Some(wrong) => Err(format!(
                "{wrong}: this is a bug of Fulmar, or the memory of this machine is faulty"
            )),
        }
    }

    /// The offsets of the number within a message.
    fn stamps(&self) -> [usize; 2] {
        [0, self.pattern.len() - STAMP]
    }

    /// The page to check at this turn; empty in a message that has only its number.
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
    #[test]
    fn a_message_passes_the_check_only_once() {
        for len in [8, 16, 100, 5000, 3 * PAGE + 16] {
            let (checker, buffer) = (Checker::new(len), Buffer::new(2 * len));
            checker.fill(&buffer);
            checker.stamp(&buffer, len, 7);
            checker.check(&buffer, len, 7);
            assert_eq!(checker.result(), Ok(1), "{len} bytes");
            checker.check(&buffer, len, 7);
            assert!(checker.result().is_err(), "{len} bytes");
        }
    }

    #[test]
    fn every_byte_is_checked_at_some_turn() {
        let len = 3 * PAGE + 100;
        for at in 0..len {
            let checker = Checker::new(len);
            let covered = (0..4).any(|turn| checker.page(turn).contains(&at));
            let stamped = checker.stamps().iter().any(|start| (*start..start + 8).contains(&at));
            assert!(covered != stamped, "byte {at}");
        }
    }

    #[test]
    fn a_changed_byte_is_detected() {
        let (checker, buffer) = (Checker::new(5000), Buffer::new(5000));
        checker.fill(&buffer);
        checker.stamp(&buffer, 0, 1);
        buffer.write_at(2000, &[buffer.to_vec(2000, 1)[0] ^ 1]);
        checker.check(&buffer, 0, 1);
        assert!(checker.result().is_err());
    }
}
