//! What a store stands on: a few named files. A directory of the system is one such medium, the
//! simulated disk another, so that the same code runs over both.

mod directory;
mod image;
mod simulated;

use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub(crate) use directory::Directory;
pub use simulated::{Counts, Faults, SimulatedDisk};

/// The files of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Version and label. It is written last: without it there is no store.
    Header,
    /// The ordered keys.
    Keys,
    /// Room that is given up so that a full medium still takes removals.
    Reserve,
    /// Says that a sync has failed, to those who open the store in the same machine: the system's
    /// cache may have what the medium has not. It need not be durable.
    Fenced,
    /// The data of one object.
    Object(u64),
}

/// A place with files. Names are durable after `sync_names`, contents after [`File::sync`].
pub(crate) trait Medium: Debug + Send + Sync {
    /// Returns where it is, for messages.
    fn place(&self) -> String;
    /// Opens a file that exists.
    fn open(&self, name: Name) -> io::Result<Arc<dyn File>>;
    /// Creates a file, or empties the one that exists.
    fn create(&self, name: Name) -> io::Result<Arc<dyn File>>;
    /// Opens a file, which is created if it does not exist.
    fn create_if_missing(&self, name: Name) -> io::Result<Arc<dyn File>> {
        match self.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(name),
            opened => opened,
        }
    }
    /// Removes a file. Those who have it open may go on.
    fn remove(&self, name: Name) -> io::Result<()>;
    /// Makes all creations durable.
    fn sync_names(&self) -> io::Result<()>;
    /// Makes everything durable, also what an earlier process has written.
    fn sync_all(&self) -> io::Result<()>;
    /// Returns the numbers of the objects' files from `first` on, in any order.
    fn objects_from(&self, first: u64) -> io::Result<Vec<u64>>;
    /// Returns how large it is.
    fn room(&self) -> io::Result<Room>;
}

/// Returns whether an error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The size of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All bytes.
    pub total: u64,
    /// Those that can be used.
    pub free: u64,
}

/// An open file: sparse, and read as zeros where nothing was written.
pub(crate) trait File: Debug + Send + Sync {
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns the bytes that it occupies on the medium.
    fn allocated(&self) -> io::Result<u64>;
    /// Fills the segments, and returns how many bytes there were before the end of the file.
    fn read(&self, offset: u64, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// Writes all segments. After an error some of the bytes may be written.
    fn write(&self, offset: u64, segments: &[IoSlice<'_>]) -> io::Result<()>;
    /// Cuts the file, or extends it by a hole.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Replaces bytes by a hole. The length does not change.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Gets the blocks that writes of these bytes need. The length does not change.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns the first byte of data, or of a hole, from `offset` on. The end is a hole.
    fn seek(&self, offset: u64, what: Seek) -> io::Result<Option<u64>>;
    /// Makes contents and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Lets the next reads come from the medium.
    fn forget_cache(&self) -> io::Result<()>;
    /// Returns the descriptor, if the system knows the file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// What to look for in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that was written.
    Data,
    /// The next byte that was not; at the latest the end.
    Hole,
}
