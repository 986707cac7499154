//! A directory of the system.
//!
//! ```text
//! lock  store  keys  reserve  objects/00000/000 … objects/00000/fff  objects/00001/000 …
//! ```

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use super::{File, Medium, Name, Room, Seek, is_full};
use crate::StoreError;

/// The objects' files of a directory; the rest of the number names the directory.
const FILES_PER_DIRECTORY: u64 = 4096;
/// The most segments of one system call (`IOV_MAX`).
const SEGMENTS_MAX: usize = 1024;
/// The permission of everybody to put files into a directory.
const WRITE_OF_ALL: u32 = 0o002;

/// A directory that no other process has open as a store.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    /// Directories with names that are not durable yet.
    unsynced: Mutex<BTreeSet<PathBuf>>,
    /// Holds the lock.
    lock: fs::File,
}

impl Directory {
    /// Locks a directory for a new store, in which there is nothing else.
    pub(crate) fn create(root: &Path) -> Result<Self, StoreError> {
        let place = root.display().to_string();
        let of_io = |error: io::Error| StoreError::of_io(&place, "look at it", &error);
        if fs::metadata(root).map_err(of_io)?.mode() & WRITE_OF_ALL != 0 {
            return Err(StoreError::OpenToAll { place });
        }
        match foreign(root).map_err(|error| StoreError::of_io(&place, "list it", &error))? {
            Some(what) => Err(StoreError::Occupied { place, what }),
            None => Self::lock(root),
        }
    }

    /// Locks a directory with a store.
    pub(crate) fn open(root: &Path) -> Result<Self, StoreError> {
        let place = root.display().to_string();
        if !root.is_dir() {
            return Err(StoreError::NotAStore { place, why: "there is no such directory" });
        }
        if !root.join("store").exists() {
            return Err(StoreError::NotAStore { place, why: "it has no file named store" });
        }
        Self::lock(root)
    }

    fn lock(root: &Path) -> Result<Self, StoreError> {
        let place = root.display().to_string();
        let of_io = |error: io::Error| StoreError::of_io(&place, "open the lock file", &error);
        let path = root.join("lock");
        let mut lock = own_file().create(true).truncate(false).open(&path).map_err(of_io)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let pid = fs::read_to_string(&path).unwrap_or_default();
                let holder = match pid.trim() {
                    "" => "another process".to_owned(),
                    pid => format!("process {pid}"),
                };
                return Err(StoreError::Locked { place, holder });
            }
            Err(error) => return Err(of_io(error.into())),
        }
        let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        match written {
            // Only the number for others is missing.
            Err(error) if is_full(&error) => {}
            written => written.map_err(of_io)?,
        }
        Ok(Self { root: root.to_owned(), unsynced: Mutex::default(), lock })
    }

    fn path(&self, name: Name) -> PathBuf {
        match name {
            Name::Header => self.root.join("store"),
            Name::Keys => self.root.join("keys"),
            Name::Reserve => self.root.join("reserve"),
            Name::Fenced => self.root.join("fenced"),
            Name::Object(number) => {
                let (directory, file) =
                    (number / FILES_PER_DIRECTORY, number % FILES_PER_DIRECTORY);
                self.root
                    .join("objects")
                    .join(format!("{directory:05x}"))
                    .join(format!("{file:03x}"))
            }
        }
    }

    /// Held while directories are created, so that no name in one is synced without its own.
    fn unsynced(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Directory {
    /// A process that is being started has all open files until it is executed, and would keep the lock.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Returns how files of a store are opened: never what a symbolic link names, which somebody else has put there.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Returns a name in a directory that is not of a creation of a store. An interrupted one leaves all
/// but objects.
fn foreign(root: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let ours = ["lock", "store", "keys", "reserve", "lost+found"];
        if !ours.contains(&name.as_str()) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

impl Medium for Directory {
    fn place(&self) -> String {
        self.root.display().to_string()
    }

    fn open(&self, name: Name) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(own_file().open(self.path(name))?))
    }

    fn create(&self, name: Name) -> io::Result<Arc<dyn File>> {
        let path = self.path(name);
        let parent = path.parent().unwrap_or(&self.root);
        let mut options = own_file();
        options.create(true).truncate(true);
        let mut file = options.open(&path);
        if file.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let mut unsynced = self.unsynced();
            fs::create_dir_all(parent)?;
            unsynced.extend([self.root.clone(), self.root.join("objects")]);
            drop(unsynced);
            file = options.open(&path);
        }
        self.unsynced().insert(parent.to_owned());
        Ok(Arc::new(file?))
    }

    fn remove(&self, name: Name) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        let directories = std::mem::take(&mut *self.unsynced());
        directories.iter().try_for_each(|directory| fs::File::open(directory)?.sync_all())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(&self.root)?)?)
    }

    fn objects_from(&self, first: u64) -> io::Result<Vec<u64>> {
        let numbers_in = |directory: &Path| -> io::Result<Vec<u64>> {
            let entries = match fs::read_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
                entries => entries?,
            };
            let mut numbers = vec![];
            for entry in entries {
                let name = entry?.file_name();
                numbers.extend(name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok()));
            }
            Ok(numbers)
        };
        let objects = self.root.join("objects");
        let mut found = vec![];
        for directory in numbers_in(&objects)? {
            if directory >= first / FILES_PER_DIRECTORY {
                let files = numbers_in(&objects.join(format!("{directory:05x}")))?;
                found.extend(files.into_iter().map(|file| directory * FILES_PER_DIRECTORY + file));
            }
        }
        found.retain(|number| *number >= first);
        Ok(found)
    }

    fn room(&self) -> io::Result<Room> {
        let status = rustix::fs::statvfs(&self.root)?;
        let [total, free] =
            [status.f_blocks, status.f_bavail].map(|blocks| blocks * status.f_frsize);
        Ok(Room { total, free })
    }
}

impl File for fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn allocated(&self) -> io::Result<u64> {
        // The unit of st_blocks is 512 bytes, whatever the block size of the file system.
        Ok(self.metadata()?.blocks() * 512)
    }

    fn read(&self, offset: u64, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut rest = segments;
        let mut done = 0;
        while !rest.is_empty() {
            let count = rest.len().min(SEGMENTS_MAX);
            match rustix::io::preadv(self, &mut rest[..count], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => {
                    done += read;
                    IoSliceMut::advance_slices(&mut rest, read);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn write(&self, mut offset: u64, segments: &[IoSlice<'_>]) -> io::Result<()> {
        let mut segments = segments.to_vec();
        let mut rest = &mut segments[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let count = rest.len().min(SEGMENTS_MAX);
            match rustix::io::pwritev(self, &rest[..count], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(self, mode, offset, len)?)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(self, FallocateFlags::KEEP_SIZE, offset, len)?)
    }

    fn seek(&self, offset: u64, what: Seek) -> io::Result<Option<u64>> {
        let from = match what {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(self, from) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn forget_cache(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(self, 0, None, Advice::DontNeed)?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_being_started_does_not_keep_the_lock() {
        let root = std::env::temp_dir().join(format!("fulmar-lock-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let directory = Directory::lock(&root).unwrap();
        assert!(matches!(Directory::lock(&root), Err(StoreError::Locked { .. })));
        let inherited = directory.lock.try_clone().unwrap();
        drop(directory);
        drop(Directory::lock(&root).unwrap());
        drop(inherited);
        fs::remove_dir_all(&root).unwrap();
    }
}
