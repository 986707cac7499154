//! Objects that are cut or allocated, and where their data are. Spec: mdt-ost §16.1, §16.6, §16.7, §16.9.

use std::ops::Range;

use fulmar_base::Errno;
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{FallocateMode, Fiemap, FiemapExtent, FiemapHeader, Obdo};
use fulmar_store::{ObjectId, Seek, StoreError, Transaction};

use super::{Data, ObjectSpace};
use crate::Failure;

/// The end of a range that goes to the end of the object.
pub const EOF: u64 = u64::MAX;
/// The most extents of a map.
const EXTENTS_MAX: u32 = 4096;

/// What a FALLOCATE wants.
#[derive(Clone, Debug)]
pub struct Allocation {
    range: Range<u64>,
    mode: FallocateMode,
}

impl Allocation {
    /// Returns whether the range becomes a hole.
    pub fn is_hole(&self) -> bool {
        self.mode.has(FallocateMode::PUNCH_HOLE)
    }

    /// Returns where it ends.
    pub fn end(&self) -> u64 {
        self.range.end
    }

    /// Returns the body of the reply to one that fails.
    fn failed(asked: &Obdo, errno: Errno) -> Failure {
        let body = Obdo { valid: Valid::FLID, id: asked.id, ..Obdo::default() };
        Failure::Failed(errno, Box::new(body))
    }
}

impl Data {
    /// Checks what a FALLOCATE wants, in the order of a kernel server. `is_old`: the client says less.
    ///
    /// # Errors
    /// EOPNOTSUPP, EINVAL if the range is empty, EFBIG, ENOSPC.
    pub fn allocation(&self, asked: &Obdo, is_old: bool) -> Result<Allocation, Failure> {
        let (range, mode) = (asked.size..asked.blocks, FallocateMode(asked.nlink));
        let known =
            FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE;
        let has_range = asked.valid.has(Valid::FLSIZE | Valid::FLBLOCKS);
        let is_empty = range.start >= range.end;
        let errno = match () {
            () if !has_range && !is_old || is_old && is_empty => Errno::EOPNOTSUPP,
            () if is_empty => Errno::EINVAL,
            () if mode.0 & !known.0 != 0 => Errno::EOPNOTSUPP,
            () if range.end > self.settings.bytes_max => Errno::EFBIG,
            () if !mode.has(FallocateMode::PUNCH_HOLE)
                && range.end - range.start > self.left()? =>
            {
                Errno::ENOSPC
            }
            () => return Ok(Allocation { range, mode }),
        };
        Err(Allocation::failed(asked, errno))
    }

    /// Adds an allocation to a transaction. Returns what the object occupies and its size afterwards.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn allocate(
        &self,
        transaction: &mut Transaction<'_>,
        object: ObjectId,
        allocation: &Allocation,
        before: ObjectSpace,
    ) -> Result<(u64, u64), StoreError> {
        let size = before.size;
        let Allocation { range, mode } = allocation;
        let keeps_size = mode.has(FallocateMode::KEEP_SIZE) || allocation.is_hole();
        if allocation.is_hole() || mode.has(FallocateMode::ZERO_RANGE) {
            transaction.punch(object, range.clone());
        }
        if allocation.is_hole() {
            return Ok((self.charged_after_punch(object, before, range)?, size));
        }
        transaction.allocate(object, range.clone());
        let end = if keeps_size { size } else { size.max(range.end) };
        if end > size {
            transaction.truncate(object, end);
        }
        Ok((self.charged_after_write(object, before, range)?, end))
    }

    /// Adds to a transaction that an object has `to` bytes. Returns what it occupies afterwards.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn cut(
        &self,
        transaction: &mut Transaction<'_>,
        object: ObjectId,
        before: ObjectSpace,
        to: u64,
    ) -> Result<u64, StoreError> {
        transaction.truncate(object, to);
        if to >= before.size {
            return Ok(before.charged);
        }
        transaction.release_space();
        self.charged_after_cut(object, before, to)
    }

    /// Answers SEEK about an object that exists.
    ///
    /// # Errors
    /// EPROTO, EIO.
    pub fn seek(&self, asked: &Obdo, object: ObjectId) -> Result<Obdo, Failure> {
        let what = Self::check_seek(asked)?;
        let found = self.store.seek(object, asked.size, what)?;
        // An error takes the place of the offset.
        let none = i64::from(-Errno::ENXIO.0) as u64;
        Ok(Obdo { size: found.unwrap_or(none), ..*asked })
    }

    /// Checks what a SEEK wants.
    ///
    /// # Errors
    /// EPROTO.
    pub fn check_seek(asked: &Obdo) -> Result<Seek, Errno> {
        const DATA: u32 = 3;
        const HOLE: u32 = 4;
        match asked.mode {
            _ if asked.size > i64::MAX as u64 => Err(Errno::EPROTO),
            DATA => Ok(Seek::Data),
            HOLE => Ok(Seek::Hole),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Returns where an object has data. `device`: the index of the target.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn map(
        &self,
        object: ObjectId,
        range: FiemapHeader,
        device: u16,
    ) -> Result<Fiemap, StoreError> {
        const LAST: u32 = 0x1;
        /// The place on the medium is not known.
        const UNKNOWN: u32 = 0x2;
        let end = range.start.saturating_add(range.len);
        let (mut at, mut extents) = (range.start, vec![]);
        let mut header = FiemapHeader { mapped: 0, ..range };
        let is_counted = range.count == 0;
        let most = if is_counted { EXTENTS_MAX } else { range.count.min(EXTENTS_MAX) };
        while header.mapped < most && at < end {
            let Some(start) = self.store.seek(object, at, Seek::Data)? else { break };
            if start >= end {
                break;
            }
            let stop = self.store.seek(object, start, Seek::Hole)?.unwrap_or(end);
            let is_last = self.store.seek(object, stop, Seek::Data)?.is_none();
            let flags = UNKNOWN | if is_last { LAST } else { 0 };
            let len = stop.saturating_sub(start);
            let device = device.into();
            header.mapped += 1;
            if !is_counted {
                extents.push(FiemapExtent {
                    logical: start,
                    len,
                    flags,
                    device,
                    ..Default::default()
                });
            }
            at = stop.max(start + 1);
        }
        Ok(Fiemap { header, extents })
    }
}
