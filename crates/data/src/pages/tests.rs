use fulmar_lustre_wire::Fid;
use proptest::prelude::*;

use super::*;
use crate::budget::Class;
use crate::stripes::{Object, Target};

const OBJECT: Object =
    Object { target: Target::Ost(0), fid: Fid { seq: 0x2_4000_0400, oid: 1, version: 0 } };
const SIZE: u64 = 64;

struct Rig {
    pages: Pages,
    buffers: Buffers,
}

impl Rig {
    fn new() -> Self {
        Self { pages: Pages::default(), buffers: Buffers::new(1 << 20) }
    }

    fn write(&mut self, range: Range<u64>) -> Memory {
        let len = range.end - range.start;
        let buffer = self.buffers.allocate(Class::WriteBack, len, OBJECT).unwrap();
        let memory = Memory { buffer, offset: 0 };
        self.pages.write(range, memory, &mut self.buffers);
        self.buffers.unpin(buffer);
        memory
    }

    fn read(&mut self, range: Range<u64>, rpc: u64) -> BufferId {
        let len = range.end - range.start;
        let buffer = self.buffers.allocate(Class::Demand, len, OBJECT).unwrap();
        self.pages.expect(range, RpcId(rpc), &mut self.buffers);
        buffer
    }

    fn arrived(&mut self, range: Range<u64>, rpc: u64, buffer: BufferId) {
        let memory = Some(Memory { buffer, offset: 0 });
        self.pages.arrived(range, RpcId(rpc), memory, &mut self.buffers);
        self.buffers.unpin(buffer);
    }

    fn bytes(&self, range: Range<u64>) -> Vec<(Range<u64>, Option<u64>)> {
        let offset = |found| match found {
            PageState::Bytes(memory) => memory.map(|memory: Memory| memory.offset),
            _ => None,
        };
        self.pages.look(range).into_iter().map(|(part, found)| (part, offset(found))).collect()
    }
}

#[test]
fn a_write_during_a_read_is_not_replaced_by_what_arrives() {
    let mut rig = Rig::new();
    let read = rig.read(0..64, 1);
    let written = rig.write(16..32);
    rig.pages.discard(40..48, false, &mut rig.buffers);
    rig.arrived(0..64, 1, read);
    let at = |offset| PageState::Bytes(Some(Memory { buffer: read, offset }));
    let expected = [
        (0..16, at(0)),
        (16..32, PageState::Bytes(Some(written))),
        (32..40, at(32)),
        (40..48, PageState::Missing),
        (48..64, at(48)),
    ];
    assert_eq!(rig.pages.look(0..64), expected);
}

#[test]
fn what_is_written_during_a_write_is_dirty_and_has_other_memory() {
    let mut rig = Rig::new();
    let first = rig.write(0..32);
    let spans = rig.pages.sent(0..32, RpcId(1), &mut rig.buffers);
    assert_eq!(spans, [first.span(32)]);
    let second = rig.write(8..16);
    assert_ne!(first.buffer, second.buffer);
    rig.pages.written(0..32, RpcId(1), true, &mut rig.buffers);
    rig.buffers.unpin(first.buffer);
    assert_eq!(rig.pages.sent(8..16, RpcId(2), &mut rig.buffers), [second.span(8)]);
    // A write that fails is forgotten, what was written since is not.
    let third = rig.write(12..16);
    rig.pages.written(8..16, RpcId(2), false, &mut rig.buffers);
    rig.buffers.unpin(second.buffer);
    let expected = [
        (0..8, PageState::Bytes(Some(first))),
        (8..12, PageState::Missing),
        (12..16, PageState::Bytes(Some(third))),
        (16..32, PageState::Bytes(Some(first.skip(16)))),
    ];
    assert_eq!(rig.pages.look(0..32), expected);
}

#[test]
fn memory_is_kept_as_long_as_something_needs_it() {
    let mut rig = Rig::new();
    let read = rig.read(0..64, 1);
    rig.arrived(0..64, 1, read);
    rig.write(0..64);
    assert_eq!(rig.buffers.budget().used(Class::Demand), 0, "nothing of what was read is left");
    assert_eq!(rig.buffers.budget().used(Class::WriteBack), 64);
    assert_eq!(rig.buffers.coldest(), None, "dirty data are not given up");
    let spans = rig.pages.sent(0..64, RpcId(2), &mut rig.buffers);
    rig.pages.written(0..64, RpcId(2), true, &mut rig.buffers);
    assert_eq!(rig.buffers.coldest(), None, "nor what is kept for a replay");
    rig.buffers.unpin(spans[0].buffer);
    let (coldest, _) = rig.buffers.coldest().unwrap();
    rig.pages.evict(coldest, &mut rig.buffers);
    assert!(rig.pages.is_empty() && rig.buffers.is_empty());
}

#[test]
fn neighbours_in_one_buffer_are_one_piece() {
    let mut rig = Rig::new();
    let buffer = rig.buffers.allocate(Class::WriteBack, SIZE, OBJECT).unwrap();
    for at in [0, 32, 16, 48] {
        rig.pages.write(at..at + 16, Memory { buffer, offset: at }, &mut rig.buffers);
    }
    rig.buffers.unpin(buffer);
    assert_eq!(rig.bytes(0..64), [(0..64, Some(0))]);
    assert_eq!(rig.pages.count(0..64, 9), (1, 64));
    assert!(rig.pages.is_last(63) && !rig.pages.is_last(31));
}

#[test]
fn what_is_behind_the_end_of_an_object_is_zeros() {
    let mut rig = Rig::new();
    let buffer = rig.read(0..64, 1);
    rig.pages.arrived(40..64, RpcId(1), None, &mut rig.buffers);
    rig.arrived(0..40, 1, buffer);
    assert_eq!(rig.bytes(0..64), [(0..40, Some(0)), (40..64, None)]);
    rig.pages.not_arrived(0..64, RpcId(1), &mut rig.buffers);
    assert_eq!(rig.pages.look(40..64), [(40..64, PageState::Bytes(None))]);
}

/// What a byte of the model is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Byte {
    Missing,
    Coming(u64),
    Here(State, u64),
}

/// The pages, what they should be, and the reads and writes under way.
struct Model {
    rig: Rig,
    bytes: [Byte; SIZE as usize],
    reads: Vec<(Range<u64>, u64, BufferId)>,
    writes: Vec<(Range<u64>, u64, Vec<Span>)>,
}

impl Model {
    fn step(&mut self, what: u8, range: Range<u64>, rpc: u64) {
        let bytes = &mut self.bytes[range.start as usize..range.end as usize];
        match what {
            0 => {
                let buffer = self.rig.read(range.clone(), rpc);
                self.reads.push((range, rpc, buffer));
                let gaps = bytes.iter_mut().filter(|byte| **byte == Byte::Missing);
                gaps.for_each(|byte| *byte = Byte::Coming(rpc));
            }
            1 => self.end_read(),
            2 | 3 => {
                let memory = self.rig.write(range);
                bytes.fill(Byte::Here(State::Dirty, memory.buffer.0));
            }
            4 if bytes.iter().all(|byte| matches!(byte, Byte::Here(State::Dirty, _))) => {
                let rpc_id = RpcId(rpc);
                let spans = self.rig.pages.sent(range.clone(), rpc_id, &mut self.rig.buffers);
                for byte in bytes {
                    if let Byte::Here(state, _) = byte {
                        *state = State::Writing(rpc_id);
                    }
                }
                self.writes.push((range, rpc, spans));
            }
            5 => self.end_write(!rpc.is_multiple_of(3)),
            6 => {
                let drops_dirty = rpc.is_multiple_of(2);
                self.rig.pages.discard(range, drops_dirty, &mut self.rig.buffers);
                let goes = |byte: &Byte| match byte {
                    Byte::Here(State::Writing(_), _) => false,
                    Byte::Here(State::Dirty, _) => drops_dirty,
                    _ => true,
                };
                bytes.iter_mut().filter(|byte| goes(byte)).for_each(|byte| *byte = Byte::Missing);
            }
            _ => {}
        }
    }

    fn end_read(&mut self) {
        let Some((range, rpc, buffer)) = self.reads.pop() else { return };
        self.rig.arrived(range, rpc, buffer);
        let coming = self.bytes.iter_mut().filter(|byte| **byte == Byte::Coming(rpc));
        coming.for_each(|byte| *byte = Byte::Here(State::Clean, buffer.0));
    }

    fn end_write(&mut self, is_ok: bool) {
        let Some((range, rpc, spans)) = self.writes.pop() else { return };
        self.rig.pages.written(range, RpcId(rpc), is_ok, &mut self.rig.buffers);
        spans.iter().for_each(|span| self.rig.buffers.unpin(span.buffer));
        for byte in &mut self.bytes {
            match byte {
                Byte::Here(State::Writing(of), buffer) if of.0 == rpc => {
                    let clean = Byte::Here(State::Clean, *buffer);
                    *byte = if is_ok { clean } else { Byte::Missing };
                }
                _ => {}
            }
        }
    }

    fn check(&self) {
        for (part, found) in self.rig.pages.look(0..SIZE) {
            for byte in &self.bytes[part.start as usize..part.end as usize] {
                let is_right = match (found, byte) {
                    (PageState::Missing, Byte::Missing) => true,
                    (PageState::Coming(rpc), Byte::Coming(of)) => rpc.0 == *of,
                    (PageState::Bytes(Some(memory)), Byte::Here(_, buffer)) => {
                        memory.buffer.0 == *buffer
                    }
                    _ => false,
                };
                assert!(is_right, "{part:?}: {found:?} is {byte:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn pages_behave_as_a_list_of_bytes(
        steps in prop::collection::vec((0..7_u8, 0..50_u64, 1..15_u64), 1..60),
    ) {
        let bytes = [Byte::Missing; SIZE as usize];
        let mut model = Model { rig: Rig::new(), bytes, reads: Vec::new(), writes: Vec::new() };
        for (number, (what, start, len)) in steps.into_iter().enumerate() {
            model.step(what, start..start + len, number as u64 + 1);
            model.check();
        }
        while !model.reads.is_empty() {
            model.end_read();
        }
        while !model.writes.is_empty() {
            model.end_write(true);
        }
        model.rig.pages.discard(0..SIZE, true, &mut model.rig.buffers);
        prop_assert!(model.rig.pages.is_empty() && model.rig.buffers.is_empty());
    }
}
