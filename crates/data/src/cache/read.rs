//! Reads, and reading ahead.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fulmar_base::{Errno, Time};

use super::Cache;
use super::api::{Bytes, OpId, OpenId, Output, RpcId, Settings};
use super::state::{self, Op, Read, RpcState, Server};
use crate::budget::Class;
use crate::buffers::BUFFER_MAX;
use crate::pages::PageState;
use crate::reader::{self, Limits};
use crate::stripes::{Object, Place};
use crate::writer::pages;

/// Where a part of a file is, and what is there.
type PartSource = (Object, Range<u64>, PageState);

/// What is known of a range of a file.
struct ReadParts {
    /// In order. What is nowhere is zeros.
    parts: Vec<(Range<u64>, Option<PartSource>)>,
}

impl ReadParts {
    /// Returns the ranges of objects that are missing, as whole pages.
    fn missing(&self) -> BTreeMap<Object, Vec<Range<u64>>> {
        let mut missing: BTreeMap<Object, Vec<Range<u64>>> = BTreeMap::new();
        for (_, place) in &self.parts {
            let Some((object, range, PageState::Missing)) = place else { continue };
            let range = pages(range);
            let ranges = missing.entry(*object).or_default();
            match ranges.last_mut() {
                // Stripes that follow one another in an object are one read.
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        missing
    }

    fn coming(&self) -> BTreeSet<RpcId> {
        let coming = |place: &Option<PartSource>| match place {
            Some((_, _, PageState::Coming(rpc))) => Some(*rpc),
            _ => None,
        };
        self.parts.iter().filter_map(|(_, place)| coming(place)).collect()
    }
}

impl Cache {
    /// Reads of an open file, under a lock that covers the range. [`Output::Ready`] or an error follows.
    /// The read is cut at the end of the file and at [`Settings::READ_MAX`].
    pub fn handle_read(&mut self, now: Time, open: OpenId, range: Range<u64>) -> OpId {
        let id = OpId(self.id());
        let file = self.open_mut(open).file;
        let end =
            range.end.min(self.size(file)).min(range.start.saturating_add(Settings::READ_MAX));
        let range = range.start..end.max(range.start);
        if range.is_empty() {
            let read = read(open, file, range);
            self.ops.insert(id, Op::Read(read));
            self.outputs.push_back(Output::Ready { op: id, bytes: Vec::new() });
            return id;
        }
        let limits = self.limits(file);
        let kind = self.open_mut(open).reader.read(&range, &limits);
        let mut read = read(open, file, range.clone());
        read.again = kind == reader::Kind::Random;
        let seen = self.look(file, range.clone());
        let (missing, coming) = (seen.missing(), seen.coming());
        self.count(&range, &missing);
        if !missing.is_empty() || !coming.is_empty() {
            let stream = &mut self.open_mut(open).reader;
            let window = stream.waited(kind, &range, !missing.is_empty(), &limits);
            self.last_window = if window > 0 { window } else { self.last_window };
        }
        self.ops.insert(id, Op::Read(read));
        // A small file is one RPC: what is missing now is a part of it.
        let size = self.size(file);
        let is_whole = size <= limits.least && kind != reader::Kind::Random;
        if is_whole {
            self.read_ahead(open, kind, &limits);
        }
        self.try_read(id);
        if !is_whole {
            self.read_ahead(open, kind, &limits);
        }
        self.pump(now);
        id
    }

    /// The host has what a read has found: its memory may go.
    ///
    /// # Panics
    /// If this is not a read that was [`Output::Ready`].
    pub fn handle_read_end(&mut self, now: Time, op: OpId) {
        let Some(Op::Read(read)) = self.ops.remove(&op) else { panic!("{op:?} is not a read") };
        assert!(read.waits.is_empty() && !read.is_queued, "{op:?} is not ready");
        read.pins.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
        self.pump(now);
    }

    /// Counts what a read of a range has found.
    fn count(&mut self, range: &Range<u64>, missing: &BTreeMap<Object, Vec<Range<u64>>>) {
        const PAGE: u64 = 4096;
        let all = range.end.div_ceil(PAGE) - range.start / PAGE;
        let bytes = missing.values().flatten().map(|range| range.end - range.start).sum::<u64>();
        let misses = bytes.div_ceil(PAGE);
        self.counts.misses += misses;
        self.counts.hits += all.saturating_sub(misses);
    }

    fn limits(&self, file: super::FileId) -> Limits {
        let targets = &self.file(file).targets;
        let servers = || targets.iter().filter_map(|target| self.targets.get(target));
        let rpc_size = |server: &Server| server.grants.terms().rpc_size;
        let rpc = servers().map(rpc_size).max().unwrap_or(1 << 20);
        // RPCs end in any order, and the reader takes them in one: twice what may be in flight, so that it
        // waits for a late one and the line does not. A window is cut to whole RPCs, and refilled by whole ones.
        let held = |server: &Server| 2 * (server.reads.bytes() + rpc_size(server));
        let held = servers().map(held).sum::<u64>();
        let most = self.settings.read_ahead_max.unwrap_or(held).min(self.settings.memory / 4);
        let band = 2 * self.settings.disorder;
        Limits { band, least: rpc.min(most).max(1), first: self.last_window.max(2 * rpc), most }
    }

    fn look(&self, file: super::FileId, range: Range<u64>) -> ReadParts {
        let mut parts = Vec::new();
        for piece in self.file(file).layout.pieces(range) {
            let Place::Object { object, at } = piece.place else {
                parts.push((piece.file, None));
                continue;
            };
            let Range { start, end } = piece.file;
            for (part, found) in self.objects[&object].pages.look(at..at + (end - start)) {
                let first = start + (part.start - at);
                parts.push((first..first + (part.end - part.start), Some((object, part, found))));
            }
        }
        ReadParts { parts }
    }

    /// Gives memory to reads that wait for it, in order.
    pub(super) fn admit_readers(&mut self) {
        while let Some(&id) = self.readers.front() {
            if let Some(Op::Read(read)) = self.ops.get_mut(&id) {
                read.is_queued = false;
            }
            self.readers.pop_front();
            if !self.proceed(id, true) {
                self.readers.push_front(id);
                return;
            }
        }
    }

    /// Lets a read go on, or wait for memory behind others.
    pub(super) fn try_read(&mut self, id: OpId) {
        let is_first = self.readers.is_empty();
        if !self.proceed(id, is_first) {
            self.readers.push_back(id);
        }
    }

    fn wait_for_memory(&mut self, id: OpId) {
        if let Some(Op::Read(read)) = self.ops.get_mut(&id) {
            read.is_queued = true;
        }
    }

    /// Ends a read, or fetches what it needs. False if it needs memory and there is none, or others wait
    /// for some before it: nothing is done then.
    fn proceed(&mut self, id: OpId, is_first: bool) -> bool {
        let Some(Op::Read(read)) = self.ops.get(&id) else { return true };
        let (file, range) = (read.file, read.range.clone());
        let seen = self.look(file, range);
        let missing = seen.missing();
        let bytes = missing.values().flatten().map(|range| range.end - range.start).sum();
        // What is here is kept, so that a read with memory needs no more.
        let here = self.pin_found(&seen);
        let mut waits = seen.coming();
        waits.iter().for_each(|rpc| self.want(*rpc));
        if bytes > 0 && !(is_first && self.make_room(Class::Demand, bytes)) {
            here.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
            self.wait_for_memory(id);
            return false;
        }
        for (object, ranges) in missing {
            for range in ranges {
                waits.extend(self.fetch(object, range, false));
            }
        }
        for rpc in &waits {
            let pending = self.rpcs.get_mut(rpc).expect("what is being read has an RPC");
            if let state::Kind::Read { waiters, .. } = &mut pending.kind {
                waiters.push(id);
            }
        }
        let Some(Op::Read(read)) = self.ops.get_mut(&id) else { return true };
        let before = std::mem::replace(&mut read.pins, here);
        before.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
        let is_ready = waits.is_empty();
        read.waits = waits;
        if is_ready {
            self.ready(id, &seen);
        }
        true
    }

    fn pin_found(&mut self, seen: &ReadParts) -> Vec<fulmar_base::BufferId> {
        let mut pins = Vec::new();
        for (_, place) in &seen.parts {
            if let Some((_, _, PageState::Bytes(Some(memory)))) = place {
                self.buffers.pin(memory.buffer);
                pins.push(memory.buffer);
            }
        }
        pins
    }

    fn ready(&mut self, id: OpId, seen: &ReadParts) {
        let Some(Op::Read(read)) = self.ops.get(&id) else { return };
        let mut bytes = Vec::new();
        for (part, place) in &seen.parts {
            let len = part.end - part.start;
            let Some((object, range, PageState::Bytes(Some(memory)))) = place else {
                bytes.push(Bytes::Zeros(len));
                continue;
            };
            bytes.push(Bytes::Memory(memory.span(len)));
            // Who reads on does not come back to what it has read to the end.
            let is_used_up = self.objects[object].pages.is_last(range.end - 1);
            self.buffers.touch(memory.buffer, read.again || !is_used_up);
        }
        self.outputs.push_back(Output::Ready { op: id, bytes });
    }

    /// A reader wants what was read ahead: it is sent before what has no reader, and not given up.
    fn want(&mut self, rpc: RpcId) {
        let target = self.rpcs[&rpc].object.target;
        let to_read = &mut self.server(target).to_read;
        if to_read.remove(&(true, rpc)) {
            to_read.insert((false, rpc));
            self.active.insert(target);
        }
    }

    /// Queues reads of a range of an object. There is memory for them, or what is read ahead ends early.
    fn fetch(&mut self, object: Object, range: Range<u64>, is_ahead: bool) -> Vec<RpcId> {
        let class = if is_ahead { Class::Speculation } else { Class::Demand };
        let rpc_size = self.server(object.target).grants.terms().rpc_size;
        let (mut at, mut ids) = (range.start, Vec::new());
        while at < range.end {
            let end = range.end.min((at / rpc_size + 1).saturating_mul(rpc_size));
            let id = RpcId(self.id());
            let mut buffers = Vec::new();
            let mut from = at;
            while from < end {
                let to = end.min((from / BUFFER_MAX + 1) * BUFFER_MAX);
                let Some(buffer) = self.buffers.allocate(class, to - from, object) else { break };
                buffers.push((from..to, buffer));
                from = to;
            }
            if from == at {
                assert!(is_ahead, "a reader has taken its memory before");
                break;
            }
            let cached = self.objects.get_mut(&object).expect("the object is known");
            cached.pages.expect(at..from, id, &mut self.buffers);
            let kind =
                state::Kind::Read { range: at..from, buffers, is_ahead, waiters: Vec::new() };
            self.rpcs.insert(id, RpcState { object, ticket: None, kind });
            self.server(object.target).to_read.insert((is_ahead, id));
            self.active.insert(object.target);
            ids.push(id);
            at = from;
        }
        ids
    }

    /// Requests what the reader of an open file will want, as far as locks and memory reach.
    fn read_ahead(&mut self, open: OpenId, kind: reader::Kind, limits: &Limits) {
        let file = self.open_mut(open).file;
        let size = self.size(file);
        let ranges = self.open_mut(open).reader.ahead(kind, size, limits);
        for range in ranges {
            let mut missing = self.look(file, range.clone()).missing();
            for (object, ranges) in &mut missing {
                let locks = &self.objects[object];
                ranges.iter_mut().for_each(|range| *range = locks.covered(range.clone()));
            }
            let len =
                |ranges: &Vec<Range<u64>>| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
            let bytes = missing.values().map(len).sum();
            if !self.make_room(Class::Speculation, bytes) {
                self.open_mut(open).reader.refused(kind, limits);
                return;
            }
            for (object, ranges) in missing {
                for range in ranges {
                    self.fetch(object, range, true);
                }
            }
            self.open_mut(open).reader.issued(kind, range.end);
        }
    }

    /// Gives up what is read ahead of an object and was not sent.
    pub(super) fn revoke_reads(&mut self, object: Object) {
        let reads = self.server(object.target).to_read.iter().filter(|(is_ahead, _)| *is_ahead);
        let reads: Vec<_> = reads.map(|(_, id)| *id).collect();
        for id in reads {
            if self.rpcs[&id].object == object {
                self.revoke(id);
            }
        }
    }

    /// Gives up a read that was not sent, if it has no reader.
    pub(super) fn revoke(&mut self, id: RpcId) {
        let Some(RpcState { object, kind: state::Kind::Read { waiters, .. }, .. }) =
            self.rpcs.get(&id)
        else {
            return;
        };
        let (object, is_wanted) = (*object, !waiters.is_empty());
        if is_wanted || !self.server(object.target).to_read.remove(&(true, id)) {
            return;
        }
        let Some(RpcState { kind: state::Kind::Read { range, buffers, .. }, .. }) =
            self.rpcs.remove(&id)
        else {
            unreachable!("it was found above")
        };
        let cached = self.objects.get_mut(&object).expect("the object is known");
        cached.pages.not_arrived(range, id, &mut self.buffers);
        buffers.into_iter().for_each(|(_, buffer)| self.buffers.unpin(buffer));
    }

    /// A read of an object has ended: the operations that wait for it go on.
    pub(super) fn read_done(&mut self, id: RpcId, pending: RpcState, result: Result<u64, Errno>) {
        let state::Kind::Read { range, buffers, is_ahead, waiters } = pending.kind else { return };
        if let Some(cached) = self.objects.get_mut(&pending.object) {
            let end = range.start + result.unwrap_or(0).min(range.end - range.start);
            for (part, buffer) in &buffers {
                let read = part.start..part.end.min(end).max(part.start);
                let memory = crate::pages::Memory { buffer: *buffer, offset: 0 };
                match result {
                    Ok(_) => {
                        let rest = read.end..part.end;
                        cached.pages.arrived(read, id, Some(memory), &mut self.buffers);
                        cached.pages.arrived(rest, id, None, &mut self.buffers);
                    }
                    Err(_) => cached.pages.not_arrived(part.clone(), id, &mut self.buffers),
                }
            }
        }
        for op in waiters {
            let Some(Op::Read(read)) = self.ops.get_mut(&op) else { continue };
            read.waits.remove(&id);
            for (_, buffer) in &buffers {
                self.buffers.pin(*buffer);
                read.pins.push(*buffer);
            }
            // What had no reader when it was sent is read again, by itself.
            read.error = read.error.or(result.err().filter(|_| !is_ahead));
            if read.waits.is_empty() {
                self.read_goes_on(op);
            }
        }
        buffers.into_iter().for_each(|(_, buffer)| self.buffers.unpin(buffer));
    }

    fn read_goes_on(&mut self, id: OpId) {
        let Some(Op::Read(read)) = self.ops.get_mut(&id) else { return };
        let Some(errno) = read.error else { return self.try_read(id) };
        let pins = std::mem::take(&mut read.pins);
        pins.into_iter().for_each(|buffer| self.buffers.unpin(buffer));
        self.ops.remove(&id);
        self.outputs.push_back(Output::Done { op: id, result: Err(errno) });
    }
}

fn read(open: OpenId, file: super::FileId, range: Range<u64>) -> Read {
    let (waits, pins) = (BTreeSet::new(), Vec::new());
    Read { open, file, range, again: true, waits, is_queued: false, pins, error: None }
}
