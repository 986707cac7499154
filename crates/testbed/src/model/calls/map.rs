//! Shared mappings of files.
#![allow(unsafe_code)]

use std::fs::File;

use rustix::io::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Mappings begin at a multiple of this.
const PAGE: u64 = 4096;

/// Stores bytes at an offset, all of which the file has.
pub(super) fn store(file: &File, at: u64, bytes: &[u8]) -> Result<()> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the part is in the mapping, and no other part of this process uses that.
    mapped(file, (at, bytes.len()), access, |part| unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), part, bytes.len());
    })
}

/// Loads bytes at an offset, all of which the file has.
pub(super) fn load(file: &File, at: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    // SAFETY: as in `store`. Another process that changes the bytes meanwhile is one that the model knows.
    mapped(file, (at, bytes.len()), ProtFlags::READ, |part| unsafe {
        std::ptr::copy_nonoverlapping(part, bytes.as_mut_ptr(), bytes.len());
    })?;
    Ok(bytes)
}

/// Maps a range of a file, and calls `with` with where it begins.
fn mapped(
    file: &File,
    (at, len): (u64, usize),
    access: ProtFlags,
    with: impl FnOnce(*mut u8),
) -> Result<()> {
    let (start, within) = (at / PAGE * PAGE, (at % PAGE) as usize);
    let whole = (within + len).max(1);
    // SAFETY: the mapping is a new one, and goes when nothing uses it any more. The file has the range, or SIGBUS ends the
    // process, which has no state of others.
    unsafe {
        let mapping = mmap(std::ptr::null_mut(), whole, access, MapFlags::SHARED, file, start)?;
        if len > 0 {
            with(mapping.cast::<u8>().add(within));
        }
        munmap(mapping, whole)
    }
}
