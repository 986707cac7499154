//! Reading directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, PoisonError};

use fulmar_base::Errno;
use fulmar_client::{Caller, DirectoryItem, FileSystem, inode};
use fuser::{INodeNo, ReplyDirectory};

use crate::attributes::kind;
use crate::handles::Handle;

/// The position at the end, which is one for `lseek` too.
const END: u64 = i64::MAX as u64;

/// What was read of a directory, and where the kernel has come to: one read from the server serves many of
/// the kernel.
#[derive(Debug, Default)]
pub(crate) struct Position {
    items: Arc<Vec<DirectoryItem>>,
    /// Where the server goes on after them.
    next: Option<u64>,
    /// The item that is next, and its position for the kernel.
    place: usize,
    at: Option<u64>,
}

/// Fills a reply with names from a position on.
pub(crate) async fn fill(
    (file_system, caller): (&FileSystem, &Caller),
    handle: &Handle,
    offset: u64,
    reply: &mut ReplyDirectory,
) -> Result<(), Errno> {
    let locked = || handle.position.lock().unwrap_or_else(PoisonError::into_inner);
    let mut position = std::mem::take(&mut *locked());
    if position.at != Some(offset) || offset == 0 {
        position = read(file_system, caller, handle, offset).await?;
    }
    loop {
        let is_full = add(&mut position, reply);
        let Some(next) = position.next.filter(|_| !is_full) else { break };
        position = read(file_system, caller, handle, next).await?;
    }
    *locked() = position;
    Ok(())
}

async fn read(
    file_system: &FileSystem,
    caller: &Caller,
    handle: &Handle,
    from: u64,
) -> Result<Position, Errno> {
    if from == END {
        return Ok(Position { at: Some(END), ..Position::default() });
    }
    let (items, next) = file_system.read_directory(caller, handle.file.fid(), from).await?;
    Ok(Position { items: Arc::new(items), next, place: 0, at: Some(from) })
}

/// Adds what fits, and returns whether something does not.
fn add(position: &mut Position, reply: &mut ReplyDirectory) -> bool {
    while let Some(item) = position.items.get(position.place) {
        let next = item.next.min(END);
        let name = OsStr::from_bytes(&item.name);
        if reply.add(INodeNo(inode(item.fid)), next, kind(item.file_type), name) {
            return true;
        }
        (position.place, position.at) = (position.place + 1, Some(next));
    }
    false
}
