//! The debug log: the latest lines, bounded in bytes.

use std::collections::VecDeque;

/// The longest line in bytes; what is behind that is cut off.
const LINE_MAX: usize = 4096;
/// What a line takes beside its text, in the table and in the allocator.
const LINE_OVERHEAD: usize = 48;

/// Lines in their order. The oldest give way to new ones.
#[derive(Debug)]
pub(super) struct Ring {
    lines: VecDeque<Box<str>>,
    /// What they take, at most `limit`.
    bytes: usize,
    limit: usize,
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, limit }
    }

    /// Adds a line, which ends with a line feed.
    pub(super) fn push(&mut self, mut line: String) {
        if line.len() > LINE_MAX {
            let ends = (0..LINE_MAX).rev().find(|end| line.is_char_boundary(*end));
            line.truncate(ends.unwrap_or(0));
            line.push('\n');
        }
        self.bytes += line.len() + LINE_OVERHEAD;
        self.lines.push_back(line.into());
        self.shrink();
    }

    /// Returns how many bytes it may take.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.shrink();
    }

    /// Returns all lines, which are then no longer there.
    pub(super) fn take(&mut self) -> Vec<Box<str>> {
        self.bytes = 0;
        std::mem::take(&mut self.lines).into()
    }

    /// Returns the oldest lines up to so many bytes, but one at least, which are then no longer there.
    pub(super) fn take_up_to(&mut self, room: usize) -> String {
        let mut text = String::new();
        while let Some(line) = self.lines.front() {
            if !text.is_empty() && text.len() + line.len() > room {
                break;
            }
            text += line;
            self.bytes -= line.len() + LINE_OVERHEAD;
            self.lines.pop_front();
        }
        text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn shrink(&mut self) {
        while self.bytes > self.limit {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= oldest.len() + LINE_OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(limit: usize, lines: &[&str]) -> Ring {
        let mut ring = Ring::new(limit);
        for line in lines {
            ring.push((*line).to_owned());
        }
        ring
    }

    #[test]
    fn the_oldest_lines_give_way() {
        let line = 10 + LINE_OVERHEAD;
        let mut ring = of(3 * line, &["line one.\n", "line two.\n", "line 333.\n", "line four\n"]);
        assert_eq!(ring.bytes, 3 * line);
        ring.set_limit(2 * line);
        assert!(!ring.is_empty() && ring.limit() == 2 * line);
        assert_eq!(of(9 * line, &["a\n", "bc\n", "d\n"]).take_up_to(5), "a\nbc\n");
        let mut one = of(9 * line, &["line\n"]);
        assert_eq!((one.take_up_to(1).as_str(), one.bytes, one.is_empty()), ("line\n", 0, true));
        let lines = ring.take();
        assert_eq!(lines, ["line 333.\n".into(), "line four\n".into()]);
        assert!(ring.is_empty() && ring.bytes == 0);
    }

    #[test]
    fn any_lines_stay_within_the_limit() {
        let mut ring = Ring::new(10_000);
        for length in 0..2_000 {
            ring.push("é".repeat(length * 7 % 3_000) + "\n");
            assert!(ring.bytes <= 10_000);
        }
        assert!(ring.take().iter().all(|line| line.len() <= LINE_MAX && line.ends_with('\n')));
        assert!(of(0, &["x\n"]).is_empty());
    }
}
