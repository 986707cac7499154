//! What a mount knows: its targets, and what it caches under their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_base::Errno;
use fulmar_lnet_wire::Net;
use fulmar_lustre_wire::ldlm::{InodeBits, OstLvb, ResourceId};
use fulmar_lustre_wire::seq::SeqRange;
use fulmar_lustre_wire::{Fid, Handle, Name, Uuid};
use fulmar_rpc::client::ImportId;
use fulmar_rpc::import::RequestId;
use futures_channel::oneshot;

use super::accesses::AccessTimes;
use super::ahead::Ahead;
use super::inode::{ATTRIBUTES, Inode, UpdateNumber};
use super::open_cache::OpenCache;
use super::operations::Operations;
use super::pages::DirectoryPages;
use super::shape::{Places, Shapes};
use super::trace::Tracer;
use crate::config::Configuration;
use crate::data::state::MountData;
use crate::watch::{Stale, Watcher};
use crate::{Address, MountOptions, Process};

/// The state of a mount.
pub(crate) struct MountState {
    pub(crate) address: Address,
    /// The UUID of this client at its targets.
    pub(crate) uuid: Uuid,
    pub(crate) mgs: Option<ImportId>,
    pub(crate) mdts: BTreeMap<u32, ImportId>,
    pub(crate) osts: BTreeMap<u32, ImportId>,
    /// The networks of this node.
    pub(crate) nets: Vec<Net>,
    /// What the management service says.
    pub(crate) configuration: Configuration,
    /// What of it has changed since it was read, and who waits for that.
    pub(crate) changed: BTreeSet<ResourceId>,
    pub(crate) config_waiter: Option<oneshot::Sender<()>>,
    pub(crate) is_ending: bool,
    pub(crate) root: Fid,
    pub(crate) inodes: BTreeMap<Fid, Inode>,
    /// Names of files: valid as long as the file's LOOKUP bit is.
    pub(crate) names: BTreeMap<(Fid, Name), Fid>,
    /// The stripes of directories.
    pub(crate) shapes: Shapes,
    /// Names that do not exist, by their directories or the stripes of them: valid as long as its UPDATE bit is.
    pub(crate) absent: BTreeMap<Fid, BTreeSet<Name>>,
    /// Names in directories or stripes of them, as they were read: valid as long as its UPDATE bit is.
    pub(crate) pages: DirectoryPages,
    /// What will be looked up in directories that were read, the ones that were used last at the end.
    pub(crate) ahead: Vec<(Fid, Ahead)>,
    /// Who waits for a name that is looked up in advance.
    pub(crate) looking: BTreeMap<(Fid, Name), Vec<oneshot::Sender<()>>>,
    /// The sizes of objects, as locks on them have told.
    pub(crate) objects: BTreeMap<(ImportId, ResourceId), Object>,
    pub(crate) sequences: BTreeMap<ImportId, Sequence>,
    /// Which MDT has which sequences.
    pub(crate) locations: Vec<SeqRange>,
    /// The opens that the imports keep for replay.
    pub(crate) opens: BTreeMap<(ImportId, RequestId), Arc<Open>>,
    /// Those that are kept without a user.
    pub(crate) kept: OpenCache,
    /// Who caches what the mount has told.
    pub(crate) watcher: Option<Arc<dyn Watcher>>,
    /// The data of files.
    pub(crate) data: MountData,
    pub(crate) operations: Operations,
    pub(crate) process: Option<Arc<dyn Process>>,
    /// Which reads are noted.
    pub(crate) access_times: AccessTimes,
    /// The RPCs, if somebody looks at them.
    pub(crate) tracer: Option<Box<Tracer>>,
}

/// The sequence that new files of an MDT are from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    pub(crate) seq: u64,
    /// The last object that was used.
    pub(crate) last: u32,
}

/// An object, as far as the locks on it have told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    /// The file that it belongs to.
    pub(crate) file: Fid,
    pub(crate) lvb: OstLvb,
    /// The newest time of a write that the target may have been told.
    pub(crate) told: i64,
}

impl Object {
    pub(crate) fn new(file: Fid, lvb: OstLvb) -> Self {
        Self { file, lvb, told: lvb.mtime }
    }

    /// The target is told the times.
    pub(crate) fn tell(&mut self) {
        self.told = self.told.max(self.lvb.mtime);
    }
}

/// An open file at its MDT.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) fid: Fid,
    pub(crate) mdt: ImportId,
    /// How often the MDT had evicted this client when the file was opened.
    pub(crate) evictions: u64,
    state: Mutex<OpenState>,
}

#[derive(Debug)]
struct OpenState {
    handle: Handle,
    /// How many use it.
    users: u32,
    /// Whether it stays open without a user.
    is_kept: bool,
    /// The request that closes it.
    close: Option<RequestId>,
}

impl Open {
    pub(crate) fn new(fid: Fid, mdt: ImportId, evictions: u64, handle: Handle) -> Self {
        let state = Mutex::new(OpenState { handle, users: 1, is_kept: false, close: None });
        Self { fid, mdt, evictions, state }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, OpenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stays open without a user.
    pub(super) fn keep(&self) {
        self.state().is_kept = true;
    }

    pub(super) fn is_kept(&self) -> bool {
        self.state().is_kept
    }

    /// Does not stay open without a user. Returns whether it is to be closed.
    pub(super) fn unkeep(&self) -> bool {
        let mut state = self.state();
        state.is_kept = false;
        state.users == 0
    }

    /// Has one more user, if it is kept.
    pub(super) fn reuse(&self) -> bool {
        let mut state = self.state();
        state.users += u32::from(state.is_kept);
        state.is_kept
    }

    /// Has one user less. Returns whether it is to be closed.
    pub(super) fn release(&self) -> bool {
        let mut state = self.state();
        state.users -= 1;
        state.users == 0 && !state.is_kept
    }

    pub(crate) fn handle(&self) -> Handle {
        self.state().handle
    }

    pub(crate) fn set_handle(&self, handle: Handle) {
        self.state().handle = handle;
    }

    pub(crate) fn close(&self) -> Option<RequestId> {
        self.state().close
    }

    pub(crate) fn set_close(&self, request: RequestId) {
        self.state().close = Some(request);
    }
}

impl MountState {
    /// Returns the number of this client in the names of its devices, which has 16 digits.
    pub(crate) fn instance(&self) -> String {
        let digits: String =
            self.uuid.to_string().chars().filter(char::is_ascii_hexdigit).collect();
        format!("{digits:0>16.16}")
    }

    pub(crate) fn new(address: Address, uuid: Uuid, options: MountOptions) -> Self {
        Self {
            address,
            uuid,
            mgs: None,
            mdts: BTreeMap::new(),
            osts: BTreeMap::new(),
            nets: Vec::new(),
            configuration: Configuration::default(),
            changed: BTreeSet::new(),
            config_waiter: None,
            is_ending: false,
            root: Fid::ROOT,
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            shapes: Shapes::default(),
            absent: BTreeMap::new(),
            pages: DirectoryPages::default(),
            ahead: Vec::new(),
            looking: BTreeMap::new(),
            objects: BTreeMap::new(),
            sequences: BTreeMap::new(),
            locations: Vec::new(),
            opens: BTreeMap::new(),
            kept: OpenCache::default(),
            watcher: None,
            data: MountData::new(options.data),
            process: options.process,
            operations: Operations::default(),
            access_times: AccessTimes::default(),
            tracer: None,
        }
    }

    /// Returns the imports of all targets.
    pub(crate) fn imports(&self) -> Vec<ImportId> {
        let targets = self.mdts.values().chain(self.osts.values());
        targets.copied().chain(self.mgs).collect()
    }

    /// Returns the import of an OST.
    ///
    /// # Errors
    /// ENXIO if there is none.
    pub(crate) fn ost(&self, index: u32) -> Result<ImportId, Errno> {
        self.osts.get(&index).copied().ok_or(Errno::ENXIO)
    }

    /// Returns the import of the MDT that has a file, if that is known.
    pub(crate) fn mdt_of(&self, fid: Fid) -> Option<ImportId> {
        let first = self.mdts.get(&0).copied();
        // Files of old releases and those with a meaning of their own are on the first one.
        if self.mdts.len() <= 1 || fid.seq < fulmar_lustre_wire::seq::Seq::NORMAL.0 {
            return first;
        }
        let location = self.locations.iter().find(|range| range.contains(fid.seq))?;
        self.mdts.get(&location.index).copied()
    }

    /// A part of the configuration has changed.
    pub(crate) fn configuration_changed(&mut self, what: ResourceId) {
        self.changed.insert(what);
        if let Some(waiting) = self.config_waiter.take() {
            let _ = waiting.send(());
        }
    }

    /// The management service has forgotten this client: everything may have changed.
    pub(crate) fn configuration_lost(&mut self) {
        for what in crate::follow::resources(&self.address.name) {
            self.configuration_changed(what);
        }
    }

    /// Drops what these bits of a file protected. Returns what others may have of it.
    pub(crate) fn lose_bits(&mut self, fid: Fid, lost: InodeBits) -> Vec<Stale> {
        let mut stale = Vec::new();
        // The layout says which data the file has. A lock on data may be all that is known of it.
        if lost.0 & (InodeBits::DOM.0 | InodeBits::LAYOUT.0) != 0 {
            stale.push(Stale::Content { file: fid, start: 0, end: u64::MAX });
        }
        let Some(inode) = self.inodes.get_mut(&fid) else { return stale };
        let lost = InodeBits(inode.bits.0 & lost.0);
        inode.lose(lost);
        if lost.has(InodeBits::LOOKUP) {
            for key in std::mem::take(&mut inode.names) {
                self.names.remove(&key);
            }
            stale.push(Stale::Names(fid));
        }
        // The size is that of the objects, and of the data on the MDT.
        let shown = ATTRIBUTES | InodeBits::LAYOUT | InodeBits::DOM;
        if lost.0 & shown.0 != 0 {
            stale.push(Stale::Attributes(fid));
        }
        let is_directory = inode.is_directory();
        let open = InodeBits::OPEN | InodeBits::LOOKUP | InodeBits::PERM;
        // The end of the connection closes all files.
        if lost.0 & open.0 != 0 && !self.is_ending {
            self.kept.drop(fid);
        }
        if lost.has(InodeBits::UPDATE) {
            self.pages.drop(fid);
        }
        if lost.has(InodeBits::UPDATE) && is_directory {
            self.absent.remove(&fid);
            if let Some(master) = self.shapes.master(fid) {
                let content = Stale::Content { file: master, start: 0, end: u64::MAX };
                stale.extend([Stale::Attributes(master), content]);
            }
        }
        if lost.has(InodeBits::UPDATE) && is_directory {
            stale.push(Stale::Content { file: fid, start: 0, end: u64::MAX });
        }
        self.forget_unused(fid);
        stale
    }

    /// Forgets a file of which nothing is valid, and that is not open.
    pub(crate) fn forget_unused(&mut self, fid: Fid) {
        if self.inodes.get(&fid).is_some_and(Inode::is_unused) {
            self.inodes.remove(&fid);
        }
    }

    /// A lock on an object is gone, of a file if that is known; `last` is the last byte that others cover. Returns
    /// what others may have of it.
    pub(crate) fn lose_extent(
        &mut self,
        import: ImportId,
        id: ResourceId,
        (file, last): (Option<Fid>, Option<u64>),
    ) -> Vec<Stale> {
        let known = self.objects.get_mut(&(import, id));
        // With the last lock that was not called back yet it is forgotten, before those that were are gone.
        let Some(file) = known.as_ref().map(|object| object.file).or(file) else {
            return Vec::new();
        };
        match (known, last) {
            // Beyond it the size is not known any more.
            (Some(object), Some(last)) => {
                object.lvb.size = object.lvb.size.min(last.saturating_add(1));
            }
            (Some(_), None) => drop(self.objects.remove(&(import, id))),
            (None, _) => {}
        }
        vec![Stale::Attributes(file), Stale::Content { file, start: 0, end: u64::MAX }]
    }

    /// A target has evicted this client.
    pub(crate) fn lose_all(&mut self, import: ImportId) {
        self.objects.retain(|(ost, _), _| *ost != import);
        self.sequences.remove(&import);
        self.opens.retain(|(mdt, _), _| *mdt != import);
        if !self.mdts.values().any(|mdt| *mdt == import) {
            return;
        }
        let here = |this: &Self, fid: Fid| this.mdt_of(fid).is_none_or(|mdt| mdt == import);
        let fids: Vec<Fid> = self.inodes.keys().copied().filter(|fid| here(self, *fid)).collect();
        for fid in fids {
            self.lose_bits(fid, InodeBits(u64::MAX));
        }
        // Names of files of other MDTs may have been of this one.
        let others: Vec<Fid> = self.inodes.keys().copied().collect();
        for fid in others {
            self.lose_bits(fid, InodeBits::LOOKUP);
        }
    }

    /// Returns the number of the names in a directory, or in a stripe of one, if a lock protects them: it is another one
    /// when they may have changed.
    pub(crate) fn protected_names(&self, place: Fid) -> Option<UpdateNumber> {
        let inode = self.inodes.get(&place)?;
        inode.bits.has(InodeBits::UPDATE).then_some(inode.updates)
    }

    /// Notes that a name is that of a file whose LOOKUP lock is held.
    pub(crate) fn add_name(&mut self, parent: Fid, name: &Name, fid: Fid) {
        self.remove_absent(parent, name);
        let Some(inode) = self.inodes.get_mut(&fid) else { return };
        if !inode.bits.has(InodeBits::LOOKUP) {
            return;
        }
        inode.names.insert((parent, name.clone()));
        if let Some(other) = self.names.insert((parent, name.clone()), fid)
            && other != fid
            && let Some(other) = self.inodes.get_mut(&other)
        {
            other.names.remove(&(parent, name.clone()));
        }
    }

    /// Forgets what a name is.
    pub(crate) fn remove_name(&mut self, parent: Fid, name: &Name) {
        if let Some(fid) = self.names.remove(&(parent, name.clone()))
            && let Some(inode) = self.inodes.get_mut(&fid)
        {
            inode.names.remove(&(parent, name.clone()));
        }
        self.remove_absent(parent, name);
    }

    fn remove_absent(&mut self, parent: Fid, name: &Name) {
        if let Some(absent) = self.place(parent, name).and_then(|fid| self.absent.get_mut(&fid)) {
            absent.remove(name);
        }
    }

    /// Returns the directory that has a name, itself or a stripe of it, if it is one only.
    fn place(&self, parent: Fid, name: &Name) -> Option<Fid> {
        match self.shapes.get(parent).map(|shape| shape.places(parent, name.as_bytes())) {
            None => Some(parent),
            Some(Places::One(fid)) => Some(fid),
            Some(_) => None,
        }
    }

    /// Returns whether a lock protects what is known of the stripes of a directory.
    pub(crate) fn is_shape_held(&self, directory: Fid) -> bool {
        self.inodes
            .get(&directory)
            .is_some_and(|one| one.has_shape && one.bits.has(InodeBits::UPDATE))
    }

    /// Returns whether it is cached that a name does not exist.
    pub(crate) fn is_absent(&self, parent: Fid, name: &Name) -> bool {
        let Some(place) = self.place(parent, name) else { return false };
        let is_valid = place == parent || self.is_shape_held(parent);
        is_valid && self.absent.get(&place).is_some_and(|absent| absent.contains(name))
    }

    /// Returns the directory in which a directory is known to be.
    pub(crate) fn parent_of(&self, directory: Fid) -> Option<Fid> {
        let inode = self.inodes.get(&directory)?;
        inode.names.first().map(|(parent, _)| *parent)
    }
}

impl fmt::Debug for MountState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the mount of {}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_on_an_object_that_is_lost_concerns_its_file() {
        let address = "10.0.0.1@tcp:/lv".parse().unwrap();
        let mut mount = MountState::new(address, Uuid::default(), MountOptions::default());
        let (file, import, id) = (Fid::ROOT, ImportId(1), ResourceId::of_fid(Fid::ROOT));
        mount.objects.insert((import, id), Object::new(file, OstLvb::default()));
        let content = Stale::Content { file, start: 0, end: u64::MAX };
        // Two are called back at once, so each is the last one.
        for _ in 0..2 {
            let stale = mount.lose_extent(import, id, (Some(file), None));
            assert_eq!(stale, [Stale::Attributes(file), content.clone()]);
        }
        assert_eq!(mount.lose_extent(import, id, (None, None)), []);
    }

    #[test]
    fn who_loses_the_layout_or_data_on_the_mdt_loses_the_content() {
        let address = "10.0.0.1@tcp:/lv".parse().unwrap();
        let mut mount = MountState::new(address, Uuid::default(), MountOptions::default());
        let content = Stale::Content { file: Fid::ROOT, start: 0, end: u64::MAX };
        for bits in [InodeBits::LAYOUT, InodeBits::DOM] {
            let stale = mount.lose_bits(Fid::ROOT, bits);
            assert_eq!(stale, std::slice::from_ref(&content));
        }
        assert_eq!(mount.lose_bits(Fid::ROOT, InodeBits::LOOKUP), []);
    }

    #[test]
    fn the_names_of_a_directory_that_was_forgotten_have_another_number() {
        let address = "10.0.0.1@tcp:/lv".parse().unwrap();
        let mut mount = MountState::new(address, Uuid::default(), MountOptions::default());
        let mut know = || {
            let inode = mount.inodes.entry(Fid::ROOT).or_default();
            inode.bits = InodeBits::UPDATE;
            let number = inode.updates;
            mount.lose_bits(Fid::ROOT, InodeBits::UPDATE);
            assert!(mount.inodes.is_empty());
            number
        };
        let numbers = [know(), know(), know()];
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
    }
}
