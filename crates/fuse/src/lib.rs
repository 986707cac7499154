//! A FUSE mount of a Lustre file system: what the kernel asks is done by a [`FileSystem`].
//!
//! A thread that reads a request from the kernel decodes it and hands it over to one thread for all operations,
//! `Tasks`. None of them waits there: an operation ends with its reply.
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
//! Times have seconds. A wait for a lock is not interruptible. `O_APPEND` counts as it was at the open.
#![forbid(unsafe_code)]
// It waits for a kernel.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod attributes;
mod caller;
mod directory;
mod front;
mod handles;
mod locks;
mod nodes;
mod options;
mod replies;
mod requests;
mod state;
mod tasks;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fulmar_client::{Address, FileSystem, blocking};
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use futures_channel::oneshot;

pub use options::{FileLocks, OptionError, Options};

/// The most threads that read requests.
const THREADS_MAX: usize = 4;

/// A mount, which ends when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
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
        let session = fuser::Session::new(front, mountpoint, &config(address, options))?.spawn()?;
        let (session, mountpoint) = (Some(session), mountpoint.canonicalize()?);
        Ok((Self { session, mountpoint, file_system }, end))
    }

    /// Ends the mount, and the client's. Files that are open in it are lost.
    pub fn unmount(mut self) {
        self.end();
        blocking::wait(self.file_system.clone().unmount());
    }

    fn end(&mut self) {
        let Some(session) = self.session.take() else { return };
        if session.umount_and_join().is_err() {
            // It is in use. Without its server the mount would be dead, so it loses its name.
            let mut detach = Command::new("umount");
            detach.arg("--lazy").arg(&self.mountpoint).stdin(Stdio::null()).stderr(Stdio::null());
            let _ = detach.status();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.end();
    }
}

fn config(address: &Address, options: &Options) -> Config {
    let is_root = caller::is_root();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(address.to_string()),
        MountOption::Subtype("fulmar".to_owned()),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.mount_options.extend(options.no_atime.then_some(MountOption::NoAtime));
    if is_root {
        // As of a kernel's mount; another user gets neither.
        config.mount_options.push(MountOption::Dev);
        config.mount_options.push(MountOption::Suid);
    }
    config.acl = if is_root || options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    config
}
