//! The size of a file: that of its objects. Spec: mdt-ost §11.3, §21.1.

use fulmar_base::Errno;
use fulmar_ldlm::client::LockSpec;
use fulmar_lustre_wire::ldlm::{
    Extent, InodeBits, LockFlags, LockMode, LockType, OstLvb, ResourceDesc, ResourceId,
};
use fulmar_lustre_wire::{Content, Fid};
use fulmar_rpc::client::ImportId;
use fulmar_wire::Order;
use futures_util::future::join_all;

use super::known;
use super::layout::FileLayout;
use super::mount::Object;
use super::request::{bits, resource};
use crate::machine::context::{Context, LockAnswer};
use crate::machine::enqueue::plain;
use crate::machine::peer::Build;
use crate::{follow, mounting};

/// The size of a file, and the times of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSize {
    pub(crate) size: u64,
    pub(crate) blocks: u64,
    pub(crate) mtime: i64,
    pub(crate) atime: i64,
    pub(crate) ctime: i64,
}

impl FileSize {
    /// That of a file without objects. Its times are older than any other.
    pub(crate) const NONE: Self =
        Self { size: 0, blocks: 0, mtime: i64::MIN, atime: i64::MIN, ctime: i64::MIN };

    /// Returns this with the newest times of both.
    pub(crate) fn newest(&self, other: &Self) -> Self {
        Self {
            mtime: self.mtime.max(other.mtime),
            atime: self.atime.max(other.atime),
            ctime: self.ctime.max(other.ctime),
            ..*self
        }
    }
}

impl FileSize {
    /// Returns this with an object by which the file has at least this size. A time of 0 is none: a new object has it, and
    /// where it was set, the MDT has it too.
    pub(super) fn with(&self, size: u64, lvb: &OstLvb) -> Self {
        let set = |time| if time == 0 { i64::MIN } else { time };
        let [mtime, atime, ctime] = [lvb.mtime, lvb.atime, lvb.ctime].map(set);
        let times = Self { mtime, atime, ctime, ..Self::NONE };
        Self {
            size: self.size.max(size),
            blocks: self.blocks.saturating_add(lvb.blocks),
            ..self.newest(&times)
        }
    }
}

impl Context {
    /// Returns the size of a file. No round trip if locks on all objects are held, else one: those without
    /// a lock are asked at the same time.
    pub(crate) async fn size(&self, fid: Fid, layout: &FileLayout) -> Result<FileSize, Errno> {
        self.size_with(fid, layout, false).await
    }

    /// The same by somebody who has no lock on an object: who has created the file and has it open is about to write
    /// it, and gets the locks for that at the same time.
    pub(super) async fn first_size(
        &self,
        fid: Fid,
        layout: &FileLayout,
    ) -> Result<FileSize, Errno> {
        self.size_with(fid, layout, self.is_new(fid)).await
    }

    async fn size_with(
        &self,
        fid: Fid,
        layout: &FileLayout,
        is_new: bool,
    ) -> Result<FileSize, Errno> {
        let of_objects = layout.objects().map(|(component, stripe, object)| async move {
            let ost = self.ost(object.ost).await?;
            let lvb = self.object_size(fid, is_new, (ost, object.id.resource())).await?;
            let size = layout.components[component].striping().file_size(stripe, lvb.size);
            Ok::<_, Errno>((size, lvb))
        });
        let on_mdt = layout.components.iter().filter(|one| one.is_on_mdt()).map(|one| async move {
            let lvb = self.size_on_mdt(fid).await?;
            Ok::<_, Errno>((one.striping().file_size(0, lvb.size), lvb))
        });
        let (of_objects, on_mdt) =
            futures_util::future::join(join_all(of_objects), join_all(on_mdt)).await;
        let mut sum = FileSize::NONE;
        for found in of_objects.into_iter().chain(on_mdt) {
            let (size, lvb) = found?;
            sum = sum.with(size, &lvb);
        }
        Ok(sum)
    }

    /// Returns the size and the blocks of a file, if locks on all its objects are held.
    pub(crate) fn held_size(&self, fid: Fid) -> Option<(u64, u64)> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount)?;
        let layout = mount.inodes.get(&fid)?.layout.clone()?;
        if layout.components.iter().any(|one| one.is_on_mdt()) {
            return None;
        }
        let size = known::size(&core, mount, fid, &layout)?;
        Some((size.size, size.blocks))
    }

    /// Returns the import of an OST. One that is new in the file system may have objects before this client
    /// was told of it: then the configuration is read at once.
    pub(crate) async fn ost(&self, index: u32) -> Result<ImportId, Errno> {
        let mgs = {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            match mount.ost(index) {
                Ok(import) => return Ok(import),
                Err(errno) => mount.mgs.ok_or(errno)?,
            }
        };
        let configuration = follow::read(self, mgs).await.map_err(|_| Errno::ENXIO)?;
        mounting::connect_targets(self, configuration);
        self.core().mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?.ost(index)
    }

    /// Returns the attributes of an object: what a lock on the whole of it has told, or what the OST says.
    async fn object_size(
        &self,
        fid: Fid,
        is_new: bool,
        (ost, id): (ImportId, ResourceId),
    ) -> Result<OstLvb, Errno> {
        let whole = Extent { start: 0, end: Extent::EOF, gid: 0 };
        let wanted = if is_new {
            LockSpec::new(extent_resource(id), LockMode::PW, whole)
        } else {
            let wanted = LockSpec::new(extent_resource(id), LockMode::PR, whole);
            wanted.with(LockFlags::HAS_INTENT)
        };
        let acquired = self.acquire(ost, wanted, Some(Build::alone(plain))).await?;
        self.object_lvb(fid, (ost, id), &acquired)
    }

    /// Returns whether this client has created a file, has it open, and asks for its size for the first time.
    fn is_new(&self, fid: Fid) -> bool {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount);
        let inode = mount.and_then(|mount| mount.inodes.get_mut(&fid));
        inode.is_some_and(|inode| std::mem::take(&mut inode.is_new))
    }

    /// Adopts the attributes of an object from the reply to a request for a lock, or from the lock that was
    /// held already.
    pub(crate) fn object_lvb(
        &self,
        file: Fid,
        key: (ImportId, ResourceId),
        acquired: &LockAnswer,
    ) -> Result<OstLvb, Errno> {
        let mut core = self.core();
        let mount = core.mounts.get_mut(&self.mount).ok_or(Errno::ESHUTDOWN)?;
        let Some(extra) = &acquired.extra else {
            let known = mount.objects.get(&key).map(|object| object.lvb);
            return Ok(mount.data.shown(key, &known.unwrap_or_default()));
        };
        // The object is being destroyed.
        if extra.result1 as i64 == -i64::from(Errno::ENOENT.0) {
            return Err(Errno::ESTALE);
        }
        let lvb = OstLvb::decode(&extra.lvb, Order::Little).map_err(|_| Errno::EPROTO)?;
        if let Some(errno) = lvb.error() {
            return Err(Errno(errno as i32));
        }
        if acquired.held.is_some() {
            mount.objects.insert(key, Object::new(file, lvb));
        }
        Ok(mount.data.shown(key, &lvb))
    }

    /// Returns the attributes of the data on the MDT: what a lock on them has told, or what the MDT says.
    pub(crate) async fn size_on_mdt(&self, fid: Fid) -> Result<OstLvb, Errno> {
        let mdt = self.mdt(fid).await?;
        {
            let core = self.core();
            let mount = core.mounts.get(&self.mount).ok_or(Errno::ESHUTDOWN)?;
            if let Some(known) = known::size_on_mdt(mount, mdt, fid) {
                return Ok(known);
            }
        }
        let wanted = LockSpec::new(resource(fid), LockMode::PR, bits(InodeBits::DOM));
        let wanted = wanted.with(LockFlags::HAS_INTENT).always();
        let acquired = self.acquire(mdt, wanted, Some(Build::alone(plain))).await?;
        let extra = acquired.extra.as_ref().ok_or(Errno::EPROTO)?;
        let lvb = OstLvb::decode(&extra.lvb, Order::Little).map_err(|_| Errno::EPROTO);
        // What this lock protects is not cached.
        if let Some(held) = acquired.held {
            held.cancel();
        }
        lvb
    }
}

/// Returns the resource of the data of an object.
pub(crate) fn extent_resource(id: ResourceId) -> ResourceDesc {
    ResourceDesc { kind: LockType::EXTENT, id, ..ResourceDesc::default() }
}
