//! The machine: its state, its clients, and the removal of locks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use fulmar_base::{Errno, Table, Time, Timers};
use fulmar_lustre_wire::Handle;
use fulmar_lustre_wire::ldlm::ResourceId;

use super::api::{CallbackId, Config, EvictReason, Features, Output};
use super::callbacks::UnderWay;
use super::glimpse::Glimpse;
use super::lock::{Flags, Kind, Lock};
use super::resource::Resource;
use crate::slab::Slab;

/// The locks of a target.
pub struct Namespace {
    pub(super) config: Config,
    issue: Box<dyn FnMut() -> Handle + Send>,
    pub(super) locks: Slab<Lock>,
    pub(super) by_handle: BTreeMap<Handle, u32>,
    pub(super) by_holder: BTreeSet<HolderKey>,
    pub(super) resources: Slab<Resource>,
    pub(super) by_id: BTreeMap<ResourceId, u32>,
    /// The first is the host itself.
    pub(super) exports: Slab<Export>,
    pub(super) by_export: BTreeMap<Handle, u32>,
    /// Callbacks without an answer, by export and number.
    pub(super) callbacks: BTreeMap<(u32, u64), UnderWay>,
    pub(super) callbacks_made: u64,
    pub(super) glimpses: Table<Glimpse>,
    pub(super) timers: Timers<Timer>,
    /// The locks with timers, by export, resource and place, with the time of the callback.
    pub(super) timed: BTreeMap<(u32, u32, u32), Time>,
    /// What cancels have taken lately.
    pub(super) cancel_time: Duration,
    /// Waiting flocks by export and owner.
    pub(super) flocks_waiting: BTreeMap<(u32, u64), Vec<u32>>,
    /// Requests that wait for an LVB or a glimpse.
    pub(super) pending: u32,
    /// Resources whose queues are to be looked at.
    pub(super) changed: BTreeSet<u32>,
    pub(super) is_recovering: bool,
    pub(super) outputs: VecDeque<Output>,
}

/// The locks of each holder in the order of its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HolderKey {
    pub(super) export: u32,
    /// Two halves, so that the key has 16 bytes.
    pub(super) client: [u32; 2],
    pub(super) lock: u32,
}

impl HolderKey {
    pub(super) fn new(export: u32, client: Handle, lock: u32) -> Self {
        Self { export, client: [(client.0 >> 32) as u32, client.0 as u32], lock }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The lock at this place is to be cancelled.
    Cancel(u32),
    /// A callback is to be answered.
    Answer(CallbackId),
}

#[derive(Debug)]
pub(super) struct Export {
    pub(super) handle: Handle,
    pub(super) features: Features,
    pub(super) locks: u32,
    pub(super) waiting: u32,
}

/// The place of the host among the exports.
pub(super) const LOCAL: u32 = 0;

impl Namespace {
    /// Begins without locks. `issue` returns handles that it never returns again.
    pub fn new(config: Config, issue: impl FnMut() -> Handle + Send + 'static) -> Self {
        let mut exports = Slab::default();
        let host = Features { is_server: true, ..Features::default() };
        let local = Export { handle: Handle::NONE, features: host, locks: 0, waiting: 0 };
        assert_eq!(exports.insert(local), LOCAL);
        Self {
            config,
            issue: Box::new(issue),
            locks: Slab::default(),
            by_handle: BTreeMap::new(),
            by_holder: BTreeSet::new(),
            resources: Slab::default(),
            by_id: BTreeMap::new(),
            exports,
            by_export: BTreeMap::new(),
            callbacks: BTreeMap::new(),
            callbacks_made: 0,
            glimpses: Table::default(),
            timers: Timers::default(),
            timed: BTreeMap::new(),
            cancel_time: Duration::ZERO,
            flocks_waiting: BTreeMap::new(),
            pending: 0,
            changed: BTreeSet::new(),
            is_recovering: false,
            outputs: VecDeque::new(),
        }
    }

    /// A client has connected, or has negotiated other features.
    pub fn handle_connect(&mut self, export: Handle, features: Features) {
        if let Some(&place) = self.by_export.get(&export) {
            self.exports[place].features = features;
            return;
        }
        let place = self.exports.insert(Export { handle: export, features, locks: 0, waiting: 0 });
        self.by_export.insert(export, place);
    }

    /// A client is gone, and with it its locks and callbacks. Its requests that are not answered yet
    /// are answered with ENOTCONN.
    pub fn handle_disconnect(&mut self, now: Time, export: Handle) {
        self.forget_export(export);
        self.settle(now);
    }

    /// Begins recovery: clients that had locks before the restart of the target replay them, which
    /// they may not at other times. Until its end nothing is called back.
    pub fn begin_recovery(&mut self) {
        self.is_recovering = true;
    }

    /// Ends recovery: what waits is granted, or asks back what is in its way.
    /// Spec: ptlrpc-ldlm-mgs §21.6.
    pub fn end_recovery(&mut self, now: Time) {
        self.is_recovering = false;
        let waiting =
            |(place, resource): (u32, &Resource)| (resource.waiting_len() > 0).then_some(place);
        self.changed.extend(self.resources.iter().filter_map(waiting));
        self.settle(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            let (export, why, since) = match timer {
                Timer::Cancel(id) => {
                    let lock = &self.locks[id];
                    let since = self.timed.get(&(lock.export, lock.resource, id));
                    (lock.export, EvictReason::NotCancelled, since.copied())
                }
                Timer::Answer(id) => {
                    let since = self.callbacks.get(&(id.export, id.number)).map(|one| one.since);
                    (id.export, EvictReason::NotAnswered, since)
                }
            };
            self.evict(export, why, now.since(since.unwrap_or(now)));
        }
        self.settle(now);
    }

    /// Returns when [`Namespace::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns how many locks wait.
    pub fn waiting_len(&self) -> usize {
        self.exports.iter().map(|(_, export)| export.waiting as usize).sum()
    }

    /// Returns how many locks there are, granted and waiting.
    pub fn len(&self) -> usize {
        self.locks.len() as usize
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many resources there are.
    pub fn resources_len(&self) -> usize {
        self.resources.len() as usize
    }

    /// Returns the lock that a client names, as for a repeated request.
    pub fn find(&self, export: Handle, client: Handle) -> Option<Handle> {
        let export = *self.by_export.get(&export)?;
        self.find_lock(export, client).map(|lock| self.locks[lock].handle)
    }

    pub(super) fn find_lock(&self, export: u32, client: Handle) -> Option<u32> {
        let range = HolderKey::new(export, client, 0)..=HolderKey::new(export, client, u32::MAX);
        self.by_holder.range(range).next().map(|key| key.lock)
    }

    pub(super) fn issue(&mut self) -> Handle {
        (self.issue)()
    }

    /// Returns the resource with this name, or a new one.
    pub(super) fn resource(&mut self, id: ResourceId, kind: Kind) -> Result<u32, Errno> {
        if let Some(&place) = self.by_id.get(&id) {
            return if self.resources[place].kind == kind { Ok(place) } else { Err(Errno::EINVAL) };
        }
        let place = self.resources.insert(Resource::new(id, kind));
        self.by_id.insert(id, place);
        Ok(place)
    }

    /// Drops a resource that nothing needs, or what it does not need.
    pub(super) fn drop_unused(&mut self, place: u32) {
        let Some(resource) = self.resources.get_mut(place) else { return };
        if resource.more.as_ref().is_some_and(|more| more.is_idle()) {
            resource.more = None;
        }
        if self.resources.get(place).is_some_and(Resource::is_unused) {
            let resource = self.resources.remove(place);
            self.by_id.remove(&resource.id);
            self.changed.remove(&place);
        }
    }

    /// Adds a lock to the tables, neither granted nor waiting.
    pub(super) fn add(&mut self, place: u32, lock: Lock) -> u32 {
        let (handle, export, client) = (lock.handle, lock.export, lock.client);
        let id = self.locks.insert(Lock { resource: place, ..lock });
        self.by_handle.insert(handle, id);
        self.by_holder.insert(HolderKey::new(export, client, id));
        self.resources[place].locks += 1;
        self.exports[export].locks += 1;
        id
    }

    /// Queues a lock.
    pub(super) fn wait(&mut self, id: u32) {
        let lock = &self.locks[id];
        let (place, export) = (lock.resource, lock.export);
        let owner = (export, lock.part.value);
        self.resources[place].queue(&self.locks, id);
        self.exports[export].waiting += 1;
        if self.resources[place].kind == Kind::Flock {
            self.flocks_waiting.entry(owner).or_default().push(id);
        }
    }

    /// Removes a lock from its queue.
    pub(super) fn unwait(&mut self, id: u32) {
        let lock = &self.locks[id];
        let (place, export) = (lock.resource, lock.export);
        let owner = (export, lock.part.value);
        self.resources[place].unqueue(&self.locks, id);
        self.exports[export].waiting -= 1;
        if self.resources[place].kind == Kind::Flock
            && let Some(list) = self.flocks_waiting.get_mut(&owner)
        {
            list.retain(|&other| other != id);
            if list.is_empty() {
                self.flocks_waiting.remove(&owner);
            }
        }
    }

    /// Removes a lock. Its resource is looked at when the input settles.
    pub(super) fn remove(&mut self, id: u32) {
        self.stop_timer(id);
        let place = self.locks[id].resource;
        if self.locks[id].is_granted {
            self.resources[place].ungrant(&mut self.locks, id);
        } else {
            self.unwait(id);
        }
        let lock = self.forget(id);
        if lock.requested.writes() && !lock.flags.has(Flags::DISCARDED) {
            self.resources[place].outdate_lvb();
        }
        self.changed.insert(place);
    }

    /// Removes a lock that is neither granted nor waiting from the tables.
    fn forget(&mut self, id: u32) -> Lock {
        let lock = self.locks.remove(id);
        self.by_handle.remove(&lock.handle);
        self.by_holder.remove(&HolderKey::new(lock.export, lock.client, id));
        self.exports[lock.export].locks -= 1;
        self.resources[lock.resource].locks -= 1;
        lock
    }

    /// Removes a client by its place, and says so.
    pub(super) fn evict(&mut self, export: u32, why: EvictReason, after: Duration) {
        let Some(handle) = self.exports.get(export).map(|export| export.handle) else { return };
        self.forget_export(handle);
        self.outputs.push_back(Output::Evict { export: handle, why, after });
    }

    fn forget_export(&mut self, export: Handle) {
        let Some(place) = self.by_export.remove(&export) else { return };
        let range =
            HolderKey::new(place, Handle(0), 0)..=HolderKey::new(place, Handle(u64::MAX), u32::MAX);
        let locks: Vec<u32> = self.by_holder.range(range).map(|key| key.lock).collect();
        for lock in locks {
            self.remove(lock);
        }
        self.forget_callbacks(place);
        self.exports.remove(place);
    }

    /// Looks at what the input has changed.
    pub(super) fn settle(&mut self, now: Time) {
        while let Some(place) = self.changed.pop_first() {
            self.reprocess(now, place, false);
            self.drop_unused(place);
        }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("locks", &self.locks.len())
            .field("resources", &self.resources.len())
            .field("exports", &self.by_export.len())
            .finish_non_exhaustive()
    }
}
