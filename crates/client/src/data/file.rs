//! Files in the cache: as their layouts say, as often as they are open.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_data::FileId;
use fulmar_data::stripes::{Layout, LayoutError};
use fulmar_lustre_wire::layout::Layout as WireLayout;
use fulmar_lustre_wire::{Content, Fid};
use fulmar_wire::Order;
use futures_channel::oneshot;

use super::object::Object;
use super::state::{CachedFile, CachedObject, MountData, OpenFile, OpenKey};
use crate::files::layout::FileLayout;
use crate::machine::context::Context;

/// Data of a file that is not open any more are written after this share of the time after which dirty data are.
const CLOSED_SHARE: u32 = 5;

impl Context {
    /// Returns a file in the cache, with this layout, and its objects. The caller has a pass.
    pub(super) async fn cached_file(
        &self,
        fid: Fid,
        layout: &Arc<FileLayout>,
    ) -> Result<(FileId, Vec<Object>), Errno> {
        let known = self.objects(fid, layout).await?;
        let is_same = |file: &CachedFile| {
            Arc::ptr_eq(&file.layout, layout) || file.layout.bytes == layout.bytes
        };
        if let Some(file) = self.with_file(fid, |file| is_same(file).then_some(file.id)).flatten() {
            return Ok((file, known));
        }
        let index = self.index_of(self.mdt(fid).await?)?;
        let cached = cached_layout(layout, (fid, index))?;
        let mut core = self.core();
        let added = core.with_data(self.mount, |data| data.add(fid, layout, (cached, &known)));
        added.map(|file| (file, known)).ok_or(Errno::ESHUTDOWN)
    }

    fn with_file<R>(&self, fid: Fid, call: impl FnOnce(&mut CachedFile) -> R) -> Option<R> {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount)?;
        mount.data.files.get_mut(&fid).map(call)
    }

    /// Uses an open file in the cache. The file is there.
    pub(super) fn use_open(&self, key: OpenKey, fid: Fid) -> Result<OpenUse, Errno> {
        let mut core = self.core();
        let opened = core.with_data(self.mount, |data| {
            let file = data.files.get_mut(&fid).ok_or(Errno::EIO)?;
            let cache = &mut data.cache;
            let open = data.opens.entry(key).or_insert_with(|| {
                file.opens += 1;
                OpenFile { id: cache.open(file.id), fid, users: 0, closing: None }
            });
            open.users += 1;
            Ok(open.id)
        });
        let id = opened.ok_or(Errno::ESHUTDOWN)??;
        Ok(OpenUse { cx: self.clone(), key, id })
    }

    /// Returns the error of the writes that have failed since the open file was told of one.
    pub(crate) fn take_error(&self, key: OpenKey) -> Result<(), Errno> {
        let mut core = self.core();
        let told = core.with_data(self.mount, |data| {
            let open = data.opens.get(&key)?.id;
            Some(data.cache.take_error(open))
        });
        told.flatten().unwrap_or(Ok(()))
    }

    /// Closes a file in the cache when it has no user any more. What is dirty is written soon.
    ///
    /// # Errors
    /// That of a write which was not told before.
    pub(crate) async fn close_data(&self, key: OpenKey) -> Result<(), Errno> {
        let waiting = {
            let mut core = self.core();
            let Some(mount) = core.mounts.get_mut(&self.mount) else { return Ok(()) };
            let Some(open) = mount.data.opens.get_mut(&key) else { return Ok(()) };
            (open.users > 0).then(|| {
                let (sender, waiting) = oneshot::channel();
                open.closing = Some(sender);
                waiting
            })
        };
        if let Some(waiting) = waiting {
            let _ = waiting.await;
        }
        let told = self.take_error(key);
        let closed = self.core().with_data(self.mount, |data| {
            let open = data.opens.remove(&key)?;
            data.cache.close(open.id);
            let file = data.files.get_mut(&open.fid)?;
            file.opens -= 1;
            let is_last = file.opens == 0;
            let is_dirty = data.cache.is_dirty(file.id);
            data.forget(open.fid);
            let age_max = data.settings().age_max / CLOSED_SHARE;
            (is_last && is_dirty).then_some((open.fid, age_max))
        });
        if let Some((fid, age_max)) = closed.flatten() {
            self.write_back_closed(fid, age_max);
        }
        told
    }

    /// Writes what is dirty of a file that was closed, unless it is opened again soon.
    fn write_back_closed(&self, fid: Fid, after: Duration) {
        let cx = self.clone();
        self.spawn(async move {
            cx.sleep(after).await;
            if cx.with_file(fid, |file| file.opens == 0) == Some(true) {
                // Who opens the file next is told what has failed.
                let _ = cx.write_back(fid).await;
            }
        });
    }
}

impl MountData {
    /// Adds a file, or gives it another layout.
    fn add(
        &mut self,
        fid: Fid,
        layout: &Arc<FileLayout>,
        (cached, objects): (Layout, &[Object]),
    ) -> FileId {
        let id = match self.files.get(&fid) {
            Some(file) => {
                self.cache.set_layout(file.id, cached);
                file.id
            }
            None => self.cache.add_file(cached, 0),
        };
        let file = self.files.entry(fid).or_insert_with(|| CachedFile {
            id,
            layout: layout.clone(),
            owner: fulmar_lustre_wire::mdt::MdtBody::default(),
            is_privileged: true,
            opens: 0,
            objects: std::collections::BTreeSet::new(),
        });
        file.layout = layout.clone();
        for object in objects {
            file.objects.insert(object.cached);
            self.keys.insert(object.key(), object.cached);
            let new = || CachedObject { object: *object, locks: std::collections::BTreeMap::new() };
            self.objects.entry(object.cached).or_insert_with(new).object = *object;
        }
        id
    }
}

/// Returns a layout as the cache knows it.
fn cached_layout(layout: &FileLayout, file: (Fid, u32)) -> Result<Layout, Errno> {
    if layout.components.is_empty() {
        return Ok(Layout::none());
    }
    let wire = WireLayout::decode(&layout.bytes, Order::Little).map_err(|_| Errno::EPROTO)?;
    Layout::from_wire(&wire, file.0, file.1).map_err(|error| match error {
        LayoutError::Released | LayoutError::Unsupported(_) => Errno::EOPNOTSUPP,
        LayoutError::Damaged(_) => Errno::EPROTO,
    })
}

/// A use of an open file, which ends when it is dropped. Not to be dropped while the core is used.
#[must_use = "the use ends when it is dropped"]
pub(super) struct OpenUse {
    cx: Context,
    key: OpenKey,
    pub(super) id: fulmar_data::OpenId,
}

impl Drop for OpenUse {
    fn drop(&mut self) {
        let mut core = self.cx.core();
        let Some(mount) = core.mounts.get_mut(&self.cx.mount) else { return };
        let Some(open) = mount.data.opens.get_mut(&self.key) else { return };
        open.users -= 1;
        if open.users == 0
            && let Some(closing) = open.closing.take()
        {
            let _ = closing.send(());
        }
    }
}
