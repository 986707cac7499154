//! An MDT as a target: which locks its requests need, and how pages of directories move.

mod intent;
mod locks;
mod reint;
mod rmfid;

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::Features;
use fulmar_lustre_wire::connect::{ConnectFlags, ConnectFlags2};
use fulmar_lustre_wire::format::{CLOSE_DATA, CONNECT_DATA, LOCK_REQUEST, MDT_BODY};
use fulmar_lustre_wire::mdt::{CloseData, MdtBody};
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::{Handle, LargeNid, Opcode, Status, portal};
use fulmar_mdt::{Call, Mdt};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Request;
use fulmar_store::Store;

use crate::context::Context;
use crate::memory::{Memories, Memory};
use crate::osts::Osts;
use crate::target::{Answer, Operation, Target};

/// How requests fail that are not processed. All other failures are ordinary replies.
const NOT_PROCESSED: [Errno; 5] =
    [Errno::EPROTO, Errno::EFAULT, Errno::EOPNOTSUPP, Errno::ENOTCONN, Errno::EIO];

/// An MDT, with memory for pages of directories.
pub struct MdtTarget<M: Memory> {
    mdt: Arc<Mdt>,
    osts: Arc<Osts>,
    store: Arc<Store>,
    memories: Arc<Memories<M>>,
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
        Arc::new(Self { mdt, osts, store, memories, clock })
    }

    async fn answer(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        match request.message.body.opcode {
            Opcode::LDLM_ENQUEUE => self.enqueue(context, request).await,
            Opcode::MDS_REINT => self.reint(context, request).await,
            Opcode::MDS_READPAGE => self.readpage(context, request).await,
            Opcode::MDS_RMFID => self.rmfid(context, request).await,
            opcode => {
                give_up(&context, &request);
                let close_data = request.message.get(&CLOSE_DATA).ok().flatten();
                let body = request.message.get(&MDT_BODY).ok().flatten();
                let mut held = Vec::new();
                for wanted in body.map(|body| locks::of_request(opcode, &body)).unwrap_or_default()
                {
                    held.push(context.lock(wanted).await?);
                }
                if let Some(data) = &close_data {
                    for wanted in locks::of_close(&request.message, data) {
                        held.push(context.lock(wanted).await?);
                    }
                }
                let (this, asked) = (self.clone(), request.clone());
                let format = asked.message.format();
                let answer = context.run(move || this.mdt.execute(&this.call(&asked))).await?;
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
                Ok(match answer.reply.body.transno == 0 || held.is_empty() {
                    true => Answer::Reply(answer.reply),
                    false => Answer::Difficult(answer.reply, held),
                })
            }
        }
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
        let Request { export, xid, ref message, .. } = *request;
        let (time, from) = ((self.clock)(), LargeNid(request.from.nid.to_large()));
        Call { export, xid, from, now: seconds(time), nanos: time.subsec_nanos(), message }
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Takes back the locks that a client gives up with a request.
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
        Box::pin(self.answer(context, request))
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

    fn last_committed(&self) -> Option<u64> {
        Some(self.mdt.last_committed())
    }

    fn recovered(self: Arc<Self>, context: Context) -> Operation<()> {
        Box::pin(async move {
            let now = seconds((self.clock)());
            // If the store has ended, all operations fail.
            let _ = context.run(move || self.mdt.recovered(now)).await;
        })
    }
}
