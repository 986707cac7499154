//! Writes into the cache, and who waits for room.

use std::collections::BTreeSet;
use std::ops::Range;

use fulmar_base::{BufferId, Time};

use super::api::{FileId, OpId, OpenId, Output, Stability, WriteError};
use super::state::{AfterFlush, Arena, Flush, Fragment, Op, Open, Priority, Server, Timer, Write};
use super::{Cache, SIZE_MAX};
use crate::budget::Class;
use crate::buffers::BUFFER_MAX;
use crate::dirty;
use crate::grants::Terms;
use crate::pages::Memory;
use crate::stripes::{Object, Place, Target};

/// What `max_dirty_mb` is at most by itself.
const DIRTY_MAX: u64 = 2000 << 20;

impl Cache {
    /// Writes to an open file, under a lock that covers the range. [`Output::Fill`] follows for each part as
    /// soon as there is room, then [`Output::Written`]. The file is longer as soon as a part is accepted: when it is
    /// cached, or at its target if it has to wait for that.
    ///
    /// # Errors
    /// If the file has no objects there, or cannot be written. Nothing is accepted of a write that ends beyond the
    /// largest object of a target: it would be refused later, together with what is sent with it.
    pub fn handle_write(
        &mut self,
        now: Time,
        open: OpenId,
        range: Range<u64>,
        stability: Stability,
    ) -> Result<OpId, WriteError> {
        let file = self.open_mut(open).file;
        let layout = &self.file(file).layout;
        if range.end > SIZE_MAX {
            return Err(WriteError::TooLarge);
        }
        if !layout.is_writable() {
            return Err(WriteError::Mirrored);
        }
        if let Some(missing) = layout.missing(range.clone()) {
            return Err(WriteError::NoObjects(missing));
        }
        let object_max = |object: &Object| self.targets[&object.target].grants.terms().object_max;
        if layout.objects(range.clone()).iter().any(|(one, part)| part.end > object_max(one)) {
            return Err(WriteError::TooLarge);
        }
        let id = OpId(self.id());
        let (start, is_durable) = (range.start, stability > Stability::Cached);
        let (accepted, waits, failures) = (start, BTreeSet::new(), self.file(file).failed.0);
        let filling = None;
        let write =
            Write { open, file, range, filling, is_durable, accepted, start, waits, failures };
        self.ops.insert(id, Op::Write(write));
        self.next_part(id);
        self.pump(now);
        Ok(id)
    }

    /// The memory of [`Output::Fill`] contains what is written.
    ///
    /// # Panics
    /// If the operation has none.
    pub fn handle_filled(&mut self, now: Time, op: OpId) {
        let Some(Op::Write(write)) = self.ops.get_mut(&op) else { panic!("{op:?} is not a write") };
        let part = write.filling.take().expect("there is something to fill");
        let Fragment { object, range, memory, reserved } = part;
        write.range.start += range.end - range.start;
        self.order += 1;
        let (order, durable) = (self.order, write.is_durable);
        let entry = dirty::Write { order, now, reserved, durable };
        let (file, end, is_accepted) = (write.file, write.range.start, entry.is_accepted());
        if is_accepted {
            write.accepted = end;
        } else if reserved.is_some() {
            write.waits.insert(object);
        }
        let cached = self.objects.get_mut(&object).expect("the object is known");
        let server = self.targets.get_mut(&object.target).expect("its target is known");
        let terms = *server.grants.terms();
        cached.pages.write(range.clone(), memory, &mut self.buffers);
        let (cost, replaced) = cached.dirty.add(&range, entry, &terms);
        server.grants.dirty(reserved.unwrap_or(0), cost);
        // This was counted when it got its memory.
        server.dirty -= replaced;
        if is_accepted {
            cached.end = cached.end.max(range.end);
        } else {
            cached.urgent = order;
        }
        self.buffers.unpin(memory.buffer);
        if is_accepted {
            self.grow(file, end);
        }
        self.requeue(object);
        if reserved.is_some() {
            self.next_part(op);
        } else {
            // If it is refused, nothing behind it is written.
            let (id, flush) =
                (OpId(self.id()), Flush { then: AfterFlush::Part(op), pending: BTreeSet::new() });
            self.begin_flush(id, flush, vec![object], Priority::Urgent);
        }
        self.pump(now);
    }

    /// A part of a write for which there was no grant is at its target, or refused.
    pub(super) fn end_part(&mut self, id: OpId) {
        let Some(Op::Write(write)) = self.ops.get_mut(&id) else { return };
        let (file, open, end) = (write.file, write.open, write.range.start);
        let (before, failures) = (write.len(), write.failures);
        if write.waits.is_empty() {
            write.accepted = end;
        }
        if self.has_failed(open, failures) {
            return self.end_when_written(id, before);
        }
        self.grow(file, end);
        self.next_part(id);
    }

    /// Ends a write when nothing of it is on its way any more. What has a grant is sent at once, and may come to its
    /// target after another part was refused.
    fn end_when_written(&mut self, id: OpId, accepted: u64) {
        let Some(Op::Write(write)) = self.ops.remove(&id) else { return };
        let Write { open, start, range, waits, failures, .. } = write;
        let then = AfterFlush::Write { open, range: start..range.end, accepted, failures };
        let flush = Flush { then, pending: BTreeSet::new() };
        self.begin_flush(id, flush, waits.into_iter().collect(), Priority::Urgent);
    }

    /// Ends a write of which so many bytes from its start are written, also if others have failed. Those are reported
    /// later if there is something else to tell.
    pub(super) fn end_write(
        &mut self,
        op: OpId,
        open: OpenId,
        failures: u64,
        (accepted, whole): (u64, u64),
    ) {
        let result = if !self.has_failed(open, failures) {
            Ok(whole)
        } else if accepted > 0 {
            Ok(accepted)
        } else {
            let unreported = self.take_error(open);
            // Another write of the open file may have been told of it.
            let last = self.file(self.opens[&open].file).failed.1;
            unreported.and(last.map_or(Ok(0), Err))
        };
        self.outputs.push_back(Output::Written { op, result });
    }

    /// Returns whether writes of the file have failed that an open file was not told of, or since there were so many
    /// failures: two writes may fail by one RPC.
    pub(super) fn has_failed(&self, open: OpenId, failures: u64) -> bool {
        let Open { file, seen, .. } = &self.opens[&open];
        self.file(*file).failed.0 > failures.min(*seen)
    }

    /// Lets a write wait for room for its next part, or ends it.
    fn next_part(&mut self, id: OpId) {
        let Some(Op::Write(write)) = self.ops.get(&id) else { return };
        if !write.range.is_empty() {
            let target = self.part(write).0.target;
            self.server(target).waiters.push_back(id);
            self.waiting.insert(target);
            return;
        }
        let accepted = write.len();
        if write.waits.is_empty() {
            self.ops.remove(&id);
            self.outputs.push_back(Output::Written { op: id, result: Ok(accepted) });
        } else {
            self.end_when_written(id, accepted);
        }
    }

    /// A file has at least this size.
    pub(super) fn grow(&mut self, file: FileId, end: u64) {
        let file = self.file_mut(file);
        file.size = file.size.max(end);
    }

    /// Returns the next part of a write: within one RPC of one object, and one buffer.
    pub(super) fn part(&self, write: &Write) -> (Object, Range<u64>) {
        let piece = self.file(write.file).layout.pieces(write.range.clone()).next();
        let piece = piece.expect("something is left to write");
        let Place::Object { object, at } = piece.place else { unreachable!("it has objects") };
        let rpc_size = self.targets[&object.target].grants.terms().rpc_size;
        let end = at + (piece.file.end - piece.file.start).min(BUFFER_MAX);
        (object, at..end.min((at / rpc_size + 1) * rpc_size))
    }

    /// Gives room to those who wait, in order for each target.
    pub(super) fn admit_writers(&mut self) {
        self.is_short = false;
        let mut targets: Vec<Target> = self.waiting.iter().copied().collect();
        // Where memory is short, each target is the first now and then.
        let first = self.turn as usize % targets.len().max(1);
        targets.rotate_left(first);
        for target in targets {
            while let Some(&id) = self.server(target).waiters.front() {
                if !self.admit(id) {
                    // What is dirty is written, so that there is room.
                    self.active.insert(target);
                    break;
                }
                self.server(target).waiters.pop_front();
            }
            if self.server(target).waiters.is_empty() {
                self.waiting.remove(&target);
            }
        }
    }

    /// Gives room to the next part of a write, if there is some.
    fn admit(&mut self, id: OpId) -> bool {
        let Some(Op::Write(write)) = self.ops.get(&id) else { return true };
        let (object, range) = self.part(write);
        let (offset, len) = (write.range.start, range.end - range.start);
        let dirty_max = self.dirty_max(object.target);
        let is_synchronous = self.file(write.file).is_synchronous;
        let server = self.server(object.target);
        if server.dirty > 0 && server.dirty + len > dirty_max {
            return false;
        }
        let cost = server.grants.terms().cost(&range);
        let is_paid = !is_synchronous && server.grants.available() >= cost;
        // Replies to writes grant more. If none is expected, the target has to look for space.
        if !is_paid && !is_synchronous && server.dirty > 0 {
            return false;
        }
        let Some(memory) = self.memory_for(object, len) else {
            self.is_short = true;
            return false;
        };
        let server = self.server(object.target);
        server.dirty += len;
        let reserved = (is_paid && server.grants.reserve(cost)).then_some(cost);
        let Some(Op::Write(write)) = self.ops.get_mut(&id) else { return true };
        write.filling = Some(Fragment { object, range, memory, reserved });
        let memory = memory.span(len);
        self.outputs.push_back(Output::Fill { op: id, offset, memory });
        true
    }

    /// Returns memory with a pin for something written: the next of the arena of its object.
    fn memory_for(&mut self, object: Object, len: u64) -> Option<Memory> {
        let cached = self.objects.get_mut(&object).expect("the object is known");
        if let Some(arena) = &mut cached.arena
            && arena.len - arena.used >= len
        {
            let Arena { buffer, used, .. } = *arena;
            arena.used += len;
            self.buffers.pin(buffer);
            return Some(Memory { buffer, offset: used });
        }
        let twice = (2 * cached.arena_len).min(BUFFER_MAX);
        let size = len.next_multiple_of(Terms::PAGE).max(twice);
        self.close_arena(object);
        if !self.make_room(Class::WriteBack, size) {
            return None;
        }
        let buffer: BufferId = self.buffers.allocate(Class::WriteBack, size, object)?;
        let cached = self.objects.get_mut(&object).expect("the object is known");
        cached.arena_len = size;
        if len < size {
            cached.arena = Some(Arena { buffer, used: len, len: size });
            self.buffers.pin(buffer);
        }
        Some(Memory { buffer, offset: 0 })
    }

    /// The rest of an arena is not used: its buffer goes when the data in it may.
    pub(super) fn close_arena(&mut self, object: Object) {
        let arena = self.objects.get_mut(&object).and_then(|cached| cached.arena.take());
        if let Some(arena) = arena {
            self.buffers.unpin(arena.buffer);
        }
    }

    /// Returns how much may be dirty for a target: what was set, or as much as a kernel client allows
    /// within the share of writes, but at least twice the window.
    pub(super) fn dirty_max(&self, target: Target) -> u64 {
        let window = self.targets.get(&target).map_or(0, Server::in_window);
        let default = DIRTY_MAX.min(self.settings.memory / 2).max(2 * window);
        self.settings.dirty_max.unwrap_or(default)
    }

    /// Puts an object in its places among those to be written.
    pub(super) fn requeue(&mut self, object: Object) {
        self.turn += 1;
        let turn = self.turn;
        let cached = self.objects.get_mut(&object).expect("the object is known");
        let server = self.targets.get_mut(&object.target).expect("its target is known");
        if let Some((priority, turn)) = cached.queued.take() {
            server.to_write.remove(&(priority, turn, object));
        }
        if let Some(order) = cached.aged.take() {
            server.aged.remove(&(order, object));
        }
        let Some((oldest, _)) = cached.dirty.oldest() else { return };
        cached.aged = Some(oldest);
        server.aged.insert((oldest, object));
        let priority = match oldest {
            oldest if oldest <= cached.high => Some(Priority::High),
            oldest if oldest <= cached.urgent => Some(Priority::Urgent),
            _ => cached.dirty.full().next().map(|_| Priority::Full),
        };
        if let Some(priority) = priority {
            cached.queued = Some((priority, turn));
            server.to_write.insert((priority, turn, object));
        }
        self.active.insert(object.target);
    }

    /// Sets when the oldest data of a target are written.
    pub(super) fn set_age(&mut self, now: Time, target: Target) {
        let age_max = self.settings.age_max;
        let server = &self.targets[&target];
        let oldest =
            server.aged.first().and_then(|(_, object)| self.objects[object].dirty.oldest());
        match oldest {
            // What is due already is sent when an RPC ends.
            Some((_, since)) if since + age_max > now => {
                self.timers.set(Timer::Age(target), since + age_max);
            }
            _ => self.timers.clear(Timer::Age(target)),
        }
    }
}
