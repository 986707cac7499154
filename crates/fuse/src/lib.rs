//! A FUSE mount of a Lustre file system: what the kernel asks is done by a [`FileSystem`].
//!
//! A thread that reads a request from the kernel decodes it and begins its operation. If that has to wait, one
//! thread for all of them goes on with it, `Tasks`. None of them waits there: an operation ends with its reply.
//!
//! # What is cached
//!
//! The kernel keeps names and attributes as long as locks protect them in the client library: a [`Watcher`] has it
//! drop them before a lock is given back (`nodes`, `notices`). Files are open for direct I/O, so it keeps no data: each read asks
//! the client library, which answers from its own cache as far as its locks allow. The exception is
//! a file that is mapped: its pages are those of the last fault, and dropped when the file is opened again or when
//! its attributes have changed. If [`Options::data_cache`] is set, it keeps the data of files that are open to be
//! read only, and of those that are mapped, as long as locks protect them (`pages`, `dropping`, `filling`).
//!
//! [`Watcher`]: fulmar_client::Watcher
//!
//! # Limits
//!
//! Times have seconds, as those of the protocol. A wait for a lock is interrupted by signals that are visible in
//! `/proc`, which those of another PID namespace are not.
#![forbid(unsafe_code)]
// It waits for a kernel.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod asked;
mod attributes;
mod caller;
mod directory;
mod dropping;
mod expected;
mod filling;
mod front;
mod handles;
mod interrupts;
mod listings;
mod locks;
mod mounting;
mod names;
mod nodes;
mod notices;
mod options;
mod pages;
mod replies;
mod requests;
mod state;
mod tasks;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fulmar_client::{Address, Caller, FileSystem, blocking};
use futures_channel::oneshot;

pub use asked::Asked;
pub use mounting::remove_dead;
pub use options::{FileLocks, OptionError, Options};

/// A mount, which ends when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    attached: Option<mounting::Attached>,
    state: Arc<state::State>,
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
        // Whoever enters the mount asks for that first. What is wrong is told to who asks.
        let _ = blocking::wait(file_system.getattr(&Caller::ROOT, file_system.root()));
        let (ended, end) = oneshot::channel();
        let front = front::Front::new(file_system, options.clone(), ended)?;
        let (source, state) = (address.to_string(), front.state.clone());
        let at = (source.as_str(), mountpoint);
        let attached = mounting::Attached::new(front, &state.notices, at, options)?;
        Ok((Self { attached: Some(attached), state }, end))
    }

    /// Returns what the kernel has asked so far.
    pub fn asked(&self) -> Asked {
        self.state.asked.so_far()
    }

    /// Returns how many files the kernel knows.
    pub fn known(&self) -> usize {
        self.state.nodes(|nodes| nodes.len())
    }

    /// Returns whether the kernel keeps names: Linux 6.16 and later do, unless the options say otherwise.
    pub fn keeps_names(&self) -> bool {
        self.state.nodes(|nodes| nodes.keeps_names)
    }

    /// Returns whether the kernel keeps the data of files: the same.
    pub fn keeps_data(&self) -> bool {
        self.state.notices.keeps_data()
    }

    /// Ends the mount, and the client's. Files that are open in it are lost.
    pub fn unmount(mut self) {
        self.end();
        blocking::wait(self.state.file_system.clone().unmount());
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
