//! An OST as a target: which locks its requests need. Spec: mdt-ost §16.1 to §16.11.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::Features;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{CONNECT_DATA, OST_BODY};
use fulmar_lustre_wire::ldlm::{Extent, LockMode, LockType, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::message::Message;
use fulmar_lustre_wire::ost::{Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, Opcode};
use fulmar_ost::{Call, Ost};
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Request;
use fulmar_store::{Store, StoreError};

use crate::context::{Context, Lock, LockRequest};
use crate::locks::enqueue;
use crate::memory::{Memories, Memory};
use crate::target::{Answer, Operation, Target};
use crate::transfers::{Transfers, finish, resource_of, seconds};

/// An OST, with memory for bulk data.
pub struct OstTarget<M: Memory> {
    ost: Arc<Ost>,
    store: Arc<Store>,
    transfers: Arc<Transfers<M, Ost>>,
    /// Returns the time since 1970.
    clock: fn() -> Duration,
}

impl<M: Memory> OstTarget<M> {
    /// Returns the target of an OST and its store.
    pub fn new(
        ost: Arc<Ost>,
        store: Arc<Store>,
        memories: Arc<Memories<M>>,
        clock: fn() -> Duration,
    ) -> Arc<Self> {
        let holder = (ost.clone(), store.clone());
        let transfers = Transfers::new(holder, memories, clock, wanted);
        Arc::new(Self { ost, store, transfers, clock })
    }

    async fn answer(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        match request.message.body.opcode {
            Opcode::LDLM_ENQUEUE => enqueue(context, &request).await,
            Opcode::OST_READ | Opcode::OST_WRITE => {
                self.transfers.clone().execute(&*self, context, request).await
            }
            _ => {
                let lock = lock_of(&request);
                let lock = match lock {
                    Some(wanted) => Some(context.lock(wanted).await?),
                    None => None,
                };
                self.execute_under(context, request, lock).await
            }
        }
    }

    /// Executes a request whose data are in its message, and gives the lock back.
    async fn execute_under(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
        lock: Option<Lock>,
    ) -> Result<Answer, Errno> {
        let (this, asked) = (self.clone(), request);
        let answer = context.run(move || this.ost.execute(&this.call(&asked))).await??;
        let answer = finish(&*self, &context, &self.store, answer).await;
        drop(lock);
        answer
    }

    fn call<'a>(&self, request: &'a Request) -> Call<'a> {
        let Request { export, peer, xid, ref message, .. } = *request;
        Call { export, nid: peer.nid, xid, now: seconds((self.clock)()), message }
    }
}

impl<M: Memory> Target for OstTarget<M> {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        Box::pin(self.answer(context, request))
    }

    fn features(&self, request: &Request) -> Features {
        let asked = request.message.get(&CONNECT_DATA).ok().flatten().unwrap_or_default();
        let is_server = asked.flags.has(ConnectFlags::MDS);
        Features { is_server, ..Features::default() }
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
                let _ = context.run(move || self.ost.forget(export)).await;
            }
        })
    }

    fn answered(&self, request: &Request, _: &Message<'_>, took: Duration) {
        self.ost.spent(&self.call(request), took);
    }

    fn last_committed(&self) -> Option<u64> {
        Some(self.ost.last_committed())
    }

    fn ended(&self) -> Option<StoreError> {
        self.store.ended().cloned()
    }

    fn recovered(self: Arc<Self>, context: Context) -> Operation<()> {
        Box::pin(async move {
            // If the store has ended, all operations fail.
            let _ = context.run(move || self.ost.recovered()).await;
        })
    }

    fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        self.ost.lvb(resource)
    }
}

/// Returns the lock under which a request is executed.
fn lock_of(request: &Request) -> Option<LockRequest> {
    let body: Obdo = request.message.get(&OST_BODY).ok().flatten()?;
    let resource = resource_of(request)?;
    let flags = if body.valid.has(Valid::FLFLAGS) { body.flags.flags } else { ObdoFlags::NONE };
    let everything = Extent { start: 0, end: Extent::EOF, gid: 0 };
    match request.message.body.opcode {
        // The data that clients have not written yet are dropped.
        Opcode::OST_DESTROY => {
            let wanted = wanted(resource, LockMode::PW, everything);
            Some(LockRequest { discards_data: true, ..wanted })
        }
        Opcode::OST_GETATTR if flags.has(ObdoFlags::SRVLOCK) => {
            Some(wanted(resource, LockMode::PR, everything))
        }
        Opcode::OST_PUNCH | Opcode::OST_FALLOCATE if flags.has(ObdoFlags::SRVLOCK) => {
            // The size is where it begins, the blocks are where it ends.
            let last = body.blocks.saturating_sub(1);
            let end = if body.blocks == Extent::EOF { Extent::EOF } else { last };
            let extent = Extent { start: body.size, end: end.max(body.size), gid: 0 };
            Some(wanted(resource, LockMode::PW, extent))
        }
        _ => None,
    }
}

fn wanted(resource: ResourceId, mode: LockMode, extent: Extent) -> LockRequest {
    LockRequest::new(resource, LockType::EXTENT, mode, extent.into())
}
