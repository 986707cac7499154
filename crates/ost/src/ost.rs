//! The OST as a whole: its parts, its clients, and how a change becomes a transaction.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use fulmar_base::Errno;
use fulmar_lustre_wire::ldlm::{Nanoseconds, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{ChecksumTypes, Obdo};
use fulmar_lustre_wire::{Handle, Uuid};
use fulmar_nodemap::{IdKind, Nodemaps, View};
use fulmar_rpc::service::KnownClient;
use fulmar_store::{ObjectId, Store, StoreError, Transaction};
use fulmar_target::clients::{self, Client};
use fulmar_target::data::{self, Data, ObjectSpace};
use fulmar_target::replies::{self, RequestKey};
use fulmar_target::transactions::{Numbering, Transactions};
use fulmar_target::usage::{Deltas, Usage};
pub use fulmar_target::{Answer, Call};
pub(crate) use fulmar_target::{Failure, errno_of};

use crate::ids;
use crate::records::{Attributes, OBJECTS, USAGE, encode, object_key};
use crate::stats::Stats;

/// How many locks the objects share. Two objects of the same lock wait for each other without need.
const LOCKS: usize = 1024;

/// What an OST may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its index in the file system.
    pub index: u16,
    /// The largest read or write in bytes: a power of two of at least 1 MiB.
    pub brw_size: u32,
    /// The largest object in bytes.
    pub bytes_max: u64,
    /// Bytes of the medium that clients do not get, such as for the keys of the store.
    pub reserved: u64,
    /// The checksums that it computes fast.
    pub checksums: ChecksumTypes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            index: 0,
            brw_size: 4 << 20,
            bytes_max: (16 << 40) - 4096,
            reserved: 512 << 20,
            checksums: data::Settings::CHECKSUMS,
        }
    }
}

/// An OST. Shared by reference between threads: each request is one call.
pub struct Ost {
    pub(crate) store: Arc<Store>,
    pub(crate) settings: Settings,
    pub(crate) transactions: Transactions,
    known: Vec<KnownClient>,
    pub(crate) usage: Usage,
    exports: Mutex<BTreeMap<Handle, Export>>,
    pub(crate) data: Data,
    stats: Mutex<Stats>,
    nodemaps: RwLock<Arc<Nodemaps>>,
    /// MDTs are asked to create no objects.
    pub(crate) creates_nothing: AtomicBool,
    /// Whoever changes an object has its lock from reading its attributes on, so that two changes of
    /// one object do not conflict in the store.
    locks: Vec<Mutex<()>>,
}

/// A client that is connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Export {
    pub(crate) uuid: Uuid,
    /// What is kept of it. Its number is 0 if nothing is.
    pub(crate) client: Client,
}

/// A change that becomes a transaction.
pub(crate) struct Change<'a> {
    pub(crate) transaction: Transaction<'a>,
    pub(crate) deltas: Deltas,
    pub(crate) numbering: Numbering,
    /// Whether its data may have reached the medium before.
    pub(crate) is_repeated: bool,
}

impl Change<'_> {
    /// Returns what an object occupies before this change.
    pub(crate) fn space(&self, before: &Attributes, size: u64) -> ObjectSpace {
        ObjectSpace { charged: before.charged, size, is_repeated: self.is_repeated }
    }

    /// Returns the attributes of an object; `None` if it does not exist.
    pub(crate) fn attributes(
        &mut self,
        object: ObjectId,
    ) -> Result<Option<Attributes>, StoreError> {
        let value = self.transaction.get(OBJECTS, &object_key(object))?;
        value.map(|value| Attributes::decode(&value)).transpose()
    }

    /// Sets the attributes of an object.
    pub(crate) fn set(&mut self, object: ObjectId, before: Option<&Attributes>, after: Attributes) {
        before.iter().for_each(|before| self.deltas.subtract(&before.charge()));
        self.deltas.add(&after.charge());
        let numbering = self.numbering;
        self.transaction.put_numbered(OBJECTS, &object_key(object), move |number| {
            encode(&Attributes { version: numbering.transno(number), ..after })
        });
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, object: ObjectId, before: &Attributes) {
        self.deltas.subtract(&before.charge());
        self.transaction.delete(OBJECTS, &object_key(object));
        self.transaction.remove(object);
        self.transaction.release_space();
    }
}

impl Ost {
    /// Starts an OST. Nothing else may use the store.
    ///
    /// # Errors
    /// If the store has ended, is full or cannot be read.
    pub fn start(store: Arc<Store>, settings: Settings) -> Result<Self, StoreError> {
        let known = clients::known(&store)?;
        let transactions = Transactions::start(&store, !known.is_empty())?;
        let usage = Usage::load(&store, USAGE)?;
        let Settings { brw_size, bytes_max, reserved, checksums, .. } = settings;
        let limits = data::Settings { brw_size, bytes_max, reserved, checksums };
        let data = Data::new(store.clone(), limits);
        Ok(Self {
            store,
            settings,
            transactions,
            known,
            usage,
            exports: Mutex::default(),
            data,
            stats: Mutex::default(),
            nodemaps: RwLock::default(),
            creates_nothing: AtomicBool::new(false),
            locks: std::iter::repeat_with(Mutex::default).take(LOCKS).collect(),
        })
    }

    /// Returns how often it was started, which clients know as its instance.
    pub fn instance(&self) -> u32 {
        self.transactions.instance()
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

    /// Handles the end of the recovery.
    ///
    /// # Errors
    /// If the store has ended or is full.
    pub fn recovered(&self) -> Result<(), StoreError> {
        self.transactions.recovered(&self.store)
    }

    /// Returns the last transaction on disk as clients know it, for
    /// [`Server::set_last_committed`](fulmar_rpc::service::Server::set_last_committed).
    pub fn last_committed(&self) -> u64 {
        self.transactions.last_committed(self.store.committed())
    }

    /// Handles the end of an export: a disconnect or an eviction. Its grant goes back.
    ///
    /// # Errors
    /// If the store has ended. The client is gone in any case.
    pub fn forget(&self, export: Handle) -> Result<(), StoreError> {
        self.data.forget(export);
        self.stats().operations.forget(export);
        let Some(Export { uuid, client }) = self.exports().remove(&export) else { return Ok(()) };
        let is_again = self.exports().values().any(|other| other.uuid == uuid);
        if client.number == 0 || is_again {
            return Ok(());
        }
        loop {
            let mut transaction = self.store.begin();
            clients::remove(&self.store, &mut transaction, uuid)?;
            match transaction.apply() {
                Err(StoreError::Conflict) => {}
                applied => return applied.map(drop),
            }
        }
    }

    /// Returns the attributes of an object that locks carry. Spec: mdt-ost §15.5.
    ///
    /// # Errors
    /// ENOENT if there is no such object, EIO if the store does not give them.
    pub fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        let object = ids::of_resource(resource)?;
        let read = || Ok((self.attributes(object)?, self.store.size(object)?));
        let (attributes, size) = read().map_err(|error: StoreError| errno_of(&error))?;
        let attributes = attributes.ok_or(Errno::ENOENT)?;
        let Attributes { mtime, atime, ctime, .. } = attributes;
        let (blocks, nanoseconds) = (attributes.blocks(), Some(Nanoseconds::default()));
        Ok(OstLvb { size, mtime, atime, ctime, blocks, nanoseconds })
    }

    /// Returns the attributes of an object; `None` if it does not exist.
    pub(crate) fn attributes(&self, object: ObjectId) -> Result<Option<Attributes>, StoreError> {
        let value = self.store.get(OBJECTS, &object_key(object))?;
        value.map(|value| Attributes::decode(&value)).transpose()
    }

    pub(crate) fn export(&self, export: Handle) -> Result<Export, Errno> {
        self.exports().get(&export).copied().ok_or(Errno::ENOTCONN)
    }

    pub(crate) fn exports(&self) -> MutexGuard<'_, BTreeMap<Handle, Export>> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the body of a request, with the ids of the file system.
    pub(crate) fn body_in_fs(&self, call: &Call<'_>) -> Result<Obdo, Errno> {
        let body = call.body()?;
        let view = self.view(call);
        let to_fs = |kind, id| view.to_fs(kind, id).id;
        Ok(Obdo {
            uid: to_fs(IdKind::User, body.uid),
            gid: to_fs(IdKind::Group, body.gid),
            projid: to_fs(IdKind::Project, body.projid),
            ..body
        })
    }

    /// Returns the body of a reply, with the ids of the client.
    pub(crate) fn body_in_client(&self, call: &Call<'_>, body: Obdo) -> Obdo {
        let view = self.view(call);
        let to_client =
            |valid, kind, id| if body.valid.has(valid) { view.to_client(kind, id) } else { id };
        Obdo {
            uid: to_client(Valid::FLUID, IdKind::User, body.uid),
            gid: to_client(Valid::FLGID, IdKind::Group, body.gid),
            projid: to_client(Valid::FLPROJID, IdKind::Project, body.projid),
            ..body
        }
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

    /// Acquires the lock of an object.
    pub(crate) fn lock(&self, object: ObjectId) -> MutexGuard<'_, ()> {
        let spread = (object.0 ^ object.1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let lock = &self.locks[spread as usize % LOCKS];
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change with its reply, and returns both with the number of the store. `build` is
    /// called again if another transaction has changed what it has read. A change that was replayed and is
    /// on disk is not made: `None`.
    pub(crate) fn commit<'a>(
        &'a self,
        call: &Call<'_>,
        mut build: impl FnMut(&mut Change<'a>) -> Result<Message<'static>, Failure>,
    ) -> Result<Option<(Message<'static>, u64)>, Failure> {
        let export = self.export(call.export)?;
        let body = &call.message.body;
        let numbering = self.transactions.numbering(body.transno);
        if matches!(numbering, Numbering::Applied(_)) {
            return Ok(None);
        }
        let mut is_repeated = body.flags.is_repeated();
        loop {
            let (transaction, deltas) = (self.store.begin(), Deltas::default());
            let mut change = Change { transaction, deltas, numbering, is_repeated };
            let mut reply = build(&mut change)?;
            let Change { mut transaction, deltas, .. } = change;
            self.usage.record(&mut transaction, &deltas);
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
                    return Ok(Some((reply, number)));
                }
            }
        }
    }

    /// Returns the reply to a request that was a transaction, or was one before the restart and is not
    /// repeated. `body`: the attributes of the latter.
    pub(crate) fn answer(
        &self,
        call: &Call<'_>,
        committed: Option<(Message<'static>, u64)>,
        body: impl FnOnce() -> Result<Obdo, Failure>,
    ) -> Result<Answer, Failure> {
        match committed {
            Some((reply, _)) => Ok(Answer::new(reply)),
            None => {
                let mut reply = call.reply_with(&body()?);
                reply.body.transno = call.message.body.transno;
                Ok(Answer::new(reply))
            }
        }
    }
}
