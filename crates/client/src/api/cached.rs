//! What is cached, for who would otherwise wait: it costs no operation.

use fulmar_base::Errno;
use fulmar_lustre_wire::{Fid, Name};

use super::filesystem::FileSystem;
use crate::files::attributes::{Attributes, Entry};
use crate::files::caller::Caller;

impl FileSystem {
    /// Returns what [`FileSystem::lookup`] finds, if that is cached, without waiting for anything. A caller is
    /// wanted only if names are looked up in advance for it.
    pub fn cached_entry(
        &self,
        caller: impl FnOnce() -> Caller,
        parent: Fid,
        name: &[u8],
    ) -> Option<Result<Entry, Errno>> {
        let (found, next) = self.context().known_entry(parent, &Name::new(name)?)?;
        if !next.is_empty() {
            let caller = caller();
            self.begin(|cx| async move { cx.look_up_ahead(&caller, parent, next) });
        }
        Some(found)
    }

    /// Returns what [`FileSystem::getattr`] finds, if that is cached, without waiting for anything.
    pub fn cached_attributes(&self, file: Fid) -> Option<Attributes> {
        self.context().known_attributes(file)
    }

    /// Returns what [`FileSystem::get_xattr`] finds, if that is cached, without waiting for anything.
    pub fn cached_xattr(&self, file: Fid, name: &[u8]) -> Option<Result<Vec<u8>, Errno>> {
        self.context().known_xattr(file, name)
    }
}
