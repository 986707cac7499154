//! The MDT as a whole: its parts, its clients, and how a change becomes a transaction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use fulmar_base::Errno;
use fulmar_lnet_wire::Nid;
use fulmar_lustre_wire::format::{MDT_BODY, REINT};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Fid, Handle, Uuid};
use fulmar_nodemap::{Nodemaps, View};
use fulmar_rpc::service::KnownClient;
use fulmar_store::{Store, StoreError, Transaction};
use fulmar_target::clients::{self, Client};
use fulmar_target::data::Data;
use fulmar_target::replies::{self, RequestKey};
use fulmar_target::stats::Stats;
use fulmar_target::transactions::{Numbering, Transactions};
use fulmar_target::usage::Usage;

use crate::access::Caller;
use crate::change::Change;
use crate::changelog::{Changelog, Who};
use crate::data::data_settings;
use crate::groups::Groups;
use crate::inode::Inode;
use crate::limits::Limits;
use crate::names::{Entry, Names};
use crate::objects::Objects;
use crate::opens::Opens;
use crate::records::{Failure, INODES, NAMES, USAGE, fid_key};
use crate::tuning::Tuning;

/// How many locks the files share. Two files of the same lock wait for each other without need.
const LOCKS: usize = 1024;

/// What an MDT may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its index in the file system.
    pub index: u16,
    /// Two random numbers: the key of hashes that clients must not guess.
    pub random: [u64; 2],
    /// How long after its change an inode is left to its changer, in seconds. Spec: mdt-ost §5.6.
    pub ctime_age_limit: i64,
    /// How many changes a client may have under way: as many as it makes in a round trip of a long link.
    pub changes_max: u16,
    /// The largest read of a directory, and the largest read or write of data, in bytes.
    pub brw_size: u32,
    /// Bytes of the medium that data do not get, such as for the keys of the store.
    pub reserved: u64,
    /// The largest extended attribute.
    pub xattr_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            index: 0,
            random: [0; 2],
            ctime_age_limit: 10,
            changes_max: 64,
            brw_size: 4 << 20,
            reserved: 512 << 20,
            xattr_max: 65_536,
        }
    }
}

/// An MDT. Shared by reference between threads: each request is one call.
pub struct Mdt {
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Settings,
    pub(crate) transactions: Transactions,
    pub(crate) names: Names,
    pub(crate) usage: Usage,
    pub(crate) limits: Limits,
    tuning: RwLock<Arc<Tuning>>,
    nodemaps: RwLock<Arc<Nodemaps>>,
    groups: OnceLock<Arc<dyn Groups>>,
    stats: Mutex<Stats>,
    pub(crate) changelog: Changelog,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) data: Data,
    known: Vec<KnownClient>,
    exports: Mutex<BTreeMap<Handle, Export>>,
    opens: Mutex<Opens>,
    /// The size of the largest layout that a client has seen.
    layout_max: AtomicU32,
    /// Whoever changes, opens or closes a file has its lock from reading it on, so that two changes of
    /// it do not conflict in the store, and a file that is removed is not opened meanwhile.
    locks: Vec<Mutex<()>>,
    /// Whoever moves a directory to another one has it.
    moves: Mutex<()>,
}

/// A client that is connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Export {
    pub(crate) uuid: Uuid,
    /// What is kept of it. Its number is 0 if nothing is.
    pub(crate) client: Client,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The client's export.
    pub export: Handle,
    /// Its primary NID.
    pub nid: Nid,
    /// Its XID.
    pub xid: u64,
    /// The time in seconds since 1970.
    pub now: i64,
    /// The nanoseconds of the second.
    pub nanos: u32,
    /// The request.
    pub message: &'a Message<'a>,
}

impl<'a> Call<'a> {
    /// Returns a request about data, of which the changelog says nothing.
    pub(crate) fn of_data(call: &fulmar_target::Call<'a>) -> Self {
        let fulmar_target::Call { export, nid, xid, now, message } = *call;
        Self { export, nid, xid, now, nanos: 0, message }
    }

    /// Returns the request as one about data.
    pub(crate) fn data(&self) -> fulmar_target::Call<'a> {
        let Self { export, nid, xid, now, message, .. } = *self;
        fulmar_target::Call { export, nid, xid, now, message }
    }

    /// Returns whether the client repeats what it did before a restart.
    pub(crate) fn is_replay(&self) -> bool {
        self.data().is_replay()
    }
}

/// The locks of some files.
pub(crate) type FileLocks<'a> = Vec<MutexGuard<'a, ()>>;

impl Mdt {
    /// Starts an MDT, and makes its root directory if it has none. Nothing else may use the store.
    ///
    /// # Errors
    /// If the store has ended, is full or cannot be read.
    pub fn start(
        store: Arc<Store>,
        settings: Settings,
        objects: Arc<dyn Objects>,
        now: i64,
    ) -> Result<Self, StoreError> {
        let known = clients::known(&store)?;
        let transactions = Transactions::start(&store, !known.is_empty())?;
        let names = Names::load(&store, settings.random)?;
        let usage = Usage::load(&store, USAGE)?;
        let limits = Limits::load(&store)?;
        let changelog = Changelog::load(&store)?;
        let opens = Opens::new(transactions.instance());
        let data = Data::new(store.clone(), data_settings(&settings));
        let mdt = Self {
            store,
            settings,
            transactions,
            names,
            usage,
            limits,
            tuning: RwLock::default(),
            nodemaps: RwLock::default(),
            groups: OnceLock::new(),
            stats: Mutex::default(),
            changelog,
            objects,
            data,
            known,
            exports: Mutex::default(),
            opens: Mutex::new(opens),
            layout_max: AtomicU32::new(0),
            locks: std::iter::repeat_with(Mutex::default).take(LOCKS).collect(),
            moves: Mutex::default(),
        };
        mdt.make_root(now)?;
        if mdt.known.is_empty() {
            mdt.remove_orphans(now)?;
        }
        Ok(mdt)
    }

    /// Returns how often it was started, which clients know as its instance.
    pub fn instance(&self) -> u32 {
        self.transactions.instance()
    }

    /// Returns whether clients may still repeat what a restart has lost.
    pub fn recovers(&self) -> bool {
        self.transactions.recovers()
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the clients that may recover, for [`Server::recover`](fulmar_rpc::service::Server::recover).
    pub fn known_clients(&self) -> &[KnownClient] {
        &self.known
    }

    /// Restores the export that a known client has after a restart.
    ///
    /// # Errors
    /// If the store has ended or cannot be read.
    pub fn restore(&self, export: Handle, uuid: Uuid) -> Result<(), StoreError> {
        if let Some(client) = clients::get(&self.store, uuid)? {
            self.exports().insert(export, Export { uuid, client });
            self.data.restore(export, client.flags);
        }
        Ok(())
    }

    /// Handles the end of the recovery: files that are not open any more are removed.
    ///
    /// # Errors
    /// If the store has ended or is full.
    pub fn recovered(&self, now: i64) -> Result<(), StoreError> {
        self.transactions.recovered(&self.store)?;
        // Who keeps a file because of the recovery has its lock until that is done.
        self.locks.iter().for_each(|lock| drop(lock.lock()));
        self.remove_orphans(now)
    }

    /// Returns the last transaction on disk as clients know it.
    pub fn last_committed(&self) -> u64 {
        self.transactions.last_committed(self.store.committed())
    }

    /// Handles the end of an export: a disconnect or an eviction. Its files are closed.
    ///
    /// # Errors
    /// If the store has ended. The client is gone in any case.
    pub fn forget(&self, export: Handle, now: i64) -> Result<(), StoreError> {
        self.data.forget(export);
        self.close_all(export, now)?;
        self.stats().forget(export);
        let Some(Export { uuid, client }) = self.exports().remove(&export) else { return Ok(()) };
        let is_again = self.exports().values().any(|other| other.uuid == uuid);
        if client.number == 0 || is_again {
            return Ok(());
        }
        self.repeat(|transaction| clients::remove(&self.store, transaction, uuid))
    }

    /// Returns a file.
    ///
    /// # Errors
    /// EINVAL if its FID is not one of a file, ENOENT if there is none, EIO if the store does not give it.
    pub fn inode(&self, fid: Fid) -> Result<Inode, Failure> {
        // The keys of records have no versions.
        if fid.version != 0 {
            return Err(Errno::EINVAL.into());
        }
        let value = self.store.get(INODES, &fid_key(fid))?.ok_or(Errno::ENOENT)?;
        Ok(Inode::decode(&value)?)
    }

    /// Returns an entry of a directory.
    pub(crate) fn entry(&self, directory: Fid, name: &[u8]) -> Result<Option<Entry>, StoreError> {
        let value = self.store.get(NAMES, &self.names.key(directory, name))?;
        value.map(|value| Entry::decode(&value)).transpose()
    }

    /// Returns the caller of a request as it is known here.
    ///
    /// # Errors
    /// EACCES if it is not known and unknown ones are refused, EPERM if its node is banned.
    pub fn caller(&self, call: &Call<'_>, caller: Caller) -> Result<Caller, Errno> {
        let (tuning, view) = (self.tuning(), self.view(call));
        let known = self.groups.get().filter(|_| tuning.knows_groups).map(|known| &**known);
        let mapped = caller.mapped(&view, known)?.squashed(tuning.squash_of(call.nid));
        Ok(if view.is_local_root(mapped.uid) { mapped } else { mapped.limited(tuning.cap_mask) })
    }

    /// Asks for groups of users here from now on, once, unless an administrator switches that off.
    pub fn set_groups(&self, groups: Arc<dyn Groups>) {
        let _ = self.groups.set(groups);
    }

    /// Sets the nodemaps, which hold for requests from now on.
    pub fn set_nodemaps(&self, nodemaps: Nodemaps) {
        *self.nodemaps.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(nodemaps);
    }

    /// Returns how the client of a request sees ids.
    pub(crate) fn view(&self, call: &Call<'_>) -> View {
        let nodemaps = self.nodemaps.read().unwrap_or_else(PoisonError::into_inner).clone();
        nodemaps.view(call.nid)
    }

    /// Returns what an administrator has set.
    pub(crate) fn tuning(&self) -> Arc<Tuning> {
        self.tuning.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets something.
    pub(crate) fn tune(&self, set: impl FnOnce(&mut Tuning)) {
        let mut tuning = self.tuning.write().unwrap_or_else(PoisonError::into_inner);
        set(Arc::make_mut(&mut tuning));
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the size of a layout that a client gets: others reserve as much room.
    pub(crate) fn note_layout(&self, len: usize) {
        self.layout_max.fetch_max(u32::try_from(len).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn layout_max(&self) -> u32 {
        self.layout_max.load(Ordering::Relaxed)
    }

    pub(crate) fn export(&self, export: Handle) -> Result<Export, Errno> {
        self.exports().get(&export).copied().ok_or(Errno::ENOTCONN)
    }

    pub(crate) fn exports(&self) -> MutexGuard<'_, BTreeMap<Handle, Export>> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn opens(&self) -> MutexGuard<'_, Opens> {
        self.opens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the locks of files, in an order that all have.
    pub(crate) fn lock(&self, fids: &[Fid]) -> FileLocks<'_> {
        let place = |fid: &Fid| {
            let spread = (fid.seq ^ u64::from(fid.oid)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            spread as usize % LOCKS
        };
        let mut places: Vec<usize> = fids.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        let lock = |place: usize| self.locks[place].lock().unwrap_or_else(PoisonError::into_inner);
        places.into_iter().map(lock).collect()
    }

    /// Acquires the locks of directories and of the files that names in them lead to.
    pub(crate) fn lock_with_entries(
        &self,
        places: &[(Fid, &[u8])],
    ) -> Result<FileLocks<'_>, StoreError> {
        loop {
            let found = self.entries(places)?;
            let directories = places.iter().map(|(directory, _)| *directory);
            let files = found.iter().flatten().map(|entry| entry.fid);
            let fids: Vec<Fid> = directories.chain(files).collect();
            let locked = self.lock(&fids);
            // A name may have changed before its directory was locked.
            if self.entries(places)? == found {
                return Ok(locked);
            }
        }
    }

    pub(crate) fn entries(
        &self,
        places: &[(Fid, &[u8])],
    ) -> Result<Vec<Option<Entry>>, StoreError> {
        places.iter().map(|(directory, name)| self.entry(*directory, name)).collect()
    }

    /// Waits until no other directory is moved.
    pub(crate) fn moves(&self) -> MutexGuard<'_, ()> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change with its reply, and returns both. `build` is called again if another transaction
    /// has changed what it has read. A change that was replayed and is on disk is not made: `None`.
    pub(crate) fn commit<'a, T>(
        &'a self,
        call: &Call<'_>,
        mut build: impl FnMut(&mut Change<'a>) -> Result<(Message<'static>, T), Failure>,
    ) -> Result<Option<(Message<'static>, T)>, Failure> {
        let export = self.export(call.export)?;
        let body = &call.message.body;
        let numbering = self.transactions.numbering(body.transno);
        if matches!(numbering, Numbering::Applied(_)) {
            return Ok(None);
        }
        let mut is_repeated = body.flags.is_repeated();
        loop {
            let mut change = Change::new(self, numbering, is_repeated);
            let (mut reply, value) = build(&mut change)?;
            change.check_limits(call.now)?;
            let is_noted = change.record_notes(|| self.who(call));
            let mut transaction = change.finish();
            if export.client.number != 0 {
                let asked =
                    RequestKey { client: export.client.number, tag: body.tag, xid: call.xid };
                replies::put(&mut transaction, asked, numbering, &reply);
            }
            self.transactions.record(&mut transaction, numbering);
            match transaction.apply() {
                Err(StoreError::Conflict) => is_repeated = true,
                Err(error) => return Err(error.into()),
                Ok(number) => {
                    reply.body.transno = self.transactions.applied(number, numbering);
                    if is_noted {
                        self.tend_changelog(call.now);
                    }
                    return Ok(Some((reply, value)));
                }
            }
        }
    }

    /// Returns who makes a change.
    pub(crate) fn who(&self, call: &Call<'_>) -> Who {
        let message = call.message;
        let of_record = message.get(&REINT).ok().flatten();
        let of_body = || message.get(&MDT_BODY).ok().flatten();
        let caller = match of_record {
            Some(record) => Caller::of_reint(&record.head),
            None => Caller::of_body(&of_body().unwrap_or_default()),
        };
        // A caller that is refused changes nothing.
        Who::of(call, &self.caller(call, caller.clone()).unwrap_or(caller))
    }

    /// Makes a change that no client has requested.
    pub(crate) fn commit_own<'a>(
        &'a self,
        mut build: impl FnMut(&mut Change<'a>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let mut change = Change::new(self, Numbering::New, false);
            build(&mut change)?;
            match change.finish().apply() {
                Err(StoreError::Conflict) => {}
                applied => return applied.map(drop),
            }
        }
    }

    /// Applies a transaction, and begins again if another one has changed what it has read.
    pub(crate) fn repeat<'a>(
        &'a self,
        mut build: impl FnMut(&mut Transaction<'a>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let mut transaction = self.store.begin();
            build(&mut transaction)?;
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                applied => return applied.map(drop),
            }
        }
    }
}
