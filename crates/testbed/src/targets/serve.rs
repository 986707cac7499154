//! The targets as a service.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_ldlm::server::{Config, Times};
use fulmar_lustre_wire::format::OST_BODY;
use fulmar_lustre_wire::ldlm::{Extent, OstLvb, ResourceId};
use fulmar_lustre_wire::{Handle, Opcode, Uuid, portal};
use fulmar_mgs::Mgs;
use fulmar_net::Buffer;
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::{Eviction, ExportLimits, TargetId};
use fulmar_rpc::import::TargetKind;
use fulmar_rpc::service::{
    PartitionConfig, Request, Server, ServerConfig, TargetConfig, TargetState,
};
use fulmar_rpc::timeouts::Limits;
use fulmar_server::{
    Answer, Context, Memories, MgsTarget, Operation, Target, Targets, TargetsConfig, enqueue,
    with_locks,
};

use super::{Ost, Transfer};

/// How the targets behave.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions {
    /// How long the holder of a lock may take for a callback, and to cancel it when others wait; by
    /// default as long as with kernel servers.
    pub lock_timeout: Option<Duration>,
    /// Whether each request is printed.
    pub prints_requests: bool,
}

/// Returns this management service, and an OST of this name, such as `lv-OST0000`.
///
/// # Errors
/// EINVAL if the name is too long.
pub fn targets(
    key: u128,
    mgs: Arc<MgsTarget<Buffer>>,
    ost: &str,
    memories: &Arc<Memories<Buffer>>,
    options: TargetOptions,
) -> Result<Targets, Errno> {
    let (server, name) = (server(key, ost)?, ost);
    let times = options.times();
    let mgs = TargetsConfig {
        name: "MGS".to_owned(),
        target: options.printed("mgs", mgs),
        kind: TargetKind::Mgs,
        locks: Config { times, ..Config::mgs() },
        key: key ^ 1,
    };
    let ost = Arc::new(OstTarget { ost: Mutex::default(), memories: memories.clone() });
    let ost = TargetsConfig {
        name: name.to_owned(),
        target: options.printed("ost", ost),
        kind: TargetKind::Ost,
        locks: Config { times, ..Config::ost() },
        key: key ^ 2,
    };
    Ok(Targets::new(server, [mgs, ost]))
}

/// Returns the RPC service of both.
fn server(key: u128, ost: &str) -> Result<Server, Errno> {
    let uuid = |text: &str| Uuid::new(text).ok_or(Errno::EINVAL);
    let mgs = TargetConfig {
        kind: TargetKind::Mgs,
        name: uuid("MGS")?,
        uuid: uuid("MGS")?,
        operations: with_locks(Mgs::OPERATIONS),
    };
    let ost = TargetConfig {
        kind: TargetKind::Ost,
        name: uuid(ost)?,
        uuid: uuid(&format!("{ost}_UUID"))?,
        operations: with_locks(Ost::OPERATIONS),
    };
    let objects = [portal::OST_REQUEST, portal::OST_CREATE];
    let mut server = Server::new(ServerConfig {
        key,
        partitions: vec![
            PartitionConfig::mgs(),
            PartitionConfig::new("ost", &objects, 16 << 10),
            PartitionConfig::new("ost_io", &[portal::OST_IO], 64 << 10),
            PartitionConfig::new("ldlm_cancel", &[portal::LDLM_CANCEL_REQUEST], 5 << 10),
        ],
        targets: vec![mgs, ost],
        exports: ExportLimits::default(),
        timeouts: Limits::default(),
    });
    for target in [TargetId(0), TargetId(1)] {
        server.set_state(target, TargetState::Open);
    }
    Ok(server)
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { lock_timeout: None, prints_requests: true }
    }
}

impl TargetOptions {
    /// Returns how long holders of locks may take.
    fn times(&self) -> Times {
        self.lock_timeout.map_or_else(Times::default, |limit| Times {
            cancel_min: limit,
            cancel_max: limit,
            prolonged_max: limit,
            answer: limit,
        })
    }

    fn printed(&self, name: &'static str, target: Arc<dyn Target>) -> Arc<dyn Target> {
        if self.prints_requests { Arc::new(RequestPrinter { name, target }) } else { target }
    }
}

/// The OST in memory.
struct OstTarget {
    ost: Mutex<Ost>,
    memories: Arc<Memories<Buffer>>,
}

impl OstTarget {
    fn ost(&self) -> MutexGuard<'_, Ost> {
        self.ost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, context: Context, request: &Request) -> Result<Answer, Errno> {
        let opcode = request.message.body.opcode;
        if opcode == Opcode::LDLM_ENQUEUE {
            return enqueue(context, request).await;
        }
        let moves = matches!(opcode, Opcode::OST_READ | Opcode::OST_WRITE);
        let transfer = if moves { Ost::transfer(&request.message)? } else { None };
        let answer = match transfer {
            Some(transfer) => self.transfer(&context, request, transfer).await,
            None => self.ost().execute(&request.message).map(Answer::Reply),
        };
        self.note_change(&context, request);
        answer
    }

    /// Moves the bulk data of a read or a write.
    async fn transfer(
        &self,
        context: &Context,
        request: &Request,
        Transfer { len, offset, parts_max }: Transfer,
    ) -> Result<Answer, Errno> {
        let in_page = (offset % 4096) as u32;
        let node = request.from.nid;
        if let Ok(Some(body)) = request.message.get(&OST_BODY) {
            let end = offset.saturating_add(len as u64).saturating_sub(1);
            context.used(request, body.id.resource(), Extent { start: offset, end, gid: 0 });
        }
        if request.message.body.opcode == Opcode::OST_READ {
            let (reply, data) = self.ost().read(&request.message)?;
            let moved = self.memories.allocate(node, data.len())?;
            moved.memory().write_at(0, &data);
            let bulk = Bulk::new(Direction::ToClient, portal::OST_BULK, moved.span(), in_page);
            let result = context.transfer(request, bulk, parts_max).await;
            return Ok(result.map_or(Answer::None, |_| Answer::Reply(reply)));
        }
        let moved = self.memories.allocate(node, len)?;
        let bulk = Bulk::new(Direction::ToServer, portal::OST_BULK, moved.span(), in_page);
        if context.transfer(request, bulk, parts_max).await.is_err() {
            return Ok(Answer::None);
        }
        let data = moved.memory().to_vec(0, len);
        self.ost().write(&request.message, &data).map(Answer::Reply)
    }

    /// Informs the locks of an object that a request may have changed it.
    fn note_change(&self, context: &Context, request: &Request) {
        if let Ok(Some(body)) = request.message.get(&OST_BODY) {
            let resource = body.id.resource();
            context.changed(resource, self.ost().lvb(resource));
        }
    }
}

impl Target for OstTarget {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        Box::pin(async move { self.answer(context, &request).await })
    }

    fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        Ok(self.ost().lvb(resource))
    }
}

/// A target that prints what it is requested.
struct RequestPrinter {
    name: &'static str,
    target: Arc<dyn Target>,
}

impl Target for RequestPrinter {
    fn execute(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Operation<Result<Answer, Errno>> {
        let (opcode, from) = (request.message.body.opcode, request.from.nid);
        eprintln!("{} {opcode:?} from {from}", self.name);
        self.target.clone().execute(context, request)
    }

    fn gone(
        self: Arc<Self>,
        context: Context,
        export: Handle,
        why: Option<Eviction>,
    ) -> Operation<()> {
        if let Some(why) = why {
            eprintln!("{} evicted {export}: {why:?}", self.name);
        }
        self.target.clone().gone(context, export, why)
    }

    fn lvb(&self, resource: ResourceId) -> Result<OstLvb, Errno> {
        self.target.lvb(resource)
    }
}
