//! What users do with the data of files: they read, write and append, and have it written.
//!
//! An operation has a pass and locks on all that it needs until the cache has done it. Then what it has found or
//! written is here, and the requests to the targets are the cache's.

use std::ops::Range;
use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_data::{FileId, Settings, Stability, WriteError};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::{LayoutIntentOp, LockMode};
use fulmar_lustre_wire::mdt::{MdtBody, Valid};
use futures_channel::oneshot;

use super::locks::Piece;
use super::object::Object;
use super::state::{CacheWaiter, OpenKey, Part};
use crate::files::caller::{CAP_SYS_RESOURCE, Caller};
use crate::files::layout::FileLayout;
use crate::machine::context::{Context, LockAnswer};

/// The flag of an inode whose changes are on disk when they end.
const SYNC: u32 = 0x8;

/// Is told whether locks protect what was found, while they are held.
pub(crate) type ProtectionNotice<'a> = &'a mut (dyn FnMut(bool) + Send);

/// A file that is used, in the cache.
pub(super) struct CachedFile {
    pub(super) fid: Fid,
    pub(super) layout: Arc<FileLayout>,
    pub(super) id: FileId,
    pub(super) objects: Vec<Object>,
}

impl Context {
    /// Returns a file in the cache. The caller has a pass.
    pub(super) async fn cached(
        &self,
        fid: Fid,
        layout: Arc<FileLayout>,
    ) -> Result<CachedFile, Errno> {
        let (id, objects) = self.cached_file(fid, &layout).await?;
        Ok(CachedFile { fid, layout, id, objects })
    }

    /// Returns the ranges of objects that a range of a file is in.
    pub(super) fn pieces(&self, file: &CachedFile, range: Range<u64>) -> Vec<Piece> {
        let part = |object: &Object| {
            let component = &file.layout.components[object.place.0];
            let (from, to) = (range.start.max(component.start), range.end.min(component.end));
            if from >= to {
                return None;
            }
            let stripe = object.place.1;
            let striping = component.striping();
            let start = striping.object_offset(stripe, from);
            let end = match to {
                u64::MAX => u64::MAX,
                to => striping.object_offset(stripe, to),
            };
            (start < end).then_some((*object, start..end))
        };
        file.objects.iter().filter_map(part).collect()
    }

    /// Reads at most [`Settings::READ_MAX`] bytes of a file: fewer only at its end. One round trip for locks
    /// unless they are held, one for the size at the end of the file, and one for data that are not cached.
    /// `told`, if somebody keeps them, is called once they are found and while all that protects them is still
    /// held, with whether it all is.
    pub(crate) async fn read_at(
        &self,
        caller: &Caller,
        (key, fid): (OpenKey, Fid),
        (offset, len): (u64, u64),
        mut told: Option<ProtectionNotice<'_>>,
    ) -> Result<Vec<Part>, Errno> {
        let end = offset.saturating_add(len.min(Settings::READ_MAX)).min(i64::MAX as u64);
        if end <= offset {
            return Ok(Vec::new());
        }
        let pass = self.share(fid).await;
        let layout = self.layout(caller, fid).await?;
        if layout.is_released() {
            return Err(Errno::EOPNOTSUPP);
        }
        let told_inline = told.as_mut().map(|told| &mut **told as ProtectionNotice<'_>);
        if let Some(bytes) = self.read_inline(fid, &layout, (offset, len), told_inline) {
            return Ok(vec![Part::Inline(bytes)]);
        }
        let file = self.cached(fid, layout).await?;
        let using = self.use_open(key, fid)?;
        let before = told.is_some().then(|| self.all_evictions(&file));
        let held = self.lock_all(&self.pieces(&file, offset..end), LockMode::PR).await?;
        let known = self.known_size(&file);
        // What is locked cannot be cut; but what is behind it may have grown.
        let size = if known >= end { known } else { self.size(fid, &file.layout).await?.size };
        let parts = self
            .data_op(|data, now| {
                data.cache.set_size(file.id, size);
                let op = data.cache.handle_read(now, using.id, offset..end);
                let (sender, waiting) = oneshot::channel();
                data.waiting.insert(op, CacheWaiter::Read(sender));
                Ok((op, waiting))
            })
            .await;
        if let Some(told) = told.filter(|_| parts.is_ok()) {
            if before == Some(self.all_evictions(&file)) {
                self.tell(&file, &held, told)
            } else {
                told(false)
            }
        }
        drop((held, using, pass));
        parts
    }

    /// Returns how often the targets of a file have evicted this client.
    fn all_evictions(&self, file: &CachedFile) -> Vec<Option<u64>> {
        file.objects.iter().map(|one| self.evictions(one.import)).collect()
    }

    /// Tells whether locks protect data which these do that are held, and the layout.
    fn tell(&self, file: &CachedFile, held: &[LockAnswer], told: ProtectionNotice<'_>) {
        let core = self.core();
        let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&file.fid));
        let has_layout = inode.is_some_and(|inode| inode.has_layout(&file.layout));
        told(has_layout && held.iter().all(|one| one.held.is_some()));
    }

    /// Returns the size that a file has at least, as locks of this client have told.
    fn known_size(&self, file: &CachedFile) -> u64 {
        let core = self.core();
        let Some(mount) = core.mounts.get(&self.mount) else { return 0 };
        let sizes = file.objects.iter().filter_map(|object| {
            let known = mount.objects.get(&object.key())?;
            let size = mount.data.shown(object.key(), &known.lvb).size;
            let (component, stripe) = object.place;
            Some(file.layout.components[component].striping().file_size(stripe, size))
        });
        sizes.max().unwrap_or(0)
    }

    /// Writes data at an offset of a file, and returns how many bytes from their start are written: fewer if the rest
    /// is refused, whose error is told by the next one. They are cached when it ends, or on disk. One round trip for
    /// objects that do not exist, and one for locks that are not held. `told` is called as for [`Context::read_at`].
    ///
    /// # Errors
    /// What the servers say; that of a write that has failed since the open file was told of one.
    pub(crate) async fn write_at(
        &self,
        caller: &Caller,
        (key, fid): (OpenKey, Fid),
        (offset, data, stability): (u64, Arc<[u8]>, Stability),
        told: Option<ProtectionNotice<'_>>,
    ) -> Result<u64, Errno> {
        let pass = self.share(fid).await;
        let range = range_of(offset, &data)?;
        let len = data.len() as u64;
        let layout = self.writable_layout(caller, fid, offset, len).await?;
        let file = self.cached(fid, layout).await?;
        let held = self.lock_all(&self.pieces(&file, range), LockMode::PW).await?;
        let what = (offset, data, stability);
        let written = self.write_under(caller, key, &file, what, &held).await;
        if let Some(told) = told.filter(|_| written.is_ok()) {
            self.tell(&file, &held, told);
        }
        drop((held, pass));
        written
    }

    /// Writes data at the end of a file, and returns where that was, and how many bytes. No other operation writes meanwhile.
    pub(crate) async fn append(
        &self,
        caller: &Caller,
        (key, fid): (OpenKey, Fid),
        (data, stability): (Arc<[u8]>, Stability),
    ) -> Result<(u64, u64), Errno> {
        let pass = self.exclude(fid).await;
        let mut layout = self.layout(caller, fid).await?;
        let len = data.len() as u64;
        loop {
            let file = self.cached(fid, layout).await?;
            let held = self.lock_all(&self.pieces(&file, 0..u64::MAX), LockMode::PW).await?;
            let size = self.size(fid, &file.layout).await?.size;
            if file.layout.needs_objects(size, len) || file.layout.components.is_empty() {
                drop(held);
                layout = self.writable_layout(caller, fid, size, len).await?;
                continue;
            }
            let what = (size, data, stability);
            let written = self.write_under(caller, key, &file, what, &held).await;
            drop((held, pass));
            return written.map(|len| (size, len));
        }
    }

    /// Writes data under locks.
    async fn write_under(
        &self,
        caller: &Caller,
        key: OpenKey,
        file: &CachedFile,
        (offset, data, stability): (u64, Arc<[u8]>, Stability),
        held: &[LockAnswer],
    ) -> Result<u64, Errno> {
        let range = range_of(offset, &data)?;
        if range.is_empty() {
            return Ok(0);
        }
        let owner = self.owner(caller, file.fid).await?;
        self.check_requester()?;
        let is_sync = owner.flags & SYNC != 0;
        let stability = if is_sync { Stability::File } else { stability };
        let using = self.use_open(key, file.fid)?;
        // Each error is told once, by the first who asks.
        self.take_error(key)?;
        self.forget_inline(file.fid);
        let is_privileged = caller.has(CAP_SYS_RESOURCE);
        let before = self.all_evictions(file);
        // Before it, since what goes to the target at once tells when it was written.
        let pieces = self.pieces(file, range.clone());
        self.wrote(file.fid, pieces.into_iter().map(|(object, _)| object));
        let written = self
            .data_op(|cached, now| {
                if let Some(file) = cached.files.get_mut(&file.fid) {
                    file.owner = owner;
                    file.is_privileged &= is_privileged;
                }
                let begun = cached.cache.handle_write(now, using.id, range.clone(), stability);
                let op = begun.map_err(|error| match error {
                    // It was there a moment ago.
                    WriteError::NoObjects(_) => Errno::EIO,
                    WriteError::Mirrored => Errno::EOPNOTSUPP,
                    WriteError::TooLarge => Errno::EFBIG,
                })?;
                let (sender, waiting) = oneshot::channel();
                cached.waiting.insert(op, CacheWaiter::Write(data, offset, sender));
                Ok((op, waiting))
            })
            .await;
        let after = self.all_evictions(file);
        // What was locked may not have been at the end.
        let is_lost = before != after && !held.is_empty();
        drop(using);
        if is_lost {
            return Err(Errno::EIO);
        }
        if stability == Stability::File && written.is_ok() {
            self.sync_mdt(caller, file.fid).await?;
        }
        written
    }

    /// Returns when all that was written to an open file is at its targets.
    ///
    /// # Errors
    /// That of a write that was not told before.
    pub(crate) async fn flush_open(&self, (key, fid): (OpenKey, Fid)) -> Result<(), Errno> {
        let using = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            mount.data.opens.contains_key(&key)
        };
        if !using {
            return self.write_back(fid).await;
        }
        let using = self.use_open(key, fid)?;
        let flushed = self
            .data_op(|data, now| {
                let op = data.cache.handle_flush(now, using.id, 0..u64::MAX);
                let (sender, waiting) = oneshot::channel();
                data.waiting.insert(op, CacheWaiter::Flush(sender));
                Ok((op, waiting))
            })
            .await;
        drop(using);
        flushed
    }

    /// Returns when all that was written to a file is at its targets, or has failed.
    pub(crate) async fn write_back(&self, fid: Fid) -> Result<(), Errno> {
        let begun = {
            let mut core = self.core();
            let now = core.now;
            core.with_data(self.mount, |data| {
                let file = data.files.get(&fid)?.id;
                let op = data.cache.handle_write_back(now, file, 0..u64::MAX);
                let (sender, waiting) = oneshot::channel();
                data.waiting.insert(op, CacheWaiter::Flush(sender));
                Some(waiting)
            })
        };
        match begun.flatten() {
            Some(waiting) => waiting.await.map_err(|_| Errno::EIO)?,
            None => Ok(()),
        }
    }

    /// Returns the layout of a file in which a range has objects.
    pub(crate) async fn writable_layout(
        &self,
        caller: &Caller,
        fid: Fid,
        offset: u64,
        len: u64,
    ) -> Result<Arc<FileLayout>, Errno> {
        let layout = self.layout(caller, fid).await?;
        if layout.is_released() || layout.mirrors > 1 {
            return Err(Errno::EOPNOTSUPP);
        }
        match layout.needs_objects(offset, len) {
            true => {
                let range = (LayoutIntentOp::WRITE, offset, offset.saturating_add(len));
                self.instantiate(caller, fid, range).await
            }
            false if layout.components.is_empty() => Err(Errno::EBADF),
            false => Ok(layout),
        }
    }

    /// Returns who has a file, whose quota a write counts for.
    async fn owner(&self, caller: &Caller, fid: Fid) -> Result<MdtBody, Errno> {
        {
            let core = self.core();
            let inode = core.mounts.get(&self.mount).and_then(|mount| mount.inodes.get(&fid));
            if let Some(inode) = inode.filter(|one| one.body.valid.has(Valid::FLUID)) {
                return Ok(inode.body);
            }
        }
        self.attributes(caller, fid).await
    }
}

/// Returns the range of a write.
fn range_of(offset: u64, data: &[u8]) -> Result<Range<u64>, Errno> {
    let end = offset.checked_add(data.len() as u64).filter(|end| *end <= i64::MAX as u64);
    Ok(offset..end.ok_or(Errno::EFBIG)?)
}
