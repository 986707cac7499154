//! How much one connection may read before others are served.

/// What a connection may read in a row.
#[derive(Debug)]
pub(crate) struct Share {
    reads: usize,
    bytes: usize,
    small: usize,
}

impl Share {
    /// The share of each of so many connections that are ready at the same time.
    pub(crate) fn of_each(ready: usize) -> Self {
        let small = (SMALL_ROUND / ready.max(1)).clamp(SMALL_MIN, SMALL_MAX);
        Self { reads: READS_MAX, bytes: BYTES_MAX, small }
    }

    /// Returns how many bytes of small messages the next read may bring.
    pub(crate) fn small(&self) -> usize {
        self.small
    }

    /// Counts a read of so many bytes, by a connection with small messages or not. Returns whether
    /// others are served next.
    pub(crate) fn uses(&mut self, bytes: usize, small: bool) -> bool {
        self.reads -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        if small {
            self.small = self.small.saturating_sub(bytes);
        }
        self.reads == 0 || self.bytes == 0 || (small && self.small == 0)
    }
}

/// The most reads in a row.
const READS_MAX: usize = 32;
/// The most bytes in a row, which a router also writes.
const BYTES_MAX: usize = 1 << 20;
/// The bytes of small messages of all connections that are ready: some 170, whose answers take about
/// a millisecond. Who sends few waits for that long at each step of an RPC.
const SMALL_ROUND: usize = 16 << 10;
/// Those of one connection at least, which is worth a read, and at most.
const SMALL_MIN: usize = 512;
const SMALL_MAX: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::SCRATCH;

    /// Returns the bytes that are read in a row by reads of this length.
    fn in_a_row(ready: usize, len: usize, small: bool) -> usize {
        let mut share = Share::of_each(ready);
        let mut total = 0;
        loop {
            let len = if small { len.min(share.small()) } else { len };
            total += len;
            if share.uses(len, small) {
                return total;
            }
        }
    }

    #[test]
    fn many_small_messages_leave_time_for_others() {
        // A ping with its frame has 96 bytes.
        assert!(in_a_row(1, SCRATCH, true) / 96 < 500);
        for ready in [2, 8, 40, 1000] {
            let round = ready * in_a_row(ready, SCRATCH, true);
            assert!(round <= SMALL_ROUND.max(ready * SMALL_MIN), "{ready}: {round}");
        }
        assert_eq!(in_a_row(1000, SCRATCH, false), 32 * SCRATCH);
        assert_eq!(in_a_row(1000, 1 << 19, false), 1 << 20);
    }
}
