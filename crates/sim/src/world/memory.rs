//! The bulk memory of the selftests: of each buffer we know how much of it is good data.
//!
//! Bulk names the memory that it was written from, and nodes name theirs alike: in the network a
//! buffer of a selftest has another name, which no two nodes and no two lives share.

use std::collections::BTreeMap;

use fulmar_base::{BufferId, Payload, Span};
use fulmar_lnet_wire::selftest::{Damage, WORD};
use fulmar_selftest::Contents;

use super::{HostId, World};

/// The buffers of all nodes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Those that were freed stay: what was written from them may still be on its way.
    buffers: BTreeMap<BufferId, Buffer>,
}

#[derive(Debug)]
struct Buffer {
    len: u32,
    /// Good data reach from the start to here.
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

    /// Takes the word that everything from `span` on is spoilt.
    fn damage(&mut self, span: Span) -> Result<(), String> {
        let buffer = self.part(span)?;
        buffer.good = buffer.good.min(span.offset as u32);
        Ok(())
    }

    /// Bytes that were written from `source` reach `sink`.
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

    /// Tells whether all of it is good, and poisons it.
    fn check(&mut self, span: Span) -> Result<Result<(), Damage>, String> {
        let buffer = self.part(span)?;
        let good = std::mem::take(&mut buffer.good);
        let is_good = span.offset + u64::from(span.len) <= u64::from(good);
        let offset = u64::from(good).saturating_sub(span.offset) as usize;
        Ok(if is_good { Ok(()) } else { Err(Damage { offset, got: 0 }) })
    }

    /// Returns how many buffers of a life of a node are not freed.
    fn live_of(&self, host: HostId, life: u32) -> usize {
        let (first, end) = (name_of(host, life, 0), name_of(host, life + 1, 0));
        self.buffers.range(first..end).filter(|(_, buffer)| !buffer.freed).count()
    }

    fn live(&mut self, name: BufferId) -> Result<&mut Buffer, String> {
        let buffer = self.buffers.get_mut(&name).filter(|buffer| !buffer.freed);
        buffer.ok_or_else(|| format!("{name:?} is not allocated"))
    }

    fn part(&mut self, span: Span) -> Result<&mut Buffer, String> {
        let buffer = self.live(span.buffer)?;
        match span.offset + u64::from(span.len) <= u64::from(buffer.len) {
            true => Ok(buffer),
            false => Err(format!("{span:?} leaves its buffer of {} bytes", buffer.len)),
        }
    }
}

impl World {
    /// Returns how many buffers the selftest of a node has.
    pub(crate) fn selftest_buffers(&self, host: HostId) -> usize {
        self.memory.live_of(host, self.life(host))
    }

    pub(super) fn allocate(&mut self, host: HostId, name: BufferId, len: u32, contents: Contents) {
        let name = self.world_name(host, name);
        let done = self.memory.allocate(name, len, contents);
        self.require_sound(host, done);
    }

    pub(super) fn release(&mut self, host: HostId, name: BufferId) {
        let name = self.world_name(host, name);
        if self.is_being_written(host, name) {
            self.broken(host, format!("{name:?} is freed while it is being written"));
        }
        let done = self.memory.release(name);
        self.require_sound(host, done);
    }

    pub(super) fn damage(&mut self, host: HostId, span: Span) {
        let span = self.world_span(host, span);
        let done = self.memory.damage(span);
        self.require_sound(host, done);
    }

    /// Returns what the node finds that looks at its memory.
    pub(super) fn look_at(&mut self, host: HostId, span: Span) -> Result<(), Damage> {
        let span = self.world_span(host, span);
        match self.memory.check(span) {
            Ok(found) => found,
            Err(what) => {
                self.broken(host, what);
                Ok(())
            }
        }
    }

    /// Takes the word that bytes written from `source`, as the network names it, have come to
    /// `sink` of a selftest. Returns false if that is not a selftest's.
    pub(super) fn stored_by_selftest(&mut self, host: HostId, sink: Span, source: Span) -> bool {
        if !is_selftest(sink.buffer) {
            return false;
        }
        let sink = self.world_span(host, sink);
        let done = self.memory.store(sink, source);
        self.require_sound(host, done);
        true
    }

    /// Returns a payload as the network names it.
    pub(super) fn world_payload(&mut self, host: HostId, payload: Payload) -> Payload {
        let Payload::Span(span) = payload else { return payload };
        if let Some(payload) = self.forwarded_payload(host, span) {
            return payload;
        }
        let span = self.world_span(host, span);
        if is_selftest(span.buffer) {
            let sound = self.memory.part(span).map(drop);
            self.require_sound(host, sound);
        }
        Payload::Span(span)
    }

    /// Returns memory of a node as the network names it.
    pub(super) fn world_span(&self, host: HostId, span: Span) -> Span {
        Span { buffer: self.world_name(host, span.buffer), ..span }
    }

    fn world_name(&self, host: HostId, name: BufferId) -> BufferId {
        match is_selftest(name) {
            true => name_of(host, self.life(host), name.0 & !SELFTEST),
            false => name,
        }
    }

    fn is_being_written(&self, host: HostId, name: BufferId) -> bool {
        let mut all = self.host(host).connections.values();
        all.any(|(tcp, side)| {
            let connection = self.connections[tcp.0].as_ref();
            connection.is_some_and(|connection| connection.end(*side).stream.is_to_write(name))
        })
    }

    fn require_sound(&mut self, host: HostId, done: Result<(), String>) {
        if let Err(what) = done {
            self.broken(host, what);
        }
    }
}

/// Set in the names of the buffers of selftests.
const SELFTEST: u64 = 1 << 63;
const HOST_SHIFT: u32 = 47;
const LIFE_SHIFT: u32 = 36;

fn is_selftest(name: BufferId) -> bool {
    name.0 & SELFTEST != 0
}

fn name_of(host: HostId, life: u32, number: u64) -> BufferId {
    BufferId(SELFTEST | u64::from(host.0) << HOST_SHIFT | u64::from(life) << LIFE_SHIFT | number)
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
    fn what_came_whole_is_good_once() {
        let mut memory = memory();
        memory.store(span(SINK, 0, 100), span(SOURCE, 0, 100)).unwrap();
        memory.store(span(SINK, 100, 28), span(SOURCE, 100, 28)).unwrap();
        assert_eq!(memory.check(span(SINK, 0, 128)), Ok(Ok(())));
        assert!(memory.check(span(SINK, 0, 128)).unwrap().is_err(), "it was poisoned");
    }

    #[test]
    fn gaps_wrong_places_and_bad_sources_are_found() {
        let mut memory = memory();
        memory.store(span(SINK, 8, 8), span(SOURCE, 8, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 16)).unwrap().is_err(), "a gap");
        memory.store(span(SINK, 0, 8), span(SOURCE, 4, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 8)).unwrap().is_err(), "beside its place");
        memory.damage(span(SOURCE, 0, 8)).unwrap();
        memory.store(span(SINK, 0, 8), span(SOURCE, 0, 8)).unwrap();
        assert!(memory.check(span(SINK, 0, 8)).unwrap().is_err(), "damaged");
    }

    #[test]
    fn freed_memory_is_not_touched() {
        let mut memory = memory();
        memory.release(SINK).unwrap();
        assert!(memory.store(span(SINK, 0, 8), span(SOURCE, 0, 8)).is_err());
        assert!(memory.release(SINK).is_err());
    }
}
