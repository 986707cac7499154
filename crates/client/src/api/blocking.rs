//! The same for programs that wait, with paths.
//!
//! See the crate's documentation for an example.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;

use super::{ClientNode, MountOptions};
use crate::files::attributes::Attributes;
use crate::files::caller::Caller;
use crate::files::directory::DirectoryItem;
use crate::files::open::OpenOptions;
use crate::{Address, Error, SessionOptions, Usage};

/// Waits for a future on this thread.
pub fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A mounted file system, whose operations wait.
#[derive(Clone, Debug)]
pub struct FileSystem {
    inner: super::FileSystem,
    caller: Caller,
}

/// An open file, whose operations wait.
#[derive(Debug)]
pub struct File(super::File);

impl FileSystem {
    /// Mounts a file system on a node of its own, on behalf of the user of this process.
    ///
    /// # Errors
    /// Why that is not possible.
    pub fn mount(address: &Address, options: SessionOptions) -> Result<Self, Error> {
        let node = ClientNode::start(&address.mgs, options)?;
        let inner = wait(node.mount(address, MountOptions::default()))?;
        Ok(Self::of(inner))
    }

    /// Returns the blocking interface to a mount.
    pub fn of(inner: super::FileSystem) -> Self {
        Self { inner, caller: Caller::of_process() }
    }

    /// Returns the same mount on behalf of somebody else.
    #[must_use]
    pub fn on_behalf_of(&self, caller: Caller) -> Self {
        Self { inner: self.inner.clone(), caller }
    }

    /// Returns the interface whose operations do not wait.
    pub fn inner(&self) -> &super::FileSystem {
        &self.inner
    }

    /// Ends the mount.
    pub fn unmount(self) {
        wait(self.inner.unmount());
    }

    /// Returns the file of a path.
    ///
    /// # Errors
    /// As [`resolve`](super::FileSystem::resolve).
    pub fn find(&self, path: impl AsRef<[u8]>) -> Result<Fid, Errno> {
        wait(self.inner.resolve(&self.caller, path.as_ref(), true))
    }

    /// Returns the attributes of a file, or of a symbolic link itself.
    ///
    /// # Errors
    /// ENOENT, and what the servers say.
    pub fn attributes(&self, path: impl AsRef<[u8]>) -> Result<Attributes, Errno> {
        wait(async {
            let fid = self.inner.resolve(&self.caller, path.as_ref(), false).await?;
            self.inner.getattr(&self.caller, fid).await
        })
    }

    /// Opens a file, or creates it.
    ///
    /// # Errors
    /// As [`open`](super::FileSystem::open).
    pub fn open(&self, path: impl AsRef<[u8]>, options: OpenOptions) -> Result<File, Errno> {
        let (directory, name) = parts(path.as_ref())?;
        let opened = wait(async {
            let parent = self.inner.resolve(&self.caller, directory, true).await?;
            self.inner.open(&self.caller, parent, name, options).await
        });
        opened.map(File)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`mkdir`](super::FileSystem::mkdir).
    pub fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<Fid, Errno> {
        let (directory, name) = parts(path.as_ref())?;
        wait(async {
            let parent = self.inner.resolve(&self.caller, directory, true).await?;
            self.inner.mkdir(&self.caller, parent, name, mode).await.map(|entry| entry.fid)
        })
    }

    /// Removes a name that is not that of a directory.
    ///
    /// # Errors
    /// As [`unlink`](super::FileSystem::unlink).
    pub fn unlink(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        let (directory, name) = parts(path.as_ref())?;
        wait(async {
            let parent = self.inner.resolve(&self.caller, directory, true).await?;
            self.inner.unlink(&self.caller, parent, name).await
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`rmdir`](super::FileSystem::rmdir).
    pub fn rmdir(&self, path: impl AsRef<[u8]>) -> Result<(), Errno> {
        let (directory, name) = parts(path.as_ref())?;
        wait(async {
            let parent = self.inner.resolve(&self.caller, directory, true).await?;
            self.inner.rmdir(&self.caller, parent, name).await
        })
    }

    /// Renames a file.
    ///
    /// # Errors
    /// As [`rename`](super::FileSystem::rename).
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Errno> {
        let ((from, old), (to, new)) = (parts(from.as_ref())?, parts(to.as_ref())?);
        wait(async {
            let from = self.inner.resolve(&self.caller, from, true).await?;
            let to = self.inner.resolve(&self.caller, to, true).await?;
            self.inner.rename(&self.caller, (from, old), (to, new)).await
        })
    }

    /// Returns the names of a directory, without `.` and `..`.
    ///
    /// # Errors
    /// As [`read_directory`](super::FileSystem::read_directory).
    pub fn list(&self, path: impl AsRef<[u8]>) -> Result<Vec<DirectoryItem>, Errno> {
        wait(async {
            let directory = self.inner.resolve(&self.caller, path.as_ref(), true).await?;
            let (mut all, mut from) = (Vec::new(), Some(0));
            while let Some(position) = from {
                let read = self.inner.read_directory(&self.caller, directory, position).await?;
                all.extend(read.0);
                from = read.1;
            }
            all.retain(|item: &DirectoryItem| !matches!(item.name.as_slice(), b"." | b".."));
            Ok(all)
        })
    }

    /// Returns the size and the use of the file system.
    ///
    /// # Errors
    /// As [`statfs`](super::FileSystem::statfs).
    pub fn statfs(&self) -> Result<Usage, Errno> {
        wait(self.inner.statfs())
    }
}

impl File {
    /// Returns the interface whose operations do not wait.
    pub fn inner(&self) -> &super::File {
        &self.0
    }

    /// Reads a range: as many bytes as the file has there.
    ///
    /// # Errors
    /// As [`read`](super::File::read).
    pub fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        wait(self.0.read(offset, len))
    }

    /// Writes data.
    ///
    /// # Errors
    /// As [`write`](super::File::write).
    pub fn write(&self, offset: u64, data: impl Into<Arc<[u8]>>) -> Result<u64, Errno> {
        wait(self.0.write(offset, data))
    }

    /// Returns when what was written is on disk.
    ///
    /// # Errors
    /// As [`sync`](super::File::sync).
    pub fn sync(&self) -> Result<(), Errno> {
        wait(self.0.sync(false))
    }

    /// Closes the file.
    ///
    /// # Errors
    /// As [`close`](super::File::close).
    pub fn close(self) -> Result<(), Errno> {
        wait(self.0.close())
    }
}

/// Returns the directory and the name of a path.
fn parts(path: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let path = match path.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &path[..=last],
        None => return Err(Errno::EEXIST),
    };
    let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    Ok((&path[..name], &path[name..]))
}
