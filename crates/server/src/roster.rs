//! What a node serves now, for those who look at it: they do not keep a target from its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use fulmar_mdt::Mdt;
use fulmar_net::Buffer;
use fulmar_ost::Ost;
use fulmar_rpc::export::TargetId;
use fulmar_rpc::import::TargetKind;

use crate::devices::{Device, UnservedDirectory};
use crate::mgs::MgsTarget;
use crate::open_target::OpenTarget;

/// The targets of a node, and the directories from which nothing is served.
#[derive(Default)]
pub(crate) struct Roster(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    served: BTreeMap<TargetId, RosterEntry>,
    unserved: Vec<UnservedDirectory>,
}

/// A target that is served, or was until its storage failed.
#[derive(Clone)]
pub(crate) struct RosterEntry {
    pub(crate) kind: TargetKind,
    /// Without what changes.
    pub(crate) device: Device,
    pub(crate) service: Service,
}

/// The target itself.
#[derive(Clone)]
pub(crate) enum Service {
    Mgs(Weak<MgsTarget<Buffer>>),
    Mdt(Weak<Mdt>),
    Ost(Weak<Ost>),
}

impl Roster {
    pub(crate) fn add(&self, target: TargetId, opened: &OpenTarget) {
        let mut lists = self.lists();
        let listed =
            RosterEntry { kind: opened.kind(), device: device(opened), service: opened.weak() };
        lists.unserved.retain(|one| !is_same(&one.directory, &opened.directory));
        lists.served.insert(target, listed);
    }

    pub(crate) fn remove(&self, target: TargetId) {
        self.lists().served.remove(&target);
    }

    /// Notes that nothing is served from a directory.
    pub(crate) fn add_unserved(&self, unserved: UnservedDirectory) {
        self.lists().unserved.push(unserved);
    }

    /// Notes why another attempt to serve a directory has failed, if it is one of these.
    pub(crate) fn explain_unserved(&self, unserved: &UnservedDirectory) {
        let mut lists = self.lists();
        let is_it = |one: &&mut UnservedDirectory| is_same(&one.directory, &unserved.directory);
        if let Some(known) = lists.unserved.iter_mut().find(is_it) {
            known.why.clone_from(&unserved.why);
        }
    }

    /// Forgets directories from which nothing is served: this one, or those in it. Returns them.
    pub(crate) fn forget_unserved(&self, directory: &Path) -> Vec<String> {
        let mut lists = self.lists();
        let (gone, kept) = std::mem::take(&mut lists.unserved)
            .into_iter()
            .partition(|one| is_in(&one.directory, directory));
        lists.unserved = kept;
        let gone: Vec<UnservedDirectory> = gone;
        gone.into_iter().map(|one| one.directory.display().to_string()).collect()
    }

    /// Returns the targets in the order of their starts.
    pub(crate) fn served(&self) -> Vec<(TargetId, RosterEntry)> {
        self.lists().served.iter().map(|(target, listed)| (*target, listed.clone())).collect()
    }

    /// Returns a target.
    pub(crate) fn get(&self, target: TargetId) -> Option<RosterEntry> {
        self.lists().served.get(&target).cloned()
    }

    pub(crate) fn unserved(&self) -> Vec<UnservedDirectory> {
        self.lists().unserved.clone()
    }

    /// Returns which targets an administrator means: by a name or a UUID, or by a directory of a target or of
    /// several.
    pub(crate) fn meant(&self, name: &str, directory: &Path) -> Vec<(TargetId, RosterEntry)> {
        let (named, others): (Vec<_>, Vec<_>) =
            self.served().into_iter().partition(|(_, listed)| listed.device.is_named(name));
        if named.is_empty() {
            let of =
                |(_, listed): &(TargetId, RosterEntry)| is_in(&listed.device.directory, directory);
            others.into_iter().filter(of).collect()
        } else {
            named
        }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn device(opened: &OpenTarget) -> Device {
    Device {
        kind: match opened.kind() {
            TargetKind::Mdt => "mdt",
            TargetKind::Ost => "obdfilter",
            _ => "mgs",
        },
        name: opened.label.to_string(),
        uuid: opened.label.uuid(),
        directory: opened.directory.clone(),
        clients: 0,
        in_hand: 0,
        queued: 0,
        ended: None,
    }
}

/// Returns whether two paths are of one directory.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    absolute(one) == absolute(other)
}

/// Returns whether a directory is this one, or that of a part of it.
fn is_in(directory: &Path, whole: &Path) -> bool {
    let (directory, whole) = (absolute(directory), absolute(whole));
    directory == whole || directory.parent() == Some(&whole)
}

fn absolute(path: &Path) -> PathBuf {
    // One that is gone has its path only.
    let given = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.canonicalize().unwrap_or_else(|_| given())
}
