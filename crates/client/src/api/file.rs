//! An open file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fulmar_base::Errno;
use fulmar_data::Stability;
use fulmar_lustre_wire::Fid;

use super::filesystem::FileSystem;
use crate::DataSettings;
use crate::data::io::ProtectionNotice;
use crate::data::state::{OpenKey, Part};
use crate::data::{Allocate, Seek};
use crate::files::attributes::{Attributes, Change};
use crate::files::caller::Caller;
use crate::files::close::CloseReport;
use crate::files::mount::Open;
use crate::files::open::{OpenOptions, OpenResult};
use crate::files::open_cache::HandleKey;
use crate::files::operations::Op;
use crate::machine::context::Context;

/// An open file. It is closed by [`File::close`], or in the background when it is dropped.
///
/// Reads and writes are in the cache of the mount, under locks that other clients respect: these see what was
/// written. It is at the servers some seconds later at the latest, and on their disks after [`File::sync`].
/// The error of a write which the cache could not write is told once: by the next write, [`File::sync`] or
/// [`File::close`].
#[derive(Debug)]
pub struct File {
    file_system: FileSystem,
    caller: Caller,
    open: Arc<Open>,
    key: HandleKey,
    number: OpenKey,
    options: OpenOptions,
    /// The attributes of a new file.
    new: Option<Attributes>,
    is_new: bool,
    is_read: AtomicBool,
    is_modified: AtomicBool,
    is_closed: bool,
}

impl File {
    pub(super) fn new(
        file_system: FileSystem,
        caller: Caller,
        opened: OpenResult,
        options: OpenOptions,
    ) -> Self {
        let OpenResult { open, key, number, is_new, body } = opened;
        let new = is_new.then(|| Attributes::new_file(&body)).flatten();
        let [is_read, is_modified] = [false; 2].map(AtomicBool::new);
        Self {
            file_system,
            caller,
            open,
            key,
            number,
            options,
            new,
            is_new,
            is_read,
            is_modified,
            is_closed: false,
        }
    }

    /// Returns the file.
    pub fn fid(&self) -> Fid {
        self.open.fid
    }

    /// Returns whether the open has created the file.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns the attributes that the file had when the open created it, if it did and the server has told all.
    pub fn new_attributes(&self) -> Option<Attributes> {
        self.new
    }

    /// Reads a range: as many bytes as the file has there. One round trip for locks, one for the size if the
    /// range is not all within the file, and one for the data; none if they are cached.
    ///
    /// # Errors
    /// EBADF if it is not open to be read, and what the servers say.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        self.read_parts(offset, len, None::<fn(bool)>).await
    }

    /// The same for somebody who keeps the data. `told` is called for each part of at most
    /// [`DataSettings::READ_MAX`] bytes when it is found, with whether locks protect it: then a
    /// [`Watcher`](crate::Watcher) hears of each loss after that. It is called with a lock of the mount, which
    /// must not be used there.
    ///
    /// # Errors
    /// As [`File::read`].
    pub async fn read_to_keep(
        &self,
        offset: u64,
        len: u64,
        told: impl FnMut(bool) + Clone + Send + 'static,
    ) -> Result<Vec<u8>, Errno> {
        self.read_parts(offset, len, Some(told)).await
    }

    /// Notes that the file is read now, as [`File::read`] does, unless it was opened otherwise. No round trip: the MDT
    /// learns it from [`File::close`].
    pub fn note_access(&self) {
        if self.options.keeps_access {
            return;
        }
        let is_first = !self.is_read.swap(true, Ordering::Relaxed);
        self.file_system.context().note_access(self.fid(), is_first);
    }

    async fn read_parts(
        &self,
        offset: u64,
        len: u64,
        told: Option<impl FnMut(bool) + Clone + Send + 'static>,
    ) -> Result<Vec<u8>, Errno> {
        if !self.options.read {
            return Err(Errno::EBADF);
        }
        self.note_access();
        let mut whole = Vec::new();
        loop {
            let left = len - whole.len() as u64;
            let Some(at) = offset.checked_add(whole.len() as u64) else { return Ok(whole) };
            let count = left.min(DataSettings::READ_MAX);
            let (caller, file) = (self.caller.clone(), (self.number, self.fid()));
            let mut told = told.clone();
            let read = move |cx: Context| async move {
                let told = told.as_mut().map(|told| told as ProtectionNotice<'_>);
                cx.read_counted(&caller, file, (at, count), told).await
            };
            let parts = self.file_system.counted(Op::Read, read).await?;
            let found: usize = parts.iter().map(Part::len).sum();
            whole.reserve(found);
            for part in parts {
                match &part {
                    Part::Bytes(slice) => slice.append_to(&mut whole),
                    Part::Inline(bytes) => whole.extend_from_slice(bytes),
                    Part::Zeros(len) => whole.resize(whole.len() + len, 0),
                }
            }
            if (found as u64) < count || found as u64 == left {
                return Ok(whole);
            }
        }
    }

    /// Writes data at an offset, or at the end of a file that is open to append. Returns where they are.
    /// One round trip for objects that do not exist yet, and one for locks; none if locks are held.
    ///
    /// # Errors
    /// EBADF if it is not open to be written, ENOSPC, EDQUOT, and what the servers say, also of earlier writes.
    pub async fn write(&self, offset: u64, data: impl Into<Arc<[u8]>>) -> Result<u64, Errno> {
        self.write_to((!self.options.append).then_some(offset), data).await
    }

    /// Writes data at an offset, `None` for the end of the file, whatever it was opened for. Returns where they
    /// are.
    ///
    /// # Errors
    /// As [`File::write`].
    pub async fn write_to(
        &self,
        offset: Option<u64>,
        data: impl Into<Arc<[u8]>>,
    ) -> Result<u64, Errno> {
        let data = data.into();
        let whole = data.len() as u64;
        let range = self.write_some(offset, data, Stability::Cached).await?;
        self.all_of(range.end - range.start, whole).map(|()| range.start)
    }

    /// The same as far as there is room: a write of which the rest is refused ends early, and the error is told by the
    /// next one. When it ends it is as `stability` says. Returns the range that is written.
    ///
    /// # Errors
    /// As [`File::write`], if nothing is written.
    pub async fn write_some(
        &self,
        offset: Option<u64>,
        data: impl Into<Arc<[u8]>>,
        stability: Stability,
    ) -> Result<Range<u64>, Errno> {
        let data = data.into();
        let (at, len) = match offset {
            None => self.append(data, stability).await?,
            Some(at) => (at, self.write_parts((at, data, stability), None::<fn(bool)>).await?),
        };
        Ok(at..at + len)
    }

    /// Checks that all of a write is written.
    fn all_of(&self, len: u64, whole: u64) -> Result<(), Errno> {
        if len == whole { Ok(()) } else { self.written().and(Err(Errno::EIO)) }
    }

    async fn append(&self, data: Arc<[u8]>, stability: Stability) -> Result<(u64, u64), Errno> {
        if !self.options.write {
            return Err(Errno::EBADF);
        }
        self.is_modified.store(true, Ordering::Release);
        let (caller, file) = (self.caller.clone(), (self.number, self.fid()));
        self.file_system
            .counted(Op::Write, move |cx| async move {
                let written = cx.append(&caller, file, (data, stability)).await?;
                cx.count_bytes(Op::WriteBytes, written.1);
                Ok(written)
            })
            .await
    }

    /// Writes data at an offset for somebody who keeps them. `told` is called as for [`File::read_to_keep`].
    ///
    /// # Errors
    /// As [`File::write`].
    pub async fn write_to_keep(
        &self,
        offset: u64,
        data: impl Into<Arc<[u8]>>,
        told: impl FnMut(bool) + Send + 'static,
    ) -> Result<(), Errno> {
        let data = data.into();
        let whole = data.len() as u64;
        let len = self.write_parts((offset, data, Stability::Cached), Some(told)).await?;
        self.all_of(len, whole)
    }

    async fn write_parts(
        &self,
        what: (u64, Arc<[u8]>, Stability),
        mut told: Option<impl FnMut(bool) + Send + 'static>,
    ) -> Result<u64, Errno> {
        if !self.options.write {
            return Err(Errno::EBADF);
        }
        self.is_modified.store(true, Ordering::Release);
        let (caller, file) = (self.caller.clone(), (self.number, self.fid()));
        self.file_system
            .counted(Op::Write, move |cx| async move {
                let told = told.as_mut().map(|told| told as ProtectionNotice<'_>);
                let len = cx.write_at(&caller, file, what, told).await?;
                cx.count_bytes(Op::WriteBytes, len);
                Ok(len)
            })
            .await
    }

    /// Sets the length. Three round trips.
    ///
    /// # Errors
    /// EBADF if it is not open to be written, and what the servers say.
    pub async fn set_len(&self, size: u64) -> Result<(), Errno> {
        if !self.options.write {
            return Err(Errno::EBADF);
        }
        self.is_modified.store(true, Ordering::Release);
        let change = Change { size: Some(size), ..Change::default() };
        self.file_system.setattr(&self.caller, self.fid(), change).await.map(drop)
    }

    /// Allocates the space of a range, or frees it. Two round trips.
    ///
    /// # Errors
    /// EBADF if it is not open to be written, EOPNOTSUPP, ENOSPC, and what the servers say.
    pub async fn allocate(&self, offset: u64, len: u64, how: Allocate) -> Result<(), Errno> {
        if !self.options.write {
            return Err(Errno::EBADF);
        }
        self.is_modified.store(true, Ordering::Release);
        let (caller, fid) = (self.caller.clone(), self.fid());
        self.file_system
            .counted(Op::Fallocate, move |cx| async move {
                cx.allocate(&caller, fid, (offset, len), how).await
            })
            .await
    }

    /// Returns where the next data or the next hole is. Two round trips.
    ///
    /// # Errors
    /// ENXIO if there is none.
    pub async fn seek(&self, offset: u64, what: Seek) -> Result<u64, Errno> {
        let (caller, fid) = (self.caller.clone(), self.fid());
        self.file_system
            .counted(Op::Seek, move |cx| async move { cx.seek(&caller, fid, offset, what).await })
            .await
    }

    /// Returns when what was written is on disk, with the attributes of the file unless only its data are
    /// wanted. What is dirty is written; then two round trips.
    ///
    /// # Errors
    /// EIO if it is lost, and what the servers say, also of earlier writes.
    pub async fn sync(&self, only_data: bool) -> Result<(), Errno> {
        let (caller, file) = (self.caller.clone(), (self.number, self.fid()));
        self.file_system
            .counted(Op::Fsync, move |cx| async move { cx.sync(&caller, file, only_data).await })
            .await
    }

    /// Returns when what was written is at its servers, which may not have it on disk yet. What is dirty is written.
    ///
    /// # Errors
    /// What the servers say, also of earlier writes.
    pub async fn flush(&self) -> Result<(), Errno> {
        if !self.is_modified.load(Ordering::Acquire) {
            return self.written();
        }
        let file = (self.number, self.fid());
        self.file_system.run(move |cx| async move { cx.flush_open(file).await }).await
    }

    /// Tells the error of a write which the cache could not write, as [`File::close`] does. No round trip.
    ///
    /// # Errors
    /// What the servers have said, once.
    pub fn written(&self) -> Result<(), Errno> {
        self.file_system.context().take_error(self.number)
    }

    /// Returns the attributes. One round trip, and one for the size.
    ///
    /// # Errors
    /// What the servers say.
    pub async fn attributes(&self) -> Result<Attributes, Errno> {
        self.file_system.getattr(&self.caller, self.fid()).await
    }

    /// Closes the file. One round trip, or none if it is kept open. What is dirty is written soon.
    ///
    /// # Errors
    /// EIO if the MDT has lost that it was open, and what the servers have said of writes.
    pub async fn close(mut self) -> Result<(), Errno> {
        self.is_closed = true;
        let (key, number, open) = (self.key, self.number, self.open.clone());
        let is_modified = self.is_modified.load(Ordering::Acquire);
        self.file_system
            .counted(Op::Close, move |cx| async move {
                let written = cx.close_data(number).await;
                let closed = cx.closed(open.fid, is_modified);
                let closed = cx.close(key, &open, closed).await;
                written.and(closed)
            })
            .await
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        let (key, number, open) = (self.key, self.number, self.open.clone());
        let is_modified = self.is_modified.load(Ordering::Acquire);
        self.file_system.begin(move |cx| async move {
            let _ = cx.close_data(number).await;
            let closed = cx.closed(open.fid, is_modified);
            // There is no caller to report it to.
            let _ = cx.close(key, &open, closed).await;
        });
    }
}

impl Context {
    /// Reads, and counts the bytes.
    async fn read_counted(
        &self,
        caller: &Caller,
        file: (OpenKey, Fid),
        range: (u64, u64),
        told: Option<ProtectionNotice<'_>>,
    ) -> Result<Vec<Part>, Errno> {
        let parts = self.read_at(caller, file, range, told).await?;
        let found: usize = parts.iter().map(Part::len).sum();
        self.count_bytes(Op::ReadBytes, found as u64);
        Ok(parts)
    }

    /// Returns what the MDT is told when a file is closed.
    pub(crate) fn closed(&self, fid: Fid, is_modified: bool) -> CloseReport {
        if !is_modified {
            return CloseReport::default();
        }
        let size = self.held_size(fid);
        let mut core = self.core();
        let inode = core.mounts.get_mut(&self.mount).and_then(|mount| mount.inodes.get_mut(&fid));
        let Some(inode) = inode else {
            return CloseReport { is_modified, size, ..CloseReport::default() };
        };
        let time = inode.written.take().unwrap_or(0);
        let mode = inode.body.mode;
        CloseReport { is_modified, mode, mtime: time, ctime: time, size, ..CloseReport::default() }
    }
}
