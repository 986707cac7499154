//! How many bytes objects occupy: what their owners pay for. Spec: mdt-ost §15.1, §19.4.
//!
//! Bytes count in blocks of 4 KiB, and only where there are data. The medium may say otherwise, since
//! it allocates late and in advance; so a target counts itself, and the sums are exact: a change adds the
//! holes that it fills, and takes away the data that it frees.
//!
//! Data reach the medium before the transaction that counts them. So a change that is made again may find
//! no hole where it has written before. For it all of the object is counted except its own range.

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

/// An object before a change of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpace {
    /// What its owners pay for, in bytes.
    pub charged: u64,
    /// In bytes.
    pub size: u64,
    /// Whether the change may have reached the medium before: another attempt met a conflict, or the client
    /// sends its request again.
    pub is_repeated: bool,
}

impl Data {
    /// Returns what an object occupies after bytes of it were written or allocated.
    pub(super) fn charged_after_write(
        &self,
        object: ObjectId,
        before: ObjectSpace,
        range: &Range<u64>,
    ) -> Result<u64, StoreError> {
        let ObjectSpace { charged, size, is_repeated } = before;
        let (blocks, end) = (blocks_of(range), block_end(size));
        let len = blocks.end - blocks.start;
        let most = charged.max(block_end(range.end.max(size)));
        if charged < end && is_repeated {
            let others = self.count(object, 0..blocks.start.min(end), Seek::Data)?
                + self.count(object, blocks.end.min(end)..end, Seek::Data)?;
            return Ok(charged.max(others + len).min(most));
        }
        let behind = blocks.end.saturating_sub(blocks.start.max(end));
        let inside = blocks.start..blocks.end.min(end);
        let holes = if charged < end { self.count(object, inside, Seek::Hole)? } else { 0 };
        Ok((charged + behind + holes).max(len).min(most))
    }

    /// Returns what an object occupies after it was cut to `to` bytes.
    pub(super) fn charged_after_cut(
        &self,
        object: ObjectId,
        before: ObjectSpace,
        to: u64,
    ) -> Result<u64, StoreError> {
        let ObjectSpace { charged, size, is_repeated } = before;
        let (end, to) = (block_end(size), block_end(to));
        if charged >= end || to == 0 {
            return Ok(charged.min(to));
        }
        let rest = charged.saturating_sub(self.count(object, to..end, Seek::Data)?);
        let least = if is_repeated { self.count(object, 0..to, Seek::Data)? } else { 0 };
        Ok(rest.max(least).min(to))
    }

    /// Returns what an object occupies after a range became a hole.
    pub(super) fn charged_after_punch(
        &self,
        object: ObjectId,
        before: ObjectSpace,
        range: &Range<u64>,
    ) -> Result<u64, StoreError> {
        let ObjectSpace { charged, size, is_repeated } = before;
        let hole = block_end(range.start)..range.end / BLOCK * BLOCK;
        if is_repeated && !hole.is_empty() {
            let end = block_end(size);
            return Ok(self.count(object, 0..hole.start.min(end), Seek::Data)?
                + self.count(object, hole.end.min(end)..end, Seek::Data)?);
        }
        Ok(charged.saturating_sub(self.count(object, hole, Seek::Data)?))
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
