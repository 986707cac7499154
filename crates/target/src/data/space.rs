//! How many bytes objects occupy: what their owners pay for. Spec: mdt-ost §15.1, §19.4.
//!
//! Bytes count in blocks of 4 KiB, and only where there are data. The medium may say otherwise, since
//! it allocates late and in advance; so a target counts itself, and the sums are exact.

use std::ops::Range;

use fulmar_store::{ObjectId, Seek, StoreError};

use super::Data;

/// The unit of space in bytes.
pub const BLOCK: u64 = 4096;
/// How many holes or data are looked at in a range; the rest counts as one.
const PIECES_MAX: usize = 256;

/// Returns the end of the block that ends at or after `offset`.
pub fn block_end(offset: u64) -> u64 {
    offset.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Returns the blocks that a range of bytes is in, as a range of bytes.
pub(super) fn blocks_of(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK * BLOCK..block_end(range.end)
}

impl Data {
    /// Returns what an object occupies after bytes of it were written or allocated. `size`: before.
    pub(super) fn charged_after_write(
        &self,
        object: ObjectId,
        before: u64,
        size: u64,
        range: &Range<u64>,
    ) -> Result<u64, StoreError> {
        let blocks = blocks_of(range);
        let end = block_end(size);
        let behind = blocks.end.saturating_sub(blocks.start.max(end));
        let inside = blocks.start..blocks.end.min(end);
        let is_dense = before >= end;
        let holes = if is_dense { 0 } else { self.count(object, inside, Seek::Hole)? };
        let most = before.max(block_end(range.end.max(size)));
        Ok((before + behind + holes).min(most))
    }

    /// Returns what an object occupies after it was cut to `to` bytes. `size`: before.
    pub(super) fn charged_after_cut(
        &self,
        object: ObjectId,
        before: u64,
        size: u64,
        to: u64,
    ) -> Result<u64, StoreError> {
        let (end, to) = (block_end(size), block_end(to));
        if before >= end || to == 0 {
            return Ok(before.min(to));
        }
        let freed = self.count(object, to..end, Seek::Data)?;
        Ok(before.saturating_sub(freed).min(to))
    }

    /// Returns what an object occupies after a range became a hole.
    pub(super) fn charged_after_punch(
        &self,
        object: ObjectId,
        before: u64,
        range: &Range<u64>,
    ) -> Result<u64, StoreError> {
        let whole = block_end(range.start)..range.end / BLOCK * BLOCK;
        Ok(before.saturating_sub(self.count(object, whole, Seek::Data)?))
    }

    /// Returns how many bytes of a range of blocks are in holes, or have data.
    fn count(&self, object: ObjectId, range: Range<u64>, what: Seek) -> Result<u64, StoreError> {
        let other = if what == Seek::Hole { Seek::Data } else { Seek::Hole };
        let (mut at, mut total) = (range.start, 0);
        for _ in 0..PIECES_MAX {
            if at >= range.end {
                return Ok(total);
            }
            let Some(start) = self.store.seek(object, at, what)? else { return Ok(total) };
            // The end of an object in the middle of a block is not a hole.
            let start = if what == Seek::Hole { block_end(start) } else { start / BLOCK * BLOCK };
            let start = start.max(at);
            if start >= range.end {
                return Ok(total);
            }
            let end = self.store.seek(object, start, other)?.map_or(range.end, block_end);
            let end = end.clamp(start, range.end);
            total += end - start;
            at = end.max(start + BLOCK);
        }
        Ok(total + range.end.saturating_sub(at))
    }
}
