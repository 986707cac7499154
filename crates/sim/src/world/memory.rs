//! The bulk memory of the selftests: for each buffer, how much of it has correct data.
//!
//! Bulk data refers to its source buffer, but all nodes use the same buffer numbers. So a selftest
//! buffer has a global name in the network, unique for its node and incarnation.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Payload, Span};
use fulmar_lnet_wire::selftest::{Damage, WORD};
use fulmar_selftest::Contents;

use super::{HostId, World};

/// The buffers of all nodes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Freed buffers are kept: data written from them may still be in flight.
    buffers: BTreeMap<BufferId, Buffer>,
}

#[derive(Debug)]
struct Buffer {
    len: u32,
    /// The data up to here are correct.
    good: u32,
    freed: bool,
}

impl Memory {
    fn allocate(&mut self, name: BufferId, len: u32, contents: Contents) -> Result<(), String> {
        let good = if contents == Contents::Good { len } else { 0 };
        let before = self.buffers.insert(name, Buffer { len, good, freed: false });
        before.map_or(Ok(()), |_| Err(format!("{name:?} is allocated twice")))
    }

    fn release(&mut self, name: BufferId) -> Result<(), String> {
        self.live(name)?.freed = true;
        Ok(())
    }

    /// Marks all data from the start of `span` on as corrupted.
    fn damage(&mut self, span: Span) -> Result<(), String> {
        let buffer = self.part(span)?;
        buffer.good = buffer.good.min(span.offset as u32);
        Ok(())
    }

    /// Stores bytes from `source` in `sink`.
    fn store(&mut self, sink: Span, source: Span) -> Result<(), String> {
        let good_until =
            self.buffers.get(&source.buffer).map_or(0, |buffer| u64::from(buffer.good));
        let in_step = source.offset % WORD as u64 == sink.offset % WORD as u64;
        let is_good = in_step && source.offset + u64::from(source.len) <= good_until;
        let buffer = self.part(sink)?;
        let (start, end) = (sink.offset as u32, sink.offset as u32 + sink.len);
        if !is_good {
            buffer.good = buffer.good.min(start);
        } else if start <= buffer.good {
            buffer.good = buffer.good.max(end);
        }
        Ok(())
    }

    /// Returns whether all of `span` is correct, and invalidates it.
    fn check(&mut self, span: Span) -> Result<Result<(), Damage>, String> {
        let buffer = self.part(span)?;
        let good = std::mem::take(&mut buffer.good);
        let is_good = span.offset + u64::from(span.len) <= u64::from(good);
        let offset = u64::from(good).saturating_sub(span.offset) as usize;
        Ok(if is_good { Ok(()) } else { Err(Damage { offset, got: 0 }) })
    }

    /// Returns how many buffers of an incarnation of a node are not freed.
    fn live_of(&self, host: HostId, incarnation: u32) -> usize {
        let (first, end) = (name_of(host, incarnation, 0), name_of(host, incarnation + 1, 0));
        self.buffers.range(first..end).filter(|(_, buffer)| !buffer.freed).count()
    }

    fn live(&mut self, name: BufferId) -> Result<&mut Buffer, String> {
        let buffer = self.buffers.get_mut(&name).filter(|buffer| !buffer.freed);
        buffer.ok_or_else(|| format!("{name:?} is not allocated"))
    }

    fn part(&mut self, span: Span) -> Result<&mut Buffer, String> {
        let buffer = self.live(span.buffer)?;
        if span.offset + u64::from(span.len) <= u64::from(buffer.len) {
            Ok(buffer)
        } else {
            Err(format!("{span:?} exceeds its buffer of {} bytes", buffer.len))
        }
    }
}

impl World {
    /// Returns the number of allocated buffers of a node's selftest.
    pub(crate) fn selftest_buffers(&self, host: HostId) -> usize {
        self.memory.live_of(host, self.incarnation(host))
    }

    pub(super) fn allocate(&mut self, host: HostId, name: BufferId, len: u32, contents: Contents) {
        let name = self.global_name(host, name);
        let done = self.memory.allocate(name, len, contents);
        self.require_ok(host, done);
    }

    pub(super) fn release(&mut self, host: HostId, name: BufferId) {
        let name = self.global_name(host, name);
        if self.is_being_written(host, name) {
            self.broken(host, format!("{name:?} is freed while it is being written"));
        }
        let done = self.memory.release(name);
        self.require_ok(host, done);
    }

    pub(super) fn damage(&mut self, host: HostId, span: Span) {
        let span = self.global_span(host, span);
        let done = self.memory.damage(span);
        self.require_ok(host, done);
    }

    /// Returns the result of a data check by the node.
    pub(super) fn check_memory(&mut self, host: HostId, span: Span) -> Result<(), Damage> {
        let span = self.global_span(host, span);
        match self.memory.check(span) {
            Ok(found) => found,
            Err(what) => {
                self.broken(host, what);
                Ok(())
            }
        }
    }

    /// Records that bytes from `source`, a global name, were stored in `sink`. Returns false if
    /// `sink` does not belong to a selftest.
    pub(super) fn stored_by_selftest(&mut self, host: HostId, sink: Span, source: Span) -> bool {
        if !is_selftest(sink.buffer) {
            return false;
        }
        let sink = self.global_span(host, sink);
        let done = self.memory.store(sink, source);
        self.require_ok(host, done);
        true
    }

    /// Returns a payload with its global name.
    pub(super) fn global_payload(&mut self, host: HostId, payload: Payload) -> Payload {
        let Payload::Span(span) = payload else { return payload };
        if let Some(payload) = self.forwarded_payload(host, span) {
            return payload;
        }
        let span = self.global_span(host, span);
        if is_selftest(span.buffer) {
            let sound = self.memory.part(span).map(drop);
            self.require_ok(host, sound);
        }
        Payload::Span(span)
    }

    /// Returns the global name of a node's memory.
    pub(super) fn global_span(&self, host: HostId, span: Span) -> Span {
        Span { buffer: self.global_name(host, span.buffer), ..span }
    }

    fn global_name(&self, host: HostId, name: BufferId) -> BufferId {
        if is_selftest(name) {
            name_of(host, self.incarnation(host), name.0 & !SELFTEST)
        } else {
            name
        }
    }

    fn is_being_written(&self, host: HostId, name: BufferId) -> bool {
        let mut all = self.host(host).connections.values();
        all.any(|(tcp, side)| {
            let connection = self.connections[tcp.0].as_ref();
            connection.is_some_and(|connection| connection.end(*side).stream.will_write(name))
        })
    }

    fn require_ok(&mut self, host: HostId, done: Result<(), String>) {
        if let Err(what) = done {
            self.broken(host, what);
        }
    }
}

/// This bit is set in the names of selftest buffers.
const SELFTEST: u64 = 1 << 63;
const HOST_SHIFT: u32 = 47;
const INCARNATION_SHIFT: u32 = 36;

fn is_selftest(name: BufferId) -> bool {
    name.0 & SELFTEST != 0
}

fn name_of(host: HostId, incarnation: u32, number: u64) -> BufferId {
    BufferId(
        SELFTEST
            | u64::from(host.0) << HOST_SHIFT
            | u64::from(incarnation) << INCARNATION_SHIFT
            | number,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: BufferId = BufferId(1);
    const SINK: BufferId = BufferId(2);

    fn span(buffer: BufferId, offset: u64, len: u32) -> Span {
        Span { buffer, offset, len }
    }

    fn memory() -> Memory {
        let mut memory = Memory::default();
        memory.allocate(SOURCE, 4096, Contents::Good).unwrap();
        memory.allocate(SINK, 4096, Contents::Zeros).unwrap();
        memory
    }

    #[test]
    fn complete_data_pass_one_check() {
        let mut memory = memory();
        memory.store(span(SINK, 0, 100), span(SOURCE, 0, 100)).unwrap();
        memory.store(span(SINK, 100, 28), span(SOURCE, 100, 28)).unwrap();
        assert_eq!(memory.check(span(SINK, 0, 128)), Ok(Ok(())));
        assert!(
            memory.check(span(SINK, 0, 128)).unwrap().is_err(),
            "the first check invalidated it"
        );
    }

    #[test]
    fn gaps_misplaced_data_and_corrupted_sources_are_found() {
        let mut memory = memory();
        memory.store(span(SINK, 8, 8), span(SOURCE, 8, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 16)).unwrap().is_err(), "a gap");
        memory.store(span(SINK, 0, 8), span(SOURCE, 4, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 8)).unwrap().is_err(), "misplaced");
        memory.damage(span(SOURCE, 0, 8)).unwrap();
        memory.store(span(SINK, 0, 8), span(SOURCE, 0, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 8)).unwrap().is_err(), "damaged");
    }

    #[test]
    fn freed_memory_cannot_be_used() {
        let mut memory = memory();
        memory.release(SINK).unwrap();
        assert!(memory.store(span(SINK, 0, 8), span(SOURCE, 0, 8)).is_err());
        assert!(memory.release(SINK).is_err());
    }
}
