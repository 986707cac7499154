//! The management service as a target.

use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar_base::Errno;
use fulmar_ldlm::server::Features;
use fulmar_lustre_wire::ldlm::{LockMode, LockType, Policy, ResourceId};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Opcode, Status, portal};
use fulmar_mgs::{ConfigurationChange, DamagedKeys, Mgs};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::Request;
use fulmar_store::{Space, Store, StoreError};
use thiserror::Error;

use crate::context::{Context, LockRequest};
use crate::debug_log;
use crate::locks::enqueue;
use crate::memory::{Memories, Memory};
use crate::target::{Answer, Operation, Target};

/// The keys of the configurations.
const CONFIGURATIONS: Space = Space::new(0x10);
/// How many keys are read at once.
const KEYS: usize = 1024;

/// A management service whose configurations are in a store.
pub struct MgsTarget<M: Memory> {
    mgs: Mutex<Mgs>,
    /// Held while a change is stored. Readers do not wait for the disk.
    changing: Mutex<()>,
    store: Arc<Store>,
    memories: Arc<Memories<M>>,
    /// Returns the seconds since 1970.
    clock: fn() -> i64,
}

/// Why the configurations cannot be used.
#[derive(Clone, Debug, Error)]
pub enum MgsError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is in it is no configuration.
    #[error("the configuration in the store is damaged: {0}; restore it from a copy")]
    Damaged(String),
}

impl<M: Memory> MgsTarget<M> {
    /// Opens the configurations of a store.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn open(
        store: Arc<Store>,
        memories: Arc<Memories<M>>,
        clock: fn() -> i64,
    ) -> Result<Arc<Self>, MgsError> {
        let mut stored = Vec::new();
        loop {
            let from = stored.last().map(|(key, _): &(Vec<u8>, Vec<u8>)| key.as_slice());
            let from = from.map_or(Bound::Unbounded, Bound::Excluded);
            let some = store.scan(CONFIGURATIONS, from, Bound::Unbounded, KEYS)?;
            if some.is_empty() {
                break;
            }
            stored.extend(some.into_iter().map(|(key, value)| (key, value.to_vec())));
        }
        let mgs = Mgs::load(stored).map_err(|DamagedKeys(what)| MgsError::Damaged(what))?;
        let (mgs, changing) = (Mutex::new(mgs), Mutex::new(()));
        Ok(Arc::new(Self { mgs, changing, store, memories, clock }))
    }

    /// Changes the configurations. The change is on disk when this returns, and none is made after an
    /// error.
    ///
    /// # Errors
    /// That of `change`, or EIO or ENOSPC if it cannot be stored.
    pub fn change<T, E: From<Errno>>(
        &self,
        change: impl FnOnce(&mut Mgs, i64) -> Result<T, E>,
    ) -> Result<T, E> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.mgs().clone();
        let result = change(&mut next, (self.clock)())?;
        self.keep(&mut next)?;
        *self.mgs() = next;
        Ok(result)
    }

    fn keep(&self, mgs: &mut Mgs) -> Result<(), Errno> {
        let changes = mgs.take_changes();
        if changes.is_empty() {
            return Ok(());
        }
        let mut transaction = self.store.begin();
        for (key, value) in changes {
            match value {
                Some(value) => transaction.put(CONFIGURATIONS, &key, value),
                None => transaction.delete(CONFIGURATIONS, &key),
            }
        }
        let stored = transaction.apply().and_then(|_| self.store.commit());
        stored.map(drop).map_err(|error| match error {
            StoreError::Full { .. } => Errno::ENOSPC,
            _ => Errno::EIO,
        })
    }

    /// Returns what `read` finds in the configurations.
    pub fn read<T>(&self, read: impl FnOnce(&Mgs) -> T) -> T {
        read(&self.mgs())
    }

    fn mgs(&self) -> MutexGuard<'_, Mgs> {
        self.mgs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a target. Those who have read what it changes are called back.
    async fn register(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let (this, asked) = (self, request.clone());
        let registered = context
            .run(move || {
                this.change(|mgs, now| mgs.register(now, &asked.message).map_err(Refusal::Reply))
            })
            .await?;
        match registered {
            Ok(registered) => {
                for changed in registered.changed {
                    context.spawn(call_back(context.clone(), changed));
                }
                Ok(Answer::Reply(registered.reply))
            }
            Err(Refusal::Reply(reply)) => Ok(Answer::Reply(*reply)),
            Err(Refusal::Errno(errno)) => {
                let reply = Message::reply(request.message.format(), Status::failed(errno));
                Ok(Answer::Reply(reply))
            }
        }
    }

    /// Sends the table of started targets, or the nodemaps.
    async fn read_config(&self, context: Context, request: &Request) -> Result<Answer, Errno> {
        let (reply, data) = self.mgs().read_config(&request.message)?;
        let moved = self.memories.allocate(request.from.nid, data.len())?;
        moved.memory().write_at(0, &data);
        let bulk = Bulk::new(Direction::ToClient, portal::MGS_BULK, moved.span(), 0);
        match context.transfer(request, bulk, 1).await {
            Ok(_) => Ok(Answer::Reply(reply)),
            Err(_) => Ok(Answer::None),
        }
    }
}

enum Refusal {
    Reply(Box<Message<'static>>),
    Errno(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Calls the locks of those back who have read something: they read it again.
pub(crate) async fn call_back(context: Context, changed: ConfigurationChange) {
    debug_log::configured("MGS", format_args!("{changed} has changed: it is read again"));
    let resource: ResourceId = changed.resource();
    let wanted = LockRequest::new(resource, LockType::PLAIN, LockMode::EX, Policy::default());
    // Who holds a lock and does not answer is evicted, and reads it again then.
    drop(context.lock(wanted).await);
}

impl<M: Memory> Target for MgsTarget<M> {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        Box::pin(async move {
            match request.message.body.opcode {
                Opcode::LDLM_ENQUEUE => enqueue(context, &request).await,
                Opcode::MGS_CONFIG_READ => self.read_config(context, &request).await,
                Opcode::MGS_TARGET_REG => self.register(context, request).await,
                _ => self.mgs().execute(&request.message).map(Answer::Reply),
            }
        })
    }

    fn features(&self, _: &Request) -> Features {
        Features::default()
    }

    fn ended(&self) -> Option<StoreError> {
        self.store.ended().cloned()
    }
}
