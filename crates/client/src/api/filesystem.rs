//! A mounted file system.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::task::{self, Poll};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_lustre_wire::{Fid, Opcode, Uuid};
use fulmar_rpc::import::TargetKind;
use futures_channel::oneshot;

use super::file::File;
use super::node::ClientNode;
use crate::files::accesses::AccessTimes;
use crate::files::attributes::{Attributes, Change, Entry};
use crate::files::caller::Caller;
use crate::files::close::CloseReport;
use crate::files::create::New;
use crate::files::directory::DirectoryItem;
use crate::files::inode::is_directory as is_directory_mode;
use crate::files::layout::FileLayout;
use crate::files::mount::MountState;
use crate::files::open::OpenOptions;
use crate::files::operations::Op;
use crate::machine::MountId;
use crate::machine::context::Context;
use crate::machine::requester::Requester;
use crate::{Usage, mounting};

/// A mounted file system. Clones are handles to the same mount, which ends with the last one, or by
/// [`FileSystem::unmount`].
///
/// Files are named by their FIDs, and names are looked up one after the other: what a kernel or a server
/// of another protocol needs. [`blocking`](super::blocking) has paths. Each operation is on behalf of a
/// [`Caller`]. Its future only waits: the operation itself goes on when the future is dropped. Round trips
/// are those without a cache; a lock that another client has costs two more.
#[derive(Clone)]
pub struct FileSystem(Arc<MountHandle>);

struct MountHandle {
    node: ClientNode,
    mount: MountId,
    uuid: Uuid,
    root: Fid,
    has_ended: AtomicBool,
}

/// How long the end of a mount without a waiting caller may take: the servers have 5 s to answer.
const FAREWELL: Duration = Duration::from_secs(6);
/// The most symbolic links that are followed in a path.
const LINKS_MAX: usize = 40;

impl FileSystem {
    pub(super) fn new(node: ClientNode, mount: MountId, uuid: Uuid, root: Fid) -> Self {
        Self(Arc::new(MountHandle { node, mount, uuid, root, has_ended: AtomicBool::new(false) }))
    }

    /// Returns the root of the mount.
    pub fn root(&self) -> Fid {
        self.0.root
    }

    /// Returns the UUID of this client at its servers.
    pub fn uuid(&self) -> Uuid {
        self.0.uuid
    }

    /// Sets which reads change the time of the last access: by default as the option `relatime` of a mount.
    pub fn set_access_times(&self, noted: AccessTimes) {
        let shared = self.0.node.shared();
        if let Some(mount) = shared.core().mounts.get_mut(&self.0.mount) {
            mount.access_times = noted;
        }
    }

    /// Returns how many requests of each kind this mount has sent to the MDTs and OSTs, and got the replies
    /// to.
    pub fn requests(&self) -> BTreeMap<Opcode, u64> {
        let shared = self.0.node.shared();
        let mut core = shared.core();
        let mount = core.mounts.get(&self.0.mount);
        let mut counts = BTreeMap::new();
        for import in mount.map(MountState::imports).unwrap_or_default() {
            let found = core.client().import(import);
            // The logs of the MGS are read again whenever they change.
            let stats = found.filter(|one| one.target().kind != TargetKind::Mgs);
            for (opcode, times) in stats.into_iter().flat_map(|one| one.stats().operations) {
                *counts.entry(opcode).or_default() += times.count;
            }
        }
        counts
    }

    /// Ends the mount: what is dirty is written, locks are given up and connections end. Open files are not
    /// usable any more.
    pub async fn unmount(self) {
        self.0.has_ended.store(true, Ordering::Release);
        let end = |cx| async move {
            mounting::end(&cx).await;
            Ok::<(), Errno>(())
        };
        let _ = self.run(end).await;
    }

    /// Looks a name up. One round trip for the name, and one for the size of a regular file.
    ///
    /// # Errors
    /// ENOENT, and what the servers say.
    pub async fn lookup(&self, caller: &Caller, parent: Fid, name: &[u8]) -> Result<Entry, Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.run(move |cx| async move { cx.lookup(&caller, parent, &name).await }).await
    }

    /// Returns the file that a path leads to, from the root of the mount. Symbolic links in it are followed,
    /// the last one too if `follows`.
    ///
    /// # Errors
    /// ENOENT, ELOOP, and what the servers say.
    pub async fn resolve(&self, caller: &Caller, path: &[u8], follows: bool) -> Result<Fid, Errno> {
        let (caller, path, root) = (caller.clone(), path.to_vec(), self.root());
        self.run(move |cx| async move { resolve(&cx, &caller, root, path, follows).await }).await
    }

    /// Returns the attributes of a file. One round trip, and one for the size of a regular file.
    ///
    /// # Errors
    /// ESTALE if it does not exist any more, and what the servers say.
    pub async fn getattr(&self, caller: &Caller, file: Fid) -> Result<Attributes, Errno> {
        let caller = caller.clone();
        self.counted(Op::GetAttr, move |cx| async move { cx.getattr(&caller, file, true).await })
            .await
    }

    /// Changes attributes. One round trip, one more for times of a regular file, and two for its size.
    ///
    /// # Errors
    /// EPERM, EACCES, and what the servers say.
    pub async fn setattr(
        &self,
        caller: &Caller,
        file: Fid,
        change: Change,
    ) -> Result<Attributes, Errno> {
        let caller = caller.clone();
        let op = if change.size.is_some() { Op::Truncate } else { Op::SetAttr };
        self.counted(op, move |cx| async move { cx.setattr(&caller, file, change).await }).await
    }

    /// Has a file lose what makes it run as its owner or its group, because somebody writes it who may not
    /// leave that. No round trip if it has nothing of the kind and that is cached.
    ///
    /// # Errors
    /// What the server says.
    pub async fn drop_privileges(&self, caller: &Caller, file: Fid) -> Result<(), Errno> {
        let caller = caller.clone();
        self.run(move |cx| async move { cx.drop_privileges(&caller, file).await }).await
    }

    /// Opens a file by its name, or creates it. One round trip unless it is kept open, one to cut it, and now and then one for
    /// numbers of new files.
    ///
    /// # Errors
    /// ENOENT, EEXIST, EACCES, EISDIR, ENXIO if it is not a regular file, and what the server says.
    pub async fn open(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &[u8],
        options: OpenOptions,
    ) -> Result<File, Errno> {
        let (user, name, wanted) = (caller.clone(), name.to_vec(), options.clone());
        let opened = self
            .counted(Op::Open, move |cx| async move {
                let begun = cx.core().now;
                let opened = cx.open_name(&user, parent, &name, &wanted).await?;
                if opened.is_new {
                    cx.count(Op::Create, begun, &Ok(()));
                }
                cx.truncated(&user, opened, &wanted).await
            })
            .await?;
        Ok(File::new(self.clone(), caller.clone(), opened, options))
    }

    /// Opens a file that is known. One round trip unless it is kept open, and one to cut it.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    pub async fn open_file(
        &self,
        caller: &Caller,
        file: Fid,
        options: OpenOptions,
    ) -> Result<File, Errno> {
        let (user, wanted) = (caller.clone(), options.clone());
        let opened = self
            .counted(Op::Open, move |cx| async move {
                let opened = cx.open_fid(&user, file, &wanted).await?;
                cx.truncated(&user, opened, &wanted).await
            })
            .await?;
        Ok(File::new(self.clone(), caller.clone(), opened, options))
    }

    /// Opens a directory to be read, which keeps its content until it is closed if it is removed. One round trip.
    /// Reading it needs no open. Of the options only that about the time of access has an effect.
    ///
    /// # Errors
    /// ENOTDIR, EACCES, and what the server says.
    pub async fn open_directory(
        &self,
        caller: &Caller,
        directory: Fid,
        options: OpenOptions,
    ) -> Result<File, Errno> {
        let user = caller.clone();
        let opened =
            self.run(move |cx| async move { cx.open_directory(&user, directory).await }).await?;
        Ok(File::new(self.clone(), caller.clone(), opened, options))
    }

    /// Returns names of a directory from a position on, 0 for the beginning, and the next position, `None`
    /// at the end. One round trip for 1 MiB of names.
    ///
    /// # Errors
    /// ENOTDIR, and what the server says.
    pub async fn read_directory(
        &self,
        caller: &Caller,
        directory: Fid,
        from: u64,
    ) -> Result<(Vec<DirectoryItem>, Option<u64>), Errno> {
        let caller = caller.clone();
        self.counted(Op::ReadDir, move |cx| async move {
            cx.read_directory(&caller, directory, from).await
        })
        .await
    }

    /// Creates a directory. One round trip.
    ///
    /// # Errors
    /// EEXIST, and what the server says.
    pub async fn mkdir(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &[u8],
        mode: u32,
    ) -> Result<Entry, Errno> {
        self.create(caller, parent, name, New::Directory(mode, None)).await
    }

    /// Creates a file of the type and the permissions in `mode`, and for a device of its number. One round
    /// trip.
    ///
    /// # Errors
    /// EEXIST, and what the server says.
    pub async fn mknod(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &[u8],
        (mode, device): (u32, u32),
    ) -> Result<Entry, Errno> {
        self.create(caller, parent, name, New::Special(mode, device)).await
    }

    /// Creates a symbolic link. One round trip.
    ///
    /// # Errors
    /// EEXIST, and what the server says.
    pub async fn symlink(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry, Errno> {
        self.create(caller, parent, name, New::Symlink(target.to_vec())).await
    }

    async fn create(
        &self,
        caller: &Caller,
        parent: Fid,
        name: &[u8],
        new: New,
    ) -> Result<Entry, Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        let op = match new {
            New::Directory(..) => Op::MkDir,
            New::Special(..) => Op::Mknod,
            New::Symlink(_) => Op::Symlink,
        };
        self.counted(op, move |cx| async move { cx.create(&caller, parent, &name, new).await })
            .await
    }

    /// Returns what a symbolic link points to. One round trip the first time.
    ///
    /// # Errors
    /// EINVAL if it is not a symbolic link.
    pub async fn read_link(&self, caller: &Caller, file: Fid) -> Result<Vec<u8>, Errno> {
        let caller = caller.clone();
        self.run(move |cx| async move { cx.read_link(&caller, file).await }).await
    }

    /// Gives a file one more name. One round trip.
    ///
    /// # Errors
    /// EEXIST, EPERM for a directory, and what the server says.
    pub async fn link(
        &self,
        caller: &Caller,
        file: Fid,
        parent: Fid,
        name: &[u8],
    ) -> Result<(), Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.counted(Op::Link, move |cx| async move { cx.link(&caller, file, parent, &name).await })
            .await
    }

    /// Removes the name of a file that is not a directory. One round trip.
    ///
    /// # Errors
    /// ENOENT, EISDIR, and what the server says.
    pub async fn unlink(&self, caller: &Caller, parent: Fid, name: &[u8]) -> Result<(), Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.counted(
            Op::Unlink,
            move |cx| async move { cx.unlink(&caller, parent, &name, false).await },
        )
        .await
    }

    /// Removes an empty directory. One round trip.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, ENOTEMPTY, and what the server says.
    pub async fn rmdir(&self, caller: &Caller, parent: Fid, name: &[u8]) -> Result<(), Errno> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.counted(
            Op::RmDir,
            move |cx| async move { cx.unlink(&caller, parent, &name, true).await },
        )
        .await
    }

    /// Renames a file, in place of the one that has the new name. One round trip.
    ///
    /// # Errors
    /// ENOENT, EISDIR, ENOTDIR, ENOTEMPTY, EINVAL below itself, and what the server says.
    pub async fn rename(
        &self,
        caller: &Caller,
        (from, old): (Fid, &[u8]),
        (to, new): (Fid, &[u8]),
    ) -> Result<(), Errno> {
        let (caller, old, new) = (caller.clone(), old.to_vec(), new.to_vec());
        self.counted(Op::Rename, move |cx| async move {
            cx.rename(&caller, (from, &old), (to, &new)).await
        })
        .await
    }

    /// Returns the layout of a file. One round trip.
    ///
    /// # Errors
    /// What the server says.
    pub async fn layout(&self, caller: &Caller, file: Fid) -> Result<Arc<FileLayout>, Errno> {
        let caller = caller.clone();
        self.run(move |cx| async move { cx.layout(&caller, file).await }).await
    }

    /// Returns the paths of a file from the root of the mount, without `/` in front. A round trip for each;
    /// more than 1,024 are left out.
    ///
    /// # Errors
    /// ENOENT, and what the server says.
    pub async fn paths_of(&self, file: Fid) -> Result<Vec<Vec<u8>>, Errno> {
        self.run(move |cx| async move { cx.paths_of(file).await }).await
    }

    /// Returns the size and the use of the file system. One round trip.
    ///
    /// # Errors
    /// What the server says.
    pub async fn statfs(&self) -> Result<Usage, Errno> {
        self.counted(Op::Statfs, |cx| async move { cx.statfs().await }).await
    }

    /// Returns what operations of the mount use.
    pub(super) fn context(&self) -> Context {
        Context::new(self.0.node.shared(), self.0.mount)
    }

    /// Runs an operation, which goes on without its caller.
    pub(super) async fn run<T, F>(
        &self,
        operation: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, Errno>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        let operation = operation(self.context());
        // An operation of the node goes on with it itself.
        if self.0.node.shared().is_polled_here() {
            return Part { operation: Some(Box::pin(operation)), node: &self.0.node }.await;
        }
        let (sender, waiting) = oneshot::channel();
        let requester = Requester::current();
        self.0.node.spawn(async move {
            let result = match requester {
                Some(requester) => requester.run(operation).await,
                None => operation.await,
            };
            let _ = sender.send(result);
        });
        waiting.await.unwrap_or(Err(Errno::EIO))
    }

    /// The same for an operation that is counted.
    pub(super) async fn counted<T, F>(
        &self,
        op: Op,
        operation: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, Errno>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Errno>> + Send + 'static,
    {
        let counted = move |cx: Context| {
            let operation = operation(cx.clone());
            async move {
                let begun = cx.core().now;
                let result = operation.await;
                cx.count(op, begun, &result);
                result
            }
        };
        self.run(counted).await
    }

    /// Begins an operation without a waiting caller.
    pub(super) fn begin<F>(&self, operation: impl FnOnce(Context) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.node.spawn(operation(self.context()));
    }
}

/// An operation as a part of another one. It goes on by itself if that one is dropped.
struct Part<'a, T: Send + 'static> {
    operation: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    node: &'a ClientNode,
}

impl<T: Send + 'static> Future for Part<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<T> {
        let Some(operation) = &mut self.operation else { return Poll::Pending };
        let polled = operation.as_mut().poll(context);
        if polled.is_ready() {
            self.operation = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Part<'_, T> {
    fn drop(&mut self) {
        if let Some(operation) = self.operation.take() {
            self.node.spawn(async move { drop(operation.await) });
        }
    }
}

impl Context {
    /// Cuts a file that was opened for that.
    async fn truncated(
        &self,
        caller: &Caller,
        opened: crate::files::open::OpenResult,
        options: &OpenOptions,
    ) -> Result<crate::files::open::OpenResult, Errno> {
        if !options.truncate || opened.is_new {
            return Ok(opened);
        }
        let change = Change { size: Some(0), ..Change::default() };
        match self.setattr(caller, opened.body.fid, change).await {
            Ok(_) => Ok(opened),
            Err(errno) => {
                let _ = self.close(opened.key, &opened.open, CloseReport::default()).await;
                Err(errno)
            }
        }
    }
}

/// Follows a path.
async fn resolve(
    cx: &Context,
    caller: &Caller,
    root: Fid,
    path: Vec<u8>,
    follows: bool,
) -> Result<Fid, Errno> {
    let parts = |path: &[u8]| -> Vec<Vec<u8>> {
        let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
        parts.map(<[u8]>::to_vec).rev().collect()
    };
    // What ends with a slash is a directory.
    let ends_below = path.last() == Some(&b'/');
    // The parts that are left, the next one last, and the files above, with whether they are directories.
    let (mut left, mut above, mut links) = (parts(&path), vec![(root, true)], 0);
    while let Some(part) = left.pop() {
        let (here, is_directory) = *above.last().unwrap_or(&(root, true));
        if !is_directory {
            return Err(Errno::ENOTDIR);
        }
        match part.as_slice() {
            b"." => continue,
            b".." => {
                above.pop();
                continue;
            }
            _ => {}
        }
        let next = cx.find(caller, here, &part).await?;
        let mode = cx.attributes(caller, next).await?.mode;
        let is_link = mode & 0o170_000 == 0o120_000 && (follows || !left.is_empty());
        if !is_link {
            above.push((next, is_directory_mode(mode)));
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        let target = cx.read_link(caller, next).await?;
        if target.first() == Some(&b'/') {
            above.truncate(1);
        }
        left.extend(parts(&target));
    }
    match above.pop().unwrap_or((root, true)) {
        (_, false) if ends_below => Err(Errno::ENOTDIR),
        (found, _) => Ok(found),
    }
}

impl Drop for MountHandle {
    fn drop(&mut self) {
        if !self.has_ended.swap(true, Ordering::AcqRel) {
            let cx = Context::new(self.node.shared(), self.mount);
            let (sender, ended) = std::sync::mpsc::channel();
            self.node.spawn(async move {
                mounting::end(&cx).await;
                let _ = sender.send(());
            });
            // Who ends it as an operation cannot wait for another one.
            if self.node.shared().is_polled_here() {
                return;
            }
            let mut left = u64::MAX;
            // As long as something is written, more may be.
            while ended.recv_timeout(FAREWELL) == Err(RecvTimeoutError::Timeout) {
                let shared = self.node.shared();
                let core = shared.core();
                let mount = core.mounts.get(&self.mount);
                let dirty = mount.map_or(0, |mount| mount.data.cache.gauges().dirty);
                if dirty == 0 || dirty >= left {
                    return;
                }
                left = dirty;
            }
        }
    }
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileSystem({})", self.0.uuid)
    }
}
