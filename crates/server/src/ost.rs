//! An OST as a target: which locks its requests need, and how their data move.
//! Spec: mdt-ost §16.1 to §16.11, §17.1 to §17.8.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_ldlm::server::Features;
use fulmar_lustre_wire::connect::ConnectFlags;
use fulmar_lustre_wire::format::{CONNECT_DATA, OST_BODY};
use fulmar_lustre_wire::ldlm::{Extent, LockMode, LockType, OstLvb, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{Obdo, ObdoFlags};
use fulmar_lustre_wire::{Handle, Opcode, portal};
use fulmar_ost::{Call, Ost, Reading, Room, Transfer};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::export::Eviction;
use fulmar_rpc::service::Request;
use fulmar_store::{Source, Store};

use crate::context::{Context, Lock, LockWanted};
use crate::locks::enqueue;
use crate::memory::{Memories, Memory, Moved, Part};
use crate::target::{Answer, Operation, Target};

/// An OST, with memory for bulk data.
pub struct OstTarget<M: Memory> {
    ost: Arc<Ost>,
    store: Arc<Store>,
    memories: Arc<Memories<M>>,
    /// Returns the seconds since 1970.
    clock: fn() -> i64,
}

/// How many bytes are read at once for a checksum: they stay in the nearest cache of a processor.
const CHECKED: usize = 16 << 10;

/// What the first work on a read or a write has done.
enum Begun<M: Memory> {
    /// All of it: its data were in its message.
    Done(fulmar_ost::Answer),
    /// The data of a read are in memory.
    Filled(Filled<M>),
    /// It was checked. It needs a lock, or data of the client.
    Checked(Transfer),
}

/// The data of a read.
struct Filled<M: Memory> {
    reading: Reading,
    checksum: Option<u32>,
    len: u64,
    moved: Moved<M>,
    in_page: u32,
    parts_max: u32,
    extent: Extent,
}

impl<M: Memory> Begun<M> {
    /// Returns the pages that are read or written.
    fn extent(&self) -> Option<Extent> {
        match self {
            Self::Done(_) => None,
            Self::Filled(filled) => Some(filled.extent),
            Self::Checked(transfer) => Some(extent_of(transfer)),
        }
    }
}

impl<M: Memory> OstTarget<M> {
    /// Returns the target of an OST and its store.
    pub fn new(
        ost: Arc<Ost>,
        store: Arc<Store>,
        memories: Arc<Memories<M>>,
        clock: fn() -> i64,
    ) -> Arc<Self> {
        Arc::new(Self { ost, store, memories, clock })
    }

    async fn answer(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        match request.message.body.opcode {
            Opcode::LDLM_ENQUEUE => enqueue(context, &request).await,
            Opcode::OST_READ | Opcode::OST_WRITE => self.transfer(context, request).await,
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
        let answer = self.finish(&context, answer).await;
        drop(lock);
        answer
    }

    /// Informs the locks of a change, and waits for the disk if the reply is to.
    async fn finish(&self, context: &Context, answer: fulmar_ost::Answer) -> Result<Answer, Errno> {
        let fulmar_ost::Answer { reply, durable, changed } = answer;
        if let Some((resource, lvb)) = changed.and_then(|id| Some((id, self.ost.lvb(id).ok()?))) {
            context.changed(resource, lvb);
        }
        if let Some(number) = durable {
            context.durable(&self.store, number).await?;
        }
        Ok(Answer::Reply(reply))
    }

    /// Executes a read or a write.
    async fn transfer(
        self: Arc<Self>,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let (this, asked) = (self.clone(), request.clone());
        let begun = context.run(move || this.begin(&asked)).await??;
        let (resource, extent) = (resource_of(&request), begun.extent());
        let used = |context: &Context| {
            if let (Some(resource), Some(extent)) = (resource, extent) {
                context.used(&request, resource, extent);
            }
        };
        used(&context);
        let answer = match begun {
            Begun::Done(answer) => self.finish(&context, answer).await,
            Begun::Filled(filled) => self.clone().send(&context, &request, filled).await,
            Begun::Checked(transfer) => self.clone().go_on(&context, &request, transfer).await,
        };
        used(&context);
        answer
    }

    /// Does what needs no other node: if possible a whole read, since each work changes threads.
    fn begin(self: &Arc<Self>, request: &Request) -> Result<Begun<M>, Errno> {
        let call = self.call(request);
        let Some(transfer) = self.ost.prepare(&call)? else {
            return self.ost.execute(&call).map(Begun::Done);
        };
        if is_write(request) || transfer.needs_lock() {
            return Ok(Begun::Checked(transfer));
        }
        let moved = self.allocate(request, &transfer)?;
        self.fill(transfer, moved).map(Begun::Filled)
    }

    /// Executes a read or a write that was checked.
    async fn go_on(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        transfer: Transfer,
    ) -> Result<Answer, Errno> {
        let is_write = is_write(request);
        let resource = resource_of(request).filter(|_| transfer.needs_lock());
        let lock = match resource {
            Some(resource) => {
                let mode = if is_write { LockMode::PW } else { LockMode::PR };
                match context.lock(wanted(resource, mode, extent_of(&transfer))).await {
                    Ok(lock) => Some(lock),
                    Err(errno) => {
                        self.ost.abandon(transfer);
                        return Err(errno);
                    }
                }
            }
            None => None,
        };
        let moved = match self.allocate(request, &transfer) {
            Ok(moved) => moved,
            Err(errno) => {
                self.ost.abandon(transfer);
                return Err(errno);
            }
        };
        let answer = match is_write {
            true => self.write(context, request, transfer, moved).await,
            false => {
                let this = self.clone();
                let filled = context.run(move || this.fill(transfer, moved)).await??;
                self.send(context, request, filled).await
            }
        };
        drop(lock);
        answer
    }

    fn allocate(&self, request: &Request, transfer: &Transfer) -> Result<Moved<M>, Errno> {
        self.memories.allocate(request.from.nid, transfer.len() as usize)
    }

    async fn write(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        transfer: Transfer,
        moved: Moved<M>,
    ) -> Result<Answer, Errno> {
        let in_page = in_page(&transfer);
        let bulk = Bulk::new(Direction::ToServer, portal::OST_BULK, moved.span(), in_page);
        if context.transfer(request, bulk, transfer.parts_max()).await.is_err() {
            self.ost.abandon(transfer);
            return Ok(Answer::None);
        }
        let (this, asked) = (self.clone(), request.clone());
        let written = context.run(move || {
            let memory = moved.memory();
            let len = transfer.len() as usize;
            let checksum = transfer.checksum().map(|checksum| sum(checksum, &**memory, len));
            let parts = parts(&transfer, &**memory);
            let sources: Vec<&dyn Source> =
                parts.iter().map(|part| &**part as &dyn Source).collect();
            this.ost.write(&this.call(&asked), transfer, &sources, checksum)
        });
        let answer = written.await??;
        self.finish(context, answer).await
    }

    /// Reads what is to be read into memory.
    fn fill(&self, transfer: Transfer, moved: Moved<M>) -> Result<Filled<M>, Errno> {
        let (in_page, parts_max) = (in_page(&transfer), transfer.parts_max());
        let extent = extent_of(&transfer);
        let memory = moved.memory();
        let mut parts = parts(&transfer, &**memory);
        let mut rooms: Vec<&mut dyn Room> =
            parts.iter_mut().map(|part| &mut **part as &mut dyn Room).collect();
        let reading = self.ost.read(transfer, &mut rooms)?;
        drop(parts);
        let len = reading.lens().sum::<u64>();
        let checksum = reading.checksum().map(|checksum| sum(checksum, &**memory, len as usize));
        Ok(Filled { reading, checksum, len, moved, in_page, parts_max, extent })
    }

    /// Sends what was read.
    async fn send(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        filled: Filled<M>,
    ) -> Result<Answer, Errno> {
        let Filled { reading, checksum, len, moved, in_page, parts_max, .. } = filled;
        let (buffer, offset, _) = moved.span();
        let bulk = Bulk::new(Direction::ToClient, portal::OST_BULK, (buffer, offset, len), in_page);
        if context.transfer(request, bulk, parts_max).await.is_err() {
            return Ok(Answer::None);
        }
        drop(moved);
        let answer = reading.answer(&self.call(request), checksum);
        self.finish(context, answer).await
    }

    fn call<'a>(&self, request: &'a Request) -> Call<'a> {
        let Request { export, xid, ref message, .. } = *request;
        Call { export, xid, now: (self.clock)(), message }
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

    fn answered(&self, request: &Request, took: Duration) {
        self.ost.spent(&self.call(request), took);
    }

    fn last_committed(&self) -> Option<u64> {
        Some(self.ost.last_committed())
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
fn lock_of(request: &Request) -> Option<LockWanted> {
    let body: Obdo = request.message.get(&OST_BODY).ok().flatten()?;
    let resource = resource_of(request)?;
    let flags = if body.valid.has(Valid::FLFLAGS) { body.flags.flags } else { ObdoFlags::NONE };
    let everything = Extent { start: 0, end: Extent::EOF, gid: 0 };
    match request.message.body.opcode {
        // The data that clients have not written yet are dropped.
        Opcode::OST_DESTROY => {
            let wanted = wanted(resource, LockMode::PW, everything);
            Some(LockWanted { discards_data: true, ..wanted })
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

fn wanted(resource: ResourceId, mode: LockMode, extent: Extent) -> LockWanted {
    let (kind, policy, discards_data) = (LockType::EXTENT, extent.into(), false);
    LockWanted { resource, kind, mode, policy, discards_data }
}

fn resource_of(request: &Request) -> Option<ResourceId> {
    let body = request.message.get(&OST_BODY).ok().flatten()?;
    Some(body.id.resource())
}

fn is_write(request: &Request) -> bool {
    request.message.body.opcode == Opcode::OST_WRITE
}

/// Returns the pages from the first range to the last one.
fn extent_of(transfer: &Transfer) -> Extent {
    let ranges = transfer.ranges();
    let start = ranges.first().map_or(0, |range| range.offset);
    let end = ranges.last().map_or(0, |range| range.offset + u64::from(range.len));
    Extent { start: start & !4095, end: (end | 4095).max(start), gid: 0 }
}

/// Returns where the data begin in a page.
fn in_page(transfer: &Transfer) -> u32 {
    transfer.ranges().first().map_or(0, |range| (range.offset % 4096) as u32)
}

/// Returns the memory of each range, one after the other.
fn parts(transfer: &Transfer, memory: &impl Memory) -> Vec<Box<dyn Part>> {
    let mut at = 0;
    let part = |len: u32| {
        let start = at;
        at += len as usize;
        memory.part(start..at)
    };
    transfer.ranges().iter().map(|range| range.len).map(part).collect()
}

/// Returns the checksum of the first bytes of a memory.
fn sum(mut checksum: Checksum, memory: &impl Memory, len: usize) -> u32 {
    let mut bytes = [0; CHECKED];
    let mut at = 0;
    while at < len {
        let count = CHECKED.min(len - at);
        memory.read_at(at, &mut bytes[..count]);
        checksum.update(&bytes[..count]);
        at += count;
    }
    checksum.finish()
}
