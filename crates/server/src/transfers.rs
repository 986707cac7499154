//! Reads and writes of the data of objects, on an OST or an MDT: their locks, and how the data move.
//! Spec: mdt-ost §13.1, §13.2, §17.1 to §17.8.

use std::sync::Arc;
use std::time::Duration;

use fulmar_base::Errno;
use fulmar_checksum::Checksum;
use fulmar_lustre_wire::format::{NIOBUFS, OST_BODY, SHORT_IO};
use fulmar_lustre_wire::ldlm::{Extent, LockMode, ResourceId};
use fulmar_lustre_wire::mdt::Valid;
use fulmar_lustre_wire::ost::{Niobuf, Obdo, ObdoFlags};
use fulmar_lustre_wire::{List, Opcode, portal};
use fulmar_rpc::bulk::{Bulk, Direction};
use fulmar_rpc::service::Request;
use fulmar_store::{Source, Store};
use fulmar_target::data::{Holder, LoadedRead, Room, Transfer};
use fulmar_target::{Answer as Done, Call};

use crate::context::{Context, LockRequest};
use crate::memory::{Memories, Memory, OperationMemory, Part};
use crate::target::{Answer, Target};

/// The reads and writes of a target.
pub(crate) struct Transfers<M: Memory, H: Holder> {
    holder: Arc<H>,
    store: Arc<Store>,
    memories: Arc<Memories<M>>,
    /// Returns the time since 1970.
    clock: fn() -> Duration,
    /// Returns the lock for a part of an object.
    lock: fn(ResourceId, LockMode, Extent) -> LockRequest,
}

/// How many bytes are read at once for a checksum: they stay in the nearest cache of a processor.
const CHECKED: usize = 16 << 10;

/// How many bytes are read without a change of threads.
const SHORT: u64 = 16 << 10;

/// What the first work on a read or a write has done.
enum FirstWork<M: Memory> {
    /// All of it: its data were in its message.
    Done(Done),
    /// The data of a read are in memory.
    Filled(ReadData<M>),
    /// It was checked. It needs a lock, or data of the client.
    Checked(Transfer),
}

/// The data of a read.
struct ReadData<M: Memory> {
    reading: LoadedRead,
    checksum: Option<u32>,
    len: u64,
    moved: OperationMemory<M>,
    in_page: u32,
    parts_max: u32,
    extent: Extent,
}

impl<M: Memory> FirstWork<M> {
    /// Returns the pages that are read or written.
    fn extent(&self) -> Option<Extent> {
        match self {
            Self::Done(_) => None,
            Self::Filled(filled) => Some(filled.extent),
            Self::Checked(transfer) => Some(extent_of(transfer)),
        }
    }
}

impl<M: Memory, H: Holder> Transfers<M, H> {
    pub(crate) fn new(
        (holder, store): (Arc<H>, Arc<Store>),
        memories: Arc<Memories<M>>,
        clock: fn() -> Duration,
        lock: fn(ResourceId, LockMode, Extent) -> LockRequest,
    ) -> Arc<Self> {
        Arc::new(Self { holder, store, memories, clock, lock })
    }

    /// Executes a read or a write.
    pub(crate) async fn execute(
        self: Arc<Self>,
        target: &impl Target,
        context: Context,
        request: Arc<Request>,
    ) -> Result<Answer, Errno> {
        let (this, asked) = (self.clone(), request.clone());
        let begin = move || this.begin(&asked);
        // A write whose data are still at the client is only checked.
        let begun = match () {
            () if is_write(&request) && !has_data(&request) => {
                context.run_on_keys(&self.store, begin).await??
            }
            () if is_short_read(&request) => context.run_to_read(&self.store, begin).await??,
            () => context.run(begin).await??,
        };
        let (resource, extent) = (resource_of(&request), begun.extent());
        let used = |context: &Context| {
            if let (Some(resource), Some(extent)) = (resource, extent) {
                context.used(&request, resource, extent);
            }
        };
        used(&context);
        let done = match begun {
            FirstWork::Done(done) => Some(done),
            FirstWork::Filled(filled) => self.clone().send(&context, &request, filled).await?,
            FirstWork::Checked(transfer) => {
                self.clone().go_on(&context, &request, transfer).await?
            }
        };
        let answer = match done {
            Some(done) => finish(target, &context, &self.store, done).await,
            None => Ok(Answer::None),
        };
        used(&context);
        answer
    }

    /// Does what needs no other node: if possible a whole read, since each work changes threads.
    fn begin(self: &Arc<Self>, request: &Request) -> Result<FirstWork<M>, Errno> {
        let call = self.call(request);
        let Some(transfer) = self.holder.prepare(&call)? else {
            return self.holder.execute(&call).map(FirstWork::Done);
        };
        if is_write(request) || transfer.needs_lock() {
            return Ok(FirstWork::Checked(transfer));
        }
        let moved = self.allocate(request, &transfer)?;
        self.fill(transfer, moved).map(FirstWork::Filled)
    }

    /// Executes a read or a write that was checked.
    async fn go_on(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        transfer: Transfer,
    ) -> Result<Option<Done>, Errno> {
        let is_write = is_write(request);
        let resource = resource_of(request).filter(|_| transfer.needs_lock());
        let lock = match resource {
            Some(resource) => {
                let mode = if is_write { LockMode::PW } else { LockMode::PR };
                match context.lock((self.lock)(resource, mode, extent_of(&transfer))).await {
                    Ok(lock) => Some(lock),
                    Err(errno) => {
                        self.holder.abandon(transfer);
                        return Err(errno);
                    }
                }
            }
            None => None,
        };
        let moved = match self.allocate(request, &transfer) {
            Ok(moved) => moved,
            Err(errno) => {
                self.holder.abandon(transfer);
                return Err(errno);
            }
        };
        let done = if is_write {
            self.write(context, request, transfer, moved).await
        } else {
            let this = self.clone();
            let filled = context.run(move || this.fill(transfer, moved)).await??;
            self.send(context, request, filled).await
        };
        drop(lock);
        done
    }

    fn allocate(
        &self,
        request: &Request,
        transfer: &Transfer,
    ) -> Result<OperationMemory<M>, Errno> {
        self.memories.allocate(request.from.nid, transfer.len() as usize)
    }

    /// Returns `None` if the data did not come: then there is no answer.
    async fn write(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        transfer: Transfer,
        moved: OperationMemory<M>,
    ) -> Result<Option<Done>, Errno> {
        let in_page = in_page(&transfer);
        let bulk = Bulk::new(Direction::ToServer, portal::OST_BULK, moved.span(), in_page);
        if context.transfer(request, bulk, transfer.parts_max()).await.is_err() {
            self.holder.abandon(transfer);
            return Ok(None);
        }
        let (this, asked) = (self.clone(), request.clone());
        let written = context.run(move || {
            let memory = moved.memory();
            let len = transfer.len() as usize;
            let checksum = transfer.checksum().map(|checksum| sum(checksum, &**memory, len));
            let parts = parts(&transfer, &**memory);
            let sources: Vec<&dyn Source> =
                parts.iter().map(|part| &**part as &dyn Source).collect();
            this.holder.write(&this.call(&asked), transfer, &sources, checksum)
        });
        written.await?.map(Some)
    }

    /// Reads what is to be read into memory.
    fn fill(&self, transfer: Transfer, moved: OperationMemory<M>) -> Result<ReadData<M>, Errno> {
        let (in_page, parts_max) = (in_page(&transfer), transfer.parts_max());
        let extent = extent_of(&transfer);
        let memory = moved.memory();
        let mut parts = parts(&transfer, &**memory);
        let mut rooms: Vec<&mut dyn Room> =
            parts.iter_mut().map(|part| &mut **part as &mut dyn Room).collect();
        let reading = self.holder.read(transfer, &mut rooms)?;
        drop(parts);
        let len = reading.lens().sum::<u64>();
        let checksum = reading.checksum().map(|checksum| sum(checksum, &**memory, len as usize));
        Ok(ReadData { reading, checksum, len, moved, in_page, parts_max, extent })
    }

    /// Sends what was read. Returns `None` if it did not arrive: then there is no answer.
    async fn send(
        self: Arc<Self>,
        context: &Context,
        request: &Arc<Request>,
        filled: ReadData<M>,
    ) -> Result<Option<Done>, Errno> {
        let ReadData { reading, checksum, len, moved, in_page, parts_max, .. } = filled;
        let (buffer, offset, _) = moved.span();
        let bulk = Bulk::new(Direction::ToClient, portal::OST_BULK, (buffer, offset, len), in_page);
        if context.transfer(request, bulk, parts_max).await.is_err() {
            return Ok(None);
        }
        drop(moved);
        Ok(Some(reading.answer(&self.call(request), checksum)))
    }

    fn call<'a>(&self, request: &'a Request) -> Call<'a> {
        let Request { export, peer, xid, ref message, .. } = *request;
        Call { export, nid: peer.nid, xid, now: seconds((self.clock)()), message }
    }
}

/// Informs the locks of a change, and waits for the disk if the reply is to.
pub(crate) async fn finish(
    target: &impl Target,
    context: &Context,
    store: &Store,
    done: Done,
) -> Result<Answer, Errno> {
    let Done { reply, durable, changed, .. } = done;
    if let Some((resource, lvb)) = changed.and_then(|id| Some((id, target.lvb(id).ok()?))) {
        context.changed(resource, lvb);
    }
    if let Some(number) = durable {
        context.durable(store, number).await?;
    }
    Ok(Answer::Reply(reply))
}

/// Returns a time in whole seconds.
pub(crate) fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the resource of the object that a request is about.
pub(crate) fn resource_of(request: &Request) -> Option<ResourceId> {
    let body = request.message.get(&OST_BODY).ok().flatten()?;
    Some(body.id.resource())
}

fn is_write(request: &Request) -> bool {
    request.message.body.opcode == Opcode::OST_WRITE
}

/// Returns whether the data of a write are in its message.
fn has_data(request: &Request) -> bool {
    request.message.bytes(&SHORT_IO).is_some_and(|data| !data.is_empty())
}

/// Returns whether few bytes are read, which go with the reply.
fn is_short_read(request: &Request) -> bool {
    let body: Option<Obdo> = request.message.get(&OST_BODY).ok().flatten();
    let is_short = body.is_some_and(|body| {
        body.valid.has(Valid::FLFLAGS) && body.flags.flags.has(ObdoFlags::SHORT_IO)
    });
    let ranges = request.message.get(&NIOBUFS).ok().flatten().filter(|_| is_short);
    ranges.is_some_and(|List(ranges): List<Niobuf>| {
        let len: u64 = ranges.iter().map(|range| u64::from(range.len)).sum();
        !is_write(request) && len <= SHORT
    })
}

/// Returns the pages from the first range to the last one.
fn extent_of(transfer: &Transfer) -> Extent {
    let ranges = transfer.ranges();
    let start = ranges.first().map_or(0, |range| range.offset);
    let end = transfer.end();
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
