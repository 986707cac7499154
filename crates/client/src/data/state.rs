//! The data of the files of a mount: the cache, its memory, and what names its parts have here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use fulmar_base::{BufferId, Errno, Span, Time};
use fulmar_data::stripes::{self, Target};
use fulmar_data::{Bytes, Cache, FileId, OpId, OpenId, Settings};
use fulmar_ldlm::client::{Coverage, LockId};
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::{OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_net::{Memory, Slice};
use fulmar_rpc::client::ImportId;
use futures_channel::oneshot;

use super::buffers::Buffers;
use super::gate::Gate;
use super::object::Object;
use crate::files::layout::FileLayout;

/// By which an open file is known: a number of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenKey(pub(crate) u64);
/// By which locks name an object.
pub(crate) type ObjectKey = (ImportId, ResourceId);

/// The data of the files of a mount.
pub(crate) struct MountData {
    pub(crate) cache: Cache,
    settings: Settings,
    memory: Buffers,
    pub(crate) files: BTreeMap<Fid, CachedFile>,
    pub(crate) gates: BTreeMap<Fid, Gate>,
    pub(crate) objects: BTreeMap<stripes::Object, CachedObject>,
    pub(crate) keys: BTreeMap<ObjectKey, stripes::Object>,
    pub(crate) opens: BTreeMap<OpenKey, OpenFile>,
    pub(crate) waiting: BTreeMap<OpId, CacheWaiter>,
}

/// A file with data.
pub(crate) struct CachedFile {
    pub(crate) id: FileId,
    pub(crate) layout: Arc<FileLayout>,
    /// Whose quota what is written counts for.
    pub(crate) owner: MdtBody,
    /// Whether all who have written may exceed it.
    pub(crate) is_privileged: bool,
    /// How often it is open.
    pub(crate) opens: u32,
    /// The objects that it has, or has had.
    pub(crate) objects: BTreeSet<stripes::Object>,
}

/// An object of it.
pub(crate) struct CachedObject {
    pub(crate) object: Object,
    /// The locks under which data are cached, with what they cover.
    pub(crate) locks: BTreeMap<LockId, Range<u64>>,
}

/// A file that is open for data.
pub(crate) struct OpenFile {
    pub(crate) id: OpenId,
    pub(crate) fid: Fid,
    /// The operations that use it.
    pub(crate) users: u32,
    /// Who waits for the end of the last one.
    pub(crate) closing: Option<oneshot::Sender<()>>,
}

/// Who waits for an operation of the cache.
pub(crate) enum CacheWaiter {
    Read(oneshot::Sender<Result<Vec<Part>, Errno>>),
    /// With the data, and where they begin in the file.
    Write(Arc<[u8]>, u64, oneshot::Sender<Result<u64, Errno>>),
    Flush(oneshot::Sender<Result<(), Errno>>),
    /// A lock that is given up.
    Cancel(Box<PendingCancel>),
}

/// A lock that is given up when its data are written.
pub(crate) struct PendingCancel {
    pub(crate) import: ImportId,
    pub(crate) lock: LockId,
    pub(crate) covered: Coverage,
    pub(crate) object: stripes::Object,
}

/// A part of what a read has found. Its bytes do not change.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Zeros(usize),
    Bytes(Slice),
    /// They came with an open.
    Inline(Vec<u8>),
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Zeros(len) => *len,
            Self::Bytes(slice) => slice.len(),
            Self::Inline(bytes) => bytes.len(),
        }
    }
}

impl MountData {
    pub(crate) fn new(settings: Settings) -> Self {
        let memory = settings.memory.max(Settings::MEMORY_MIN);
        let settings = Settings { memory, ..settings };
        Self {
            cache: Cache::new(settings),
            settings,
            memory: Buffers::default(),
            files: BTreeMap::new(),
            gates: BTreeMap::new(),
            objects: BTreeMap::new(),
            keys: BTreeMap::new(),
            opens: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// Returns what an administrator may set.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Changes that. There is at least the least memory.
    pub(crate) fn configure(&mut self, now: Time, settings: Settings) {
        self.settings = settings;
        self.cache.configure(now, settings);
    }

    pub(super) fn allocate(&mut self, buffer: BufferId, len: u64) {
        self.memory.allocate(buffer, len as usize);
    }

    pub(super) fn release(&mut self, buffer: BufferId) {
        self.memory.release(buffer);
    }

    /// Returns spans as one memory, which shares their bytes.
    ///
    /// # Errors
    /// EIO if there are none of this name, or too many.
    pub(super) fn gather(&self, spans: &[Span]) -> Result<Memory, Errno> {
        let slices: Option<Vec<Slice>> =
            spans.iter().map(|span| self.memory.slice(*span)).collect();
        Memory::gather(slices.ok_or(Errno::EIO)?).map_err(|_| Errno::EIO)
    }

    /// Copies a part of a write.
    pub(super) fn fill(&self, op: OpId, offset: u64, span: Span) {
        let Some(CacheWaiter::Write(data, start, _)) = self.waiting.get(&op) else { return };
        let from = (offset - start) as usize;
        if let Some(slice) = self.memory.slice(span) {
            slice.write_at(0, &data[from..from + span.len as usize]);
        }
    }

    /// Returns what a read has found.
    ///
    /// # Errors
    /// EIO if there is no memory of this name.
    pub(super) fn parts(&self, bytes: &[Bytes]) -> Result<Vec<Part>, Errno> {
        let part = |bytes: &Bytes| match bytes {
            Bytes::Zeros(len) => Ok(Part::Zeros(*len as usize)),
            Bytes::Memory(span) => self.memory.slice(*span).map(Part::Bytes).ok_or(Errno::EIO),
        };
        bytes.iter().map(part).collect()
    }

    /// Returns the attributes of an object with what was written here, of which the target does not know yet. What
    /// replaces other data needs no more space than the object has up to its end.
    pub(crate) fn shown(&self, key: ObjectKey, told: &OstLvb) -> OstLvb {
        const BLOCK: u64 = 512;
        const PAGE: u64 = 4096;
        let Some(object) = self.keys.get(&key) else { return *told };
        let size = told.size.max(self.cache.written_end(*object));
        let more = self.cache.unwritten(*object).div_ceil(BLOCK);
        let whole = size.div_ceil(PAGE).saturating_mul(PAGE / BLOCK).max(told.blocks);
        let blocks = told.blocks.saturating_add(more).min(whole);
        OstLvb { size, blocks, ..*told }
    }

    /// Returns whether an object has dirty data, none of which are being written.
    pub(crate) fn is_unsent(&self, key: ObjectKey) -> bool {
        self.keys.get(&key).is_some_and(|object| self.cache.is_unsent(*object))
    }

    /// Returns whether data on the MDT are cached under a lock.
    pub(crate) fn has_lock(&self, key: ObjectKey) -> bool {
        let object = self.keys.get(&key).and_then(|object| self.objects.get(object));
        object.is_some_and(|object| !object.locks.is_empty())
    }

    /// Returns the file of an object.
    pub(super) fn file_of(&self, object: stripes::Object) -> Option<&CachedFile> {
        self.files.get(&self.objects.get(&object)?.object.file)
    }

    /// Forgets a file without a user, and of which no lock protects anything.
    pub(crate) fn forget(&mut self, fid: Fid) {
        let Some(file) = self.files.get(&fid) else { return };
        let known = |object: &stripes::Object| self.objects.get(object);
        let is_locked = file.objects.iter().filter_map(known).any(|one| !one.locks.is_empty());
        let is_used = file.opens > 0 || self.gates.contains_key(&fid);
        if is_used || is_locked || !self.cache.forget_file(file.id) {
            return;
        }
        let objects = self.files.remove(&fid).map(|file| file.objects).unwrap_or_default();
        for one in objects.iter().filter_map(|object| self.objects.remove(object)) {
            self.keys.remove(&one.object.key());
        }
    }

    /// Forgets all such files.
    pub(crate) fn forget_unused(&mut self) {
        let fids: Vec<Fid> = self.files.keys().copied().collect();
        fids.into_iter().for_each(|fid| self.forget(fid));
    }

    /// Forgets the locks of a target.
    pub(super) fn lose_locks(&mut self, target: Target) {
        let of_target = self.objects.iter_mut().filter(|(object, _)| object.target == target);
        of_target.for_each(|(_, one)| one.locks.clear());
    }
}

impl fmt::Debug for MountData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the data of {} files", self.files.len())
    }
}
