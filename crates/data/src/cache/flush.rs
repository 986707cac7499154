//! Operations that wait until what was written is at its target.

use std::collections::BTreeSet;
use std::ops::Range;

use fulmar_base::{Errno, Time};

use super::Cache;
use super::api::{FileId, LockKey, OpId, OpenId, Output};
use super::state::{AfterFlush, Flush, Op, Priority};
use crate::stripes::Object;

impl Cache {
    /// Writes what is dirty in a range of an open file. [`Output::Done`] follows when all that was written
    /// before is at its targets, with the error of any write that failed since the last report. Then the
    /// host sends what syncs the objects, if it has to. Spec: mdt-ost §21.5.
    pub fn handle_flush(&mut self, now: Time, open: OpenId, range: Range<u64>) -> OpId {
        let id = OpId(self.id());
        let file = self.open_mut(open).file;
        let objects = self.file(file).layout.objects(range);
        let objects = objects.into_iter().map(|(object, _)| object).collect();
        let flush = Flush { then: AfterFlush::Report(open), pending: BTreeSet::new() };
        self.begin_flush(id, flush, objects, Priority::Urgent);
        self.pump(now);
        id
    }

    /// The same for a file, whether it is open or not. Errors are left for those who have it open.
    pub fn handle_write_back(&mut self, now: Time, file: FileId, range: Range<u64>) -> OpId {
        let id = OpId(self.id());
        let objects = self.file(file).layout.objects(range);
        let objects = objects.into_iter().map(|(object, _)| object).collect();
        let flush = Flush { then: AfterFlush::Nothing, pending: BTreeSet::new() };
        self.begin_flush(id, flush, objects, Priority::Urgent);
        self.pump(now);
        id
    }

    /// A lock has to go: what is dirty under it, and under no other lock for writing, is written, or
    /// dropped with `discard`; then all that no other lock covers is dropped. The lock may be given back after [`Output::Done`].
    /// The reads and writes that need it are done before. Spec: mdt-ost §21.2.
    pub fn handle_cancel(
        &mut self,
        now: Time,
        object: Object,
        lock: LockKey,
        discard: bool,
    ) -> OpId {
        let id = OpId(self.id());
        let Some(cached) = self.objects.get_mut(&object) else {
            self.outputs.push_back(Output::Done { op: id, result: Ok(()) });
            return id;
        };
        let range = cached.locks.remove(&lock).map_or(0..0, |lock| lock.range);
        // What another lock for writing covers may stay dirty.
        let parts = cached.uncovered(range.clone(), true);
        let objects = if parts.is_empty() { Vec::new() } else { vec![object] };
        for part in parts.into_iter().filter(|_| discard) {
            self.drop_dirty(object, part);
        }
        self.revoke_reads(object);
        self.drop_uncovered(object, range.clone());
        let flush = Flush { then: AfterFlush::Drop(object, range), pending: BTreeSet::new() };
        self.begin_flush(id, flush, objects, Priority::High);
        self.pump(now);
        id
    }

    /// The file ends at `size`, under locks of all that is behind it: what is cached there is dropped. After
    /// [`Output::Done`] no write of it is under way, and the host cuts the objects.
    /// Spec: mdt-ost §22.6.
    pub fn handle_truncate(&mut self, now: Time, file: FileId, size: u64) -> OpId {
        self.set_size(file, size);
        let (id, range) = (OpId(self.id()), size..u64::MAX);
        let parts = self.file(file).layout.objects(range.clone());
        for (object, range) in &parts {
            self.drop_dirty(*object, range.clone());
        }
        let objects = parts.into_iter().map(|(object, _)| object).collect();
        let flush = Flush { then: AfterFlush::Cut(file, range), pending: BTreeSet::new() };
        self.begin_flush(id, flush, objects, Priority::Full);
        self.pump(now);
        id
    }

    /// Returns the sizes that objects get when a file gets a size: of those that the host locks from there on before
    /// [`Cache::handle_truncate`], and cuts after it.
    pub fn cut_sizes(&self, file: FileId, size: u64) -> Vec<(Object, u64)> {
        self.file(file).layout.cut(size)
    }

    /// A range of a file becomes a hole, or is allocated anew, under locks of it: what is dirty there is written, as
    /// the file may be longer by it and the target may refuse, and then all is dropped that is cached there. After
    /// [`Output::Done`] the host changes the objects. Spec: mdt-ost §22.12.
    pub fn handle_punch(&mut self, now: Time, file: FileId, range: Range<u64>) -> OpId {
        let id = OpId(self.id());
        let parts = self.file(file).layout.objects(range.clone());
        let is_unwritten = |(object, part): &(Object, Range<u64>)| {
            self.objects[object].pages.has_unwritten(part.clone())
        };
        let objects = parts.into_iter().filter(is_unwritten).map(|(object, _)| object).collect();
        let flush = Flush { then: AfterFlush::Punch(file, range), pending: BTreeSet::new() };
        self.begin_flush(id, flush, objects, Priority::Urgent);
        self.pump(now);
        id
    }

    /// Waits until what was written to objects is at its target; with [`Priority::Full`] only what is sent
    /// already.
    pub(super) fn begin_flush(
        &mut self,
        id: OpId,
        mut flush: Flush,
        objects: Vec<Object>,
        priority: Priority,
    ) {
        let order = self.order;
        for object in objects {
            self.close_arena(object);
            let cached = self.objects.get_mut(&object).expect("the object is known");
            if cached.is_settled(order, priority == Priority::Full) {
                continue;
            }
            cached.flushes.push((id, order));
            match priority {
                Priority::High => cached.high = order,
                Priority::Urgent => cached.urgent = order,
                Priority::Full => {}
            }
            flush.pending.insert(object);
            self.requeue(object);
        }
        let is_done = flush.pending.is_empty();
        self.ops.insert(id, Op::Flush(flush));
        if is_done {
            self.end_flush(id);
        }
    }

    /// Ends the flushes that have waited for an object, after something of it was written or dropped.
    pub(super) fn settle(&mut self, object: Object) {
        self.requeue(object);
        let cached = self.objects.get_mut(&object).expect("the object is known");
        let ops = &self.ops;
        let only_sent = |op: &OpId| {
            matches!(ops.get(op), Some(Op::Flush(Flush { then: AfterFlush::Cut(..), .. })))
        };
        let flushes = std::mem::take(&mut cached.flushes);
        let is_done = |(op, order): &(OpId, u64)| cached.is_settled(*order, only_sent(op));
        let (done, rest): (Vec<_>, Vec<_>) = flushes.into_iter().partition(is_done);
        cached.flushes = rest;
        for (id, _) in done {
            let Some(Op::Flush(flush)) = self.ops.get_mut(&id) else { continue };
            flush.pending.remove(&object);
            if flush.pending.is_empty() {
                self.end_flush(id);
            }
        }
    }

    fn end_flush(&mut self, id: OpId) {
        let Some(Op::Flush(flush)) = self.ops.remove(&id) else { return };
        let result = match flush.then {
            AfterFlush::Report(open) => self.take_error(open),
            AfterFlush::Part(op) => return self.end_part(op),
            AfterFlush::Write { open, range, accepted, failures } => {
                if !self.has_failed(open, failures) {
                    self.grow(self.opens[&open].file, range.end);
                }
                let lens = (accepted, range.end - range.start);
                return self.end_write(id, open, failures, lens);
            }
            AfterFlush::Nothing => Ok(()),
            AfterFlush::Drop(object, range) => {
                self.drop_uncovered(object, range);
                let cached = self.objects.get_mut(&object).expect("the object is known");
                // Others may cut what no lock covers.
                let covered = cached.locks.values().map(|lock| lock.range.end).max();
                cached.limit(covered.unwrap_or(0));
                Ok(())
            }
            AfterFlush::Cut(file, range) => {
                // What was being written has made the objects longer.
                for (object, size) in self.cut_sizes(file, range.start) {
                    let cached = self.objects.get_mut(&object).expect("the object is known");
                    cached.limit(size);
                }
                self.drop_written(file, range);
                Ok(())
            }
            AfterFlush::Punch(file, range) => {
                self.drop_written(file, range);
                Ok(())
            }
        };
        self.outputs.push_back(Output::Done { op: id, result });
    }

    /// Returns the error of the writes that have failed since an open file was last told of one.
    ///
    /// # Errors
    /// The last of them.
    pub fn take_error(&mut self, open: OpenId) -> Result<(), Errno> {
        let file = self.open_mut(open).file;
        let (count, errno) = self.file(file).failed;
        let seen = std::mem::replace(&mut self.open_mut(open).seen, count);
        errno.filter(|_| seen < count).map_or(Ok(()), Err)
    }

    /// A write of an object has failed, or what was to be written is lost.
    pub(super) fn failed(&mut self, object: Object, errno: Errno) {
        // A file that is forgotten is not open.
        let Some(file) = self.objects.get(&object).map(|cached| cached.file) else { return };
        let failed = &mut self.file_mut(file).failed;
        *failed = (failed.0 + 1, Some(errno));
    }

    /// Drops what was being written in a range of a file, and is clean now.
    fn drop_written(&mut self, file: FileId, range: Range<u64>) {
        for (object, range) in self.file(file).layout.objects(range) {
            self.drop_clean(object, range);
        }
    }

    fn drop_uncovered(&mut self, object: Object, range: Range<u64>) {
        for part in self.objects[&object].uncovered(range, false) {
            self.drop_clean(object, part);
        }
    }
}
