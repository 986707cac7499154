//! RPCs: sent as the windows allow, and ended.

use std::ops::Bound;

use fulmar_base::{Span, Time};

use super::Cache;
use super::api::{Direction, Flags, Output, Reply, Rpc, RpcId};
use super::state::{CachedObject, Kind, Priority, RpcState};
use crate::grants::Figures;
use crate::stripes::{Object, Target};
use crate::writer::{Want, gather};

impl Cache {
    /// An RPC has ended.
    ///
    /// # Panics
    /// If there is no such RPC in flight.
    pub fn handle_done(&mut self, now: Time, id: RpcId, reply: Reply) {
        let mut pending = self.rpcs.remove(&id).expect("an RPC ends once");
        let ticket = pending.ticket.take().expect("only what was sent ends");
        let target = pending.object.target;
        let server = self.server(target);
        let is_read = matches!(pending.kind, Kind::Read { .. });
        let window = if is_read { &mut server.reads } else { &mut server.writes };
        window.end(now, ticket, reply.result.is_ok());
        server.grants.granted(reply.granted);
        server.used = now;
        self.active.insert(target);
        if is_read {
            self.read_done(id, pending, reply.result)
        } else {
            self.write_done(id, pending, reply)
        }
        self.pump(now);
    }

    /// The target has on disk what it could have lost: the memory of a write is not needed any more.
    ///
    /// # Panics
    /// If the memory of this write is not kept.
    pub fn handle_released(&mut self, now: Time, id: RpcId) {
        let pending = self.rpcs.remove(&id).expect("a kept write is released once");
        let Kind::Kept { cost, bytes, pins } = pending.kind else { panic!("{id:?} is not kept") };
        self.server(pending.object.target).grants.released(cost);
        self.unstable -= bytes;
        pins.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
        self.pump(now);
    }

    pub(super) fn send_reads(&mut self, now: Time, target: Target) {
        loop {
            let (dirty_max, server) = (self.dirty_max(target), self.server(target));
            let Some(&(is_ahead, id)) = server.to_read.first() else { return };
            if !server.is_connected || !server.reads.has_room(!is_ahead) {
                return;
            }
            server.to_read.pop_first();
            let window = server.in_window();
            let grant = server.grants.figures(0, dirty_max, window);
            let pending = self.rpcs.get_mut(&id).expect("what is queued exists");
            let Kind::Read { range, buffers, .. } = &pending.kind else { continue };
            let (object, range) = (pending.object, range.clone());
            let server = self.targets.get_mut(&target).expect("it was found above");
            pending.ticket = Some(server.reads.start(now, range.end - range.start));
            let span = |(part, buffer): &(std::ops::Range<u64>, _)| Span {
                buffer: *buffer,
                offset: 0,
                len: (part.end - part.start) as u32,
            };
            let memory = buffers.iter().map(span).collect();
            let (direction, flags, ranges) = (Direction::Read, Flags::default(), vec![range]);
            let rpc = Rpc { id, object, direction, ranges, memory, flags, grant };
            self.outputs.push_back(Output::Rpc(Box::new(rpc)));
        }
    }

    pub(super) fn send_writes(&mut self, now: Time, target: Target) {
        while self.server(target).is_connected && self.send_write(now, target) {}
    }

    fn send_write(&mut self, now: Time, target: Target) -> bool {
        let server = &self.targets[&target];
        let has_room = server.writes.has_room(false);
        if !has_room && !server.writes.has_room(true) {
            return false;
        }
        let mut next = server.to_write.first().copied();
        while let Some(entry) = next {
            let (priority, _, object) = entry;
            if !has_room && priority != Priority::High {
                return false;
            }
            let cached = &self.objects[&object];
            let want = match priority {
                Priority::High => Want::Until(cached.high),
                Priority::Urgent => Want::Until(cached.urgent),
                Priority::Full => Want::Full,
            };
            if self.send_extents(now, object, want, priority == Priority::High) {
                return true;
            }
            let behind = (Bound::Excluded(entry), Bound::Unbounded);
            next = self.targets[&target].to_write.range(behind).next().copied();
        }
        has_room && self.send_old(now, target)
    }

    /// Sends a write of what is old, or of the oldest if others wait for room.
    fn send_old(&mut self, now: Time, target: Target) -> bool {
        let server = &self.targets[&target];
        let all = self.is_short || !server.waiters.is_empty();
        let age_max = self.settings.age_max;
        let mut next = server.aged.first().copied();
        while let Some(entry) = next {
            let (_, object) = entry;
            let oldest = self.objects[&object].dirty.oldest();
            let is_due = oldest.is_some_and(|(_, since)| since + age_max <= now);
            if !all && !is_due {
                return false;
            }
            if self.send_extents(now, object, Want::Until(u64::MAX), false) {
                return true;
            }
            let behind = (Bound::Excluded(entry), Bound::Unbounded);
            next = self.targets[&target].aged.range(behind).next().copied();
        }
        false
    }

    /// Sends a write of what is wanted of an object. False if there is nothing, or it has to wait.
    fn send_extents(&mut self, now: Time, object: Object, want: Want, is_urgent: bool) -> bool {
        let dirty_max = self.dirty_max(object.target);
        let cached = self.objects.get_mut(&object).expect("the object is known");
        let server = self.targets.get_mut(&object.target).expect("its target is known");
        let terms = *server.grants.terms();
        let CachedObject { dirty, pages, busy, .. } = cached;
        let Some(extents) = gather(dirty, pages, busy, want, &terms) else { return false };
        self.next_id += 1;
        let id = RpcId(self.next_id);
        let (mut memory, mut bytes, mut cost, mut order) = (Vec::new(), 0, 0, u64::MAX);
        for (range, extent) in &extents {
            cached.busy.add(range);
            memory.extend(cached.pages.sent(range.clone(), id, &mut self.buffers));
            bytes += range.end - range.start;
            cost += extent.cost;
            order = order.min(extent.order);
        }
        cached.writing.insert(id, order);
        let window = server.in_window();
        let grant: Figures = server.grants.figures(cost, dirty_max, window);
        server.used = now;
        let from_grant = extents.iter().all(|(_, extent)| extent.paid);
        let flags = Flags {
            from_grant,
            sync: !from_grant || extents.iter().any(|(_, extent)| extent.durable),
            soft_sync: self.unstable > self.settings.memory / 8,
            urgent: is_urgent,
        };
        let ticket = Some(server.writes.start(now, bytes));
        let ranges = extents.iter().map(|(range, _)| range.clone()).collect();
        let pins = memory.iter().map(|span| span.buffer).collect();
        let kind = Kind::Write { extents, pins };
        self.rpcs.insert(id, RpcState { object, ticket, kind });
        self.requeue(object);
        let direction = Direction::Write;
        let rpc = Rpc { id, object, direction, ranges, memory: join(memory), flags, grant };
        self.outputs.push_back(Output::Rpc(Box::new(rpc)));
        true
    }

    fn write_done(&mut self, id: RpcId, pending: RpcState, reply: Reply) {
        let Kind::Write { extents, pins } = pending.kind else { return };
        let object = pending.object;
        let is_ok = reply.result.is_ok();
        let keeps = is_ok && reply.keeps_data;
        let cached = self.objects.get_mut(&object).expect("an object with writes is kept");
        let server = self.targets.get_mut(&object.target).expect("its target is known");
        cached.writing.remove(&id);
        let (mut cost, mut bytes) = (0, 0);
        // A lock that is gone says nothing.
        let covered = cached.locks.values().map(|lock| lock.range.end).max().unwrap_or(0);
        for (range, extent) in &extents {
            if is_ok {
                cached.stored = cached.stored.max(range.end.min(covered));
            }
            cached.busy.remove(range);
            cached.pages.written(range.clone(), id, is_ok, &mut self.buffers);
            bytes += range.end - range.start;
            cost += extent.cost;
        }
        server.dirty -= bytes;
        server.grants.written(cost, keeps);
        cached.end = cached.end.max(cached.stored);
        if let Err(errno) = reply.result {
            self.failed(object, errno);
            self.shorten(object);
        }
        if keeps {
            self.unstable += bytes;
            let kind = Kind::Kept { cost, bytes, pins };
            self.rpcs.insert(id, RpcState { object, ticket: None, kind });
        } else {
            pins.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
        }
        if !self.objects[&object].is_dirty() {
            self.close_arena(object);
        }
        self.settle(object);
    }

    /// What was accepted is lost: the object is as long as what is left.
    fn shorten(&mut self, object: Object) {
        let Some(cached) = self.objects.get_mut(&object) else { return };
        let writing = cached.writing.keys().map(|id| match &self.rpcs[id].kind {
            Kind::Write { extents, .. } => {
                extents.iter().map(|(_, extent)| extent.accepted).max().unwrap_or(0)
            }
            _ => 0,
        });
        let left = writing.max().unwrap_or(0).max(cached.dirty.accepted_end());
        cached.end = cached.end.min(left.max(cached.stored));
    }
}

/// Makes one span of those that are one after the other in a buffer.
fn join(spans: Vec<Span>) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last)
                if last.buffer == span.buffer
                    && last.offset + u64::from(last.len) == span.offset =>
            {
                last.len += span.len;
            }
            _ => joined.push(span),
        }
    }
    joined
}
