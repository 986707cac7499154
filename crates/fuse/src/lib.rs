//! A FUSE mount of a Lustre file system: what the kernel asks is done by a [`FileSystem`].
//!
//! A thread that reads a request from the kernel decodes it and begins its operation. If that has to wait, one
//! thread for all of them goes on with it, `Tasks`. None of them waits there: an operation ends with its reply.
//!
//! # What is cached
//!
//! The kernel caches nothing that another client may change: names and attributes have a lifetime of zero, and
//! files are open for direct I/O. Each call asks the client library, which answers from its own cache as far as its
//! locks allow. Nothing has to be revoked in the kernel, and no revocation can wait for it. The exception is
//! a file that is mapped: its pages are those of the last fault, and dropped when the file is opened again or when
//! its attributes have changed.
//!
//! # Limits
//!
//! Times have seconds, as those of the protocol. A wait for a lock is interrupted by signals that are visible in
//! `/proc`, which those of another PID namespace are not.
#![forbid(unsafe_code)]
// It waits for a kernel.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod attributes;
mod caller;
mod directory;
mod front;
mod handles;
mod interrupts;
mod locks;
mod mounting;
mod nodes;
mod options;
mod replies;
mod requests;
mod state;
mod tasks;

use std::io;
use std::path::Path;

use fulmar_client::{Address, FileSystem, blocking};
use futures_channel::oneshot;

pub use mounting::remove_dead;
pub use options::{FileLocks, OptionError, Options};

/// A mount, which ends when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    attached: Option<mounting::Attached>,
    file_system: FileSystem,
}

impl Mounted {
    /// Mounts a file system on a directory. The receiver gets a message when the kernel has ended the mount.
    ///
    /// # Errors
    /// What the kernel says, such as EPERM without the right to mount, or ENOENT.
    pub fn start(
        file_system: FileSystem,
        address: &Address,
        mountpoint: &Path,
        options: &Options,
    ) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (ended, end) = oneshot::channel();
        let front = front::Front::new(file_system.clone(), options.clone(), ended)?;
        let source = address.to_string();
        let attached = mounting::Attached::new(front, &source, mountpoint, options)?;
        Ok((Self { attached: Some(attached), file_system }, end))
    }

    /// Ends the mount, and the client's. Files that are open in it are lost.
    pub fn unmount(mut self) {
        self.end();
        blocking::wait(self.file_system.clone().unmount());
    }

    fn end(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.end();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}
