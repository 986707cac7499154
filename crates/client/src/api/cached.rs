//! What is cached, for who would otherwise wait: it costs no operation.

use std::sync::Arc;

use fulmar_base::Errno;
use fulmar_lustre_wire::{Fid, Name};

use super::filesystem::FileSystem;
use crate::files::attributes::Entry;
use crate::files::caller::Caller;
use crate::files::known::Protection;
use crate::watch::Watcher;

impl FileSystem {
    /// Has somebody drop what it caches of this mount when that is not valid any more.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        let cx = self.context();
        if let Some(mount) = cx.core().mounts.get_mut(&cx.mount) {
            mount.watcher = Some(watcher);
        }
    }

    /// Runs a future that awaits nothing but operations of this file system. It goes on wherever these end, on the
    /// threads of the node and while others of its operations wait: so it must not wait itself, nor compute for long.
    pub fn spawn(&self, operation: impl Future<Output = ()> + Send + 'static) {
        self.begin(|_| operation);
    }

    /// Calls `told` with what [`FileSystem::lookup`] finds, if that is cached, without waiting for anything. That is
    /// while locks protect it, so a [`Watcher`] hears of each loss after that; and with a lock of the mount, which
    /// must not be used there. A caller is wanted only if names are looked up in advance for it.
    pub fn cached_entry<R>(
        &self,
        caller: impl FnOnce() -> Caller,
        parent: Fid,
        name: &[u8],
        told: impl FnOnce(Result<Entry, Errno>) -> R,
    ) -> Option<R> {
        let (told, next) = self.context().known_entry(parent, &Name::new(name)?, told)?;
        if !next.is_empty() {
            let caller = caller();
            self.begin(|cx| async move { cx.look_up_ahead(&caller, parent, next) });
        }
        Some(told)
    }

    /// Begins to look up those of these names that are not cached with their attributes, at the same time. Whoever looks
    /// up one of them meanwhile does not ask for it again.
    pub fn look_up_ahead(&self, caller: &Caller, parent: Fid, names: &[&[u8]]) {
        let names = names.iter().filter_map(|name| Name::new(*name)).collect();
        let next = self.context().unknown_of(parent, names);
        if !next.is_empty() {
            let caller = caller.clone();
            self.begin(|cx| async move { cx.look_up_ahead(&caller, parent, next) });
        }
    }

    /// Waits until none of these names is looked up in advance.
    pub async fn until_looked_up(&self, parent: Fid, names: &[&[u8]]) {
        let names: Vec<Name> = names.iter().filter_map(|name| Name::new(*name)).collect();
        self.context().until_looked_up(parent, &names).await;
    }

    /// Calls `told` with what of a file, and of its name in a directory, is protected by locks: as
    /// [`FileSystem::cached_entry`] does, and without waiting for anything.
    pub fn protected<R>(
        &self,
        file: Fid,
        name: Option<(Fid, &[u8])>,
        told: impl FnOnce(&Protection) -> R,
    ) -> R {
        let name = name.and_then(|(parent, name)| Some((parent, Name::new(name)?)));
        self.context().protected(file, name, told)
    }

    /// Returns a number of the names in a directory, if a lock protects them: as long as it is the same,
    /// [`FileSystem::read_directory`] finds the same.
    pub fn names_of(&self, directory: Fid) -> Option<u64> {
        self.context().known_names(directory)
    }

    /// Returns what [`FileSystem::get_xattr`] finds, if that is cached, without waiting for anything.
    pub fn cached_xattr(&self, file: Fid, name: &[u8]) -> Option<Result<Vec<u8>, Errno>> {
        self.context().known_xattr(file, name)
    }
}
