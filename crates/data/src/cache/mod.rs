//! The data of the files of a mount: what a host drives.

mod api;
mod flush;
mod read;
mod rpcs;
mod state;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use fulmar_base::{Errno, Time, Timers};
use fulmar_lustre_wire::Fid;

pub use api::{
    Bytes, Direction, FileId, Flags, Flow, Gauges, LockKey, OpId, OpenId, Output, PageCounts,
    Reply, Rpc, RpcId, Settings, Stability, TargetView, WriteError,
};
use state::{AfterFlush, CachedObject, File, Flush, Op, Open, RpcState, Server, Timer};

use crate::budget::Class;
use crate::buffers::{Buffers, Change};
use crate::grants::Terms;
use crate::reader::Reader;
use crate::stripes::{Layout, Object, Target};

/// The largest file, whatever a server says.
const SIZE_MAX: u64 = i64::MAX as u64;

/// The cached data of a mount. See the doc of the crate.
#[derive(Debug)]
pub struct Cache {
    settings: Settings,
    buffers: Buffers,
    files: BTreeMap<FileId, File>,
    opens: BTreeMap<OpenId, Open>,
    objects: BTreeMap<Object, CachedObject>,
    targets: BTreeMap<Target, Server>,
    ops: BTreeMap<OpId, Op>,
    rpcs: BTreeMap<RpcId, RpcState>,
    /// Reads that wait for memory, in order.
    readers: VecDeque<OpId>,
    /// Targets with writers that wait.
    waiting: BTreeSet<Target>,
    /// Targets for which something may be sent.
    active: BTreeSet<Target>,
    /// Whether a writer waits for memory: all targets write what they can.
    is_short: bool,
    /// The number of the last write.
    order: u64,
    /// Files, opens, operations and RPCs are numbered together.
    next_id: u64,
    turn: u64,
    /// The window of the stream that has grown last: others begin with it.
    last_window: u64,
    /// Memory that is kept until it is on disk.
    unstable: u64,
    counts: PageCounts,
    timers: Timers<Timer>,
    outputs: VecDeque<Output>,
}

impl Cache {
    /// Returns a cache without files.
    ///
    /// # Panics
    /// If there is less than the least memory.
    pub fn new(settings: Settings) -> Self {
        assert!(settings.memory >= Settings::MEMORY_MIN, "{} bytes are too few", settings.memory);
        Self {
            settings,
            buffers: Buffers::new(settings.memory),
            files: BTreeMap::new(),
            opens: BTreeMap::new(),
            objects: BTreeMap::new(),
            targets: BTreeMap::new(),
            ops: BTreeMap::new(),
            rpcs: BTreeMap::new(),
            readers: VecDeque::new(),
            waiting: BTreeSet::new(),
            active: BTreeSet::new(),
            is_short: false,
            order: 0,
            next_id: 0,
            turn: 0,
            last_window: 0,
            unstable: 0,
            counts: PageCounts::default(),
            timers: Timers::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Changes what an administrator may set.
    ///
    /// # Panics
    /// If there is less than the least memory.
    pub fn configure(&mut self, now: Time, settings: Settings) {
        assert!(settings.memory >= Settings::MEMORY_MIN, "{} bytes are too few", settings.memory);
        self.settings = settings;
        self.buffers.resize(settings.memory);
        for (target, server) in &mut self.targets {
            server.reads.fix(settings.rpcs_in_flight);
            server.writes.fix(settings.rpcs_in_flight);
            self.active.insert(*target);
        }
        self.pump(now);
    }

    /// Returns what a client says about grant when it connects to a target. Spec: mdt-ost §19.2.
    pub fn wanted_grant(&self, target: Target) -> u64 {
        let new = Server::new(None);
        self.targets.get(&target).unwrap_or(&new).grants.wanted()
    }

    /// A target is connected, for the first time or again. `granted`: what it accounts to this client.
    ///
    /// # Panics
    /// If the sizes of `terms` are not multiples of pages.
    pub fn handle_connected(&mut self, now: Time, target: Target, terms: Terms, granted: u64) {
        for size in [terms.rpc_size, terms.chunk] {
            assert!(size > 0 && size % Terms::PAGE == 0, "{size} bytes are not whole pages");
        }
        let server = self.server(target);
        server.is_connected = true;
        server.grants.connect(terms, granted);
        server.reads.forget(terms.rpc_size);
        server.writes.forget(terms.rpc_size);
        server.used = now;
        let at = now + self.settings.shrink_after;
        self.timers.set(Timer::Shrink(target), at);
        self.active.insert(target);
        self.pump(now);
    }

    /// A target has forgotten this client: its locks are lost, and so is what was not written. What it had written but
    /// not on disk is lost too if it has restarted, which is unknown. The errors are reported as those of writes.
    /// RPCs in flight end by themselves.
    pub fn handle_evicted(&mut self, now: Time, target: Target) {
        let is_kept = |rpc: &&RpcState| {
            rpc.object.target == target && matches!(rpc.kind, state::Kind::Kept { .. })
        };
        let kept: BTreeSet<_> = self.rpcs.values().filter(is_kept).map(|rpc| rpc.object).collect();
        kept.into_iter().for_each(|object| self.failed(object, Errno::EIO));
        let first = Object { target, fid: Fid::default() };
        let objects = self.objects.range(first..).map(|(object, _)| *object);
        let objects: Vec<_> = objects.take_while(|object| object.target == target).collect();
        for object in objects {
            let cached = self.objects.get_mut(&object).expect("listed above");
            cached.locks.clear();
            cached.limit(0);
            if cached.dirty.oldest().is_some() {
                self.failed(object, Errno::EIO);
            }
            self.drop_dirty(object, 0..u64::MAX);
            self.drop_clean(object, 0..u64::MAX);
        }
        self.forget_grants(target);
        self.pump(now);
    }

    /// What was paid with the grant of a target is not any more: that is gone.
    fn forget_grants(&mut self, target: Target) {
        for op in self.ops.values_mut() {
            if let Op::Write(state::Write { filling: Some(part), .. }) = op
                && part.object.target == target
            {
                part.reserved = None;
            }
        }
        for rpc in self.rpcs.values_mut().filter(|rpc| rpc.object.target == target) {
            if let state::Kind::Write { extents, .. } = &mut rpc.kind {
                extents.iter_mut().for_each(|(_, extent)| extent.cost = 0);
            }
        }
        let server = self.server(target);
        server.is_connected = false;
        server.grants.evict();
    }

    /// Begins to cache a file. `size`: as far as it is known.
    pub fn add_file(&mut self, layout: Layout, size: u64) -> FileId {
        let id = FileId(self.id());
        self.files.insert(id, File::new(size.min(SIZE_MAX)));
        self.set_layout(id, layout);
        id
    }

    /// The layout of a file has changed: it has more objects. Objects that it has no more keep what is cached
    /// until their locks go, or the file is forgotten.
    pub fn set_layout(&mut self, file: FileId, layout: Layout) {
        let mut targets = BTreeSet::new();
        for (object, _) in layout.objects(0..u64::MAX) {
            self.objects.entry(object).or_insert_with(|| CachedObject::new(file)).file = file;
            self.server(object.target);
            targets.insert(object.target);
        }
        let objects = layout.objects(0..u64::MAX).into_iter().map(|(object, _)| object);
        let file = self.file_mut(file);
        file.objects.extend(objects);
        (file.layout, file.targets) = (layout, targets);
    }

    /// The size of a file is known: by a lock or a glimpse, and at least what was written here.
    pub fn set_size(&mut self, file: FileId, size: u64) {
        self.file_mut(file).size = size.min(SIZE_MAX);
    }

    /// Returns the size of a file: the last that was set, or the end of what was written since.
    pub fn size(&self, file: FileId) -> u64 {
        self.file(file).size
    }

    /// Whether writes of a file are on disk before they end, and do not use grant: its owner is over the
    /// quota (Spec: mdt-ost §17.6).
    pub fn set_synchronous(&mut self, file: FileId, is_synchronous: bool) {
        self.file_mut(file).is_synchronous = is_synchronous;
    }

    /// Returns whether something of a file is not written yet.
    pub fn is_dirty(&self, file: FileId) -> bool {
        self.file(file).objects.iter().any(|object| self.objects[object].is_dirty())
    }

    /// Forgets a file, and drops what is cached of it. False if it is open, or has dirty data, or an
    /// operation: flush it first.
    pub fn forget_file(&mut self, file: FileId) -> bool {
        let known = self.file(file);
        let (is_open, objects) = (known.opens > 0, known.objects.clone());
        if is_open || self.is_dirty(file) {
            return false;
        }
        for object in objects {
            self.drop_clean(object, 0..u64::MAX);
            self.revoke_reads(object);
            self.close_arena(object);
            self.objects.remove(&object);
        }
        self.files.remove(&file);
        true
    }

    /// Opens a file for reads and writes. Errors of earlier writes are not reported to it.
    pub fn open(&mut self, file: FileId) -> OpenId {
        let id = OpenId(self.id());
        let known = self.file_mut(file);
        known.opens += 1;
        let seen = known.failed.0;
        self.opens.insert(id, Open { file, reader: Reader::default(), seen });
        id
    }

    /// Ends an open file. What is dirty stays so: [flush](Cache::handle_flush) it before.
    ///
    /// # Panics
    /// If it has an operation.
    pub fn close(&mut self, open: OpenId) {
        let has_op = self.ops.values().any(|op| match op {
            Op::Read(read) => read.open == open,
            Op::Write(write) => write.open == open,
            Op::Flush(flush) => flush.then.open() == Some(open),
        });
        assert!(!has_op, "the operations of an open file end before it is closed");
        let file = self.opens.remove(&open).expect("a file is closed once").file;
        self.file_mut(file).opens -= 1;
    }

    /// A lock covers a range of an object from now on: data of it may be read ahead. `is_write`: whether
    /// it is one for writing.
    pub fn handle_lock(
        &mut self,
        object: Object,
        lock: LockKey,
        range: Range<u64>,
        is_write: bool,
    ) {
        if let Some(cached) = self.objects.get_mut(&object) {
            cached.locks.insert(lock, state::Lock { range, is_write });
        }
    }

    /// Returns the end of what was written here to an object, under locks that are still held: a glimpse
    /// wants to know it (Spec: mdt-ost §8.2).
    pub fn written_end(&self, object: Object) -> u64 {
        self.objects.get(&object).map_or(0, |cached| cached.end)
    }

    /// Returns how many bytes of an object are not at the target yet.
    pub fn unwritten(&self, object: Object) -> u64 {
        let Some(cached) = self.objects.get(&object) else { return 0 };
        let len = |(range, _): &(Range<u64>, _)| range.end - range.start;
        let writing = cached.writing.keys().map(|id| match &self.rpcs[id].kind {
            state::Kind::Write { extents, .. } => extents.iter().map(len).sum::<u64>(),
            _ => 0,
        });
        cached.dirty.bytes() + writing.sum::<u64>()
    }

    /// Returns whether an object has dirty data and none of them are being written: what describes the object now goes
    /// with all of them.
    pub fn is_unsent(&self, object: Object) -> bool {
        self.objects.get(&object).is_some_and(|one| one.is_dirty() && one.writing.is_empty())
    }

    /// Somebody no longer waits for an operation. [`Output::Done`] with EINTR follows, or [`Output::Written`] with what
    /// was accepted until then, if that is something; what else was filled is written, and a flush goes on, by
    /// themselves. False if the operation does not wait, or if it belongs to a lock or a truncation, which cannot be
    /// given up.
    pub fn handle_interrupt(&mut self, now: Time, id: OpId) -> bool {
        match self.ops.get(&id) {
            Some(Op::Read(read)) if read.is_queued || !read.waits.is_empty() => {
                let pins = read.pins.clone();
                self.readers.retain(|other| *other != id);
                pins.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
            }
            Some(Op::Write(write)) if write.filling.is_none() && write.range.is_empty() => {}
            Some(Op::Write(write)) if write.filling.is_none() => {
                let target = self.part(write).0.target;
                self.server(target).waiters.retain(|other| *other != id);
            }
            Some(Op::Flush(flush)) if flush.then.open().is_some() => {
                for object in flush.pending.clone() {
                    let cached = self.objects.get_mut(&object).expect("the object is known");
                    cached.flushes.retain(|(other, _)| *other != id);
                }
            }
            _ => return false,
        }
        let output = match self.ops.remove(&id) {
            Some(Op::Write(write)) => interrupted(id, write.len()),
            Some(Op::Flush(Flush { then: AfterFlush::Write { accepted, .. }, .. })) => {
                interrupted(id, accepted)
            }
            _ => Output::Done { op: id, result: Err(Errno::EINTR) },
        };
        self.outputs.push_back(output);
        self.pump(now);
        true
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Age(target) => drop(self.active.insert(target)),
                Timer::Shrink(target) => self.shrink(now, target),
            }
        }
        self.pump(now);
    }

    /// Returns when [`Cache::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns what the host has to do next. Memory is allocated before it is used.
    pub fn poll_output(&mut self) -> Option<Output> {
        let change = self.buffers.poll().map(|change| match change {
            Change::Allocate(buffer, len) => Output::Allocate { buffer, len },
            Change::Release(buffer) => Output::Release { buffer },
        });
        change.or_else(|| self.outputs.pop_front())
    }

    /// Returns what there is at the moment.
    pub fn gauges(&self) -> Gauges {
        let budget = self.buffers.budget();
        let waiters = self.targets.values().map(|server| server.waiters.len()).sum::<usize>();
        Gauges {
            demand: budget.used(Class::Demand),
            write_back: budget.used(Class::WriteBack),
            speculation: budget.used(Class::Speculation),
            dirty: self.targets.values().map(|server| server.dirty).sum(),
            operations: self.ops.len() as u64,
            waiting: (waiters + self.readers.len()) as u64,
            rpcs: self.rpcs.len() as u64,
        }
    }

    /// Returns how many pages were read since the start.
    pub fn page_counts(&self) -> PageCounts {
        self.counts
    }

    /// Returns a target as it is at the moment.
    pub fn target(&self, target: Target) -> Option<TargetView> {
        let server = self.targets.get(&target)?;
        let flow = |window: &crate::window::Window| {
            let (rate, round_trip) = window.measured();
            Flow { in_flight: window.in_flight(), window: window.rpcs(), rate, round_trip }
        };
        Some(TargetView {
            dirty: server.dirty,
            dirty_max: self.dirty_max(target),
            grant: server.grants.available(),
            reads: flow(&server.reads),
            writes: flow(&server.writes),
        })
    }

    /// Returns the most memory that was ever used, in bytes.
    pub fn memory_peak(&self) -> u64 {
        self.buffers.budget().peak()
    }

    /// Lets everything go on that can, after an input.
    fn pump(&mut self, now: Time) {
        self.admit_readers();
        self.admit_writers();
        if self.is_short {
            let has_dirty = self.targets.iter().filter(|(_, server)| !server.aged.is_empty());
            self.active.extend(has_dirty.map(|(target, _)| *target));
        }
        while let Some(target) = self.active.pop_first() {
            self.send_reads(now, target);
            self.send_writes(now, target);
            self.active.remove(&target);
            self.set_age(now, target);
        }
    }

    fn shrink(&mut self, now: Time, target: Target) {
        let after = self.settings.shrink_after;
        let server = self.server(target);
        let due = server.used + after;
        if due <= now && server.is_connected {
            let window = server.in_window();
            let back = server.grants.shrink(window);
            self.outputs.extend(back.map(|bytes| Output::Shrink { target, bytes }));
        }
        self.timers.set(Timer::Shrink(target), if due > now { due } else { now + after });
    }

    /// Makes room for a class: what may be read again gives way, then what is read ahead and not sent.
    fn make_room(&mut self, class: Class, bytes: u64) -> bool {
        while self.buffers.budget().room(class) < bytes {
            if let Some((buffer, object)) = self.buffers.coldest() {
                let cached = self.objects.get_mut(&object).expect("a cached piece has an object");
                cached.pages.evict(buffer, &mut self.buffers);
                continue;
            }
            let last = |server: &Server| server.to_read.last().copied();
            let mut ahead =
                self.targets.values().filter_map(last).filter(|(is_ahead, _)| *is_ahead);
            match ahead.next() {
                Some((_, id)) if class != Class::Speculation => self.revoke(id),
                _ => return false,
            }
        }
        true
    }

    fn drop_clean(&mut self, object: Object, range: Range<u64>) {
        let cached = self.objects.get_mut(&object).expect("the object is known");
        cached.pages.discard(range, false, &mut self.buffers);
    }

    /// Drops what is in a range, also what is dirty.
    fn drop_dirty(&mut self, object: Object, range: Range<u64>) {
        let cached = self.objects.get_mut(&object).expect("the object is known");
        let server = self.targets.get_mut(&object.target).expect("its target is known");
        let (bytes, cost) = cached.dirty.discard(&range, server.grants.terms());
        cached.pages.discard(range, true, &mut self.buffers);
        server.dirty -= bytes;
        server.grants.dropped(cost);
        self.settle(object);
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn server(&mut self, target: Target) -> &mut Server {
        let fixed = self.settings.rpcs_in_flight;
        self.targets.entry(target).or_insert_with(|| Server::new(fixed))
    }

    fn file(&self, file: FileId) -> &File {
        self.files.get(&file).expect("the host names files that it has added")
    }

    fn file_mut(&mut self, file: FileId) -> &mut File {
        self.files.get_mut(&file).expect("the host names files that it has added")
    }

    fn open_mut(&mut self, open: OpenId) -> &mut Open {
        self.opens.get_mut(&open).expect("the host names files that it has opened")
    }
}

/// Ends a write that is given up, of which so many bytes were accepted.
fn interrupted(op: OpId, accepted: u64) -> Output {
    Output::Written { op, result: if accepted > 0 { Ok(accepted) } else { Err(Errno::EINTR) } }
}
