//! A FUSE mount of a Lustre file system: what the kernel asks is done by a [`FileSystem`].
//!
//! A thread that reads a request from the kernel decodes it and begins its operation. No thread
//! waits for it: an operation ends with its reply.
//!
//! # What is cached
//!
//! The kernel keeps names and attributes as long as locks protect them in the client library: a [`Watcher`] has it
//! drop them before a lock is given back (`nodes`, `notices`). Files are open for direct I/O, so each read asks
//! the client library, which answers from its own cache as far as its locks allow. The kernel keeps the pages of files
//! that are mapped as long as locks protect them (`pages`, `dropping`, `filling`); with [`DataCache::Locks`]
//! also the data of files that are open to be read only.
//!
//! [`Watcher`]: fulmar_client::Watcher
//!
//! # Limits
//!
//! Times have seconds, as those of the protocol. A wait is interrupted by signals that are visible in
//! `/proc`, which those of another PID namespace are not.
//!
//! # Threads
//!
//! `fulmar mount` is a process in front of a `client`. `fuser` reads requests on up to four
//! threads, each of which has a descriptor of its own: what is cached of names and attributes is
//! answered there, without an operation and without a look at the calling process (`names`). For
//! the rest it takes the caller, finds the FID, and begins an operation, which is a future. One
//! that waits goes on, with its reply, where the replies of the servers arrive: it is an operation
//! of the node (`FileSystem::spawn`), so no thread is woken for it. One that waits for signals too,
//! or has much to copy, has a thread of the mount. None of them blocks it, so the waits of one
//! request delay no other.
//!
//! # Coherence
//!
//! A time never stands for a lock. The kernel keeps names and attributes, with a lifetime without
//! an end, exactly as long as locks protect them in the client; a `Watcher` has it drop them before
//! the server gets the lock back (`nodes`, `notices`). Files are open for direct I/O, so each read
//! asks the client. Pages of mapped files are kept under locks in the same way, and with
//! `datacache=locks` also data of files that are open to be read only (`pages`).
//!
//! | the kernel keeps | as long as the client has | dropped by |
//! |---|---|---|
//! | a name, unless something is mounted below | `LOOKUP` of its file | `INC_EPOCH`, with all other names |
//! | a name that does not exist, from the second lookup on | `UPDATE` of its directory | the same |
//! | attributes and access control lists | `UPDATE` and `PERM`; of a regular file also `LAYOUT` and locks on all objects up to the end | `INVAL_INODE` |
//! | what a symbolic link points to | always: it never changes | |
//! | pages of a file that is mapped, or with `datacache=locks` read | locks on the data that they are filled with, and `LAYOUT` | `INVAL_INODE` with ranges |
//!
//! A directory whose name was dropped loses what is mounted below it, as when it was replaced
//! (`d_invalidate` of the kernel). So no names are dropped while something is mounted there
//! (`below`). Mounts of other mount namespaces are not seen: there `lookupcache=none` has the kernel
//! keep no names.
//!
//! **Files.** The kernel knows a file by the number of its inode, which Lustre derives from the
//! FID, and a table has the FID until the kernel forgets it; two FIDs with one number get different
//! ones. Permissions are checked by the kernel, with attributes and access control lists that it
//! has just read, and by the servers, which get the groups and capabilities of the calling process.
//! Servers clear the bits for which a program runs as the file's owner or group
//! (`FUSE_HANDLE_KILLPRIV`), so the kernel reads no attributes before a new owner. Owners of locks
//! are remembered, so that a close costs a round trip only if its process had one. `rename` with
//! flags is EINVAL, as of a kernel's client: the protocol has none. The label of SELinux is
//! EOPNOTSUPP where the kernel does not use it, so that `ls -l` asks once and not for each file. An
//! operation on a file that another client has replaced is ESTALE, for which the kernel looks the
//! name up again.
//!
//! **Killed programs.** The kernel gets EINTR at once for what a killed program waits for (`calls`,
//! `interrupts`), and a handle that it does not learn of is closed again. The operation itself runs
//! for a `client::Requester`, which is known wherever it waits: a request that is not under way is
//! withdrawn, also one whose connection was lost, and nothing more is begun, neither a request nor a
//! change of what is cached. So a file is not removed or cut when its server comes back, long after
//! the program was killed. What is in the cache is written.
#![forbid(unsafe_code)]
// It waits for a kernel.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod attributes;
mod below;
mod caller;
mod calls;
mod counts;
mod directory;
mod dropping;
mod expected;
mod fill;
mod flags;
mod front;
mod handles;
mod interrupts;
mod kernel_names;
mod listings;
mod locks;
mod mounting;
mod names;
mod nodes;
mod notices;
mod options;
mod owners;
mod pages;
mod replies;
mod requests;
mod state;
mod tasks;

use std::io;
use std::path::Path;
use std::sync::Arc;

use fulmar_client::{AccessTimes, Address, Caller, FileSystem, blocking};
use futures_channel::oneshot;

pub use counts::RequestCounts;
pub use mounting::remove_dead;
pub use options::{DataCache, FileLocks, OptionError, Options};

/// A mount, which ends when it is dropped.
#[derive(Debug)]
pub struct Mount {
    attached: Option<mounting::KernelMount>,
    state: Arc<state::State>,
}

impl Mount {
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
        let noted = if options.read_only { AccessTimes::Never } else { options.access_times };
        file_system.set_access_times(noted);
        let (ended, end) = oneshot::channel();
        let front = front::Front::new(file_system, options.clone(), ended)?;
        let (source, state) = (address.to_string(), front.state.clone());
        let at = (source.as_str(), mountpoint);
        let attached = mounting::KernelMount::new(front, &state.notices, at, options)?;
        Ok((Self { attached: Some(attached), state }, end))
    }

    /// Returns what the kernel has asked so far.
    pub fn asked(&self) -> RequestCounts {
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

    /// Returns whether the kernel keeps pages of files under locks: the same.
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

impl Drop for Mount {
    fn drop(&mut self) {
        self.end();
    }
}
