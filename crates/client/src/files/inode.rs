//! What is cached of a file, each part as long as a lock protects it. Spec: mdt-ost §5.2.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fulmar_lustre_wire::ldlm::InodeBits;
use fulmar_lustre_wire::mdt::MdtBody;
use fulmar_lustre_wire::{Fid, Name};

use super::accesses::Access;
use super::attributes::Attributes;
use super::layout::FileLayout;
use super::open_cache::OpenHistory;

/// What is cached of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// The bits of which a lock is held.
    pub(crate) bits: InodeBits,
    /// Under `UPDATE` and `PERM`.
    pub(crate) body: MdtBody,
    /// The access control list as it was sent, under `PERM`.
    pub(crate) acl: Vec<u8>,
    /// Under `LAYOUT`; `None` if it is not known.
    pub(crate) layout: Option<Arc<FileLayout>>,
    /// The target of a symbolic link, which never changes.
    pub(crate) link: Option<Vec<u8>>,
    /// All extended attributes, under `XATTR`.
    pub(crate) xattrs: Option<Arc<BTreeMap<Name, Vec<u8>>>>,
    /// The size of its data on the MDT, under `DOM`.
    pub(crate) dom: Option<DomSize>,
    /// All its data, if they are on the MDT and came with an open, under `DOM`.
    pub(crate) inline: Option<Arc<[u8]>>,
    /// Its names, under `LOOKUP`.
    pub(crate) names: BTreeSet<(Fid, Name)>,
    /// How often it is open here.
    pub(crate) opens: u32,
    /// Whether this client has created it, has it open, and has not asked for its size yet.
    pub(crate) is_new: bool,
    /// Whether this client has created it, and so no other client has set its times, under `UPDATE`.
    pub(crate) is_own: bool,
    /// Whether this client has changed something on the MDT since it last made it durable.
    pub(crate) is_changed: bool,
    /// When it was read here.
    pub(crate) access: Option<Access>,
    /// When this client has changed its data, which the MDT is told when the file is closed, unless somebody sets
    /// its times after that.
    pub(crate) written: Option<i64>,
    /// When it was opened and closed.
    pub(crate) reopened: OpenHistory,
    /// Whether what is known of the stripes of this directory is protected by `UPDATE`.
    pub(crate) has_shape: bool,
    /// Another one each time that `UPDATE` was lost: what was asked before may have changed.
    pub(crate) updates: UpdateNumber,
}

/// The size of what a file has on the MDT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DomSize {
    pub(crate) size: u64,
    /// In units of 512 bytes.
    pub(crate) blocks: u64,
}

/// A number that no state of any file had before in this process. A count of each file would begin again when the file is
/// forgotten, and what is remembered of it elsewhere would seem to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateNumber(pub(crate) u64);

impl UpdateNumber {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for UpdateNumber {
    fn default() -> Self {
        Self::next()
    }
}

/// What attributes need to be valid.
pub(crate) const ATTRIBUTES: InodeBits = InodeBits(InodeBits::UPDATE.0 | InodeBits::PERM.0);

const TYPE: u32 = 0o170_000;

impl Inode {
    /// Drops what these bits protected.
    pub(crate) fn lose(&mut self, lost: InodeBits) {
        self.bits = InodeBits(self.bits.0 & !lost.0);
        if lost.has(InodeBits::LAYOUT) {
            self.layout = None;
        }
        if lost.has(InodeBits::XATTR) {
            self.xattrs = None;
        }
        if lost.has(InodeBits::DOM) {
            (self.dom, self.inline) = (None, None);
        }
        if lost.has(InodeBits::UPDATE) {
            self.updates = UpdateNumber::next();
            (self.has_shape, self.is_own, self.written) = (false, false, None);
        }
        self.forget_unprotected_access();
    }

    /// Forgets when the file was read, if the MDT has been told and another client may have set that time.
    pub(crate) fn forget_unprotected_access(&mut self) {
        let is_protected = self.bits.has(InodeBits::UPDATE);
        self.access = self.access.filter(|access| is_protected || !access.is_told());
    }

    /// Returns its attributes with the time at which it was read here.
    pub(super) fn shown(&self, found: Attributes) -> Attributes {
        self.access.map_or(found, |access| access.shown(found))
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.bits == InodeBits::NONE && self.opens == 0
    }

    /// Returns whether the attributes are valid.
    pub(crate) fn has_attributes(&self) -> bool {
        self.bits.has(ATTRIBUTES)
    }

    /// Returns whether this is the layout, and a lock protects it.
    pub(crate) fn has_layout(&self, layout: &FileLayout) -> bool {
        self.layout.as_ref().is_some_and(|known| known.bytes == layout.bytes)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.body.mode & TYPE == 0o040_000
    }
}

/// Returns whether a mode is that of a regular file.
pub(crate) fn is_regular(mode: u32) -> bool {
    mode & TYPE == 0o100_000
}

/// Returns whether a mode is that of a directory.
pub(crate) fn is_directory(mode: u32) -> bool {
    mode & TYPE == 0o040_000
}
