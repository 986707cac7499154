//! Mappings of files.
#![allow(unsafe_code)]

use std::fs::File;

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::super::operation::PAGE;

const STORE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Stores bytes at an offset, all of which the file has, in a shared mapping.
pub(super) fn store(file: &File, at: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the part is in the mapping, and no other part of this process uses that.
    mapped(file, (at, bytes.len()), STORE, MapFlags::SHARED, |part| unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), part, bytes.len());
    })
}

/// Loads bytes at an offset, all of which the file has, from a shared mapping.
pub(super) fn load(file: &File, at: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    // SAFETY: as in `store`. Another process that changes the bytes meanwhile is one that the model knows.
    mapped(file, (at, bytes.len()), ProtFlags::READ, MapFlags::SHARED, |part| unsafe {
        std::ptr::copy_nonoverlapping(part, bytes.as_mut_ptr(), bytes.len());
    })?;
    Ok(bytes)
}

/// Stores bytes at `at` in a private mapping of a range, and loads that whole. The file has the range, and the bytes are in it.
pub(super) fn private(
    file: &File,
    (start, len): (u64, u64),
    at: u64,
    bytes: &[u8],
) -> Result<Vec<u8>> {
    let (within, mut seen) = ((at - start) as usize, vec![0; len as usize]);
    // SAFETY: as in `load`; the bytes are in the mapping from `within` on.
    mapped(file, (start, seen.len()), STORE, MapFlags::PRIVATE, |part| unsafe {
        if !bytes.is_empty() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.add(within), bytes.len());
        }
        std::ptr::copy_nonoverlapping(part, seen.as_mut_ptr(), seen.len());
    })?;
    Ok(seen)
}

/// Maps a range of a file, and calls `with` with where it begins.
fn mapped(
    file: &File,
    (at, len): (u64, usize),
    access: ProtFlags,
    sharing: MapFlags,
    with: impl FnOnce(*mut u8),
) -> Result<()> {
    let (start, within) = (at / PAGE * PAGE, (at % PAGE) as usize);
    let whole = (within + len).max(1);
    // SAFETY: the mapping is a new one, and goes when nothing uses it any more. The file has the range, or SIGBUS ends the
    // process, which has no state of others.
    unsafe {
        let mapping = mmap(std::ptr::null_mut(), whole, access, sharing, file, start)?;
        if len > 0 {
            with(mapping.cast::<u8>().add(within));
        }
        munmap(mapping, whole)
    }
}
