//! The names of directories that were listed, and of which many are looked up at the same time.

use std::pin::pin;
use std::time::Duration;

use fulmar_lustre_wire::{Fid, Name};
use fulmar_rpc::client::ImportId;
use futures_channel::oneshot;
use futures_util::future::{join_all, select};

use super::ahead::Ahead;
use super::caller::Caller;
use super::known;
use super::mount::MountState;
use crate::machine::context::Context;
use crate::machine::requester::Requester;

/// In how many directories names are looked up in advance.
const DIRECTORIES_MAX: usize = 16;

impl MountState {
    /// Adds names that were read of a directory, in their order, and how long that took.
    pub(crate) fn listed(
        &mut self,
        fid: Fid,
        names: impl Iterator<Item = Name>,
        (is_beginning, taken): (bool, Duration),
    ) {
        let place = self.ahead.iter().position(|(directory, _)| *directory == fid);
        let mut known = place.map(|place| self.ahead.remove(place));
        if known.is_none() && self.ahead.len() == DIRECTORIES_MAX {
            self.ahead.remove(0);
        }
        let (_, ahead) = known.get_or_insert((fid, Ahead::default()));
        ahead.add(names, is_beginning, taken);
        self.ahead.extend(known);
    }

    /// A name is looked up. Returns the names to look up in advance, which are not looked up yet.
    pub(crate) fn look_ahead(&mut self, parent: Fid, name: &Name) -> Vec<Name> {
        let Some((_, ahead)) = self.ahead.iter_mut().find(|(fid, _)| *fid == parent) else {
            return Vec::new();
        };
        let next = ahead.looked_up(name).to_vec();
        self.begin_to_look_up(parent, next)
    }

    /// Notes that names are looked up. Returns those that are not looked up yet.
    fn begin_to_look_up(&mut self, parent: Fid, mut names: Vec<Name>) -> Vec<Name> {
        names.retain(|name| !self.looking.contains_key(&(parent, name.clone())));
        self.looking.extend(names.iter().map(|name| ((parent, name.clone()), Vec::new())));
        names
    }

    /// Returns what tells when a name is not looked up any more, if it is.
    pub(super) fn waiting_for(
        &mut self,
        parent: Fid,
        name: &Name,
    ) -> Option<oneshot::Receiver<()>> {
        let others = self.looking.get_mut(&(parent, name.clone()))?;
        let (sender, waiting) = oneshot::channel();
        others.push(sender);
        Some(waiting)
    }
}

impl Context {
    /// Returns those of these names that are to be looked up, since they are not known with all attributes and no operation
    /// does it; it is noted that they are. They are for [`Context::look_up_ahead`].
    pub(crate) fn unknown_of(&self, parent: Fid, mut names: Vec<Name>) -> Vec<Name> {
        let mut core = self.core();
        let Some(mount) = core.mounts.get(&self.mount) else { return Vec::new() };
        names.retain(|name| {
            let fid = mount.names.get(&(parent, name.clone()));
            fid.is_none_or(|fid| known::attributes(&core, mount, *fid).is_none())
        });
        let mount = core.mounts.get_mut(&self.mount);
        mount.map(|mount| mount.begin_to_look_up(parent, names)).unwrap_or_default()
    }

    /// Begins to look up names that are likely to be next.
    pub(crate) fn look_up_ahead(&self, caller: &Caller, parent: Fid, next: Vec<Name>) {
        for name in next {
            let (cx, caller) = (self.clone(), caller.clone());
            self.spawn(async move {
                // Whoever wants it gets the error.
                let _ = cx.look_up(&caller, parent, name.as_bytes()).await;
                if let Some(mount) = cx.core().mounts.get_mut(&cx.mount) {
                    mount.looking.remove(&(parent, name));
                }
            });
        }
    }

    /// Returns whether the request for a name may be sent together with others: it is looked up in advance, and so are
    /// they.
    pub(super) fn is_in_advance(&self, mdt: ImportId, parent: Fid, name: &Name) -> bool {
        let core = self.core();
        let Some(mount) = core.mounts.get(&self.mount) else { return false };
        let is_looked_up = |place: &(Fid, Name)| mount.looking.contains_key(place);
        !mount.looking.is_empty()
            && is_looked_up(&(parent, name.clone()))
            && core.takes_batches(mdt)
    }

    /// Returns a name of a directory which somebody caches: a change in the directory gives up the lock on it.
    pub(super) fn watched_name(&self, directory: Fid) -> Option<(Fid, Name)> {
        let core = self.core();
        let mount = core.mounts.get(&self.mount).filter(|mount| mount.watcher.is_some())?;
        mount.inodes.get(&directory)?.names.first().cloned()
    }

    /// Looks up the name of a directory in which something was made: who makes more goes by it again.
    pub(super) fn look_up_again(&self, caller: &Caller, name: Option<(Fid, Name)>) {
        let Some((parent, name)) = name else { return };
        let next = self.unknown_of(parent, vec![name]);
        self.look_up_ahead(caller, parent, next);
    }

    /// Waits until none of these names is looked up in advance.
    pub(crate) async fn until_looked_up(&self, parent: Fid, names: &[Name]) {
        let waiting: Vec<_> = {
            let mut core = self.core();
            let Some(mount) = core.mounts.get_mut(&self.mount) else { return };
            names.iter().filter_map(|name| mount.waiting_for(parent, name)).collect()
        };
        match Requester::current() {
            Some(requester) => _ = select(join_all(waiting), pin!(requester.interrupted())).await,
            None => _ = join_all(waiting).await,
        }
    }
}
