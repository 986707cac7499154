//! A change of the tree, which becomes a transaction.

use fulmar_base::Errno;
use fulmar_lustre_wire::Fid;
use fulmar_lustre_wire::ldlm::ResourceId;
use fulmar_store::{StoreError, Transaction};
use fulmar_target::data::ObjectSpace;
use fulmar_target::transactions::Numbering;
use fulmar_target::usage::{Charge, Deltas, UsageRecord};

use crate::Mdt;
use crate::access::{Caller, Capabilities};
use crate::changelog::{Note, Who};
use crate::data::object_of;
use crate::inode::{Extra, Inode};
use crate::layout::objects_of;
use crate::names::Entry;
use crate::records::{Failure, INODES, NAMES, ORPHANS, XATTRS, fid_key};

/// A change of the tree. What it reads is as it would leave it.
pub(crate) struct Change<'a> {
    pub(crate) mdt: &'a Mdt,
    pub(crate) transaction: Transaction<'a>,
    numbering: Numbering,
    /// Whether its data may have reached the medium before.
    is_repeated: bool,
    /// There are few.
    inodes: Vec<(Fid, FileState)>,
    /// Whether the limits of owners apply.
    is_limited: bool,
    /// A file with data that goes.
    gone: Option<Fid>,
    /// What the changelog gets to know.
    notes: Vec<Note>,
}

/// A file that the change has looked at.
struct FileState {
    before: Option<Inode>,
    /// `None`: it does not exist.
    now: Option<Inode>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(mdt: &'a Mdt, numbering: Numbering, is_repeated: bool) -> Self {
        let (transaction, inodes, notes) = (mdt.store.begin(), vec![], vec![]);
        let (is_limited, gone) = (false, None);
        Self { mdt, transaction, numbering, is_repeated, inodes, is_limited, gone, notes }
    }

    /// Returns what the data of a file occupy before this change.
    pub(crate) fn space(&self, fid: Fid, inode: &Inode) -> Result<ObjectSpace, StoreError> {
        let size = self.mdt.store.size(object_of(fid))?;
        Ok(ObjectSpace { charged: inode.charged(), size, is_repeated: self.is_repeated })
    }

    /// Returns a file, if it exists.
    pub(crate) fn inode(&mut self, fid: Fid) -> Result<Option<Inode>, StoreError> {
        if let Some(loaded) = self.loaded(fid) {
            return Ok(loaded.now.clone());
        }
        let value = self.transaction.get(INODES, &fid_key(fid))?;
        let before = value.map(|value| Inode::decode(&value)).transpose()?;
        self.inodes.push((fid, FileState { before: before.clone(), now: before.clone() }));
        Ok(before)
    }

    fn loaded(&mut self, fid: Fid) -> Option<&mut FileState> {
        self.inodes.iter_mut().find(|(known, _)| *known == fid).map(|(_, loaded)| loaded)
    }

    /// Returns a file that must exist.
    ///
    /// # Errors
    /// ENOENT, and EINVAL if its FID is not one of a file.
    pub(crate) fn existing(&mut self, fid: Fid) -> Result<Inode, Failure> {
        if fid.version != 0 {
            return Err(Errno::EINVAL.into());
        }
        Ok(self.inode(fid)?.ok_or(Errno::ENOENT)?)
    }

    /// Sets a file.
    pub(crate) fn set(&mut self, fid: Fid, inode: Inode) -> Result<(), StoreError> {
        self.inode(fid)?;
        if let Some(loaded) = self.loaded(fid) {
            loaded.now = Some(inode);
        }
        Ok(())
    }

    /// Removes a file with all that belongs to it, and its objects.
    pub(crate) fn remove(&mut self, fid: Fid) -> Result<(), StoreError> {
        let Some(inode) = self.inode(fid)? else { return Ok(()) };
        if inode.is_regular() {
            let objects = objects_of(inode.extra(Extra::Layout));
            self.mdt.objects.destroy(&mut self.transaction, &objects);
        }
        if inode.on_mdt().is_some() {
            self.transaction.remove(object_of(fid));
            self.gone = Some(fid);
        }
        for key in self.mdt.xattr_keys(fid)? {
            self.transaction.delete(XATTRS, &key);
        }
        self.transaction.delete(ORPHANS, &fid_key(fid));
        self.transaction.release_space();
        if let Some(loaded) = self.loaded(fid) {
            loaded.now = None;
        }
        Ok(())
    }

    /// Removes the data that a file has here.
    pub(crate) fn remove_data(&mut self, fid: Fid, inode: &mut Inode) {
        self.transaction.remove(object_of(fid));
        inode.set_charged(0);
    }

    /// Returns the resource of a file with data that goes: clients may have some in their caches.
    pub(crate) fn gone(&self) -> Option<ResourceId> {
        self.gone.map(ResourceId::of_fid)
    }

    /// Keeps a file without a name for those who have it open.
    pub(crate) fn keep_orphan(&mut self, fid: Fid) {
        self.transaction.put(ORPHANS, &fid_key(fid), *b"");
    }

    /// Returns an entry of a directory.
    pub(crate) fn entry(
        &mut self,
        directory: Fid,
        name: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        let value = self.transaction.get(NAMES, &self.mdt.names.key(directory, name))?;
        value.map(|value| Entry::decode(&value)).transpose()
    }

    /// Sets an entry of a directory.
    pub(crate) fn set_entry(&mut self, directory: Fid, name: &[u8], entry: Entry) {
        self.transaction.put(NAMES, &self.mdt.names.key(directory, name), entry.encode());
    }

    /// Removes an entry of a directory.
    pub(crate) fn remove_entry(&mut self, directory: Fid, name: &[u8]) {
        self.transaction.delete(NAMES, &self.mdt.names.key(directory, name));
    }

    /// Notes what the changelog is to say of the change.
    pub(crate) fn note(&mut self, note: Note) {
        if self.mdt.changelog.wants(note.kind) {
            self.notes.push(note);
        }
    }

    /// Adds what was noted to the transaction. Returns whether there was anything.
    pub(crate) fn record_notes(&mut self, who: impl FnOnce() -> Who) -> bool {
        let notes = std::mem::take(&mut self.notes);
        let is_noted = !notes.is_empty();
        if is_noted {
            self.mdt.changelog.append(&mut self.transaction, notes, who());
        }
        is_noted
    }

    /// Sets the caller of the change: the limits of owners apply unless it may exceed them.
    pub(crate) fn limit(&mut self, caller: &Caller) {
        self.is_limited |= !caller.has(Capabilities::SYS_RESOURCE);
    }

    /// Checks that owners may have what they get. What is repeated after a restart was allowed before.
    ///
    /// # Errors
    /// EDQUOT.
    pub(crate) fn check_limits(&mut self, now: i64) -> Result<(), Errno> {
        if !self.is_limited || self.numbering != Numbering::New {
            return Ok(());
        }
        let deltas = self.deltas();
        let (usage, kinds) = (&self.mdt.usage, &self.mdt.tuning().limited);
        self.mdt.limits.check(&mut self.transaction, (usage, &deltas), kinds, now)
    }

    /// Returns by how much the use of owners changes.
    fn deltas(&self) -> Deltas {
        let mut deltas = Deltas::default();
        for (_, FileState { before, now }) in &self.inodes {
            before.iter().for_each(|inode| deltas.subtract(&charge(inode)));
            now.iter().for_each(|inode| deltas.add(&charge(inode)));
        }
        deltas
    }

    /// Returns the transaction with all that has changed.
    pub(crate) fn finish(self) -> Transaction<'a> {
        let deltas = self.deltas();
        let Self { mdt, mut transaction, numbering, inodes, .. } = self;
        for (fid, FileState { before, now }) in inodes {
            if before == now {
                continue;
            }
            match now {
                Some(mut inode) => {
                    transaction.put_numbered(INODES, &fid_key(fid), move |number| {
                        inode.attributes.version = numbering.transno(number);
                        inode.encode()
                    });
                }
                None => transaction.delete(INODES, &fid_key(fid)),
            }
        }
        mdt.limits.end_graces(&mut transaction, &mdt.usage, &deltas);
        mdt.usage.record(&mut transaction, &deltas);
        transaction
    }
}

/// Returns what a file is charged for on the MDT.
pub(crate) fn charge(inode: &Inode) -> Charge {
    let attributes = &inode.attributes;
    let (uid, gid, projid) = (attributes.uid, attributes.gid, attributes.projid);
    Charge { uid, gid, projid, used: UsageRecord { bytes: inode.charged(), objects: 1 } }
}
