//! Hands requests of the kernel over.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fulmar_base::Errno;
use fulmar_client::{FileSystem, OpenOptions, Stability};
use fuser::{FileHandle, InitFlags, KernelConfig, LockOwner, Request, Version};
use futures_channel::oneshot;
use rustix::fs::OFlags;

use crate::calls::Call;
use crate::handles::Handle;
use crate::options::{DataCache, FileLocks, Options};
use crate::replies::Reply;
use crate::state::{EntryReply, State};
use crate::tasks::Tasks;

/// The most bytes of a write.
const WRITE_MAX: u32 = 1 << 20;
/// From how many requests in the background on the kernel reads nothing ahead, and sends no more unless it keeps data.
const BACKGROUND: u16 = 256;

/// The protocol of Linux 6.16, which has `FUSE_NOTIFY_INC_EPOCH`.
const NAMES_CAN_BE_DROPPED: Version = Version(7, 44);

/// `O_APPEND`.
pub(crate) const APPEND: i32 = 0o2000;

/// What the kernel opens a program with, to run it.
const EXECUTE: i32 = 0o40;

/// Receives requests from the kernel and begins their operations.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) state: Arc<State>,
    pub(crate) tasks: Tasks,
    pub(crate) ended: Option<oneshot::Sender<()>>,
}

impl Front {
    /// A message goes to `ended` when the kernel asks nothing any more.
    pub(crate) fn new(
        file_system: FileSystem,
        options: Options,
        ended: oneshot::Sender<()>,
    ) -> io::Result<Self> {
        let state = Arc::new(State::new(file_system, options));
        Ok(Self { state, tasks: Tasks::start()?, ended: Some(ended) })
    }

    /// Begins an operation that ends with a reply. It awaits the file system only, and goes on where that does.
    pub(crate) fn run<R: Reply, T, F>(
        &self,
        request: &Request,
        reply: R,
        operation: impl FnOnce(Arc<State>) -> F,
        done: impl FnOnce(R, T) + Send + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        self.run_or_undo(request, reply, operation, done, |_, _| ());
    }

    /// The same for one whose result is undone if the kernel does not learn of it, since the program was killed.
    pub(crate) fn run_or_undo<R: Reply, T, F>(
        &self,
        request: &Request,
        reply: R,
        operation: impl FnOnce(Arc<State>) -> F,
        done: impl FnOnce(R, T) + Send + 'static,
        undo: impl FnOnce(&State, T) + Send + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        let (call, operation) = (Call::new(&self.state, request), operation(self.state.clone()));
        self.state.file_system.spawn(call.answered(reply, operation, done, undo));
    }

    /// The same for one that goes on if the program is killed, which then does not wait for it.
    pub(crate) fn run_to_the_end<F>(
        &self,
        request: &Request,
        reply: fuser::ReplyEmpty,
        operation: impl FnOnce(Arc<State>) -> F,
    ) where
        F: Future<Output = Result<(), Errno>> + Send + 'static,
    {
        let (call, operation) = (Call::new(&self.state, request), operation(self.state.clone()));
        self.state.file_system.spawn(call.finished(reply, operation));
    }

    /// The same for one that awaits something else too, or has much to copy.
    pub(crate) fn run_apart<R: Reply, T, F>(
        &self,
        request: &Request,
        reply: R,
        operation: impl FnOnce(Arc<State>) -> F,
        done: impl FnOnce(R, T) + Send + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        let (call, operation) = (Call::new(&self.state, request), operation(self.state.clone()));
        self.tasks.begin(call.answered(reply, operation, done, |_, _| ()));
    }

    /// The same for an open file.
    pub(crate) fn on_handle<R: Reply, T, F>(
        &self,
        request: &Request,
        reply: R,
        handle: FileHandle,
        operation: impl FnOnce(Arc<State>, Arc<Handle>) -> F,
        done: impl FnOnce(R, T) + Send + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        match self.state.handles.get(handle.0) {
            Some(handle) => self.run(request, reply, |state| operation(state, handle), done),
            None => reply.fail(Errno::EBADF),
        }
    }

    /// A descriptor of a file is closed, whose owner of locks gives them up. Others may have it open still.
    pub(crate) fn close_descriptor(
        &self,
        request: &Request,
        number: FileHandle,
        owner: LockOwner,
        reply: fuser::ReplyEmpty,
    ) {
        let Some(handle) = self.state.handles.get(number.0) else {
            return reply.fail(Errno::EBADF);
        };
        let (now, file) = (Instant::now(), handle.file.fid());
        let had_locks = self.state.owners(|owners| owners.close(now, file, owner.0, number.0));
        if !had_locks && !self.state.options.flushes_on_close {
            let written = handle.file.written();
            // The kernel has it closed as soon as it has the reply, which takes the only user.
            drop(handle);
            return match written {
                Ok(()) => reply.ok(),
                Err(errno) => reply.fail(errno),
            };
        }
        let flush = move |state: Arc<State>| async move {
            let written = if state.options.flushes_on_close {
                handle.file.flush().await
            } else {
                handle.file.written()
            };
            drop(handle);
            if had_locks {
                return state.unlock_all(file, owner.0).await.and(written);
            }
            written
        };
        self.run_to_the_end(request, reply, flush);
    }

    /// Closes a file. What was locked through it is unlocked.
    pub(crate) fn close(&self, request: &Request, number: FileHandle, reply: fuser::ReplyEmpty) {
        let Some(handle) = self.state.handles.remove(number.0) else {
            return reply.fail(Errno::EBADF);
        };
        let close = |state: Arc<State>| async move {
            let unlocked = state.release_locks(handle.file.fid(), number.0).await;
            match Arc::try_unwrap(handle) {
                Ok(handle) => handle.file.close().await.and(unlocked),
                // It is closed when the last operation on it has ended.
                Err(_) => unlocked,
            }
        };
        self.run_to_the_end(request, reply, close);
    }

    /// Begins an operation that finds a file, and tells the kernel of it.
    pub(crate) fn run_entry<F>(
        &self,
        request: &Request,
        reply: fuser::ReplyEntry,
        operation: impl FnOnce(Arc<State>) -> F,
    ) where
        F: Future<Output = Result<EntryReply, Errno>> + Send + 'static,
    {
        self.run_or_undo(request, reply, operation, entry, |state, found| state.not_told(&found));
    }
}

/// Returns how a file is opened.
pub(crate) fn open_options(flags: i32) -> OpenOptions {
    let mode = flags & 0o3;
    OpenOptions {
        read: mode != 1,
        execute: flags & EXECUTE != 0,
        write: mode != 0,
        append: flags & APPEND != 0,
        exclusive: flags & 0o200 != 0,
        truncate: flags & 0o1000 != 0,
        keeps_access: OFlags::from_bits_retain(flags as u32).contains(OFlags::NOATIME),
        ..OpenOptions::default()
    }
}

/// Returns what of a write by an open file with these flags is on disk when it ends. They include those of the write
/// itself, and of the mount.
pub(crate) fn stability(flags: i32) -> Stability {
    let flags = OFlags::from_bits_retain(flags as u32);
    if flags.contains(OFlags::SYNC) {
        Stability::File
    } else if flags.intersects(OFlags::DSYNC | OFlags::DIRECT) {
        Stability::Data
    } else {
        Stability::Cached
    }
}

/// Replies with a file that the kernel gets to know.
pub(crate) fn entry(reply: fuser::ReplyEntry, found: EntryReply) {
    reply.entry_with_ttls(&found.attributes, &found.name, &found.attr, found.generation);
}

/// Replies with a value of an attribute, or its length if that is wanted.
pub(crate) fn value(reply: fuser::ReplyXattr, bytes: &[u8], room: u32) {
    match room as usize {
        0 => reply.size(bytes.len() as u32),
        room if room < bytes.len() => reply.fail(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}

/// Asks the kernel for what it can do.
pub(crate) fn configure(config: &mut KernelConfig, options: &Options) {
    let mut wanted = vec![
        InitFlags::FUSE_POSIX_ACL,
        InitFlags::FUSE_DONT_MASK,
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        InitFlags::FUSE_AUTO_INVAL_DATA,
        InitFlags::FUSE_PARALLEL_DIROPS,
        // Servers take privileges from a file, and know whether it has some.
        InitFlags::FUSE_HANDLE_KILLPRIV,
        // It asks for a file of which it has only a handle.
        InitFlags::FUSE_EXPORT_SUPPORT,
        // What a symbolic link points to never changes.
        InitFlags::FUSE_CACHE_SYMLINKS,
    ];
    // Names are told to be kept, or not at all.
    if config.kernel_abi() >= NAMES_CAN_BE_DROPPED && !options.no_lookup_cache {
        wanted.extend([InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_READDIRPLUS_AUTO]);
    }
    if options.locks != FileLocks::Local {
        wanted.extend([InitFlags::FUSE_POSIX_LOCKS, InitFlags::FUSE_FLOCK_LOCKS]);
    }
    for flag in wanted {
        // An older kernel does without.
        let _ = config.add_capabilities(flag);
    }
    let _ = config.set_max_write(WRITE_MAX);
    // A request that fills pages and is held back would keep them locked without a record of it.
    let keeps_data = options.data_cache != DataCache::Off;
    let _ = config.set_max_background(if keeps_data { u16::MAX } else { BACKGROUND });
    let _ = config.set_congestion_threshold(BACKGROUND);
    let _ = config.set_time_granularity(Duration::from_secs(1));
}
