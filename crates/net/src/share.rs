//! How much one connection may read before others are served.

/// What a connection has read in a row.
#[derive(Debug, Default)]
pub(crate) struct Share {
    reads: usize,
    bytes: usize,
}

impl Share {
    /// Counts a read of so many bytes, by a connection with small messages or not. Returns whether
    /// others are served next.
    pub(crate) fn uses(&mut self, bytes: usize, small: bool) -> bool {
        self.reads += 1;
        self.bytes += bytes;
        let reads = if small { SMALL_READS_MAX } else { READS_MAX };
        self.reads >= reads || self.bytes >= BYTES_MAX
    }
}

/// The most reads in a row.
const READS_MAX: usize = 32;
/// The most reads in a row of small messages: each brings more than a hundred, and their answers
/// take longer than the read.
const SMALL_READS_MAX: usize = 2;
/// The most bytes in a row, which a router also writes.
const BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::SCRATCH;

    /// Returns the bytes that are read in a row by reads of this length.
    fn in_a_row(len: usize, small: bool) -> usize {
        let mut share = Share::default();
        let reads = (1..).find(|_| share.uses(len, small));
        reads.map_or(0, |reads| reads * len)
    }

    #[test]
    fn many_small_messages_leave_time_for_others() {
        // A ping with its frame has 96 bytes.
        assert!(in_a_row(SCRATCH, true) / 96 < 500);
        assert_eq!(in_a_row(SCRATCH, false), 32 * SCRATCH);
        assert_eq!(in_a_row(1 << 19, false), 1 << 20);
    }
}
