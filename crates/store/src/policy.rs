//! When batches are committed, and what a store may keep.

use std::time::Duration;

/// The bounds of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The longest time from the first transaction of a batch to its commit.
    pub interval: Duration,
    /// A batch is committed when its changes take this much memory. Four times as much stops those
    /// who apply transactions until the commit that is under way has ended.
    pub batch_bytes: usize,
    /// A batch is committed when so many objects were written.
    pub batch_objects: usize,
    /// The room in bytes that is kept for removals on a full medium.
    pub reserve: u64,
    /// How many objects' files are open at most, beside those of the batches.
    pub open_objects: usize,
    /// The memory for pages of the keys in bytes.
    pub cache: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(50),
            batch_bytes: 8 << 20,
            batch_objects: 1024,
            reserve: 256 << 20,
            open_objects: 1024,
            cache: 1 << 30,
        }
    }
}
