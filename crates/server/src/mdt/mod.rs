//! An MDT as a target: which locks its requests need, and how pages of directories move.
//!
//! # Locks
//!
//! The locks keep the caches of clients right. A lookup, an open and a change lock the *name*
//! first: a hash of it is part of the resource, so two names of a directory do not wait for each
//! other. Then a change of a directory has CW on its `UPDATE` bit, under which others change it
//! too, and the file's bits that it changes in EX. The lock on the name and that on the file are
//! kept until the client has the reply (*difficult* replies), so that no other client sees what a
//! crash could undo. An intent that gives a lock takes it before it reads the attributes, and hands
//! it over.
//!
//! Queues are first in, first out, so an operation also waits for locks that only wait, whatever
//! their modes: what is compatible is no excuse for another order. All operations lock in one
//! order: the lock of renames between directories, which go one by one; names, by their resources;
//! directories, the one above first; files in them, directories first. A creation that had the
//! directory before its name once waited for an open that had the name, which waited for the
//! directory behind a `stat` of it, which waited for the creation (`tests/client/order`). Kernels
//! sent such a `stat` after each change by another client, so two mounts that worked in one
//! directory stopped.

mod batch;
mod intent;
mod locks;
mod reint;
mod rmfid;

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::Features;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLOSE_DATA, CONNECT_DATA, LOCK_REQUEST, MDT_BODY, OST_BODY};
use fulmar_lustre_wire::ldlm::{LockMode, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::{CloseData, MdtBody, Valid};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::ObdoFlags;
use fulmar_lustre_wire::{Handle, Opcode, Status, portal};
use fulmar_mdt::{Call, Mdt};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Request;
use fulmar_store::{Store, StoreError};

use crate::context::Context;
use crate::memory::{Memories, Memory};
use crate::osts::Osts;
use crate::target::{Answer, Operation, Target};
use crate::transfers::{Transfers, finish, seconds};

/// How requests fail that are not processed. All other failures are ordinary replies.
const NOT_PROCESSED: [Errno; 5] =
    [Errno::EPROTO, Errno::EFAULT, Errno::EOPNOTSUPP, Errno::ENOTCONN, Errno::EIO];

/// What is done with data beside reads and writes.
const DATA: [Opcode; 5] = [
    Opcode::OST_PUNCH,
    Opcode::OST_FALLOCATE,
    Opcode::OST_SYNC,
    Opcode::OST_SEEK,
    Opcode::OST_SET_INFO,
];

/// What takes a few keys of the store.
const ON_KEYS: [Opcode; 5] = [
    Opcode::MDS_GETATTR,
    Opcode::MDS_GETATTR_NAME,
    Opcode::MDS_GETXATTR,
    Opcode::MDS_CLOSE,
    Opcode::MDS_GET_ROOT,
];

/// An MDT, with memory for pages of directories and for data.
pub struct MdtTarget<M: Memory> {
    mdt: Arc<Mdt>,
    osts: Arc<Osts>,
    store: Arc<Store>,
    memories: Arc<Memories<M>>,
    transfers: Arc<Transfers<M, Mdt>>,
    /// Returns the time since 1970.
    clock: fn() -> Duration,
}

impl<M: Memory> MdtTarget<M> {
    /// Returns the target of an MDT, its OSTs and its store.
    pub fn new(
        (mdt, osts, store): (Arc<Mdt>, Arc<Osts>, Arc<Store>),
        memories: Arc<Memories<M>>,
        clock: fn() -> Duration,
    ) -> Arc<Self> {
        let holder = (mdt.clone(), store.clone());
        let transfers = Transfers::new(holder, memories.clone(), clock, locks::data);
        Arc::new(Self { mdt, osts, store, memories, transfers, clock })
    }

    /// Executes a request that is none of the others.
    async fn execute_plain(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        give_up(&context, &request);
        let close_data = request.message.get(&CLOSE_DATA).ok().flatten();
        let mut held = Vec::new();
        for wanted in locks::of_request(&request.message) {
            held.push(context.lock(wanted).await?);
        }
        if let Some(data) = &close_data {
            for wanted in locks::of_close(&request.message, data) {
                held.push(context.lock(wanted).await?);
            }
        }
        let (this, asked) = (self.clone(), request.clone());
        let format = request.message.format();
        let execute = move || this.mdt.execute(&this.call(&asked));
        let answer = if ON_KEYS.contains(&request.message.body.opcode) {
            self.on_keys(&context, execute).await?
        } else {
            context.run(execute).await?
        };
        if let Some(CloseData { lease, .. }) = close_data {
            // Its client has given it up with the close. Who waits for the file goes on.
            context.give_up(&request, vec![lease]);
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(errno) if NOT_PROCESSED.contains(&errno) => return Err(errno),
            Err(errno) => {
                let reply = Message::reply(format, Status::failed(errno));
                return Ok(Answer::Reply(reply));
            }
        };
        if let Some(number) = answer.durable {
            context.durable(&self.store, number).await?;
        }
        if let Some(resource) = answer.gone {
            self.discard(&context, &request, resource).await;
        }
        Ok(if answer.reply.body.transno == 0 || held.is_empty() {
            Answer::Reply(answer.reply)
        } else {
            Answer::Difficult(answer.reply, held)
        })
    }

    /// Runs work on a few keys of the store. Changes of data have locks of files, for which it would wait.
    async fn on_keys<T: Send + 'static>(
        &self,
        context: &Context,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if self.store.is_changing_data() {
            context.run(work).await
        } else {
            context.run_on_keys(&self.store, work).await
        }
    }

    /// Executes a change of data, or a question about them.
    async fn change_data(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let body = request.message.get(&OST_BODY).ok().flatten().unwrap_or_default();
        let is_locked = body.valid.has(Valid::FLFLAGS) && body.flags.flags.has(ObdoFlags::SRVLOCK);
        let lock = if is_locked {
            let reads = request.message.body.opcode == Opcode::OST_SEEK;
            let mode = if reads { LockMode::PR } else { LockMode::PW };
            let wanted = locks::data(body.id.resource(), mode, locks::WHOLE);
            Some(context.lock(wanted).await?)
        } else {
            None
        };
        let (this, asked) = (self.clone(), request.clone());
        let done = context.run(move || this.mdt.execute(&this.call(&asked))).await??;
        let answer = finish(&*self, &context, &self.store, done).await;
        drop(lock);
        answer
    }

    /// Has clients drop what they have in their caches of a file that is gone. A client that may not know
    /// of this while it waits is answered later. Spec: mdt-ost §13.2.
    async fn discard(&self, context: &Context, request: &Request, resource: ResourceId) {
        let all = context.clone();
        let discard = async move {
            // The lock ends at once. If there is none, the target ends.
            drop(all.lock(locks::discard(resource)).await);
        };
        if self.mdt.discards_later(request.export) { context.spawn(discard) } else { discard.await }
    }

    /// Executes READPAGE.
    async fn readpage(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let body: MdtBody = request.message.require(&MDT_BODY).map_err(|_| Errno::EPROTO)?;
        let wanted = body.nlink.min(self.mdt.settings().brw_size);
        let moved = self.memories.allocate(request.from.nid, wanted as usize)?;
        let (this, asked) = (self.clone(), request.clone());
        let read = context.run(move || {
            let pages = this.mdt.readpage(&this.call(&asked))?;
            moved.memory().write_at(0, &pages.bytes);
            Ok::<_, Errno>((pages.reply, pages.bytes.len() as u64, moved))
        });
        let (reply, len, moved) = read.await??;
        let (buffer, offset, _) = moved.span();
        let bulk = Bulk::new(Direction::ToClient, portal::MDS_BULK, (buffer, offset, len), 0);
        let parts_max = 1 + (wanted >> 20);
        match context.transfer(&request, bulk, parts_max).await {
            Ok(_) => Ok(Answer::Reply(reply)),
            Err(_) => Ok(Answer::None),
        }
    }

    fn call<'a>(&self, request: &'a Request) -> Call<'a> {
        let Request { export, peer, xid, ref message, .. } = *request;
        let (nid, time) = (peer.nid, (self.clock)());
        Call { export, nid, xid, now: seconds(time), nanos: time.subsec_nanos(), message }
    }
}

/// Cancels the locks that a client gives up with a request.
fn give_up(context: &Context, request: &Request) {
    if let Ok(Some(given_up)) = request.message.get(&LOCK_REQUEST) {
        let count = (given_up.count as usize).min(given_up.handles.len());
        context.give_up(request, given_up.handles[..count].to_vec());
    }
}

impl<M: Memory> Target for MdtTarget<M> {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        // Each is as large as what it does, and not as the largest.
        match request.message.body.opcode {
            Opcode::LDLM_ENQUEUE => Box::pin(self.enqueue(context, request)),
            Opcode::MDS_REINT => Box::pin(self.reint(context, request)),
            Opcode::MDS_READPAGE => Box::pin(self.readpage(context, request)),
            Opcode::OST_READ | Opcode::OST_WRITE => {
                Box::pin(
                    async move { self.transfers.clone().execute(&*self, context, request).await },
                )
            }
            opcode if DATA.contains(&opcode) => Box::pin(self.change_data(context, request)),
            Opcode::MDS_RMFID => Box::pin(self.rmfid(context, request)),
            Opcode::MDS_BATCH => Box::pin(self.batch(context, request)),
            _ => Box::pin(self.execute_plain(context, request)),
        }
    }

    fn features(&self, request: &Request) -> Features {
        let asked = request.message.get(&CONNECT_DATA).ok().flatten().unwrap_or_default();
        Features {
            is_server: asked.flags.has(ConnectFlags::MDS_MDS),
            contention: asked.flags2.has(ConnectFlags2::LOCK_CONTENTION),
            flock_deadlock: asked.flags.has(ConnectFlags::FLOCK_DEAD),
        }
    }

    fn gone(
        self: Arc<Self>,
        context: Context,
        export: Handle,
        why: Option<Eviction>,
    ) -> Operation<()> {
        Box::pin(async move {
            if why.is_some() {
                // What a DISCONNECT does itself. If the store has ended, all operations fail.
                let now = seconds((self.clock)());
                let _ = context.run(move || self.mdt.forget(export, now)).await;
            }
        })
    }

    fn answered(&self, request: &Request, reply: &Message<'_>, took: Duration) {
        self.mdt.spent(&self.call(request), reply, took);
    }

    fn last_committed(&self) -> Option<u64> {
        Some(self.mdt.last_committed())
    }

    fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        self.mdt.lvb(resource)
    }

    fn ended(&self) -> Option<StoreError> {
        self.store.ended().cloned()
    }

    fn recovered(self: Arc<Self>, context: Context) -> Operation<()> {
        Box::pin(async move {
            let now = seconds((self.clock)());
            // If the store has ended, all operations fail.
            let _ = context.run(move || self.mdt.recovered(now)).await;
        })
    }
}
